"""Gridded series of any length through the command line: block by block, resumed, from many
files."""

import json
from pathlib import Path

import numpy as np
import pytest
from tool import run
from typer.testing import CliRunner

from tangentbundle.earth import series, smooth
from tangentbundle.earth.gridfields import GridFields
from tangentbundle_cli import app

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")
pytest.importorskip("zarr")
SCALE = ("--scale", "3000 km")


@pytest.fixture
def wind(tmp_path, monkeypatch):
    """Twelve fields with a variable besides, in one Zarr store and in three packed NetCDF files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(series, "BLOCK_BYTES", 2 * 19 * 36 * 8 * 5)  # blocks of 5 times
    rng, dims = np.random.default_rng(0), ("time", "lat", "lon")
    names = {"u": "eastward_wind", "v": "northward_wind"}
    variables = {
        key: (dims, rng.standard_normal((12, 19, 36)), {"units": "m s-1", "standard_name": name})
        for key, name in names.items()
    }
    coords = {"time": np.arange("2020-01-01", "2020-01-13", dtype="M8[D]").astype("M8[ns]")}
    coords |= {"lat": np.linspace(90, -90, 19), "lon": np.arange(0, 360, 10.0)}
    variables |= {
        "index": ("time", np.arange(12)),
        "height": ((), 10.0),
        "area": (("lat", "lon"), np.ones((19, 36))),
    }
    ds = xr.Dataset(variables, coords, {"title": "noise"})
    ds.chunk(time=4).to_zarr("wind.zarr", zarr_format=2, consolidated=True)
    packed = {
        name: {"dtype": "int16", "scale_factor": 0.001, "_FillValue": -32768} for name in "uv"
    }
    for k in range(3):
        ds.isel(time=slice(4 * k, 4 * k + 4)).to_netcdf(f"wind_{k}.nc", encoding=packed)
    return ds


def test_blocks_are_the_whole(wind):
    told = json.loads(
        run("filter", "wind.zarr", *SCALE, "-o", "out.zarr", "--workers", 2, "--json").stdout
    )
    assert told["times"] == 12 and told["points"] == 17 * 36 + 2
    found, whole = xr.open_zarr("out.zarr"), smooth(wind, "3000 km")
    xr.testing.assert_allclose(found, whole, atol=1e-12)
    assert (
        found.title == "noise" and found.u.attrs == wind.u.attrs and found.u.chunks[0] == (4, 4, 4)
    )
    run("filter", "wind_*.nc", *SCALE, "-o", "out.nc", "--variables", "v,u")
    with xr.open_dataset("out.nc") as packed:
        assert {*packed.data_vars} == {"u", "v"}
        xr.testing.assert_allclose(packed, whole[["u", "v"]], atol=1e-3)
    assert not [*wind_work()]


def wind_work():
    return Path().glob(".*.work")


def test_what_is_finished_is_not_computed_again(wind, monkeypatch):
    original, computed = xr.Dataset.to_zarr, []

    def to_zarr(self, *arguments, region=None, **options):
        if region:
            computed.append(region["time"].start)
            if len(computed) == 3:
                raise KeyboardInterrupt
        return original(self, *arguments, region=region, **options)

    monkeypatch.setattr(xr.Dataset, "to_zarr", to_zarr)
    result = CliRunner().invoke(app, ["filter", "wind.zarr", *SCALE, "-o", "out.zarr"])
    assert result.exit_code and computed == [0, 4, 8] and len([*wind_work()]) == 1
    run("filter", "wind.zarr", *SCALE, "-o", "out.zarr")
    assert computed == [0, 4, 8, 8]
    xr.testing.assert_allclose(xr.open_zarr("out.zarr"), smooth(wind, "3000 km"), atol=1e-12)
    run("filter", "wind.zarr", "--scale", "5000 km", "-o", "next.zarr")
    assert computed[4:] == [0, 4, 8]
    xr.testing.assert_allclose(xr.open_zarr("next.zarr"), smooth(wind, "5000 km"), atol=1e-12)


def test_blocks_are_along_the_longest_dimension(wind):
    """Few members of a long series: memory holds a few times of all members, and never all times of
    a member."""
    wind.expand_dims(member=2).chunk(time=1).to_zarr(
        "members.zarr", zarr_format=2, consolidated=True
    )
    with xr.open_zarr("members.zarr") as ds:
        assert series.in_blocks(GridFields.of(ds))[1] == "time"
    shown = run("filter", "members.zarr", *SCALE, "-o", "out.zarr").stdout
    assert "24 fields" in shown
    expected = smooth(wind, "3000 km").u
    xr.testing.assert_allclose(
        xr.open_zarr("out.zarr").u.isel(member=1, drop=True), expected, atol=1e-12
    )


def test_one_field_without_time(wind):
    wind.isel(time=0, drop=True).to_netcdf("one.nc")
    run("filter", "one.nc", *SCALE, "-o", "out.nc")
    with xr.open_dataset("out.nc") as found:
        xr.testing.assert_allclose(
            found.u, smooth(wind, "3000 km").u.isel(time=0, drop=True), atol=1e-12
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scale", "5 furlongs"), "500 km"),
        (("--scale", "500 km", "--heat", "0.1"), "one filter"),
        (("--scale", "500 km", "--eps", "0.1"), "--eps"),
        (("--scale", "500 km", "--variables", "u,w"), "no column w"),
        (("--scale", "500 km", "--variables", "u"), "northward"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(wind, options, message):
    assert message in run("filter", "wind.zarr", *options, "-o", "out.zarr", code=2).stderr
    assert message in run("filter", "wind_?.nc", *options, "-o", "out.nc", code=2).stderr
    assert not [*wind_work()]


def test_files_that_are_no_grids_are_refused(wind):
    assert "no such file" in run("filter", "gone_*.nc", *SCALE, "-o", "out.nc", code=2).stderr
    assert "NetCDF or Zarr" in run("filter", "wind_0.nc", *SCALE, "-o", "out.csv", code=2).stderr
    wind.isel(time=slice(3), lat=slice(9)).to_netcdf("wind_9.nc")
    assert (
        "wind_*.nc" in run("filter", "wind_*.nc", *SCALE, "-o", "out.nc", code=2).stderr
    )  # two grids mixed


def coarse_series(times=3):
    """Noisy rotations on a coarse grid, as a NetCDF file."""
    lat, lon = np.linspace(60, -60, 5), np.arange(0, 360, 30.0)
    rng, dims = np.random.default_rng(0), ("time", "lat", "lon")
    u = np.cos(np.radians(lat))[:, None] * np.ones(12) + 0.1 * rng.standard_normal((times, 5, 12))
    coords = {"time": np.arange(times), "lat": lat, "lon": lon}
    units = {"units": "m s-1"}
    ds = xr.Dataset(
        {"u": (dims, u, units), "v": (dims, 0.1 * rng.standard_normal(u.shape), units)}, coords
    )
    ds.to_netcdf("coarse.nc")
    return ds


def test_fits_run_side_by_side(wind, monkeypatch):
    """Blocks on several threads, by the library and the tool, have the results of one field after
    the other."""
    import dask

    from tangentbundle import earth
    from tangentbundle_cli import predict

    monkeypatch.setattr(predict, "FIELDS_AT_ONCE", 1)
    ds = coarse_series()
    target = xr.Dataset(coords={"lat": ("point", [10.0, -20.0]), "lon": ("point", [5.0, 200.0])})
    clean, there = earth.denoise(ds, std=True), earth.interpolate_to(ds, target, earth.Kriging())
    with dask.config.set(scheduler="threads", num_workers=3):
        xr.testing.assert_allclose(earth.denoise(ds.chunk(time=1), std=True).compute(), clean)
    run("denoise", "coarse.nc", "-o", "clean.zarr", "--std", "--workers", 2)
    xr.testing.assert_allclose(xr.open_zarr("clean.zarr").compute(), clean)
    Path("places.csv").write_text("lat,lon\n10,5\n-20,200\n")
    run("interpolate", "coarse.nc", "--at", "places.csv", "-o", "there.nc", "--std", "--workers", 2)
    with xr.open_dataset("there.nc") as found:
        for name in ("u", "v_std"):
            np.testing.assert_allclose(found[name], there[name], rtol=1e-6)
    run("interpolate", "coarse.nc", "--at", "places.csv", "-o", "there.nc", "--workers", 1)
    with xr.open_dataset("there.nc") as found:
        assert {*found.data_vars} == {"u", "v"} and found.u.dims == ("time", "point")


def test_parts_in_blocks(wind):
    from tangentbundle import earth

    ds = coarse_series().expand_dims(height=[10.0]).transpose("lat", "time", "height", "lon")
    ds["u"].attrs["standard_name"], ds["v"].attrs["standard_name"] = (
        "eastward_wind",
        "northward_wind",
    )
    ds.to_netcdf("coarse.nc")
    expected = earth.decompose(ds)
    run("decompose", "coarse.nc", "-o", "parts.zarr", "--workers", 2)
    run("decompose", "coarse.nc", "-o", "parts.nc")
    found = xr.open_zarr("parts.zarr").compute()
    for name, other in (
        ("gradient_u", "u_divergent"),
        ("remainder_v", "v_remainder"),
        ("stream", "streamfunction"),
    ):
        xr.testing.assert_allclose(found[name], expected[other].rename(name))
    with xr.open_dataset("parts.nc") as other:  # the same, computed in memory
        assert {*found.data_vars} == {*other.data_vars} and {"u", "vorticity"} <= {*found.data_vars}
        for name in found:
            np.testing.assert_allclose(found[name], other[name], rtol=1e-5, atol=1e-3)
            assert found[name].dims == other[name].dims == ds.u.dims and "height" in other.coords
            assert all(
                found[name].attrs.get(key) == other[name].attrs.get(key)
                for key in ("units", "standard_name")
            )
    assert (
        "--neighbors"
        in run(
            "decompose", "coarse.nc", "-o", "a.nc", "--workers", 1, "--neighbors", 9, code=2
        ).stderr
    )


@pytest.mark.parametrize(
    "command", [("decompose",), ("denoise", "--std"), ("filter", "--scale", "9000 km")]
)
def test_results_of_packed_files_are_not_packed(command, wind):
    """Potentials, parts and deviations do not fit the integers of the wind, whose largest number
    they hold."""
    ds = coarse_series(1)
    step = float(max(abs(ds.u).max(), abs(ds.v).max())) / 127
    packing = {"dtype": "i1", "scale_factor": step, "_FillValue": -128}
    ds.to_netcdf("packed.nc", encoding={"u": packing, "v": packing})
    with xr.open_dataset("packed.nc") as same:
        same.drop_encoding().to_netcdf("floats.nc")
    for name in ("packed", "floats"):
        run(command[0], f"{name}.nc", "-o", f"{name}_out.nc", "--workers", 1, *command[1:])
    with xr.open_dataset("packed_out.nc") as found, xr.open_dataset("floats_out.nc") as expected:
        xr.testing.assert_allclose(found, expected)


def test_blocks_of_speed_and_direction(wind):
    """The result is smoothed speed and direction, in the units of the file, each with its own
    attributes."""
    ds = coarse_series()
    speed, direction = np.hypot(ds.u, ds.v), np.degrees(np.arctan2(-ds.u, -ds.v)) % 360
    said = {"wind_speed": speed.drop_attrs().assign_attrs(units="kt", long_name="speed")}
    said["wind_from_direction"] = np.radians(direction).drop_attrs().assign_attrs(units="radian")
    xr.Dataset(said).to_netcdf("speed.nc")
    expected = smooth(ds, "9000 km")
    for output in ("smooth.zarr", "smooth.nc"):
        run("filter", "speed.nc", "--scale", "9000 km", "-o", output)
        with xr.open_dataset(output) as found:
            assert {*found.data_vars} == {*said}
            assert all(found[name].attrs == said[name].attrs for name in said)
            north = -found.wind_speed * np.cos(found.wind_from_direction)
            np.testing.assert_allclose(north, expected.v, atol=1e-6)
    run("decompose", "speed.nc", "-o", "parts.nc", "--workers", 1)
    with xr.open_dataset("parts.nc") as found:
        assert (
            found["gradient_eastward_wind"].attrs["units"] == "kt" and "eastward_wind" not in found
        )
        np.testing.assert_allclose(found.wind_from_direction, said["wind_from_direction"])


def test_options_that_blocks_do_not_know_are_refused(wind):
    coarse_series()
    for options in (("--dim", 2), ("--report", "x.html"), ("--select", "time=1")):
        refused = run(
            "denoise", "coarse.nc", "-o", "out.nc", "--workers", 1, *options, code=2
        ).stderr
        assert options[0] in refused
    assert (
        "--select"
        in run("filter", "coarse.nc", *SCALE, "-o", "out.nc", "--select", "time=1", code=2).stderr
    )
    assert (
        "NetCDF or Zarr"
        in run("denoise", "coarse.nc", "-o", "out.csv", "--workers", 1, code=2).stderr
    )
