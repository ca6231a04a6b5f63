"""NumPy archives: arrays of points and vectors, or one array a column. Nothing is ever unpickled."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DamagedFileError, InvalidInputError, MemoryLimitError
from ..memory import require_memory
from .arrays import ArrayFile, from_arrays, real, to_arrays
from .columns import from_columns
from .field import Field, Request
from .names import find_columns
from .spaces import Globe, Mesh

POINTS = ("points", "vertices", "positions", "coordinates", "X")


def read_npz(path: Path, request: Request) -> Field:
    """A field from ``points (n, D)`` and ``vectors (n, D)`` or ``(T, n, D)``, or from arrays such as lat, lon, u, v."""
    arrays, notes, array = _load(path), [], None
    asked = request.points if len(request.points) == 1 else () if request.points or request.latlon else POINTS
    name = next((n for n in asked if n in arrays and arrays[n].ndim > 1), None)
    if name is None:
        columns = find_columns([n for n, a in arrays.items() if a.ndim in (1, 2)], request)
        field, rows = from_columns(lambda n: real(arrays[n], n), columns, request)
    else:
        notes += [] if request.points else [f"points: array {name}, guessed by name"]
        others = {n: a for n, a in arrays.items() if n != name}
        field, rows, array = from_arrays(real(arrays[name], name), others, replace(request, points=()), notes)
        if (faces := arrays.get("faces", arrays.get("triangles"))) is not None:
            if rows is not None:
                raise InvalidInputError("rows of a mesh cannot be left out: its triangles count them. Clean the mesh.")
            field = replace(field, space=Mesh(field.space.points, faces))
    times = arrays.get("time", arrays.get("times"))
    dated = times is not None and times.dtype.kind == "M" and times.shape == (len(field),)
    origin = ArrayFile(arrays, array, name) if rows is None else None
    return replace(field, times=times if dated else None, origin=origin)


def _load(path: Path) -> dict[str, np.ndarray]:
    if not zipfile.is_zipfile(path):
        raise DamagedFileError(f"{path.name} is no readable NumPy archive. Use np.savez(file, points=...).")
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
        require_memory(2.0 * size, f"reading {path.name}", "Split it, or sample rows.")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except MemoryLimitError:
        raise
    except Exception as error:  # NumPy evaluates headers as Python's literals, whose parser has errors of many kinds
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = "Arrays of objects are never read." if "pickle" in text else "Write it anew with np.savez."
        raise DamagedFileError(f"{path.name} is no readable NumPy archive ({text}). {remedy}") from error


def write_npz(field: Field, path: Path) -> None:
    """The arrays of the file it came from with new vectors, or ``points`` and ``vectors``."""
    arrays: dict[str, Any] = to_arrays(field)
    points = field.origin.points if isinstance(field.origin, ArrayFile) else "points"
    if points is None or isinstance(field.space, Globe):
        arrays |= zip(field.space.names, field.space.coordinates.T, strict=True)
    else:
        arrays[points] = field.space.points
    if isinstance(field.space, Mesh):
        arrays.setdefault("faces", field.space.faces)
    if field.times is not None and len(field) == len(field.times):
        arrays["time"] = field.times
    with path.open("wb") as file:
        np.savez(file, **arrays)
