"""Geometry by tensors, as it runs on GPUs, against the compiled path: here with tensors of the
CPU."""

import warnings

import numpy as np
import pytest
import torch
from clouds import cloud_of, equal
from scipy.sparse.csgraph import connected_components

import tangentbundle as tb
from tangentbundle.batch import (
    Clouds,
    NumberedPoints,
    distances_by_pairs,
    distances_by_tree,
)
from tangentbundle.errors import (
    DisconnectedWarning,
    DTypeError,
    DuplicatePointsWarning,
    GlobalNeighborhoodWarning,
    InvalidInputError,
    IsolatedPointsError,
    MemoryLimitError,
    NonFiniteError,
    ShapeError,
    SuspiciousDataWarning,
    TooFewPointsError,
)
from tangentbundle.geometry import cloud as cloud_module
from tangentbundle.geometry.block_search import BlockSearch
from tangentbundle.geometry.frames import PCASettings
from tangentbundle.geometry.ordering import order_along_curve
from tangentbundle.geometry.scale import NeighborCount, Radius
from tangentbundle.geometry.small_matrices import jacobi, leading, polar_factors
from tangentbundle.geometry.transport import MIN_OVERLAP
from tangentbundle.geometry.tree_search import ball_edges
from tangentbundle.manifolds import FlatTorus, Sphere, Torus
from tangentbundle.testing import relative_error

RNG = np.random.default_rng(0)
TURN = np.linalg.qr(RNG.standard_normal((20, 20)))[0]

CLOUDS = {
    "sphere, automatic": (Sphere(2).sample(900, seed=0), {}),
    "circle": (Sphere(1).sample(200, seed=0), {"neighbors": 24}),
    "three-sphere": (Sphere(3).sample(700, seed=1), {"neighbors": 30}),
    "flat torus in R^4": (FlatTorus((1, 1)).sample(700, seed=0), {"neighbors": 24}),
    "torus in R^20": (
        np.pad(Torus().sample(700, seed=0), ((0, 0), (0, 17))) @ TURN,
        {"neighbors": 24},
    ),
    "noise in R^20": (
        np.pad(Torus().sample(700, seed=0), ((0, 0), (0, 17)))
        + 0.01 * RNG.standard_normal((700, 20)),
        {"neighbors": 24, "dim": 2},
    ),
    "small and far away": (1e-3 * Sphere(2).sample(600, seed=3) + 5.0, {"neighbors": 20}),
}


def on_device(monkeypatch):
    monkeypatch.setattr(cloud_module, "use_triton", lambda device: True)


def ambient(bundle, lap, vectors):
    return bundle.to_ambient(lap @ bundle.to_coordinates(vectors))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", CLOUDS)
def test_bundles_equal_those_of_the_cpu(name, dtype, monkeypatch):
    """The same order, graph, scale, tangent spaces and operators."""
    points, options = CLOUDS[name]
    x = torch.from_numpy(points).to(dtype)
    tol = 1e-7 if dtype == torch.float64 else 2e-4 if name == "small and far away" else 3e-5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = tb.TangentBundle.from_points(x, **options)
        on_device(monkeypatch)
        bundle = tb.TangentBundle.from_points(x, **options)
    assert isinstance(bundle.cloud.search, BlockSearch)
    assert equal(bundle.cloud.curve_order, expected.cloud.curve_order)
    assert equal(bundle.sorted_graph.indices, expected.sorted_graph.indices)
    np.testing.assert_allclose(
        bundle.sorted_graph.distances, expected.sorted_graph.distances, rtol=tol
    )
    np.testing.assert_allclose(
        [bundle.eps, bundle.estimate.eps_pca], [expected.eps, expected.estimate.eps_pca], rtol=tol
    )
    assert torch.equal(bundle.points, x) and repr(bundle) == repr(expected)
    planes = [b.frames @ b.frames.mT for b in (bundle, expected)]
    assert float((planes[0] - planes[1]).abs().max()) < 10 * tol
    lap, reference = bundle.laplacian(), expected.laplacian()
    assert abs(lap.scale / reference.scale - 1) < 10 * tol and lap.dtype == dtype
    torch.testing.assert_close(lap.mass, reference.mass, rtol=tol, atol=0)
    vectors = torch.randn(*x.shape, 2, dtype=dtype)
    assert (
        relative_error(ambient(bundle, lap, vectors), ambient(expected, reference, vectors))
        < 10 * tol
    )
    functions = torch.randn(len(x), 1, 2, dtype=dtype)
    scalar = [b.scalar().laplacian() @ functions for b in (bundle, expected)]
    assert relative_error(*scalar) < 10 * tol
    np.testing.assert_allclose(bundle.edge_weights(), expected.edge_weights(), rtol=10 * tol)
    np.testing.assert_allclose(bundle.sorted_masses(), expected.sorted_masses(), rtol=10 * tol)
    bundle.diagnose(quiet=True)


