"""The commands ``decompose`` and ``inspect``: parts of fields in files of any format, with units,
and in reports."""

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.spatial import ConvexHull
from tool import run

import tangentbundle as tb
from benchmarks.calculus import harmonic_wind
from tangentbundle.io import Field, Request, read_field, write_field
from tangentbundle.spaces import Mesh

TORUS, SPHERE = tb.manifolds.Torus(1.0, 0.4), tb.manifolds.Sphere(2)
PARTS = ("gradient", "rotational", "remainder")
PARTS_ON_GLOBE = ("divergent", "rotational", "remainder")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_torus(name="field.csv", n=800):
    points = TORUS.sample(n, seed=0)
    columns = np.c_[points, TORUS.tangent_field(points)]
    pd.DataFrame(columns, columns=["x", "y", "z", "vx [m/s]", "vy [m/s]", "vz [m/s]"]).to_csv(
        name, index=False
    )
    return columns


def write_winds(step=5.0):
    """Winds of spherical harmonics of degrees 1, 2 and 3 as three times on a grid with poles; exact
    rates in 1/s."""
    lat, lon = np.linspace(-90, 90, round(180 / step) + 1), np.arange(0, 360, step)
    places = [a.ravel() for a in np.meshgrid(lat, lon, indexing="ij")]
    winds, *rates = (
        np.stack(part)
        for part in zip(*(harmonic_wind(*places, degree) for degree in (1, 2, 3)), strict=True)
    )
    shape = 3, len(lat), len(lon)
    u, v = (winds[:, :, k, 0].reshape(shape) for k in range(2))
    coords = {"time": pd.date_range("2020-01-01", periods=3), "lat": lat, "lon": lon}
    units = {"units": "km h-1"}
    data = {name: (("time", "lat", "lon"), 3.6 * a, units) for name, a in (("u", u), ("v", v))}
    xr.Dataset(data, coords).to_netcdf("wind.nc")
    return [rate.reshape(shape) / tb.earth.RADIUS for rate in rates]


def test_parts_of_wind_on_a_grid():
    """All times, on the grid of the file, in units of the SI; the poles are one point in many
    cells."""
    exact = write_winds()
    found = json.loads(run("decompose", "wind.nc", "-o", "parts.nc", "--json").stdout)
    assert (
        np.shape(found["energies"]["divergent"]) == (3,)
        and max(found["energies"]["remainder"]) < 0.01
    )
    assert read_field("parts.nc").names == ("u", "v")
    with xr.open_dataset("parts.nc") as ds:
        assert ds["divergence"].attrs["units"] == "s-1"
        assert ds["streamfunction"].attrs["units"] == "m2 s-1"
        assert ds["u_divergent"].attrs["units"] == "km h-1" and ds["vorticity"].dims == (
            "time",
            "lat",
            "lon",
        )
        for component in ("u", "v"):
            assert np.allclose(
                sum(ds[f"{component}_{part}"] for part in PARTS_ON_GLOBE), ds[component]
            )
        area = np.cos(np.radians(ds["lat"].values))[:, None]
        for name, rate in zip(("divergence", "vorticity"), exact, strict=True):
            error = (area * (ds[name].values - rate) ** 2).sum() / (area * rate**2).sum()
            assert error < 0.02**2
        degree = np.array([1, 2, 3])[:, None, None]
        potential = -exact[0] * tb.earth.RADIUS**2 / (degree * (degree + 1))
        assert (
            np.sqrt(
                (area * (ds["velocity_potential"].values - potential) ** 2).sum()
                / (area * potential**2).sum()
            )
            < 0.02
        )


