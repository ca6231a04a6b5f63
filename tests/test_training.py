"""Training: best weights, stopping, resuming to the same numbers, replicas, several processes."""

import signal
import subprocess
import sys
import time

import pytest
import torch

import tangentbundle as tb
from tangentbundle.errors import (
    BusyFolderError,
    ConvergenceError,
    DamagedFileError,
    DivergedWarning,
    InvalidInputError,
)
from tangentbundle.files import only_writer, read_tensors, write_tensors
from tangentbundle.training.checkpoint import KIND


@pytest.fixture(scope="module")
def lap():
    points = torch.from_numpy(tb.manifolds.Torus().sample(60, seed=1))
    return tb.TangentBundle.from_points(points).laplacian()


def make_net(seed=0):
    return tb.nn.TNN([1, 4, 1], seed=seed).double()


def make_batches(lap, count=4):
    source = torch.Generator().manual_seed(5)
    signals = torch.randn(count, 60, 2, 1, generator=source, dtype=lap.dtype)
    return [(x, lap, tb.Heat(0.3)(lap, x)) for x in signals]


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def test_leaves_the_best_weights_by_validation(lap):
    batches = make_batches(lap)
    net = make_net()
    result = tb.fit(net, batches[:2], validation=batches[2:], epochs=60, lr=0.3, progress=False)
    values = result.history["validation loss"]
    assert result.monitor == "validation loss" and result.best == min(values)
    assert result.best_epoch == values.index(min(values))
    with torch.no_grad():
        now = torch.stack(
            [tb.training.squared_error(net(x, lap), y) for x, lap, y in batches[2:]]
        ).mean()
    assert float(now) == pytest.approx(result.best, rel=1e-12)


def test_full_batch_training_pairs_each_loss_with_the_weights_that_gave_it(lap):
    batch = make_batches(lap, 1)
    net = make_net()
    result = tb.fit(
        net, batch, epochs=40, lr=0.5, progress=False
    )  # too fast, so that the last is not the best
    assert result.best < result.history["training loss"][-1]
    x, _, target = batch[0]
    assert tb.training.squared_error(net(x, lap), target).item() == pytest.approx(
        result.best, rel=1e-12
    )


def test_patience_counts_epochs_without_improvement(lap):
    result = tb.fit(
        make_net(),
        make_batches(lap),
        epochs=500,
        lr=1e-12,
        patience=7,
        min_delta=1e-3,
        progress=False,
    )
    assert result.stopped == "patience" and result.epochs == 8  # the first improves on nothing


def test_same_seed_same_numbers_and_another_order_for_another_seed(lap):
    ends = []
    for seed in (0, 0, 1):
        net = make_net()
        tb.fit(net, make_batches(lap), epochs=5, seed=seed, progress=False)
        ends.append(weights(net))
    assert torch.equal(ends[0], ends[1]) and not torch.equal(ends[0], ends[2])


@pytest.mark.parametrize("stop_at", [1, 3, 7])
def test_resumed_run_has_identical_weights(lap, tmp_path, stop_at):
    whole, parts = make_net(), make_net()
    tb.fit(whole, make_batches(lap), epochs=10, progress=False)
    tb.fit(parts, make_batches(lap), epochs=stop_at, checkpoint=tmp_path, progress=False)
    parts = make_net(seed=99)  # the checkpoint holds everything
    result = tb.fit(parts, make_batches(lap), epochs=10, checkpoint=tmp_path, progress=False)
    assert torch.equal(weights(whole), weights(parts)) and result.epochs == 10


def assert_resumes(lap, folder):
    """Resumed twice, a run ends with the weights of an undisturbed one. Returns the epochs of the
    checkpoint."""
    done = tb.fit(
        make_net(seed=99), make_batches(lap), epochs=1, checkpoint=folder, progress=False
    ).epochs
    whole, resumed = make_net(), make_net(seed=99)
    tb.fit(whole, make_batches(lap), epochs=done + 5, progress=False)
    for more in (2, 5):
        tb.fit(resumed, make_batches(lap), epochs=done + more, checkpoint=folder, progress=False)
    assert torch.equal(weights(whole), weights(resumed))
    return done


