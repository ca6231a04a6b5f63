"""Neighbour graphs against brute force."""

import contextlib
import tracemalloc
import warnings

import numpy as np
import pytest
import torch
from clouds import ball_graph, cloud_of, equal
from scipy import sparse
from scipy.sparse import csgraph
from spaces import reverse_edges

from tangentbundle import TangentBundle
from tangentbundle.distributed import DistributedBundle
from tangentbundle.errors import (
    InvalidInputError,
    MemoryLimitError,
    TangentBundleError,
    TangentBundleWarning,
    TooFewPointsError,
)
from tangentbundle.geometry.block_search import BlockSearch
from tangentbundle.geometry.cloud import PointCloud
from tangentbundle.geometry.graph import NeighborGraph
from tangentbundle.geometry.local_pca import graph_of_lists
from tangentbundle.manifolds import Sphere

RNG = np.random.default_rng


def clouds():
    rng = RNG(0)
    base = rng.standard_normal((120, 3))
    yield "plain", base
    yield "line", rng.standard_normal((80, 1))
    yield "wide", rng.standard_normal((90, 20))
    yield "wide and flat", rng.standard_normal((90, 2)) @ rng.standard_normal((2, 30))
    yield "duplicates", np.concatenate([base[:40], base[:40], base[:10], base[40:60]])
    yield "wide duplicates", np.repeat(rng.standard_normal((30, 15)), 3, axis=0)
    yield "grid", np.stack(np.meshgrid(*[np.arange(6.0)] * 2), -1).reshape(-1, 2)
    yield "more dimensions than points", rng.standard_normal((20, 60))


CLOUDS = dict(clouds())


@pytest.fixture(params=CLOUDS)
def cloud(request):
    return CLOUDS[request.param]


def distances(points):
    return np.linalg.norm(points[:, None] - points[None], axis=2)


def assert_well_formed(graph, points):
    n = len(points)
    assert graph.num_points == n and graph.indptr[0] == 0 and graph.indptr[-1] == graph.num_edges
    assert graph.indptr.dtype == torch.int64 and graph.indices.dtype == torch.int32
    assert equal(graph.degrees, torch.bincount(graph.rows, minlength=n))
    inside = graph.rows.diff() == 0
    assert (graph.indices.diff()[inside] > 0).all()  # rows sorted, no edge twice
    assert (graph.rows != graph.indices).all()  # no loops
    back = reverse_edges(graph)
    assert equal(graph.distances, graph.distances[back])  # symmetric to the last bit
    exact = distances(points)[graph.rows, graph.indices]
    np.testing.assert_allclose(graph.distances, exact, rtol=1e-12, atol=0)
    assert equal(graph.distances == 0, exact == 0)


@pytest.mark.parametrize("share", [0.02, 0.2, 0.7])
def test_radius_graph_equals_brute_force(cloud, share):
    far = distances(cloud)
    radius = np.quantile(far[far > 0], share) * 1.0000001  # no ties at the radius itself
    graph = ball_graph(cloud, radius)
    assert_well_formed(graph, cloud)
    expected = far <= radius
    np.fill_diagonal(expected, False)
    assert np.array_equal(graph.to_scipy().toarray() > 0, expected & (far > 0))
    links = np.zeros_like(expected)
    links[graph.rows, graph.indices] = True
    assert np.array_equal(links, expected)


def test_the_radius_itself_counts():
    grid = CLOUDS["grid"]
    assert sorted(set(ball_graph(grid, 1.0).degrees.tolist())) == [2, 3, 4]
    assert ball_graph(grid, np.nextafter(1.0, 0)).num_edges == 0


