"""The Laplacian as an object: conversions, conventions, refusals."""

import numpy as np
import pytest
import torch
from spaces import bundle_of

from tangentbundle import Heat, Laplacian, LinearOperator, TangentBundle, join
from tangentbundle.errors import (
    DTypeError,
    InvalidInputError,
    IsolatedPointsError,
    MemoryLimitError,
    NonFiniteError,
    ShapeError,
    TangentBundleError,
)
from tangentbundle.geometry.kernels import Biweight, Epanechnikov, Gaussian
from tangentbundle.manifolds import Sphere

LAP = bundle_of(Sphere(2)).laplacian()
N = LAP.num_points


def signal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_is_a_linear_operator():
    assert isinstance(LAP, LinearOperator) and isinstance(LAP, Laplacian)
    assert LAP.shape == (2 * N, 2 * N) and LAP.dtype == torch.float64 and LAP.device.type == "cpu"
    assert LAP.adjoint is LAP
    assert "rank 2" in repr(LAP) and "float64" in repr(LAP)
    x, y = signal(N, 2, 1), signal(N, 2, 1, seed=1)
    np.testing.assert_allclose(
        LAP @ (2.0 * x - 3.0 * y), 2.0 * (LAP @ x) - 3.0 * (LAP @ y), atol=1e-10
    )


