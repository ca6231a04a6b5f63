"""``tangentbundle filter --workers``: the numbers of one process, with the operator on disk."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tool import run

import tangentbundle as tb
from tangentbundle.io import read_field

pytest.importorskip("dask")
pytest.importorskip("zarr")
xarray = pytest.importorskip("xarray")
SPHERE = tb.manifolds.Sphere(2)
SCALE = ("--heat", "0.1", "--dim", "2", "--neighbors", "24")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """One field as columns, and what a single process makes of it."""
    monkeypatch.chdir(tmp_path)
    points = SPHERE.sample(800, seed=0)
    vectors = SPHERE.gradient_field(points, 2)
    table = pd.DataFrame(np.c_[points, vectors], columns=["x", "y", "z", "vx", "vy", "vz"])
    table.assign(label=["p"] * 800, number=range(800)).to_parquet("big.parquet")
    xarray.Dataset({name: ("point", column) for name, column in table.items()}).to_zarr(
        "big.zarr", consolidated=False
    )
    bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=24)
    return bundle.to_ambient(tb.Heat(0.1)(bundle.laplacian(), bundle.to_coordinates(vectors)))


def test_in_parts(files):
    """The numbers, the layout and the summary are those of one process, with more partitions than
    workers."""
    told = json.loads(
        run("filter", "big.parquet", *SCALE, "-o", "a.parquet", "--workers", 2, "--json").stdout
    )
    alone = json.loads(run("filter", "big.parquet", *SCALE, "-o", "alone.parquet", "--json").stdout)
    far = run(
        "filter",
        "big.parquet",
        "--heat",
        "0.1",
        "--eps",
        "1e-12",
        "-o",
        "c.parquet",
        "--workers",
        1,
        code=2,
    )
    assert (
        told["points"] == 800
        and told["dimension"] == 2
        and len(told["notes"]) == 3
        and told["notes"][2] == "columns not used: label, number"
        and told["partitions"] == 8
    )
    assert "error:" in far.stderr
    pd.testing.assert_frame_equal(
        pd.read_parquet("a.parquet"), pd.read_parquet("alone.parquet"), atol=1e-5
    )
    assert np.abs(pd.read_parquet("a.parquet")[["vx", "vy", "vz"]].to_numpy() - files).max() < 1e-5
    assert {*told} == {*alone, "partitions"}
    for name in (
        "normal_share",
        "energy_left",
        "eps",
        "median_neighbors",
        "notes",
        "points",
        "ambient_dim",
    ):
        assert told[name] == (
            pytest.approx(alone[name], abs=1e-6) if isinstance(told[name], float) else alone[name]
        )
    assert sorted(p.name for p in Path().iterdir()) == [
        "a.parquet",
        "alone.parquet",
        "big.parquet",
        "big.zarr",
    ]


@pytest.mark.parametrize("name", ["big.zarr", "big.csv"])
def test_every_format(files, name):
    """The same file as from one process, whatever the format."""
    pd.read_parquet("big.parquet").drop(columns=["label", "number"]).to_csv("big.csv", index=False)
    outputs = [f"{way}{Path(name).suffix}" for way in ("parts", "alone")]
    for output, where in zip(outputs, (["--workers", 2], []), strict=True):
        run("filter", name, *SCALE, "-o", output, *where)
    parts, alone = map(read_field, outputs)
    assert parts.names == alone.names and np.abs(parts.vectors - alone.vectors).max() < 1e-5
    assert not list(Path().glob(".*.work"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ("big.parquet", "-o", "a.zarr", "--workers", "1", "--neighbors", "900"),
            "need at least 901 points",
        ),
        (("stations.csv", "-o", "a.csv", "--workers", "1"), "needs a point cloud"),
    ],
)
def test_refused(files, arguments, message):
    Path("stations.csv").write_text(
        "lat,lon,u,v\n" + "".join(f"{k},{7 * k},1,{k % 3}\n" for k in range(40))
    )
    assert message in run("filter", *arguments, "--heat", "0.1", code=2).stderr
    assert not Path("a.zarr").exists() and not list(Path().glob(".*.work"))
