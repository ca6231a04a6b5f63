"""The xarray accessor: the dataset comes back with new numbers, and with all it said of itself."""

import numpy as np
import pytest
import xarray as xr

import tangentbundle.interop.xarray  # noqa: F401
from tangentbundle import earth
from tangentbundle.errors import InvalidInputError, MissingColumnsError

LAT, LON = np.arange(-75, 76, 25.0), np.arange(0, 360, 30.0)


def rotation(times=1, noise=0.0):
    """Solid rotation about the axis, the u of which is the cosine of latitude, with a variable that
    is no wind."""
    u = np.cos(np.radians(LAT))[None, :, None] * np.ones((times, 1, len(LON)))
    error = noise * np.random.default_rng(0).standard_normal((2, *u.shape))
    dims, dates = (
        ("time", "lat", "lon"),
        np.datetime64("2020-01-01", "ns") + np.arange(times) * np.timedelta64(6, "h"),
    )
    ds = xr.Dataset(
        {
            "ua": (dims, u + error[0], {"standard_name": "eastward_wind", "units": "m s-1"}),
            "va": (
                dims,
                error[1],
                {"standard_name": "northward_wind", "units": "m s-1", "note": "kept"},
            ),
            "t2m": (("lat", "lon"), np.ones(u.shape[1:])),
        },
        {"time": dates, "lat": ("lat", LAT, {"long_name": "Breite"}), "lon": LON, "height": 10.0},
        {"title": "rotation"},
    )
    return ds


def test_methods_are_the_functions_of_earth():
    ds = rotation(times=2, noise=0.1).transpose("lat", "lon", "time")
    made = ds.tangentbundle.smooth(filter_scale="5000 km")
    assert made["ua"].identical(earth.smooth(ds, "5000 km")["ua"]) and made["t2m"].identical(
        ds["t2m"]
    )
    assert ds.tangentbundle.divergence().identical(earth.divergence(ds))
    assert ds.tangentbundle.vorticity().identical(earth.vorticity(ds))
    assert ds.tangentbundle.spectrum(["5000 km", "9000 km"]).identical(
        earth.spectrum(ds, ["5000 km", "9000 km"])
    )
    parts, expected = ds.tangentbundle.decompose(), earth.decompose(ds)
    assert all(parts[name].identical(expected[name]) for name in expected)
    assert len(ds.tangentbundle.field(needs_vectors=False).space) == len(LAT) * len(LON)


def test_denoise_and_interpolate():
    ds = rotation(noise=0.2)
    made = ds.tangentbundle.denoise(std=True)
    truth = rotation()["ua"]
    assert float(((made["ua"] - truth) ** 2).mean()) < 0.3 * 0.2**2
    assert made["ua_std"].dims == made["ua"].dims and made["ua_std"].attrs["units"] == "m s-1"
    stations = xr.Dataset(
        coords={"lat": ("station", [0.0, 40.0, -60.0]), "lon": ("station", [7.0, 100.0, 350.0])}
    )
    there = ds.tangentbundle.interpolate_to(stations, earth.Kriging())
    assert there["ua"].dims == ("time", "station") and there["ua"].attrs == ds["ua"].attrs
    assert np.allclose(there["ua"].values.ravel(), np.cos(np.radians([0, 40, 60])), atol=0.15)
    assert (there["va_std"] > 0).all() and there.attrs["title"] == "rotation"
    near = rotation().tangentbundle.interpolate_to(stations)
    assert np.allclose(near["ua"].values.ravel(), np.cos(np.radians([0, 40, 60])), atol=0.15)


def test_levels_and_members_are_computed_each_by_itself():
    ds = xr.concat(
        [rotation(times=2), 3 * rotation(times=2)[["ua", "va"]]], "level", data_vars=["ua", "va"]
    )
    ds = ds.assign_coords(level=[500, 850]).transpose("time", "lat", "level", "lon")
    ds["ua"].attrs = rotation()["ua"].attrs
    made = ds.tangentbundle.smooth("5000 km")
    alone = rotation(times=2).tangentbundle.smooth("5000 km")
    assert made["ua"].dims == ds["ua"].dims
    assert np.allclose(made["ua"].sel(level=850), 3 * alone["ua"].transpose("time", "lat", "lon"))


def test_mistakes_are_named():
    with pytest.raises(MissingColumnsError, match=r"t2m.*vectors=\('EAST'") as found:
        rotation()[["t2m"]].tangentbundle.smooth("500 km")
    assert found.value.remedy.arguments["vectors"].example == ("EAST", "NORTH")
    assert "--" not in str(found.value)  # options of the tool
    with pytest.raises(MissingColumnsError, match="speed"):
        rotation().tangentbundle.denoise(vectors=("speed", "va"))
    with pytest.raises(InvalidInputError, match="dataset with latitude"):
        rotation().tangentbundle.interpolate_to(LAT)
    with pytest.raises(
        AttributeError, match=r"no 'filter', but decompose, .*smooth\(filter_scale='500 km'\)"
    ):
        rotation().tangentbundle.filter(0.01)
