"""From columns of numbers to a field, and back: shared by tables, arrays and datasets of points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..earth.xarrays import wind_components, without_impossible
from ..errors import DTypeError, ShapeError, UnitsError
from ..units import common_unit, conversion
from .field import Field, Request, check_count, distinct_rows, usable_rows
from .guards import warn_if_radians
from .names import Columns, split_unit
from .spaces import Cloud, Globe


def from_columns(
    column: Callable[[str], np.ndarray], columns: Columns, request: Request
) -> tuple[Field, np.ndarray | None]:
    """A field from named columns, checked and in one unit, and the rows used; None if all are used.

    Vectors may be ``(n,)`` or ``(T, n)``. All numbers are float32 if they came so, otherwise float64.
    """
    given = (columns.points, columns.wind or columns.vectors, filter(None, [columns.sigma]))
    points, vectors, errors = ({name: column(name) for name in names} for names in given)
    shapes = {name: array.shape for name, array in (points | vectors | errors).items()}
    if len({shape[-1:] for shape in shapes.values()}) > 1 or any(len(shapes[name]) != 1 for name in points | errors):
        raise ShapeError(f"columns of points, vectors and errors must be equally long, got {shapes}.")
    dtype = np.result_type(*points.values(), *vectors.values())
    coordinates, values = np.stack(list(points.values()), axis=1, dtype=dtype), None
    check_count(len(coordinates), request)
    notes, units, numbers = [*columns.notes], "", [coordinates]
    if vectors:
        values = np.stack(list(vectors.values()), axis=-1, dtype=dtype)
        values = values if values.ndim == 3 else values[None]
        if columns.wind:
            warn_if_radians(columns.wind[1], values[..., 1])
            values = wind_components(values[..., 0], values[..., 1])
        units, factors = common_unit(columns.vectors, columns.units, notes)
        values = values if (factors == 1).all() else (values * factors).astype(values.dtype)
        values = without_impossible(values, units, notes) if columns.on_globe else values
        numbers += [*values]
    n, rows = len(coordinates), usable_rows(np.concatenate(numbers, axis=1), request, notes)
    check_count(len(rows), request)
    space: Cloud = Cloud(coordinates[rows], columns.points)
    if columns.on_globe:
        space = Globe(coordinates[rows, 0], coordinates[rows, 1], columns.points)
    first = distinct_rows(space, request, notes)
    check_count(len(first), request)
    if len(first) < n:
        rows, space = rows[first], space.select(first)
        values = None if values is None else values[:, rows]
    field = Field(space, values, columns.vectors, units=units, notes=tuple(notes), wind=columns.wind)
    for name, sigma in errors.items():
        field = with_errors(field, sigma[rows], name, columns.sigma_unit)
    return field, rows if len(first) < n else None


def real(array: np.ndarray, name: str, kind: Any = "") -> np.ndarray:
    """The numbers of a column, or of all of them in one array, as floats; ``kind`` is what a file says they are."""
    if array.dtype.kind not in "fiu":
        raise DTypeError(f"column {name} holds {kind or array.dtype}, not numbers. Name another: points= or vectors=.")
    return array if array.dtype == np.float32 else array.astype(np.float64)


def with_errors(field: Field, errors: np.ndarray, name: str, unit: str) -> Field:
    """The field with the standard errors ``(n,)`` of a column, converted to the unit of the field."""
    factor = conversion(unit or field.units, field.units or unit)
    if factor is None:
        raise UnitsError(f"{name} must be in the unit of the vectors, {field.units!r}, or one of speed.")
    return replace(field, noise=factor * errors)


def to_columns(field: Field, step: int = 0) -> dict[str, np.ndarray]:
    """The columns of points, vectors and standard deviations of one time, in the units that their names say."""
    table = dict(zip(field.space.names, field.space.coordinates.T, strict=True))
    for suffix, numbers in (("", field.values), ("_std", field.std)):
        if numbers is not None:
            for name, column in zip(field.names, numbers[step].T, strict=True):
                table[f"{name}{suffix}"] = column * (conversion(field.units, split_unit(name)[1]) or 1.0)
    for part in field.parts.values():
        table |= to_columns(part, step)
    if field.wind and field.values is not None:
        east, north = field.values[step].T
        table |= zip(field.wind, (np.hypot(east, north), np.degrees(np.arctan2(-east, -north)) % 360), strict=True)
    return table
