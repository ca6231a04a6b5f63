"""``tangentbundle filter --workers`` and ``--cluster``: the numbers of one process, from files read part by part."""

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
from tangentbundle.distributed.files import ZarrArray
from tangentbundle.errors import InvalidInputError, UnitsError
from tangentbundle_cli import app
from tangentbundle_cli.filtering import bundle_of
from tangentbundle_cli.job import Job

distributed = pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")
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
    group = zarr.open_group("big.zarr", mode="w")
    group.create_array("points", data=points)
    group.create_array("vectors", data=vectors)
    group.create_array("number", data=np.arange(800))
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
    made = zarr.open_group("b.zarr")
    assert np.abs(made["vectors"][:] - files).max() < 1e-5 and np.array_equal(made["number"], np.arange(800))
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


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("big.parquet", "-o", "a.csv", "--workers", "1"), "write the format that they read"),
        (("big.zarr", "-o", "a.zarr", "--workers", "1", "--cluster", "tcp://x:1"), "not both"),
        (("big.parquet", "-o", "a.zarr", "--workers", "1", "--drop-missing"), "--drop-missing does not go with"),
    ],
)
def test_refused(files, arguments, message):
    assert message in run("filter", *arguments, "--heat", "0.1", code=2).stderr
    assert not Path("a.zarr").exists()


def test_units_and_fill_values_of_parts(files, tmp_path):
    """Files read part by part: units are not converted but refused, and fill values are missing."""
    table = pd.read_parquet("big.parquet").rename(columns={"vx": "vx [m/s]", "vy": "vy [km/h]", "vz": "vz [m/s]"})
    table.to_parquet("units.parquet")
    with pytest.raises(UnitsError, match="do not convert units"):
        bundle_of(Job("filter", ""), Path("units.parquet"), tmp_path / "work", {})
    group = zarr.open_group("columns.zarr", mode="w")
    for name, attributes in (("vx", {"units": "m/s"}), ("vy", {"units": "km/h"}), ("vz", {"scale_factor": 0.1})):
        group.create_array(name, shape=(9,), chunks=(3,), dtype="f8", fill_value=-9999.0, attributes=attributes)[3:] = (
            1.0
        )
    assert np.array_equal(np.isnan(ZarrArray("columns.zarr", "vx").read(0, 9)), np.arange(9) < 3)
    with pytest.raises(UnitsError, match="km/h, m/s"):
        ZarrArray("columns.zarr", ("vx", "vy")).read(0, 9)
    with pytest.raises(InvalidInputError, match="packed"):
        ZarrArray("columns.zarr", "vz").read(0, 9)


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
