"""Wind in any xarray dataset: which variables are east and north, which coordinates latitude, longitude and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InvalidInputError
from .grids import from_grid, from_points
from .wind import WindData

if TYPE_CHECKING:
    import xarray

EAST = ("u10", "10u", "u10m", "ugrd10m", "uas", "uwnd", "u", "u_component_of_wind")
NORTH = ("v10", "10v", "v10m", "vgrd10m", "vas", "vwnd", "v", "v_component_of_wind")
DEGREES = {
    "latitude": ("degrees_north", "degree_north", "degrees_n", "degree_n"),
    "longitude": ("degrees_east", "degree_east", "degrees_e", "degree_e"),
}
SHORT = {"latitude": ("lat", "latitude", "nav_lat"), "longitude": ("lon", "longitude", "nav_lon")}


def from_xarray(ds: xarray.Dataset, provenance: str, u: str | None = None, v: str | None = None) -> WindData:
    """Read the wind of a dataset; ``u`` and ``v`` name its variables where they cannot be told."""
    east = ds[u] if u else _wind(ds, "eastward_wind", EAST)
    north = ds[v] if v else _wind(ds, "northward_wind", NORTH)
    lat, lon = (coordinate(ds, east, name) for name in ("latitude", "longitude"))
    places = tuple(dict.fromkeys((*lat.dims, *lon.dims)))
    east, north = (_with_time(a, places) for a in (east, north))
    if east.dims[0] not in north.dims or set(east.dims) != set(north.dims):
        raise InvalidInputError(f"u and v must share their dimensions, got {east.dims} and {north.dims}.")
    time = next(d for d in east.dims if d not in places)
    if not np.array_equal(east[time].values, north[time].values):
        raise InvalidInputError("u and v must have the same times. Select the times they share with xarray.align.")
    u_values, v_values = (a.transpose(time, *places).values.astype(np.float64) for a in (east, north))
    times = east[time].values
    if lat.dims != lon.dims:
        if lat.ndim != 1 or lon.ndim != 1:
            raise InvalidInputError(f"latitude and longitude must share dimensions, got {lat.dims} and {lon.dims}.")
        return from_grid(times, lat.values, lon.values, u_values, v_values, provenance)
    components = np.stack([a.reshape(len(times), -1) for a in (u_values, v_values)], axis=-1)
    areas = [
        a for a in ds.variables.values() if a.attrs.get("standard_name") == "cell_area" and set(a.dims) == {*places}
    ]
    area = np.ravel(areas[0].transpose(*places)) if areas else np.ones(components.shape[1])
    filled = ds["filled"].values.astype(bool) if "filled" in ds.coords and ds["filled"].dims == (time,) else None
    latitude, longitude = (np.ravel(a).astype(np.float64) for a in (lat, lon))
    return from_points(times, latitude, longitude, components, np.asarray(area, np.float64), provenance, filled)


def _wind(ds: xarray.Dataset, standard: str, names: tuple[str, ...]) -> xarray.DataArray:
    """The variable with the standard name, or one of the usual names; a standard name met twice is told by name."""
    found = [key for key, a in ds.data_vars.items() if a.attrs.get("standard_name") == standard]
    if len(found) != 1:
        by_name = {str(key).lower(): key for key in (found or ds.data_vars)}
        found = [by_name[name] for name in names if name in by_name][:1]
    if not found:
        raise InvalidInputError(
            f"expected one variable with standard_name {standard} or called one of {', '.join(names)}; the dataset has "
            f"{', '.join(map(str, ds.data_vars)) or 'none'}. Name them: FromXarray(ds, u=..., v=...)."
        )
    return ds[found[0]]


def coordinate(ds: xarray.Dataset, wind: xarray.DataArray | xarray.Dataset, name: str) -> xarray.DataArray:
    """Latitude or longitude of the wind, by standard name, then units, then name."""
    here = [ds[key] for key in ds.variables if ds[key].ndim and set(ds[key].dims) <= set(wind.dims)]
    tests = (
        lambda a: a.attrs.get("standard_name") == name,
        lambda a: str(a.attrs.get("units", "")).lower() in DEGREES[name],
        lambda a: str(a.name).lower() in SHORT[name],
    )
    for test in tests:
        found = [a for a in here if test(a)]
        if found:
            return found[0]
    raise InvalidInputError(
        f"expected a coordinate of {name} (standard_name {name}, units {DEGREES[name][0]}, or called "
        f"{SHORT[name][0]}); the wind has {', '.join(map(str, wind.coords)) or 'none'}. Rename it, or set its units."
    )


def _with_time(wind: xarray.DataArray, places: tuple) -> xarray.DataArray:
    """The wind with one dimension of dates beside its places; others must have length one."""
    dates = [
        key for key, c in wind.coords.items() if c.dtype.kind == "M" and c.ndim <= 1 and not set(c.dims) & {*places}
    ]
    along = [key for key in dates if wind.coords[key].dims == (key,)]
    extra = [d for d in wind.dims if d not in places and d not in along[:1]]
    for d in extra:
        if wind.sizes[d] != 1:
            raise InvalidInputError(
                f"expected time, latitude and longitude only, but the wind has {wind.sizes[d]} values along {d!r}. "
                f"Choose one, for example ds.isel({d}=0); dates of other calendars need convert_calendar first."
            )
    wind = wind.squeeze(extra) if extra else wind
    if along:
        return wind
    if not dates:
        raise InvalidInputError(
            "the wind has no date. Give it one: ds.expand_dims(time=[np.datetime64('2026-01-01', 'ns')])."
        )
    name = "valid_time" if "valid_time" in dates else dates[0]
    return wind.expand_dims(name)
