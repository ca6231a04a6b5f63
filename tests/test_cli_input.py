"""What the tool makes of people's files: columns, units, levels, series, and warnings of suspicious
data."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from tool import run, told, working_folder
from typer.testing import CliRunner

import tangentbundle as tb
from tangentbundle_cli import app

SPHERE = tb.manifolds.Sphere(2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return working_folder(tmp_path, monkeypatch)


GUARDS = {
    "marker": (lambda t: t.assign(vx=t.vx.where(t.index > 3, -9999.0)), "4 values of vx are -9999"),
    "fill": (lambda t: t.assign(y=t.y.where(t.index > 3, 1e20)), "4 values of y are 1e+20"),
    "dominant": (
        lambda t: t.assign(vz=t.vz.where(t.index != 7, 1e4)),
        "row 8 has 100% of the energy",
    ),
    "few": (lambda t: t[:8], "8 points are too few"),
}


@pytest.mark.parametrize("name", GUARDS)
def test_suspicious_data_are_told(name, folder):
    change, text = GUARDS[name]
    change(pd.read_csv("field.csv")).to_csv("changed.csv", index=False)
    for file in ("field.csv", "changed.csv"):
        warnings = CliRunner().invoke(app, ["inspect", file, "-k", "0"]).stderr
        assert (text in warnings) == (file == "changed.csv")


def test_markers_in_files_of_points_are_told(folder):
    table = pd.read_csv("field.csv")[["x", "y", "z"]]
    for count, marker in ((4, 1e20), (len(table) - 20, -9999.0)):
        table.assign(y=table.y.where(table.index >= count, marker)).to_csv(
            "points.csv", index=False
        )
        text = CliRunner().invoke(app, ["inspect", "points.csv", "-k", "0"]).stderr
        assert f"{count} values of y are {marker:g}" in text
    for height in (0.0, 9999.0, (1e-17 * table.z).where(table.index < 20, 1.0)):  # no markers
        table.assign(y=height).to_csv("points.csv", index=False)
        assert (
            "values of y"
            not in CliRunner().invoke(app, ["inspect", "points.csv", "-k", "0"]).stderr
        )


def test_transposed_arrays_radians_and_filters_that_leave_nothing_are_told(folder):
    points = np.random.default_rng(0).standard_normal((3, 100))
    np.savez("turned.npz", points=points, vectors=points)
    assert "3 points in R^100: is the array transposed?" in run("inspect", "turned.npz").stderr
    table = pd.read_csv("stations.csv")
    np.radians(table[["lat", "lon"]]).join(table[["u", "v"]]).to_csv("radians.csv", index=False)
    assert re.search(
        r"longitude is \d.\d+: are they radians", run("inspect", "radians.csv", "-k", 0).stderr
    )
    table.assign(speed=5.0, direction=np.linspace(0, 6.2, len(table))).drop(
        columns=["u", "v"]
    ).to_csv("dir.csv")
    assert "the largest angle of direction is 6.2" in run("inspect", "dir.csv", "-k", 0).stderr
    assert re.search(
        r"only \S+e-\d+ of .*Try", run("filter", "field.csv", "--heat", 5, "-o", "a.csv").stderr
    )


def test_noise_that_cannot_be_estimated_is_told(folder):
    """In the words of the tool: the library says noise_std."""
    table = pd.read_csv("field.csv")
    table[["vx", "vy", "vz"]] = np.random.default_rng(12).standard_normal((120, 3))
    table.to_csv("noise.csv", index=False)
    warned = run("denoise", "noise.csv", "-o", "clean.csv").stderr
    assert "no better than noise of their own size" in warned and "Give --noise if" in warned


def test_many_columns(folder):
    """Patterns, ranges and guesses name the same columns."""
    points = np.random.default_rng(0).random((200, 2)) @ np.random.default_rng(1).standard_normal(
        (2, 12)
    )
    names = [f"pc{i}" for i in range(1, 13)]
    table = pd.DataFrame(
        np.c_[points, points[:, ::-1]], columns=names + [f"dpc{i}" for i in range(1, 13)]
    )
    table[sorted(table.columns)].assign(label=1.0).to_csv("many.csv", index=False)
    options = [
        (),
        ("--points", "pc*", "--vectors", "dpc*"),
        ("--points", "pc1:pc12", "--vectors", "dpc1:dpc12"),
    ]
    found = [told("inspect", "many.csv", "-k", 0, *option) for option in options]
    assert all(f["ambient_dim"] == 12 and f["dimension"] == 2 for f in found)
    assert len({f["normal_share"] for f in found}) == 1 and found[0]["normal_share"] > 0.1
    assert "Correct --points" in run("inspect", "many.csv", "--points", "q*", code=2).stderr


def test_wind_as_speed_and_direction(folder):
    """Of the same wind the same answers, by name and by option, in columns of the same names and
    units."""
    table = pd.read_csv("stations.csv")
    table["wspd"], table["wdir"] = (
        np.hypot(table.u, table.v),
        np.degrees(np.arctan2(-table.u, -table.v)) % 360,
    )
    table[["lat", "lon", "wspd", "wdir"]].to_csv("guess.csv", index=False)
    table.rename(columns={"wspd": "a", "wdir": "b"})[["lat", "lon", "a", "b"]].to_csv(
        "named.csv", index=False
    )
    spoken = {
        "lat": "Latitude (deg)",
        "lon": "Longitude (deg)",
        "wspd": "Wind Speed (kt)",
        "wdir": "Wind Dir (deg)",
    }
    table.rename(columns=spoken)[[*spoken.values()]].to_csv("spoken.csv", index=False)
    assert told("inspect", "spoken.csv", "-k", 0)["units"] == "kt"
    radians = table.assign(wdir=np.radians(table.wdir))[["lat", "lon", "wspd", "wdir"]]
    radians.rename(columns={"wspd": "ff [kn]", "wdir": "dd [rad]"}).to_csv(
        "radians.csv", index=False
    )
    run("filter", "stations.csv", "--heat", 0.01, "-o", "smooth.csv", "--digits", 16)
    a = pd.read_csv("smooth.csv")
    for name, options, turn in (
        ("guess", (), 180),
        ("named", ("--wind", "a,b"), 180),
        ("radians", (), np.pi),
    ):
        exact = ("--digits", 16, *options)
        run("filter", f"{name}.csv", "--heat", 0.01, "-o", "wind.csv", *exact)
        before, b = pd.read_csv(f"{name}.csv"), pd.read_csv("wind.csv")
        speed, angle = b.iloc[:, 2], np.pi / turn * b.iloc[:, 3]
        assert [*b.columns] == [*before.columns]
        assert np.allclose(-speed * np.sin(angle), a["u"]) and np.allclose(
            -speed * np.cos(angle), a["v"]
        )
    run("interpolate", "radians.csv", "--at", "guess.csv", "-o", "there.csv", "--std")
    new = ["ff [kn]", "dd [rad]"]
    new += ["eastward_wind_uncertainty [kn]", "northward_wind_uncertainty [kn]"]
    assert {*pd.read_csv("there.csv").columns} == {"lat", "lon", "wspd", "wdir", *new}


def test_levels_are_selected_or_all_computed(folder):
    with xr.open_dataset("series.nc") as ds:
        few = ds.isel(time=slice(3))
        levels = xr.concat(
            [few, few.assign(u=2 * few["u"], v=2 * few["v"])], "level", data_vars=["u", "v"]
        )
        levels.assign_coords(level=("level", [500, 850], {"units": "hPa"})).to_netcdf("levels.nc")
        few.expand_dims(member=["m1", "m10"]).to_netcdf("members.nc")
    assert told("inspect", "members.nc", "--select", "member=m1")["times"] == 3
    run("filter", "levels.nc", "--heat", 0.01, "-o", "all.nc")
    run("filter", "levels.nc", "--heat", 0.01, "-o", "one.nc", "--select", "level=850")
    assert (
        "hold one field"
        in run("filter", "levels.nc", "--heat", 0.01, "-o", "all.csv", code=2).stderr
    )
    with (
        xr.open_dataset("all.nc") as made,
        xr.open_dataset("one.nc") as one,
        xr.open_dataset("levels.nc") as levels,
    ):
        assert made["u"].sizes == levels["u"].sizes and np.array_equal(made["level"], [500, 850])
        assert np.allclose(made["u"].sel(level=850), 2 * made["u"].sel(level=500))
        assert np.allclose(made["u"].sel(level=850), one["u"].squeeze())
        assert made["level"].attrs == levels["level"].attrs
    assert "850" in run("inspect", "levels.nc", "--select", "level=700", code=2).stderr
    assert (
        "2 values along level"
        in run("forecast", "levels.nc", "--horizon", 2, "-o", "x.nc", code=2).stderr
    )


def test_other_calendars_and_times_without_dates(folder):
    """Months have no fixed length, which is all that forecasts mind."""
    with xr.open_dataset("series.nc") as ds:
        ds.convert_calendar("noleap").to_netcdf("noleap.nc")
        months = ds.assign_coords(
            time=("time", np.arange(ds.sizes["time"]), {"units": "months since 1990-01-01"})
        )
        months.to_netcdf("months.nc")
    assert (
        "calendar noleap"
        in run("forecast", "noleap.nc", "--horizon", 2, "-o", "x.nc", code=2).stderr
    )
    assert (
        "96 values along time, which are not dates"
        in run("forecast", "months.nc", "--horizon", 2, "-o", "x.nc", code=2).stderr
    )
    assert (
        "'months since 1990-01-01'"
        in run("filter", "months.nc", "--heat", 0.01, "-o", "x.nc").stderr
    )
    with xr.open_dataset("x.nc", decode_times=False) as made:
        assert made["time"].attrs["units"] == "months since 1990-01-01"


def test_interpolate_learns_from_a_history(folder):
    found = told(
        "interpolate", "stations.csv", "--at", "grid.nc", "--history", "series.nc", "-o", "wind.nc"
    )
    assert found["history"] == 96 and any("no history" in name for name in found["weights"])


def test_options_name_columns_of_the_first_file_only(folder):
    """The places have no such columns; and a table for fields without dates is refused before
    they are computed."""
    table = pd.read_csv("stations.csv").rename(columns={"lat": "a", "lon": "b", "u": "c", "v": "d"})
    table.assign(err=0.1).to_csv("named.csv", index=False)
    options = ("--latlon", "a,b", "--vectors", "c,d", "--sigma", "err")
    found = told("interpolate", "named.csv", *options, "--at", "grid.nc", "-o", "wind.nc")
    assert found["places"] == 5 * 6 + 2 and found["noise"] == pytest.approx(0.1)
    with xr.open_dataset("series.nc") as ds:
        ds.drop_vars("time").to_netcdf("undated.nc")
    many = ("interpolate", "undated.nc", "--at", "stations.csv", "-o", "many.csv")
    assert "hold one field, but there are 96" in run(*many, code=2).stderr


def test_what_does_not_fit_the_file_is_refused(folder):
    """Options, arrays and names that contradict the content, each with a remedy."""
    rng = np.random.default_rng(0)
    np.savez(
        "flat.npz", points=rng.random((20, 2)), vectors=rng.random((20, 2)), triangles=[[0, 1, 2]]
    )
    pq.write_table(pa.table({"x": [1.0], "x ": [2.0], "y": [1.0]}), "twice.parquet")
    pd.DataFrame(rng.random((30, 4)), columns=["pc1", "pc2", "dpc1", "dpc2"]).to_csv(
        "many.csv", index=False
    )
    for arguments, text in {
        ("inspect", "stations.csv", "--dim", 1): "--dim 1 does not fit stations.csv: expected 2",
        ("inspect", "field.csv", "--dim", 9): "expected from 1 to 3",
        ("inspect", "many.csv", "--points", "pc2:pc1"): "is an empty range. Write pc1:pc50",
        ("inspect", "flat.npz"): "a mesh needs points of shape (n, 3), got (20, 2)",
        ("inspect", "twice.parquet"): "several columns called 'x'",
        ("demo", "--out", "field.csv"): "cannot write in field.csv",
    }.items():
        assert text in run(*arguments, code=2).stderr, arguments


def test_home_folders_are_found(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    before = Path("field.csv").read_bytes()
    assert (
        "is also the input"
        in run("filter", "~/field.csv", "--heat", 0.01, "-o", "field.csv", code=2).stderr
    )
    run("spectrum", "field.csv", "-k", 2, "-o", "~/Fields.NPZ")
    assert Path("field.csv").read_bytes() == before and Path("Fields.NPZ").exists()


def test_rows_without_a_standard_error_are_dropped_when_asked(folder):
    table = pd.read_csv("field.csv").assign(sigma=0.1)
    table.loc[3, "sigma"] = np.nan
    table.to_csv("errors.csv", index=False)
    assert "row 4" in run("denoise", "errors.csv", "--sigma", "sigma", "-o", "a.csv", code=2).stderr
    run("denoise", "errors.csv", "--sigma", "sigma", "--drop-missing", "-o", "a.csv")
    assert len(pd.read_csv("a.csv")) == len(table) - 1


def test_archives_keep_one_array_of_times(folder):
    points, dates = (
        tb.manifolds.Torus().sample(60, seed=0),
        np.datetime64("2026-01-31") + np.arange(40),
    )
    series = np.cos(np.arange(40) / 5)[:, None, None] * tb.manifolds.Torus().tangent_field(points)
    np.savez("series.npz", points=points, vectors=series, times=dates)
    run("forecast", "series.npz", "--horizon", 2, "-o", "next.npz")
    with np.load("next.npz") as file:
        assert np.array_equal(file["times"], dates[-1] + np.arange(1, 3)) and "time" not in file


@pytest.mark.parametrize("style", ["pc{}", "pc{} [mV]", "pc{}_dot"])
def test_patterns_pair_points_and_vectors_by_their_numbers(folder, style):
    """Twelve dimensions: ten comes after nine, whatever follows the number."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 3)))[0]
    points = SPHERE.sample(200, seed=0)
    field = np.cross([0, 0, 1.0], points) @ turn.T
    names = [
        *(style.format(k) for k in range(1, 13)),
        *(f"d{style.format(k)}" for k in range(1, 13)),
    ]
    pd.DataFrame(np.c_[points @ turn.T, field], columns=names).to_csv("many.csv", index=False)
    options = ("--points", style.split("{")[0] + "*", "--vectors", "dpc*")
    assert told("inspect", "many.csv", "-k", 0, *options)["normal_share"] < 0.05
    if style != "pc{}_dot":
        assert told("inspect", "many.csv", "-k", 0, "--points", "pc1:pc12")["normal_share"] < 0.05
    for wrong in ("pc1:x12", "pc1:pc30000000"):
        assert "no column" in run("inspect", "many.csv", "--points", wrong, code=2).stderr


