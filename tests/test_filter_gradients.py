"""Derivatives of filters in signals, coefficients and times, of first and second order, and what
they cost."""

import warnings
from functools import cache

import numpy as np
import pytest
import torch
from stored import in_user_order

import tangentbundle as tb
from tangentbundle.manifolds import Sphere
from tangentbundle.operators import chebyshev
from tangentbundle.testing import random_signal, relative_error

SIZES = {1: 12, 2: 12, 3: 10}

METHODS = [tb.Exact(), tb.Chebyshev(1e-12), tb.Chebyshev(degree=12)]


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@cache
def laplacian(dim=2, n=None, dtype=torch.float64):
    space = Sphere(dim)
    points = torch.from_numpy(space.sample(n or SIZES[dim], seed=0)).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few points have no small neighbourhoods
        return tb.TangentBundle.from_frames(
            points, space.frames(points), eps=2.0 if n is None else None
        ).laplacian()


def number(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def cases():
    """Maps from a signal and learnable parameters to an output, for each kind of filter."""
    return {
        "heat": ([0.3], lambda t: tb.Heat(t)),
        "FIR": ([[0.5, -0.4, 0.9], 0.2], lambda h, s: tb.FIR(h, s)),
        "polynomial": ([[0.5, -0.4, 0.1]], lambda h: tb.Polynomial(h)),
        "composition": (
            [0.3, [0.5, 0.7], 0.2, 1.5],
            lambda t, h, s, w: w * (tb.Heat(t) @ tb.FIR(h, s)) - tb.Heat(2 * t),
        ),
        "spectral": (
            [2.0],
            lambda a: tb.Spectral(lambda lam: 1 / (1 + a * lam) ** 2, tensors=(a,)),
        ),
        "impulse": ([1.5], lambda a: tb.ImpulseResponse(lambda t: torch.exp(-a * t))),
    }


def function(kind, lap, method):
    values, make = cases()[kind]
    parameters = [number(v) for v in values]
    return (lambda x, *p: make(*p)(lap, x, method)), parameters


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("kind", cases())
def test_first_derivatives(kind, method):
    lap = laplacian()
    run, parameters = function(kind, lap, method)
    x = random_signal(lap, channels=1).requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *parameters), atol=1e-6)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("kind", cases())
def test_second_derivatives(kind, method):
    """In every pair of signal, coefficients and times; by random projections, which is quick."""
    lap = laplacian()
    run, parameters = function(kind, lap, method)
    x = random_signal(lap, channels=2).requires_grad_()
    assert torch.autograd.gradgradcheck(run, (x, *parameters), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("dim", [1, 3])
def test_derivatives_for_other_dimensions_and_batches(dim, method):
    lap = laplacian(dim)
    run, parameters = function("FIR", lap, method)
    x = torch.stack([random_signal(lap, channels=2, seed=s) for s in range(2)]).requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *parameters), atol=1e-6, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, (x, *parameters), atol=1e-6, fast_mode=True)


def test_second_derivatives_in_full():
    """Every entry, not only projections: here the three custom operations are each other's
    derivatives."""
    lap = laplacian(1)
    run, parameters = function("FIR", lap, tb.Chebyshev(degree=5))
    x = random_signal(lap, channels=1).requires_grad_()
    assert torch.autograd.gradgradcheck(run, (x, *parameters), atol=1e-6)


