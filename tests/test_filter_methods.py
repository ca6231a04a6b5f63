"""How filters are evaluated: every method against the exact answer, within the error it
promises."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from filter_spaces import SPACES, errors, filters_at, laplacian
from pairwise import all_pairs

import tangentbundle as tb
from tangentbundle.errors import AccuracyWarning, ConvergenceError, InvalidInputError
from tangentbundle.manifolds import Sphere
from tangentbundle.operators import Generator
from tangentbundle.operators.expansion import Band, expand, fixed_length
from tangentbundle.operators.methods import EXACT_SIZE
from tangentbundle.testing import random_signal, relative_error

TIMES = [1e-4, 1e-2, 1.0, 10.0, 100.0, 1000.0]
"""In units of lap.scale: from almost none to long past mixing between neighbours."""

CASES = all_pairs(SPACES, TIMES, filters_at(1.0))

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings(
        "ignore:.*outputs are smaller"
    ),  # loose tolerances are what is tested here
]


def largest(h, lap):
    """The largest |response| over the operator's interval."""
    _, high = lap.spectral_interval
    return float(
        h.response(high * torch.cat([torch.zeros(1), torch.logspace(-12, 0, 2000)]).double())
        .abs()
        .max()
    )


# The promise.


@pytest.mark.parametrize("name, time, kind", CASES)
def test_error_bounds(name, time, kind):
    lap = laplacian(name)
    x, h = random_signal(lap, channels=3), filters_at(time * lap.scale)[kind]
    expected, size = h(lap, x, tb.Exact()), largest(h, lap)
    for tol in (1e-3, 1e-6, 1e-10):
        error = errors(lap, h(lap, x, tb.Chebyshev(tol)), expected, x)
        assert error <= tol * size + 1e-13, (tol, error)


@pytest.mark.parametrize("name, time, kind", CASES)
def test_error_bounds_in_single_precision(name, time, kind):
    """The tolerance, and what a shift of the eigenvalues by their rounding error changes in the
    response."""
    wide = laplacian(name)
    lap = wide.to(dtype=torch.float32)
    x = random_signal(lap, channels=3)
    values = wide.eigenbasis[0]
    shift = torch.finfo(lap.dtype).eps * float(values[-1]) / lap.shape[0] ** 0.5
    h = filters_at(time * lap.scale)[kind]
    expected, size = h(wide, x.double(), tb.Exact()), largest(h, lap)
    change = float((h.evaluate(values + shift) - h.evaluate(values)).abs().max())
    rounding = 1e-6 * max(size, 1.0) + 2 * change
    for method in (tb.Chebyshev(1e-3), tb.Chebyshev(1e-6)):
        got = h(lap, x, method)
        assert got.dtype == torch.float32
        error = errors(lap, got, expected, x)
        assert error <= method.tol * size + rounding, (method, error)
    error = errors(lap, h(lap, x, tb.Exact()), expected, x)
    assert error <= 1e-6 * max(size, 1.0) + rounding, error


def test_the_tolerance_is_used_not_only_kept():
    """A looser tolerance gives a larger error and fewer terms: the bound is not kept by
    overkill."""
    lap = laplacian()
    x = random_signal(lap)
    h = tb.Heat(100 * lap.scale)
    expected = h(lap, x, tb.Exact())
    found = [errors(lap, h(lap, x, tb.Chebyshev(tol)), expected, x) for tol in (1e-2, 1e-5, 1e-8)]
    assert found[0] > 1e-5 > found[1] > 1e-8 > found[2]
    terms = [tb.Chebyshev(tol).coefficients([h], lap).shape[1] for tol in (1e-2, 1e-5, 1e-8)]
    assert terms[0] < terms[1] < terms[2]


def test_exact_by_hand():
    """Against a plain NumPy eigendecomposition of the dense matrix."""
    for name in SPACES:
        lap = laplacian(name)
        x = random_signal(lap, channels=2)
        values, vectors = np.linalg.eig(lap.to_dense().numpy())
        for h in filters_at(5 * lap.scale).values():
            response = h.response(np.maximum(-values.real, 0.0))
            expected = (vectors * response) @ np.linalg.solve(vectors, x.reshape(-1, 2).numpy())
            assert np.abs(expected.imag).max() < 1e-8
            assert (
                relative_error(
                    h(lap, x, tb.Exact()).reshape(-1, 2), torch.from_numpy(expected.real.copy())
                )
                < 1e-9
            )


def test_polynomials_are_products_with_the_operator():
    lap = laplacian("S3")
    x = random_signal(lap)
    s, degree = lap.scale, 2 * lap.generator.terms
    h = tb.Polynomial([0.5, -2.0 * s, 3.0 * s**2])
    expected = 0.5 * x - 2.0 * s * (lap @ x) + 3.0 * s**2 * (lap @ (lap @ x))
    for method in (tb.Exact(), tb.Chebyshev(1e-12), tb.Chebyshev(degree=degree)):
        assert relative_error(h(lap, x, method), expected) < 1e-11, method
    assert tb.Chebyshev(1e-12).coefficients([h], lap).shape == (1, degree + 1)


# Long times.


