"""Responses: what each filter is, the algebra of filters, their three properties, and what is refused."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tangentbundle as tb
from tangentbundle.errors import DTypeError, InvalidInputError, NonFiniteError
from tangentbundle.filters import Filter, Properties
from tangentbundle.manifolds import Sphere

LAM = np.concatenate([[0.0], np.geomspace(1e-6, 1e4, 300)])

SOME = settings(max_examples=60, deadline=None, derandomize=True)

coefficients = st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=8)
steps = st.floats(1e-3, 10.0)


def exp_impulse(t):
    return t * torch.exp(-t)


def filters() -> dict[str, tuple[Filter, object]]:
    """One filter of every kind beside its response, written out in NumPy."""
    z = np.exp(-0.3 * LAM)
    return {
        "heat": (tb.Heat(0.7), np.exp(-0.7 * LAM)),
        "no heat": (tb.Heat(0.0), np.ones_like(LAM)),
        "FIR": (tb.FIR([0.5, -0.2, 0.9], step=0.3), 0.5 - 0.2 * z + 0.9 * z**2),
        "one tap": (tb.FIR([-2.0]), -2.0 * np.ones_like(LAM)),
        "impulse": (tb.ImpulseResponse(exp_impulse), 1 / (1 + LAM) ** 2),
        "polynomial": (tb.Polynomial([1.0, -0.2, 0.05]), 1 + 0.2 * LAM + 0.05 * LAM**2),
        "spectral": (tb.Spectral(lambda lam: torch.cos(lam)), np.cos(LAM)),
        "constant spectral": (tb.Spectral(lambda lam: 3.0), 3.0 * np.ones_like(LAM)),
        "Tikhonov": (tb.Tikhonov(2.0), 1 / (1 + 2.0 * LAM)),
        "Matern": (tb.Matern(1.5, 2.5), (1 + LAM / 2.25) ** -2.5),
        "ideal": (tb.IdealLowpass(2.0), (LAM <= 2.0).astype(float)),
        "wavelet": (tb.Wavelet(0.5), 0.5 * LAM * np.exp(1 - 0.5 * LAM)),
    }


@pytest.mark.parametrize("name", filters())
def test_responses(name):
    h, expected = filters()[name]
    got = h.response(LAM)
    assert isinstance(got, np.ndarray) and got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-14)
    assert isinstance(repr(h), str)


@pytest.mark.parametrize("name", filters())
def test_responses_come_in_the_kind_of_the_eigenvalues(name):
    h, _ = filters()[name]
    lam = LAM[LAM < 50.0]
    expected = h.response(lam)
    assert h.response(lam.astype(np.float32)).dtype == np.float32
    tensor = h.response(torch.from_numpy(lam.reshape(1, -1)))
    assert tensor.dtype == torch.float64 and tensor.shape == (1, len(lam))
    np.testing.assert_array_equal(tensor[0], expected)
    np.testing.assert_allclose(h.response(lam.astype(np.float32)), h.response(lam.astype(np.float32).astype(float)))
    np.testing.assert_array_equal(h.response(lam.tolist()), expected)
    assert h.response(1).shape == ()  # whole numbers are numbers


# Impulse responses.


@pytest.mark.parametrize("rate", [1e-4, 1.0, 300.0])
def test_impulse_response_at_any_time_scale(rate):
    """rate^2 t e^(-rate t) has the response (1 + lambda / rate)^-2, at eigenvalues of any size."""
    h = tb.ImpulseResponse(lambda t: rate**2 * t * torch.exp(-rate * t))
    np.testing.assert_allclose(h.response(LAM), (1 + LAM / rate) ** -2, rtol=1e-9)


def test_impulse_response_of_the_paper():
    """t^2 / 6 up to a horizon: about lambda^-3 / 3 for large lambda, and with its cut-off exactly known."""
    horizon = 2.0
    h = tb.ImpulseResponse(lambda t: t**2 / 6, horizon=horizon)
    large = np.geomspace(20.0, 1e8, 200)
    np.testing.assert_allclose(h.response(large), large**-3.0 / 3, rtol=1e-9)
    lam = np.geomspace(0.5, 20.0, 50)
    a = lam * horizon
    exact = (2 - np.exp(-a) * (a**2 + 2 * a + 2)) / (6 * lam**3)
    np.testing.assert_allclose(h.response(lam), exact, rtol=1e-9)
    assert float(h.response(0.0)) == pytest.approx(horizon**3 / 18)
    # the Lipschitz constant is a moment: |h'(0)| is the integral of t^3 / 6
    known = h.properties()
    assert known.lowpass and known.gain <= 1.0 and known.lipschitz == pytest.approx(horizon**4 / 24, rel=1e-3)
    assert h.horizon == horizon


def test_impulse_responses_that_oscillate_or_begin_with_a_pole():
    h = tb.ImpulseResponse(lambda t: torch.exp(-t) * torch.cos(50 * t))
    np.testing.assert_allclose(h.response(LAM), (1 + LAM) / ((1 + LAM) ** 2 + 2500), atol=1e-10)
    h = tb.ImpulseResponse(lambda t: torch.exp(-t) / torch.sqrt(t))
    np.testing.assert_allclose(h.response(LAM), np.sqrt(np.pi / (1 + LAM)), atol=1e-6)
    h = tb.ImpulseResponse(lambda t: 1.0, horizon=0.7)  # a number is a constant function
    np.testing.assert_allclose(h.response(LAM[1:]), -np.expm1(-0.7 * LAM[1:]) / LAM[1:], rtol=1e-9)


def test_impulses_are_the_quadrature_of_the_response():
    for h in (tb.Heat(0.7), tb.FIR([0.5, -0.2, 0.9], 0.3), tb.ImpulseResponse(exp_impulse)):
        parts = h.impulses()
        assert bool((parts.times >= 0).all())
        direct = np.exp(-np.outer(LAM, parts.times.numpy())) @ parts.weights.numpy()
        np.testing.assert_allclose(direct, h.response(LAM), rtol=1e-12, atol=1e-15)
    for h in (tb.Polynomial([1.0]), tb.Tikhonov(1.0), tb.Spectral(torch.cos)):
        assert h.impulses() is None
        assert (h + tb.Heat(1.0)).impulses() is None and (h @ tb.Heat(1.0)).impulses() is None
        assert (2.0 * h).impulses() is None


# The algebra.


@pytest.mark.parametrize("first, second", list(itertools.combinations_with_replacement(filters(), 2)))
def test_sums_multiples_and_compositions(first, second):
    (f, a), (g, b) = filters()[first], filters()[second]
    cases = {
        "sum": (f + g, a + b),
        "difference": (f - g, a - b),
        "negative": (-f, -a),
        "multiple": (2.5 * f, 2.5 * a),
        "multiple from the right": (f * np.float32(0.5), 0.5 * a),
        "NumPy's multiple": (np.float64(3.0) * g, 3.0 * b),
        "composition": (f @ g, a * b),
        "all at once": ((f + 2.0 * g) @ (f - g), (a + 2 * b) * (a - b)),
    }
    for name, (h, expected) in cases.items():
        size = np.abs(expected).max() or 1.0
        np.testing.assert_allclose(h.response(LAM), expected, rtol=1e-9, atol=1e-12 * size, err_msg=name)


@SOME
@given(coefficients, coefficients, steps)
def test_composition_of_firs_is_the_convolution_of_their_taps(a, b, step):
    both = tb.FIR(a, step) @ tb.FIR(b, step)
    whole = tb.FIR(np.convolve(a, b), step)
    size = np.abs(a).sum() * np.abs(b).sum() + 1e-300
    np.testing.assert_allclose(both.response(LAM), whole.response(LAM), atol=1e-13 * size, rtol=0)
    # the impulses of the composition, gathered by time, are the taps of the convolution
    parts = both.impulses()
    gathered = np.zeros(len(a) + len(b) - 1)
    np.add.at(gathered, np.rint(parts.times.numpy() / step).astype(int), parts.weights.numpy())
    np.testing.assert_allclose(gathered, np.convolve(a, b), atol=1e-13 * size, rtol=0)


def test_composition_of_impulse_responses_is_their_convolution():
    """e^-t convolved with itself is t e^-t; a delay by s shifts it."""
    f = tb.ImpulseResponse(lambda t: torch.exp(-t))
    twice = f @ f
    np.testing.assert_allclose(twice.response(LAM), tb.ImpulseResponse(exp_impulse).response(LAM), rtol=1e-10)
    delayed = tb.Heat(0.5) @ tb.FIR([1.0, 2.0], 0.25)
    parts = delayed.impulses()
    np.testing.assert_allclose(parts.times, [0.5, 0.75])
    np.testing.assert_allclose(parts.weights, [1.0, 2.0])
    total = (tb.Heat(1.0) + 3.0 * tb.Heat(2.0)).impulses()
    np.testing.assert_allclose(total.times, [1.0, 2.0])
    np.testing.assert_allclose(total.weights, [1.0, 3.0])


def test_parameters_are_those_that_were_given():
    t, h, s, w = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.5, [1.0, 2.0], 0.1, 2.0))
    assert [p is t for p in tb.Heat(t).parameters()] == [True]
    assert {id(p) for p in tb.FIR(h, s).parameters()} == {id(h), id(s)}
    assert {id(p) for p in (w * tb.Heat(t) @ tb.FIR(h, s) + tb.Polynomial(h)).parameters()} == {
        id(p) for p in (t, h, s, w)
    }
    spectral = tb.Spectral(lambda lam: torch.exp(-w * lam), tensors=(w,))
    assert spectral.parameters()[0] is w
    single = torch.tensor(0.5, requires_grad=True)
    out = tb.Heat(single).response(torch.tensor([2.0], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(out.sum(), single)
    assert gradient.dtype == torch.float32
    assert float(gradient) == pytest.approx(-2.0 * np.exp(-1.0), rel=1e-6)


def test_filters_compare_by_identity():
    f = tb.FIR([1.0, 2.0])
    assert f == f and f != tb.FIR([1.0, 2.0]) and f in [tb.Heat(1.0), f] and len({f, f, tb.Heat(1.0)}) == 2


def test_numbers_are_copied():
    h = np.array([1.0, 2.0])
    f, p = tb.FIR(h), tb.Polynomial(h)
    h[:] = 0.0
    assert f.response(0.0) == 3.0 and p.response(0.0) == 1.0


# The three properties, where they are known exactly.


def dense_largest(taps):
    """The largest |polynomial| on a fine grid of [0, 1], and how much the grid can miss."""
    z = np.linspace(0.0, 1.0, 4001)
    k = np.arange(len(taps))
    return np.abs(np.polynomial.polynomial.polyval(z, taps)).max(), (k * k * np.abs(taps)).sum() / (8 * 4000**2)


@SOME
@given(coefficients, steps)
def test_properties_of_firs(taps, step):
    taps = np.array(taps)
    got = tb.FIR(taps, step).properties()
    assert got.basis == "exact"
    assert got.lowpass == (taps[0] == 0.0)
    size = np.abs(taps).sum()
    gain, missed = dense_largest(taps)
    assert gain - 1e-12 * size <= got.gain <= gain + missed + 1e-12 * size
    # d/dlambda of sum h_k e^(-k s lambda) is -s sum k h_k z^k
    slopes = np.arange(len(taps)) * taps
    slope, missed = dense_largest(slopes)
    rounding = 1e-12 * np.abs(slopes).sum()
    assert step * (slope - rounding) <= got.lipschitz <= step * (slope + missed + rounding)


@SOME
@given(coefficients, steps, st.lists(st.floats(0.0, 100.0), min_size=2, max_size=12))
def test_lipschitz_constants_and_gains_of_firs_bound_their_responses(taps, step, lam):
    h = tb.FIR(taps, step)
    lam = np.array(lam)
    values = h.response(lam)
    rounding = 1e-12 * np.abs(taps).sum()
    assert np.abs(values).max() <= h.properties().gain + rounding
    rises = np.abs(values[:, None] - values)
    assert (rises <= h.lipschitz() * np.abs(lam[:, None] - lam) + rounding).all()
    assert h.is_nonamplifying() == (h.properties().gain <= 1 + 1e-12)


@pytest.mark.parametrize(
    "taps, gain, lipschitz",
    [
        ([0.0, 4.0, -4.0], 1.0, 4.0),  # 4 z (1 - z): largest at z = 1/2, steepest, |4 z - 8 z^2|, at z = 1
        ([1.0], 1.0, 0.0),
        ([0.0, 0.0, 0.0], 0.0, 0.0),
        ([1.0, 0.0, 0.0], 1.0, 0.0),
        ([0.5, 0.3, 0.2], 1.0, 0.7),
        ([1.0, 1.0, 5e-324], 2.0, 1.0),  # a last tap that divides nothing
        ([0.0, 1.0, -1.0, 1e-17, 1e-300], 0.25, 1.0),
    ],
)
def test_properties_of_firs_by_hand(taps, gain, lipschitz):
    got = tb.FIR(taps, step=2.0).properties()
    assert got.gain == pytest.approx(gain, rel=1e-12)
    assert got.lipschitz == pytest.approx(2.0 * lipschitz, rel=1e-12)


def test_properties_of_heat():
    for t in (0.0, 0.3, 5.0):
        assert tb.Heat(t).properties() == Properties(t > 0, t, 1.0, "exact")
    assert not tb.Heat(0.0).is_lowpass()  # the identity keeps all frequencies
    learnable = tb.Heat(torch.tensor(0.3, dtype=torch.float64, requires_grad=True))
    assert learnable.lipschitz() == 0.3 and learnable.is_nonamplifying()


def test_properties_of_polynomials():
    constant = tb.Polynomial([0.5]).properties()
    assert constant == Properties(False, 0.0, 0.5, "exact")
    assert tb.Polynomial([1.0, -3.0]).properties() == Properties(False, 3.0, np.inf, "exact")
    assert tb.Polynomial([1.0, -3.0, 0.1]).lipschitz() == np.inf
    assert tb.Polynomial([0.0, 0.0]).properties() == Properties(True, 0.0, 0.0, "exact")


@SOME
@given(coefficients, st.floats(0.0, 3.0), st.floats(0.1, 5.0))
def test_properties_of_polynomials_on_an_interval(h, low, width):
    got = tb.Polynomial(h).properties((low, low + width))
    assert got.basis.startswith("exact on eigenvalues from")
    lam = np.linspace(low, low + width, 4001)
    series = np.polynomial.Polynomial(np.array(h) * (-1.0) ** np.arange(len(h)))
    size = np.polynomial.Polynomial(np.abs(h))(low + width)
    for value, polynomial in ((got.gain, series), (got.lipschitz, series.deriv())):
        largest = np.abs(polynomial(lam)).max()
        missed = np.abs(polynomial.deriv(2)(lam)).max() * (width / 4000) ** 2 / 8 * 1.01
        rounding = 1e-11 * len(h) ** 2 * (size + np.polynomial.Polynomial(np.abs(h)).deriv()(low + width))
        assert largest - rounding <= value <= largest + missed + rounding


# The three properties, where they are measured.


@pytest.mark.parametrize(
    "h, lowpass, lipschitz, gain",
    [
        (tb.ImpulseResponse(exp_impulse), True, 2.0, 1.0),
        (tb.Heat(1.0) + tb.Heat(2.0), True, 3.0, 2.0),
        (0.5 * tb.Heat(1.0), True, 0.5, 0.5),
        (tb.Heat(1.0) @ tb.Heat(2.0), True, 3.0, 1.0),
        (tb.Heat(1.0) - tb.Heat(0.0), False, 1.0, 1.0),
        (tb.Tikhonov(2.0), False, 2.0, 1.0),
        (tb.Matern(1.5, 2.0), True, 2 / 1.5**2, 1.0),
        (tb.Matern(1.5, 1.5), False, 1.5 / 1.5**2, 1.0),
        (tb.Matern(1.5, 4.0), True, 4 / 1.5**2, 1.0),
        (tb.Wavelet(0.5), True, 0.5 * np.e, 1.0),
        (tb.Spectral(lambda lam: 1 / (1 + lam) ** 2), True, 2.0, 1.0),
        (tb.Spectral(torch.zeros_like), True, 0.0, 0.0),
    ],
)
def test_measured_properties(h, lowpass, lipschitz, gain):
    got = h.properties()
    assert got.basis == "measured on eigenvalues from 0 to 1e+08"
    assert got.lowpass == lowpass
    assert got.gain == pytest.approx(gain, rel=1e-5)
    assert got.lipschitz == pytest.approx(lipschitz, rel=2e-3)


def test_measured_properties_on_an_operator():
    lap = tb.TangentBundle.from_points(Sphere(2).sample(100, seed=0)).laplacian()
    high = lap.spectral_interval[1]
    on = tb.Spectral(lambda lam: lam).properties(lap)
    assert on.basis == f"measured on eigenvalues from 0 to {high:.4g}"
    assert on.gain == pytest.approx(high) and on.lipschitz == pytest.approx(1.0) and not on.lowpass
    exact = tb.Polynomial([0.0, -1.0]).properties(lap)
    assert exact.basis == f"exact on eigenvalues from 0 to {high:.4g}" and exact.gain == pytest.approx(high)
    assert tb.IdealLowpass(3.0).is_lowpass((0.0, 100.0))
    assert tb.IdealLowpass(3.0).lipschitz((0.0, 100.0)) > 100.0  # no constant serves a jump
    assert "non-amplifying" in str(tb.Tikhonov(1.0).properties()) and "amplifying" in str(
        (3.0 * tb.Heat(1)).properties()
    )


# Coefficients that are lowpass and non-amplifying by construction.


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.floats(-50.0, 50.0), min_size=1, max_size=12), st.booleans())
def test_lowpass_non_amplifying_for_all_numbers(free, single):
    if single:
        free = free[:9]
    numbers = torch.tensor(free, dtype=torch.float32 if single else torch.float64)
    taps = tb.LowpassNonAmplifying(len(free) + 1)(numbers)
    assert taps.shape == (len(free) + 1,) and taps.dtype == numbers.dtype
    h = tb.FIR(taps, step=0.1)
    assert h.is_lowpass() and h.is_nonamplifying(), h.properties()
    assert np.abs(h.response(LAM)).max() <= 1.0


def test_lowpass_non_amplifying_reaches_what_it_should():
    """With Bernstein coefficients 0, 1, ..., 1 the filter 1 - (1 - z)^N; with few of them any lowpass filter."""
    taps = tb.LowpassNonAmplifying(5)(torch.full((4,), 40.0, dtype=torch.float64))
    np.testing.assert_allclose(taps, [0.0, 4.0, -6.0, 4.0, -1.0], rtol=1e-12)
    wanted = np.array([0.0, 0.6, 0.3])
    # to Bernstein form of degree 2: b_1 = h_1 / 2, b_2 = h_1 + h_2
    free = torch.from_numpy(np.arctanh([wanted[1] / 2, wanted[1:].sum()]))
    np.testing.assert_allclose(tb.LowpassNonAmplifying(3)(free), wanted, rtol=1e-12)
    many = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    out = tb.LowpassNonAmplifying(4)(many)
    assert out.shape == (4, 4, 5)
    np.testing.assert_allclose(out[:, 2, 3], tb.LowpassNonAmplifying(4)(many[:, 2, 3]), rtol=1e-13)


def test_gradients_flow_through_lowpass_non_amplifying():
    free = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(tb.LowpassNonAmplifying(4), free)
    lam = torch.linspace(0.0, 20.0, 50, dtype=torch.float64)
    goal = tb.Heat(0.25).response(lam)
    optimizer = torch.optim.LBFGS([free], max_iter=60, line_search_fn="strong_wolfe")
    module = tb.LowpassNonAmplifying(4)

    def misfit():
        optimizer.zero_grad()
        loss = (tb.FIR(module(free), step=0.1).response(lam) - goal).square().mean()
        loss.backward()
        return loss

    before = float(misfit().detach())
    optimizer.step(misfit)
    after = float(misfit().detach())
    assert after < 1e-3 * before
    learnt = tb.FIR(module(free).detach(), step=0.1)
    assert learnt.is_lowpass() and learnt.is_nonamplifying()


def test_as_a_parametrization():
    layer = torch.nn.Linear(1, 3, bias=False)
    layer.weight = torch.nn.Parameter(torch.randn(3, 1))
    torch.nn.utils.parametrize.register_parametrization(layer, "weight", tb.LowpassNonAmplifying(4), unsafe=True)
    assert layer.weight.shape == (4, 1) and float(layer.weight[0].detach()) == 0.0
    assert tb.FIR(layer.weight[:, 0]).is_nonamplifying()


# What is refused.


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: tb.Heat(-0.1), InvalidInputError, "at least 0 .*backwards.* got -0.1"),
        (lambda: tb.Heat(np.nan), NonFiniteError, "t must be finite, got nan"),
        (lambda: tb.Heat(np.inf), NonFiniteError, "finite"),
        (lambda: tb.Heat(torch.tensor(float("nan"))), NonFiniteError, "finite"),
        (lambda: tb.Heat([1.0, 2.0]), InvalidInputError, r"one number, got shape \(2,\)"),
        (lambda: tb.Heat("long"), DTypeError, "real numbers"),
        (lambda: tb.Heat(None), DTypeError, "real numbers"),
        (lambda: tb.Heat(1j), DTypeError, "real"),
        (lambda: tb.FIR([]), InvalidInputError, "non-empty list"),
        (lambda: tb.FIR(3.0), InvalidInputError, "non-empty list"),
        (lambda: tb.FIR([[1.0, 2.0]]), InvalidInputError, r"got shape \(1, 2\)"),
        (lambda: tb.FIR([1.0, np.nan]), NonFiniteError, "coefficients must be finite"),
        (lambda: tb.FIR(np.full(50, np.inf)), NonFiniteError, "50 of 50 values"),
        (lambda: tb.FIR([1.0], step=0.0), InvalidInputError, "step must be positive"),
        (lambda: tb.FIR([1.0], step=-1.0), InvalidInputError, "step must be positive"),
        (lambda: tb.FIR([1.0], step=np.nan), NonFiniteError, "step must be finite"),
        (lambda: tb.Polynomial([]), InvalidInputError, "non-empty list"),
        (lambda: tb.Polynomial([np.inf]), NonFiniteError, "finite"),
        (lambda: tb.ImpulseResponse(torch.ones_like), InvalidInputError, "does not decay.*give horizon"),
        (lambda: tb.ImpulseResponse(lambda t: t**2 / 6), InvalidInputError, "give horizon"),
        (lambda: tb.ImpulseResponse(torch.zeros_like), InvalidInputError, "or is zero"),
        (lambda: tb.ImpulseResponse(lambda t: torch.log(t - 1)), NonFiniteError, "impulse response must be finite"),
        (lambda: tb.ImpulseResponse(exp_impulse, horizon=0.0), InvalidInputError, "horizon must be positive"),
        (lambda: tb.ImpulseResponse(lambda t: (t < 0.7).double(), 1.0), InvalidInputError, "jumps.*horizon at a jump"),
        (lambda: tb.ImpulseResponse(lambda t: torch.sin(5e3 * t), 1.0), InvalidInputError, "oscillates"),
        (lambda: tb.Tikhonov(-1.0), InvalidInputError, "strength"),
        (lambda: tb.Matern(0.0), InvalidInputError, "kappa must be positive"),
        (lambda: tb.Matern(1.0, -2.0), InvalidInputError, "alpha must be positive"),
        (lambda: tb.IdealLowpass(np.nan), NonFiniteError, "cutoff"),
        (lambda: tb.Wavelet(0.0), InvalidInputError, "scale must be positive"),
        (lambda: tb.LowpassNonAmplifying(1), InvalidInputError, "at least 2 taps"),
        (lambda: tb.LowpassNonAmplifying(20)(torch.zeros(19)), InvalidInputError, "fewer taps or float64"),
        (lambda: np.nan * tb.Heat(1.0), NonFiniteError, "factor"),
        (lambda: tb.Heat(1.0) * [1.0, 2.0], InvalidInputError, "one number"),
        (lambda: np.ones(2) * tb.Heat(1.0), InvalidInputError, "one number"),
        (lambda: tb.Heat(1.0) * "2", DTypeError, "factor"),
        (lambda: tb.Heat(1.0) + 1.0, TypeError, "unsupported"),
        (lambda: tb.Heat(1.0) @ np.eye(2), TypeError, "support"),
        (lambda: tb.Heat(1.0) * tb.Heat(1.0), TypeError, "unsupported"),
        (lambda: tb.Heat(1.0).response([-1.0]), InvalidInputError, ">= 0"),
        (lambda: tb.Heat(1.0).response([1.0, np.nan]), InvalidInputError, ">= 0"),
        (lambda: tb.Tikhonov(1.0).properties((2.0, 1.0)), InvalidInputError, "low < high"),
        (lambda: tb.Tikhonov(1.0).properties((0.0, np.inf)), InvalidInputError, "low < high"),
        (lambda: tb.Polynomial([1.0]).properties((-1.0, 1.0)), InvalidInputError, "0 <= low"),
        (lambda: tb.Spectral(lambda lam: 1 / (lam - lam)).properties(), InvalidInputError, "not finite"),
        (lambda: Filter(), TypeError, "abstract"),
    ],
)
def test_bad_input(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_messages_are_short():
    """However many numbers are bad."""
    with pytest.raises(NonFiniteError) as caught:
        tb.ImpulseResponse(lambda t: t * np.nan, horizon=1.0)
    assert len(str(caught.value)) < 200
