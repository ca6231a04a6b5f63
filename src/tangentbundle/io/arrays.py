"""Fields in arrays of named points and vectors: shared by NumPy archives and meshes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import DTypeError, MissingColumnsError, ShapeError
from .columns import assemble, to_columns
from .field import Field, Request
from .names import Columns, find_columns, listed, split_unit
from .spaces import Globe

VECTORS = ("vectors", "field", "velocity", "velocities", "y")


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """All arrays of a file, the name of its vectors if they are one array, that of its points, and the axis that
    points up: y in most OBJ files, z in others.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    vectors: str | None = "vectors"
    points: str | None = "points"
    up: str = "z"


def up_axis(field: Field) -> str:
    """The axis of a field's points that figures should show as up, ``"y"`` or ``"z"``."""
    return field.origin.up if isinstance(field.origin, ArrayFile) else "z"


def from_arrays(
    points: np.ndarray, data: Mapping[str, np.ndarray], request: Request, notes: list[str]
) -> tuple[Field, np.ndarray | None, str | None]:
    """A field of points ``(n, D)``, the rows used if not all were, and the name of the array of its vectors.

    Vectors are an array of the shape of the points, or ``(T, n, D)``; or one array ``(n,)`` for each component.
    """
    if points.ndim != 2:
        raise ShapeError(f"expected points of shape (n, D), got {points.shape}. Choose: points=('NAME',).")
    dims = points.shape[1]
    axes = tuple("xyz"[:dims]) if dims <= 3 else tuple(f"x{i}" for i in range(dims))
    names, values, array = _vectors(data, points, axes, request, notes)
    units = tuple(split_unit(name)[1] for name in names)
    made, rows = assemble(points, values, Columns(axes, names, False, units, tuple(notes)), request)
    return made, rows, array


def vector_arrays(data: Mapping[str, np.ndarray], points: np.ndarray) -> list[str]:
    """Names of arrays that are vectors at points, but no normals."""
    same = [name for name, a in data.items() if a.shape[-2:] == points.shape and a.ndim <= 3]
    return [name for name in same if "normal" not in name.lower()]


def _vectors(
    data: Mapping[str, np.ndarray], points: np.ndarray, axes: tuple[str, ...], request: Request, notes: list[str]
) -> tuple[tuple[str, ...], np.ndarray | None, str | None]:
    """Names of components, vectors ``(n, D)`` or ``(T, n, D)``, and the array they come from if it is one."""
    if request.only_points:
        return (), None, None
    arrays, asked = vector_arrays(data, points), request.vectors
    usual = [name for name in VECTORS if name in arrays] or arrays
    single = asked[0] if len(asked) == 1 else usual[0] if usual and not asked else None
    if single is not None:
        if single not in arrays:
            shapes = listed([f"{name} {a.shape}" for name, a in data.items()])
            raise MissingColumnsError(f"there are no vectors {single} for points {points.shape}; there are {shapes}.")
        if len(usual) > 1 and usual is arrays and not asked:
            raise MissingColumnsError(f"there are several vectors: {listed(arrays)}. Choose: vectors=('NAME',).")
        notes += [] if asked else [f"vectors: array {single}, guessed by name and shape"]
        return tuple(f"v{axis}" for axis in axes), real(data[single], single), single
    scalars = {name: a for name, a in data.items() if a.ndim == 1}
    found = find_columns([*axes, *scalars], replace(request, points=axes, latlon=()))
    notes += found.notes
    if not found.vectors:
        return (), None, None
    return found.vectors, np.stack([real(scalars[name], name) for name in found.vectors], axis=1), None


def real(array: np.ndarray, name: str) -> np.ndarray:
    """An array of floats."""
    if array.dtype.kind not in "fiu":
        raise DTypeError(f"array {name} should hold numbers, got {array.dtype}. Name another.")
    return array.astype(np.float32 if array.dtype == np.float32 else np.float64)


def to_arrays(field: Field, columns: bool = False) -> dict[str, np.ndarray]:
    """The arrays of the file that a field came from, with its vectors, standard deviations and parts.

    Vectors are one array, or one for each component with ``columns``, on the globe, and where the file had them so.
    """
    origin = field.origin if isinstance(field.origin, ArrayFile) else ArrayFile()
    data = dict(origin.arrays)
    if field.values is None:
        return data
    if columns or origin.vectors is None or isinstance(field.space, Globe):
        table = [to_columns(field, k) for k in range(len(field))]
        new = {n: np.stack([t[n] for t in table]) for n in table[0] if n not in field.space.names}
    else:
        new = {origin.vectors: field.values} | {name: part.array for name, part in field.parts.items()}
        new |= {f"{origin.vectors}_std": field.std} if field.std is not None else {}
    return data | {name: np.ascontiguousarray(a[0] if len(field) == 1 else a) for name, a in new.items()}
