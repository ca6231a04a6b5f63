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
from tangentbundle.training import BatchLoss, squared_error

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
        return torch.stack([loss_of(net, batch, loss).double() for batch in batches]).mean(0)


def loss_of(net, batch, loss=squared_error):
    if isinstance(loss, BatchLoss):
        return loss(net, batch)
    *inputs, target = batch
    return loss(net(*inputs), target)


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
    data = [(x.expand(3, *x.shape), lap, target) for x, _, target in batches_of(lap, count)]

    def losses(prediction, target):
        return (prediction - target).square().mean(dim=(1, 2, 3))

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


class FunctionalDropout(torch.nn.Module):
    """Asks for its mode in ``forward``: nothing among its parts shows it."""

    def __init__(self, zeros):
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.last = torch.nn.Linear(8, 2)
        if zeros:
            torch.nn.init.zeros_(self.last.weight)

    def forward(self, x):
        return self.last(F.dropout(self.first(x).relu(), 0.5, self.training))


def noisy_in_training(net, batch):
    """A loss that augments its batches."""
    x, target = batch
    inputs = x + torch.randn_like(x) if net.training else x
    return (net(inputs) - target).square().mean()


HIDDEN_MODES = {
    "functional dropout": (lambda: FunctionalDropout(False), squared_error),
    "zeros at first": (lambda: FunctionalDropout(True), squared_error),
    "within a sequence": (
        lambda: torch.nn.Sequential(FunctionalDropout(False), torch.nn.Tanh()),
        squared_error,
    ),
    "leaky by chance": (
        lambda: torch.nn.Sequential(torch.nn.Linear(6, 2), torch.nn.RReLU(0.0, 0.9)),
        squared_error,
    ),
    "augmentation": (lambda: torch.nn.Linear(6, 2), BatchLoss(noisy_in_training)),
    "a hook": (lambda: with_hook(torch.nn.Linear(6, 2)), squared_error),
}
"""Networks and losses that act otherwise in training, which their modules do not tell."""


def with_hook(net):
    net.register_forward_hook(
        lambda module, inputs, output: F.dropout(output, 0.5, module.training)
    )
    return net


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count, accumulate", [(1, 1), (3, 3), (3, 1)])
@pytest.mark.parametrize("name", HIDDEN_MODES)
def test_so_it_is_where_nothing_shows_the_modes(name, count, accumulate, seed):
    make, loss = HIDDEN_MODES[name]
    numbers = torch.randn(count, 20, 8, generator=torch.Generator().manual_seed(seed))
    data = [(block[:, :6], block[:, 6:]) for block in numbers]
    torch.manual_seed(seed)
    net = make()
    result = tb.fit(net, data, loss, epochs=8, lr=0.1, accumulate=accumulate, progress=False)
    assert not net.training
    assert float(mean_loss(net, data, loss)) == pytest.approx(result.best, rel=1e-6)
    assert result.best == min(result.history["training loss"])


def test_replicas_share_the_mode_of_their_skeleton():
    nets = tb.training.Replicas(lambda seed: FunctionalDropout(False), count=2)
    for mode in (False, True):
        assert nets.train(mode).skeleton.training is mode and nets[0].training is mode


def test_losses_of_steps_are_compared_without_a_trace():
    """The same weights and losses whether or not modes are compared: only evaluations are added."""
    lap = laplacian("sphere")
    data = batches_of(lap, 1)
    ends = []
    for noise in (0.0, 0.1):
        calls = []

        def loss(net, batch, calls=calls, noise=noise):
            calls.append(net.training)
            return loss_of(net, batch) + noise * (0.0 if net.training else 1.0)

        net = tb.nn.TNN([1, 3, 1], seed=0).double()
        torch.manual_seed(7)
        tb.fit(net, data, BatchLoss(loss), epochs=10, lr=1e-3, progress=False)
        ends.append((calls.count(False), torch.rand(1)))
    assert ends[0][0] == 3 and ends[1][0] == 1 + 10 and torch.equal(ends[0][1], ends[1][1])


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
}


@pytest.mark.parametrize("name", OF_PREDICTIONS)
def test_losses_of_predictions(name):
    function = OF_PREDICTIONS[name]
    lap = laplacian("sphere")
    data = batches_of(lap, 3)
    net = tb.nn.TNN([1, 2, 1]).double()
    result = tb.fit(net, data, function, epochs=3, progress=False)
    losses = [float(function(net(x, lap), target).detach()) for x, _, target in data]
    assert np.mean(losses) == pytest.approx(result.best, rel=1e-12)


def test_losses_of_labels():
    lap = laplacian("sphere")
    labels = [(x, lap, torch.tensor([1])) for x, _, _ in batches_of(lap, 3)]
    net = tb.nn.TNN([1, 2], readout=tb.nn.InvariantReadout(2, 3)).double()
    assert tb.fit(net, labels, F.cross_entropy, epochs=20, progress=False).best < 1.0


