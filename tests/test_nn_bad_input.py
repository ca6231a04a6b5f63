"""What networks refuse: every mistake has a named error that says what to do."""

from functools import cache

import numpy as np
import pytest
import torch

import tangentbundle as tb
from tangentbundle import nn
from tangentbundle.errors import DTypeError, InvalidInputError, NonFiniteError, ShapeError
from tangentbundle.manifolds import Sphere
from tangentbundle.operators import Identity
from tangentbundle.testing import random_signal

NETWORKS = [nn.TNN, nn.RecurrentTNN, nn.GatedTNN]
NAN, INF = float("nan"), float("inf")


@cache
def bundle(dim=2, dtype=torch.float64):
    return tb.TangentBundle.from_points(
        torch.from_numpy(Sphere(dim).sample(40, seed=0)).to(dtype), dim=dim
    )


def laplacian(dim=2, dtype=torch.float64):
    return bundle(dim, dtype).laplacian()


# Constructors.


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize(
    "channels",
    [
        [],
        [1],
        "abc",
        "12",
        3,
        None,
        [1, 0, 1],
        [1, -2, 1],
        [1, 2.0, 1],
        [1, "2", 1],
        [1, True, 1],
        [[1, 2]],
    ],
)
def test_channels(kind, channels):
    with pytest.raises(InvalidInputError, match=r"channels"):
        kind(channels)


def test_channels_may_be_any_sequence_of_whole_numbers():
    for channels in ((1, 3, 1), np.array([1, 3, 1]), range(1, 4)):
        assert nn.TNN(channels).layers[0].conv.in_channels == 1
    with pytest.raises(InvalidInputError, match="at least 3 widths"):
        nn.GatedTNN([1, 1])


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("taps", [0, -1, 2.0, "2", None, True])
def test_taps(kind, taps):
    with pytest.raises(InvalidInputError, match="taps must be a positive integer"):
        kind([1, 2, 1], taps=taps)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("step", [0, -0.1, NAN, INF, "1", None, True, [0.1], 1j])
def test_steps(kind, step):
    with pytest.raises(InvalidInputError, match="step must be a positive number"):
        kind([1, 2, 1], step=step)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("seed", [None, "0", 1.5, True, np.random.default_rng(0)])
def test_seeds(kind, seed):
    with pytest.raises(InvalidInputError, match=r"seed must be an integer or a torch\.Generator"):
        kind([1, 2, 1], seed=seed)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize(
    "activation", [torch.tanh, torch.nn.Tanh(), nn.NormTanh, "tanh", nn.SumReadout(1, 1)]
)
def test_activations(kind, activation):
    with pytest.raises(
        InvalidInputError, match=r"Activation objects such as NormTanh\(\) or Coordinatewise"
    ):
        kind([1, 2, 1], activation=activation)


def test_other_parts():
    with pytest.raises(InvalidInputError, match="Activation objects"):
        nn.TNN([1, 1], output=torch.tanh)
    for function in ("tanh", None, 3):
        with pytest.raises(InvalidInputError, match=r"function such as torch\.tanh"):
            nn.Coordinatewise(function)
        with pytest.raises(InvalidInputError, match=r"function such as torch\.tanh"):
            nn.AmbientThenProject(function)
    for arguments in ((0, 1), (1, 0), (1, 1, 0), ("2", 1), (2, 1.0)):
        with pytest.raises(InvalidInputError, match="integer"):
            nn.InvariantReadout(*arguments)
        with pytest.raises(InvalidInputError, match="integer"):
            nn.SumReadout(*arguments)
    with pytest.raises(InvalidInputError, match="rank must be a positive integer"):
        nn.SumReadout(1, 2, rank=0)
    for readout in (nn.SumReadout, "sum", torch.nn.Linear(1, 2)):
        with pytest.raises(InvalidInputError, match=r"Readout objects such as SumReadout\("):
            nn.TNN([1, 1], readout=readout)
    for arguments in ((0, 1), (1, 0), (-1, 1)):
        with pytest.raises(InvalidInputError, match="integer"):
            nn.BundleConv(*arguments)


def test_methods():
    x, lap = random_signal(laplacian(), 1), laplacian()
    for method in ("exact", tb.Chebyshev, 1e-6):
        with pytest.raises(InvalidInputError, match="takes Method objects"):
            nn.TNN([1, 1], method=method).double()(x, lap)


# Signals and operators.


def test_channels_of_signals():
    lap = laplacian()
    for net in (
        nn.TNN([2, 4, 1]),
        nn.BundleConv(2, 1),
        nn.BundleConv(2, 3),
        nn.BundleConv(2, 3, taps=1),
    ):
        with pytest.raises(ShapeError, match=r"takes 2 channels.*got \(40, 2, 3\)"):
            net.double()(random_signal(lap, 3), lap)
    for net in (nn.RecurrentTNN([2, 4]), nn.GatedTNN([2, 4, 1])):
        with pytest.raises(ShapeError, match=r"takes 2 channels"):
            net.double()(random_signal(lap, 3)[None], lap)


