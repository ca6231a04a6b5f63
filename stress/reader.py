"""Fuzzing one file reader, in a process of its own: ``python -m stress.reader NAME INPUTS``.

With atheris (libFuzzer, guided by coverage of the readers' Python code) for the formats that Python
parses, and with random mutations of sound files for those that compiled libraries parse, or where
there is no atheris.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import resource
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .tally import Tally, nothing_forbidden

MEMORY = 6 << 30
"""Bytes of address space for a fuzzing process: more is a blow-up."""

with contextlib.suppress(ImportError):
    import atheris


@dataclass(frozen=True)
class Reader:
    """A reader of files: sound files to start from, and a check of whatever it reads."""

    suffix: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], Any]
    guided: bool = False


def read_field_file(path: Path) -> None:
    """A field with finite numbers and matching shapes, unusable rows refused or left out."""
    from tangentbundle.io import Request, read_field

    whole = path.stat().st_size % 2 == 0  # either way of treating unusable rows
    field = read_field(
        path, Request(drop_missing=whole, drop_duplicates=whole, needs_vectors=False)
    )
    points = field.space.points
    assert points.ndim == 2 and len(points) >= 3 and np.isfinite(points).all(), (
        "points are not sound"
    )
    assert field.values is None or field.values.shape[1] == len(points), (
        "vectors do not fit the points"
    )
    assert field.values is None or np.isfinite(field.values).all(), "vectors are not finite"


@cache
def _cloud() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((6, 3)).round(3), rng.standard_normal((6, 3)).round(3)


def field_seeds(suffix: str, **other: bytes) -> list[bytes]:
    """A small field written by the library itself."""
    from tangentbundle.io import Field, write_field
    from tangentbundle.spaces import Cloud, Globe, Mesh

    points, vectors = _cloud()
    faces = np.array([[0, 1, 2], [2, 3, 4], [3, 4, 5]])
    fields = [
        Field(
            Mesh(points, faces) if suffix in MESHES else Cloud(points, ("x", "y", "z")),
            vectors[None],
        )
    ]
    if suffix not in MESHES:
        globe = Globe(30 * points[:, 0].clip(-2, 2), 60 * points[:, 1])
        fields.append(Field(globe, vectors[None, :, :2]))
    contents = []
    with tempfile.TemporaryDirectory() as folder:
        for field in fields:
            path = Path(folder) / f"seed{suffix}"
            write_field(field, path)
            contents.append(path.read_bytes())
    return contents


MESHES = (".ply", ".vtk", ".vtu", ".vtp", ".xdmf", ".glb")
OBJ = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 3 4\n"
FACET = (
    b"facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n"
)
STL = b"solid x\n" + FACET + b"endsolid x\n"
TELLING = (b"nan", b"1e999", b"-1", b"99999999999999", b"\x00", b"\xff\xff", b"\n", b",", b'"')

HEADER = {"experiment": "toy", "seed": 0}


@cache
def _ledger() -> tuple[bytes, list[dict]]:
    from harness.ledger import Ledger

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "results.jsonl", HEADER, resume=False)
        for n in range(4):
            ledger.append({"n": n}, [{"method": m, "mse": 0.1 * n + 0.01} for m in ("a", "b")])
        return ledger.path.read_bytes(), ledger.rows


def read_ledger(path: Path) -> None:
    """Whatever is accepted was written: no row of a damaged file is a new one."""
    from harness.ledger import Ledger

    rows = Ledger(path, HEADER, resume=True).rows
    assert all(row in _ledger()[1] for row in rows), "a changed row was taken for a result"


@cache
def _model() -> tuple[bytes, Any]:
    import tangentbundle as tb

    net = tb.nn.TNN([1, 2, 1], seed=1)
    with tempfile.TemporaryDirectory() as folder:
        tb.save(net, Path(folder) / "net")
        return (Path(folder) / "net").read_bytes(), net


def read_model(path: Path) -> None:
    """Whatever is accepted has the weights that were written."""
    import torch

    import tangentbundle as tb

    again, net = tb.load(path), _model()[1]
    pairs = zip(again.parameters(), net.parameters(), strict=True)
    assert repr(again) == repr(net) and all(torch.equal(a, b) for a, b in pairs), (
        "a changed network was loaded"
    )


READERS = {
    "CSV": Reader(".csv", lambda: field_seeds(".csv"), read_field_file, guided=True),
    "NPZ": Reader(".npz", lambda: field_seeds(".npz"), read_field_file, guided=True),
    "PLY": Reader(".ply", lambda: field_seeds(".ply"), read_field_file, guided=True),
    "JSON lines": Reader(".jsonl", lambda: [_ledger()[0]], read_ledger, guided=True),
    "model": Reader(".safetensors", lambda: [_model()[0]], read_model),
    "VTK": Reader(".vtk", lambda: field_seeds(".vtk"), read_field_file),
    "VTU": Reader(".vtu", lambda: field_seeds(".vtu"), read_field_file),
    "VTP": Reader(".vtp", lambda: field_seeds(".vtp"), read_field_file),
    "XDMF": Reader(".xdmf", lambda: field_seeds(".xdmf"), read_field_file),
    "glTF": Reader(".glb", lambda: field_seeds(".glb"), read_field_file),
    "OBJ": Reader(".obj", lambda: [OBJ], read_field_file),
    "STL": Reader(".stl", lambda: [STL], read_field_file),
    "Parquet": Reader(".parquet", lambda: field_seeds(".parquet"), read_field_file),
    "NetCDF": Reader(".nc", lambda: field_seeds(".nc"), read_field_file),
}


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """A sound file with a few bytes flipped, left out, doubled, cut off or replaced by telling
    ones."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        if not data:
            break
        a, b = sorted(rng.integers(0, len(data) + 1, 2))
        b = min(b, a + int(rng.integers(1, 40)))
        how = rng.integers(6)
        if how == 0:
            data[min(a, len(data) - 1)] ^= 1 << int(rng.integers(8))
        elif how == 1:
            del data[a:b]
        elif how == 2:
            data[a:a] = data[a:b]
        elif how == 3 and rng.random() < 0.3:
            del data[a:]
        elif how == 4:
            data[a:b] = rng.bytes(b - a)
        else:
            data[a:b] = TELLING[rng.integers(len(TELLING))]
    return bytes(data)