def test_refused_and_warned_of_as_on_the_cpu(monkeypatch):
    on_device(monkeypatch)
    points = torch.from_numpy(Sphere(2).sample(300, seed=0))
    build = tb.TangentBundle.from_points
    for bad, error in (
        (points * torch.nan, NonFiniteError),
        (points[:2], TooFewPointsError),
        (points[:1].expand(9, 3), TooFewPointsError),
        (points[:, 0], ShapeError),
    ):
        with pytest.raises(error):
            build(bad, dim=2)
    with pytest.raises(IsolatedPointsError):
        build(points, dim=2, eps=1e-6)
    with pytest.raises(MemoryLimitError):
        build(points, dim=2, eps=0.5, max_memory=1e4)
    with pytest.raises(InvalidInputError):
        build(points, dim=4)
    with pytest.warns(DuplicatePointsWarning):
        build(torch.cat([points, points[:30]]), dim=2, neighbors=20)
    with pytest.warns(DisconnectedWarning):
        bundle = build(torch.cat([points, points + 9.0]), dim=2, neighbors=20)
    graph = bundle.sorted_graph
    assert graph.num_components == connected_components(graph.to_scipy())[0] == 2
    assert equal(graph.components, (bundle.cloud.curve_order >= 300).long())


class Triangle(tb.kernels.Kernel):
    """A user's kernel, written for NumPy."""

    def profile(self, u):
        return np.maximum(1.0 - np.asarray(u), 1e-3)


@pytest.mark.parametrize("dims", [1, 3, 12])
def test_searches_equal_brute_force(dims):
    """Sorted or not, with duplicates, on the host and by tensors."""
    points = RNG.standard_normal((203, dims))
    points[40:44] = points[3]
    radius = 0.15 * np.sqrt(dims) * 2 ** (dims / 6)
    order = order_along_curve(torch.from_numpy(points)).numpy()
    for cloud in (points, points[order]):
        distances = np.linalg.norm(cloud[:, None] - cloud, axis=2)
        near = (distances <= radius) & ~np.eye(len(cloud), dtype=bool)
        indptr, indices, lengths = ball_edges(cloud, cloud, radius, lambda edges: None)
        np.testing.assert_array_equal(np.diff(indptr), near.sum(1))
        np.testing.assert_array_equal(indices, np.nonzero(near)[1])
        np.testing.assert_allclose(lengths, distances[near])
        assert cloud_of(cloud).within(radius).num_edges == near.sum() > 0
    sorted_points = torch.from_numpy(points[order])
    search = BlockSearch.of(sorted_points, torch.float64)
    found, _ = search.nearest(9, torch.arange(0, 203, 7))
    expected = np.sort(np.linalg.norm(points[order][::7, None] - points[order], axis=2))[:, 1:10]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_eigenvectors_of_many_small_matrices(size):
    steps = torch.from_numpy(RNG.standard_normal((50, size + 3, size)))
    steps[0] = 0.0
    matrices = steps.mT @ steps
    matrices[1] = torch.eye(size)
    count = min(size, 2)
    values, vectors = leading(matrices, count)
    expected = np.linalg.eigvalsh(matrices.numpy())[:, ::-1][:, :count]
    np.testing.assert_allclose(values.numpy(), expected, atol=1e-8)
    np.testing.assert_allclose(
        (matrices @ vectors).numpy(), (vectors * values[:, None]).numpy(), atol=1e-6
    )
    np.testing.assert_allclose(
        (vectors.mT @ vectors).numpy()[1:], np.tile(np.eye(count), (49, 1, 1)), atol=1e-9
    )
    if size <= 4:
        np.testing.assert_allclose(
            jacobi(matrices)[0].sum(1), matrices.diagonal(dim1=1, dim2=2).sum(1), rtol=1e-12
        )


