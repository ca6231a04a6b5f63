"""Weights belong to no cloud: they move to other samples, files, precisions, copies and
compilers."""

import copy
import io
from functools import cache

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.manifolds import Sphere, Torus
from tangentbundle.testing import random_signal, relative_error

SPHERE = Sphere(2)


@cache
def cloud():
    return SPHERE.sample(8_000, seed=0)


def field(points):
    return SPHERE.gradient_field(points, 2) + 0.5 * SPHERE.gradient_field(points, 3)


@cache
def network():
    net = nn.TNN([1, 4, 3, 1], taps=3, step=0.1).double()
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(2.0)
    return net


@cache
def output(n):
    """The network's ambient output on the first n points of one cloud; frames and scale are
    estimated anew."""
    points = torch.from_numpy(cloud()[:n])
    bundle = tb.TangentBundle.from_points(points, dim=2)
    with torch.no_grad():
        y = network()(
            bundle.to_coordinates(torch.from_numpy(field(cloud()[:n]))), bundle.laplacian()
        )
    return bundle.to_ambient(y)


def test_a_network_transfers_between_samples_of_one_surface():
    """At points that all samples share, the outputs approach those of a dense sample."""
    reference = output(8_000)[:200]
    coarse, fine = (relative_error(output(n)[:200], reference) for n in (400, 3_000))
    assert fine < 0.5 * coarse


def test_a_layer_converges_to_the_continuous_one():
    """Theorem 1 with a truth: on an eigenfield the filters are known numbers, and the nonlinearity
    is pointwise."""
    net = nn.TNN([1, 3], taps=3, step=0.1, output=nn.NormTanh()).double()
    weight = net.layers[0].conv.weight.detach()
    response = torch.exp(
        -0.1 * SPHERE.gradient_eigenvalue(2) * torch.arange(3.0, dtype=torch.float64)
    )
    gains = torch.einsum("k,kc->c", response, weight[:, 0])  # one number a channel
    errors = []
    for n in (400, 3_000, 8_000):
        points = cloud()[:n]
        truth = torch.from_numpy(SPHERE.gradient_field(points, 2))[..., None] * gains
        length = truth.norm(dim=1, keepdim=True)
        truth = truth * torch.tanh(length) / length
        bundle = tb.TangentBundle.from_points(torch.from_numpy(points), dim=2)
        x = bundle.to_coordinates(torch.from_numpy(SPHERE.gradient_field(points, 2)))
        errors.append(relative_error(bundle.to_ambient(net(x, bundle.laplacian())), truth))
    assert errors[0] > errors[1] > errors[2] and errors[2] < 0.3 * errors[0]


def test_pooled_readouts_do_not_see_the_sampling_density():
    """Means in the mass: an uneven sample gives the numbers of an even one, where plain means do
    not."""
    net = nn.TNN([1, 3], step=0.1, readout=nn.InvariantReadout(3, 4)).double()
    for layer in (net.readout.first, net.readout.second):
        torch.nn.init.zeros_(layer.bias)  # only what comes from the field
    outputs, plain = [], []
    for points in (cloud()[:4_000], SPHERE.sample_nonuniform(4_000, ratio=6.0, seed=1)):
        bundle = tb.TangentBundle.from_points(torch.from_numpy(points), dim=2)
        lap = bundle.laplacian()
        east = np.cross([0.0, 0.0, 1.0], points)
        x = bundle.to_coordinates(
            torch.from_numpy(east * np.exp(points[:, 2:]))
        )  # longer in the north
        outputs.append(net(x, lap))
        net.readout.pooling = nn.NoPooling()
        plain.append(net(x, lap).mean(0))  # the last layer is affine: the output of plain means
        net.readout.pooling = nn.MeanPooling()
    weighed, unweighed = relative_error(outputs[1], outputs[0]), relative_error(plain[1], plain[0])
    assert weighed < 0.2 * unweighed


# Files, precisions, copies.


@cache
def laplacian(dtype=torch.float64):
    return tb.TangentBundle.from_points(
        torch.from_numpy(Torus().sample(60, seed=0)).to(dtype), dim=2
    ).laplacian()