def test_places_have_the_names_of_the_first_file(folder):
    table = pd.read_csv("field.csv").rename(
        columns={"x": "neuron1", "y": "neuron2", "z": "neuron3"}
    )
    table.to_csv("a.csv", index=False)
    table[["neuron1", "neuron2", "neuron3"]].head(9).to_csv("places.csv", index=False)
    named = ("--points", "neuron1:neuron3", "--vectors", "vx,vy,vz")
    run("interpolate", "a.csv", "--at", "places.csv", *named, "-o", "b.csv")
    assert len(pd.read_csv("b.csv")) == 9
    pd.DataFrame({"p": [1.0], "q": [2.0]}).to_csv("none.csv", index=False)
    assert (
        "error: none.csv: no columns"
        in run("interpolate", "a.csv", "--at", "none.csv", *named, "-o", "c.csv", code=2).stderr
    )


def test_times_of_heat_that_are_far_too_long(folder):
    points = SPHERE.sample(3000, seed=0)
    np.savez("large.npz", points=points, vectors=SPHERE.gradient_field(points, 2))
    assert re.search(
        "--heat is far too long.*Try 0.",
        run("filter", "large.npz", "--heat", 1e7, "-o", "a.npz", code=2).stderr,
    )


def test_markers_in_different_columns_and_the_index_of_tables(folder):
    table = pd.read_csv("field.csv")
    for row, name in enumerate(("vx", "vy", "vz")):
        table.loc[row, name] = -9999.0
    table.set_index(pd.Index([f"cell{k}" for k in range(len(table))], name="cell")).to_parquet(
        "marked.parquet"
    )
    assert (
        "3 values of all components are -9999"
        in run("filter", "marked.parquet", "--heat", 0.01, "-o", "b.parquet").stderr
    )
    assert pd.read_parquet("b.parquet").index[3] == "cell3"


