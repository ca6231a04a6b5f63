"""Wind in an xarray dataset: which variables are east and north, which coordinates latitude,
longitude and time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import (
    InvalidInputError,
    MissingColumnsError,
    MissingValuesNote,
    Note,
    Remedy,
    SuspiciousDataWarning,
    warn,
)
from ..units import conversion
from ..winds import (
    DIRECTION,
    EAST,
    EAST_NORTH,
    NETCDF_FILL,
    NO_VECTOR,
    NORTH,
    SPEED,
    impossible_wind,
    is_radian,
    northward_names,
    speed_direction,
)

if TYPE_CHECKING:
    import xarray


ALONG_AXES = {
    "eastward_wind": "x_wind",
    "northward_wind": "y_wind",
    "eastward_sea_water_velocity": "sea_water_x_velocity",
    "northward_sea_water_velocity": "sea_water_y_velocity",
}
"""Standard names of components along the axes of a grid, by those of the eastward and northward
ones."""
RATES = {"divergence": "divergence_of_wind", "vorticity": "atmosphere_relative_vorticity"}
FORMS = ("{}", "nav_{}", "c{}", "t{}", "x{}", "{}cell", "{}_rho")
"""Usual names of lat and lon: also of NEMO, ICON, CICE, WRF, MPAS and ROMS."""

FILL_ROUNDING = {"f": 1e-6, "i": 1e-12, "u": 1e-12}
"""Relative differences from the fill value that are rounding, by the kind of stored numbers."""

MAX_LISTED_PAIRS = 4
"""Pairs of components that a warning lists."""


def with_components(
    ds: xarray.Dataset, wind: tuple[str, ...] = ()
) -> tuple[xarray.Dataset, tuple[str, ...]]:
    """The dataset with eastward and northward wind, from speed and direction, and the names of
    these, if it has them.

    They are those named, or found by standard name, then by usual names.
    """
    if not wind:
        wind = _speed_and_direction(ds)
    if not all(wind):
        return ds, ()
    speed = without_fill(ds[wind[0]], [])
    direction = without_fill(ds[wind[1]], [])
    if direction.attrs.get("standard_name") == "wind_to_direction":
        raise InvalidInputError(
            f"{wind[1]} is where the wind blows to (wind_to_direction). Turn it by 180 degrees "
            f"and set its standard_name to {DIRECTION[0]}."
        )
    speed = speed.where(~impossible_wind(speed, direction, unit_of(direction)))
    angle: Any = direction
    if not is_radian(unit_of(direction)):
        angle = np.radians(direction)
    angle = angle.where(speed != 0, 0.0)
    components = {}
    for name, function in zip(EAST_NORTH, (np.sin, np.cos), strict=True):
        component = (-speed * function(angle)).transpose(*speed.dims)
        component.attrs = {"standard_name": name}
        if unit_of(speed):
            component.attrs["units"] = unit_of(speed)
        components[name] = component
    return ds.assign(components), wind


def _speed_and_direction(ds: xarray.Dataset) -> tuple[str, str]:
    """Names of the variables with speed and direction, by standard or usual names; "" for one that
    is not there."""
    by_name = {str(name).lower(): str(name) for name in ds.data_vars}
    for name, variable in ds.data_vars.items():
        by_name[str(variable.attrs.get("standard_name"))] = str(name)
    return _first_of(SPEED, by_name), _first_of(DIRECTION, by_name)


def _first_of(names: Iterable[str], known: dict[str, str]) -> str:
    """The value of the first of the names that is known, or ""."""
    return next((known[name] for name in names if name in known), "")


def without_components(
    result: xarray.Dataset, ds: xarray.Dataset, wind: tuple[str, ...]
) -> xarray.Dataset:
    """A result with the speed and direction of its components instead of these, with the attributes
    they have in ds."""
    components = [result[name] for name in EAST_NORTH]
    speed_and_direction = speed_direction(components, unit_of(ds[wind[1]]))
    new = {}
    for name, variable in zip(wind, speed_and_direction, strict=True):
        new[name] = variable.drop_attrs(deep=False).assign_attrs(ds[name].attrs)
    return result.drop_vars(EAST_NORTH).assign(new)


def unit_of(variable: xarray.DataArray) -> str:
    """The unit that a variable declares, if any."""
    return str(variable.attrs.get("units", "")).strip()


def degrees(angle: xarray.DataArray) -> np.ndarray:
    """Angles in degrees, flat."""
    values = np.asarray(angle.values, np.float64).ravel()
    if is_radian(unit_of(angle)):
        return np.degrees(values)
    return values


def rate_attrs(name: str, wind: xarray.DataArray) -> dict[str, str]:
    """The standard name of the divergence or vorticity of a wind."""
    is_wind = str(wind.attrs.get("standard_name", "")).endswith("wind")
    if is_wind and name in RATES:
        return {"standard_name": RATES[name]}
    return {}


def standard_name(name: str, along_axes: bool) -> str:
    """The standard name of a component along the axes of a grid, or of the eastward or northward
    one; "" if unknown."""
    if not along_axes:
        eastward = {along: east for east, along in ALONG_AXES.items()}
        return eastward.get(name, name)
    along = ALONG_AXES.get(name, name)
    if along.startswith(("eastward", "northward")):
        return ""
    return along


def without_fill(variable: xarray.DataArray, notes: list[Note]) -> xarray.DataArray:
    """The variable with NaN in cells that hold NetCDF's default fill value, where it does not
    declare its own."""
    undecoded = set(variable.attrs) & {"_FillValue", "missing_value", "scale_factor", "add_offset"}
    if undecoded:
        raise InvalidInputError(
            f"{variable.name} is not decoded: it has the attribute {min(undecoded)}. Use "
            "xarray.decode_cf(ds), or delete it."
        )
    stored = np.dtype(variable.encoding.get("dtype", variable.dtype))
    is_lazy = variable.chunks is not None
    if stored.kind not in "fiu" or "_FillValue" in variable.encoding or is_lazy:
        return variable
    scale = float(variable.encoding.get("scale_factor", 1.0))
    offset = float(variable.encoding.get("add_offset", 0.0))
    # Zarr 3 has its own fill value, mostly 0, which may be a number
    fill = float(variable.encoding.get("fill_value") or _default_fill(stored))
    is_missing = np.isclose(
        variable.values,
        fill * scale + offset,
        rtol=FILL_ROUNDING[stored.kind],
        atol=abs(scale) / 2,
    )
    if not is_missing.any():
        return variable
    text = f"{int(is_missing.sum())} values of {variable.name} are the default fill value"
    notes.append(MissingValuesNote(f"{text} and count as missing"))
    return variable.astype(np.float64).where(~is_missing)


def _default_fill(stored: np.dtype) -> float:
    """NetCDF's default fill value of a type of numbers."""
    if stored.kind == "f":
        return NETCDF_FILL
    largest = float(np.iinfo(stored).max)
    if stored.kind == "u":
        return largest
    return -largest


