"""Fields in arrays of named points and vectors: NumPy archives, which are never unpickled, and data
of meshes."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import (
    DamagedFileError,
    InvalidInputError,
    MemoryLimitError,
    MissingColumnsError,
    Note,
    Remedy,
    ShapeError,
)
from ..memory import require_memory
from .columns import find_columns, from_columns, real, to_columns
from .field import Field, Request
from .names import listed
from .spaces import Globe, Mesh

POINTS = ("points", "vertices", "positions", "coordinates", "X")
VECTORS = ("vectors", "field", "velocity", "velocities", "y")
TIMES = ("time", "times")
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """All arrays of a file, the name of its vectors if they are one array, and that of its
    points."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    vectors: str | None = "vectors"
    points: str | None = "points"


def from_arrays(
    points: np.ndarray,
    data: Arrays,
    request: Request,
    notes: list[Note],
    faces: np.ndarray | None = None,
) -> Field:
    """A field of points ``(n, D)``, on a mesh if there are triangles ``faces`` ``(f, 3)``.

    Vectors are an array of the shape of the points, or ``(T, n, D)``; or one array ``(n,)`` for
    each component.
    """
    if points.ndim != 2:
        raise ShapeError(
            f"expected points of shape (n, D), got {points.shape}.",
            Remedy("Choose: {points}.", points=("NAME",)),
        )
    if faces is not None:
        if points.shape[1] != 3:
            raise ShapeError(
                f"a mesh needs points of shape (n, 3), got {points.shape}. Add a zero coordinate."
            )
        points, data, faces = _merged(points, data, faces, request, notes)
    n, dims = points.shape
    axes = tuple("xyz"[:dims]) if dims <= 3 else tuple(f"x{i}" for i in range(dims))
    columns = {name: a for name, a in data.items() if a.shape == (n,)} | dict(
        zip(axes, points.T, strict=True)
    )
    asked, array = replace(request, points=axes, latlon=()), _vector_array(data, points, request)
    if array is not None:
        if not request.vectors:
            notes.append(Note(f"vectors: array {array}, guessed by name and shape"))
        asked = replace(asked, vectors=tuple(f"v{axis}" for axis in axes))
        columns |= zip(asked.vectors, np.moveaxis(real(data[array], array), -1, 0), strict=True)
    found = find_columns([*columns], asked)
    field, rows = from_columns(lambda name: real(columns[name], name), found, asked, data)
    if rows is not None and faces is not None:
        raise InvalidInputError(
            "vertices of a mesh cannot be left out: its triangles need them. Fill in the numbers."
        )
    space = field.space if faces is None else Mesh(field.space.points, faces)
    return replace(
        field,
        space=space,
        notes=(*notes, *field.notes),
        origin=ArrayFile(_at_rows(data, rows, points.shape, len(field)), array),
    )


def first_at_place(points: np.ndarray) -> np.ndarray:
    """For each point ``(n, D)`` the number of the first one at the same place."""
    _, first, place = np.unique(points, axis=0, return_index=True, return_inverse=True)
    return first[place.ravel()]


def _merged(
    points: np.ndarray, data: Arrays, faces: np.ndarray, request: Request, notes: list[Note]
) -> tuple[np.ndarray, Arrays, np.ndarray]:
    """A mesh with each vertex once, with the data of the first at its place; refused unless
    ``drop_duplicates``."""
    n, first = len(points), first_at_place(points)
    rows = np.unique(first)
    if len(rows) == n:
        return points, data, faces
    if not request.drop_duplicates:
        raise InvalidInputError(
            f"vertices of the mesh that coincide with an earlier one: {n - len(rows)} of {n}.",
            Remedy("Merge them with {drop_duplicates}.", drop_duplicates=True),
        )
    from ..geometry.halfedges import check_corners

    corners = np.searchsorted(rows, first)[check_corners(faces, n)]
    proper = (corners != np.roll(corners, 1, axis=1)).all(axis=1)
    merged = f"vertices merged with an earlier one at the same place: {n - len(rows)}"
    notes.append(Note(merged))
    if not proper.all():
        notes.append(Note(f"triangles left out, as their corners coincide: {(~proper).sum()}"))
    others = {name: a for name, a in data.items() if a is not faces}
    return points[rows], _at_rows(others, rows, points.shape), corners[proper]


def _at_rows(
    data: Arrays, rows: np.ndarray | None, shape: tuple[int, ...], fields: int = 0
) -> dict[str, np.ndarray]:
    """All arrays, or, if only some points are used, these points of the arrays that have a value
    for each.

    ``shape`` is that of the points, ``(n, D)`` or ``(n,)``, and ``fields`` the number of times if
    there are several.
    """
    if rows is None:
        return dict(data)
    new = {}
    for name, array in data.items():
        axis = None if name in TIMES and array.shape == (fields,) else _point_axis(array, shape)
        new[name] = array if axis is None else array.take(rows, axis)
    return new


