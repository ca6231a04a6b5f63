"""The compiled step against its readable twin."""

import numpy as np
import pytest
import torch
from pairwise import all_pairs
from spaces import bundle_of

from tangentbundle import TangentBundle
from tangentbundle.manifolds import FlatTorus, KleinBottle, Sphere
from tangentbundle.operators.product import Extras, reference_step, step
from tangentbundle.operators.storage import BlockMatrix
from tangentbundle.testing import random_orthogonal

CHANNELS = range(1, 71)
"""Every tile (32, 16, 8, 4, 1), alone and with every remainder."""

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def matrix_of(d, dtype, reflections, n=130, sort=True):
    """A random block-sparse matrix in the library's storage, with rows of very different length,
    one of them empty.

    ``sort``: results go to other rows than inputs come from.
    """
    rng = np.random.default_rng(d)
    degrees = rng.integers(0, 14, n)
    degrees[5], degrees[17] = 0, 90
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    edges = indptr[-1]
    cols = rng.integers(0, n, edges).astype(np.int32)
    if d == 2:
        values = rng.standard_normal((edges, 2))
        if reflections:
            flip = rng.random(edges) < 0.5
            cols[flip] = ~cols[flip]
    else:
        values = rng.standard_normal((edges, d, d))
    order = (rng.permutation(n) if sort else np.arange(n)).astype(np.int32)
    tensors = [torch.from_numpy(a) for a in (indptr, cols, values.astype(np.float64), order)]
    tensors[2] = tensors[2].to(dtype)
    return BlockMatrix(*tensors)


def signals(matrix, d, channels, count=1, seed=0):
    noise = torch.Generator().manual_seed(seed)
    shape = (count, len(matrix.curve_order), d, channels)
    return torch.randn(shape, generator=noise, dtype=matrix.values.dtype)


def assert_close(got, expected, dtype):
    assert got.dtype == dtype
    error = (got - expected).abs().max() / expected.abs().max()
    assert float(error) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "d, reflections", [(1, False), (2, False), (2, True), (3, False), (5, False)]
)
def test_step_equals_the_reference_at_every_number_of_channels(d, reflections, dtype):
    matrix = matrix_of(d, dtype, reflections)
    for channels in CHANNELS:
        x, z = signals(matrix, d, channels, 2)
        for scalars in ((1.0, 0.0, 0.0), (0.7, -1.3, 0.0), (2.0, 0.25, -1.0)):
            expected, got = torch.empty_like(x), torch.full_like(x, torch.nan)
            reference_step(matrix, x, z, expected, scalars)
            step(matrix, x, z, got, scalars)
            assert_close(got, expected, dtype)


@pytest.mark.parametrize("d, reflections", [(1, False), (2, True), (3, False), (5, False)])
def test_the_reference_equals_a_dense_matrix(d, reflections):
    """Written out once more, as plainly as can be."""
    n = 100
    matrix = matrix_of(d, torch.float64, reflections, n)
    dense = np.zeros((n, d, n, d))
    for r in range(n):
        for e in range(int(matrix.indptr[r]), int(matrix.indptr[r + 1])):
            code = int(matrix.cols[e])
            values = matrix.values[e].numpy()
            if d == 2:
                c, s = values
                values = np.array([[c, s], [s, -c]]) if code < 0 else np.array([[c, -s], [s, c]])
            dense[int(matrix.curve_order[r]), :, ~code if code < 0 else code, :] += values
    x, z = signals(matrix, d, 6, 2)
    got = torch.empty_like(x)
    reference_step(matrix, x, z, got, (0.5, 2.0, -3.0))
    product = (dense.reshape(n * d, n * d) @ x.reshape(n * d, 6).numpy()).reshape(n, d, 6)
    expected = 0.5 * product + 2.0 * x.numpy() - 3.0 * z.numpy()
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_the_result_may_overwrite_z(d, dtype):
    matrix = matrix_of(d, dtype, reflections=True, sort=False)
    for channels in (1, 6, 37):
        x, z = signals(matrix, d, channels, 2)
        expected = torch.empty_like(x)
        reference_step(matrix, x, z, expected, (2.0, -0.5, -1.0))
        step(matrix, x, z, z, (2.0, -0.5, -1.0))
        assert_close(z, expected, dtype)


