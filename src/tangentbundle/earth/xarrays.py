"""Wind in an xarray dataset: which variables are east and north, which coordinates latitude, longitude and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InvalidInputError, MissingColumnsError
from ..units import common_unit, conversion

if TYPE_CHECKING:
    import xarray

    from .wind import WindData

EAST = ("u10", "10u", "u10m", "ugrd10m", "uas", "uwnd", "u", "u_component_of_wind", "uo", "ugos", "water_u", "uvel")
NORTH = tuple(name.replace("u", "v", 1) for name in EAST)
SPEED = ("wind_speed", "windspeed", "wspd", "speed", "spd", "ws", "sknt", "ff")
DIRECTION = (
    "wind_from_direction",
    "wind_direction",
    "winddirection",
    "wind_dir",
    "wdir",
    "direction",
    "wd",
    "drct",
    "dd",
)
EAST_NORTH = ("eastward_wind", "northward_wind")
"""Names of the components of wind that is given as speed and direction."""
NETCDF_FILL = 9.969209968386869e36
"""What NetCDF stores in a cell of floats that was never written; in one of integers it is their largest magnitude."""


def from_xarray(ds: xarray.Dataset, provenance: str, u: str = "", v: str = "", unit: str = "") -> WindData:
    """The wind of a dataset, in ``unit`` if it has units of speed; ``u`` and ``v`` name its variables."""
    from .grids import from_grid, from_points  # torch is loaded when the variables are found

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
    lat, lon = (coordinate(ds, east, name) for name in ("latitude", "longitude"))
    places = tuple(dict.fromkeys((*lat.dims, *lon.dims)))
    east, north = (_with_time(a, places) for a in (east, north))
    if set(east.dims) != set(north.dims):
        raise InvalidInputError(f"u and v must share their dimensions, got {east.dims} and {north.dims}.")
    time = next(d for d in east.dims if d not in places)
    if not np.array_equal(east[time].values, north[time].values):
        raise InvalidInputError("u and v must have the same times. Select the times they share with xarray.align.")
    components = np.stack([a.transpose(time, *places).values for a in (east, north)], axis=-1) * factors
    components, times = without_impossible(components, own, notes), east[time].values
    provenance = "; ".join(notes)
    if lat.dims != lon.dims:
        if lat.ndim != 1 or lon.ndim != 1:
            raise InvalidInputError(f"latitude and longitude must share dimensions, got {lat.dims} and {lon.dims}.")
        return from_grid(times, lat.values, lon.values, components, provenance)
    components = components.reshape(len(times), -1, 2)
    areas = [a for a in ds.variables.values() if a.attrs.get("standard_name") == "cell_area" and {*a.dims} == {*places}]
    area = np.ravel(areas[0].transpose(*places)) if areas else np.ones(components.shape[1])
    filled = ds["filled"].values.astype(bool) if "filled" in ds.coords and ds["filled"].dims == (time,) else None
    latitude, longitude = (np.ravel(a).astype(np.float64) for a in (lat, lon))
    return from_points(times, latitude, longitude, components, np.asarray(area, np.float64), provenance, filled)


def wind_components(speed: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Eastward and northward wind ``(..., 2)``, from its speed and the direction, in degrees, that it comes from.

    >>> wind_components(np.array([5.0, 0.0]), np.array([270.0, np.nan])).round(9)  # a west wind; calm has no direction
    array([[ 5.,  0.],
           [-0., -0.]])
    """
    angle = np.radians(np.where(speed == 0, 0.0, direction))
    return np.stack([-speed * np.sin(angle), -speed * np.cos(angle)], axis=-1)


def with_components(ds: xarray.Dataset, wind: tuple[str, ...] = ()) -> tuple[xarray.Dataset, tuple[str, ...]]:
    """The dataset with eastward and northward wind, from speed and direction, and the names of these, if it has them.

    They are those named, or found by standard name, then by usual names.
    """
    if not wind:
        known = {str(n).lower(): str(n) for n in ds.data_vars}
        known |= {str(a.attrs.get("standard_name")): str(n) for n, a in ds.data_vars.items()}
        found = [next((known[name] for name in usual if name in known), "") for usual in (SPEED, DIRECTION)]
        wind = tuple(found) if all(found) else ()
    if not wind:
        return ds, ()
    speed, direction = (without_fill(ds[name], []) for name in wind)
    angle = np.radians(direction.where(speed != 0, 0.0))
    units = {"units": unit_of(speed)} if unit_of(speed) else {}
    parts = zip(EAST_NORTH, (np.sin(angle), np.cos(angle)), strict=True)
    new = {n: (-speed * part).transpose(*speed.dims).assign_attrs(standard_name=n, **units) for n, part in parts}
    return ds.assign(new), wind


