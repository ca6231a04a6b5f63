"""Clouds in partitions: the same numbers as on a single machine, on threads, on clusters, and after
losses."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tangentbundle as tb
from tangentbundle.errors import (
    DamagedFileError,
    DuplicatePointsWarning,
    InvalidInputError,
    IsolatedPointsError,
    MemoryLimitError,
    NonFiniteError,
    ShapeError,
    TooFewPointsError,
)

pytest.importorskip("dask")

from tangentbundle.distributed import DistributedBundle
from tangentbundle.distributed.matrix import component_labels

BANK = {"heat": tb.Heat(0.02), "fir": tb.FIR([0.5, 0.3, 0.2], step=0.01)}


def uneven(n, seed):
    """Points of S^2, four times as dense in the north, in random order."""
    points, rng = tb.manifolds.Sphere(2).sample(8 * n, seed=seed), np.random.default_rng(seed)
    return points[rng.random(len(points)) < 0.25 + 0.75 * (points[:, 2] > 0)][:n]


CLOUDS = {
    "sphere": (tb.manifolds.Sphere(2).sample(2500, seed=0), {"dim": 2, "neighbors": 24}),
    "torus": (tb.manifolds.Torus().sample(2000, seed=1), {"dim": 2, "neighbors": 20}),
    "uneven": (uneven(2500, 2), {"dim": 2, "neighbors": 60}),
    "flat torus in R^4": (
        tb.manifolds.FlatTorus((1.0, 0.7)).sample(1500, seed=3),
        {"dim": 2, "eps": 0.15},
    ),
    "three-sphere": (tb.manifolds.Sphere(3).sample(1500, seed=4), {"dim": 3, "neighbors": 30}),
    "circle": (tb.manifolds.Sphere(1).sample(800, seed=5), {"neighbors": 24, "eps_pca": 0.01}),
}


def filtered(bundle, response, vectors):
    return bundle.to_ambient(bundle.filter(response, bundle.to_coordinates(vectors)))


def filtered_in_memory(points, response, vectors, **options):
    bundle = tb.TangentBundle.from_points(points, **options)
    return bundle.to_ambient(
        response(bundle.laplacian(), bundle.to_coordinates(vectors), tb.Chebyshev())
    )


@pytest.mark.parametrize("name", CLOUDS)
def test_a_bank_agrees_with_the_single_machine(name, tmp_path):
    """Frames to the last bit, filters within what Chebyshev promises; partitions of unequal
    neighbours."""
    points, options = CLOUDS[name]
    vectors = np.random.default_rng(1).standard_normal((*points.shape, 2))
    bundle = DistributedBundle.from_points(points, tmp_path, partition=len(points) // 4, **options)
    whole = tb.TangentBundle.from_points(points, **options)
    assert (
        bundle.num_parts == 4
        and bundle.dim == whole.dim
        and bundle.edges == whole.sorted_graph.num_edges
    )
    assert bundle.eps == whole.eps and bundle.geometry.eps_pca == whole.estimate.eps_pca
    assert np.array_equal(bundle.frames, whole.frames)
    results = bundle.filter(list(BANK.values()), bundle.to_coordinates(vectors))
    lap, x = whole.laplacian(), whole.to_coordinates(vectors)
    for result, h in zip(results, BANK.values(), strict=True):
        assert np.abs(result - h(lap, x, tb.Chebyshev())).max() < 1e-5
    assert np.abs(bundle.to_ambient(x) - whole.to_ambient(x)).max() < 1e-12


@pytest.mark.parametrize("options", [{"neighbors": 20}, {"eps": 0.1, "eps_pca": 0.3}, {}])
def test_precision(options, tmp_path):
    """Points in float32 are filtered in float32, whatever the vectors are in."""
    points, vectors = (
        tb.manifolds.Sphere(2).sample(1200, seed=k, dtype=np.float32) for k in (0, 1)
    )
    bundle = DistributedBundle.from_points(points, tmp_path, partition=500, **options)
    result = filtered(bundle, tb.Heat(0.05), vectors.astype(float))
    assert result.dtype == np.float32
    assert (
        np.abs(result - filtered_in_memory(points, tb.Heat(0.05), vectors, **options)).max() < 1e-5
    )


@pytest.mark.parametrize("partition", [1, 7, 90])
def test_tiny_partitions(partition, tmp_path):
    """Down to a partition for each point; one that is far from others has its nearest points in the
    PCA."""
    points = np.concatenate([tb.manifolds.Sphere(2).sample(80, seed=0), [[0.0, 0.0, 1.5]]])
    vectors, options = (
        np.random.default_rng(0).standard_normal(points.shape),
        {"dim": 2, "eps": 0.6},
    )
    bundle = DistributedBundle.from_points(points, tmp_path, partition=partition, **options)
    assert bundle.num_parts == max(1, round(81 / partition))
    expected = filtered_in_memory(points, tb.Heat(0.1), vectors, **options)
    assert np.abs(filtered(bundle, tb.Heat(0.1), vectors) - expected).max() < 1e-5


def shapes_apart(count, offset, seed):
    """Spheres and tori of different sizes, far from each other and from the origin, in random
    order."""
    spaces = [tb.manifolds.Sphere(2), tb.manifolds.Torus()]
    rng = np.random.default_rng(seed)
    parts = []
    for number in range(count):
        size = 1.0 + 0.2 * number
        points = size * spaces[number % 2].sample(int(900 * size**2), seed=seed + number)
        parts.append(points + offset * rng.standard_normal(3) + 9.0 * number)
    return rng.permutation(np.concatenate(parts))


@pytest.mark.filterwarnings("ignore::tangentbundle.errors.DisconnectedWarning")
@pytest.mark.parametrize(
    "count, offset, seed, partition", [(1, 0.0, 0, 100), (2, 0.0, 1, 300), (3, 50.0, 2, 251)]
)
def test_disconnected_clouds_are_calibrated_as_in_memory(count, offset, seed, partition, tmp_path):
    """Each component about its own mean, whatever the partitions cut."""
    points = shapes_apart(count, offset, seed)
    bundle = DistributedBundle.from_points(points, tmp_path, dim=2, eps=0.2, partition=partition)
    whole = tb.TangentBundle.from_points(points, dim=2, eps=0.2)
    assert whole.sorted_graph.num_components == count
    assert bundle.generator.scale == pytest.approx(whole.laplacian().scale, rel=1e-12)
    labels = component_labels(bundle.partitions)
    pairs = np.stack([labels, whole.sorted_graph.components.numpy()])
    assert len(np.unique(pairs, axis=1).T) == count


def test_bundles_of_one_folder_do_not_mix(tmp_path):
    """Another scale is built beside the first, on the same partitions."""
    points, rng = tb.manifolds.Sphere(2).sample(900, seed=0), np.random.default_rng(0)
    few, many = (
        DistributedBundle.from_points(points, tmp_path, dim=2, neighbors=k, partition=450)
        for k in (20, 40)
    )
    vectors = rng.standard_normal(points.shape)
    for bundle, k in ((few, 20), (many, 40)):
        expected = filtered_in_memory(points, tb.Heat(0.1), vectors, dim=2, neighbors=k)
        assert np.abs(filtered(bundle, tb.Heat(0.1), vectors) - expected).max() < 1e-5


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_cluster_that_loses_a_worker(workers, tmp_path):
    """A worker is killed in the middle of the recurrence; the answer is that of threads, to the
    last bit."""
    distributed = pytest.importorskip("distributed")
    points, options = CLOUDS["sphere"]
    options = {**options, "partition": 400}
    vectors = np.random.default_rng(1).standard_normal(points.shape)
    alone = filtered(
        DistributedBundle.from_points(points, tmp_path / "a", **options), tb.Heat(0.05), vectors
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
        bundle = DistributedBundle.from_points(points, tmp_path / "b", **options)
        victim = next(iter(client.run(os.getpid).values()))
        killed = threading.Thread(target=_kill_when, args=(victim, tmp_path / "b", "signal-*.npy"))
        killed.start()
        result = filtered(bundle, tb.Heat(0.05), vectors)
        killed.join()
        assert victim not in client.run(os.getpid).values()
    assert np.array_equal(result, alone) and not list(tmp_path.glob("b/signal-*"))


def _kill_when(process, folder, pattern):
    deadline = time.monotonic() + 120
    while not list(folder.glob(pattern)) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize(
    "moment", ["degree-*/000001.npy", "values-*/000001.npy", "calibration-*.npy"]
)
def test_killed_and_started_again(moment, tmp_path):
    """SIGKILL of the whole run: what was done is kept, and the end is as if nothing had
    happened."""
    points, options = CLOUDS["torus"]
    np.save(tmp_path / "points.npy", points)
    code = (
        "import sys, numpy as np, tangentbundle as tb; from tangentbundle.distributed import "
        "DistributedBundle;x = np.load(sys.argv[1]); b = DistributedBundle.from_points(x, "
        "sys.argv[2], dim=2, neighbors=20, partition=400); b.filter([tb.Heat(1.0)] * 9, "
        "b.to_coordinates(x)); input()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "points.npy"), str(tmp_path / "work")]
    with subprocess.Popen(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.PIPE
    ) as process:
        _kill_when(process.pid, tmp_path / "work", moment)
    assert process.returncode == -signal.SIGKILL
    finished = [*tmp_path.glob("work/degree-*/*.npy"), *tmp_path.glob("work/values-*/*.npy")]
    before = {file: file.stat().st_mtime_ns for file in finished}
    bundle = DistributedBundle.from_points(points, tmp_path / "work", **options, partition=400)
    assert before and before == {file: file.stat().st_mtime_ns for file in before}, (
        "what was built is not built again"
    )
    anew = DistributedBundle.from_points(points, tmp_path / "anew", **options, partition=400)
    vectors = np.random.default_rng(1).standard_normal(points.shape)
    assert np.array_equal(*(filtered(b, tb.Heat(0.05), vectors) for b in (bundle, anew)))


@pytest.mark.parametrize("name", ["frames", "values", "degree", "mass"])
def test_damaged_files_are_named(name, tmp_path):
    points = tb.manifolds.Sphere(2).sample(600, seed=0)
    options = {"dim": 2, "neighbors": 20, "partition": 300}
    DistributedBundle.from_points(points, tmp_path, **options)
    (file,) = tmp_path.glob(f"{name}-*/000001.npy")
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(DamagedFileError, match=r"000001.npy is missing or damaged"):
        for calibration in tmp_path.glob("calibration-*"):
            calibration.unlink()
        bundle = DistributedBundle.from_points(points, tmp_path, **options)
        filtered(bundle, tb.Heat(0.1), points)


def test_what_is_refused(tmp_path):
    points = tb.manifolds.Sphere(2).sample(600, seed=0)
    bundle = DistributedBundle.from_points(points, tmp_path, dim=2, neighbors=20, partition=300)
    for other, partition in ((points, 200), (2 * points, 300)):
        with pytest.raises(InvalidInputError, match="holds other partitions"):
            DistributedBundle.from_points(other, tmp_path, dim=2, neighbors=20, partition=partition)
    x = bundle.to_coordinates(points)
    with pytest.raises(InvalidInputError, match="must be a Filter such as Heat"):
        bundle.filter([], x)
    with pytest.raises(ShapeError, match="signal must have shape"):
        bundle.filter(tb.Heat(0.1), x[:, :, 0])
    with pytest.raises(ShapeError, match="vectors must have shape"):
        bundle.to_coordinates(points[:-1])
    bad = points.copy()
    bad[17, 1] = np.nan
    with pytest.raises(NonFiniteError, match="vectors must be finite"):
        bundle.to_coordinates(bad)
    with pytest.raises(NonFiniteError, match="points must be finite"):
        DistributedBundle.from_points(bad, tmp_path / "a")
    with pytest.raises(IsolatedPointsError, match="no neighbour within"):
        DistributedBundle.from_points(points, tmp_path / "b", dim=2, eps=1e-8)
    with pytest.raises(TooFewPointsError, match="neighbours per point need"):
        DistributedBundle.from_points(points, tmp_path / "c", dim=2, neighbors=600)
    with pytest.raises(InvalidInputError, match="dim must be"):
        DistributedBundle.from_points(points, tmp_path / "d", dim=4)
    with pytest.raises(InvalidInputError, match="partition must be"):
        DistributedBundle.from_points(points, tmp_path / "e", partition=0)


def test_a_scale_that_needs_too_much_memory_is_refused_before_the_search(tmp_path):
    with pytest.raises(MemoryLimitError, match="smaller partitions"):
        DistributedBundle.from_points(
            tb.manifolds.Sphere(2).sample(200_000, seed=0), tmp_path, dim=2, eps=4.0
        )


def test_duplicates_are_told(tmp_path):
    points = np.repeat(tb.manifolds.Sphere(2).sample(300, seed=0), 2, axis=0)
    with pytest.warns(DuplicatePointsWarning):
        bundle = DistributedBundle.from_points(points, tmp_path, dim=2, neighbors=24, partition=200)
    with pytest.warns(DuplicatePointsWarning):
        expected = filtered_in_memory(points, tb.Heat(0.1), points, dim=2, neighbors=24)
    assert np.abs(filtered(bundle, tb.Heat(0.1), points) - expected).max() < 1e-5