def test_duplicates_keep_their_zero_length_edges():
    points = CLOUDS["duplicates"]
    graph = ball_graph(points, 1e-6)
    assert graph.num_edges == 10 * 3 * 2 + 30 * 2
    assert (graph.distances == 0).all()
    order = torch.from_numpy(RNG(1).permutation(len(points)))
    renamed = graph.relabel(order)
    assert renamed.num_edges == graph.num_edges and (renamed.distances == 0).all()


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_relabel_renames_and_keeps_lengths_exactly(scale):
    points = scale * CLOUDS["plain"]
    order = RNG(0).permutation(len(points))
    graph = ball_graph(points, 0.8 * scale)
    renamed = graph.relabel(torch.from_numpy(order))
    moved = np.empty_like(points)
    moved[order] = points
    assert_well_formed(renamed, moved)
    expected = ball_graph(moved, 0.8 * scale)
    for name in ("indptr", "indices", "distances"):
        assert equal(getattr(renamed, name), getattr(expected, name))


def test_a_bundle_shows_its_graph_in_the_users_order():
    points = 1e-9 * Sphere(2).sample(300, seed=0)
    bundle = TangentBundle.from_points(points)
    assert_well_formed(bundle.graph, points)
    expected = ball_graph(points, np.sqrt(bundle.eps))
    assert equal(bundle.graph.indices, expected.indices)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_nearest_distances_equal_brute_force(cloud, k):
    rows = np.array([0, 3, 7, len(cloud) - 1])
    far = distances(cloud)
    np.fill_diagonal(far, np.inf)
    found, indices = [tensor.numpy() for tensor in cloud_of(cloud).nearest(k, rows)]
    assert found.shape == indices.shape == (4, k)
    np.testing.assert_allclose(found, np.sort(far[rows], axis=1)[:, :k], rtol=1e-12, atol=1e-300)
    assert (indices != rows[:, None]).all()
    assert all(len(set(row)) == k for row in indices.tolist())
    np.testing.assert_allclose(found, far[rows[:, None], indices], rtol=1e-12, atol=1e-300)
    graph = graph_of_lists(torch.from_numpy(found), torch.from_numpy(indices))
    assert np.array_equal(graph.indices.reshape(4, k), indices)
    assert graph.degrees.tolist() == [k] * 4


@pytest.mark.parametrize("degree", [0.5, 1.0, 1.5, 3.0])
def test_components_of_random_graphs(degree):
    rng = np.random.default_rng(int(10 * degree))
    n = 400
    links = sparse.random_array((n, n), density=degree / n, rng=rng)
    links = sparse.csr_array(links + links.T)
    graph = NeighborGraph(
        indptr=torch.from_numpy(links.indptr.astype(np.int64)),
        indices=torch.from_numpy(links.indices.astype(np.int32)),
        distances=torch.from_numpy(links.data),
    )
    labels = graph.components.numpy()
    count, expected = csgraph.connected_components(links, directed=False)
    assert (
        labels.max() + 1 == count == len(set(zip(labels.tolist(), expected.tolist(), strict=True)))
    )
    _, first = np.unique(labels, return_index=True)
    assert np.array_equal(first, np.sort(first))  # numbered as they are met


def test_searches_in_a_cloud_share_its_tree_and_its_sample(cloud):
    points = cloud_of(cloud)
    tree = points.tree()
    nearest, indices = points.sampled_nearest(1)
    assert points.tree() is tree and cloud_of(cloud).tree() is not tree
    assert equal(nearest, points.sampled_nearest(5)[0][:, :1])
    assert indices.shape == (len(cloud), 1)
    assert equal(nearest, points.nearest(1)[0])


def test_components():
    points = np.array([[0.0], [1.0], [10.0], [11.0], [12.0], [50.0]])
    labels = ball_graph(points, 1.5).components
    assert labels[0] == labels[1] and labels[2] == labels[3] == labels[4]
    assert len(set(labels.tolist())) == 3
    empty = NeighborGraph(
        indptr=torch.zeros(4, dtype=torch.int64),
        indices=torch.empty(0, dtype=torch.int32),
        distances=torch.empty(0, dtype=torch.float64),
    )
    assert len(set(empty.components.tolist())) == 3


