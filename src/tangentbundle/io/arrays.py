"""Fields in arrays of named points and vectors, as NumPy archives and meshes have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import InvalidInputError, MissingColumnsError, Note, Remedy, ShapeError
from .columns import find_columns, from_columns, real, to_columns
from .field import Field, Request
from .names import listed
from .spaces import Globe, Mesh

VECTORS = ("vectors", "field", "velocity", "velocities", "y")
"""Usual names of arrays of vectors."""

TIMES = ("time", "times")

TEXTURES = ("obj:vn", "obj:vt")
"""What meshio calls normals and texture coordinates."""

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
    axes = _axis_names(dims)
    columns = {name: array for name, array in data.items() if array.shape == (n,)}
    columns |= dict(zip(axes, points.T, strict=True))
    request_for_columns = replace(request, points=axes, latlon=())
    vectors = _vector_array(data, points, request)
    if vectors is not None:
        if not request.vectors:
            notes.append(Note(f"vectors: array {vectors}, guessed by name and shape"))
        names = tuple(f"v{axis}" for axis in axes)
        request_for_columns = replace(request_for_columns, vectors=names)
        components = np.moveaxis(real(data[vectors], vectors), -1, 0)
        columns |= zip(names, components, strict=True)
    chosen = find_columns([*columns], request_for_columns)
    field, rows = from_columns(
        lambda name: real(columns[name], name), chosen, request_for_columns, data
    )
    if rows is not None and faces is not None:
        raise InvalidInputError(
            "vertices of a mesh cannot be left out: its triangles need them. Fill in the numbers."
        )
    if faces is not None:
        field = replace(field, space=Mesh(field.space.points, faces))
    return replace(
        field,
        notes=(*notes, *field.notes),
        origin=ArrayFile(at_rows(data, rows, points.shape, len(field)), vectors),
    )


def _axis_names(dims: int) -> tuple[str, ...]:
    """x, y, z, or x0, x1, ... in more dimensions."""
    if dims <= 3:
        return tuple("xyz"[:dims])
    return tuple(f"x{number}" for number in range(dims))


def first_at_place(points: np.ndarray) -> np.ndarray:
    """For each point ``(n, D)`` the number of the first one at the same place."""
    _, first, place = np.unique(points, axis=0, return_index=True, return_inverse=True)
    return first[place.ravel()]


def _merged(
    points: np.ndarray, data: Arrays, faces: np.ndarray, request: Request, notes: list[Note]
) -> tuple[np.ndarray, Arrays, np.ndarray]:
    """A mesh with each vertex once, with the data of the first at its place; refused unless
    ``drop_duplicates``."""
    n = len(points)
    first = first_at_place(points)
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
    is_triangle = (corners != np.roll(corners, 1, axis=1)).all(axis=1)
    merged = f"vertices merged with an earlier one at the same place: {n - len(rows)}"
    notes.append(Note(merged))
    left_out = int((~is_triangle).sum())
    if left_out:
        notes.append(Note(f"triangles left out, as their corners coincide: {left_out}"))
    others = {name: array for name, array in data.items() if array is not faces}
    return points[rows], at_rows(others, rows, points.shape), corners[is_triangle]


def at_rows(
    data: Arrays, rows: np.ndarray | None, shape: tuple[int, ...], fields: int = 0
) -> dict[str, np.ndarray]:
    """All arrays, or, if only some points are used, these points of the arrays that have a value
    for each.

    ``shape`` is that of the points, ``(n, D)`` or ``(n,)``, and ``fields`` the number of times if
    there are several.
    """
    if rows is None:
        return dict(data)
    used = {}
    for name, array in data.items():
        axis = _point_axis(array, shape)
        is_time = name in TIMES and array.shape == (fields,)
        if axis is None or is_time:
            used[name] = array
        else:
            used[name] = array.take(rows, axis)
    return used


def _point_axis(array: np.ndarray, shape: tuple[int, ...]) -> int | None:
    """The axis of an array along points of a shape ``(n, D)`` or ``(n,)``; None if it has none, as
    numbers of a file.

    Of several axes of this length it is the one of vectors ``(T, n, D)``, otherwise the first.
    """
    n = shape[0]
    if len(shape) == 2 and array.ndim == 3 and array.shape[1:] == shape:
        return 1
    for axis in (0, 1):
        if array.shape[axis : axis + 1] == (n,):
            return axis
    return None


def vector_arrays(data: Arrays, points: np.ndarray) -> list[str]:
    """Names of arrays that are vectors at points: no normals, no texture coordinates."""
    return [
        name
        for name, array in data.items()
        if array.shape[-2:] == points.shape
        and array.ndim <= 3
        and "normal" not in name.lower()
        and name not in TEXTURES
    ]


def _vector_array(data: Arrays, points: np.ndarray, request: Request) -> str | None:
    """The name of the array of vectors, as requested or guessed; None if components have arrays of
    their own."""
    if request.only_points or len(request.vectors) > 1:
        return None
    arrays = vector_arrays(data, points)
    if request.vectors:
        return _requested_array(request.vectors[0], arrays, data, points)
    if not arrays:
        _check_no_wrong_shape(data, points)
        return None
    usual = [name for name in VECTORS if name in arrays]
    if not usual and len(arrays) > 1:
        raise MissingColumnsError(
            f"there are several vectors: {listed(arrays)}.",
            Remedy("Choose: {vectors}.", vectors=("NAME",)),
        )
    return (usual or arrays)[0]


def _requested_array(name: str, arrays: list[str], data: Arrays, points: np.ndarray) -> str:
    """The name, if it is one of the arrays of vectors."""
    if name not in arrays:
        shapes = listed([f"{other} {array.shape}" for other, array in data.items()])
        raise MissingColumnsError(
            f"there are no vectors {name} for points {points.shape}; there are {shapes}."
        )
    return name


def _check_no_wrong_shape(data: Arrays, points: np.ndarray) -> None:
    """Refuse arrays with usual names of vectors that do not fit the points."""
    for name in VECTORS:
        if name in data and data[name].ndim > 1:
            raise ShapeError(
                f"vectors must have the shape of the points {points.shape}, or (T, n, D), got "
                f"{name} {data[name].shape}."
            )


def to_arrays(field: Field, columns: bool = False) -> dict[str, np.ndarray]:
    """The arrays of the file that a field came from, with its vectors, standard deviations and
    parts.

    Vectors are one array, or one for each component with ``columns``, on the globe, and where the
    file had them so.
    """
    origin = field.origin if isinstance(field.origin, ArrayFile) else ArrayFile()
    if field.values is None:
        return dict(origin.arrays)
    if columns or origin.vectors is None or isinstance(field.space, Globe):
        computed = _component_arrays(field)
    else:
        computed = _whole_arrays(field, field.values, origin.vectors)
    arrays = dict(origin.arrays)
    for name, array in computed.items():
        if len(field) == 1:
            array = array[0]
        arrays[name] = np.ascontiguousarray(array)
    return arrays


def _component_arrays(field: Field) -> dict[str, np.ndarray]:
    """An array ``(T, n)`` for each component."""
    tables = [to_columns(field, step) for step in range(len(field))]
    names = [name for name in tables[0] if name not in field.space.names]
    return {name: np.stack([table[name] for table in tables]) for name in names}


def _whole_arrays(field: Field, values: np.ndarray, name: str) -> dict[str, np.ndarray]:
    """Arrays ``(T, n, D)`` of vectors and ``(T, n)`` of numbers."""
    arrays = {name: values}
    for part_name, part in field.parts.items():
        array = np.asarray(part.values)
        if array.shape[-1] == 1:
            array = array[..., 0]
        arrays[part_name] = array
    if field.std is not None:
        arrays[f"{name}_std"] = field.std
    return arrays