def unit_of(variable: xarray.DataArray) -> str:
    """The unit that a variable declares, if any."""
    return str(variable.attrs.get("units", "")).strip()


def without_impossible(values: np.ndarray, unit: str, notes: list[str], max_speed: float = 500.0) -> np.ndarray:
    """Wind with NaN for components above ``max_speed`` (m/s), which are missing-value markers such as 999 or 1e20."""
    factor = conversion(unit, "m/s")
    fast = np.abs(values) * factor > max_speed if factor else np.zeros(0, bool)
    if not fast.any():
        return values
    notes.append(f"{int(fast.sum())} values above {max_speed:g} m/s cannot be wind and count as missing")
    return np.where(fast, np.nan, values)


def without_fill(variable: xarray.DataArray, notes: list[str]) -> xarray.DataArray:
    """The variable with NaN in cells that hold NetCDF's default fill value, where it does not declare its own."""
    if raw := {"_FillValue", "missing_value", "scale_factor", "add_offset"} & {*variable.attrs}:
        raise InvalidInputError(
            f"{variable.name} is not decoded: it has the attribute {min(raw)}. Use xarray.decode_cf(ds), or delete it."
        )
    encoding = variable.encoding
    kind = np.dtype(encoding.get("dtype", variable.dtype))
    if kind.kind not in "fiu" or "_FillValue" in encoding or variable.chunks is not None:  # not yet computed
        return variable
    scale, offset = float(encoding.get("scale_factor", 1.0)), float(encoding.get("add_offset", 0.0))
    default = NETCDF_FILL if kind.kind == "f" else float(np.iinfo(kind).max) * (1 if kind.kind == "u" else -1)
    fill = float(encoding.get("fill_value") or default)  # Zarr 3 has its own, mostly 0, which may be a number
    rounding = 1e-6 if kind.kind == "f" else 1e-12
    missing = np.isclose(variable.values, fill * scale + offset, rtol=rounding, atol=abs(scale) / 2)
    if not missing.any():
        return variable
    notes.append(f"{int(missing.sum())} values of {variable.name} are the default fill value and count as missing")
    return variable.astype(np.float64).where(~missing)


def find_vectors(ds: xarray.Dataset) -> tuple[xarray.Dataset, tuple[str, ...]]:
    """Names of the eastward and northward variables: by standard name, winds first, then by usual names.

    Where there are only speed and direction, the dataset returned has components, too.
    """
    found: list[str] = []
    standard = {str(n): str(a.attrs.get("standard_name", "")) for n, a in ds.data_vars.items()}
    for word, usual in (("eastward_", EAST), ("northward_", NORTH)):
        named = [n for n, said in standard.items() if said == f"{word}wind"]
        named = named or [n for n, said in standard.items() if said.startswith(word)]
        lower = {n.lower(): n for n in named or standard}
        found += named if len(named) == 1 else [lower[n] for n in usual if n in lower][:1]
    if len(found) == 2:
        return ds, (found[0], found[1])
    ds, wind = with_components(ds)
    if not wind:
        raise MissingColumnsError(
            f"expected an eastward and a northward variable, by standard_name or named as {EAST[0]}, {NORTH[0]}; the "
            f"dataset has {', '.join(map(str, ds.data_vars)) or 'none'}. "
            'Name them: vectors=("EAST", "NORTH") (u= and v= of load_wind).'
        )
    return ds, EAST_NORTH


def coordinate(ds: xarray.Dataset, wind: xarray.DataArray | xarray.Dataset, name: str) -> xarray.DataArray:
    """Latitude or longitude of the wind, by standard name, then units (degrees_north, degree_N ...), then name."""
    here = [ds[key] for key in ds.variables if ds[key].ndim and set(ds[key].dims) <= set(wind.dims)]
    word = "north" if name == "latitude" else "east"
    units = {f"degree{s}_{direction}" for s in ("", "s") for direction in (word, word[0])}
    tests = (
        lambda a: a.attrs.get("standard_name") == name,
        lambda a: str(a.attrs.get("units", "")).lower() in units,
        lambda a: str(a.name).lower() in (name, name[:3], f"nav_{name[:3]}"),
    )
    for test in tests:
        if found := [a for a in here if test(a)]:
            return without_fill(found[0], [])
    raise InvalidInputError(
        f"expected a coordinate of {name} (standard_name {name}, units degrees_{word}, or called {name[:3]}); the wind "
        f"has {', '.join(map(str, wind.coords)) or 'none'}. Rename it, or set its units."
    )


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
