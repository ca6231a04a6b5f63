"""The vector fields of a dataset: which variables they are, on which grid, in which unit."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidInputError, MissingColumnsError, Note
from ..units import common_unit, conversion
from ..winds import MAX_SPEED
from .grid import Grid
from .xarrays import find_vectors, unit_of, warn_of_other_pairs, without_fill

if TYPE_CHECKING:
    import xarray

MAX_VALUE = 1e30
"""Absolute values above this are fill values and count as missing; for speeds the limit is
MAX_SPEED."""

COMPRESSION = ("zlib", "complevel", "shuffle")
"""What results take of an encoding: they may exceed the range of packed integers, and are stored as
floats."""


@dataclass(frozen=True, eq=False)
class GridFields:
    """The vectors of a dataset, over all dimensions besides those of the grid; ``unit`` is that of
    all components.

    ``wind`` names speed and direction that the components were computed from: these are no longer
    in the dataset.
    """

    ds: xarray.Dataset
    names: tuple[str, ...]
    grid: Grid
    unit: str
    wind: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        ds: xarray.Dataset,
        vectors: Sequence[str] = (),
        notes: list[Note] | None = None,
        *,
        one_of_many: bool = False,
    ) -> GridFields:
        """The fields of the variables ``vectors``: two components, or three ambient ones; by
        default found by name.

        ``notes`` gets what was changed on the way, such as units. Warns if other pairs of
        components are found and left as they are, unless the caller wants ``one_of_many``.
        """
        if notes is None:
            notes = []
        _check_types(ds, vectors)
        names: tuple[str, ...] = tuple(vectors)
        wind: tuple[str, ...] = ()
        if not vectors:
            ds, names, wind = find_vectors(ds)
            if not one_of_many:
                warn_of_other_pairs(ds, names)
        _check_names(ds, names)
        ds, unit = _in_one_unit(ds, names, notes)
        ds = ds.drop_vars(wind)
        grid = Grid.of(ds, ds[names[0]])
        _check_dimensions([ds[name] for name in names], grid)
        return cls(ds, names, grid, unit, wind)

    def arrays(self) -> list[xarray.DataArray]:
        """The components; chunks along the grid's dimensions become one."""
        unsplit = dict.fromkeys(self.grid.dims, -1)
        components = []
        for name in self.names:
            component = self.ds[name]
            if component.chunks is not None:
                component = component.chunk(unsplit)
            components.append(component)
        return components

    @property
    def dtype(self) -> np.dtype:
        """That of results: float32 if all components are, otherwise float64."""
        if all(self.ds[name].dtype == np.float32 for name in self.names):
            return np.dtype(np.float32)
        return np.dtype(np.float64)

    @property
    def limit(self) -> float:
        """Vectors longer than this mark missing values."""
        factor = conversion(self.unit, "m/s")
        if not factor:
            return MAX_VALUE
        return MAX_SPEED / factor

    @property
    def reader(self) -> ComponentReader:
        """Turns arrays of the components into coordinates at the points of the grid."""
        return ComponentReader(self.grid, self.limit, self.dtype)


@dataclass(frozen=True, eq=False)
class ComponentReader:
    """Turns components in the cells of a grid into tangent coordinates at its points.

    A vector is missing if one of its components is NaN, or if it is longer than ``limit``.
    """

    grid: Grid
    limit: float
    dtype: np.dtype

    def read(self, components: Sequence[np.ndarray]) -> np.ndarray:
        """Arrays ``(t, *grid.shape)``, one for each component, to coordinates ``(t, n, 2)``, NaN
        where data are missing."""
        values = np.stack(components, axis=-1).astype(self.dtype)
        is_valid = np.hypot.reduce(values, axis=-1) <= self.limit
        values[~is_valid] = np.nan
        return self.grid.to_coordinates(values)


def _check_types(ds: Any, vectors: Any) -> None:
    if not hasattr(ds, "data_vars"):
        raise InvalidInputError(
            f"expected an xarray.Dataset with a vector field, got {type(ds).__name__}."
        )
    if isinstance(vectors, str):
        raise InvalidInputError(
            f"vectors must be a tuple of names, such as ('u', 'v'), got {vectors!r}."
        )


def _check_names(ds: xarray.Dataset, names: tuple[str, ...]) -> None:
    """Refuse components that are not two or three different variables of the dataset."""
    has_repeats = len(set(names)) < len(names)
    is_known = set(names) <= set(ds.data_vars)
    if len(names) not in (2, 3) or has_repeats or not is_known:
        raise MissingColumnsError(
            f"expected two variables, or three ambient ones, got {', '.join(names)}; the "
            f"dataset has {', '.join(map(str, ds.data_vars)) or 'none'}."
        )


def _in_one_unit(
    ds: xarray.Dataset, names: tuple[str, ...], notes: list[Note]
) -> tuple[xarray.Dataset, str]:
    """The dataset with components in one unit and without default fill values, and that unit."""
    unit, factors = common_unit(names, [unit_of(ds[name]) for name in names], notes)
    components = {}
    for name, factor in zip(names, factors, strict=True):
        component = without_fill(ds[name], notes)
        if factor != 1:
            component = with_attributes_of(component, factor * component)
        if unit:
            component = component.assign_attrs(units=unit)
        components[name] = component
    return ds.assign(components), unit


def _check_dimensions(components: Sequence[xarray.DataArray], grid: Grid) -> None:
    """Refuse components that lie along different dimensions, or not along those of the grid."""
    first = components[0]
    for component in components:
        is_on_grid = set(grid.dims) <= set(component.dims)
        if set(component.dims) != set(first.dims) or not is_on_grid:
            raise InvalidInputError(
                f"all components must lie on one grid, but {first.name} lies along {first.dims}, "
                f"{component.name} along {component.dims}. Interpolate staggered components to the "
                "centres of cells."
            )
    if not first.size:
        raise InvalidInputError(f"{first.name} has no values: its sizes are {dict(first.sizes)}.")


def with_attributes_of(
    original: xarray.DataArray, result: xarray.DataArray, **attributes: Any
) -> xarray.DataArray:
    """A result with the attributes of a variable and ``attributes``, compressed as the variable
    is."""
    result.attrs = {**original.attrs, **attributes}
    result.encoding = {key: value for key, value in original.encoding.items() if key in COMPRESSION}
    return result


def with_history(result: xarray.Dataset, call: str) -> xarray.Dataset:
    """The dataset with a line for this call in its history."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = [f"{now}: tangentbundle {call}"]
    if result.attrs.get("history"):
        lines.insert(0, str(result.attrs["history"]))
    return result.assign_attrs(history="\n".join(lines))
