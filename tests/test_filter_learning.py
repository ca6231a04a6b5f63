"""What filters learn: modules in them, parameters on the half line, and methods that are used or
refused."""

import warnings
from functools import cache

import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError
from tangentbundle.manifolds import Sphere
from tangentbundle.testing import random_signal, relative_error

pytestmark = pytest.mark.usefixtures("one_torch_thread")

nn = tb.nn


@cache
def laplacian(dtype=torch.float64, n=60):
    return tb.TangentBundle.from_points(
        torch.from_numpy(Sphere(2).sample(n, seed=0)).to(dtype)
    ).laplacian()


def parameter(value, dtype=torch.float64):
    return torch.nn.Parameter(torch.tensor(value, dtype=dtype))


# Parameters that must not be negative, with any optimiser and steps of any size.

CONSTRAINED = {
    "Heat": (lambda p: tb.Heat(p), lambda h: [h.t]),
    "Tikhonov": (lambda p: tb.Tikhonov(p), lambda h: [h.strength]),
    "FIR": (lambda p: tb.FIR([0.2, 0.3, 0.5], p), lambda h: [h.step]),
    "Sum": (lambda p: tb.Heat(p) + tb.Tikhonov(p), lambda h: [h.first.t, h.second.strength]),
    "Composition": (
        lambda p: tb.Heat(p) @ tb.FIR([0.0, 1.0], p),
        lambda h: [h.first.t, h.second.step],
    ),
}
"""Filters of one parameter, and how the parameters that act are read. None amplifies, whatever the
parameter."""

GAINS = {"Sum": 2.0}

OPTIMISERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=30.0),
    "momentum": lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.95),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.2),
    "small Adam": lambda p: torch.optim.Adam(p, lr=1e-3),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.5),
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=1.0, max_iter=4),
}


def test_every_filter_with_a_constraint_is_tested():
    kinds = [
        k
        for k in vars(tb.filters).values()
        if isinstance(k, type) and issubclass(k, tb.filters.Filter)
    ]
    checked = [
        k.__name__
        for k in kinds
        for c in getattr(k, "checks", ())
        if getattr(c, "keywords", {}).get("bound")
    ]
    assert set(checked) <= set(CONSTRAINED)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("name", CONSTRAINED)
def test_parameters_stay_on_the_half_line(name, optimiser):
    """The best time is zero: every step pulls at the bound, and beyond."""
    make, read = CONSTRAINED[name]
    lap = laplacian()
    x = random_signal(lap, channels=1)
    p = parameter(0.01)
    h = make(p)
    steps = OPTIMISERS[optimiser]([p])
    gain = GAINS.get(name, 1.0)
    frequencies = torch.linspace(0.0, 100.0, 50, dtype=torch.float64)

    def misfit():
        steps.zero_grad()
        loss = (h(lap, x, tb.Exact()) - gain * x).square().mean()
        loss.backward()
        return loss

    for _ in range(30):
        steps.step(misfit)
        for value in read(h):
            assert float(value.detach()) >= 0.0
        response = h.response(frequencies).detach()
        assert bool(torch.isfinite(response).all()) and float(response.abs().max()) <= gain + 1e-12


@pytest.mark.parametrize(
    "method", [tb.Exact(), tb.Dense(), tb.Chebyshev(1e-9), tb.Chebyshev(degree=30)], ids=str
)
@pytest.mark.parametrize("name", CONSTRAINED)
def test_both_signs_are_one_filter_with_opposite_gradients(name, method):
    make, _ = CONSTRAINED[name]
    lap = laplacian()
    x, y = random_signal(lap, seed=1), random_signal(lap, seed=2)
    values, slopes = [], []
    for start in (0.05, -0.05):
        p = parameter(start)
        value = lap.inner(y, make(p)(lap, x, method)).sum()
        values.append(value.detach())
        slopes.append(torch.autograd.grad(value, p)[0])
    assert (
        torch.equal(values[0], values[1])
        and torch.equal(slopes[0], -slopes[1])
        and float(slopes[0]) != 0.0
    )
    zero = parameter(0.0)
    (slope,) = torch.autograd.grad(lap.inner(y, make(zero)(lap, x, tb.Exact())).sum(), zero)
    assert float(slope) != 0.0  # no parameter is stuck at the bound


