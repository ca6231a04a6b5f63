"""One class, several systems: graph networks, perceptrons, convolutions in time, recurrences,
written by hand."""

from functools import cache

import numpy as np
import pytest
import torch
from torch.nn.functional import conv1d

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.manifolds import Torus
from tangentbundle.operators import DirectedPath, Identity
from tangentbundle.testing import random_signal, relative_error

TANH = nn.Coordinatewise(torch.tanh)


@cache
def bundle(n=90, seed=0):
    return tb.TangentBundle.from_points(torch.from_numpy(Torus().sample(n, seed=seed)), dim=2)


def signals(operator, *shape, channels=1, seed=0):
    noise = torch.Generator().manual_seed(seed)
    size = (*shape, operator.num_points, operator.rank, channels)
    return torch.randn(size, generator=noise, dtype=operator.dtype)


# Feed-forward.


@pytest.mark.parametrize("method", [None, tb.Chebyshev(1e-13)], ids=str)
def test_on_functions_it_is_a_graph_network(method):
    """Dense weights of the graph, their exponential, and matrices of channels."""
    scalar = bundle().scalar()
    lap = scalar.laplacian(terms=1)
    points = torch.as_tensor(scalar.points)
    distances = torch.cdist(points, points)
    inside = (distances**2 <= scalar.eps) & ~torch.eye(len(points), dtype=torch.bool)
    kernel = scalar.weights.kernel
    weights = torch.where(inside, kernel(distances / scalar.eps**0.5), 0.0)
    degree = weights.sum(1)
    weights = weights / (degree[:, None] * degree)
    average = weights / weights.sum(1, keepdim=True)
    step = 4 * lap.scale
    shift = torch.linalg.matrix_exp((average - torch.eye(len(points))) * (step / lap.scale))
    net = nn.TNN([3, 8, 4, 3], taps=3, step=step, activation=TANH, method=method).double()
    x = random_signal(lap, channels=3)
    h = x[:, 0]
    for level, layer in enumerate(net.layers):
        h = sum(torch.linalg.matrix_power(shift, k) @ h @ layer.conv.weight[k] for k in range(3))
        h = torch.tanh(h) if level < 2 else h
    assert relative_error(net(x, lap)[:, 0], h) < 1e-10


def test_on_the_identity_it_is_a_perceptron():
    """All taps are the identity: their weights add up, and points do not see each other."""
    identity = Identity.of(20, 1)
    net = nn.TNN([3, 8, 2], taps=3, activation=TANH).double()
    first, second = (
        torch.nn.Linear(3, 8, bias=False).double(),
        torch.nn.Linear(8, 2, bias=False).double(),
    )
    with torch.no_grad():
        first.weight.copy_(net.layers[0].conv.weight.sum(0).T)
        second.weight.copy_(net.layers[1].conv.weight.sum(0).T)
    x = signals(identity, 4, channels=3)
    expected = second(torch.tanh(first(x)))
    assert relative_error(net(x, identity), expected) < 1e-13


@pytest.mark.parametrize("channels", [(2, 5), (5, 2)])
def test_on_a_path_it_is_a_causal_convolution(channels):
    """Both sides of the bank, and two layers, against torch's convolution with zeros to the
    left."""
    path = DirectedPath.of(30, spacing=0.5)
    wide, high = channels
    net = nn.TNN([wide, high, 1], taps=4, step=0.5, activation=TANH).double()
    x = signals(path, 3, channels=wide)

    def convolve(
        h, weight
    ):  # (batch, channels, time); torch correlates, so the taps are turned round
        return conv1d(torch.nn.functional.pad(h, (3, 0)), weight.permute(2, 1, 0).flip(-1))

    expected = x[..., 0, :].transpose(1, 2)
    expected = torch.tanh(convolve(expected, net.layers[0].conv.weight))
    expected = convolve(expected, net.layers[1].conv.weight)
    assert relative_error(net(x, path)[..., 0, :].transpose(1, 2), expected) < 1e-13
    later = x.clone()
    later[:, 20:] = 0.0
    assert torch.equal(net(later, path)[:, :20], net(x, path)[:, :20])  # causal


def test_one_tap_mixes_channels_alone():
    lap = bundle().laplacian()
    x = random_signal(lap, channels=3)
    conv = nn.BundleConv(3, 2, taps=1, step=0.1).double()
    assert torch.equal(conv(x, lap), x @ conv.weight[0])


