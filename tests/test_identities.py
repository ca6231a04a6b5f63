"""What must hold on every space, with every kernel, in either precision."""

import numpy as np
import pytest
import torch
from pairwise import all_pairs
from spaces import DTYPES, KERNELS, SPACES, bundle_of, reverse_edges

from tangentbundle import TangentBundle
from tangentbundle.manifolds import Sphere
from tangentbundle.testing import (
    OperatorContract,
    assert_gauge_equivariant,
    assert_rotation_equivariant,
    assert_self_adjoint,
)

ORDERS = [2, 1, 3]
ROUNDING = {np.float32: 3e-5, np.float64: 1e-12}


@pytest.fixture(scope="module", params=all_pairs(SPACES, KERNELS, DTYPES, ORDERS), ids=str)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def dtype(case):
    return case[2]


@pytest.fixture(scope="module")
def bundle(case):
    return bundle_of(*case[:3])


@pytest.fixture(scope="module")
def lap(case, bundle):
    return bundle.laplacian(terms=case[3])


@pytest.fixture(scope="module")
def dense(lap):
    return lap.to_dense().double().numpy()


def test_transport_is_orthogonal_with_transposed_reverse(bundle, dtype):
    blocks = bundle.connection.blocks().numpy()
    assert blocks.dtype == dtype
    assert np.abs(blocks.swapaxes(1, 2) @ blocks - np.eye(bundle.rank)).max() < ROUNDING[dtype]
    assert np.array_equal(blocks[reverse_edges(bundle.sorted_graph)].swapaxes(1, 2), blocks)


def test_negative_semidefinite_and_self_adjoint(lap, dense, dtype):
    """M Delta is a symmetric matrix, and all eigenvalues are those of averages in [-1, 1]."""
    mass = np.repeat(lap.mass.double().numpy(), lap.rank)
    form = mass[:, None] * dense
    assert np.abs(form - form.T).max() < ROUNDING[dtype] * np.abs(form).max()
    values = np.linalg.eigvalsh((form + form.T) / 2 / np.sqrt(np.outer(mass, mass)))
    assert values.max() < ROUNDING[dtype] / lap.scale
    assert -values.min() < lap.generator(2 + ROUNDING[dtype])
    assert -values.min() < lap.spectral_interval[1] * (1 + ROUNDING[dtype])
    assert values.min() < -0.5 / lap.scale
    assert_self_adjoint(lap)


def test_rows_are_averages(bundle, dtype):
    """P = 1 + scale Delta_1: its blocks are weights times orthogonal maps, and the weights of a row
    sum to one."""
    lap = bundle.laplacian(terms=1)
    n, d = lap.num_points, lap.rank
    dense = lap.to_dense().double().numpy()
    blocks = (lap.scale * dense + np.eye(n * d)).reshape(n, d, n, d).transpose(0, 2, 1, 3)
    weights = np.sqrt(np.square(blocks).sum(axis=(2, 3)) / d)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=10 * ROUNDING[dtype])
    assert np.abs(np.diagonal(weights)).max() < ROUNDING[dtype]
    # The same weights by hand, in the user's order.
    graph = bundle.graph
    kernel = np.zeros((n, n))
    weights_of_edges = bundle.weights.kernel(graph.distances / np.sqrt(bundle.eps))
    kernel[graph.rows, graph.indices] = weights_of_edges
    degree = kernel.sum(axis=1)
    normalised = kernel / np.outer(degree, degree)
    mass = normalised.sum(axis=1)
    np.testing.assert_allclose(weights, normalised / mass[:, None], atol=10 * ROUNDING[dtype])
    np.testing.assert_allclose(lap.mass.numpy(), mass / mass.sum(), rtol=10 * ROUNDING[dtype])


def test_the_series_of_the_logarithm(bundle, lap, dense, dtype):
    """Minus Delta is the sum of (I - P)^k / k over the scale, with as many terms as the order
    says."""
    change = np.eye(len(dense)) - np.asarray(average_matrix(lap))
    terms = [np.linalg.matrix_power(change, k) / k for k in range(1, lap.generator.terms + 1)]
    np.testing.assert_allclose(-lap.scale * dense, sum(terms), atol=10 * ROUNDING[dtype])
    root = np.sqrt(np.repeat(lap.mass.double().numpy(), lap.rank))
    deficits, got = (
        np.linalg.eigvalsh(root[:, None] * matrix / root) for matrix in (change, -dense)
    )
    np.testing.assert_allclose(
        got, np.sort(lap.generator(deficits)), atol=100 * ROUNDING[dtype] / lap.scale
    )


def average_matrix(lap):
    eye = torch.eye(lap.shape[0], dtype=lap.dtype).reshape(lap.num_points, lap.rank, -1)
    return lap.averaged(eye).reshape(lap.shape).double()


def test_product_equals_dense_and_scipy_forms(lap, dense, dtype):
    x = np.random.default_rng(0).standard_normal((lap.num_points, lap.rank, 3)).astype(dtype)
    got = lap @ x
    assert got.dtype == dtype and got.shape == x.shape
    size = 10 * ROUNDING[dtype] / lap.scale
    np.testing.assert_allclose(got, (dense @ x.reshape(-1, 3)).reshape(x.shape), atol=size)
    matrix = lap.to_scipy()
    assert matrix.shape == lap.shape and matrix.dtype == dtype
    np.testing.assert_allclose(matrix.toarray(), dense, atol=size)


