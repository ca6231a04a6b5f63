"""What ``fit`` reports is the loss of the weights that it returns, and every kind of number and
loss is taken."""

import warnings
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tangentbundle as tb
from tangentbundle.errors import InvalidInputError
from tangentbundle.manifolds import FlatTorus, Sphere, Torus
from tangentbundle.training import squared_error

CLOUDS = {"sphere": Sphere(2), "torus": Torus(), "flat torus": FlatTorus()}


@cache
def laplacian(name, dtype=torch.float64, n=40):
    points = torch.from_numpy(CLOUDS[name].sample(n, seed=2)).to(dtype)
    return tb.TangentBundle.from_points(points, dim=2, neighbors=8).laplacian()


def batches_of(lap, count, seed=5):
    """Inputs and targets of ``count`` batches that no network fits exactly, so that losses go up
    and down."""
    source = torch.Generator().manual_seed(seed)
    signals = torch.randn(count, 2, lap.num_points, 2, 1, generator=source, dtype=lap.dtype)
    return [(x, lap, tb.Heat(0.3)(lap, x) + 0.3 * y) for x, y in signals]


def mean_loss(net, batches, loss=squared_error):
    with torch.no_grad():
        return torch.stack([loss(net, batch).double() for batch in batches]).mean(0)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("count, accumulate", [(1, 1), (2, 1), (5, 1), (5, 2), (3, 3), (4, 9)])
@pytest.mark.parametrize(
    "options", [{"lr": 0.3}, {"lr": 0.02, "clip": 0.1}, {"lr": 0.5, "patience": 2}], ids=str
)
def test_the_best_loss_is_that_of_the_weights_returned(name, count, accumulate, options):
    lap = laplacian(name)
    seed = 10 * count + accumulate
    data = batches_of(lap, count, seed)
    net = tb.nn.TNN([1, 3, 1], seed=seed).double()
    result = tb.fit(
        net, data, epochs=6, accumulate=accumulate, seed=seed, progress=False, **options
    )
    losses = result.history["training loss"]
    assert float(mean_loss(net, data)) == pytest.approx(result.best, rel=1e-12)
    assert result.best == min(losses) == losses[result.best_epoch] and result.epochs == len(losses)


@pytest.mark.parametrize("count", [1, 3])
def test_so_it_is_for_every_replica(count):
    lap = laplacian("torus")
    nets = tb.training.Replicas(lambda seed: tb.nn.TNN([1, 3, 1], seed=seed).double(), count=3)
    data = [(x.expand(3, *x.shape), target) for x, _, target in batches_of(lap, count)]

    def losses(net, batch):
        return (net(batch[0], lap) - batch[1]).square().mean(dim=(1, 2, 3))

    result = tb.fit(nets, data, losses, epochs=8, lr=0.4, patience=3, progress=False)
    assert mean_loss(nets, data, losses).tolist() == pytest.approx(result.best, rel=1e-12)


class Noisy(torch.nn.Module):
    """A network that acts otherwise in training, and has statistics that training changes."""

    def __init__(self, dropout, statistics):
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.norm = torch.nn.BatchNorm1d(8) if statistics else torch.nn.Identity()
        self.dropout = torch.nn.Dropout(dropout)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.dropout(self.norm(self.first(x)).relu()))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("validated", [False, True])
@pytest.mark.parametrize("dropout, statistics", [(0.5, False), (0.0, True), (0.3, True)])
def test_so_it_is_for_networks_that_act_otherwise_in_training(
    count, validated, dropout, statistics
):
    source = torch.Generator().manual_seed(0)
    numbers = torch.randn(count, 20, 8, generator=source)
    data = [(block[:, :6], block[:, 6:]) for block in numbers]
    torch.manual_seed(0)
    net = Noisy(dropout, statistics)
    validation = [(block[:10, :6], block[:10, 6:]) for block in numbers] if validated else None
    result = tb.fit(net, data, epochs=12, lr=0.3, validation=validation, progress=False)
    assert not net.training
    assert float(mean_loss(net, validation or data)) == pytest.approx(result.best, rel=1e-6)