def kinds():
    s = 3 * laplacian().scale
    return {
        "TNN": lambda seed=0: nn.TNN([1, 3, 3, 1], step=s, activation=nn.NormTanh(), seed=seed),
        "learned": lambda seed=0: nn.TNN(
            [1, 3, 1],
            filters=[tb.Heat(0.0), tb.Heat(torch.nn.Parameter(torch.tensor(s)))],
            seed=seed,
        ),
        "readout": lambda seed=0: nn.TNN(
            [1, 3], step=s, readout=nn.InvariantReadout(3, 2, seed=seed), seed=seed
        ),
        "RecurrentTNN": lambda seed=0: nn.RecurrentTNN([1, 2, 1], step=s, seed=seed),
        "GatedTNN": lambda seed=0: nn.GatedTNN([1, 2, 1], step=s, seed=seed),
    }


def run(net, operator):
    x = random_signal(operator, channels=1)
    if isinstance(net, nn.Recurrent):
        return net(torch.stack([x, -x, 2 * x]), operator)[0]
    return net(x, operator)


@pytest.mark.parametrize("kind", kinds())
def test_state_round_trip(kind):
    make = kinds()[kind]
    net, other = make(0).double(), make(1).double()
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    assert relative_error(run(other, laplacian()), run(net, laplacian())) > 1e-3
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(run(other, laplacian()), run(net, laplacian()))


@pytest.mark.parametrize("kind", kinds())
def test_precisions(kind):
    single = kinds()[kind]()
    double = copy.deepcopy(single).double()
    assert {p.dtype for p in double.parameters()} == {torch.float64}
    assert {p.dtype for p in single.parameters()} == {torch.float32}  # copies share nothing
    expected = run(double, laplacian())
    assert expected.dtype == torch.float64
    x = random_signal(laplacian(), channels=1).float()
    x = torch.stack([x, -x, 2 * x]) if isinstance(single, nn.Recurrent) else x
    got = single(x, laplacian(torch.float32))
    got = got[0] if isinstance(single, nn.Recurrent) else got
    assert got.dtype == torch.float32 and relative_error(got, expected) < 1e-4
    back = double.float()
    assert torch.equal(next(back.parameters()), next(single.parameters()))


@pytest.mark.parametrize("kind", kinds())
def test_copies(kind):
    net = kinds()[kind]().double()
    twin = copy.deepcopy(net)
    assert (
        torch.equal(run(twin, laplacian()), run(net, laplacian()))
        and twin.arguments.keys() == net.arguments.keys()
    )
    with torch.no_grad():
        for p in twin.parameters():
            p.add_(0.5)
    assert relative_error(run(twin, laplacian()), run(net, laplacian())) > 1e-3


def test_parts_remember_their_arguments():
    """Also those whose constructor is inherited: a network could not be saved otherwise."""
    assert nn.Coordinatewise(torch.relu).arguments == {"function": torch.relu}
    assert nn.AmbientThenProject().arguments == {"function": torch.tanh}
    assert nn.NormTanh().arguments == nn.NoActivation().arguments == {}
    net = nn.TNN([1, 2, 1], 3, step=0.5, activation=nn.NormTanh())
    given = net.arguments
    assert (
        given["channels"] == [1, 2, 1]
        and given["taps"] == 3
        and given["step"] == 0.5
        and given["seed"] == 0
    )
    assert isinstance(given["activation"], nn.NormTanh) and given["output"] is None
    again = nn.TNN(**given)
    assert torch.equal(again.layers[0].conv.weight, net.layers[0].conv.weight)

    class Louder(nn.TNN):
        def __init__(self, factor):
            super().__init__([1, 2, 1])
            self.factor = factor

    assert Louder(3.0).arguments == {"factor": 3.0}  # its own, not those of the class it extends


@pytest.mark.filterwarnings("ignore")  # torch's compiler looks at .grad of tensors that have none
@pytest.mark.parametrize("joined, method", [(False, tb.Chebyshev(1e-10)), (True, None)], ids=str)
def test_compiled_networks_give_the_same(joined, method):
    """torch.compile, forward and backward; what is kept on the operator is kept outside its
    graphs."""
    part = laplacian().to(dtype=torch.float64)
    operator = tb.join([part, part]) if joined else part
    torch.compiler.reset()
    net = nn.TNN([1, 3] if method else [1, 3, 1], step=3 * part.scale, method=method).double()
    x = random_signal(operator, channels=1)
    expected = net(x, operator)
    truth = torch.autograd.grad(expected.square().sum(), list(net.parameters()))
    compiled = torch.compile(net, backend="aot_eager")
    for _ in range(2):
        got = compiled(x, operator)
        gradients = torch.autograd.grad(got.square().sum(), list(net.parameters()))
        assert relative_error(got, expected) < 1e-12
        assert all(relative_error(g, t) < 1e-11 for g, t in zip(gradients, truth, strict=True))
    torch.compiler.reset()