class FoundVectors(NamedTuple):
    """The names of an eastward and a northward variable, the dataset that has them, and the names
    of ``wind`` speed and direction if they were computed from these."""

    ds: xarray.Dataset
    names: tuple[str, ...]
    wind: tuple[str, ...]


def find_vectors(ds: xarray.Dataset) -> FoundVectors:
    """The eastward and northward variables: by standard name, winds first, then by usual names;
    otherwise computed from speed and direction."""
    east = _find_component(ds, "eastward_", EAST)
    north = _find_component(ds, "northward_", NORTH)
    if east and north:
        return FoundVectors(ds, (east, north), ())
    ds, wind = with_components(ds)
    if not wind:
        raise MissingColumnsError(
            f"expected an eastward and a northward variable, by standard_name or named as "
            f"{EAST[0]}, {NORTH[0]}; "
            f"the dataset has {', '.join(map(str, ds.data_vars)) or 'none'}.",
            Remedy(
                "Name them: {vectors} or {wind}.",
                vectors=("EAST", "NORTH"),
                wind=("SPEED", "DIRECTION"),
            ),
        )
    return FoundVectors(ds, EAST_NORTH, wind)


def _find_component(ds: xarray.Dataset, prefix: str, usual: tuple[str, ...]) -> str:
    """The name of the variable whose standard name begins so; of several, or without any, that with
    the first of the usual names; "" if there is none."""
    standard = {str(n): str(a.attrs.get("standard_name", "")) for n, a in ds.data_vars.items()}
    candidates = [name for name, label in standard.items() if label == f"{prefix}wind"]
    if not candidates:
        candidates = [name for name, label in standard.items() if label.startswith(prefix)]
    if len(candidates) == 1:
        return candidates[0]
    by_name = {name.lower(): name for name in candidates or standard}
    return _first_of(usual, by_name)