def test_heat_forgets_all_but_the_mean():
    """After any time, however long: a response that hides between coarse nodes must not be taken
    for zero."""
    lap = laplacian("functions on S2")
    x = random_signal(lap)
    mean = torch.einsum("n,ndc->dc", lap.mass, x).expand_as(x)
    for time in (1e5, 1e6, 3e6):
        for h in (tb.Heat(time * lap.scale), tb.FIR([0.0, 0.5, 0.5], time * lap.scale)):
            for method in (tb.Exact(), tb.Chebyshev(1e-6)):
                assert float((h(lap, x, method) - mean).abs().max()) < 1e-5, (time, h, method)
    with pytest.raises(ConvergenceError, match="Exact"):
        tb.Heat(1e9 * lap.scale)(lap, x, tb.Chebyshev())
    blend = tb.FIR([0.5, 0.5], 1e6 * lap.scale)  # constant on all coarse nodes
    assert float((blend(lap, x, tb.Chebyshev()) - (x + mean) / 2).abs().max()) < 1e-5


def test_order_grows_like_the_square_root_of_time():
    tol = 1e-6
    sizes = np.geomspace(1e2, 1e6, 9)  # t times the largest eigenvalue
    terms = np.array(
        [expand([tb.Heat(size)], Band(Generator(2.0)), tol).shape[1] for size in sizes]
    )
    slope = np.polyfit(np.log(sizes), np.log(terms), 1)[0]
    assert abs(slope - 0.5) < 0.03
    ratio = terms / np.sqrt(2 * sizes * np.log(2 / tol))
    assert (ratio > 0.6).all() and (ratio < 1.1).all()


def test_coefficients_are_those_of_the_chebyshev_series():
    """Of e^(-t lambda): scaled modified Bessel functions."""
    from scipy.special import ive

    t, high = 3.0, 8.0
    band = Band(Generator(2.0 / high))
    a = expand([tb.Heat(t)], band, 1e-12)[0].numpy()
    m = np.arange(len(a))
    np.testing.assert_allclose(a, np.where(m == 0, 1, 2) * ive(m, t * high / 2), atol=1e-13)
    lam = np.linspace(0.0, high, 500)
    series = np.polynomial.chebyshev.chebval(1 - 2 * lam / high, a)
    np.testing.assert_allclose(series, np.exp(-t * lam), atol=1e-12)
    np.testing.assert_allclose(fixed_length([tb.Heat(t)], band, 5)[0], a[:5], atol=1e-6)


def test_fixed_degree():
    lap = laplacian()
    x = random_signal(lap)
    h = tb.Heat(2 * lap.scale)
    expected = h(lap, x, tb.Exact())
    found = [errors(lap, h(lap, x, tb.Chebyshev(degree=m)), expected, x) for m in (0, 2, 4, 8, 16)]
    assert all(b < 0.5 * a for a, b in pairwise(found)) and found[-1] < 1e-12
    assert tb.Chebyshev(degree=7).coefficients([h], lap).shape == (1, 8)


# The choice of a method.


def test_the_default_follows_the_size():
    small = laplacian()
    assert small.shape[0] <= EXACT_SIZE and isinstance(small.default_method(), tb.Exact)
    points = Sphere(2).sample(320, seed=0)
    large = tb.TangentBundle.from_points(points).laplacian()
    assert large.shape[0] > EXACT_SIZE and large.default_method() == tb.Chebyshev(1e-6)
    x = np.random.default_rng(0).standard_normal((320, 2, 2))
    got = tb.Heat(0.1)(large, x)
    assert "eigenbasis" not in vars(large)
    np.testing.assert_array_equal(got, tb.Heat(0.1)(large, x, tb.Chebyshev()))
    np.testing.assert_allclose(got, tb.Heat(0.1)(large, x, tb.Exact()), atol=1e-5)


def test_jumps_are_evaluated_exactly():
    lap = laplacian("Klein bottle")
    x = random_signal(lap)
    values, fields = lap.eigenbasis
    gap = int(torch.argmax(values[5:40].diff())) + 5
    h = tb.Spectral(lambda lam: lam <= float(values[gap : gap + 2].mean()))
    low = fields[..., : gap + 1]
    once = h(lap, x, tb.Exact())
    expected = torch.einsum("ndk,kc->ndc", low, torch.einsum("n,ndk,ndc->kc", lap.mass, low, x))
    np.testing.assert_allclose(once, expected, atol=1e-12)
    np.testing.assert_allclose(h(lap, once, tb.Exact()), once, atol=1e-12)  # a projection
    with pytest.raises(ConvergenceError, match=r"jumps.*method=Exact\(\)"):
        h(lap, x, tb.Chebyshev())
    assert (
        h(lap, x, tb.Chebyshev(degree=40)).shape == x.shape
    )  # for those who accept what that gives


# What float32 cannot give.


def test_tolerances_below_single_precision_are_refused():
    lap, method = laplacian(), tb.Chebyshev(1e-7)
    tb.Heat(0.1)(lap, random_signal(lap), method)
    single = lap.to(dtype=torch.float32)
    with pytest.raises(InvalidInputError, match="float32"):
        tb.Heat(0.1)(single, random_signal(single), method)


@pytest.mark.parametrize("method", [tb.Exact(), tb.Dense(), tb.Chebyshev()], ids=str)
def test_responses_too_steep_for_single_precision_are_warned_of(method):
    """They amplify the rounding of the operator."""
    lap = laplacian("S1")
    x, single = random_signal(lap), lap.to(dtype=torch.float32)
    for h in (tb.Heat(2e4), *([] if isinstance(method, tb.Chebyshev) else [tb.Tikhonov(1e6)])):
        h(lap, x, method)
        with pytest.warns(AccuracyWarning, match="float64"):
            h(single, x.float(), method)
