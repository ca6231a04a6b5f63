"""Clouds in partitions: the same numbers as on a single machine, on threads, on clusters, and after losses."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from scipy.spatial import cKDTree

import tangentbundle as tb
from tangentbundle.errors import (
    DuplicatePointsWarning,
    InvalidInputError,
    IsolatedPointsError,
    MissingColumnsError,
    NonFiniteError,
    ShapeError,
    TooFewPointsError,
)

dask = pytest.importorskip("dask")
zarr = pytest.importorskip("zarr")
parquet = pytest.importorskip("pyarrow.parquet")

from tangentbundle.distributed import DistributedBundle, NpyArray, ParquetColumns, ZarrArray  # noqa: E402
from tangentbundle.distributed.cloud import Cloud, boxes_of, gaps  # noqa: E402
from tangentbundle.geometry.ordering import curve_order  # noqa: E402

BANK = {"heat": tb.Heat(0.02), "fir": tb.FIR([0.5, 0.3, 0.2], step=0.01)}


def uneven(n, seed):
    """Points of S^2, four times as dense in the north, in random order."""
    points, rng = tb.manifolds.Sphere(2).sample(8 * n, seed=seed), np.random.default_rng(seed)
    return points[rng.random(len(points)) < 0.25 + 0.75 * (points[:, 2] > 0)][:n]


CLOUDS = {
    "sphere": (tb.manifolds.Sphere(2).sample(2500, seed=0), {"dim": 2, "neighbors": 24}),
    "torus": (tb.manifolds.Torus().sample(2000, seed=1), {"dim": 2, "neighbors": 20}),
    "uneven": (uneven(2500, 2), {"dim": 2, "neighbors": 60}),
    "flat torus in R^4": (tb.manifolds.FlatTorus((1.0, 0.7)).sample(1500, seed=3), {"dim": 2, "eps": 0.15}),
    "three-sphere": (tb.manifolds.Sphere(3).sample(1500, seed=4), {"dim": 3, "neighbors": 30}),
    "circle": (tb.manifolds.Sphere(1).sample(800, seed=5), {"neighbors": 24, "eps_pca": 0.01}),
}


def write(folder, points, vectors=None):
    np.save(folder / "points.npy", points)
    if vectors is not None:
        np.save(folder / "vectors.npy", vectors)
        vectors = NpyArray(folder / "vectors.npy")
    return {"points": NpyArray(folder / "points.npy"), "folder": folder / "work", "vectors": vectors}


def read(path, name="vectors"):
    return zarr.open_group(path, mode="r")[name][:]


@pytest.mark.parametrize("name", CLOUDS)
def test_a_bank_agrees_with_the_single_machine(name, tmp_path):
    """Frames to the last bit, filters within what Chebyshev promises; partitions of unequal neighbours."""
    points, options = CLOUDS[name]
    vectors = np.random.default_rng(1).standard_normal((*points.shape, 2))
    bundle = DistributedBundle.from_points(**write(tmp_path, points, vectors), partition=len(points) // 4, **options)
    whole = tb.TangentBundle.from_points(points, **options)
    assert bundle.num_parts == 4 and bundle.dim == whole.dim and bundle.edges == whole.sorted_graph.num_edges
    assert bundle.eps == whole.eps and bundle.geometry.eps_pca == whole.eps_pca
    if points.shape[1] <= 3:  # the very same curve
        frames = [np.load(bundle.cloud.part(bundle.geometry.of("frames"), p)) for p in range(4)]
        assert np.array_equal(np.concatenate(frames), whole.sorted_frames)
    bundle.filter(BANK, tmp_path / "out.zarr")
    lap, x = whole.laplacian(), whole.to_coordinates(vectors)
    for key, h in BANK.items():
        expected = whole.to_ambient(h(lap, x, tb.Chebyshev()))
        assert np.abs(read(tmp_path / "out.zarr", key) - expected).max() < 1e-5
    assert not list(tmp_path.glob("work/filtered-*")) and not list(tmp_path.glob(".out*")), "nothing is left over"


def test_formats_and_precision(tmp_path):
    """Zarr, Parquet and .npy hold the same cloud; float32 points are filtered in float32."""
    points, vectors = (tb.manifolds.Sphere(2).sample(1200, seed=k, dtype=np.float32) for k in (0, 1))
    group = zarr.open_group(tmp_path / "in.zarr", mode="w")
    group.create_array("points", data=points, chunks=(100, 3))
    for k, axis in enumerate("xyz"):
        group.create_array(f"v{axis}", data=vectors[:, k], chunks=(70,))
    import pyarrow

    names = ("x", "y", "z", "vx", "vy", "vz")
    table = pyarrow.table(dict(zip(names, np.concatenate([points, vectors], axis=1).T.copy(), strict=True)))
    (tmp_path / "in.parquet").mkdir()
    for k in range(3):
        parquet.write_table(table[400 * k : 400 * k + 400], tmp_path / f"in.parquet/{k}.parquet", row_group_size=150)
    options = {"dim": 2, "neighbors": 20, "partition": 500}
    made = [
        DistributedBundle.from_points(**write(tmp_path, points, vectors), **options),
        *(
            DistributedBundle.from_points(
                source(tmp_path / file, points),
                tmp_path / file[-3:],
                vectors=source(tmp_path / file, names[3:]),
                **options,
            )
            for source, file, points in ((ZarrArray, "in.zarr", "points"), (ParquetColumns, "in.parquet", names[:3]))
        ),
    ]
    for k, bundle in enumerate(made):
        bundle.filter(tb.Heat(0.05), tmp_path / f"{k}.zarr")
    made[0].filter(tb.Heat(0.05), tmp_path / "3.parquet")
    first = read(tmp_path / "0.zarr")
    whole = tb.TangentBundle.from_points(points, dim=2, neighbors=20)
    expected = whole.to_ambient(tb.Heat(0.05)(whole.laplacian(), whole.to_coordinates(vectors)))
    assert first.dtype == np.float32 and np.abs(first - expected).max() < 1e-5
    assert all(np.array_equal(read(tmp_path / f"{k}.zarr"), first) for k in (1, 2))
    columns = ParquetColumns(str(tmp_path / "3.parquet"), tuple(f"vectors_{k}" for k in range(3)))
    assert np.array_equal(columns.read(0, 1200), first) and np.array_equal(columns.read(37, 700), first[37:700])


def test_bundles_of_one_folder_do_not_mix(tmp_path):
    """Another scale is built beside the first, on the same partitions; a changed file is read again."""
    points, rng = tb.manifolds.Sphere(2).sample(900, seed=0), np.random.default_rng(0)
    place = write(tmp_path, points, rng.standard_normal(points.shape))
    few, many = (DistributedBundle.from_points(**place, dim=2, neighbors=k, partition=450) for k in (20, 40))
    for seed in (1, 2):
        vectors = np.random.default_rng(seed).standard_normal(points.shape)
        np.save(tmp_path / "vectors.npy", vectors)
        for bundle, k in ((few, 20), (many, 40)):
            bundle.filter(tb.Heat(0.1), tmp_path / "out.zarr", overwrite=True)
            whole = tb.TangentBundle.from_points(points, dim=2, neighbors=k)
            expected = whole.to_ambient(tb.Heat(0.1)(whole.laplacian(), whole.to_coordinates(vectors)))
            assert np.abs(read(tmp_path / "out.zarr") - expected).max() < 1e-5


def test_rows_come_back_where_they_were(tmp_path):
    """To the partitions and back is the identity, and the partitions follow the library's own curve."""
    points = uneven(1000, 3)
    points[500:600] = points[:100]  # at the same place on the curve: they stay in the order of the file
    np.save(tmp_path / "points.npy", points)
    source = NpyArray(str(tmp_path / "points.npy"))
    cloud = Cloud.sort(tmp_path / "e", source, 130)
    parts = [np.load(cloud.part("points", p)) for p in range(cloud.num_parts)]
    assert np.array_equal(np.concatenate(parts), points[curve_order(points)])
    assert len(parts) == 8 and {*map(len, parts)} == {125}
    cloud.write({"points": "points"}, (3,), np.float64, tmp_path / "back.zarr", False)
    assert np.array_equal(read(tmp_path / "back.zarr", "points"), points)


