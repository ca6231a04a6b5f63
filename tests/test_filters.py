"""Responses: what each filter is, the algebra of filters, and what is refused."""

import itertools

import numpy as np
import pytest
import torch
from filter_spaces import exp_impulse
from hypothesis import given, settings
from hypothesis import strategies as st

import tangentbundle as tb
from tangentbundle.errors import DTypeError, InvalidInputError, NonFiniteError
from tangentbundle.filters import Filter

LAM = np.concatenate([[0.0], np.geomspace(1e-6, 1e4, 300)])

SOME = settings(max_examples=60, deadline=None, derandomize=True)

coefficients = st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=8)
steps = st.floats(1e-3, 10.0)


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
    np.testing.assert_allclose(
        h.response(lam.astype(np.float32)), h.response(lam.astype(np.float32).astype(float))
    )
    np.testing.assert_array_equal(h.response(lam.tolist()), expected)
    assert h.response(1).shape == ()  # integers are numbers


# Impulse responses.


@pytest.mark.parametrize("rate", [1e-4, 1.0, 300.0])
def test_impulse_response_at_any_time_scale(rate):
    """rate^2 t e^(-rate t) has the response (1 + lambda / rate)^-2, at eigenvalues of any size."""
    h = tb.ImpulseResponse(lambda t: rate**2 * t * torch.exp(-rate * t))
    np.testing.assert_allclose(h.response(LAM), (1 + LAM / rate) ** -2, rtol=1e-9)


def test_impulse_response_of_the_paper():
    """t^2 / 6 up to a horizon: about lambda^-3 / 3 for large lambda, and with its cut-off exactly
    known."""
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
    assert known.lowpass and known.gain == pytest.approx(horizon**3 / 18, rel=1e-5)
    assert known.lipschitz == pytest.approx(horizon**4 / 24, rel=1e-3)
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


@pytest.mark.parametrize(
    "first, second", list(itertools.combinations_with_replacement(filters(), 2))
)
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
        np.testing.assert_allclose(
            h.response(LAM), expected, rtol=1e-9, atol=1e-12 * size, err_msg=name
        )


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
    np.testing.assert_allclose(
        twice.response(LAM), tb.ImpulseResponse(exp_impulse).response(LAM), rtol=1e-10
    )
    delayed = tb.Heat(0.5) @ tb.FIR([1.0, 2.0], 0.25)
    parts = delayed.impulses()
    np.testing.assert_allclose(parts.times, [0.5, 0.75])
    np.testing.assert_allclose(parts.weights, [1.0, 2.0])
    total = (tb.Heat(1.0) + 3.0 * tb.Heat(2.0)).impulses()
    np.testing.assert_allclose(total.times, [1.0, 2.0])
    np.testing.assert_allclose(total.weights, [1.0, 3.0])


def test_parameters_are_those_that_were_given():
    t, h, s, w = (
        torch.tensor(v, dtype=torch.float64, requires_grad=True)
        for v in (0.5, [1.0, 2.0], 0.1, 2.0)
    )
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
    assert (
        f == f
        and f != tb.FIR([1.0, 2.0])
        and f in [tb.Heat(1.0), f]
        and len({f, f, tb.Heat(1.0)}) == 2
    )


def test_numbers_are_copied():
    h = np.array([1.0, 2.0])
    f, p = tb.FIR(h), tb.Polynomial(h)
    h[:] = 0.0
    assert f.response(0.0) == 3.0 and p.response(0.0) == 1.0


# What is refused.


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: tb.Heat(-0.1), InvalidInputError, "at least 0, got -0.1"),
        (lambda: tb.Heat(np.nan), NonFiniteError, "t must be finite, got .*nan"),
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
        (
            lambda: tb.ImpulseResponse(torch.ones_like),
            InvalidInputError,
            "does not decay.*give horizon",
        ),
        (lambda: tb.ImpulseResponse(lambda t: t**2 / 6), InvalidInputError, "give horizon"),
        (lambda: tb.ImpulseResponse(torch.zeros_like), InvalidInputError, "or is zero"),
        (
            lambda: tb.ImpulseResponse(lambda t: torch.log(t - 1)),
            NonFiniteError,
            "impulse response must be finite",
        ),
        (
            lambda: tb.ImpulseResponse(exp_impulse, horizon=0.0),
            InvalidInputError,
            "horizon must be positive",
        ),
        (
            lambda: tb.ImpulseResponse(lambda t: (t < 0.7).double(), 1.0),
            InvalidInputError,
            "jumps.*horizon at a jump",
        ),
        (
            lambda: tb.ImpulseResponse(lambda t: torch.sin(5e3 * t), 1.0),
            InvalidInputError,
            "oscillates",
        ),
        (lambda: tb.Tikhonov(-1.0), InvalidInputError, "strength"),
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
        (
            lambda: tb.Spectral(lambda lam: 1 / (lam - lam)).properties(),
            InvalidInputError,
            "not finite",
        ),
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
