"""Formats by suffix: one function to read, one to write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidInputError, OutputError
from ..files import check_place, replacing
from .arrays import read_npz, write_npz
from .datasets import read_dataset, write_dataset
from .field import Field, Request
from .meshes import check_mesh_output, read_mesh, write_mesh
from .tables import read_csv, read_parquet, write_csv, write_parquet


@dataclass(frozen=True)
class Format:
    """How files with these suffixes are read and written, and whether they hold several fields."""

    suffixes: tuple[str, ...]
    read: Callable[[Path, Request], Field]
    write: Callable[[Field, Path], None]
    several: bool = False
    holds_datasets: bool = False


FORMATS = (
    Format((".csv", ".txt", ".tsv"), read_csv, write_csv),
    Format((".parquet", ".pq"), read_parquet, write_parquet),
    Format((".npz",), read_npz, write_npz, several=True),
    Format((".ply", ".obj", ".stl", ".vtk", ".vtu"), read_mesh, write_mesh),
    Format(
        (".nc", ".nc4", ".cdf", ".zarr"),
        read_dataset,
        write_dataset,
        several=True,
        holds_datasets=True,
    ),
)


def format_of(path: Path) -> Format:
    """The format of a file, by its suffix."""
    for form in FORMATS:
        if path.suffix.lower() in form.suffixes:
            return form
    known = " ".join(suffix for form in FORMATS for suffix in form.suffixes)
    raise InvalidInputError(
        f"unknown format {path.suffix or 'without a suffix'!r} of {path.name}. Known: {known}."
    )


def read_field(path: str | Path, request: Request | None = None) -> Field:
    """Read a vector field, or points, from a file.

    Args:
        path: CSV, Parquet, NPZ, PLY, OBJ, STL, VTK, NetCDF or Zarr, by its suffix.
        request: names of columns and what to do with unusable rows; by default columns are guessed
            by name (see ``Field.notes``) and unusable rows are refused.
    """
    request = request or Request()
    if request.up not in ("", "x", "y", "z"):
        raise InvalidInputError(argument="up", expected="x, y or z", received=repr(request.up))
    source, form = check_input(path)
    if source.is_dir() and source.suffix.lower() != ".zarr":
        raise InvalidInputError(f"{source} is a folder, not a file. Give one of its files.")
    try:
        if request.select and not form.holds_datasets:
            raise InvalidInputError(
                f"chooses from the dimensions of NetCDF and Zarr files, not {source.name}.",
                argument="select",
            )
        field = form.read(source, request)
    except OSError as error:
        raise InvalidInputError(
            f"{source} cannot be read: {error.strerror or error}. Check the path."
        ) from error
    field.space.up = request.up or ("y" if source.suffix.lower() == ".obj" else "z")
    return field


def check_input(path: str | Path) -> tuple[Path, Format]:
    """The path and the format of a file to read, or of NetCDF files by a pattern; refused if there
    is none."""
    source = Path(path).expanduser()
    form = format_of(source)
    try:
        if source.exists() or (form.holds_datasets and any(source.parent.glob(source.name))):
            return source, form
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{source!s:.200} cannot be read: {error!s:.200}. Check the path."
        ) from error
    raise InvalidInputError(f"no such file: {source}. Check the path.")


def check_output(field: Field | None, path: str | Path, count: int | None = None) -> None:
    """Refuse, before any work, an output that cannot be written, or a folder that must not be
    overwritten.

    ``count`` is the number of fields that will be written at the points of ``field``; by default
    its own.
    """
    target = Path(path).expanduser()
    form = format_of(target)
    check_place(target)
    if field is None:
        return
    count = len(field) if count is None else count
    if count > 1 and not form.several:
        raise OutputError(
            f"{target.suffix} files hold one field, but there are {count}. Write .nc, .zarr or "
            ".npz."
        )
    if form.write is write_mesh:
        check_mesh_output(field, target)


def write_field(field: Field, path: str | Path) -> None:
    """Write a field in the format of the suffix, atomically."""
    target = Path(path).expanduser()
    check_output(field, target)
    if field.values is None:
        raise OutputError("there are no vectors to write.")
    with replacing(target) as place:
        format_of(target).write(field, place)