SCRIPT = """
import sys, torch, tangentbundle as tb
points = torch.from_numpy(tb.manifolds.Torus().sample(60, seed=1))
lap = tb.TangentBundle.from_points(points).laplacian()
signals = torch.randn(4, 60, 2, 1, generator=torch.Generator().manual_seed(5), dtype=lap.dtype)
batches = [(x, lap, tb.Heat(0.3)(lap, x)) for x in signals]
net = tb.nn.TNN([1, 4, 1], seed=0).double()
checkpoint = tb.training.Checkpoint(sys.argv[1], every=0.01)
tb.fit(net, batches, epochs=10**9, checkpoint=checkpoint, progress=False)
"""


def test_killed_at_a_random_step_and_resumed(lap, tmp_path):
    """SIGKILL in the middle of training and writing."""
    checkpoint, written = tmp_path / "checkpoint.safetensors", set()
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)]) as process:
        while len(written) < 3:
            assert process.poll() is None
            if checkpoint.exists():
                written.add(checkpoint.stat().st_mtime_ns)
            time.sleep(0.01)
        process.kill()
    assert assert_resumes(lap, tmp_path) >= 3


def test_interrupt_leaves_a_usable_checkpoint(lap, tmp_path):
    calls = iter(range(10**9))

    def loss(prediction, target):
        if next(calls) == 17:
            signal.raise_signal(signal.SIGINT)
        return tb.training.squared_error(prediction, target)

    net, before = make_net(), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            tb.fit(net, make_batches(lap), loss, epochs=10**9, checkpoint=tmp_path, progress=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert torch.isfinite(weights(net)).all()
    assert (
        assert_resumes(lap, tmp_path) == 3
    )  # of four batches, each twice an epoch; the last was finished


def test_divergence_is_reported_and_never_returned(lap):
    net = make_net()
    calls = iter(range(10_000))

    def loss(prediction, target):
        value = tb.training.squared_error(prediction, target)
        return value if next(calls) < 12 else value * float("nan")

    with pytest.warns(DivergedWarning, match="best weights"):
        result = tb.fit(net, make_batches(lap), loss, epochs=50, progress=False)
    assert result.stopped == "diverged" and torch.isfinite(weights(net)).all()
    with (
        pytest.warns(DivergedWarning),
        pytest.raises(ConvergenceError, match="never had a finite loss"),
    ):
        tb.fit(
            make_net(),
            make_batches(lap),
            lambda prediction, target: loss(prediction, target) * float("nan"),
            epochs=5,
            progress=False,
        )


def test_replicas_train_as_if_alone(lap):
    """Their own losses, best epochs and stops; the same numbers up to rounding."""
    x, _, target = make_batches(lap, 1)[0]
    noise = torch.randn(3, *x.shape, generator=torch.Generator().manual_seed(2), dtype=x.dtype)
    options = {
        "epochs": 120,
        "lr": 0.05,
        "patience": 6,
        "min_delta": 1e-4,
        "clip": 0.05,
        "progress": False,
    }
    nets = tb.training.Replicas(lambda seed: tb.nn.TNN([1, 4, 1], seed=seed).double(), count=3)

    def losses(prediction, target):
        return (prediction - target).square().mean(dim=(1, 2, 3))

    together = tb.fit(nets, [(x + noise, lap, target.expand(3, *x.shape))], losses, **options)
    for r in range(3):
        alone = make_net(r)
        result = tb.fit(alone, [(x + noise[r], lap, target)], **options)
        assert together.best_epoch[r] == result.best_epoch
        assert together.best[r] == pytest.approx(result.best, rel=1e-9)
        assert torch.allclose(weights(alone), weights(nets[r]), atol=1e-9)
    assert len(set(together.best_epoch)) > 1, (
        "the replicas should stop at different times for this to say something"
    )


def test_one_lost_replica_does_not_spoil_the_others(lap):
    x, _, target = make_batches(lap, 1)[0]
    nets = tb.training.Replicas(lambda seed: make_net(seed), count=2)
    epoch = iter(range(1000))

    def losses(prediction, target):
        value = (prediction - target).square().mean(dim=(1, 2, 3))
        return value * torch.tensor([1.0, float("nan") if next(epoch) > 5 else 1.0])

    with pytest.warns(DivergedWarning, match="1 of 2 replicas"):
        result = tb.fit(
            nets, [(x.expand(2, *x.shape), lap, target)], losses, epochs=30, progress=False
        )
    assert result.best_epoch[0] > 20 and result.best_epoch[1] <= 5
    assert torch.isfinite(weights(nets)).all()


def test_checkpoints_refuse_other_networks_damage_and_second_writers(lap, tmp_path):
    tb.fit(make_net(), make_batches(lap), epochs=2, checkpoint=tmp_path, progress=False)
    with pytest.raises(InvalidInputError, match="another network"):
        tb.fit(
            tb.nn.TNN([1, 3, 1]).double(),
            make_batches(lap),
            epochs=2,
            checkpoint=tmp_path,
            progress=False,
        )
    with only_writer(tmp_path), pytest.raises(BusyFolderError, match="another process"):
        tb.fit(make_net(), make_batches(lap), epochs=2, checkpoint=tmp_path, progress=False)
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(DamagedFileError):
        tb.fit(make_net(), make_batches(lap), epochs=2, checkpoint=tmp_path, progress=False)


def test_forged_checkpoints(lap, tmp_path):
    """With valid checksums, and the identity of the network."""
    tb.fit(make_net(), make_batches(lap), epochs=2, checkpoint=tmp_path, progress=False)
    path = tmp_path / "checkpoint.safetensors"
    tensors, notes = read_tensors(path, KIND)
    for change in ("net.layers.0.conv.weight", "weights.0", "best", "random"):
        for forged in (
            {n: t for n, t in tensors.items() if n != change},
            tensors | {change: torch.ones(1, 3)},
        ):
            write_tensors(path, KIND, forged, notes)
            with pytest.raises(DamagedFileError, match="not a complete checkpoint"):
                tb.fit(make_net(), make_batches(lap), epochs=4, checkpoint=tmp_path, progress=False)
    for forged in (None, [], {}, notes[1:]):
        write_tensors(path, KIND, tensors, forged)
        with pytest.raises((DamagedFileError, InvalidInputError), match="checkpoint"):
            tb.fit(make_net(), make_batches(lap), epochs=4, checkpoint=tmp_path, progress=False)


def test_bad_arguments(lap):
    with pytest.raises(InvalidInputError, match="must not be empty"):
        tb.fit(make_net(), [], progress=False)
    with pytest.raises(InvalidInputError, match="no parameters"):
        tb.fit(torch.nn.Identity(), make_batches(lap), progress=False)
    with pytest.raises(InvalidInputError, match="shape"):
        tb.fit(
            make_net(),
            make_batches(lap),
            lambda prediction, target: torch.ones(3, requires_grad=True),
            progress=False,
        )


MISTAKES = {
    "target of another shape": lambda x, lap: ([(x, lap, torch.cat([x, x], dim=-1))], {}),
    "no list of batches": lambda x, lap: ((x, lap, x), {}),
    "no target": lambda x, lap: ([(x, lap)], {}),
    "no validation": lambda x, lap: ([(x, lap, x)], {"validation": []}),
    "a name for a loss": lambda x, lap: ([(x, lap, x)], {"loss": "mse"}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_batches_and_functions_that_do_not_fit_are_refused(mistake):
    lap = tb.TangentBundle.from_points(
        tb.manifolds.Sphere(2).sample(60, seed=0).astype("float32"), dim=2
    ).laplacian()
    data, options = MISTAKES[mistake](torch.randn(60, 2, 1), lap)
    with pytest.raises((tb.errors.InvalidInputError, tb.errors.ShapeError), match=r"target|must"):
        tb.fit(tb.nn.TNN([1, 4, 1]), data, epochs=1, progress=False, **options)


def test_a_network_without_a_finite_loss_has_its_initial_weights():
    lap = tb.TangentBundle.from_points(
        tb.manifolds.Sphere(2).sample(60, seed=0).astype("float32"), dim=2
    ).laplacian()
    net, x = tb.nn.TNN([1, 4, 1]), torch.randn(60, 2, 1)
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.warns(tb.errors.DivergedWarning), pytest.raises(tb.errors.ConvergenceError):
        tb.fit(net, [(x, lap, x * torch.nan)], epochs=2, progress=False)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), before, strict=True))
