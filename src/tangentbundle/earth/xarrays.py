"""Wind in an xarray dataset: which variables are east and north, which coordinates latitude,
longitude and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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


def with_components(
    ds: xarray.Dataset, wind: tuple[str, ...] = ()
) -> tuple[xarray.Dataset, tuple[str, ...]]:
    """The dataset with eastward and northward wind, from speed and direction, and the names of
    these, if it has them.

    They are those named, or found by standard name, then by usual names.
    """
    if not wind:
        known = {str(n).lower(): str(n) for n in ds.data_vars}
        known |= {str(a.attrs.get("standard_name")): str(n) for n, a in ds.data_vars.items()}
        wind = tuple(
            next((known[name] for name in usual if name in known), "")
            for usual in (SPEED, DIRECTION)
        )
    if not all(wind):
        return ds, ()
    speed, direction = (without_fill(ds[name], []) for name in wind)
    if direction.attrs.get("standard_name") == "wind_to_direction":
        raise InvalidInputError(
            f"{wind[1]} is where the wind blows to (wind_to_direction). Turn it by 180 degrees "
            f"and set its standard_name to {DIRECTION[0]}."
        )
    speed = speed.where(~impossible_wind(speed, direction, unit_of(direction)))
    angle: Any = direction if is_radian(unit_of(direction)) else np.radians(direction)
    angle, units = angle.where(speed != 0, 0.0), {"units": unit_of(speed)} if unit_of(speed) else {}
    for name, function in zip(EAST_NORTH, (np.sin, np.cos), strict=True):
        part = (-speed * function(angle)).transpose(*speed.dims)
        part.attrs = {"standard_name": name, **units}
        ds = ds.assign({name: part})
    return ds, wind


def without_components(
    result: xarray.Dataset, ds: xarray.Dataset, wind: tuple[str, ...]
) -> xarray.Dataset:
    """A result with the speed and direction of its components instead of these, with the attributes
    they have in ds."""
    parts = speed_direction([result[name] for name in EAST_NORTH], unit_of(ds[wind[1]]))
    new = {
        n: a.drop_attrs(deep=False).assign_attrs(ds[n].attrs)
        for n, a in zip(wind, parts, strict=True)
    }
    return result.drop_vars(EAST_NORTH).assign(new)


def unit_of(variable: xarray.DataArray) -> str:
    """The unit that a variable declares, if any."""
    return str(variable.attrs.get("units", "")).strip()


def degrees(angle: xarray.DataArray) -> np.ndarray:
    """Angles in degrees, flat."""
    values = np.asarray(angle.values, np.float64).ravel()
    return np.degrees(values) if is_radian(unit_of(angle)) else values


def rate_attrs(name: str, wind: xarray.DataArray) -> dict[str, str]:
    """The standard name of the divergence or vorticity of a wind."""
    known = RATES.get(name) if str(wind.attrs.get("standard_name", "")).endswith("wind") else None
    return {"standard_name": known} if known else {}


def standard_name(name: str, along_axes: bool) -> str:
    """The standard name of a component along the axes of a grid, or of the eastward or northward
    one; "" if unknown."""
    names = ALONG_AXES if along_axes else {along: east for east, along in ALONG_AXES.items()}
    found = names.get(name, name)
    return "" if along_axes and found.startswith(("eastward", "northward")) else found


def without_fill(variable: xarray.DataArray, notes: list[Note]) -> xarray.DataArray:
    """The variable with NaN in cells that hold NetCDF's default fill value, where it does not
    declare its own."""
    if raw := {"_FillValue", "missing_value", "scale_factor", "add_offset"} & {*variable.attrs}:
        raise InvalidInputError(
            f"{variable.name} is not decoded: it has the attribute {min(raw)}. Use "
            "xarray.decode_cf(ds), or delete it."
        )
    encoding = variable.encoding
    kind = np.dtype(encoding.get("dtype", variable.dtype))
    if (
        kind.kind not in "fiu" or "_FillValue" in encoding or variable.chunks is not None
    ):  # not yet computed
        return variable
    scale, offset = float(encoding.get("scale_factor", 1.0)), float(encoding.get("add_offset", 0.0))
    default = (
        NETCDF_FILL
        if kind.kind == "f"
        else float(np.iinfo(kind).max) * (1 if kind.kind == "u" else -1)
    )
    fill = float(
        encoding.get("fill_value") or default
    )  # Zarr 3 has its own, mostly 0, which may be a number
    rounding = 1e-6 if kind.kind == "f" else 1e-12
    missing = np.isclose(variable.values, fill * scale + offset, rtol=rounding, atol=abs(scale) / 2)
    if not missing.any():
        return variable
    text = f"{int(missing.sum())} values of {variable.name} are the default fill value and count as"
    notes.append(MissingValuesNote(f"{text} missing"))
    return variable.astype(np.float64).where(~missing)


def find_vectors(ds: xarray.Dataset) -> tuple[xarray.Dataset, tuple[str, ...], tuple[str, ...]]:
    """Names of the eastward and northward variables: by standard name, winds first, then by usual
    names.

    Where there are only speed and direction, the dataset returned has components, too, and their
    names come third.
    """
    found: list[str] = []
    standard = {str(n): str(a.attrs.get("standard_name", "")) for n, a in ds.data_vars.items()}
    for word, usual in (("eastward_", EAST), ("northward_", NORTH)):
        named = [n for n, text in standard.items() if text == f"{word}wind"]
        named = named or [n for n, text in standard.items() if text.startswith(word)]
        lower = {n.lower(): n for n in named or standard}
        found += named if len(named) == 1 else [lower[n] for n in usual if n in lower][:1]
    if len(found) == 2:
        return ds, (found[0], found[1]), ()
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
    return ds, EAST_NORTH, wind


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
    dims = {*ds[names[0]].dims}
    free = {
        str(name): variable
        for name, variable in ds.data_vars.items()
        if name not in names
        and variable.dtype.kind == "f"
        and ({*variable.dims} <= dims or {*variable.dims} >= dims)
    }
    by_label = {variable.attrs.get("standard_name"): name for name, variable in free.items()}
    pairs = []
    for name, variable in free.items():
        if not variable.dims or NO_VECTOR.search(name.lower()):
            continue
        label = str(variable.attrs.get("standard_name", ""))
        partners = [by_label.get(other) for other in northward_names(label)] + northward_names(name)
        partner = next(
            (
                other
                for other in partners
                if other in free and {*free[other].dims} == {*variable.dims}
            ),
            None,
        )
        if (
            partner is not None
            and conversion(unit_of(variable), unit_of(free[partner])) is not None
        ):
            pairs.append((name, partner))
    return pairs


def warn_of_other_pairs(ds: xarray.Dataset, names: Sequence[str]) -> None:
    """Warn if a dataset has other vectors than those found by name: they are not worked on."""
    pairs = other_pairs(ds, names)
    if not pairs:
        return
    shown = "; ".join(", ".join(pair) for pair in pairs[:4]) + "; ..." * (len(pairs) > 4)
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
    here = [ds[key] for key in ds.variables if ds[key].ndim and set(ds[key].dims) <= set(wind.dims)]
    word = "north" if name == "latitude" else "east"
    units = {f"degree{s}_{direction}" for s in ("", "s") for direction in (word, word[0])}
    tests = (
        lambda a: a.attrs.get("standard_name") == name,
        lambda a: str(a.attrs.get("units", "")).lower() in units,
        lambda a: str(a.name).lower() in (name, *(form.format(name[:3]) for form in FORMS)),
    )
    for test in tests:
        if found := [a for a in here if test(a)]:
            return without_fill(found[0], [])
    raise InvalidInputError(
        f"expected a coordinate of {name} (standard_name {name}, units degrees_{word}, or called "
        f"{name[:3]}); the wind has {', '.join(map(str, wind.coords)) or 'none'}. Rename it, or "
        "set its units."
    )