def test_nearest_points_across_partitions(tmp_path):
    """Exactly those of one tree, near the cloud and far from it."""
    points = uneven(6000, 3)
    np.save(tmp_path / "points.npy", points)
    cloud = Cloud.sort(tmp_path / "e", NpyArray(tmp_path / "points.npy"), 1500)
    whole, queries = points[curve_order(points)], np.random.default_rng(0).standard_normal((40, 3))
    for some, k in ((queries, 7), (queries[:1] + 9.0, 3000), (queries, 6000)):
        expected, index = cKDTree(whole).query(some, k=k)
        distances, numbers = cloud.nearest(some, k)
        assert np.allclose(distances, expected, rtol=1e-14) and np.array_equal(numbers, index)


def test_boxes_bound_distances():
    points = tb.manifolds.Torus().sample(5000, seed=0)
    points = points[curve_order(points)]
    boxes = boxes_of(points)
    near = gaps(boxes, boxes_of(points[:300]))
    for k, box in enumerate(near):
        assert box <= cKDTree(points[:300]).query(points[2048 * k : 2048 * (k + 1)])[0].min()
    assert near[0] == 0


CLUSTER_BANK = {"heat": tb.Heat(0.05)}


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_cluster_that_loses_a_worker(workers, tmp_path):
    """A worker is killed in the middle of the recurrence; the answer is that of threads, to the last bit."""
    distributed = pytest.importorskip("distributed")
    points, options = CLOUDS["sphere"]
    options = {**options, "partition": 400}
    vectors = np.random.default_rng(1).standard_normal(points.shape)
    DistributedBundle.from_points(**write(tmp_path, points, vectors), **options).filter(
        tb.Heat(0.05), tmp_path / "a.zarr"
    )
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        killed = threading.Thread(target=_kill_when, args=(victim, tmp_path / "cluster", "vectors-*/000005.npy"))
        killed.start()
        place = {**write(tmp_path, points, vectors), "folder": tmp_path / "cluster"}
        DistributedBundle.from_points(**place, **options).filter(tb.Heat(0.05), tmp_path / "b.zarr")
        killed.join()
        assert victim not in client.run(os.getpid).values()
    assert np.array_equal(read(tmp_path / "a.zarr"), read(tmp_path / "b.zarr"))


