"""Read and write a field, in the format of the suffix."""

from __future__ import annotations

from pathlib import Path

from ..errors import InvalidInputError, OutputError
from ..files import check_place, replacing
from ..formats import Format, format_of
from .field import Field, Request

AXES = ("", "x", "y", "z")
"""What ``Request.up`` may be."""

Y_UP = (".obj", ".gltf", ".glb")
"""Formats whose y axis points up, by their definition or nearly always."""


def read_field(path: str | Path, request: Request | None = None) -> Field:
    """Read a vector field, or points, from a file.

    Args:
        path: a file in one of ``tangentbundle.formats.FORMATS``, by its suffix.
        request: names of columns and what to do with unusable rows; by default columns are guessed
            by name (see ``Field.notes``) and unusable rows are refused. Meshes without vectors are
            read unless it says ``needs_vectors``: ``values`` is None then.
    """
    source, file_format = check_input(path)
    if request is None:
        request = Request(needs_vectors=not file_format.holds_meshes)
    if request.up not in AXES:
        raise InvalidInputError(argument="up", expected="x, y or z", received=repr(request.up))
    if source.is_dir() and source.suffix.lower() != ".zarr":
        raise InvalidInputError(f"{source} is a folder, not a file. Give one of its files.")
    if request.select and not file_format.holds_datasets:
        raise InvalidInputError(
            f"chooses from the dimensions of NetCDF and Zarr files, not {source.name}.",
            argument="select",
        )
    try:
        field = file_format.read(source, request)
    except OSError as error:
        raise InvalidInputError(
            f"{source} cannot be read: {error.strerror or error}. Check the path."
        ) from error
    if request.up:
        field.space.up = request.up
    elif source.suffix.lower() in Y_UP:
        field.space.up = "y"
    return field


def check_input(path: str | Path) -> tuple[Path, Format]:
    """The path and the format of a file to read, or of NetCDF files by a pattern; refused if there
    is none."""
    source = Path(path).expanduser()
    file_format = format_of(source)
    try:
        exists = source.exists()
        if not exists and file_format.holds_datasets:
            exists = any(source.parent.glob(source.name))
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{source!s:.200} cannot be read: {error!s:.200}. Check the path."
        ) from error
    if not exists:
        raise InvalidInputError(f"no such file: {source}. Check the path.")
    return source, file_format


def check_output(field: Field | None, path: str | Path, count: int | None = None) -> None:
    """Refuse, before any work, an output that cannot be written, or a folder that must not be
    overwritten.

    ``count`` is the number of fields that will be written at the points of ``field``; by default
    its own.
    """
    target = Path(path).expanduser()
    file_format = format_of(target)
    check_place(target)
    if field is not None:
        file_format.check_output(field, target, len(field) if count is None else count)


def write_field(field: Field, path: str | Path) -> None:
    """Write a field in the format of the suffix, atomically."""
    target = Path(path).expanduser()
    check_output(field, target)
    if field.values is None:
        raise OutputError("there are no vectors to write.")
    with replacing(target) as place:
        format_of(target).write(field, place)
