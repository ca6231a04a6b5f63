"""``fit``: a network, batches and a loss; the network has its best weights afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ..arrays import nonnegative, positive, positive_integer
from ..console import progress as progress_bar
from ..parallel import threads_for
from .batches import as_batches
from .checkpoint import Checkpoint
from .checks import (
    check_saveable,
    hidden_numbers,
    make_optimizer,
    require_separate_steps,
    trained_parameters,
)
from .losses import Loss, Objective, require_function, squared_error
from .processes import Processes
from .state import TrainingState
from .trainer import TRAINING_LOSS, Trainer


@dataclass(frozen=True)
class Fit:
    """The result of a training: the best value of the loss ``monitor``, its epoch, and losses of
    all epochs by name.

    ``best`` is the loss of the weights that the network has after training. Without validation data
    that is the mean training loss of fixed weights; with them, the training loss in ``history`` is
    the mean over the steps of an epoch. With replicas every loss is a list. ``stopped`` is
    "epochs", "patience" or "diverged".
    """

    monitor: str
    best: Any
    best_epoch: Any
    stopped: str
    history: dict[str, list] = field(repr=False)

    @property
    def epochs(self) -> int:
        return len(self.history[TRAINING_LOSS])


def fit(
    net: torch.nn.Module,
    data: Sequence[Any] | Iterable[Any],
    loss: Loss = squared_error,
    *,
    epochs: int = 1_000,
    lr: float = 1e-2,
    optimizer: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer] | None = None,
    schedule: Callable[[int], float] | None = None,
    validation: Sequence[Any] | Iterable[Any] | None = None,
    patience: int | None = None,
    min_delta: float = 0.0,
    clip: float | None = None,
    accumulate: int = 1,
    checkpoint: str | os.PathLike | Checkpoint | None = None,
    seed: int = 0,
    progress: bool = True,
    fabric: Any = None,
) -> Fit:
    """Train a network in place, and leave it with its best weights.

    Args:
        data: a list of batches ``(*inputs, target)``, of which ``net(*inputs)`` is the prediction,
            or a data set with a length and an index; or a ``DataLoader`` of torch or PyTorch
            Geometric, which is read once an epoch. Of a PyG batch ``net(batch)`` is the prediction
            and ``batch.y`` the target. ``training.collate`` joins clouds of different sizes.
        loss: a function ``loss(prediction, target)`` that returns a number, such as those of
            ``torch.nn.functional``, or for ``training.Replicas`` one for each ``(R,)``: each then
            stops by itself. ``training.BatchLoss(function)`` is a loss of the network and a batch
            of any kind.
        epochs: passes through the data at most.
        lr, optimizer: Adam with this rate, or a function from parameters to an optimiser. One that
            evaluates the loss itself, such as ``torch.optim.LBFGS``, can be used without
            checkpoints and replicas.
        schedule: a factor of the rate for every epoch, such as ``lambda epoch: 0.999**epoch``.
        validation: batches whose mean loss chooses the best weights. By default the mean loss of
            ``data`` does; after an epoch of several steps it is computed again, since every step
            has changed the weights.
        patience: stop after this number of epochs without an improvement by more than
            ``min_delta``.
        clip: largest norm of the gradient, of each replica by itself.
        accumulate: batches whose mean gradient gives one step.
        checkpoint: a folder, or ``training.Checkpoint(folder, every=seconds)``. A checkpoint that
            is there is resumed, to the same numbers as an uninterrupted run. Networks that ``save``
            cannot write are refused at once; without a checkpoint there is a ``NotSavedWarning``.
        seed: of the order of the batches of a list. A loader has its own order, by torch's global
            random numbers, which checkpoints keep.
        progress: whether to show it.
        fabric: a launched ``lightning_fabric.Fabric``: one step uses ``accumulate`` batches of
            every process. Of loaders each process has its own, see ``Fabric.setup_dataloaders``.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(
    ...     tb.manifolds.Torus().sample(200, seed=0).astype("float32")
    ... )
    >>> lap = bundle.laplacian()
    >>> x = torch.randn(200, 2, 1, generator=torch.Generator().manual_seed(0))
    >>> batches = [(x, lap, tb.Heat(1.0)(lap, x))]
    >>> result = tb.fit(tb.nn.TNN([1, 4, 1]), batches, epochs=50, progress=False)
    >>> result.epochs, result.stopped, bool(result.best < result.history["training loss"][0])
    (50, 'epochs', True)
    >>> absolute = torch.nn.functional.l1_loss
    >>> tb.fit(tb.nn.TNN([1, 4, 1]), batches, absolute, epochs=5, progress=False).epochs
    5
    """
    processes = Processes(fabric)
    accumulate = positive_integer(accumulate, "accumulate")
    read = partial(as_batches, accumulate=accumulate, seed=seed, processes=processes)
    batches = read(data, "data")
    validation_batches = None
    if validation is not None:
        validation_batches = read(validation, "validation")
    if schedule is not None:
        require_function(schedule, "schedule")
    trained = trained_parameters(net)
    state = TrainingState(
        net,
        trained,
        patience=None if patience is None else positive_integer(patience, "patience"),
        min_delta=nonnegative(min_delta, "min_delta"),
    )
    trainer = Trainer(
        state=state,
        trained=trained,
        optimizer=make_optimizer(optimizer, trained, lr),
        objective=Objective(net, loss, state.shape),
        data=batches,
        validation=validation_batches,
        clip=None if clip is None else positive(clip, "clip"),
        schedule=schedule,
        processes=processes,
    )
    epochs = positive_integer(epochs, "epochs")
    if isinstance(checkpoint, str | os.PathLike):
        checkpoint = Checkpoint(checkpoint)
    require_separate_steps(trainer.optimizer, net, checkpoint)
    check_saveable(net, checkpoint)
    threads = threads_for(hidden_numbers(batches.example, trained))
    shows_progress = progress and processes.is_first
    with threads, progress_bar(epochs, "epoch", shows_progress) as show:
        trainer.run(epochs, checkpoint, show)
    return Fit(
        monitor=trainer.monitor,
        best=state.best.tolist(),
        best_epoch=state.best_epoch.tolist(),
        stopped=state.reason,
        history=trainer.history,
    )
