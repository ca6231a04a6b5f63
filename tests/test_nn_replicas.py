"""Many networks as one module: each of them is what it would be alone, forward and backward."""

import copy
from functools import cache

import pytest
import torch

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.errors import InvalidInputError
from tangentbundle.manifolds import Sphere, Torus
from tangentbundle.operators import Identity
from tangentbundle.testing import random_signal, relative_error

COUNT = 3


@cache
def laplacian(n=50, seed=0):
    return tb.TangentBundle.from_points(
        torch.from_numpy(Torus().sample(n, seed=seed)), dim=2
    ).laplacian()


@cache
def joined():
    sphere = tb.TangentBundle.from_points(torch.from_numpy(Sphere(2).sample(35, seed=1)), dim=2)
    return tb.join([laplacian(), sphere.laplacian()])


def step():
    return 3 * laplacian().scale


def networks():
    sparse, s, learned = (
        tb.Chebyshev(1e-12),
        step(),
        [tb.Heat(0.0), tb.Heat(torch.nn.Parameter(torch.tensor(step())))],
    )
    return {
        "TNN": lambda seed: nn.TNN([1, 4, 3, 1], taps=3, step=s, seed=seed),
        "TNN, sparse": lambda seed: nn.TNN([1, 4, 3, 1], taps=3, step=s, method=sparse, seed=seed),
        "TNN, exact": lambda seed: nn.TNN([1, 4, 1], step=s, method=tb.Exact(), seed=seed),
        "coordinates": lambda seed: nn.TNN(
            [1, 4, 1], step=s, activation=nn.Coordinatewise(), seed=seed
        ),
        "ambient": lambda seed: nn.TNN(
            [1, 4, 1], step=s, activation=nn.AmbientThenProject(), seed=seed
        ),
        "learned times": lambda seed: nn.TNN([1, 3, 1], filters=learned, seed=seed),
        "learned times, exact": lambda seed: nn.TNN(
            [1, 3, 1], filters=learned, method=tb.Exact(), seed=seed
        ),
        "readout": lambda seed: nn.TNN(
            [1, 3], step=s, readout=nn.InvariantReadout(3, 2, seed=seed), seed=seed
        ),
        "sums": lambda seed: nn.TNN(
            [1, 3], step=s, readout=nn.SumReadout(3, 2, seed=seed), seed=seed
        ),
        "RecurrentTNN": lambda seed: nn.RecurrentTNN([1, 2, 1], step=s, seed=seed),
        "GatedTNN": lambda seed: nn.GatedTNN([1, 2, 1], step=s, seed=seed),
        "GatedTNN, sparse": lambda seed: nn.GatedTNN([1, 2, 1], step=s, method=sparse, seed=seed),
    }


def inputs(name, operator):
    shape = (COUNT, 2, 3) if "NN" in name and not name.startswith("TNN") else (COUNT, 2)
    noise = torch.Generator().manual_seed(0)
    return torch.randn(
        *shape, operator.num_points, operator.rank, 1, generator=noise, dtype=operator.dtype
    )


def scatter(nets):
    """Make the replicas differ in every parameter, those too that all start alike."""
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in nets.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=noise, dtype=p.dtype))
    return nets


def flat(result):
    """A tuple of outputs and states as one list of tensors."""
    return [result] if isinstance(result, torch.Tensor) else [result[0], *result[1]]


@pytest.mark.parametrize("kind", ["one bundle", "joined"])
@pytest.mark.parametrize("name", networks())
def test_each_is_what_it_would_be_alone(name, kind):
    operator = laplacian() if kind == "one bundle" else joined()
    nets = scatter(tb.training.Replicas(networks()[name], COUNT, seed=5).double())
    x = inputs(name, operator).requires_grad_()
    together = flat(nets(x, operator))
    loss = sum((r + 1) * part[r].square().sum() for part in together for r in range(COUNT))
    grad_x, *gradients = torch.autograd.grad(loss, [x, *nets.stacked])
    for r in range(COUNT):
        net, own = nets[r], x[r].detach().clone().requires_grad_()
        alone = flat(net(own, operator))
        assert len(alone) == len(together)
        for a, b in zip(alone, together, strict=True):
            assert relative_error(b[r], a) < 1e-11
        loss = sum((r + 1) * part.square().sum() for part in alone)
        expected_x, *expected = torch.autograd.grad(loss, [own, *net.parameters()])
        assert relative_error(grad_x[r], expected_x) < 1e-10
        assert [n for n, _ in net.named_parameters()] == nets.names
        for got, truth in zip(gradients, expected, strict=True):
            assert relative_error(got[r], truth) < 1e-9
    assert relative_error(together[0][0], together[0][1]) > 1e-3  # they do differ


@pytest.mark.parametrize("name", networks())
def test_without_gradients_too(name):
    nets = scatter(tb.training.Replicas(networks()[name], COUNT).double())
    x = inputs(name, laplacian())
    expected = flat(nets(x, laplacian()))
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            for got, truth in zip(flat(nets(x, laplacian())), expected, strict=True):
                assert relative_error(got, truth) < 1e-12