def other_pairs(ds: xarray.Dataset, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of variables, besides ``names``, that are an eastward and a northward component by
    their names.

    >>> import xarray as xr
    >>> ds = xr.Dataset(
    ...     {
    ...         n: ("x", np.zeros(3))
    ...         for n in ("u10", "v10", "u850", "v850", "u10_std", "v10_std", "t2m")
    ...     }
    ... )
    >>> other_pairs(ds, ("u10", "v10"))
    [('u850', 'v850')]
    """
    dims = set(ds[names[0]].dims)
    candidates = {}
    for name, variable in ds.data_vars.items():
        is_nested = set(variable.dims) <= dims or set(variable.dims) >= dims
        if name not in names and variable.dtype.kind == "f" and is_nested:
            candidates[str(name)] = variable
    pairs = []
    for name, variable in candidates.items():
        if not variable.dims or NO_VECTOR.search(name.lower()):
            continue
        partner = _northward_partner(name, candidates)
        if partner is None:
            continue
        partner_unit = unit_of(candidates[partner])
        if conversion(unit_of(variable), partner_unit) is not None:
            pairs.append((name, partner))
    return pairs


def _northward_partner(name: str, candidates: dict[str, xarray.DataArray]) -> str | None:
    """The northward component of an eastward one along the same dimensions, by standard name, then
    by name; None if there is none."""
    variable = candidates[name]
    by_label = {a.attrs.get("standard_name"): other for other, a in candidates.items()}
    labels = northward_names(str(variable.attrs.get("standard_name", "")))
    partners = [by_label[label] for label in labels if label in by_label]
    for partner in partners + northward_names(name):
        if partner in candidates and set(candidates[partner].dims) == set(variable.dims):
            return partner
    return None


def warn_of_other_pairs(ds: xarray.Dataset, names: Sequence[str]) -> None:
    """Warn if a dataset has other vectors than those found by name: they are not worked on."""
    pairs = other_pairs(ds, names)
    if not pairs:
        return
    shown = "; ".join(", ".join(pair) for pair in pairs[:MAX_LISTED_PAIRS])
    if len(pairs) > MAX_LISTED_PAIRS:
        shown += "; ..."
    warn(
        f"the dataset has several pairs of components: {', '.join(names)} are used, {shown} not.",
        SuspiciousDataWarning,
        remedy=Remedy("Name those to use, one pair at a time, as {vectors}.", vectors=pairs[0]),
    )


def coordinate(
    ds: xarray.Dataset, wind: xarray.DataArray | xarray.Dataset, name: str
) -> xarray.DataArray:
    """Latitude or longitude of the wind, by standard name, then units (degrees_north, degree_N
    ...), then name."""
    dims = set(wind.dims)
    candidates = [ds[key] for key in ds.variables if ds[key].ndim and set(ds[key].dims) <= dims]
    word = "north" if name == "latitude" else "east"
    for matches in (_has_standard_name, _has_unit_of_axis, _has_usual_name):
        for variable in candidates:
            if matches(variable, name, word):
                return without_fill(variable, [])
    raise InvalidInputError(
        f"expected a coordinate of {name} (standard_name {name}, units degrees_{word}, or called "
        f"{name[:3]}); the wind has {', '.join(map(str, wind.coords)) or 'none'}. Rename it, or "
        "set its units."
    )


def _has_standard_name(variable: xarray.DataArray, name: str, word: str) -> bool:
    return variable.attrs.get("standard_name") == name


def _has_unit_of_axis(variable: xarray.DataArray, name: str, word: str) -> bool:
    """Such as degrees_north, degree_N and degrees_n."""
    units = {f"{unit}_{end}" for unit in ("degree", "degrees") for end in (word, word[0])}
    return str(variable.attrs.get("units", "")).lower() in units


def _has_usual_name(variable: xarray.DataArray, name: str, word: str) -> bool:
    names = [name]
    names += [form.format(name[:3]) for form in FORMS]
    return str(variable.name).lower() in names
