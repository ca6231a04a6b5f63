"""The tool as tests call it, in a folder with files to work on."""

import json

import numpy as np
import pandas as pd
import xarray as xr
from typer.testing import CliRunner

import tangentbundle as tb
from tangentbundle_cli import app


def run(*arguments, code=0):
    """The result of a command that must end with this exit code."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


def told(*arguments):
    """What a command prints as JSON."""
    return json.loads(run(*arguments, "--json").stdout)


def working_folder(tmp_path, monkeypatch):
    """A working folder with a noisy field on a torus, stations on the globe, and a series."""
    monkeypatch.chdir(tmp_path)
    torus, rng = tb.manifolds.Torus(), np.random.default_rng(0)
    points = torus.sample(120, seed=0)
    vectors = torus.tangent_field(points) + 0.3 * rng.standard_normal((120, 3))
    table = pd.DataFrame(np.c_[points, vectors], columns=["x", "y", "z", "vx", "vy", "vz"])
    table.to_csv("field.csv", index=False)
    wind = tb.datasets.load_wind()
    few = wind.at(wind.sample(60, rng=0))
    few.during(slice(0, 96)).dataset.to_netcdf("series.nc")  # too few times to train a network on
    stations = {
        "lat": few.lat,
        "lon": few.lon,
        "u": few.components[0, :, 0],
        "v": few.components[0, :, 1],
    }
    pd.DataFrame(stations).to_csv("stations.csv", index=False)
    lat, lon = np.linspace(-90, 90, 7), np.arange(0, 360, 60.0)
    xr.Dataset(coords={"lat": lat, "lon": lon}).to_netcdf("grid.nc")
    return tmp_path