def _kill_when(process, folder, pattern):
    deadline = time.monotonic() + 120
    while not list(folder.glob(pattern)) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)


def test_killed_and_started_again(tmp_path):
    """SIGKILL of the whole run: what was done is kept, and the end is as if nothing had happened."""
    points, options = CLOUDS["torus"]
    place = write(tmp_path, points, np.random.default_rng(1).standard_normal(points.shape))
    code = (
        "import sys, tangentbundle as tb; from tangentbundle.distributed import DistributedBundle, NpyArray;"
        "p, v = map(NpyArray, sys.argv[1:3]);"
        "b = DistributedBundle.from_points(p, sys.argv[3], vectors=v, dim=2, neighbors=20, "
        "partition=400); b.filter(tb.Heat(0.05), sys.argv[4])"
    )
    command = [
        sys.executable,
        "-c",
        code,
        *(str(tmp_path / f) for f in ("points.npy", "vectors.npy", "work", "a.zarr")),
    ]
    with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        _kill_when(process.pid, tmp_path / "work", "vectors-*/000004.npy")
    assert process.returncode == -signal.SIGKILL and not (tmp_path / "a.zarr").exists()
    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("work/fields-values-*/*.npy")}
    bundle = DistributedBundle.from_points(**place, **options, partition=400)
    bundle.filter(tb.Heat(0.05), tmp_path / "a.zarr")
    assert before == {file: file.stat().st_mtime_ns for file in before}, "what was built is not built again"
    anew = DistributedBundle.from_points(**{**place, "folder": tmp_path / "anew"}, **options, partition=400)
    anew.filter(tb.Heat(0.05), tmp_path / "b.zarr")
    assert np.array_equal(read(tmp_path / "a.zarr"), read(tmp_path / "b.zarr"))