def test_eigenpairs(lap, dense, dtype):
    k = 12
    values, fields = lap.spectrum(k)
    assert values.dtype == fields.dtype == dtype
    assert values.shape == (k,) and fields.shape == (lap.num_points, lap.rank, k)
    assert (np.diff(values) >= 0).all() and values[0] >= 0
    gram = np.einsum("n,ndi,ndj->ij", lap.mass.numpy(), fields, fields)
    np.testing.assert_allclose(gram, np.eye(k), atol=30 * ROUNDING[dtype])
    residual = lap.norm(lap @ fields + values * fields).max()
    assert float(residual) < 100 * ROUNDING[dtype] / lap.scale
    root = np.sqrt(np.repeat(lap.mass.double().numpy(), lap.rank))
    symmetric = -dense * root[:, None] / root
    expected = np.linalg.eigvalsh((symmetric + symmetric.T) / 2)[:k]
    np.testing.assert_allclose(values, expected, atol=10 * ROUNDING[dtype] / lap.scale)


def test_gauge_and_rotation_equivariance(bundle):
    assert_gauge_equivariant(lambda lap, x: lap @ x, bundle)
    assert_rotation_equivariant(lambda lap, x: lap @ x, bundle)


def test_the_order_of_the_points_does_not_matter(case, bundle, lap):
    space, kernel, dtype, order = case
    shuffle = np.random.default_rng(0).permutation(bundle.num_points)
    other = TangentBundle.from_points(bundle.points[shuffle], dim=space.dim, kernel=kernel)
    np.testing.assert_array_equal(other.points, bundle.points[shuffle])
    assert other.eps == pytest.approx(bundle.eps, rel=1e-9)
    tolerance = {np.float32: 1e-4, np.float64: 1e-8}[dtype]
    projectors = [b.frames @ b.frames.swapaxes(1, 2) for b in (bundle, other)]
    np.testing.assert_allclose(projectors[1], projectors[0][shuffle], atol=tolerance)
    np.testing.assert_allclose(other.laplacian(terms=order).mass, lap.mass[shuffle], rtol=tolerance)
    field = np.random.default_rng(1).standard_normal(bundle.points.shape).astype(dtype)
    moved = bundle.to_ambient(lap @ bundle.to_coordinates(field))[shuffle]
    again = other.to_ambient(other.laplacian(terms=order) @ other.to_coordinates(field[shuffle]))
    np.testing.assert_allclose(again, moved, atol=tolerance * np.abs(moved).max())


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("space", [Sphere(1), Sphere(2), Sphere(3)], ids=repr)
def test_numpy_in_numpy_out_and_torch_in_torch_out(space, dtype):
    bundle = bundle_of(space, None, dtype)
    lap = bundle.laplacian()
    x = np.random.default_rng(0).standard_normal((lap.num_points, lap.rank, 2)).astype(dtype)
    for kind in (np.ndarray, torch.Tensor):
        points = bundle.points if kind is np.ndarray else torch.from_numpy(bundle.points)
        signal = x if kind is np.ndarray else torch.from_numpy(x)
        other = TangentBundle.from_points(points, dim=space.dim, kernel=bundle.weights.kernel)
        values = [
            other.points,
            other.frames,
            other.laplacian() @ signal,
            other.to_ambient(signal),
            other.to_coordinates(other.to_ambient(signal)),
            *other.laplacian().spectrum(2),
        ]
        assert all(isinstance(v, kind) for v in values)
        assert {str(v.dtype).removeprefix("torch.") for v in values} == {dtype.__name__}
        np.testing.assert_array_equal(np.asarray(values[2]), lap @ x)


class TestContract(OperatorContract):
    """The shipped contract, on every space, in either precision and of every order; vector and
    scalar bundles."""

    @pytest.fixture(
        autouse=True, params=all_pairs(SPACES, DTYPES, ("vector", "scalar"), ORDERS), ids=str
    )
    def _choose(self, request):
        space, dtype, which, order = request.param
        bundle = bundle_of(space, None, dtype)
        self.operator = (bundle if which == "vector" else bundle.scalar()).laplacian(terms=order)

    def make_operator(self):
        return self.operator


@pytest.mark.parametrize("space", SPACES, ids=repr)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_scalar_bundle(space, dtype):
    """Functions: rank one, constants in the kernel, and nothing depends on the frames."""
    bundle = bundle_of(space, None, dtype).scalar()
    lap = bundle.laplacian()
    assert bundle.rank == lap.rank == 1 and bundle.dim == space.dim
    ones = np.ones((bundle.num_points, 1, 1), dtype)
    assert np.abs(lap @ ones).max() < 10 * ROUNDING[dtype] / lap.scale
    values, _ = lap.spectrum(2)
    assert values[0] < ROUNDING[dtype] / lap.scale < values[1]
    np.testing.assert_array_equal(lap.mass, bundle_of(space, None, dtype).laplacian().mass)


@pytest.mark.parametrize("space", [s for s in SPACES if s.dim == 1], ids=repr)
def test_the_tangent_bundle_of_a_closed_curve_is_its_scalar_bundle(space):
    bundle = bundle_of(space)
    np.testing.assert_allclose(
        bundle.laplacian().spectrum(9)[0], bundle.scalar().laplacian().spectrum(9)[0], atol=1e-9
    )
