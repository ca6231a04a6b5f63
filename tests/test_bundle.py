"""The bundle as an object: construction, signals, order, kinds."""

import dataclasses

import numpy as np
import pytest
import torch
from spaces import SPACES, bundle_of

from tangentbundle import TangentBundle, VarianceShare
from tangentbundle.errors import (
    AccuracyWarning,
    DTypeError,
    InvalidInputError,
    NonFiniteError,
    ShapeError,
)
from tangentbundle.geometry.kernels import Epanechnikov, Gaussian, Kernel, Uniform
from tangentbundle.manifolds import FlatTorus, Sphere, Torus

RNG = np.random.default_rng


def test_defaults_and_options():
    points = Sphere(2).sample(500, seed=0)
    bundle = TangentBundle.from_points(points)
    assert (bundle.num_points, bundle.ambient_dim, bundle.dim, bundle.rank) == (500, 3, 2, 2)
    assert bundle.weights.kernel == Gaussian()
    assert bundle.eps > bundle.estimate.eps_pca > 0
    assert bundle.estimate.local_dimensions.shape == (500,)
    chosen = TangentBundle.from_points(
        points, dim=VarianceShare(0.8), eps=0.3, eps_pca=0.2, kernel=Epanechnikov()
    )
    assert (chosen.dim, chosen.eps) == (2, 0.3)
    assert (chosen.estimate.eps_pca, chosen.weights.kernel) == (0.2, Epanechnikov())
    with pytest.warns(AccuracyWarning, match="dimension is not 1"):
        assert TangentBundle.from_points(points, dim=1).rank == 1
    assert TangentBundle.from_points(points, dim=3).rank == 3


def test_points_and_frames_come_back_in_the_users_order():
    points = Torus().sample(400, seed=0)
    bundle = TangentBundle.from_points(points)
    np.testing.assert_array_equal(bundle.points, points)
    assert not np.array_equal(bundle.cloud.points, points)  # inside, they follow the curve
    np.testing.assert_array_equal(bundle.cloud.points, points[bundle.cloud.curve_order])
    exact = Torus().frames(points)
    given = TangentBundle.from_frames(points, exact)
    np.testing.assert_array_equal(given.frames, exact)


def test_nothing_given_is_changed():
    points = Sphere(2).sample(200, seed=0)
    before = points.copy()
    bundle = TangentBundle.from_points(points)
    bundle.laplacian().spectrum(3)
    np.testing.assert_array_equal(points, before)
    field = RNG(0).standard_normal((200, 3))
    kept = field.copy()
    bundle.to_coordinates(field)
    np.testing.assert_array_equal(field, kept)