def test_networks_learn_through_the_bound_and_are_saved(tmp_path):
    lap = laplacian()
    x = random_signal(lap, channels=1)
    net = nn.TNN(
        [1, 2, 1], filters=[tb.Heat(parameter(0.01)), tb.FIR([0.5, 0.5], parameter(0.01))]
    ).double()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.3)
    for _ in range(25):
        optimiser.zero_grad()
        loss = (net(x, lap) - x).square().mean()
        loss.backward()
        optimiser.step()
        assert bool(torch.isfinite(loss))
    for layer in net.layers:
        with torch.no_grad():
            layer.conv.learned[0].copy_(torch.tensor(-0.2))
    tb.save(net, tmp_path / "net")
    assert torch.equal(tb.load(tmp_path / "net")(x, lap), net(x, lap))


# Modules.


class Response(torch.nn.Module):
    """A response from a small perceptron, and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(1.0))
        self.inner = torch.nn.Sequential(
            torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
        )

    def forward(self, lam):
        return self.inner(torch.log1p(self.scale.abs() * lam)[..., None])[..., 0]


class Decay(torch.nn.Module):
    """An impulse response that decays more and more slowly as it learns."""

    def __init__(self, rate=3.0):
        super().__init__()
        self.rate = torch.nn.Parameter(torch.tensor(rate))

    def forward(self, t):
        return torch.exp(-self.rate * t)


MODULES = {
    "Spectral": lambda: tb.Spectral(Response()),
    "ImpulseResponse": lambda: tb.ImpulseResponse(Decay()),
    "ImpulseResponse, horizon": lambda: tb.ImpulseResponse(Decay(), horizon=20.0),
    "scaled": lambda: 0.5 * tb.Spectral(Response()),
    "sum": lambda: tb.Spectral(Response()) + tb.Heat(torch.nn.Parameter(torch.tensor(0.1))),
    "composition": lambda: tb.ImpulseResponse(Decay()) @ tb.Spectral(Response()),
}

NETWORKS = {
    "BundleConv": lambda f: nn.BundleConv(1, 1, filters=[f]),
    "TNN": lambda f: nn.TNN([1, 2, 1], filters=[f, tb.Heat(0.1)]),
    "RecurrentTNN": lambda f: nn.RecurrentTNN([1, 2, 1], filters=[f, tb.Heat(0.1)]),
    "GatedTNN": lambda f: nn.GatedTNN([1, 2, 1], filters=[f, tb.Heat(0.1)]),
}


def run(net, x, lap):
    return net(torch.stack([x, x]), lap)[0] if isinstance(net, nn.Recurrent) else net(x, lap)


CASES = [
    (m, n, (i + j) % 2)
    for i, m in enumerate(MODULES)
    for j, n in enumerate(NETWORKS)
    if (i + j) % 4 < 2
]


@pytest.mark.parametrize("module, network, single", CASES)
def test_modules_in_filters_are_learned_saved_and_loaded(module, network, single, tmp_path):
    dtype = torch.float32 if single else torch.float64
    lap = laplacian(dtype)
    x = random_signal(lap, channels=1)
    net = NETWORKS[network](MODULES[module]()).to(dtype)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    assert sum("function" in name for name in before) > 0
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(4):
        optimiser.zero_grad()
        (run(net, x, lap) - 2.0 * x).square().mean().backward()
        optimiser.step()
    for name, p in net.named_parameters():
        assert not torch.equal(before[name], p.detach()), name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tb.save(net, tmp_path / "net")
    again = tb.load(tmp_path / "net", allow=[Response, Decay])
    assert relative_error(run(again, x, lap), run(net, x, lap)) < 1e-6
    run(again, x, lap).square().sum().backward()
    assert all(p.grad is not None for p in again.parameters())


@pytest.mark.parametrize("method", [None, tb.Exact(), tb.Dense(), tb.Chebyshev(1e-9)], ids=str)
def test_gradients_of_modules_in_layers(method):
    """Those of the module by itself, written out in the eigenfields."""
    lap = laplacian()
    x = random_signal(lap, channels=1)
    conv = nn.BundleConv(1, 1, filters=[tb.Spectral(Response().double())], method=method).double()
    values, fields = lap.eigenbasis
    flat = fields.flatten(0, 1)
    weights = lap.mass.repeat_interleave(2)[:, None]
    response = conv.bank[0].function(values)
    by_hand = (flat @ (response[:, None] * (flat.T @ (weights * x.flatten(0, 1))))).unflatten(
        0, (60, 2)
    ) * conv.weight[0]
    parameters = list(conv.parameters())
    expected = torch.autograd.grad(by_hand.square().sum(), parameters)
    got = torch.autograd.grad(conv(x, lap).square().sum(), parameters)
    for mine, theirs in zip(got, expected, strict=True):
        assert relative_error(mine, theirs) < 1e-6


def test_quadrature_follows_a_function_that_learns():
    decay = Decay(30.0).double()
    h = tb.ImpulseResponse(decay)
    lam = torch.linspace(0.0, 50.0, 20, dtype=torch.float64)
    for rate in (30.0, 1.0, 0.01, 200.0):
        with torch.no_grad():
            decay.rate.fill_(rate)
        assert relative_error(h.response(lam).detach(), 1 / (rate + lam)) < 1e-8
    with torch.no_grad():
        decay.rate.fill_(-1.0)
    with pytest.raises(InvalidInputError):
        h.response(lam)


def hidden(module):
    return {
        "closure": tb.Spectral(lambda lam: module(lam)),
        "method": tb.Spectral(module.forward),
        "impulse": tb.ImpulseResponse(lambda t: torch.exp(-module.scale * t)),
        "inside a sum": tb.Heat(0.1) + 2.0 * tb.Spectral(lambda lam: module(lam)),
    }


@pytest.mark.parametrize("name", hidden(Response()))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_parameters_that_a_layer_cannot_see_are_refused(name, dtype):
    """They would never be learned, without a word."""
    module = Response().to(dtype)
    with pytest.raises(InvalidInputError, match=r"Spectral\(module\)"):
        nn.TNN([1, 1], filters=[hidden(module)[name]])
    frozen = module.requires_grad_(False).double()
    nn.TNN([1, 1], filters=[hidden(frozen)[name]])  # nothing to learn


# Methods.


def learned_operators():
    points = torch.from_numpy(Sphere(2).sample(40, seed=0)).requires_grad_()
    moving = tb.TangentBundle.from_points(points, dim=2, neighbors=14)
    maps = torch.randn(
        5,
        2,
        2,
        2,
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
        requires_grad=True,
    )
    sheaf = tb.Sheaf.from_edges(torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]), maps)
    return {
        "moving points": moving.laplacian(),
        "sheaf": sheaf.laplacian(),
        "normalised sheaf": sheaf.laplacian(tb.operators.BlockDegrees(0.1)),
        "joined": tb.join([moving.laplacian(), moving.laplacian(terms=1)]),
        "negated": tb.operators.Negated(sheaf.laplacian()),
        "constant": laplacian(),
    }


@pytest.mark.parametrize(
    "method", [tb.Exact(), tb.Dense(), tb.Chebyshev(1e-11), tb.Chebyshev(degree=50)], ids=str
)
@pytest.mark.parametrize("name", learned_operators())
def test_a_method_is_used_or_refused(name, method, monkeypatch):
    lap = learned_operators()[name]
    x = random_signal(lap)
    used = []
    for kind in (tb.Exact, tb.Dense, tb.Chebyshev):
        for call in ("apply", "merge"):
            original = getattr(kind, call)
            monkeypatch.setattr(
                kind, call, lambda self, *a, f=original: (used.append(self), f(self, *a))[1]
            )
    calls = [
        lambda: tb.Heat(0.1)(lap, x, method),
        lambda: lap.evaluate([tb.Heat(0.1), tb.FIR([0.5, 0.5], parameter(0.1))], x, method),
        lambda: lap.merge([tb.Heat(0.1), tb.Heat(0.2)], [x, x], method),
        lambda: nn.TNN([2, 2], method=method).double()(x, lap),
    ]
    for call in calls:
        used.clear()
        try:
            call()
        except InvalidInputError as error:
            assert str(type(method).__name__) in str(error) and not used
            assert name != "constant"
        else:
            assert used and used[0] == method
    with torch.no_grad():  # where no gradients are wanted every method serves
        assert relative_error(tb.Heat(0.1)(lap, x, method), tb.Heat(0.1)(lap, x, tb.Exact())) < 1e-6


def test_eigenfields_of_operators_that_learn_are_refused_not_constant():
    for name in ("moving points", "sheaf"):
        lap = learned_operators()[name]
        x = random_signal(lap)
        with pytest.raises(InvalidInputError, match="no gradients in the operator"):
            lap.to_frequency(x, 4)
        for k in (2, 12, lap.shape[0]):
            with pytest.raises(InvalidInputError, match="no gradients in the operator"):
                lap.spectrum(k)
        with pytest.raises(InvalidInputError, match="no gradients in the operator"):
            lap.decompose()
        with torch.no_grad():
            assert torch.equal(lap.spectrum(4)[0], lap.decompose()[0][:4])
            assert lap.from_frequency(lap.to_frequency(x)).shape == x.shape


def test_the_default_method_of_operators_that_learn_has_their_gradients():
    assert learned_operators()["sheaf"].default_method().has_operator_gradients
