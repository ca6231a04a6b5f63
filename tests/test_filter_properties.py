"""The three properties of filters, measured or by construction."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tangentbundle as tb
from tangentbundle.manifolds import Sphere

LAM = np.concatenate([[0.0], np.geomspace(1e-6, 1e4, 300)])

SOME = settings(max_examples=60, deadline=None, derandomize=True)

coefficients = st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=8)
steps = st.floats(1e-3, 10.0)


def dense_largest(taps):
    """The largest |polynomial| on a fine grid of [0, 1], and how much the grid can miss."""
    z = np.linspace(0.0, 1.0, 4001)
    k = np.arange(len(taps))
    return np.abs(np.polynomial.polynomial.polyval(z, taps)).max(), (k * k * np.abs(taps)).sum() / (
        8 * 4000**2
    )


@SOME
@given(coefficients, steps)
def test_properties_of_firs(taps, step):
    taps = np.array(taps)
    got = tb.FIR(taps, step).properties()
    assert got.lowpass == (np.abs(taps[0]) <= 1e-12 * got.gain)
    gain, _ = dense_largest(taps)
    assert got.gain == pytest.approx(gain, rel=1e-5, abs=1e-5 * np.abs(taps).sum())
    # d/dlambda of sum h_k e^(-k s lambda) is -s sum k h_k z^k
    slopes = np.arange(len(taps)) * taps
    slope, _ = dense_largest(slopes)
    assert got.lipschitz == pytest.approx(
        step * slope, rel=1e-5, abs=1e-5 * step * np.abs(slopes).sum()
    )


@pytest.mark.parametrize(
    "taps, gain, lipschitz",
    [
        (
            [0.0, 4.0, -4.0],
            1.0,
            4.0,
        ),  # 4 z (1 - z): largest at z = 1/2, steepest, |4 z - 8 z^2|, at z = 1
        ([1.0], 1.0, 0.0),
        ([0.0, 0.0, 0.0], 0.0, 0.0),
        ([1.0, 0.0, 0.0], 1.0, 0.0),
        ([0.5, 0.3, 0.2], 1.0, 0.7),
    ],
)
def test_properties_of_firs_by_hand(taps, gain, lipschitz):
    got = tb.FIR(taps, step=2.0).properties()
    assert got.gain == pytest.approx(gain, rel=1e-5)
    assert got.lipschitz == pytest.approx(2.0 * lipschitz, rel=1e-5)


def test_properties_of_heat():
    for t in (0.0, 0.3, 5.0):
        got = tb.Heat(t).properties()
        assert (got.lowpass, got.gain, got.interval) == (
            t > 0,
            1.0,
            (0.0, 1e8),
        ) and got.lipschitz == pytest.approx(t)
    learnable = tb.Heat(torch.tensor(0.3, dtype=torch.float64, requires_grad=True))
    assert learnable.lipschitz() == pytest.approx(0.3) and learnable.is_nonamplifying()


@SOME
@given(coefficients, st.floats(0.0, 3.0), st.floats(0.1, 5.0))
def test_properties_of_polynomials_on_an_interval(h, low, width):
    got = tb.Polynomial(h).properties((low, low + width))
    lam = np.linspace(low, low + width, 4001)
    series = np.polynomial.Polynomial(np.array(h) * (-1.0) ** np.arange(len(h)))
    for value, polynomial in ((got.gain, series), (got.lipschitz, series.deriv())):
        size = np.polynomial.Polynomial(np.abs(polynomial.coef))(low + width)
        assert value == pytest.approx(np.abs(polynomial(lam)).max(), rel=1e-5, abs=1e-5 * size)


@pytest.mark.parametrize(
    "h, lowpass, lipschitz, gain",
    [
        (tb.Heat(1.0) + tb.Heat(2.0), True, 3.0, 2.0),
        (0.5 * tb.Heat(1.0), True, 0.5, 0.5),
        (tb.Heat(1.0) @ tb.Heat(2.0), True, 3.0, 1.0),
        (tb.Heat(1.0) - tb.Heat(0.0), False, 1.0, 1.0),
        (tb.Tikhonov(2.0), False, 2.0, 1.0),
        (tb.Spectral(lambda lam: 1 / (1 + lam) ** 2), True, 2.0, 1.0),
        (tb.Spectral(torch.zeros_like), True, 0.0, 0.0),
    ],
)
def test_measured_properties(h, lowpass, lipschitz, gain):
    got = h.properties()
    assert got.lowpass == lowpass
    assert got.gain == pytest.approx(gain, rel=1e-5)
    assert got.lipschitz == pytest.approx(lipschitz, rel=2e-3)


def wavelet_slope(scale, low, high):
    """The largest of s e^(1 - x) |1 - x| for x = s lambda: at an end, or at x = 2."""
    x = scale * np.array([low, high, np.clip(2.0 / scale, low, high)])
    return scale * (np.exp(1 - x) * np.abs(1 - x)).max()


def sine_slope(rate, low, high):
    """The largest |cos(rate lambda)|: one where a multiple of pi is inside, otherwise at an end."""
    inside = np.floor(rate * high / np.pi) >= np.ceil(rate * low / np.pi)
    return 1.0 if inside else np.abs(np.cos(rate * np.array([low, high]))).max()


CLOSED_FORMS = {
    "rational": (
        lambda a: tb.Spectral(lambda lam: 1 / (1 + a * lam) ** 2),
        lambda a, low, _: 2 * a / (1 + a * low) ** 3,
    ),
    "tikhonov": (tb.Tikhonov, lambda a, low, _: a / (1 + a * low) ** 2),
    "sum": (
        lambda a: tb.Heat(a) + 3.0 * tb.Heat(2 * a),
        lambda a, low, _: a * np.exp(-a * low) * (1 + 6 * np.exp(-a * low)),
    ),
    "composition": (
        lambda a: tb.Heat(a) @ tb.Tikhonov(0.0),
        lambda a, low, _: a * np.exp(-a * low),
    ),
    "wavelet": (lambda a: tb.Spectral(lambda lam: a * lam * torch.exp(1 - a * lam)), wavelet_slope),
    "sine": (lambda a: tb.Spectral(lambda lam: torch.sin(a * lam) / a), sine_slope),
    "line": (lambda a: tb.Spectral(lambda lam: a * lam), lambda a, *_: a),
}


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(CLOSED_FORMS)),
    st.just(0.0) | st.floats(-12.0, 6.0).map(lambda x: 10**x),
    st.floats(-5.0, 5.0),
    st.floats(-3.0, 3.0),
)
def test_measured_lipschitz_constants_on_any_interval(name, low, width, size):
    """The interval starts at zero or anywhere, and is short or long against its start and the
    filter's scale."""
    size, high = 10**size, low + (low or 1.0) * 10**width
    if name == "sine":
        high = min(high, low + 1000 / size)  # some 150 periods
    filter, slope = CLOSED_FORMS[name]
    assert filter(size).lipschitz((low, high)) == pytest.approx(
        slope(size, low, high), rel=1e-3, abs=1e-200
    )


