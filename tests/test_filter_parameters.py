"""Parameters of filters and layers: learned by reference, seen when changed, never answered from a
stale cache."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from filter_spaces import errors, laplacian
from pairwise import all_pairs

import tangentbundle as tb

DTYPES = [torch.float32, torch.float64]
METHODS = [tb.Exact(), tb.Dense(), tb.Chebyshev(1e-6)]

LEARNABLE = {
    "Heat": (tb.Heat, [0.3]),
    "Tikhonov": (tb.Tikhonov, [0.3]),
    "FIR": (tb.FIR, [[0.5, 0.3, 0.2], 0.2]),
    "Polynomial": (tb.Polynomial, [[1.0, 0.5]]),
    "Scaled": (lambda w: w * tb.Heat(0.1), [2.0]),
    "Sum": (lambda a, b: a * tb.Heat(b) + tb.Tikhonov(b), [0.7, 0.2]),
    "Composition": (lambda a, b: tb.Heat(a) @ tb.Tikhonov(b), [0.1, 0.2]),
    "Spectral": (lambda a: tb.Spectral(lambda lam: 1 / (1 + a * lam), tensors=(a,)), [0.3]),
}
"""Constructors, and values of their parameters."""

LAYERS = {
    "BundleConv": lambda: tb.nn.BundleConv(
        1, 1, filters=[tb.Heat(torch.nn.Parameter(torch.tensor(0.1)))]
    ),
    "TNN": lambda: tb.nn.TNN([1, 4, 1], filters=[tb.Heat(torch.nn.Parameter(torch.tensor(0.1)))]),
}


def signal(lap, seed=0):
    return torch.randn(
        lap.num_points, lap.rank, 2, generator=torch.Generator().manual_seed(seed)
    ).to(lap.dtype)


def parameters(values, dtype):
    return [torch.nn.Parameter(torch.tensor(v, dtype=dtype)) for v in values]


def losses(parameters, misfit, steps=12, lr=0.005):
    optimizer, out = torch.optim.Adam(parameters, lr=lr), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = misfit()
        loss.backward()
        optimizer.step()
        out.append(float(loss.detach()))
    return out


@pytest.mark.parametrize("name, method, dtype", all_pairs(LEARNABLE, METHODS, DTYPES), ids=str)
def test_a_filter_made_once_learns(name, method, dtype):
    """Its loss falls step by step, and the filter holds the parameters themselves."""
    lap, (make, values) = laplacian(dtype=dtype), LEARNABLE[name]
    x = signal(lap)
    target = make(
        *[np.multiply(v, 0.6).tolist() for v in values]
        if name != "Spectral"
        else parameters([0.1], dtype)
    )(lap, x, method).detach()
    learned = parameters(values, dtype)
    h = make(*learned)
    assert {id(p) for p in learned} <= {id(p) for p in h.parameters()}
    found = losses(learned, lambda: (h(lap, x, method) - target).square().mean())
    assert found[-1] < 0.9 * found[0]


@pytest.mark.parametrize(
    "name, learns, method, dtype", all_pairs(LEARNABLE, [False, True], METHODS, DTYPES), ids=str
)
def test_parameters_changed_in_place_are_seen(name, learns, method, dtype):
    lap, (make, values) = laplacian(dtype=dtype), LEARNABLE[name]
    x, changed = signal(lap), [np.multiply(v, 0.5).tolist() for v in values]
    held = [p.requires_grad_(learns) for p in parameters(values, dtype)]
    h = make(*held)
    h(lap, x, method)
    for p, value in zip(held, changed, strict=True):
        p.data.copy_(torch.tensor(value, dtype=dtype))
    fresh = make(*[p.requires_grad_(learns) for p in parameters(changed, dtype)])
    assert torch.equal(h(lap, x, method), fresh(lap, x, method))


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_no_cache_is_stale(method):
    """Python functions and memory shared with NumPy can change unnoticed."""
    lap, state = laplacian(), {"a": 1.0}
    x, memory = signal(lap), np.array([0.5, 0.5])
    shared = torch.from_numpy(memory)
    cases = {
        "closure": tb.Spectral(lambda lam: torch.exp(-state["a"] * lam)),
        "impulse": tb.ImpulseResponse(lambda t: torch.exp(-t * state["a"])),
        "NumPy": tb.FIR(shared, 0.1),
        "composed": 2.0 * tb.FIR(shared, 0.1) + tb.Heat(0.1),
        "declared": tb.Spectral(lambda lam: state["a"] + shared[0] * lam, tensors=(shared,)),
    }
    before = {name: h(lap, x, method) for name, h in cases.items()}
    frequencies = torch.linspace(*lap.spectral_interval, 100, dtype=torch.float64)
    state["a"], memory[1] = 2.0, -0.5
    for name, h in cases.items():
        after = h(lap, x, method)
        assert not torch.allclose(after, before[name], rtol=1e-3), name
        assert (
            errors(lap, after, h(lap, x, tb.Exact()), x)
            < 2e-6 * h.response(frequencies).abs().max()
        ), name


BOUNDED = {
    "time": (lambda: tb.Heat(0.3), "t", [-1.0, np.nan, [0.1, 0.2]], 0.7),
    "strength": (lambda: tb.Tikhonov(0.3), "strength", [-1e-9, np.inf, "0.1"], 0.0),
    "step": (lambda: tb.FIR([0.5, 0.5], 0.1), "step", [0.0, -2.0, np.nan], 0.4),
    "taps": (lambda: tb.FIR([0.5, 0.5], 0.1), "coefficients", [[], 1.0, [np.nan]], (1.0, 2.0)),
    "powers": (lambda: tb.Polynomial([1.0]), "coefficients", [[], 2.0, [np.inf]], (0.5, 0.25)),
    "factor": (lambda: (2.0 * tb.Heat(0.1)).first, "factor", [np.nan, [1.0]], -3.0),
    "part": (lambda: tb.Heat(0.1) + tb.Heat(0.2), "first", [0.1, None], tb.Tikhonov(2.0)),
    "response": (lambda: tb.Spectral(torch.exp), "function", [None, 2.0], torch.sin),
    "impulse": (lambda: tb.ImpulseResponse(decaying, 9.0), "function", [None, 2.0], torch.exp),
    "horizon": (lambda: tb.ImpulseResponse(decaying, 9.0), "horizon", [-1.0, 0.0, np.nan], 0.5),
}
"""Filters, an attribute, values that are refused, and one that is not."""


def decaying(t):
    return torch.exp(-t)


@pytest.mark.parametrize("name", BOUNDED)
def test_parameters_are_checked_whenever_they_are_set(name):
    """As by the constructor; what was there before stays, and what is set acts."""
    make, attribute, refused, allowed = BOUNDED[name]
    frequencies = torch.linspace(0.0, 3.0, 7, dtype=torch.float64)
    h = make()
    before = h.response(frequencies)
    for value in refused:
        with pytest.raises(tb.errors.InvalidInputError):
            setattr(h, attribute, value)
        assert torch.equal(h.response(frequencies), before)
    setattr(h, attribute, allowed)
    arguments = {field.name: getattr(h, field.name) for field in fields(h) if field.init}
    assert arguments[attribute] == allowed
    assert torch.equal(h.response(frequencies), type(h)(**arguments).response(frequencies))


def test_numbers_are_copied():
    numbers = np.array([0.5, 0.5])
    h = tb.FIR(numbers, 0.1)
    numbers[0] = 7.0
    assert h.coefficients == (0.5, 0.5) and tb.Heat(np.float32(0.5)).t == 0.5


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_learn_all_their_parameters(name, dtype):
    lap, net = laplacian(dtype=dtype), LAYERS[name]().to(dtype)
    x = signal(lap)[..., :1]
    target = 2.0 * tb.Heat(0.3)(lap, x)
    before = [p.detach().clone() for p in net.parameters()]
    found = losses(list(net.parameters()), lambda: (net(x, lap) - target).square().mean())
    assert found[-1] < 0.95 * found[0]
    assert all(not torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("computed", [False, True], ids=["leaf", "computed"])
@pytest.mark.parametrize("name", LEARNABLE)
def test_layers_refuse_tensors_that_would_not_learn(name, computed, requires_grad):
    """Tensors that want gradients and are no parameters: alone, in sums and in compositions.
    Constant tensors are taken."""
    make, values = LEARNABLE[name]
    tensors = [torch.tensor(v, dtype=torch.float64, requires_grad=requires_grad) for v in values]
    if computed:
        tensors = [2.0 * tensor for tensor in tensors]
    h = make(*tensors)
    if name == "Spectral":
        h.tensors = ()
    for network in (
        lambda h: tb.nn.BundleConv(1, 1, filters=[h]),
        lambda h: tb.nn.TNN([1, 2, 1], filters=[tb.Heat(0.1), 0.5 * h + tb.Heat(0.2)]),
    ):
        if requires_grad:
            with pytest.raises(tb.errors.InvalidInputError, match="Parameter"):
                network(h)
        else:
            network(h)