# Numbers.

KINDS = [
    float,
    np.float64,
    np.float32,
    np.array,
    torch.tensor,
    lambda v: torch.nn.Parameter(torch.tensor(v)),
]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind(kind):
    lap = laplacian("sphere")
    data, ends = batches_of(lap, 2), []
    for number in (lambda v: v, kind):
        net = tb.nn.TNN([1, 2, 1]).double()
        options = {"lr": number(0.25), "clip": number(0.5), "min_delta": number(0.0625)}
        tb.fit(
            net,
            data,
            epochs=3,
            schedule=lambda epoch, n=number: n(0.5**epoch),
            progress=False,
            **options,
        )
        ends.append(torch.cat([p.detach().flatten() for p in net.parameters()]))
    assert torch.equal(*ends)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": torch.ones(2)},
        {"lr": -1.0},
        {"lr": "0.1"},
        {"lr": True},
        {"lr": Decimal("NaN")},
        {"min_delta": float("nan")},
        {"min_delta": -1.0},
        {"min_delta": "0"},
        {"schedule": lambda epoch: float("nan")},
        {"schedule": lambda epoch: -1.0},
        {"schedule": lambda epoch: None},
        {"schedule": 0.9},
        {"clip": 0.0},
        {"patience": 0},
    ],
    ids=lambda options: "{}: {}".format(*next((k, type(v).__name__) for k, v in options.items())),
)
def test_other_numbers_are_refused_before_a_step(options):
    net, lap = tb.nn.TNN([1, 2, 1]).double(), laplacian("sphere")
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        tb.fit(net, batches_of(lap, 2), epochs=2, progress=False, **options)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), before, strict=True))


# Losses.

OF_PREDICTIONS = {
    "a lambda": lambda prediction, target: (prediction - target).square().mean(),
    "a method": lambda prediction, target: prediction.sub(target).abs().mean(),
    "functional": F.mse_loss,
    "a module": torch.nn.L1Loss(),
    "three arguments": lambda prediction, target, weights: (prediction - target).square().mean(),
}


@pytest.mark.parametrize("name", OF_PREDICTIONS)
def test_losses_of_predictions_are_refused_with_the_remedy(name):
    net, lap = tb.nn.TNN([1, 2, 1]).double(), laplacian("sphere")
    with pytest.raises(InvalidInputError, match=r"loss\(net, batch\).*Criterion\("):
        tb.fit(net, batches_of(lap, 2), OF_PREDICTIONS[name], epochs=2, progress=False)


def test_the_remedy_works():
    lap = laplacian("sphere")
    data = batches_of(lap, 3)
    for name, function in OF_PREDICTIONS.items():
        if name == "three arguments":
            continue
        net = tb.nn.TNN([1, 2, 1]).double()
        result = tb.fit(net, data, tb.training.Criterion(function), epochs=3, progress=False)
        losses = [float(function(net(x, lap), target).detach()) for x, _, target in data]
        assert np.mean(losses) == pytest.approx(result.best, rel=1e-12)
    labels = [(x, lap, torch.tensor([1])) for x, _, _ in data]
    net = tb.nn.TNN([1, 2], readout=tb.nn.InvariantReadout(2, 3)).double()
    assert (
        tb.fit(net, labels, tb.training.Criterion(F.cross_entropy), epochs=20, progress=False).best
        < 1.0
    )
    with pytest.raises(InvalidInputError, match="function"):
        tb.training.Criterion("mse")


def test_errors_of_the_library_keep_their_names():
    net, lap = tb.nn.TNN([2, 2, 1]).double(), laplacian("sphere")
    with warnings.catch_warnings(), pytest.raises(tb.errors.ShapeError, match="2 channels"):
        tb.fit(net, batches_of(lap, 2), epochs=2, progress=False)