@pytest.mark.parametrize("suffix", ["csv", "nc"])
def test_markers_of_speed_and_direction_are_missing(folder, suffix):
    lat, lon = np.linspace(-60, 60, 40), np.linspace(0, 300, 40)
    table = pd.DataFrame({"lat": lat, "lon": lon, "wspd [m/s]": 5.0, "wdir [deg]": lon})
    table.loc[[3, 8], "wdir [deg]"], table.loc[5, "wspd [m/s]"] = (-9999.0, 999.0), -5.0
    table.to_csv("wind.csv", index=False)
    columns = {name.split()[0]: ("point", table[name]) for name in table}
    xr.Dataset(columns).assign(wspd=columns["wspd"] + ({"units": "m/s"},)).to_netcdf("wind.nc")
    options = ("--wind", "wspd,wdir", "--heat", 0.001)
    if suffix == "csv":
        assert "row 4" in run("filter", "wind.csv", *options, "-o", "a.csv", code=2).stderr
    run("filter", f"wind.{suffix}", *options, "--drop-missing", "-o", "a.csv")
    found = pd.read_csv("a.csv")
    assert len(found) == 37 and found["wspd [m/s]"].max() < 6


@pytest.mark.parametrize("suffix", ["csv", "nc"])
def test_a_marker_of_speed_is_missing_in_all_directions(folder, suffix):
    """In knots the components of 999 are above 500 m/s only towards east, west, north or south."""
    lat, lon = np.linspace(-60, 60, 40), np.linspace(0, 300, 40)
    speed = np.where(np.arange(40) % 4 == 0, 999.0, 5.0)
    table = pd.DataFrame({"lat": lat, "lon": lon, "wspd [kn]": speed, "wdir [deg]": lon})
    table.to_csv("wind.csv", index=False)
    columns = {name.split()[0]: ("point", table[name]) for name in table}
    xr.Dataset(columns).assign(wspd=columns["wspd"] + ({"units": "knots"},)).to_netcdf("wind.nc")
    options = ("--wind", "wspd,wdir", "--heat", 0.001, "--drop-missing")
    run("filter", f"wind.{suffix}", *options, "-o", "a.csv")
    assert len(pd.read_csv("a.csv")) == 30
    table = table.rename(columns={"wspd [kn]": "wspd"})
    table.to_csv("wind.csv", index=False)
    assert "10 values of wspd are 999" in run("inspect", "wind.csv").stderr