def test_channels_of_readouts():
    """More channels than it was made for would silently be left out."""
    lap = laplacian()
    for channels in (3, 8):
        net = nn.TNN([1, channels], readout=nn.InvariantReadout(4, 2)).double()
        with pytest.raises(ShapeError, match=rf"takes 4 channels.*got \(40, 2, {channels}\)"):
            net(random_signal(lap, 1), lap)
    with pytest.raises(ShapeError, match=r"fibres of dimension 3, got 2. Change its rank"):
        nn.TNN([1, 1], readout=nn.SumReadout(1, 2, rank=3)).double()(random_signal(lap, 1), lap)


def test_shapes():
    lap = laplacian()
    net = nn.TNN([1, 2, 1]).double()
    x = random_signal(lap, 1)
    for bad in (x[:-1], x[..., 0], x[:, :1], x.flatten(), x.transpose(0, 1)):
        with pytest.raises(ShapeError, match=r"\(\.\.\., 40, 2, c\)"):
            net(bad, lap)
    with pytest.raises(ShapeError, match=r"Add the channel axis"):
        net(x[..., 0], lap)
    for recurrent in (nn.RecurrentTNN([1, 1]).double(), nn.GatedTNN([1, 1, 1]).double()):
        for bad in (x, x[None][:0]):
            with pytest.raises(
                ShapeError, match=r"\(\.\.\., T, n, d, channels\) with T of at least 1"
            ):
                recurrent(bad, lap)


@pytest.mark.parametrize("channels", [[1, 2, 1], [3, 1, 1]])
def test_precision(channels):
    """The message says which is which, and how to convert."""
    single, double = laplacian(dtype=torch.float32), laplacian()
    net = nn.TNN(channels)
    with pytest.raises(
        DTypeError, match=r"network is torch.float32 but the signal torch.float64.*net\.to\(signal"
    ):
        net(random_signal(double, channels[0]), double)
    with pytest.raises(
        DTypeError, match=r"signal is torch.float32 but the operator is torch.float64.*operator\.to"
    ):
        net(random_signal(single, channels[0]), double)
    with pytest.raises(DTypeError, match=r"network is torch.float64 but the signal torch.float32"):
        nn.TNN(channels).double()(random_signal(single, channels[0]), single)
    recurrent = nn.RecurrentTNN([1, 1])
    with pytest.raises(DTypeError, match=r"network is torch.float32"):
        recurrent(random_signal(double, 1)[None], double)
    assert net(random_signal(single, channels[0]), single).dtype == torch.float32
    assert (
        net.to(torch.float64)(random_signal(double, channels[0]), double).dtype == torch.float64
    )  # the remedy


def test_operators():
    x, net = random_signal(laplacian(), 1), nn.TNN([1, 1]).double()
    for bad in (None, bundle(), laplacian().to_dense(), laplacian().to_scipy()):
        with pytest.raises(InvalidInputError, match=r"such as bundle\.laplacian\(\)"):
            net(x, bad)
        with pytest.raises(InvalidInputError, match=r"such as bundle\.laplacian\(\)"):
            nn.RecurrentTNN([1, 1]).double()(x[None], bad)


def test_missing_frames():
    net = nn.TNN([1, 2, 1], activation=nn.AmbientThenProject()).double()
    scalar = bundle().scalar().laplacian()
    for operator in (scalar, Identity.of(40, 2), tb.join([scalar, scalar])):
        with pytest.raises(
            InvalidInputError, match=r"needs frames.*Use the Laplacian of a tangent bundle"
        ):
            net(random_signal(operator, 1), operator)


def test_states():
    lap = laplacian()
    x = random_signal(lap, 1)[None]
    net = nn.RecurrentTNN([1, 2, 1]).double()
    for states in ([], [x[0]], [x[0]] * 3):
        with pytest.raises(InvalidInputError, match="2 recurrent layers needs as many states"):
            net(x, lap, states)
    with pytest.raises(ShapeError, match="takes 2 channels"):
        net(x, lap, [x[0], x[0]])


def test_times_that_have_run_away():
    net = nn.TNN([1, 1], filters=[tb.Heat(torch.nn.Parameter(torch.tensor(1.0)))]).double()
    with torch.no_grad():
        net.layers[0].conv.learned[0].fill_(NAN)
    with pytest.raises(NonFiniteError, match="finite"):
        net(random_signal(laplacian(), 1), laplacian())


def test_numpy_signals_are_taken_as_tensors():
    """An answer that can be trained on is a tensor, whatever came in."""
    lap = laplacian()
    x = random_signal(lap, 2)
    for net in (nn.TNN([2, 2]).double(), nn.TNN([2, 3, 1], taps=1).double()):
        got = net(x.numpy(), lap)
        assert isinstance(got, torch.Tensor) and got.requires_grad and torch.equal(got, net(x, lap))
    recurrent = nn.GatedTNN([2, 3, 2]).double()
    assert torch.equal(recurrent(x[None].numpy(), lap)[0], recurrent(x[None], lap)[0])
