"""Outputs that exist: links, modes, files of other kinds, folders of the user, stores, in every
format."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tangentbundle.errors import OutputError
from tangentbundle.io import Field, read_field, write_field
from tangentbundle.spaces import Cloud

from .tally import Tally

SUFFIXES = (
    ".csv",
    ".txt",
    ".tsv",
    ".parquet",
    ".pq",
    ".npz",
    ".ply",
    ".vtk",
    ".vtu",
    ".vtp",
    ".xdmf",
    ".nc",
    ".nc4",
    ".zarr",
)


def write(path: Path, version: float) -> None:
    points = np.random.default_rng(0).standard_normal((20, 3))
    with contextlib.redirect_stderr(io.StringIO()):  # meshio prints
        write_field(Field(Cloud(points, ("x", "y", "z")), np.full((1, 20, 3), version)), path)


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything in a folder: content, mode and target of links."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        content = (
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        )
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def output(suffix: str) -> Callable[[Path], None]:
    """An output of the library, whatever the name of the file."""

    def make(path: Path) -> None:
        write(path.with_name(f"other{suffix}"), 1.0)
        path.with_name(f"other{suffix}").rename(path)

    return make


def folder_of_user(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")


EXISTING: dict[str, Callable[[Path], Any]] = {
    **{f"output {suffix}": output(suffix) for suffix in SUFFIXES},
    "binary file": lambda path: path.write_bytes(b"\0\1\2"),
    "empty file": lambda path: path.touch(),
    "empty folder": lambda path: path.mkdir(),
    "folder": folder_of_user,
    "pipe": os.mkfifo,
    "loop": lambda path: path.symlink_to(path),
    "dangling link": lambda path: path.symlink_to(path.with_name("target")),
}


def attempt(folder: Path, suffix: str, make: Callable[[Path], Any], linked: bool) -> None:
    """Written, with links and mode as they were, or refused with nothing changed."""
    path = folder / f"out{suffix}"
    real = folder / f"real{suffix}" if linked else path
    make(real)
    if linked:
        path.symlink_to(real)
    if real.exists():
        real.chmod(0o700 if real.is_dir() else 0o600)
    before = snapshot(folder)
    try:
        write(path, 2.0)
    except OutputError:
        assert snapshot(folder) == before, "a refused output was changed"
        raise
    after = snapshot(folder)
    assert float(read_field(path).values.mean()) == 2.0, "the output is not there"
    assert not linked or after[path.name] == before[path.name], "the link was replaced"
    if real.name in before and not real.is_symlink():
        assert after[real.name][0] == before[real.name][0], "the mode was changed"
    assert not [name for name in after if name.startswith(".")], "temporary files were left"


def run(share: float = 1.0) -> list[dict[str, Any]]:
    rows, rng = [], np.random.default_rng(0)
    for name, make in EXISTING.items():
        tally = Tally(f"existing {name}")
        for suffix, linked in itertools.product(SUFFIXES, (False, True)):
            if rng.random() < share:
                with tempfile.TemporaryDirectory() as folder:
                    case = functools.partial(attempt, Path(folder), suffix, make, linked)
                    tally.try_out(case, (suffix, linked))
        rows.append(tally.row())
    return rows