def try_content(tally: Tally, reader: Reader, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with contextlib.redirect_stderr(io.StringIO()):  # meshio prints
        tally.try_out(lambda: reader.read(path), content[:200])


def mutate(name: str, inputs: int, seed: int = 0) -> Tally:
    """Random mutations in this process."""
    reader, tally, rng = READERS[name], Tally(f"{name} (mutations)"), np.random.default_rng(seed)
    seeds = reader.seeds()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), nothing_forbidden():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"input{reader.suffix}"
        for content in seeds:
            try_content(tally, reader, path, content)
        assert tally.results == len(seeds), f"{name}: the sound files are refused: {tally.errors}"
        while tally.inputs < inputs:
            try_content(tally, reader, path, mutated(seeds[rng.integers(len(seeds))], rng))
    logging.disable(logging.NOTSET)
    return tally


def guide(name: str, inputs: int, report: Path) -> None:
    """libFuzzer, guided by coverage; never returns, so that the tally is written as it grows."""
    with atheris.instrument_imports(include=["tangentbundle.io", "harness.ledger", "meshio"]):
        import meshio  # noqa: F401

        import tangentbundle.io  # noqa: F401
    reader, tally = READERS[name], Tally(f"{name} (atheris)")
    folder = Path(tempfile.mkdtemp())
    corpus, path = folder / "corpus", folder / f"input{reader.suffix}"
    corpus.mkdir()
    for number, content in enumerate(reader.seeds()):
        (corpus / str(number)).write_bytes(content)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)

    def one(content: bytes) -> None:
        try:
            with nothing_forbidden():
                try_content(tally, reader, path, content)
        finally:
            if tally.failures or tally.inputs % 100 == 0 or tally.inputs >= inputs:
                report.write_text(json.dumps({**tally.row(), "failed": tally.failures}))

    options = [
        f"-runs={inputs}",
        "-timeout=300",
        "-seed=1",
        "-max_len=4096",
        "-rss_limit_mb=4096",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], str(corpus), *options, f"-artifact_prefix={folder}/"], one)
    atheris.Fuzz()


def main() -> None:
    name, inputs, report = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if READERS[name].guided and "atheris" in globals():
        guide(name, inputs, report)
    tally = Tally(name)
    try:
        tally = mutate(name, inputs)
    finally:
        report.write_text(json.dumps({**tally.row(), "failed": tally.failures}))


if __name__ == "__main__":
    main()