def test_winds_are_decomposed_as_by_the_library():
    """The tool and ``earth.decompose`` use the same cells: for a globe with land, a region, and a
    table of places."""
    write_winds()
    with xr.open_dataset("wind.nc") as ds:
        whole = ds.isel(time=[1]).load()
    land = (abs(whole.lat) < 20) & (whole.lon < 60)
    for ds in (whole.where(~land), whole.sel(lat=slice(20, 70), lon=slice(10, 90))):
        ds.to_netcdf("some.nc")
        said = run("decompose", "some.nc", "-o", "parts.nc").stderr
        region = ds.lat.size < whole.lat.size
        assert ("region has an edge" in said) == region
        with pytest.warns(tb.errors.BoundaryWarning) if region else contextlib.nullcontext():
            exact = tb.earth.decompose(ds)
        with xr.open_dataset("parts.nc") as found:
            for name in ("u_divergent", "v_rotational"):
                xr.testing.assert_allclose(found[name], exact[name], atol=1e-9)
            for name in ("velocity_potential", "streamfunction"):
                np.testing.assert_allclose(found[name], exact[name], rtol=1e-6, atol=1.0)
    grid = tb.earth.Grid.of(whole)
    wind = grid.to_coordinates(np.stack([whole.u, whole.v], -1))[0]
    table = pd.DataFrame(
        {"lat": grid.lat, "lon": grid.lon, "u [km/h]": wind[:, 0], "v [km/h]": wind[:, 1]}
    )
    table.to_csv("places.csv", index=False)
    found = json.loads(
        run("decompose", "places.csv", "-o", "parts.csv", "--digits", 16, "--json").stdout
    )
    assert found["energies"]["remainder"][0] < 1e-3
    again = read_field("parts.csv")
    assert np.allclose(again.values[0], wind) and again.units == "km/h"
    parts = [
        read_field("parts.csv", Request(vectors=(f"u_{part}", f"v_{part}"))).values
        for part in PARTS_ON_GLOBE
    ]
    assert np.allclose(sum(parts), again.values)
    assert {"velocity_potential [m2 s-1]", "streamfunction [m2 s-1]"} <= {
        *pd.read_csv("parts.csv").columns
    }
    assert (
        "cells"
        in run("decompose", "places.csv", "-o", "parts.csv", "--neighbors", 20, code=2).stderr
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".nc", ".zarr", ".ply", ".vtk"])
def test_parts_in_every_format(suffix):
    before = write_torus()
    run("decompose", "field.csv", "-o", f"parts{suffix}", "--digits", 16)
    vectors = ("vectors",) if suffix in (".npz", ".vtk") else ()
    again = read_field(f"parts{suffix}", Request(vectors=vectors))
    assert np.allclose(again.vectors[0], before[:, 3:])
    names = tuple(f"remainder_v{a}" + " [m/s]" * (suffix in (".csv", ".parquet")) for a in "xyz")
    asked = Request(vectors=("remainder",) if vectors else names)
    rest = read_field(f"parts{suffix}", asked).vectors[0]
    assert abs(np.square(rest).sum() / np.square(before[:, 3:]).sum() - (1 - 0.4**2) ** 0.5) < 0.05


def test_parts_on_a_mesh():
    points = SPHERE.sample(500, seed=0)
    faces = ConvexHull(points).simplices
    inward = np.linalg.det(points[faces]) < 0
    faces[inward] = faces[inward][:, ::-1]
    write_field(Field(Mesh(points, faces), np.cross([0.0, 0, 1], points)[None]), "mesh.vtk")
    found = json.loads(run("decompose", "mesh.vtk", "-o", "parts.vtk", "--json").stdout)
    assert found["energies"]["rotational"][0] > 0.99
    again = read_field("parts.vtk", Request(vectors=("rotational",)))
    assert isinstance(again.space, Mesh) and {"divergence", "stream"} <= {*again.origin.arrays}


def test_the_report_shows_parts_and_energies():
    write_torus()
    text = run("decompose", "field.csv", "-o", "parts.csv", "--report", "report.html").stdout
    page = Path("report.html").read_text()
    for name in (*PARTS, "divergence", "vorticity", "potential", "stream"):
        assert f'"label":"{name}"' in page.replace(" ", "") or f">{name}<" in page
    assert re.search(r"gradient +0\.\d% of the energy", text) and "of the energy</td>" in page


def test_inspect_tells_curvature_and_betti_number():
    write_torus(n=1500)
    found = json.loads(run("inspect", "field.csv", "-k", 2, "--json").stdout)
    low, high = found["curvature"]
    assert found["betti"] == 2 and -6 < low < -3 and 1.5 < high < 2.2
    write_winds(20.0)
    assert "1 to 1 (exact)" in run("inspect", "wind.nc", "-k", 0).stdout
    points = tb.manifolds.SwissRoll((1, 1.5), 20.0).sample(1500, seed=0)
    pd.DataFrame(points, columns=["x", "y", "z"]).to_csv("roll.csv", index=False)
    assert "undetermined: the points end at a boundary" in " ".join(
        run("inspect", "roll.csv", "-k", 1).stdout.split()
    )
    found = json.loads(run("inspect", "roll.csv", "-k", 1, "--json").stdout)
    assert found["betti"] is None and found["betti_confidence"] is None