@pytest.mark.parametrize(
    "build",
    [
        lambda x: ball_graph(x, 10.0, max_memory=10e6),
        lambda x: TangentBundle.from_points(x, dim=2, eps=100.0, max_memory=10e6),
        lambda x: TangentBundle.from_points(x, dim=2, neighbors=1500, max_memory=10e6),
    ],
    ids=["radius", "bundle eps", "bundle neighbors"],
)
def test_too_much_memory_is_refused_before_it_is_taken(build):
    """The full graph of 3000 points has nine million edges: 720 MB. The refusal costs next to
    nothing."""
    points = RNG(0).standard_normal((3000, 3))
    tracemalloc.start()
    try:
        with pytest.raises(MemoryLimitError, match=r"directed edges .* GB.* limit is 0.01 GB"):
            build(points)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60e6
    assert issubclass(MemoryLimitError, MemoryError)


def test_the_number_in_the_refusal_is_right():
    points = RNG(0).standard_normal((500, 3))
    edges = ball_graph(points, 1.0).num_edges
    with pytest.raises(MemoryLimitError, match=f"{edges:.3g} directed edges".replace("+", r"\+")):
        ball_graph(points, 1.0, max_memory=100.0)


def test_enough_memory_is_accepted():
    points = RNG(0).standard_normal((500, 3))
    edges = ball_graph(points, 1.0).num_edges
    assert ball_graph(points, 1.0, max_memory=100.0 * edges).num_edges == edges


@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan, np.inf])
def test_bad_radius(radius):
    with pytest.raises(InvalidInputError, match="radius"):
        ball_graph(CLOUDS["plain"], radius)


def test_bad_k():
    with pytest.raises(TooFewPointsError, match="only 120 points"):
        cloud_of(CLOUDS["plain"]).nearest(120)


@pytest.mark.parametrize("dims", [1, 2, 3, 5, 12, 40])
@pytest.mark.parametrize("unit", [1e-140, 1e-30, 1.0, 1e30, 1e140])
def test_any_radius_beyond_the_cloud_finds_every_pair(dims, unit):
    """From a little more than the diameter to the largest number there is, by the searches of
    CPUs and of other devices."""
    points = unit * (RNG(dims).standard_normal((70, dims)) + 3.0)
    widest = max(np.linalg.norm(points / unit - point / unit, axis=1).max() for point in points)
    clouds_of_points = [cloud_of(points)]
    if unit == 1.0:
        tensor = torch.from_numpy(points)
        for dtype in (torch.float64, torch.float32):
            clouds_of_points.append(PointCloud(tensor, search=BlockSearch.of(tensor, dtype)))
    for cloud in clouds_of_points:
        for radius in (1.001 * unit * widest, 1e3 * unit * widest, 1.34e154, np.finfo(float).max):
            graph = cloud.within(float(radius))
            assert (graph.degrees == 69).all()


@pytest.mark.parametrize("name", ["eps", "eps_pca"])
@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
def test_scales_of_any_size_give_a_bundle_or_a_named_error(name, unit, tmp_path):
    points = unit * Sphere(2).sample(60, seed=0)
    frames = Sphere(2).frames(points / unit)
    batch = np.zeros(60, int)
    for value in (5e-324, 1e-300, 1e300, float(np.finfo(float).max)):
        options = {"eps": 4.0 * unit**2} | {name: value}
        builders = [
            lambda options: TangentBundle.from_points(points, dim=2, **options).laplacian(),
            lambda options: TangentBundle.from_batch(points, batch, dim=2, **options),
        ]
        if name == "eps":
            builders.append(
                lambda options: TangentBundle.from_frames(points, frames, **options).laplacian()
            )
        if unit == 1.0:
            folder = tmp_path / str(value)
            builders.append(
                lambda options, folder=folder: DistributedBundle.from_points(
                    points, folder, dim=2, **options
                )
            )
        for build in builders:
            with warnings.catch_warnings(), contextlib.suppress(TangentBundleError):
                warnings.simplefilter("ignore", TangentBundleWarning)
                build(options)