@pytest.mark.parametrize(
    "d, dtype, sources, targets", all_pairs([1, 2, 3, 5], DTYPES, [0, 2], [0, 3]), ids=str
)
def test_sources_and_targets(d, dtype, sources, targets):
    """Signals added to the step, and running sums that the step is added to."""
    matrix = matrix_of(d, dtype, reflections=True)
    for channels in (1, 5, 33):
        x, z = signals(matrix, d, channels, 2)

        def extras(count, seed, channels=channels):
            if not count:
                return None
            weights = torch.linspace(-1, 2, count, dtype=dtype)
            return Extras(signals(matrix, d, channels, count, seed), weights)

        results = []
        for kernel in (reference_step, step):
            added, summed, out = extras(sources, 1), extras(targets, 2), torch.empty_like(x)
            kernel(matrix, x, z, out, (1.5, 0.5, -1.0), sources=added, targets=summed)
            results.append((out, None if summed is None else summed.signals))
        assert_close(results[1][0], results[0][0], dtype)
        if targets:
            assert_close(results[1][1], results[0][1], dtype)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_channels_and_no_points_moved(d):
    matrix = matrix_of(d, torch.float64, reflections=True)
    x = signals(matrix, d, 0)[0]
    out = torch.empty_like(x)
    step(matrix, x, x, out, (1.0, 1.0, 0.0))
    assert out.shape == x.shape
    x = signals(matrix, d, 3)[0]
    before = x.clone()
    step(matrix, x, x, torch.empty_like(x), (1.0, 1.0, 1.0))
    assert torch.equal(x, before)  # inputs are read only


@pytest.mark.parametrize(
    "space", [Sphere(1), Sphere(2), KleinBottle(), Sphere(3), Sphere(5)], ids=repr
)
@pytest.mark.parametrize("layout", ["strided", "permuted", "offset", "expanded"])
def test_any_memory_layout_gives_the_same_product(space, layout):
    lap = bundle_of(space).laplacian()
    n, d = lap.num_points, lap.rank
    x = torch.randn(n, d, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = lap @ x
    if layout == "strided":
        other = torch.zeros(n, d, 12, dtype=torch.float64)
        other[:, :, ::2] = x
        other = other[:, :, ::2]
    elif layout == "permuted":
        other = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    elif layout == "offset":
        other = torch.cat([torch.zeros(1, d, 6, dtype=torch.float64), x])[1:]
    else:
        x = x[:, :, :1]
        expected, other = (lap @ x).expand(n, d, 6), x.expand(n, d, 6)
    assert layout == "offset" or not other.is_contiguous()
    torch.testing.assert_close(lap @ other, expected)
    np.testing.assert_allclose(lap @ other.numpy(), expected.numpy())


@pytest.mark.parametrize("space", [Sphere(1), Sphere(2), KleinBottle(), Sphere(3)], ids=repr)
def test_gradients_of_first_and_second_order(space):
    points = space.sample(24, seed=0)
    frames = space.frames(points) @ random_orthogonal(24, space.dim)
    lap = TangentBundle.from_frames(points, frames, neighbors=10).laplacian()
    x = torch.randn(24, space.dim, 2, dtype=torch.float64, requires_grad=True)

    def product(x):
        return lap @ x * lap.scale

    assert torch.autograd.gradcheck(product, x)
    assert torch.autograd.gradgradcheck(product, x)
    batched = torch.randn(2, 24, space.dim, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(product, batched)


def test_gradient_is_the_transposed_product():
    """Not the product itself: the operator is self-adjoint in the mass, not in the plain inner
    product."""
    lap = bundle_of(FlatTorus((1.0, 0.7))).laplacian()
    x = torch.randn(lap.num_points, 2, 3, dtype=torch.float64, requires_grad=True)
    g = torch.randn(lap.num_points, 2, 3, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((lap @ x * g).sum(), x)
    weight = lap.mass[:, None, None]
    torch.testing.assert_close(gradient, weight * (lap @ (g / weight)))
    assert (gradient - lap @ g).abs().max() > 1e-3 * gradient.abs().max()