def test_activation_and_output_are_where_they_are_said_to_be():
    lap = bundle().laplacian()
    x = random_signal(lap, channels=2)
    net = nn.TNN([2, 2, 3, 3], step=0.1, activation=TANH, output=nn.NormTanh()).double()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.3)
    a, b, c = (layer.conv for layer in net.layers)
    hidden = torch.tanh(b(torch.tanh(a(x, lap)), lap))
    expected = nn.NormTanh()(c(hidden, lap), lap)
    assert relative_error(net(x, lap), expected) < 1e-14


# Recurrent.


def elman(net, x):
    """Torch-like Elman network without bias: all taps of the identity add up."""
    layers = [(c.drive.weight.sum(0), c.feedback.weight.sum(0)) for c in net.cells]
    states = [torch.zeros(*x.shape[1:-1], w.shape[1], dtype=x.dtype) for w, _ in layers]
    outputs = []
    for now in x:
        for level, (drive, feedback) in enumerate(layers):
            now = states[level] = torch.tanh(now @ drive + states[level] @ feedback)
        outputs.append(now)
    return torch.stack(outputs), states


def test_on_the_identity_it_is_an_elman_network():
    identity = Identity.of(10, 2)
    net = nn.RecurrentTNN([2, 4, 3], taps=2).double()
    x = signals(identity, 7, channels=2)
    outputs, states = net(x, identity)
    expected, ends = elman(net, x)
    assert relative_error(outputs, expected) < 1e-13
    assert all(relative_error(s, e) < 1e-13 for s, e in zip(states, ends, strict=True))
    rnn = torch.nn.RNN(2, 4, bias=False).double()  # and torch's own, one layer
    single = nn.RecurrentTNN([2, 4], taps=3).double()
    with torch.no_grad():
        rnn.weight_ih_l0.copy_(single.cells[0].drive.weight.sum(0).T)
        rnn.weight_hh_l0.copy_(single.cells[0].feedback.weight.sum(0).T)
    assert relative_error(single(x, identity)[0].flatten(1, 2), rnn(x.flatten(1, 2))[0]) < 1e-13


def test_the_recurrence_is_the_paper_formula():
    """``z_{l,t} = tanh(sum_k h_k e^{k Delta} z_{l-1,t} + sum_k w_k e^{k Delta} z_{l,t-1})`` with
    dense exponentials."""
    lap = bundle(60).laplacian()
    step = 3 * lap.scale
    net = nn.RecurrentTNN([1, 1, 1, 1], taps=2, step=step).double()
    shift = torch.linalg.matrix_exp(step * lap.to_dense())
    f = signals(lap, 5)
    z = [torch.zeros(lap.shape[0], dtype=torch.float64) for _ in range(3)]
    expected = []
    for now in f.flatten(1):
        for level, cell in enumerate(net.cells):
            (h0, h1), (w0, w1) = cell.drive.weight.flatten(), cell.feedback.weight.flatten()
            now = z[level] = torch.tanh(
                h0 * now + h1 * shift @ now + w0 * z[level] + w1 * shift @ z[level]
            )
        expected.append(now)
    assert relative_error(net(f, lap)[0].flatten(1), torch.stack(expected)) < 1e-11


def test_the_gated_cell_is_its_formula():
    lap = bundle(60).laplacian()
    net = nn.GatedTNN([2, 3, 2], step=3 * lap.scale).double()
    cell = net.cells[0]
    with torch.no_grad():
        cell.slope.copy_(torch.linspace(-1, 1, 6))
    x, z = random_signal(lap, 2), 0.7 * random_signal(lap, 3, seed=1)
    drive, gates = cell.drive(x, lap), cell.gates(z, lap)
    lengths = (1 + (drive[..., :6] + gates).square().sum(1, keepdim=True)).sqrt()
    gate = 1 / (1 + torch.exp(-(cell.slope * lengths + cell.shift)))
    update, reset = gate[..., :3], gate[..., 3:]
    candidate = nn.NormTanh()(drive[..., 6:] + cell.feedback(reset * z, lap), lap)
    expected = (1 - update) * z + update * candidate
    outputs, (state,) = net(x[None], lap, [z])
    assert relative_error(state, expected) < 1e-13
    assert relative_error(outputs[0], net.head(expected, lap)) < 1e-13


def recurrent():
    return {
        "RecurrentTNN": nn.RecurrentTNN([1, 3, 1], step=0.1).double(),
        "GatedTNN": nn.GatedTNN([1, 3, 2, 1], step=0.1).double(),
    }