def test_third_derivatives():
    """Closed under differentiation: the third derivative in t is lambda^3 e^(-t lambda), up to
    sign."""
    lap = laplacian()
    x, y = random_signal(lap, seed=1), random_signal(lap, seed=2)
    t = number(0.2)
    for method in METHODS:
        value = lap.inner(y, tb.Heat(t)(lap, x, method)).sum()
        for _ in range(3):
            (value,) = torch.autograd.grad(value, t, create_graph=True)
        cubed = lap @ (lap @ (lap @ tb.Heat(0.2)(lap, x, tb.Exact())))
        assert float(value.detach()) == pytest.approx(float(lap.inner(y, cubed).sum()), rel=1e-6), (
            method
        )


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_derivatives_by_formula(method):
    """In t it is Delta e^(t Delta) x; in x the adjoint, which the mass makes the filter again; in
    h_k the k-th tap."""
    lap = laplacian(2, 60)
    x, g = random_signal(lap, seed=1).requires_grad_(), random_signal(lap, seed=2)
    t, h = number(0.05), number([0.3, 0.5, 0.2])
    for f, parameter in ((tb.Heat(t), t), (tb.FIR(h, 0.05), h)):
        y = f(lap, x, method if method != METHODS[2] else tb.Chebyshev(degree=40))
        grad_x, grad_p = torch.autograd.grad((g * y).sum(), (x, parameter))
        weight = lap.mass[:, None, None]
        assert relative_error(grad_x, weight * f(lap, g / weight, tb.Exact())) < 1e-8
        if parameter is t:
            expected = (g * (lap @ tb.Heat(0.05)(lap, x, tb.Exact()))).sum()
        else:
            expected = torch.stack(
                [(g * tb.Heat(0.05 * k)(lap, x, tb.Exact())).sum() for k in range(3)]
            )
        assert relative_error(grad_p, expected) < 1e-8


@pytest.mark.parametrize("method", [tb.Exact(), tb.Chebyshev(1e-6)], ids=str)
def test_gradients_in_single_precision(method):
    single, double = (
        laplacian(2, 60, torch.float32),
        laplacian(2, 60, torch.float32).to(dtype=torch.float64),
    )
    gradients = []
    for lap, way in ((single, method), (double, tb.Exact())):
        x = random_signal(single).to(lap.dtype).requires_grad_()
        t = torch.tensor(0.1, dtype=lap.dtype, requires_grad=True)
        h = torch.tensor([0.1, 0.6, 0.3], dtype=lap.dtype, requires_grad=True)
        loss = (tb.Heat(t) @ tb.FIR(h, 0.05))(lap, x, way).square().sum()
        gradients.append(torch.autograd.grad(loss, (x, t, h)))
    for got, expected in zip(*gradients, strict=True):
        assert got.dtype == torch.float32
        assert relative_error(got, expected) < 2e-5


def test_banks_have_the_gradients_of_their_filters():
    lap = laplacian(2, 60)
    for method in (tb.Exact(), tb.Chebyshev(1e-11)):
        results = []
        for together in (True, False):
            t, h = number(0.05), number([0.3, 0.7])
            x = random_signal(lap).requires_grad_()
            bank = [tb.Heat(t), tb.FIR(h, 0.1), tb.Heat(2 * t)]
            outputs = (
                lap.evaluate(bank, x, method) if together else [f(lap, x, method) for f in bank]
            )
            loss = sum((k + 1) * y.square().sum() for k, y in enumerate(outputs))
            results.append(torch.autograd.grad(loss, (x, t, h)))
        for a, b in zip(*results, strict=True):
            assert relative_error(a, b) < 1e-8


def test_only_what_is_asked_for_is_computed(monkeypatch):
    lap = laplacian(2, 60)
    made = []
    for name in ("merge", "dots"):
        original = getattr(chebyshev, name)
        monkeypatch.setattr(
            chebyshev, name, lambda *a, name=name, f=original: (made.append(name), f(*a))[1]
        )
    x, t = random_signal(lap), number(0.05)
    tb.Heat(t)(lap, x, tb.Chebyshev()).sum().backward()
    assert made == ["dots"]
    made.clear()
    tb.Heat(0.05)(lap, x.requires_grad_(), tb.Chebyshev()).sum().backward()
    assert made == ["merge"]
    y = tb.Heat(0.05)(lap, x.detach(), tb.Chebyshev())
    assert not y.requires_grad


# Memory.


def saved_bytes(lap, order, learn):
    """Bytes kept for the backward pass, each storage counted once."""
    seen = {}

    def pack(tensor):
        seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    x = random_signal(lap, channels=8).requires_grad_()
    t = number(0.05) if learn else 0.05
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = tb.Heat(t)(lap, x, tb.Chebyshev(degree=order))
    y.sum().backward()
    return sum(seen.values())