def unpacked(net, batch):
    x, lap, target = batch
    return (net(x, lap) - target).square().mean()


OF_BATCHES = {
    "inputs by a star": lambda net, batch: (net(*batch[:-1]) - batch[-1]).square().mean(),
    "unpacked": unpacked,
    "size of weights": lambda net, batch: sum(p.square().sum() for p in net.parameters()),
}


@pytest.mark.parametrize("name", OF_BATCHES)
def test_losses_of_batches_are_refused_with_the_remedy(name):
    net, lap = tb.nn.TNN([1, 2, 1]).double(), laplacian("sphere")
    data = batches_of(lap, 2)
    with pytest.raises(InvalidInputError, match=r"loss\(prediction, target\).*BatchLoss\("):
        tb.fit(net, data, OF_BATCHES[name], epochs=2, progress=False)
    result = tb.fit(net, data, BatchLoss(OF_BATCHES[name]), epochs=3, progress=False)
    losses = [float(OF_BATCHES[name](net, batch).detach()) for batch in data]
    assert np.mean(losses) == pytest.approx(result.best, rel=1e-12)


class OwnError(TypeError):
    pass


def raising(error):
    def loss(prediction, target):
        if prediction.shape:
            raise error
        return prediction

    return loss


def raising_of_batch(error):
    def loss(net, batch):
        prediction = net(*batch[:-1])
        if prediction.shape:
            raise error
        return prediction

    return BatchLoss(loss)


@pytest.mark.parametrize("make", [raising, raising_of_batch])
@pytest.mark.parametrize(
    "error", [TypeError("mine"), AttributeError("mine"), OwnError("mine"), KeyError("mine")]
)
def test_errors_within_a_loss_are_not_taken_for_a_wrong_signature(make, error):
    net, lap = tb.nn.TNN([1, 2, 1]).double(), laplacian("sphere")
    with pytest.raises(type(error)) as caught:
        tb.fit(net, batches_of(lap, 2), make(error), epochs=2, progress=False)
    assert caught.value is error


WRONG_SIGNATURES = {
    "one": lambda prediction: prediction,
    "three": lambda prediction, x, target: prediction,
    "by name": lambda prediction, *, target: prediction,
    "none": lambda: 0.0,
}


@pytest.mark.parametrize("name", WRONG_SIGNATURES)
def test_losses_of_other_arguments_are_refused(name):
    net, lap = tb.nn.TNN([1, 2, 1]).double(), laplacian("sphere")
    loss = WRONG_SIGNATURES[name]
    with pytest.raises(InvalidInputError, match=r"loss\(prediction, target\)"):
        tb.fit(net, batches_of(lap, 2), loss, epochs=2, progress=False)
    with pytest.raises(InvalidInputError, match=r"function\(net, batch\)"):
        tb.fit(net, batches_of(lap, 2), BatchLoss(loss), epochs=2, progress=False)


@pytest.mark.parametrize("kind", [torch.nn.MSELoss, torch.nn.L1Loss, torch.nn.HuberLoss])
def test_classes_of_losses_are_refused(kind):
    net, lap = tb.nn.TNN([1, 2, 1]).double(), laplacian("sphere")
    with pytest.raises(InvalidInputError, match="class"):
        tb.fit(net, batches_of(lap, 2), kind, epochs=2, progress=False)
    with pytest.raises(InvalidInputError, match="class"):
        BatchLoss(kind)
    assert tb.fit(net, batches_of(lap, 2), kind(), epochs=2, progress=False).epochs == 2
    with pytest.raises(InvalidInputError, match="function"):
        BatchLoss("mse")


# Data.

NO_LISTS = {
    "generator": lambda batches: (batch for batch in batches),
    "iterator": iter,
    "map": lambda batches: map(tuple, batches),
    "dictionary": lambda batches: dict(enumerate(batches)),
    "set": lambda batches: set(range(len(batches))),
    "number": len,
}


@pytest.mark.parametrize("place", ["data", "validation"])
@pytest.mark.parametrize("name", NO_LISTS)
def test_batches_that_are_no_list_are_refused_before_any_is_read(name, place):
    net, lap = tb.nn.TNN([1, 2, 1]).double(), laplacian("sphere")
    batches = batches_of(lap, 2)
    options = {"data": batches, "validation": batches} | {place: NO_LISTS[name](batches)}
    with pytest.raises(InvalidInputError, match=place):
        tb.fit(net, **options, epochs=2, progress=False)


class Signals(torch.utils.data.Dataset):
    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


def test_datasets_are_lists_of_batches():
    lap = laplacian("sphere")
    ends = []
    for kind in (list, tuple, Signals):
        net = tb.nn.TNN([1, 2, 1]).double()
        tb.fit(net, kind(batches_of(lap, 3)), epochs=3, progress=False)
        ends.append(torch.cat([p.detach().flatten() for p in net.parameters()]))
    assert torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2])