@pytest.mark.parametrize("marker", [-99.0, 99.9, 99.99])
def test_markers_of_two_nines_are_said(folder, marker):
    table = pd.read_csv("stations.csv")
    table.loc[::5, ["u", "v"]] = marker
    table.to_csv("marked.csv", index=False)
    assert f"values of u are {marker:g}, all others" in run("inspect", "marked.csv").stderr
    table.loc[::5, ["u", "v"]] = 36.0
    table.to_csv("marked.csv", index=False)
    assert "values of u are" not in run("inspect", "marked.csv").stderr


def test_units_of_datasets_stay_in_tables(folder):
    run("filter", "series.nc", "--select", "time=1982-01-16", "--heat", 0.001, "-o", "a.csv")
    with xr.open_dataset("series.nc") as ds:
        unit = ds["u"].attrs["units"]
    assert {f"u [{unit}]", f"v [{unit}]"} <= {*pd.read_csv("a.csv").columns}
    twice = run(
        "inspect", "series.nc", "--select", "time=1982-01-16", "--select", "time=1982-02", code=2
    )
    assert "once for a NAME" in twice.stderr


@pytest.mark.parametrize("seed", range(4))
def test_isolated_points_are_found_in_the_file(seed, folder):
    """By the row of the file, whichever rows were left out before it."""
    rng = np.random.default_rng(seed)
    points = SPHERE.sample(150, seed=seed)
    far, *missing = rng.choice(150, 6, replace=False)
    points[far] *= 30.0
    table = pd.DataFrame(points, columns=["x", "y", "z"])
    vectors = pd.DataFrame(np.cross(points, [0.0, 0.0, 1e-3]), columns=["vx", "vy", "vz"])
    vectors.loc[missing, "vx"] = np.nan
    table.join(vectors).to_csv("far.csv", index=False)
    said = run("inspect", "far.csv", "--drop-missing", code=2).stderr
    assert f"is row {far + 1}, x {points[far, 0]:.6g}," in said
