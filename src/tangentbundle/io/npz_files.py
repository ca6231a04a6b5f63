"""NumPy archives, which are never unpickled: points and vectors as arrays, or one array for each
column."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import DamagedFileError, MemoryLimitError, Note
from ..memory import require_memory
from .arrays import TIMES, ArrayFile, at_rows, from_arrays, to_arrays
from .columns import find_columns, from_columns, real
from .field import Field, Request
from .spaces import Globe, Mesh

POINTS = ("points", "vertices", "positions", "coordinates", "X")
"""Usual names of the array of points."""

FACES = ("faces", "triangles")
"""Usual names of the array of triangles."""


def read(path: Path, request: Request) -> Field:
    """A field from ``points (n, D)`` and ``vectors (n, D)`` or ``(T, n, D)``, or from arrays such
    as lat, lon, u, v."""
    arrays = _load(path)
    name = _points_array(arrays, request)
    if name is None:
        field = _from_columns(arrays, request)
    else:
        notes = []
        if not request.points:
            notes.append(Note(f"points: array {name}, guessed by name"))
        points = real(arrays.pop(name), name)
        faces = _first_of(FACES, arrays)
        field = from_arrays(points, arrays, request, notes, faces)
        field = replace(field, origin=replace(field.origin, points=name))
    times = _first_of(TIMES, arrays)
    if times is None or times.dtype.kind != "M" or times.shape != (len(field),):
        return field
    return replace(field, times=times)


def _points_array(arrays: dict[str, np.ndarray], request: Request) -> str | None:
    """The name of the array of points, if they are one array."""
    names: tuple[str, ...] = ()
    if len(request.points) == 1:
        names = request.points
    elif not (request.points or request.latlon):
        names = POINTS
    for name in names:
        if name in arrays and arrays[name].ndim > 1:
            return name
    return None


def _from_columns(arrays: dict[str, np.ndarray], request: Request) -> Field:
    """A field from one array for each column."""
    names = [name for name, array in arrays.items() if array.ndim in (1, 2)]
    columns = find_columns(names, request)
    field, rows = from_columns(lambda name: real(arrays[name], name), columns, request, arrays)
    shape = arrays[columns.points[0]].shape
    used = at_rows(arrays, rows, shape, len(field))
    return replace(field, origin=ArrayFile(used, vectors=None, points=None))


def _first_of(names: tuple[str, ...], arrays: dict[str, np.ndarray]) -> np.ndarray | None:
    """The first of these arrays that is there."""
    for name in names:
        if name in arrays:
            return arrays[name]
    return None


def _load(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an archive, if they fit into memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        require_memory(2.0 * size, f"reading {path.name}", "Split it, or sample rows.")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        for name, value in arrays.items():
            if not isinstance(value, np.ndarray):  # NumPy gives the bytes of other members
                raise ValueError(f"its member {name} is no array")
    except MemoryLimitError:
        raise
    # NumPy evaluates headers as Python's literals, whose parser has errors of many kinds
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DamagedFileError(
            f"{path.name} is not a readable NumPy archive ({reason}).",
            "Write it anew with np.savez, without arrays of objects: these are never read.",
        ) from error
    return arrays


def write(field: Field, path: Path) -> None:
    """The arrays of the file it came from with new vectors, or ``points`` and ``vectors``."""
    arrays = to_arrays(field)
    points = field.origin.points if isinstance(field.origin, ArrayFile) else "points"
    if points is None or isinstance(field.space, Globe):
        arrays |= zip(field.space.names, field.space.coordinates.T, strict=True)
    else:
        arrays[points] = field.space.points
    if isinstance(field.space, Mesh):
        arrays.setdefault("faces", field.space.faces)
    if field.times is not None and len(field) == len(field.times):
        name = "time"
        if "times" in arrays and "time" not in arrays:
            name = "times"
        arrays[name] = field.times
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
