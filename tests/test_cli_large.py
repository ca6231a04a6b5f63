"""``tangentbundle filter --workers``: the numbers of one process, from files read part by part."""

import ast
import importlib
import importlib.util
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tangentbundle as tb
import tangentbundle_cli
from tangentbundle_cli import app

pytest.importorskip("dask")
pytest.importorskip("zarr")
SPHERE = tb.manifolds.Sphere(2)
SCALE = ("--heat", "0.1", "--dim", "2", "--neighbors", "24")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


@pytest.fixture
def files(tmp_path, monkeypatch):
    """One field as columns, and what a single process makes of it."""
    monkeypatch.chdir(tmp_path)
    points = SPHERE.sample(800, seed=0)
    vectors = SPHERE.gradient_field(points, 2)
    table = pd.DataFrame(np.c_[points, vectors], columns=["x", "y", "z", "vx", "vy", "vz"])
    table.assign(label=["p"] * 800, number=range(800)).to_parquet("big.parquet")
    bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=24)
    return bundle.to_ambient(tb.Heat(0.1)(bundle.laplacian(), bundle.to_coordinates(vectors)))


def test_in_parts(files):
    """The numbers, the layout and the summary are those of one process, with as many partitions as workers."""
    told = json.loads(run("filter", "big.parquet", *SCALE, "-o", "a.parquet", "--workers", 2, "--json").stdout)
    alone = json.loads(run("filter", "big.parquet", *SCALE, "-o", "alone.parquet", "--json").stdout)
    far = run("filter", "big.parquet", "--heat", "0.1", "--eps", "1e-12", "-o", "c.parquet", "--workers", 1, code=2)
    assert told["points"] == 800 and told["dimension"] == 2 and len(told["notes"]) == 2 and told["partitions"] == 2
    assert "error:" in far.stderr
    pd.testing.assert_frame_equal(pd.read_parquet("a.parquet"), pd.read_parquet("alone.parquet"), atol=1e-5)
    assert np.abs(pd.read_parquet("a.parquet")[["vx", "vy", "vz"]].to_numpy() - files).max() < 1e-5
    assert {*alone} <= {*told} | {"median_neighbors"}
    for name in ("normal_share", "energy_left", "eps", "notes", "points", "ambient_dim"):
        assert told[name] == (pytest.approx(alone[name], abs=1e-6) if isinstance(told[name], float) else alone[name])
    assert sorted(p.name for p in Path().iterdir()) == ["a.parquet", "alone.parquet", "big.parquet"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("big.parquet", "-o", "a.csv", "--workers", "1"), "from Parquet to Parquet"),
        (("big.parquet", "-o", "a.parquet", "--workers", "1", "--drop-missing"), "--drop-missing does not go with"),
        (("units.parquet", "-o", "a.parquet", "--workers", "1"), "does not convert units"),
    ],
)
def test_refused(files, arguments, message):
    units = {"vx": "vx [m/s]", "vy": "vy [km/h]", "vz": "vz [m/s]"}
    pd.read_parquet("big.parquet").rename(columns=units).to_parquet("units.parquet")
    assert message in run("filter", *arguments, "--heat", "0.1", code=2).stderr
    assert sorted(p.name for p in Path().iterdir()) == ["big.parquet", "units.parquet"]


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