@pytest.mark.parametrize("manifold", [Sphere(2), Sphere(3)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nothing_that_is_not_finite_goes_unseen(manifold, bad):
    lap = bundle_of(manifold).laplacian()
    x = np.zeros((lap.num_points, lap.rank, 3))
    for i in range(0, lap.num_points, 7):
        x[i, i % lap.rank, i % 3] = bad
        with pytest.raises(
            NonFiniteError, match=rf"1 of {x.size} values .* index \({i}, {i % lap.rank}, {i % 3}\)"
        ):
            lap @ x
        x[i] = 0.0
    assert np.isfinite(lap @ np.full_like(x, 1e300)).all()  # large is not infinite


def test_leading_dimensions_and_channels_are_independent():
    x = signal(3, 2, N, 2, 4)
    got = LAP @ x
    for i in range(3):
        for j in range(2):
            for c in range(4):
                np.testing.assert_allclose(
                    got[i, j, :, :, c], (LAP @ x[i, j, :, :, c : c + 1])[..., 0], atol=1e-11
                )
    assert (LAP @ np.empty((0, N, 2, 3))).shape == (0, N, 2, 3)
    assert (LAP @ np.empty((N, 2, 0))).shape == (N, 2, 0)


def test_inner_product_and_norm():
    f, g = signal(5, N, 2, 3), signal(5, N, 2, 3, seed=1)
    expected = np.einsum("n,bndc,bndc->bc", LAP.mass.numpy(), f, g)
    np.testing.assert_allclose(LAP.inner(f, g), expected)
    np.testing.assert_allclose(LAP.norm(f) ** 2, LAP.inner(f, f))
    ones = np.zeros((N, 2, 1))
    ones[:, 0] = 1.0
    assert float(LAP.norm(ones)[0]) == pytest.approx(1.0)  # mass is a probability


def test_mass_is_one_over_the_density():
    """Sums weighted by it are integrals over the sphere, however unevenly it was sampled."""
    points = Sphere(2).sample_nonuniform(4000, 5.0, seed=0)
    mass = TangentBundle.from_points(points).laplacian().mass.numpy()
    plain, weighted = points[:, 2].mean(), mass @ points[:, 2]
    assert plain > 0.2 and abs(weighted) < 0.03
    assert abs(mass @ points[:, 2] ** 2 - 1 / 3) < 0.02
    density = 1 + 4 / 6 * points[:, 2]
    assert np.corrcoef(mass, 1 / density)[0, 1] > 0.9


def test_other_precisions():
    single = LAP.to(dtype=torch.float32)
    assert single.dtype == torch.float32 and single.mass.dtype == torch.float32
    assert LAP.to(torch.float32).dtype == torch.float32
    x = signal(N, 2, 2)
    np.testing.assert_allclose(single @ x.astype(np.float32), LAP @ x, atol=1e-3)
    np.testing.assert_allclose(single.spectrum(6)[0], LAP.spectrum(6)[0], rtol=1e-4)
    assert single.spectrum(2)[0].dtype == np.float32
    back = single.to(dtype=torch.float64)
    assert back.dtype == torch.float64
    for bad in (torch.float16, torch.bfloat16, torch.int32, torch.complex64):
        with pytest.raises(DTypeError, match=r"float32 or torch\.float64"):
            LAP.to(dtype=bad)


@pytest.mark.parametrize(
    "x, error, match",
    [
        (signal(N, 2), ShapeError, r"Add the channel axis: signal\[\.\.\., None\]"),
        (signal(N, 3, 1), ShapeError, "got"),
        (signal(N + 1, 2, 1), ShapeError, f"{N}, 2, c"),
        (signal(2 * N), ShapeError, "shape"),
        (np.float64(3.0), ShapeError, "shape"),
        (signal(N, 2, 1).astype(np.float32), DTypeError, "never mixed"),
        (signal(N, 2, 1).astype(np.float16), DTypeError, "float16"),
        (signal(N, 2, 1) + 0j, DTypeError, "real"),
        (torch.zeros(N, 2, 1), DTypeError, "never mixed"),
        (torch.zeros(N, 2, 1, dtype=torch.bfloat16), DTypeError, "bfloat16"),
        ("signal", DTypeError, "real numbers"),
        (None, DTypeError, "real numbers"),
        ([[1, 2], [3]], InvalidInputError, "cannot be read"),
        (LAP, DTypeError, "real numbers"),
    ],
)
def test_bad_signals(x, error, match):
    for action in (lambda v: LAP @ v, lambda v: LAP.inner(v, v), LAP.norm):
        with pytest.raises(error, match=match):
            action(x)


@pytest.mark.parametrize(
    "shape", [(N - 20, 2, 1), (N + 1, 2, 1), (N, 3, 1), (2, N + 1, 2, 3), (N, 2), (N,)]
)
def test_tensors_that_do_not_fit_are_refused_by_all_products(shape):
    x = torch.zeros(shape, dtype=torch.float64)
    for action in (LAP.apply, LAP.averaged, join([LAP, LAP]).apply):
        with pytest.raises(ShapeError, match="must have shape"):
            action(x)
    with pytest.raises(DTypeError, match="never mixed"):
        LAP.apply(torch.zeros(N, 2, 1))


@pytest.mark.parametrize("k", [0, -1, 2 * N + 1, 2.5, "3", None, True])
def test_bad_numbers_of_eigenpairs(k):
    with pytest.raises(InvalidInputError, match="k must"):
        LAP.spectrum(k)


def test_all_eigenpairs():
    values, fields = LAP.spectrum(2 * N)
    assert values.shape == (2 * N,)
    flat = fields.reshape(2 * N, 2 * N)
    rebuilt = -(flat * values) @ flat.T * np.repeat(LAP.mass.numpy(), 2)
    np.testing.assert_allclose(rebuilt, LAP.to_dense().numpy(), atol=1e-8)


def test_no_dense_form_of_large_operators():
    lap = TangentBundle.from_points(
        Sphere(2).sample(10_001, seed=0), dim=2, neighbors=6 * 2
    ).laplacian()
    with pytest.raises(MemoryLimitError, match="20002 x 20002"):
        lap.to_dense()


def test_spectrum_needs_no_dense_matrix_and_is_reproducible():
    lap = TangentBundle.from_points(Sphere(2).sample(900, seed=0)).laplacian()
    one, same, other = (lap.spectrum(6, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(one[0], same[0])
    np.testing.assert_array_equal(one[1], same[1])
    np.testing.assert_allclose(one[0], other[0], rtol=1e-8)


# Points whose neighbours get no weight.


@pytest.mark.parametrize("kernel", [Epanechnikov(), Biweight(), Gaussian(1000.0)], ids=repr)
def test_neighbours_at_the_rim_of_the_kernel(kernel):
    """On a grid with eps = spacing^2 all neighbours lie exactly where these kernels vanish."""
    grid = np.stack(np.meshgrid(*[np.arange(8.0)] * 2), -1).reshape(-1, 2)
    bundle = TangentBundle.from_points(grid, dim=2, eps=1.0, kernel=kernel)
    with pytest.raises(IsolatedPointsError, match="rim"):
        bundle.laplacian()
    wider = TangentBundle.from_points(grid, dim=2, eps=2.5, kernel=Epanechnikov())
    assert np.isfinite(wider.laplacian() @ signal(64, 2, 1)).all()


@pytest.mark.parametrize("size", [1e-25, 1e-20, 1e20, 1e25])
def test_scales_beyond_single_precision(size):
    points = (size * Sphere(2).sample(100, seed=0)).astype(np.float32)
    with pytest.raises(InvalidInputError, match="use float64"):
        TangentBundle.from_points(points, dim=2).laplacian()
    double = TangentBundle.from_points(points.astype(np.float64), dim=2).laplacian()
    values, _ = double.spectrum(3)
    assert 0.5 < values[0] * size**2 < 1.5


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_scales_within_single_precision(size):
    points = (size * Sphere(2).sample(300, seed=0)).astype(np.float32)
    lap = TangentBundle.from_points(points, dim=2).laplacian()
    assert float(lap.spectrum(1)[0][0]) * size**2 == pytest.approx(0.9, abs=0.2)
    assert np.isfinite(lap @ signal(300, 2, 1).astype(np.float32)).all()


def test_conversion_to_a_precision_that_cannot_hold_it():
    lap = TangentBundle.from_points(1e-25 * Sphere(2).sample(100, seed=0), dim=2).laplacian()
    with pytest.raises(TangentBundleError, match="float32"):
        lap.to(dtype=torch.float32)


@pytest.mark.parametrize(
    "dtype, unit", [(torch.float16, 2.0**-11), (torch.bfloat16, 2.0**-8)], ids=str
)
def test_half_precision_is_summed_in_float32_and_rounded_once(dtype, unit):
    lap, f = LAP.to(dtype=torch.float32), Heat(0.1)
    x = torch.from_numpy(signal(N, 2, 3)).to(dtype).requires_grad_()
    for y, exact in ((lap @ x, lap @ x.float()), (f(lap, x), f(lap, x.float()))):
        assert y.dtype == dtype and torch.equal(y, exact.to(dtype))
        assert bool(((y.float() - exact).abs() <= unit * exact.abs() + 2.0**-25).all())
    f(lap, x).float().square().sum().backward()
    assert x.grad.dtype == dtype and bool(x.grad.isfinite().all())
    if dtype == torch.float16:
        array = x.detach().numpy()
        assert (f(lap, array)).dtype == np.float16 and np.array_equal(
            lap @ array, (lap @ x).detach().numpy()
        )
    with pytest.raises(DTypeError):
        LAP @ x  # in float64