def _point_axis(array: np.ndarray, shape: tuple[int, ...]) -> int | None:
    """The axis of an array along points of a shape ``(n, D)`` or ``(n,)``; None if it has none, as
    numbers of a file.

    Of several axes of this length it is the one of vectors ``(T, n, D)``, otherwise the first.
    """
    n = shape[0]
    if len(shape) == 2 and array.ndim == 3 and array.shape[1:] == shape:
        return 1
    return next((axis for axis in (0, 1) if array.shape[axis : axis + 1] == (n,)), None)


def vector_arrays(data: Arrays, points: np.ndarray) -> list[str]:
    """Names of arrays that are vectors at points: no normals, no texture coordinates."""
    same = [name for name, a in data.items() if a.shape[-2:] == points.shape and a.ndim <= 3]
    return [
        name for name in same if "normal" not in name.lower() and name not in ("obj:vn", "obj:vt")
    ]


def _vector_array(data: Arrays, points: np.ndarray, request: Request) -> str | None:
    """The name of the array of vectors, as asked or guessed; None if components have arrays of
    their own."""
    arrays, asked = vector_arrays(data, points), request.vectors
    usual = [name for name in VECTORS if name in arrays] or arrays
    if request.only_points or len(asked) > 1:
        return None
    if not (asked or usual):
        if wrong := [
            f"{name} {data[name].shape}" for name in VECTORS if name in data and data[name].ndim > 1
        ]:
            raise ShapeError(
                f"vectors must have the shape of the points {points.shape}, or (T, n, D), got "
                f"{wrong[0]}."
            )
        return None
    if asked and asked[0] not in arrays:
        shapes = listed([f"{name} {a.shape}" for name, a in data.items()])
        raise MissingColumnsError(
            f"there are no vectors {asked[0]} for points {points.shape}; there are {shapes}."
        )
    if not asked and usual is arrays and len(arrays) > 1:
        raise MissingColumnsError(
            f"there are several vectors: {listed(arrays)}.",
            Remedy("Choose: {vectors}.", vectors=("NAME",)),
        )
    return (asked or usual)[0]


def to_arrays(field: Field, columns: bool = False) -> dict[str, np.ndarray]:
    """The arrays of the file that a field came from, with its vectors, standard deviations and
    parts.

    Vectors are one array, or one for each component with ``columns``, on the globe, and where the
    file had them so.
    """
    origin = field.origin if isinstance(field.origin, ArrayFile) else ArrayFile()
    data = dict(origin.arrays)
    if field.values is None:
        return data
    if columns or origin.vectors is None or isinstance(field.space, Globe):
        table = [to_columns(field, k) for k in range(len(field))]
        new = {n: np.stack([t[n] for t in table]) for n in table[0] if n not in field.space.names}
    else:
        parts = {name: np.asarray(part.values) for name, part in field.parts.items()}
        new = {origin.vectors: field.values} | {
            n: a[..., 0] if a.shape[-1] == 1 else a for n, a in parts.items()
        }
        new |= {f"{origin.vectors}_std": field.std} if field.std is not None else {}
    return data | {
        name: np.ascontiguousarray(a[0] if len(field) == 1 else a) for name, a in new.items()
    }


def read_npz(path: Path, request: Request) -> Field:
    """A field from ``points (n, D)`` and ``vectors (n, D)`` or ``(T, n, D)``, or from arrays such
    as lat, lon, u, v."""
    arrays = _load(path)
    asked = (
        request.points
        if len(request.points) == 1
        else ()
        if request.points or request.latlon
        else POINTS
    )
    name = next((n for n in asked if n in arrays and arrays[n].ndim > 1), None)
    if name is None:
        columns = find_columns([n for n, a in arrays.items() if a.ndim in (1, 2)], request)
        field, rows = from_columns(lambda n: real(arrays[n], n), columns, request, arrays)
        origin = ArrayFile(
            _at_rows(arrays, rows, arrays[columns.points[0]].shape, len(field)), None, None
        )
    else:
        notes = [] if request.points else [Note(f"points: array {name}, guessed by name")]
        points, faces = real(arrays.pop(name), name), arrays.get("faces", arrays.get("triangles"))
        field = from_arrays(points, arrays, request, notes, faces)
        origin = replace(field.origin, points=name)
    times = arrays.get("time", arrays.get("times"))
    dated = times is not None and times.dtype.kind == "M" and times.shape == (len(field),)
    return replace(field, times=times if dated else None, origin=origin)


def _load(path: Path) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
        require_memory(2.0 * size, f"reading {path.name}", "Split it, or sample rows.")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        for name, value in arrays.items():
            if not isinstance(value, np.ndarray):  # NumPy gives the bytes of other members
                raise ValueError(f"its member {name} is no array")
        return arrays
    except MemoryLimitError:
        raise
    # NumPy evaluates headers as Python's literals, whose parser has errors of many kinds
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedFileError(
            f"{path.name} is not a readable NumPy archive ({reason}).",
            "Write it anew with np.savez, without arrays of objects: these are never read.",
        ) from error


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
        arrays["times" if "times" in arrays and "time" not in arrays else "time"] = field.times
    with path.open("wb") as file:
        np.savez(file, **arrays)