@pytest.mark.parametrize("name", recurrent())
def test_a_sequence_is_its_steps(name):
    """At once, in two pieces with the states passed on, and one by one."""
    net, lap = recurrent()[name], bundle().laplacian()
    x = signals(lap, 2, 6)
    outputs, ends = net(x, lap)
    head, states = net(x[:, :4], lap)
    tail, last = net(x[:, 4:], lap, states)
    assert relative_error(torch.cat([head, tail], 1), outputs) < 1e-12
    states, steps = None, []
    for t in range(6):
        output, states = net(x[:, t : t + 1], lap, states)
        steps.append(output)
    assert relative_error(torch.cat(steps, 1), outputs) < 1e-12
    for a, b, c in zip(ends, last, states, strict=True):
        assert relative_error(a, b) < 1e-12 and relative_error(a, c) < 1e-12
    future = x.clone()
    future[:, 4:] += 1.0
    assert relative_error(net(future, lap)[0][:, :4], outputs[:, :4]) < 1e-14  # causal


@pytest.mark.parametrize("name", recurrent())
def test_a_batch_of_sequences_is_each_alone(name):
    net, lap = recurrent()[name], bundle().laplacian()
    x = signals(lap, 2, 3, 5)
    outputs, states = net(x, lap)
    assert outputs.shape == x.shape
    for i, j in np.ndindex(2, 3):
        alone, ends = net(x[i, j], lap)
        assert relative_error(outputs[i, j], alone) < 1e-12
        assert all(relative_error(s[i, j], e) < 1e-12 for s, e in zip(states, ends, strict=True))


def test_gates_that_are_shut_remember():
    """The state stays where it is, however long: what the paper's recurrence cannot do."""
    net, lap = nn.GatedTNN([1, 3, 1], step=0.1).double(), bundle().laplacian()
    with torch.no_grad():
        net.cells[0].shift[:3] = -1000.0
    state = random_signal(lap, channels=3)
    _, (end,) = net(signals(lap, 50), lap, [state])
    assert torch.equal(end, state)


# Counts and names.


@pytest.mark.parametrize(
    "net, count",
    [
        (nn.TNN([1, 8, 4, 1], taps=2), 88),
        (nn.TNN([3, 8, 4, 3], taps=2), 136),
        (nn.RecurrentTNN([1, 1, 1, 1], taps=2), 12),
        (nn.RecurrentTNN([3, 3, 3, 3], taps=2), 108),
        (
            nn.TNN(
                [1, 8, 1], filters=[tb.Heat(0.0), tb.Heat(torch.nn.Parameter(torch.tensor(0.1)))]
            ),
            32 + 2,
        ),
        (nn.GatedTNN([1, 4, 1], taps=2), 2 * (12 + 32 + 16 + 4) + 16),
        (nn.TNN([1, 4], readout=nn.InvariantReadout(4, 2, hidden=5)), 8 + 55 + 12),
        (nn.TNN([1, 4], readout=nn.SumReadout(4, 2, hidden=5)), 8 + 45 + 12),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, torch.nn.Module) else str(v),
)
def test_parameters_are_counted_and_printed(net, count):
    assert net.num_parameters == count == sum(p.numel() for p in net.parameters())
    assert f"{count} parameters" in repr(net)
    next(net.parameters()).requires_grad_(False)
    assert net.num_parameters == count - next(net.parameters()).numel()


def test_seeds():
    """Weights follow the seed alone, differ between layers, and touch no global generator."""
    makers = [
        lambda seed: nn.TNN([2, 2, 2], seed=seed, readout=nn.InvariantReadout(2, 2, seed=seed)),
        lambda seed: nn.GatedTNN([2, 2, 2], seed=seed),
        lambda seed: nn.RecurrentTNN([2, 2, 2], seed=seed),
    ]
    for make in makers:
        state = torch.get_rng_state()
        first, same, other = (
            torch.nn.utils.parameters_to_vector(make(s).parameters()) for s in (0, 0, 1)
        )
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.equal(first, same) and not torch.equal(first, other)
    net = makers[0](0)
    assert not torch.equal(net.layers[0].conv.weight, net.layers[1].conv.weight)
    bound = (2 * 50) ** -0.5
    weight = nn.BundleConv(50, 60, taps=2).weight.detach()
    assert (
        0.99 * bound < float(weight.abs().max()) <= bound
        and abs(float(weight.mean())) < 0.03 * bound
    )
