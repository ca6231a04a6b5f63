"""The xarray accessor: the dataset comes back with new numbers, and with all it said of itself."""

import numpy as np
import pytest
import xarray as xr

import tangentbundle as tb
import tangentbundle.interop.xarray
from tangentbundle.errors import InvalidInputError, MissingColumnsError

LAT, LON = np.arange(-75, 76, 25.0), np.arange(0, 360, 30.0)


def rotation(times=1, noise=0.0):
    """Solid rotation about the axis, the u of which is the cosine of latitude, with a variable that is no wind."""
    u = np.cos(np.radians(LAT))[None, :, None] * np.ones((times, 1, len(LON)))
    error = noise * np.random.default_rng(0).standard_normal((2, *u.shape))
    dims, dates = ("time", "lat", "lon"), np.datetime64("2020-01-01", "ns") + np.arange(times) * np.timedelta64(6, "h")
    ds = xr.Dataset(
        {
            "ua": (dims, u + error[0], {"standard_name": "eastward_wind", "units": "m s-1"}),
            "va": (dims, error[1], {"standard_name": "northward_wind", "units": "m s-1", "note": "kept"}),
            "t2m": (("lat", "lon"), np.ones(u.shape[1:])),
        },
        {"time": dates, "lat": ("lat", LAT, {"long_name": "Breite"}), "lon": LON, "height": 10.0},
        {"title": "rotation"},
    )
    return ds


def test_filter_keeps_what_the_dataset_says_of_itself():
    ds = rotation(times=2).transpose("lat", "lon", "time")
    made = ds.tangentbundle.filter(tb.Heat(0.1))
    assert made.attrs == ds.attrs and set(made.coords) == set(ds.coords) and set(made) == set(ds)
    for name in ds.variables:
        assert made[name].attrs == ds[name].attrs and made[name].dims == ds[name].dims
    assert made["t2m"].equals(ds["t2m"]) and np.abs(made["va"]).max() < 1e-12
    bundle = ds.tangentbundle.bundle()
    signal = np.stack([ds["ua"].isel(time=0).values.ravel(), np.zeros(bundle.num_points)], axis=1)[..., None]
    expected = tb.Heat(0.1)(bundle.laplacian(), signal)[:, 0, 0]
    assert np.allclose(made["ua"].isel(time=1).values.ravel(), expected)


def test_denoise_and_interpolate():
    ds = rotation(noise=0.2)
    made = ds.tangentbundle.denoise(std=True)
    truth = rotation()["ua"]
    assert float(((made["ua"] - truth) ** 2).mean()) < 0.3 * 0.2**2
    assert made["ua_std"].dims == made["ua"].dims and made["ua_std"].attrs["units"] == "m s-1"
    stations = xr.Dataset(coords={"lat": ("station", [0.0, 40.0, -60.0]), "lon": ("station", [7.0, 100.0, 350.0])})
    there = ds.tangentbundle.interpolate(stations, std=True)
    assert there["ua"].dims == ("time", "station") and there["ua"].attrs == ds["ua"].attrs
    assert np.allclose(there["ua"].values.ravel(), np.cos(np.radians([0, 40, 60])), atol=0.15)
    assert (there["va_std"] > 0).all() and there.attrs["title"] == "rotation"


def test_levels_and_members_are_computed_each_by_itself():
    """Also in another order of the dimensions; speed and direction are the same wind."""
    ds = xr.concat([rotation(times=2), 3 * rotation(times=2)[["ua", "va"]]], "level", data_vars=["ua", "va"])
    ds = ds.assign_coords(level=[500, 850]).transpose("time", "lat", "level", "lon")
    ds["ua"].attrs = rotation()["ua"].attrs
    made = ds.tangentbundle.filter(tb.Heat(0.1))
    alone = rotation(times=2).tangentbundle.filter(tb.Heat(0.1))
    assert made["ua"].dims == ds["ua"].dims
    assert np.allclose(made["ua"].sel(level=850), 3 * alone["ua"].transpose("time", "lat", "lon"))
    one = rotation(noise=0.1)
    speed = {
        "wind_speed": np.hypot(one["ua"], one["va"]),
        "wind_direction": np.degrees(np.arctan2(-one["ua"], -one["va"])),
    }
    polar = one.drop_vars(["ua", "va"]).assign(speed).tangentbundle.filter(tb.Heat(0.1))
    assert np.allclose(polar["eastward_wind"], one.tangentbundle.filter(tb.Heat(0.1))["ua"]) and "t2m" in polar


def test_wind_is_estimated_as_by_the_tool(monkeypatch):
    """With covariances of a planet, and with a history where one is given."""
    used = []
    fit = tb.FieldInterpolator.fit

    def watch(self, *arguments, **options):
        used.append(fit(self, *arguments, **options).scores_)
        return self

    monkeypatch.setattr(tb.FieldInterpolator, "fit", watch)
    ds, past = rotation(noise=0.1), rotation(times=12, noise=0.1)
    for history in (None, past):
        ds.tangentbundle.interpolate(xr.Dataset(coords={"lat": [5.0], "lon": [5.0]}), history=history)
    names = [" ".join(row.model for row in rows) for rows in used]
    assert all("Zonal" in name for name in names) and "no history" in names[1] and "no history" not in names[0]


def test_forecast():
    ds = rotation(times=24, noise=0.1)
    made = ds.tangentbundle.forecast(3, std=True)
    assert made.sizes["time"] == 3 and made["time"].values[0] - ds["time"].values[-1] == np.timedelta64(6, "h")
    assert (made["ua_std"] > 0).all() and made["va"].attrs["note"] == "kept"
    assert set(ds.tangentbundle.forecast(1)) == {"ua", "va"}


def test_points_along_a_dimension():
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample(200, seed=0)
    columns = np.c_[points, sphere.gradient_field(points, 2)].T
    ds = xr.Dataset({n: ("buoy", a) for n, a in zip(("x", "y", "z", "vx", "vy", "vz"), columns, strict=True)})
    ds["vx"].attrs["units"] = "cm/s"
    made = ds.tangentbundle.filter(tb.Heat(0.1), neighbors=30)
    bundle = tb.TangentBundle.from_points(points, neighbors=30)
    expected = bundle.to_ambient(tb.Heat(0.1)(bundle.laplacian(), bundle.to_coordinates(columns[3:].T)))
    assert np.allclose(made["vz"], expected[:, 2]) and made["vz"].dims == ("buoy",) and made["vx"].units == "cm/s"


def test_mistakes_are_named():
    with pytest.raises(MissingColumnsError, match=r"t2m.*vectors=\(\"EAST\"") as found:
        rotation()[["t2m"]].tangentbundle.filter(tb.Heat(0.1))
    assert "--" not in str(found.value)  # options of the tool
    with pytest.raises(InvalidInputError, match=r"such as tb.Heat\(0.01\), got 0.01"):
        rotation().tangentbundle.filter(0.01)
    with pytest.raises(MissingColumnsError, match="speed"):
        rotation().tangentbundle.denoise(vectors=("speed", "va"))
    with pytest.raises(InvalidInputError, match="dataset with coordinates"):
        rotation().tangentbundle.interpolate(LAT)
    with pytest.raises(InvalidInputError, match="series"):
        rotation().tangentbundle.forecast(2)