def test_replicas_are_the_networks_that_were_made():
    make = networks()["readout"]
    nets = tb.training.Replicas(make, COUNT, seed=7)
    for r in range(COUNT):
        for (name, got), (_, expected) in zip(
            nets[r].state_dict().items(), make(7 + r).state_dict().items(), strict=True
        ):
            assert torch.equal(got, expected), name
    assert len(nets) == COUNT and torch.equal(
        nets[-1].layers[0].conv.weight, nets[2].layers[0].conv.weight
    )
    assert f"{COUNT} of TNN" in repr(nets) and f"{nets[0].num_parameters} parameters each" in repr(
        nets
    )
    assert sum(p.numel() for p in nets.parameters()) == COUNT * nets[0].num_parameters


def test_an_extracted_network_is_its_own():
    nets = tb.training.Replicas(networks()["TNN"], COUNT).double()
    net, before = nets[1], nets[1]
    assert isinstance(net, nn.TNN) and net.arguments["channels"] == [1, 4, 3, 1]
    with torch.no_grad():
        for p in net.parameters():
            assert (
                p.requires_grad
                and p.is_leaf
                and p.device.type == "cpu"
                and p.dtype == torch.float64
            )
            p.add_(1.0)
    for p, q in zip(nets[1].parameters(), before.parameters(), strict=True):
        assert torch.equal(p, q)
    x = random_signal(laplacian(), 1)
    assert torch.equal(copy.deepcopy(net)(x, laplacian()), net(x, laplacian()))


def test_training_together_is_training_alone():
    """Adam on the sum of losses, five steps, with inputs and targets of each replica's own."""
    make, lap = networks()["TNN"], laplacian()
    nets = tb.training.Replicas(make, COUNT).double()
    x, target = inputs("TNN", lap), inputs("TNN", lap).flip(0, 1)
    alone = [make(r).double() for r in range(COUNT)]
    optimizer = torch.optim.Adam(nets.parameters(), 0.01)
    singles = [torch.optim.Adam(net.parameters(), 0.01) for net in alone]
    for _ in range(5):
        optimizer.zero_grad()
        (nets(x, lap) - target).square().flatten(1).mean(1).sum().backward()
        optimizer.step()
        for r, (net, single) in enumerate(zip(alone, singles, strict=True)):
            single.zero_grad()
            (net(x[r], lap) - target[r]).square().mean().backward()
            single.step()
    for r, net in enumerate(alone):
        for p, q in zip(nets[r].parameters(), net.parameters(), strict=True):
            assert relative_error(p, q) < 1e-9


def test_other_operators_and_precision():
    identity = Identity.of(20, 2, torch.float32)
    nets = tb.training.Replicas(lambda seed: nn.TNN([1, 4, 1], seed=seed), COUNT)
    x = torch.randn(COUNT, 20, 2, 1, generator=torch.Generator().manual_seed(0))
    assert nets(x, identity).dtype == torch.float32
    for r in range(COUNT):
        assert relative_error(nets[r](x[r], identity), nets(x, identity)[r]) < 1e-6
    other = copy.deepcopy(nets)
    state = scatter(nets).state_dict()
    assert not torch.equal(other(x, identity), nets(x, identity))
    other.load_state_dict(state)
    assert torch.equal(other(x, identity), nets(x, identity))


def test_frozen_weights_stay_frozen():
    def make(seed):
        net = nn.TNN([1, 2, 1], seed=seed)
        net.layers[0].requires_grad_(False)
        return net

    nets = tb.training.Replicas(make, COUNT)
    assert [p.requires_grad for p in nets.parameters()] == [False, True]
    assert [p.requires_grad for p in nets[0].parameters()] == [False, True]


def test_what_replicas_refuse():
    nets = tb.training.Replicas(networks()["TNN"], COUNT).double()
    lap = laplacian()
    with pytest.raises(InvalidInputError, match=r"3 replicas need inputs \(3, \.\.\.\), got \(2, "):
        nets(inputs("TNN", lap)[:2], lap)
    for count in (0, -1, 2.0, "3"):
        with pytest.raises(InvalidInputError, match="count"):
            tb.training.Replicas(networks()["TNN"], count)
    for index in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError, match=f"replica {index} of 3"):
            nets[index]
    learned = tb.training.Replicas(
        lambda seed: nn.TNN(
            [1, 1],
            filters=[tb.Heat(torch.nn.Parameter(torch.tensor(step())))],
            method=tb.Chebyshev(),
            seed=seed,
        ),
        COUNT,
    ).double()
    with pytest.raises(InvalidInputError, match=r"no common expansion: use method=Exact\(\)"):
        learned(inputs("TNN", lap), lap)
    with pytest.raises(InvalidInputError, match="float32"):
        tb.training.Replicas(networks()["TNN"], COUNT)(inputs("TNN", lap), lap)