def test_memory_of_the_backward_pass_does_not_grow_with_the_order():
    lap = laplacian(2, 400)
    signal = 400 * 2 * 8 * 8
    few, many = saved_bytes(lap, 10, False), saved_bytes(lap, 200, False)
    assert many - few == 190 * 8  # the coefficients, in float64
    matrix = sum(t.nbytes for t in in_user_order(lap))
    assert few <= matrix + 2 * signal
    few, many = saved_bytes(lap, 10, True), saved_bytes(lap, 200, True)
    assert (
        many - few <= 64 * 200 * 8
    )  # samples of the response, and their transform: some numbers a term
    assert many - few < signal


def test_peak_memory_of_both_passes_does_not_grow_with_the_order():
    """Counted where the memory is taken, inside the operations too."""
    from torch.profiler import ProfilerActivity, profile

    lap = laplacian(2, 400)
    x = random_signal(lap, channels=16).requires_grad_()
    peaks = []
    for order in (10, 200):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the profiler
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
                tb.Heat(0.05)(lap, x, tb.Chebyshev(degree=order)).sum().backward()
            taken = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
        level = np.cumsum([e.nbytes() for e in sorted(taken, key=lambda e: e.start_ns())])
        peaks.append(int(level.max()))
    signal = x.nbytes
    assert peaks[0] > 2 * signal  # something was seen
    assert peaks[1] - peaks[0] < signal // 4, (peaks, signal)


# Learning.


@pytest.mark.parametrize("method", [tb.Exact(), tb.Chebyshev(1e-9)], ids=str)
def test_a_time_is_found_by_gradients(method):
    lap = laplacian(2, 60)
    x = random_signal(lap)
    goal = tb.Heat(0.37)(lap, x, tb.Exact())
    log_t = number(np.log(0.1))  # times are positive
    optimizer = torch.optim.LBFGS(
        [log_t], max_iter=40, line_search_fn="strong_wolfe", tolerance_change=1e-14
    )

    def misfit():
        optimizer.zero_grad()
        loss = (tb.Heat(log_t.exp())(lap, x, method) - goal).square().sum()
        loss.backward()
        return loss

    optimizer.step(misfit)
    assert float(log_t.detach().exp()) == pytest.approx(0.37, rel=1e-4)


def test_taps_are_found_by_gradients():
    lap = laplacian(2, 60)
    x = random_signal(lap, channels=4)
    goal = tb.FIR([0.0, 0.6, 0.4], 0.1)(lap, x)
    h = number([0.1, 0.1, 0.1])
    optimizer = torch.optim.LBFGS(
        [h], max_iter=60, line_search_fn="strong_wolfe", tolerance_change=1e-16
    )

    def misfit():
        optimizer.zero_grad()
        loss = (tb.FIR(h, 0.1)(lap, x, tb.Chebyshev(1e-9)) - goal).square().sum()
        loss.backward()
        return loss

    optimizer.step(misfit)
    np.testing.assert_allclose(h.detach(), [0.0, 0.6, 0.4], atol=1e-4)


# torch.compile.


@pytest.mark.filterwarnings("ignore")  # torch's compiler looks at .grad of tensors that have none
def test_compiled_functions():
    lap = laplacian(2, 60)
    fixed = tb.FIR([0.5, 0.5], 0.1)

    def layer(x, t, w):
        return (
            torch.tanh(lap @ x)
            + tb.Heat(t)(lap, x, tb.Exact())
            + (w * fixed)(lap, x, tb.Chebyshev(1e-8))
        )

    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager")
    for seed in (1, 2):  # the second call finds everything compiled
        x, t, w = random_signal(lap, seed=seed).requires_grad_(), number(0.1), number(2.0)
        expected, got = layer(x, t, w), compiled(x, t, w)
        assert torch.allclose(got, expected, rtol=1e-12, atol=1e-12)
        gradients = [torch.autograd.grad(y.square().sum(), (x, t, w)) for y in (expected, got)]
        for a, b in zip(*gradients, strict=True):
            assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)
    torch._dynamo.reset()
