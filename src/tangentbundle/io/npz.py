"""NumPy archives: arrays of points and vectors, or one array a column. Nothing is ever unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import (
    DamagedFileError,
    DTypeError,
    InvalidInputError,
    MemoryLimitError,
    MissingColumnsError,
    ShapeError,
)
from ..memory import require_memory
from .columns import assemble, from_columns, to_columns
from .field import Field, Request
from .names import Columns, find_columns
from .spaces import Globe, Mesh

POINTS = ("points", "vertices", "positions", "coordinates", "X")
VECTORS = ("vectors", "field", "velocity", "velocities", "y")


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """All arrays of an archive; the names of its points and vectors where these are arrays of two or three axes."""

    arrays: dict[str, np.ndarray]
    points: str | None = None
    vectors: str = "vectors"


def read_npz(path: Path, request: Request) -> Field:
    """A field from ``points (n, D)`` and ``vectors (n, D)`` or ``(T, n, D)``, or from arrays such as lat, lon, u, v."""
    arrays = _load(path)
    name, key, faces = _array(arrays, request.points, POINTS), None, None
    if name is None:
        columns = find_columns([n for n, a in arrays.items() if a.ndim in (1, 2)], request)
        field, rows = from_columns(lambda n: _real(arrays[n], n), columns, request)
    else:
        key = None if request.only_points else _array(arrays, request.vectors, VECTORS)
        columns = _columns(arrays, name, key, request)
        vectors = None if key is None else _real(arrays[key], key)
        field, rows = assemble(_real(arrays[name], name), vectors, columns, request)
        faces = arrays.get("faces", arrays.get("triangles"))
    if faces is not None:
        if rows is not None:
            raise InvalidInputError("rows of a mesh cannot be left out: its triangles count them. Clean the mesh.")
        field = replace(field, space=Mesh(field.space.points, faces))
    times = arrays.get("time", arrays.get("times"))
    dated = times is not None and times.dtype.kind == "M" and times.shape == (len(field),)
    origin = ArrayFile(arrays, name, key or "vectors") if rows is None else None
    return replace(field, times=times if dated else None, origin=origin)


def _columns(arrays: dict[str, np.ndarray], name: str, key: str | None, request: Request) -> Columns:
    """Names of the components of an array of points and one of vectors."""
    shape = arrays[name].shape
    if len(shape) != 2:
        raise ShapeError(f"expected points of shape (n, D), got {name} of shape {shape}. Choose: points=('NAME',).")
    notes = [] if request.points else [f"points: array {name}, guessed by name"]
    if key is not None:
        if arrays[key].shape[-len(shape) :] != shape:
            raise ShapeError(
                f"expected one vector a point, {key} of shape {shape} or (times, {shape[0]}, {shape[1]}) as {name}, "
                f"got {arrays[key].shape}."
            )
        notes += [] if request.vectors else [f"vectors: array {key}, guessed by name"]
    elif request.needs_vectors and not request.only_points:
        raise MissingColumnsError(
            f"no array of vectors found; the file has {', '.join(arrays)}. Name it: vectors=('NAME',)."
        )
    axes = tuple("xyz"[: shape[1]]) if shape[1] <= 3 else tuple(f"x{i}" for i in range(shape[1]))
    names = tuple(f"v{a}" for a in axes) if key else ()
    return Columns(axes, names, False, ("",) * len(names), tuple(notes))


def _load(path: Path) -> dict[str, np.ndarray]:
    if not zipfile.is_zipfile(path):
        raise DamagedFileError(f"{path.name} is no readable NumPy archive. Use np.savez(file, points=...).")
    try:
        with zipfile.ZipFile(path) as archive:
            shapes = {name: _shape(archive, name) for name in archive.namelist()}
        need = 16.0 * sum(map(math.prod, shapes.values()))  # numbers become floats
        require_memory(need, f"reading {path.name}", "Split it, or sample rows.")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except MemoryLimitError:
        raise
    except Exception as error:  # NumPy evaluates headers as Python's literals, whose parser has errors of many kinds
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = "Arrays of objects are never read." if "pickle" in text else "Write it anew with np.savez."
        raise DamagedFileError(f"{path.name} is no readable NumPy archive ({text}). {remedy}") from error


def _shape(archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    """The shape that the header of an array says it has."""
    with archive.open(name) as file:
        old = np.lib.format.read_magic(file) == (1, 0)
        return (np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0)(file)[0]


def _array(arrays: dict[str, np.ndarray], asked: Sequence[str], usual: Sequence[str]) -> str | None:
    """The name of an array of two or three axes: the one asked for, or one of the usual names."""
    if asked and (len(asked) > 1 or (asked[0] in arrays and arrays[asked[0]].ndim == 1)):
        return None
    if asked and asked[0] not in arrays:
        raise MissingColumnsError(f"the file has no array {asked[0]}; it has {', '.join(arrays) or 'none'}.")
    return next((name for name in asked or usual if name in arrays and arrays[name].ndim in (2, 3)), None)


def _real(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind not in "fiu":
        raise DTypeError(f"array {name} should hold numbers, got {array.dtype}. Name another.")
    return array.astype(np.float32 if array.dtype == np.float32 else np.float64)


def write_npz(field: Field, path: Path) -> None:
    """The arrays of the file it came from with new vectors, or ``points`` and ``vectors``."""
    origin = field.origin if isinstance(field.origin, ArrayFile) else None
    arrays: dict[str, Any] = dict(origin.arrays) if origin else {}
    squeeze = (lambda a: a[0]) if len(field) == 1 else (lambda a: a)
    if origin.points is None if origin else isinstance(field.space, Globe):
        table = [to_columns(field, k) for k in range(max(len(field), 1))]
        points = set(field.space.names)
        arrays |= {n: table[0][n] if n in points else squeeze(np.stack([t[n] for t in table])) for n in table[0]}
    else:
        points_name, vectors_name = (origin.points, origin.vectors) if origin else ("points", "vectors")
        arrays[str(points_name)] = field.space.points
        if isinstance(field.space, Mesh):
            arrays.setdefault("faces", field.space.faces)
        for name, numbers in ((vectors_name, field.values), (f"{vectors_name}_std", field.std)):
            if numbers is not None:
                arrays[name] = squeeze(numbers)
        arrays |= {name: squeeze(part.array) for name, part in field.parts.items()}
    if field.times is not None and len(field) == len(field.times):
        arrays["time"] = field.times
    with path.open("wb") as file:
        np.savez(file, **arrays)