def test_closest_orthogonal_matrices():
    maps = RNG.standard_normal((40, 3, 3))
    maps /= np.linalg.norm(maps, 2, axis=(1, 2))[:, None, None]
    maps[0] = np.diag([1.0, 0.5, 1e-5])
    maps[1] = np.diag([1.0, 1.0, 0.0])
    found, undefined = polar_factors(torch.from_numpy(maps), MIN_OVERLAP)
    left, _, right = np.linalg.svd(maps)
    np.testing.assert_allclose(found.numpy()[2:], (left @ right)[2:], atol=1e-6)
    np.testing.assert_allclose(found.numpy()[0], np.eye(3), atol=1e-9)
    assert undefined.tolist() == [False, True] + [False] * 38


def test_kernels_of_users_serve_tensors():
    u = torch.linspace(0, 1.2, 30, dtype=torch.float64)
    for kernel in (tb.kernels.Gaussian(), tb.kernels.Biweight(), Triangle()):
        np.testing.assert_allclose(kernel(u), kernel(u.numpy()), rtol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_clouds_at_once_equal_clouds_one_by_one(dtype):
    """Of different sizes, places and units."""
    sizes = [90, 130, 101, 64]
    spaces = [Sphere(2), Torus(), Sphere(2), Torus()]
    clouds = [
        (1 + k) * s.sample(n, seed=k) - k
        for k, (s, n) in enumerate(zip(spaces, sizes, strict=True))
    ]
    parts = [torch.from_numpy(cloud).to(dtype) for cloud in clouds]
    points, batch = torch.cat(parts), torch.repeat_interleave(torch.arange(4), torch.tensor(sizes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one_by_one = tb.join(
            [tb.TangentBundle.from_points(p, dim=2, neighbors=20).laplacian() for p in parts]
        )
        found = tb.TangentBundle.from_batch(points, batch, dim=2, neighbors=20)
    tol = 1e-9 if dtype == torch.float64 else 1e-4
    v = torch.randn(len(points), 3, 2, dtype=dtype)

    def image(lap):
        return torch.einsum(
            "nij,njc->nic", lap.frames, lap @ torch.einsum("nij,nic->njc", lap.frames, v)
        )

    assert found.sizes == tuple(sizes)
    torch.testing.assert_close(found.mass, one_by_one.mass, rtol=tol, atol=0)
    assert relative_error(image(found), image(one_by_one)) < tol


def test_paper_scales_and_functions_of_clouds_at_once():
    """As cloud by cloud; the ball of the local PCA is larger than that of the graph."""
    clouds = [Torus().sample(n, seed=n) for n in (60, 90)]
    batch, options = np.repeat([0, 1], [60, 90]), {"eps": 0.5, "eps_pca": 0.8}
    found = Clouds.of(
        np.concatenate(clouds),
        batch,
        dim=2,
        scale=Radius(0.5),
        settings=PCASettings(0.8),
        kernel=tb.kernels.Gaussian(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bundles = [tb.TangentBundle.from_points(p, dim=2, **options) for p in clouds]
    for got, expected in (
        (found.laplacian(calibrate=False), [b.laplacian(calibrate=False) for b in bundles]),
        (
            found.scalar_laplacian(calibrate=False),
            [b.scalar().laplacian(calibrate=False) for b in bundles],
        ),
        (found.scalar_laplacian(), [b.scalar().laplacian() for b in bundles]),
    ):
        assert got.parts[0].generator.terms == expected[0].generator.terms
        spectra = [np.linalg.eigvals(lap.to_dense()).real for lap in (got, tb.join(expected))]
        np.testing.assert_allclose(*map(np.sort, spectra), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_distances_of_neighbours_by_tree_and_by_pairs(dtype):
    points = torch.from_numpy(Torus().sample(140, seed=0)).to(dtype)
    numbered = NumberedPoints.of(points, np.repeat([3, 5, 9], [30, 70, 40]))
    counts = torch.tensor([4, 69, 1])
    by_tree = distances_by_tree(numbered, counts)
    by_pairs = distances_by_pairs(numbered, counts)
    for a, b in zip(by_tree, by_pairs, strict=True):
        torch.testing.assert_close(
            a.double(), b, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=0
        )


def test_float32_clouds_of_distant_parts_keep_their_edges():
    """On CPUs distances are computed in float64, also where the mean lies far from all points."""
    sphere = Sphere(2).sample(300, seed=0)
    points = np.concatenate([sphere, sphere + 1e5]).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tb.TangentBundle.from_batch(points, np.zeros(600, int), dim=2, neighbors=12).parts[
            0
        ]
        expected = tb.TangentBundle.from_points(points, dim=2, neighbors=12).laplacian()
    assert found.num_edges == expected.num_edges
    assert found.frames.dtype == torch.float32


@pytest.mark.parametrize(
    ("warning", "dim", "options"),
    [
        (GlobalNeighborhoodWarning, 2, {"eps": 6400.0}),
        (DuplicatePointsWarning, 2, {"neighbors": 12}),
        (DisconnectedWarning, 2, {"neighbors": 12}),
        (SuspiciousDataWarning, 1, {"neighbors": 20}),
    ],
)
def test_batches_warn_of_what_clouds_warn_of(warning, dim, options):
    sphere, noise = Sphere(2).sample(60, seed=0), np.random.default_rng(0).uniform(size=(2, 60, 8))
    first, second = {
        GlobalNeighborhoodWarning: (100 * sphere, 40 * sphere),
        DuplicatePointsWarning: (sphere, np.concatenate([sphere[:50], sphere[:10]])),
        DisconnectedWarning: (sphere, np.concatenate([sphere[:30], sphere[:30] + 9])),
        SuspiciousDataWarning: noise,
    }[warning]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tb.TangentBundle.from_batch(
            np.concatenate([first, second]), np.arange(120) // 60, dim=dim, **options
        )
    assert warning in [one.category for one in caught]


def test_an_outlier_takes_its_neighbours_from_its_own_cloud():
    """Though points of the next cloud would be nearer than the sixth of its own."""
    clouds = [Sphere(2).sample(80, seed=seed) for seed in range(3)]
    clouds[1] = np.concatenate([clouds[1], 30.0 + 0.01 * Sphere(2).sample(2, seed=9)])
    batch = np.repeat(np.arange(3), [len(c) for c in clouds])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tb.TangentBundle.from_batch(np.concatenate(clouds), batch, dim=2, neighbors=12)
        expected = tb.TangentBundle.from_points(clouds[1], dim=2, neighbors=12).frames
    got = found.parts[1].frames.numpy()
    np.testing.assert_allclose(
        got @ got.transpose(0, 2, 1), expected @ expected.transpose(0, 2, 1), atol=1e-8
    )


def test_bad_batches_are_refused():
    points = torch.from_numpy(Sphere(2).sample(60, seed=0))
    batch = torch.arange(60) // 30
    for bad, error in (
        (batch.flip(0), InvalidInputError),
        (batch[:-1], ShapeError),
        (batch * 0.5, ShapeError),
    ):
        with pytest.raises(error):
            tb.TangentBundle.from_batch(points, bad, dim=2, neighbors=9)
    with pytest.raises(TooFewPointsError):
        tb.TangentBundle.from_batch(points, torch.arange(60) // 58, dim=2, neighbors=9)
    for bad in ("a", None):
        with pytest.raises(DTypeError):
            tb.TangentBundle.from_batch(points, bad, dim=2)
    with pytest.raises(TooFewPointsError):
        tb.TangentBundle.from_batch(points[:0], batch[:0])
    coinciding = torch.where(batch[:, None] == 1, 1.0, points)
    options = {"dim": 2, "settings": PCASettings(), "kernel": tb.kernels.Gaussian()}
    for clouds, scale in ((points, NeighborCount(40)), (coinciding, NeighborCount(9))):
        with pytest.raises(TooFewPointsError):
            Clouds.of(clouds, batch, scale=scale, **options)
    with pytest.raises(TooFewPointsError, match="at least 7 points each, got one of 6"):
        Clouds.of(points, torch.arange(60) // 54, scale=Radius(9.0), **options)
    options["settings"] = PCASettings(eps_pca=0.1)
    with pytest.raises(InvalidInputError, match="eps_pca needs eps"):
        Clouds.of(points, batch, scale=NeighborCount(9), **options)


def test_clouds_of_a_batch_have_one_dimension():
    """That of the largest cloud, although the smallest alone looks flatter."""
    clouds = [Sphere(3).sample(n, seed=seed) for seed, n in enumerate((30, 200, 45))]
    batch = np.repeat(np.arange(3), [30, 200, 45])
    assert tb.TangentBundle.from_points(clouds[0]).dim < 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tb.TangentBundle.from_batch(np.concatenate(clouds), batch).rank == 3
