"""Wind of datasets and grids as ``WindData``: points on the sphere, each pole once, exact areas, missing values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InvalidInputError, NonFiniteError
from ..timeline import Times, fill_single_steps
from ..units import conversion
from .blocks import GridFields
from .grid import Grid, find_variable
from .wind import WindData
from .xarrays import without_impossible

if TYPE_CHECKING:
    import xarray


def from_xarray(ds: xarray.Dataset, provenance: str, u: str = "", v: str = "", unit: str = "") -> WindData:
    """The wind of a dataset, in ``unit`` if it has units of speed; ``u`` and ``v`` name its variables."""
    notes = [provenance] if provenance else []
    fields = GridFields.of(ds, (u, v) if u or v else (), notes)
    grid, own, factor = fields.grid, fields.unit, 1.0
    if own and (known := conversion(own, unit)):
        notes += [f"converted from {own} to {unit}"] * (known != 1.0)
        own, factor = unit, known
    arrays = [_with_time(fields.ds[name], grid.dims) for name in fields.names]
    time = next(d for d in arrays[0].dims if d not in grid.dims)
    components = factor * np.stack([a.transpose(time, *grid.dims).values for a in arrays], axis=-1)
    components = grid.to_coordinates(without_impossible(components, own, notes))
    if copies := int((grid.cell >= 0).sum()) - len(grid):
        notes.append(f"{copies} cells at the place of another, such as a pole: the mean of their vectors")
    area, share = np.ones(len(grid)), find_variable(ds, grid.dims, ("cell_area",))
    if grid.axes is not None:
        area = grid.areas
    elif share is not None:
        area = grid.to_points(np.asarray(share.values, np.float64)[..., None])[:, 0]
    filled = ds["filled"].values.astype(bool) if "filled" in ds.coords and ds["filled"].dims == (time,) else None
    return from_points(arrays[0][time].values, grid.lat, grid.lon, components, area, "; ".join(notes), filled)


def from_grid(times: Times, lat: np.ndarray, lon: np.ndarray, wind: np.ndarray, provenance: str) -> WindData:
    """Wind ``(T, rows, columns, 2)``, east and north, on rows ``lat`` and columns ``lon`` in degrees and any order.

    A row at a pole holds many copies of one point, in frames that turn with longitude: their vectors are averaged.
    """
    grid = Grid.regular(np.asarray(lat, np.float64), np.asarray(lon, np.float64))
    components = grid.to_coordinates(np.asarray(wind, np.float64))
    return from_points(times, grid.lat, grid.lon, components, grid.areas, provenance)


def from_points(
    times: Times,
    lat: np.ndarray,
    lon: np.ndarray,
    components: np.ndarray,
    area: np.ndarray,
    provenance: str,
    filled: np.ndarray | None = None,
) -> WindData:
    """Wind ``(T, n, 2)`` at n points; NaN marks what is missing.

    A time without any value counts as missing, a point without any value is dropped, and other holes are refused. A
    single missing step is filled linearly in time and flagged; longer gaps stay.
    """
    order = np.argsort(times, kind="stable")
    times, components = times[order], components[order]
    filled_before = np.zeros(len(times), bool) if filled is None else filled[order]
    holes = np.isnan(components).any(axis=-1)
    observed, there = ~holes.all(axis=1), ~holes.all(axis=0)
    if not observed.any():
        raise NonFiniteError("the wind has no value at all: every time is missing. Check its fill value and variables.")
    if not there.all():
        provenance += f"; {int((~there).sum())} points without values dropped"
    times, filled_before, holes = times[observed], filled_before[observed], holes[observed][:, there]
    components, area = components[observed][:, there], area[there]
    if not np.isfinite(components).all():
        why = f" ({provenance})" if provenance else ""
        raise NonFiniteError(
            f"{int(holes.sum())} of {holes.size} values are missing, at {int(holes.any(axis=0).sum())} points and "
            f"{int(holes.any(axis=1).sum())} times{why}. Select complete ones, or interpolate in xarray first."
        )
    if len(area) == 0 or not (area > 0).all():
        raise InvalidInputError(f"every point must represent an area, but {int((area <= 0).sum())} have none.")
    times, components, filled = fill_single_steps(times, components)
    filled[~filled] = filled_before
    if filled.any():
        provenance += f"; {int(filled.sum())} of {len(times)} times filled in"
    return WindData(times, lat[there], lon[there], components, area / area.sum(), provenance, filled)


def _with_time(wind: xarray.DataArray, places: tuple) -> xarray.DataArray:
    """The wind with one dimension of dates besides its places; others must have length one."""
    dates = [k for k, c in wind.coords.items() if c.dtype.kind == "M" and c.ndim <= 1 and not {*c.dims} & {*places}]
    along = [key for key in dates if wind.coords[key].dims == (key,)]
    extra = [d for d in wind.dims if d not in places and d not in along[:1]]
    for d in extra:
        if wind.sizes[d] != 1:
            raise InvalidInputError(
                f"expected time, latitude and longitude only, but the wind has {wind.sizes[d]} values along {d!r}. "
                f"Choose one, for example ds.isel({d}=0); dates of other calendars need convert_calendar first."
            )
    wind = wind.squeeze(extra)
    if along:
        return wind
    if not dates:
        raise InvalidInputError(
            "the wind has no date. Give it one: ds.expand_dims(time=[np.datetime64('2026-01-01', 'ns')])."
        )
    return wind.expand_dims("valid_time" if "valid_time" in dates else dates[0])
