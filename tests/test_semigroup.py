"""Operators known by their exponentials: filters become perceptrons and convolutions in time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

import tangentbundle as tb
from tangentbundle.errors import DTypeError, InvalidInputError, ShapeError
from tangentbundle.operators import DirectedPath, Identity, LinearOperator
from tangentbundle.testing import OperatorContract, random_signal

RNG = np.random.default_rng


class TestIdentity(OperatorContract):
    def make_operator(self) -> LinearOperator:
        return Identity.of(9, 2)


class TestForwardPath(OperatorContract):
    def make_operator(self) -> LinearOperator:
        return DirectedPath.of(9, spacing=0.5)


class TestBackwardPath(OperatorContract):
    def make_operator(self) -> LinearOperator:
        return DirectedPath.of(9, spacing=0.5).adjoint


class TestSinglePrecisionPath(OperatorContract):
    def make_operator(self) -> LinearOperator:
        return DirectedPath.of(9, dtype=torch.float32)


# No diffusion.


def impulse_filters():
    return [
        tb.Heat(3.0),
        tb.Heat(0.0),
        tb.FIR([0.5, -0.2, 0.9], 0.3),
        tb.ImpulseResponse(lambda t: t * torch.exp(-t)),
        tb.ImpulseResponse(lambda t: t**2 / 6, horizon=2.0),
        2.0 * tb.Heat(1.0) @ tb.FIR([1.0, -3.0]) - tb.Heat(0.5),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_without_diffusion_a_filter_is_its_response_at_zero(dim, dtype):
    identity = Identity.of(11, dim, dtype)
    x = torch.stack([random_signal(identity, 4, seed=s) for s in range(2)])
    rtol = 1e-5 if dtype == torch.float32 else 1e-12
    for h in impulse_filters():
        got = h(identity, x)
        assert got.dtype == dtype
        torch.testing.assert_close(got, float(h.response(0.0)) * x, rtol=rtol, atol=rtol)
    for h, y in zip(impulse_filters(), identity.evaluate(impulse_filters(), x), strict=True):
        assert torch.equal(y, h(identity, x))


def test_identity_as_an_operator():
    identity = Identity.of(5, 2)
    x = random_signal(identity)
    assert torch.equal(identity @ x, torch.zeros_like(x))
    assert identity.adjoint is identity and identity.shape == (10, 10)
    assert identity.exponential(7.0, x) is x
    single = identity.to(dtype=torch.float32)
    assert single.dtype == torch.float32 and single.rank == 2
    assert float(identity.mass.sum()) == pytest.approx(1.0)


# Convolution in time.


taps = st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(taps, st.integers(1, 12), st.sampled_from([1.0, 0.1, 0.25, 1e-3, 7.0]))
def test_on_a_path_a_filter_is_convolution(h, n, spacing):
    """Also with more taps than points, and with spacings that are no binary fractions."""
    path = DirectedPath.of(n, spacing)
    f = RNG(n).standard_normal((n, 1, 3))
    got = tb.FIR(h, step=spacing)(path, f)
    assert isinstance(got, np.ndarray)
    for c in range(3):
        np.testing.assert_allclose(got[:, 0, c], np.convolve(f[:, 0, c], h)[:n], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_channels_and_precisions(dtype):
    path = DirectedPath.of(50, dtype=torch.float32 if dtype == np.float32 else torch.float64)
    f = RNG(0).standard_normal((2, 3, 50, 1, 4)).astype(dtype)
    h = [0.5, 0.0, -0.25, 2.0]
    got = tb.FIR(h)(path, f)
    assert got.dtype == dtype
    np.testing.assert_allclose(
        got, lfilter(h, [1.0], f, axis=2), atol=1e-5 if dtype == np.float32 else 1e-13
    )


def test_steps_of_several_points():
    """A step of m spacings is convolution with a dilated kernel."""
    path = DirectedPath.of(40, spacing=0.2)
    f = RNG(0).standard_normal((40, 1, 1))
    got = tb.FIR([1.0, 0.5, 0.25], step=0.6)(path, f)[:, 0, 0]
    dilated = [1.0, 0, 0, 0.5, 0, 0, 0.25]
    np.testing.assert_allclose(got, np.convolve(f[:, 0, 0], dilated)[:40], atol=1e-13)


def test_heat_on_a_path_is_delay():
    path = DirectedPath.of(6, spacing=0.5)
    f = np.arange(1.0, 7.0).reshape(6, 1, 1)
    np.testing.assert_array_equal(tb.Heat(1.0)(path, f).ravel(), [0, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(tb.Heat(1.0)(path.adjoint, f).ravel(), [3, 4, 5, 6, 0, 0])
    np.testing.assert_array_equal(tb.Heat(0.0)(path, f), f)
    np.testing.assert_array_equal(tb.Heat(50.0)(path, f), 0 * f)
    np.testing.assert_array_equal(tb.Heat(3.0)(path, f), 0 * f)


def test_composition_on_a_path_is_convolution_of_kernels():
    path = DirectedPath.of(30)
    f = RNG(0).standard_normal((30, 1, 2))
    a, b = tb.FIR([1.0, -0.5, 0.25]), tb.FIR([0.3, 0.7])
    expected = tb.FIR(np.convolve([1.0, -0.5, 0.25], [0.3, 0.7]))(path, f)
    np.testing.assert_allclose((a @ b)(path, f), expected, atol=1e-13)
    np.testing.assert_allclose(a(path, b(path, f)), expected, atol=1e-13)
    np.testing.assert_allclose((a + 2.0 * b)(path, f), a(path, f) + 2.0 * b(path, f), atol=1e-13)


def test_the_generator_is_the_upwind_difference():
    """It approximates -d/dx to first order, and delays by Euler steps that converge to the
    shift."""
    errors = []
    for n in (100, 200, 400):
        path = DirectedPath.of(n, spacing=1.0 / n)
        x = np.arange(n) / n
        f = np.sin(2 * np.pi * x).reshape(n, 1, 1)
        error = (path @ f).ravel() + 2 * np.pi * np.cos(2 * np.pi * x)
        errors.append(np.abs(error[1:]).max())
    assert errors[2] < 0.6 * errors[1] < 0.36 * errors[0]
    dense = DirectedPath.of(4, 0.5).to_dense().numpy()
    np.testing.assert_array_equal(dense, (np.eye(4, k=-1) - np.eye(4)) / 0.5)


def test_delays_commute_with_the_semigroup_law():
    path = DirectedPath.of(20, spacing=0.1)
    x = random_signal(path)
    for s, t in ((0.1, 0.2), (0.7, 0.5), (0.0, 0.3)):
        assert torch.equal(path.exponential(s, path.exponential(t, x)), path.exponential(s + t, x))
        left = path.inner(path.exponential(t, x), x.flip(0))
        right = path.inner(x, path.adjoint.exponential(t, x.flip(0)))
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-14)


def test_gradients_in_signal_and_taps():
    path, identity = DirectedPath.of(8, 0.25), Identity.of(8, 2)
    h = torch.tensor([0.5, -0.2, 0.9], dtype=torch.float64, requires_grad=True)
    for operator in (path, path.adjoint, identity):
        x = random_signal(operator).requires_grad_()
        assert torch.autograd.gradcheck(lambda s, h, op=operator: tb.FIR(h, 0.25)(op, s), (x, h))
        assert torch.autograd.gradgradcheck(
            lambda s, h, op=operator: tb.FIR(h, 0.25)(op, s), (x, h)
        )
    t = torch.tensor(
        0.5, dtype=torch.float64, requires_grad=True
    )  # nothing depends on it, and nothing warns
    assert torch.equal(
        tb.Heat(t)(path, x[:, :1].detach()), path.exponential(0.5, x[:, :1].detach())
    )


# What is refused.


def test_bad_times():
    path = DirectedPath.of(10, spacing=0.5)
    x = random_signal(path)
    for h in (
        tb.Heat(0.3),
        tb.FIR([1.0, 1.0], step=0.75),
        tb.ImpulseResponse(lambda t: torch.exp(-t)),
    ):
        with pytest.raises(
            InvalidInputError, match=r"spacing 0.5 .* integer multiples of it, not by"
        ):
            h(path, x)
    with pytest.raises(InvalidInputError, match="integer multiples"):
        path.exponential(-0.5, x)


def test_filters_without_impulses():
    for operator in (DirectedPath.of(5), Identity.of(5)):
        for h in (tb.Tikhonov(1.0), tb.Polynomial([1.0, 2.0]), tb.Heat(1.0) + tb.Tikhonov(2.0)):
            with pytest.raises(
                InvalidInputError, match=r"no impulse response.*Use Heat, FIR or ImpulseResponse"
            ):
                h(operator, random_signal(operator))


def test_bad_paths_and_signals():
    for n, spacing in ((0, 1.0), (-3, 1.0), (5, 0.0), (5, -1.0), (5, float("nan"))):
        with pytest.raises(InvalidInputError, match="a path needs points and a positive spacing"):
            DirectedPath.of(n, spacing)
    path = DirectedPath.of(5)
    with pytest.raises(ShapeError, match=r"Add the channel axis: signal\[\.\.\., None\]"):
        tb.Heat(1.0)(path, np.zeros((5, 1)))
    with pytest.raises(ShapeError, match="5, 1, c"):
        tb.Heat(1.0)(path, np.zeros((6, 1, 1)))
    with pytest.raises(DTypeError, match="never mixed"):
        tb.Heat(1.0)(path, np.zeros((5, 1, 1), np.float32))
    with pytest.raises(InvalidInputError, match="not self-adjoint"):
        _ = path.eigenbasis


def test_exponentials_are_the_method_of_semigroups_alone():
    identity = Identity.of(4)
    x = random_signal(identity)
    assert torch.equal(tb.Heat(1.0)(identity, x, tb.Exponentials()), x)
    lap = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(60, seed=0)).laplacian()
    with pytest.raises(InvalidInputError, match="method of a Semigroup, got Laplacian"):
        tb.Heat(1.0)(lap, random_signal(lap), tb.Exponentials())
