"""Wind of datasets and grids as ``WindData``: points on the sphere, each pole once, exact areas, missing values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InvalidInputError, NonFiniteError, ShapeError
from ..timeline import Times, fill_single_steps
from ..units import common_unit, conversion
from .grid import Grid
from .wind import WindData
from .xarrays import find_vectors, unit_of, without_fill, without_impossible

if TYPE_CHECKING:
    import xarray


def from_xarray(ds: xarray.Dataset, provenance: str, u: str = "", v: str = "", unit: str = "") -> WindData:
    """The wind of a dataset, in ``unit`` if it has units of speed; ``u`` and ``v`` name its variables."""
    notes = [provenance] if provenance else []
    if not (u and v):
        ds, names = find_vectors(ds)
        u, v = u or names[0], v or names[1]
    east, north = (without_fill(ds[name], notes) for name in (u, v))
    own, factors = common_unit((str(east.name), str(north.name)), [unit_of(east), unit_of(north)], notes)
    if own and (factor := conversion(own, unit)):
        factors *= factor
        notes += [f"converted from {own} to {unit}"] * (factor != 1.0)
        own = unit
    grid = Grid.of(ds, east)
    places = grid.dims
    east, north = (_with_time(a, places) for a in (east, north))
    if set(east.dims) != set(north.dims):
        raise InvalidInputError(f"u and v must share their dimensions, got {east.dims} and {north.dims}.")
    time = next(d for d in east.dims if d not in places)
    if not np.array_equal(east[time].values, north[time].values):
        raise InvalidInputError("u and v must have the same times. Select the times they share with xarray.align.")
    components = np.stack([a.transpose(time, *places).values for a in (east, north)], axis=-1) * factors
    components, times = without_impossible(components, own, notes), east[time].values
    provenance = "; ".join(notes)
    if grid.axes is not None:
        return from_grid(times, *grid.axes, components, provenance)
    area = np.ones(len(grid)) if grid.given_areas is None else grid.given_areas
    filled = ds["filled"].values.astype(bool) if "filled" in ds.coords and ds["filled"].dims == (time,) else None
    return from_points(times, grid.lat, grid.lon, grid.to_coordinates(components), area, provenance, filled)


def from_grid(
    times: Times, lat: np.ndarray, lon: np.ndarray, wind: np.ndarray, provenance: str, pole_tolerance: float = 0.1
) -> WindData:
    """Wind ``(T, rows, columns, 2)``, east and north, on rows ``lat`` and columns ``lon`` in degrees and any order.

    A row at a pole holds many copies of *one* point, in frames that turn with longitude. It becomes one point with the
    mean of the ambient vectors. If the copies differ from their mean by more than
    ``pole_tolerance`` times the typical speed, they are not the wind at a point, and the row is dropped.
    """
    lat, lon, wind = (np.asarray(a, np.float64) for a in (lat, lon, wind))
    if wind.shape != (shape := (len(times), len(lat), len(lon), 2)):
        raise ShapeError(f"the wind must have shape (T, rows, columns, 2) = {shape}, got {wind.shape}.")
    grid = Grid.regular(lat, lon)
    components, keep = grid.to_coordinates(wind), np.ones(len(grid), bool)
    typical = np.sqrt(np.nanmean(wind**2) * 2) if np.isfinite(wind).any() else 0.0
    for row in np.flatnonzero(np.abs(lat) > 90 - 1e-6):
        name = "north" if lat[row] > 0 else "south"
        differences = grid.to_components(components)[:, row] - wind[:, row]
        if np.sqrt(np.square(differences).sum(-1).mean()) > pole_tolerance * typical:
            keep[grid.cell.reshape(grid.shape)[row, 0]] = False
            provenance += f"; {name} pole dropped, as its {len(lon)} copies disagree"
        else:
            provenance += f"; {name} pole as one point, the mean of {len(lon)} copies"
    return from_points(times, grid.lat[keep], grid.lon[keep], components[:, keep], grid.areas[keep], provenance)


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
