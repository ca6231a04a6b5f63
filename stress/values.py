"""Markers of missing values and units of components, drawn at random: a missing cell is never a
number."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tangentbundle.errors import UnitsError
from tangentbundle.io import Request, read_field, write_field

from .tally import Tally

INPUTS = 800
LAT, LON = np.repeat([-50.0, -10.0, 20.0, 60.0], 6), np.tile(np.arange(0.0, 360.0, 60.0), 4)
KINDS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
SPEEDS = {
    "m/s": 1.0,
    "m s**-1": 1.0,
    "knots": 1852 / 3600,
    "km/h": 1 / 3.6,
    "cm s-1": 0.01,
    "mph": 0.44704,
}
OTHERS = ("K", "1", "m s-2", "furlong/fortnight")


def fields_with_holes(path: Path, rng: np.random.Generator) -> None:
    """A NetCDF file of any type, packed or not, with cells that are missing in some way; what is
    read was written."""
    import netCDF4

    kind, grid = str(rng.choice(KINDS)), rng.random() < 0.5
    numbers = rng.integers(1, 90, (2, 24))
    holes = rng.random(24) < rng.choice([0.05, 0.3])
    scale, offset = (0.25, 3.0) if kind[0] in "iu" and rng.random() < 0.5 else (1.0, 0.0)
    how = rng.choice(["never written", "default", "_FillValue", "missing_value"])
    own, default = (np.dtype(kind).type(number) for number in (99, netCDF4.default_fillvals[kind]))
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        (
            file.createDimension("lat", 4),
            file.createDimension("lon", 6),
            file.createDimension("point", 24),
        )
        for name, angles in (("lat", LAT), ("lon", LON)):
            place = (name,) if grid else ("point",)
            file.createVariable(name, "f8", place)[:] = np.unique(angles) if grid else angles
        for name, column in zip("uv", numbers, strict=True):
            dims = ("lat", "lon") if grid else ("point",)
            variable = file.createVariable(
                name, kind, dims, fill_value=own if how == "_FillValue" else None
            )
            if how == "missing_value":
                variable.missing_value = own
            if (scale, offset) != (1.0, 0.0):
                variable.scale_factor, variable.add_offset = scale, offset
            variable.set_auto_maskandscale(False)
            for k in np.flatnonzero(~holes | (how != "never written")):
                marker = default if how == "default" else own
                variable[np.unravel_index(k, variable.shape)] = marker if holes[k] else column[k]
    field = read_field(path, Request(drop_missing=True))
    order = np.lexsort([field.space.lon, field.space.lat])
    assert field.values is not None and field.values.shape[1] == int((~holes).sum()), (
        "a missing cell was read"
    )
    assert np.allclose(field.values[0, order].T, numbers[:, ~holes] * scale + offset), (
        "other numbers were read"
    )


def fields_with_units(path: Path, rng: np.random.Generator) -> None:
    """Two components in any two units, in any format: converted, or refused by name; and the same
    after writing."""
    import xarray

    units = [str(rng.choice([*SPEEDS, *SPEEDS, *OTHERS])) for _ in range(2)]
    speeds = rng.uniform(-40, 40, (2, 24))
    u, v = (column / SPEEDS.get(unit, 1.0) for column, unit in zip(speeds, units, strict=True))
    names = [f"u [{units[0]}]", f"v [{units[1]}]"]
    if path.suffix == ".npz":
        np.savez(path, **{"lat": LAT, "lon": LON, names[0]: u, names[1]: v})
    elif path.suffix == ".csv":
        rows = np.stack([LAT, LON, u, v], axis=1)
        np.savetxt(path, rows, "%.17g", ",", header=f"lat,lon,{names[0]},{names[1]}", comments="")
    else:
        data = {
            name: ("point", a, {"units": unit})
            for name, a, unit in zip("uv", (u, v), units, strict=True)
        }
        xarray.Dataset(data, {"lat": ("point", LAT), "lon": ("point", LON)}).to_netcdf(path)
    known = units[0] == units[1] or set(units) <= {*SPEEDS}
    try:
        field = read_field(path)
    except UnitsError:
        assert not known, f"{units} were refused"
        raise
    assert known, f"{units} were accepted"
    write_field(field, path)
    for one in (field, read_field(path)):
        assert one.values is not None
        assert np.allclose(one.values[0].T * SPEEDS.get(one.units, 1.0), speeds), (
            f"{units} were not converted"
        )


def run(share: float = 1.0) -> list[dict[str, Any]]:
    rng, rows = np.random.default_rng(0), []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, check, suffixes in (
            ("missing cells", fields_with_holes, (".nc",)),
            ("units", fields_with_units, (".csv", ".npz", ".nc")),
        ):
            tally = Tally(name)
            for number in range(max(20, round(INPUTS * share))):
                path = Path(folder) / f"field{suffixes[number % len(suffixes)]}"
                tally.try_out(lambda check=check, path=path: check(path, rng), number)
            rows.append(tally.row())
    return rows