# Optimisers.


@pytest.mark.parametrize("count, accumulate", [(1, 1), (3, 3), (3, 2)])
@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_optimisers_that_evaluate_the_loss_themselves(count, accumulate, line_search):
    """They take the same steps as in a loop by hand."""
    lap = laplacian("torus")
    data = batches_of(lap, count)

    def optimizer(parameters):
        return torch.optim.LBFGS(parameters, lr=0.5, max_iter=5, line_search_fn=line_search)

    net = tb.nn.TNN([1, 3, 1], seed=1).double()
    first = float(mean_loss(net, data))
    result = tb.fit(net, data, epochs=4, optimizer=optimizer, accumulate=accumulate, progress=False)
    assert float(mean_loss(net, data)) == pytest.approx(result.best, rel=1e-12)
    assert result.best < 0.95 * first
    if accumulate < count:
        return
    by_hand = tb.nn.TNN([1, 3, 1], seed=1).double()
    steps = optimizer(list(by_hand.parameters()))

    def closure():
        steps.zero_grad()
        loss = torch.stack([loss_of(by_hand, batch) for batch in data]).mean()
        loss.backward()
        return loss

    losses = [float(steps.step(closure).detach()) for _ in range(4)]
    assert losses == pytest.approx(result.history["training loss"], rel=1e-6)


def test_what_such_optimisers_cannot_do_is_refused(tmp_path):
    lap = laplacian("sphere")
    data = batches_of(lap, 1)
    net = tb.nn.TNN([1, 2, 1]).double()
    with pytest.raises(InvalidInputError, match="checkpoint"):
        tb.fit(net, data, optimizer=torch.optim.LBFGS, checkpoint=tmp_path, progress=False)
    nets = tb.training.Replicas(lambda seed: tb.nn.TNN([1, 2, 1]).double(), count=2)
    with pytest.raises(InvalidInputError, match="replicas"):
        tb.fit(nets, data, optimizer=torch.optim.LBFGS, progress=False)
    for optimizer in (lambda p: None, lambda p: torch.optim.SGD, lambda p: p):
        with pytest.raises(InvalidInputError, match="optimiser"):
            tb.fit(net, data, optimizer=optimizer, progress=False)
    assert not list(tmp_path.iterdir())


def test_trainings_that_would_learn_nothing_are_refused():
    lap = laplacian("sphere")
    data = batches_of(lap, 2)
    net, other = (tb.nn.TNN([1, 2, 1]).double() for _ in range(2))
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(InvalidInputError, match="no parameter of the network"):
        tb.fit(net, data, optimizer=lambda p: torch.optim.SGD(other.parameters()), progress=False)
    with pytest.raises(InvalidInputError, match="no gradients"):
        tb.fit(net, data, lambda y, target: squared_error(y, target).detach(), progress=False)
    with torch.no_grad(), pytest.raises(InvalidInputError, match="no gradients"):
        tb.fit(net, data, progress=False)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), before, strict=True))


# Networks that cannot be saved.


def doubled(factor):
    return tb.nn.Coordinatewise(lambda x: factor * x)


UNSAVEABLE = {
    "activation": lambda: tb.nn.TNN([1, 2, 1], activation=doubled(2.0)),
    "response": lambda: tb.nn.TNN([1, 2, 1], filters=[tb.Spectral(lambda lam: 1 / (1 + lam))]),
    "method": lambda: tb.nn.TNN(
        [1, 2, 1], activation=tb.nn.Coordinatewise(torch.nn.Tanh().forward)
    ),
}


@pytest.mark.parametrize("name", UNSAVEABLE)
def test_networks_that_cannot_be_saved_are_warned_of_once_before_training(name, tmp_path):
    lap = laplacian("sphere")
    data = batches_of(lap, 1)
    net = UNSAVEABLE[name]().double()
    with pytest.raises(InvalidInputError) as refused:
        tb.save(net, tmp_path / "net")
    warned_before = []

    def loss(prediction, target):
        warned_before.append(len(caught))
        return squared_error(prediction, target)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tb.fit(net, data, loss, epochs=4, progress=False)
    assert [w.category for w in caught] == [tb.errors.NotSavedWarning]
    assert set(warned_before) == {1} and str(refused.value) in str(caught[0].message)
    with pytest.raises(InvalidInputError, match="cannot be saved"):
        tb.fit(net, data, epochs=4, checkpoint=tmp_path, progress=False)


def test_errors_of_the_library_keep_their_names():
    net, lap = tb.nn.TNN([2, 2, 1]).double(), laplacian("sphere")
    with warnings.catch_warnings(), pytest.raises(tb.errors.ShapeError, match="2 channels"):
        tb.fit(net, batches_of(lap, 2), epochs=2, progress=False)
