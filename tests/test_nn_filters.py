"""Layers with banks of filters."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError
from tangentbundle.manifolds import Sphere
from tangentbundle.testing import assert_gauge_equivariant, relative_error

nn = tb.nn

BANK = [
    tb.Heat(0.0),
    tb.Heat(0.3),
    tb.FIR([0.2, 0.5, -0.1], 0.1),
    tb.Polynomial([1.0, 0.1]),
    tb.Tikhonov(0.4),
]
DESCRIBED = [f for f in BANK if not isinstance(f, tb.Spectral)]


@dataclass(eq=False)
class Rational(tb.filters.Filter):
    """A user's filter with a parameter: 1 / (1 + a^2 lambda)."""

    a: Any

    def evaluate(self, lam):
        return 1 / (1 + self.a**2 * lam)

    def parameters(self):
        return [self.a]


@cache
def laplacian(dtype=torch.float64, n=80):
    return tb.TangentBundle.from_points(
        torch.from_numpy(Sphere(2).sample(n, seed=0)).to(dtype)
    ).laplacian()


def signal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def parameter(value):
    return torch.nn.Parameter(torch.tensor(value, dtype=torch.float64))


def train(net, lap, steps=20, **options):
    """A few steps towards a smoother and larger field, which pulls at every bound."""
    x = signal(lap.num_points, 2, 1, dtype=lap.dtype)
    goal = 5.0 * tb.Heat(0.1)(lap, x)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        y = net(x[None], lap)[0][0] if isinstance(net, nn.Recurrent) else net(x, lap)
        loss = (y - goal).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def layers(net):
    return [module for module in net.modules() if isinstance(module, nn.BundleConv)]


# Banks of filters.