def test_bundles_are_frozen():
    bundle = bundle_of(Sphere(2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        bundle.eps = 1.0


def test_the_same_points_give_the_same_bundle():
    """No hidden randomness, even where a sample of the points decides."""
    points = Sphere(2).sample(3000, seed=0)
    one, other = (TangentBundle.from_points(points) for _ in range(2))
    assert one.eps == other.eps
    np.testing.assert_array_equal(one.frames, other.frames)
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state must not be touched
    TangentBundle.from_points(points)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("space", SPACES, ids=repr)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_coordinates_and_back(space, kind):
    """O^T O = 1: coordinates survive; O O^T: ambient vectors lose their normal part."""
    bundle = bundle_of(space)
    n, d = bundle.num_points, bundle.rank
    x = RNG(0).standard_normal((n, d, 4))
    x = x if kind == "numpy" else torch.from_numpy(x)
    vectors = bundle.to_ambient(x)
    assert type(vectors) is type(x) and vectors.shape == (n, space.ambient_dim, 4)
    np.testing.assert_allclose(bundle.to_coordinates(vectors), x, atol=1e-12)
    field = RNG(1).standard_normal((n, space.ambient_dim))
    projected = bundle.to_ambient(bundle.to_coordinates(field))
    np.testing.assert_allclose(
        bundle.to_ambient(bundle.to_coordinates(projected)), projected, atol=1e-12
    )
    expected = np.einsum("nij,nkj,nk->ni", bundle.frames, bundle.frames, field)
    np.testing.assert_allclose(projected, expected, atol=1e-12)
    normal = field - projected
    np.testing.assert_allclose(bundle.to_coordinates(normal), 0, atol=1e-12)


def test_shapes_of_signals():
    bundle = bundle_of(Sphere(2))
    n = bundle.num_points
    for given, expected in [
        ((n, 3), (n, 2, 1)),
        ((n, 3, 1), (n, 2, 1)),
        ((n, 3, 5), (n, 2, 5)),
        ((7, n, 3), (7, n, 2, 1)),
        ((7, n, 3, 5), (7, n, 2, 5)),
        ((2, 7, n, 3, 5), (2, 7, n, 2, 5)),
        ((n, n, 3), (n, n, 2, 1)),
        ((0, n, 3), (0, n, 2, 1)),
    ]:
        assert bundle.to_coordinates(np.zeros(given)).shape == expected
    for given, expected in [
        ((n, 2, 1), (n, 3)),
        ((n, 2, 5), (n, 3, 5)),
        ((7, n, 2, 1), (7, n, 3)),
        ((4, 7, n, 2, 5), (4, 7, n, 3, 5)),
    ]:
        assert bundle.to_ambient(np.zeros(given)).shape == expected


@pytest.mark.parametrize(
    "shape", [(3,), (), (5, 3), (3, 200), (200, 2), (200, 4), (200, 2, 3), (201, 3), (200, 3, 1, 1)]
)
def test_bad_shapes_of_vectors(shape):
    bundle = bundle_of(Sphere(2))
    assert bundle.num_points == 200
    with pytest.raises(ShapeError, match="vectors must have shape"):
        bundle.to_coordinates(np.zeros(shape))


@pytest.mark.parametrize("shape", [(2,), (), (200, 2), (200, 3, 1), (2, 200, 1), (199, 2, 1)])
def test_bad_shapes_of_coordinates(shape):
    with pytest.raises(ShapeError, match="signal must have shape"):
        bundle_of(Sphere(2)).to_ambient(np.zeros(shape))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vectors_must_be_finite(bad):
    field = np.zeros((200, 3))
    field[17, 1] = bad
    with pytest.raises(NonFiniteError, match=r"vectors .* \(17, 1\)"):
        bundle_of(Sphere(2)).to_coordinates(field)


def test_dtypes_of_signals():
    """The answer has the dtype of the question; an operator refuses another dtype than its own."""
    bundle = bundle_of(Sphere(2))
    single = RNG(0).standard_normal((200, 3)).astype(np.float32)
    assert bundle.to_coordinates(single).dtype == np.float32
    assert bundle.to_coordinates(np.ones((200, 3), int)).dtype == np.float64
    with pytest.raises(DTypeError, match="never mixed"):
        bundle.laplacian() @ bundle.to_coordinates(single)
    for bad in (single.astype(np.float16), single.astype(str), single + 0j, None):
        with pytest.raises(DTypeError, match="vectors"):
            bundle.to_coordinates(bad)


def test_gradients_flow_through_coordinates():
    bundle = bundle_of(Sphere(2))
    field = torch.randn(200, 3, dtype=torch.float64, requires_grad=True)
    coordinates = bundle.to_coordinates(field)
    bundle.to_ambient(bundle.laplacian() @ coordinates).square().sum().backward()
    assert field.grad is not None and bool(field.grad.abs().sum() > 0)
    normal = np.einsum("nij,ni->nj", bundle.frames, field.grad.numpy())
    np.testing.assert_allclose(
        np.einsum("nij,nj->ni", bundle.frames, normal), field.grad.numpy(), atol=1e-9
    )


def test_scalar_bundle():
    bundle = bundle_of(Sphere(2))
    scalar = bundle.scalar()
    assert scalar.rank == 1 and scalar.dim == 2 and scalar.eps == bundle.eps
    np.testing.assert_array_equal(scalar.graph.indices, bundle.graph.indices)
    np.testing.assert_array_equal(scalar.points, bundle.points)
    assert scalar.scalar().rank == 1
    for action in (
        lambda: scalar.frames,
        lambda: scalar.to_coordinates(bundle.points),
        lambda: scalar.to_ambient(np.zeros((200, 1, 1))),
    ):
        with pytest.raises(InvalidInputError, match="scalar bundle has no frames"):
            action()


def test_scalar_bundle_is_the_graph_laplacian():
    """Rows: averages over neighbours less the value itself, weights without the density."""
    bundle = bundle_of(FlatTorus((1.0, 0.7)), Uniform())
    lap = bundle.scalar().laplacian(terms=1)
    graph = bundle.graph
    adjacency = graph.to_scipy().toarray() > 0
    degree = adjacency.sum(axis=1)
    weights = adjacency / degree  # uniform kernel: w_ij / deg_j; deg_i cancels in the average
    average = weights / weights.sum(axis=1, keepdims=True)
    expected = (average - np.eye(len(average))) / (Uniform().calibration(2) * bundle.eps)
    np.testing.assert_allclose(lap.to_dense().numpy(), expected, atol=1e-9)


def test_repr():
    text = repr(bundle_of(Sphere(2)))
    assert text.startswith("TangentBundle(200 points in R^3, dim=2, rank=2, eps=")
    assert "neighbours per point" in text and "Gaussian" in text
    estimated = repr(TangentBundle.from_points(Sphere(2).sample(300, seed=0)))
    assert "estimated" in estimated and "of points agree" in estimated


class Tent(Kernel):
    def profile(self, u):
        return 1.0 - u


def test_a_kernel_of_ones_own():
    """Only the profile is needed; the calibration follows, and eigenvalues come out right."""
    lap = TangentBundle.from_points(Sphere(2).sample(2000, seed=0), kernel=Tent()).laplacian()
    assert lap.spectrum(6, tol=1e-7)[0].mean() == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("kernel", ["gaussian", Gaussian, Uniform, 3, lambda u: u])
def test_bad_kernels(kernel):
    points = Sphere(2).sample(100, seed=0)
    with pytest.raises(InvalidInputError, match=r"kernels\.Gaussian\(\)"):
        TangentBundle.from_points(points, kernel=kernel)
    with pytest.raises(InvalidInputError, match=r"kernels\.Gaussian\(\)"):
        TangentBundle.from_frames(points, Sphere(2).frames(points), kernel=kernel)
