"""NetCDF and Zarr written by xarray: grids as grids, with their coordinates, attributes and units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..extras import extra
from .field import Field
from .names import split_unit
from .spaces import Cloud, Globe

if TYPE_CHECKING:
    from ..earth import Grid


@dataclass(frozen=True, eq=False)
class GridFile:
    """The dataset of a field, its grid, the numbers ``(n,)`` of those points of the grid that the field has, and the
    dimension of its times.
    """

    ds: Any
    grid: Grid
    points: np.ndarray
    dimension: str | None = None

    def cells(self, field: Field) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Components and standard deviations in every cell's own axes, NaN where the field has no point.

        Poles are one point in many frames; where a cell's axes are turned, both components have the same deviation.
        """
        grid = self.grid

        def on_grid(numbers: np.ndarray) -> np.ndarray:
            every = np.full((len(numbers), len(grid), numbers.shape[-1]), np.nan)
            every[:, self.points] = numbers
            return every

        values = std = None
        if field.values is not None:
            values = (grid.to_components if len(field.names) > 1 else grid.to_cells)(on_grid(field.values))
        if field.std is not None:
            std = grid.to_cells(on_grid(field.std))
            turned = (np.abs(grid.turns - 1) > 1e-6).reshape(*grid.shape, 1)
            std = np.where(turned, np.sqrt(np.mean(std**2, axis=-1, keepdims=True)), std)
        return values, std


def to_dataset(field: Field) -> Any:
    """A CF dataset: on the grid of its file where it came from one, otherwise along a dimension ``point``."""
    grid = field.origin if isinstance(field.origin, GridFile) else None
    coords, values, std = _points_along(field.space), field.values, field.std
    places: tuple[str, ...] = ("point",)
    if grid is not None:
        (values, std), places = grid.cells(field), grid.grid.dims
        coords = {str(name): c for name, c in grid.ds.coords.items() if {*c.dims} <= {*places}}
    lead: tuple[str, ...] = ("step",) if len(field) > 1 else ()
    if field.axes:
        lead, shape = tuple(name for name, _ in field.axes), [len(axis) for _, axis in field.axes]
        coords |= {name: ((name,), axis) for name, axis in field.axes}
        values, std = (None if a is None else a.reshape(*shape, *a.shape[1:]) for a in (values, std))
    elif field.times is not None and (grid is None or grid.dimension is not None or len(field) > 1):
        lead = ((grid and grid.dimension) or "time",)
        coords[lead[0]] = (lead, field.times.astype("datetime64[ns]"))
    units, variables = {"units": field.units} if field.units else {}, {}
    for k, name in enumerate(split_unit(name)[0] for name in field.names):
        known = dict(grid.ds[name].attrs) if grid and name in grid.ds else {}
        known.pop("units", None)
        label = {"long_name": f"standard deviation of {name}"}
        for key, numbers, attrs in ((name, values, known), (f"{name}_std", std, label)):
            if numbers is not None:
                numbers = numbers[..., k] if lead else numbers[0, ..., k]
                variables[key] = ((*lead, *places), numbers, attrs | units)
    base = dict(grid.ds.attrs) if grid else {}
    ds = extra("xarray", "Writing datasets").Dataset(variables, coords, attrs={"Conventions": "CF-1.8", **base})
    ds = ds.assign({name: array for part in field.parts.values() for name, array in to_dataset(part).items()})
    return ds.drop_encoding()  # how the file of the coordinates was packed does not fit other formats


def _points_along(space: Cloud) -> dict[str, Any]:
    """Coordinates along a dimension ``point``."""
    angles = (("latitude", "degrees_north"), ("longitude", "degrees_east")) if isinstance(space, Globe) else ()
    said = [{"standard_name": name, "units": unit} for name, unit in angles] or [{}] * len(space.names)
    columns = zip(space.names, space.coordinates.T, said, strict=True)
    return {split_unit(name)[0]: ("point", column, attributes) for name, column, attributes in columns}


def write_dataset(field: Field, path: Path) -> None:
    """A NetCDF file or a Zarr folder."""
    if path.suffix.lower() == ".zarr":
        extra("zarr", "Writing Zarr", "files")
        to_dataset(field).to_zarr(path, mode="w", zarr_format=2, consolidated=True)
    else:
        extra("netCDF4", "Writing NetCDF")
        to_dataset(field).to_netcdf(path, engine="netcdf4")