@pytest.mark.parametrize("cutoff", [1e-3, 1.0, 2.3, 99.0])
@pytest.mark.parametrize("size", [1.0, -0.1])
def test_no_lipschitz_constant_serves_a_jump(cutoff, size):
    h = tb.Heat(1.0) + size * tb.Spectral(lambda lam: lam <= cutoff)
    assert h.lipschitz((0.0, 100.0)) == h.lipschitz() == np.inf
    assert h.lipschitz((cutoff * 1.01, 100.0)) == pytest.approx(np.exp(-cutoff * 1.01))
    unknown = tb.Spectral(
        lambda lam: torch.exp(-lam.detach())
    )  # no derivative: difference quotients
    assert unknown.lipschitz((0.5, 5.0)) == pytest.approx(np.exp(-0.5), rel=1e-3)
    assert tb.Spectral(lambda lam: 1 / lam).properties().lipschitz == np.inf


def test_measured_properties_on_an_operator():
    lap = tb.TangentBundle.from_points(Sphere(2).sample(100, seed=0)).laplacian()
    high = lap.spectral_interval[1]
    on = tb.Spectral(lambda lam: lam).properties(lap)
    assert on.interval == (0.0, high)
    assert on.gain == pytest.approx(high) and on.lipschitz == pytest.approx(1.0) and not on.lowpass
    assert tb.Spectral(lambda lam: lam <= 3.0).is_lowpass((0.0, 100.0))
    assert "non-amplifying" in str(tb.Tikhonov(1.0).properties()) and "(amplifying" in str(
        (3.0 * tb.Heat(1)).properties()
    )