@pytest.mark.parametrize("channels", [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("method", [None, tb.Exact(), tb.Dense(), tb.Chebyshev(1e-12)], ids=repr)
def test_a_bank_is_the_sum_of_its_filters(channels, method):
    conv, lap = nn.BundleConv(*channels, filters=BANK, method=method).double(), laplacian()
    x = signal(4, 80, 2, channels[0])
    expected = sum(f(lap, x, tb.Exact()) @ conv.weight[k] for k, f in enumerate(BANK))
    assert relative_error(conv(x, lap), expected) < 1e-9
    assert conv.taps == len(BANK) and conv.num_parameters == len(BANK) * channels[0] * channels[1]


def test_heat_taps_are_a_bank_with_the_identity():
    plain, lap = nn.BundleConv(2, 3, taps=3, step=0.2).double(), laplacian()
    bank = nn.BundleConv(2, 3, filters=[tb.Heat(0.0), tb.Heat(0.2), tb.Heat(0.4)]).double()
    assert torch.equal(plain.weight, bank.weight)
    assert relative_error(bank(signal(80, 2, 2), lap), plain(signal(80, 2, 2), lap)) < 1e-12
    single = nn.BundleConv(1, 1, filters=[tb.Heat(0.2)]).double()  # no identity unless listed
    x = signal(80, 2, 1)
    assert relative_error(single(x, lap), tb.Heat(0.2)(lap, x) * single.weight[0]) < 1e-12


def test_networks_of_filters_in_continuous_time():
    """A D-TNN: layers with impulse responses, by hand."""
    lap, x = laplacian(), signal(80, 2, 1)
    bank = [
        tb.ImpulseResponse(lambda t: torch.exp(-t)),
        tb.ImpulseResponse(lambda t: t * torch.exp(-3 * t)),
    ]
    net = nn.TNN([1, 3, 1], filters=bank, activation=nn.Coordinatewise(torch.tanh)).double()
    h = x
    for layer, act in zip(net.layers, (torch.tanh, lambda y: y), strict=True):
        h = act(sum(f(lap, h) @ layer.conv.weight[k] for k, f in enumerate(bank)))
    assert relative_error(net(x, lap), h) < 1e-10
    bundle = tb.TangentBundle.from_points(Sphere(2).sample(80, seed=0))
    assert_gauge_equivariant(
        lambda lap, x: nn.TNN([2, 3, 2], filters=bank).double()(x, lap), bundle
    )
    recurrent = nn.RecurrentTNN([1, 2, 1], filters=bank).double()
    assert recurrent(signal(5, 80, 2, 1), lap)[0].shape == (5, 80, 2, 1)


def test_parameters_of_filters_are_learned():
    lap, t = laplacian(), parameter(0.5)
    conv = nn.BundleConv(1, 1, filters=[tb.Heat(t), Rational(parameter(0.7)), 2.0 * tb.Heat(0.1)])
    assert [p is t for p in conv.parameters()] == [False, True, False] and conv.num_parameters == 5
    conv.double()
    losses = train(conv, lap)
    assert losses[-1] < losses[0] and abs(float(t.detach()) - 0.5) > 1e-3
    x = signal(80, 2, 1)
    values = [p.detach().clone() for p in conv.learned]
    by_hand = [tb.Heat(values[0].abs()), Rational(values[1]), 2.0 * tb.Heat(0.1)]
    assert (
        relative_error(conv(x, lap), sum(f(lap, x) @ conv.weight[k] for k, f in enumerate(by_hand)))
        < 1e-12
    )
    net = nn.TNN([1, 2, 1], filters=[tb.Heat(t), tb.Heat(parameter(0.2))])
    assert len({id(p) for p in net.parameters()}) == 2 + 4  # each layer has its own
    net.double()(x, lap).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in net.parameters())


def test_replicas_learn_filters_as_if_alone():
    lap, x = laplacian(), signal(3, 80, 2, 1)

    def make(seed):
        return nn.TNN(
            [1, 2, 1], filters=[tb.Heat(parameter(0.1 + 0.1 * seed)), tb.Heat(0.3)], seed=seed
        ).double()

    nets = tb.training.Replicas(make, 3)
    alone = torch.stack([nets[r](x[r], lap) for r in range(3)])
    assert relative_error(nets(x, lap), alone) < 1e-12
    nets(x, lap).sum().backward()
    assert all(p.grad.abs().max() > 0 for p in nets.parameters())


@pytest.mark.parametrize("kind", [nn.TNN, nn.RecurrentTNN, nn.GatedTNN])
def test_banks_are_saved_and_loaded(kind, tmp_path):
    learned = [tb.Heat(parameter(0.5)), tb.FIR(parameter([0.1, 0.2]), 0.3)]
    net, lap = kind([1, 2, 1], filters=[*DESCRIBED, *learned]).double(), laplacian()
    train(net, lap, steps=3)
    tb.save(net, tmp_path / "net")
    again = tb.load(tmp_path / "net")
    assert repr(again) == repr(net) and again.num_parameters == net.num_parameters
    x = signal(4, 80, 2, 1)
    before, after = (
        n(x, lap)[0] if isinstance(n, nn.Recurrent) else n(x, lap) for n in (net, again)
    )
    assert torch.equal(before, after)
    train(again, lap, steps=1)
    trained = zip(layers(net), layers(again), strict=True)
    assert any(not torch.equal(a.learned[0], b.learned[0]) for a, b in trained)  # learning goes on


def test_what_cannot_be_described_is_not_saved(tmp_path):
    for filter in (
        tb.Spectral(lambda lam: 1 / (1 + lam)),
        tb.ImpulseResponse(lambda t: torch.exp(-t)),
    ):
        with pytest.raises(InvalidInputError, match="cannot be saved"):
            tb.save(nn.TNN([1, 1], filters=[filter]), tmp_path / "net")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options, match",
    [
        ({"filters": []}, "filters must be a list"),
        ({"filters": [tb.Heat]}, "filters must be a list"),
        ({"filters": [None]}, "filters must be a list"),
        (
            {"filters": [tb.Spectral(torch.exp, "mine", (parameter(1.0),))]},
            "cannot learn the tensors of mine",
        ),
        ({"filters": [tb.Heat(0.1)] * 1001}, "at most 1000 taps"),
    ],
)
def test_what_is_refused(options, match):
    with pytest.raises(InvalidInputError, match=match):
        nn.TNN([1, 1], **options)
