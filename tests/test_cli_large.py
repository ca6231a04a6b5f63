"""``tangentbundle filter --workers`` and ``--cluster``: the numbers of one process, with the operator on disk."""

import ast
import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tangentbundle as tb
import tangentbundle_cli
from tangentbundle.io import Request, read_field
from tangentbundle_cli import app

distributed = pytest.importorskip("distributed")
pytest.importorskip("zarr")
xarray = pytest.importorskip("xarray")
SPHERE = tb.manifolds.Sphere(2)
SCALE = ("--heat", "0.1", "--dim", "2", "--neighbors", "24")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


@pytest.fixture
def files(tmp_path, monkeypatch):
    """One field as columns and as arrays; and what a single process makes of it."""
    monkeypatch.chdir(tmp_path)
    points = SPHERE.sample(800, seed=0)
    vectors = SPHERE.gradient_field(points, 2)
    table = pd.DataFrame(np.c_[points, vectors], columns=["x", "y", "z", "vx", "vy", "vz"])
    table.assign(label=["p"] * 800, number=range(800)).to_parquet("big.parquet")
    xarray.Dataset({name: ("point", column) for name, column in table.items()}).to_zarr("big.zarr", consolidated=False)
    bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=24)
    return bundle.to_ambient(tb.Heat(0.1)(bundle.laplacian(), bundle.to_coordinates(vectors)))


def test_on_a_cluster(files):
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster:
        where = ("--cluster", cluster.scheduler_address)
        told = json.loads(run("filter", "big.parquet", *SCALE, "-o", "a.parquet", *where, "--json").stdout)
        alone = json.loads(run("filter", "big.parquet", *SCALE, "-o", "alone.parquet", "--json").stdout)
        run("filter", "big.zarr", *SCALE, "-o", "b.zarr", *where)
        far = run("filter", "big.zarr", "--heat", "0.1", "--eps", "1e-12", "-o", "c.zarr", *where, code=2)
    assert told["points"] == 800 and told["dimension"] == 2 and len(told["notes"]) == 2
    assert "error:" in far.stderr
    pd.testing.assert_frame_equal(pd.read_parquet("a.parquet"), pd.read_parquet("alone.parquet"), atol=1e-5)
    made = xarray.open_zarr("b.zarr", consolidated=False)
    assert np.abs(np.stack([made[name] for name in ("vx", "vy", "vz")], axis=1) - files).max() < 1e-5
    assert {*alone} <= {*told} | {"median_neighbors"}
    for name in ("normal_share", "energy_left", "eps", "notes", "points", "ambient_dim"):
        assert told[name] == (pytest.approx(alone[name], abs=1e-6) if isinstance(told[name], float) else alone[name])
    left = ["a.parquet", "alone.parquet", "b.zarr", "big.parquet", "big.zarr"]
    assert sorted(p.name for p in Path().iterdir()) == left


@pytest.mark.slow
def test_on_processes(files):
    command = [sys.executable, "-m", "tangentbundle", "filter", "big.parquet", *SCALE, "-o", "a.parquet"]
    done = subprocess.run([*command, "--workers", "2", "--json"], check=True, timeout=600, capture_output=True)
    assert json.loads(done.stdout)["partitions"] == 2
    assert np.abs(pd.read_parquet("a.parquet")[["vx", "vy", "vz"]].to_numpy() - files).max() < 1e-5


@pytest.mark.parametrize("name", ["big.parquet", "big.zarr", "twice.csv"])
def test_every_format_and_several_times(files, name):
    """The same file and summary as from one process, whatever the format."""
    table = pd.read_parquet("big.parquet").drop(columns=["label", "number"])
    later = table.assign(vx=table["vy"], vy=-2.0 * table["vz"])
    pd.concat([table.assign(time=0), later.assign(time=1)]).to_csv("twice.csv", index=False)
    options = ["--time", "time"] if name == "twice.csv" else []
    outputs = [f"{way}{Path(name).suffix}" for way in ("parts", "alone")]
    for output, where in zip(outputs, (["--workers", 2], []), strict=True):
        run("filter", name, *SCALE, "-o", output, *options, *where)
    parts, alone = (read_field(output, Request(time="time" if options else "")) for output in outputs)
    assert len(parts) == 1 + (name == "twice.csv") and parts.names == alone.names
    assert np.abs(parts.vectors - alone.vectors).max() < 1e-5 and not list(Path().glob(".*.work"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("big.zarr", "-o", "a.zarr", "--workers", "1", "--cluster", "tcp://x:1"), "not both"),
        (("big.parquet", "-o", "a.zarr", "--workers", "1", "--neighbors", "900"), "need at least 901 points"),
        (("stations.csv", "-o", "a.csv", "--workers", "1"), "take no latitude and longitude"),
    ],
)
def test_refused(files, arguments, message):
    Path("stations.csv").write_text("lat,lon,u,v\n" + "".join(f"{k},{7 * k},1,{k % 3}\n" for k in range(40)))
    assert message in run("filter", *arguments, "--heat", "0.1", code=2).stderr
    assert not Path("a.zarr").exists() and not list(Path().glob(".*.work"))


@pytest.mark.parametrize("module", sorted(Path(tangentbundle_cli.__file__).parent.glob("*.py")), ids=lambda p: p.stem)
def test_names_that_the_tool_imports_exist(module):
    """Also those imported in functions, and for type checkers only."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tangentbundle":
            source = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(source, alias.name) or importlib.util.find_spec(f"{node.module}.{alias.name}"), (
                    alias.name
                )