def test_what_is_refused(tmp_path):
    points = tb.manifolds.Sphere(2).sample(600, seed=0)
    good = write(tmp_path, points, points)
    bundle = DistributedBundle.from_points(**good, dim=2, neighbors=20, partition=300)
    with pytest.raises(InvalidInputError, match="holds other partitions"):
        DistributedBundle.from_points(**good, dim=2, neighbors=20, partition=200)
    with pytest.raises(InvalidInputError, match=r"\.zarr or \.parquet"):
        bundle.filter(tb.Heat(0.1), tmp_path / "out.csv")
    with pytest.raises(InvalidInputError, match="must be one such as Heat"):
        bundle.filter({}, tmp_path / "out.zarr")
    np.save(tmp_path / "short.npy", points[:-1])
    with pytest.raises(ShapeError, match="vectors must have shape"):
        bundle.filter(tb.Heat(0.1), tmp_path / "out.zarr", vectors=NpyArray(str(tmp_path / "short.npy")))
    bad = points.copy()
    bad[17, 1] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(NonFiniteError, match=r"rows 0 to 300 of .*: vectors must be finite"):
        bundle.filter(tb.Heat(0.1), tmp_path / "out.zarr", vectors=NpyArray(str(tmp_path / "bad.npy")))
    assert not (tmp_path / "out.zarr").exists()
    new = {"folder": tmp_path / "w", "dim": 2, "partition": 600}
    with pytest.raises(NonFiniteError, match="rows 0 to 600 of"):
        DistributedBundle.from_points(NpyArray(tmp_path / "bad.npy"), **new, neighbors=20)
    with pytest.raises(IsolatedPointsError, match="no neighbour within"):
        DistributedBundle.from_points(good["points"], **{**new, "folder": tmp_path / "v"}, eps=1e-8)
    with pytest.raises(TooFewPointsError, match="neighbours a point need"):
        DistributedBundle.from_points(good["points"], **{**new, "folder": tmp_path / "u"}, neighbors=600)
    with pytest.raises(InvalidInputError, match="WidestGap"):
        DistributedBundle.from_points(good["points"], tmp_path / "q", dim=tb.VarianceShare(0.8), eps_pca=0.1)
    with pytest.raises(InvalidInputError, match="dim must be"):
        DistributedBundle.from_points(good["points"], tmp_path / "t", dim=4)
    with pytest.raises(InvalidInputError, match="there is no file"):
        DistributedBundle.from_points(NpyArray(tmp_path / "nothing.npy"), tmp_path / "s")
    (tmp_path / "pickle.npy").write_bytes(b"\x80\x04N.")
    with pytest.raises(InvalidInputError, match="no readable"):
        DistributedBundle.from_points(NpyArray(tmp_path / "pickle.npy"), tmp_path / "r")
    zarr.open_group(tmp_path / "in.zarr", mode="w").create_array("x", data=points)
    with pytest.raises(MissingColumnsError, match="no array 'points'; it has"):
        DistributedBundle.from_points(ZarrArray(tmp_path / "in.zarr", "points"), tmp_path / "q")


def test_duplicates_are_told(tmp_path):
    points = np.repeat(tb.manifolds.Sphere(2).sample(300, seed=0), 2, axis=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        bundle = DistributedBundle.from_points(**write(tmp_path, points, points), dim=2, neighbors=24, partition=200)
    assert any(issubclass(w.category, DuplicatePointsWarning) for w in told)
    bundle.filter(tb.Heat(0.1), tmp_path / "out.zarr")
    assert np.isfinite(read(tmp_path / "out.zarr")).all()
