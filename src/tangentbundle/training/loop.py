"""The training loop."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..arrays import nonnegative, positive, positive_integer
from ..console import deferred_interrupt
from ..console import progress as progress_bar
from ..errors import (
    ConvergenceError,
    DivergedWarning,
    InvalidInputError,
    NotSavedWarning,
    ShapeError,
    warn,
)
from ..files import only_writer
from ..nn import Configured
from ..parallel import threads_for
from ..saving import require_saveable
from .checkpoint import Checkpoint
from .replicas import Replicas

Loss = Callable[[torch.nn.Module, Any], torch.Tensor]


def predict_batch(net: torch.nn.Module, batch: Any) -> tuple[Any, torch.Tensor]:
    """The prediction ``net(*inputs)`` and the target of a batch ``(*inputs, target)``."""
    if (
        not isinstance(batch, (tuple, list))
        or len(batch) < 2
        or not isinstance(batch[-1], torch.Tensor)
    ):
        raise InvalidInputError(
            "expected batches (*inputs, target) with a tensor as target: data=[(x, lap, target), "
            "...]. Use loss= for others."
        )
    *inputs, target = batch
    return net(*inputs), target


def squared_error(net: torch.nn.Module, batch: Any) -> torch.Tensor:
    """The mean squared error of ``net(*inputs)`` against the last member of a batch
    ``(*inputs, target)``."""
    prediction, target = predict_batch(net, batch)
    if not isinstance(prediction, torch.Tensor) or prediction.shape != target.shape:
        shape = getattr(prediction, "shape", type(prediction).__name__)
        raise ShapeError(
            f"the network returns {shape}, the target is {target.shape}. Make them equal, or give "
            "a loss= of your own."
        )
    return (prediction - target).square().mean()


class Criterion:
    """The loss of batches ``(*inputs, target)`` by a function of prediction and target, such as
    those of torch.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Torus().sample(200, seed=0).astype("float32")
    ... ).laplacian()
    >>> x = torch.randn(200, 2, 1, generator=torch.Generator().manual_seed(0))
    >>> absolute = tb.training.Criterion(torch.nn.functional.l1_loss)
    >>> net = tb.nn.TNN([1, 4, 1])
    >>> tb.fit(net, [(x, lap, 0.5 * x)], absolute, epochs=5, progress=False).epochs
    5
    """

    def __init__(self, function: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        if not callable(function):
            raise InvalidInputError(
                f"Criterion takes a function of prediction and target, got {function!r}."
            )
        require_no_class(function, "the function of a Criterion")
        self.function = function

    def __call__(self, net: torch.nn.Module, batch: Any) -> torch.Tensor:
        prediction, target = predict_batch(net, batch)
        return self.function(prediction, target)


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
        return len(self.history["training loss"])


def fit(
    net: torch.nn.Module,
    data: Sequence[Any],
    loss: Loss = squared_error,
    *,
    epochs: int = 1_000,
    lr: float = 1e-2,
    optimizer: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer] | None = None,
    schedule: Callable[[int], float] | None = None,
    validation: Sequence[Any] | None = None,
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
        data: a list of batches, anything that ``loss(net, batch)`` takes; with the default loss
            ``(*inputs, target)``. A dataset with a length and an index will do.
        loss: a function ``loss(net, batch)`` that returns a number, or for ``training.Replicas``
            one for each ``(R,)``: each then stops by itself. ``training.Criterion(function)`` makes
            one of a function of prediction and target.
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
        seed: of the order of the batches.
        fabric: a launched ``lightning_fabric.Fabric``: one step uses ``accumulate`` batches of
            every process.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(
    ...     tb.manifolds.Torus().sample(200, seed=0).astype("float32")
    ... )
    >>> lap, x = (
    ...     bundle.laplacian(),
    ...     torch.randn(200, 2, 1, generator=torch.Generator().manual_seed(0)),
    ... )
    >>> net = tb.nn.TNN([1, 4, 1])
    >>> result = tb.fit(net, [(x, lap, tb.Heat(1.0)(lap, x))], epochs=50, progress=False)
    >>> result.epochs, result.stopped, bool(result.best < result.history["training loss"][0])
    (50, 'epochs', True)
    """
    require_batches(data, "data")
    if validation is not None:
        require_batches(validation, "validation")
    for name, function in (("loss", loss), ("optimizer", optimizer), ("schedule", schedule)):
        if not (function is None or callable(function)):
            raise InvalidInputError(f"{name} must be a function, got {function!r}.")
    require_no_class(loss, "loss")
    parameters = [p for p in net.parameters() if p.requires_grad]
    if not parameters:
        raise InvalidInputError(f"{type(net).__name__} has no parameters to train.")
    rate = positive(lr, "lr")
    if rate > 1e6:  # torch's optimisers overflow
        raise InvalidInputError(
            f"lr must be at most 1e6, got {rate:g}. Useful rates lie far below 1."
        )
    if optimizer is None:
        steps: torch.optim.Optimizer = torch.optim.Adam(parameters, lr=rate, foreach=True)
    else:
        steps = optimizer(parameters)
        if not isinstance(steps, torch.optim.Optimizer):
            raise InvalidInputError(
                "optimizer must be a function from parameters to an optimiser, such as "
                f"lambda p: torch.optim.SGD(p, lr=0.1), but it returned {steps!r:.80}."
            )
    training = Training(net, parameters, steps, loss, fabric, patience, min_delta, clip, accumulate)
    place = Checkpoint(checkpoint) if isinstance(checkpoint, str | os.PathLike) else checkpoint
    epochs = positive_integer(epochs, "epochs")
    network = net.skeleton if isinstance(net, Replicas) else net
    require_parameters_of(steps, parameters)
    if isinstance(net, Replicas) and takes_closure(steps):
        raise InvalidInputError(
            f"{type(steps).__name__} chooses one step for all parameters, and replicas need their "
            "own. Train the networks one by one, or use an optimiser such as Adam."
        )
    if place is not None and takes_closure(steps):
        raise InvalidInputError(
            f"checkpoints cannot hold the history of {type(steps).__name__}. Leave checkpoint out, "
            "or use an optimiser such as Adam."
        )
    if isinstance(network, Configured):
        if place is None:
            warn_unsaveable(network)
        else:
            require_saveable(network)
    threads = threads_for(_hidden_numbers(data[0], parameters))
    with threads, progress_bar(epochs, "epoch", progress and training.rank == 0) as show:
        training.run(data, validation, seed, epochs, schedule, place, show)
    stopped = (
        "diverged" if training.diverged.all() else "epochs" if training.active.any() else "patience"
    )
    return Fit(
        training.monitor,
        training.best.tolist(),
        training.best_epoch.tolist(),
        stopped,
        training.history,
    )


def require_batches(batches: Any, name: str) -> None:
    """Refuse batches that cannot be counted and read in any order, again in every epoch."""
    is_sequence = hasattr(batches, "__len__") and hasattr(batches, "__getitem__")
    if not is_sequence or isinstance(batches, (str, bytes, Mapping)):
        raise InvalidInputError(
            f"{name} must be a list of batches, or a dataset with a length and an index: they are "
            f"read in random order, once an epoch. Got {type(batches).__name__}; if it gives "
            f"batches one by one, use {name}=list(...)."
        )
    if not len(batches):
        raise InvalidInputError(
            f"{name} must not be empty: it is the list of batches. Leave validation out if there "
            "is none."
        )


def require_no_class(function: Any, name: str) -> None:
    """Refuse a class where an object of it was meant, such as ``torch.nn.MSELoss``."""
    if isinstance(function, type):
        raise InvalidInputError(
            f"{name} must be a function, got the class {function.__name__}. Make an object of it: "
            f"loss=tb.training.Criterion({function.__name__}()) for a function of prediction and "
            "target."
        )


def warn_unsaveable(net: Configured) -> None:
    """Warn of a network that ``save`` would refuse: after a long training it is too late."""
    try:
        with warnings.catch_warnings():
            # attributes that are not in the file are a matter for those who save
            warnings.simplefilter("ignore", NotSavedWarning)
            require_saveable(net)
    except InvalidInputError as error:
        warn(
            f"{error} It can be trained; its weights alone are net.state_dict().",
            NotSavedWarning,
        )


def require_parameters_of(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]
) -> None:
    """Refuse an optimiser that has no parameter of the network: nothing would be learned."""
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not any(id(p) in trained for p in parameters):
        raise InvalidInputError(
            f"{type(optimizer).__name__} has no parameter of the network. Make it of the "
            "parameters that the function is given: optimizer=lambda p: torch.optim.SGD(p, lr=0.1)."
        )


def takes_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimiser evaluates the loss itself, several times a step, as LBFGS does."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _hidden_numbers(batch: Any, parameters: Sequence[torch.Tensor]) -> float:
    """Numbers in a hidden signal, more or less: the largest tensor of a batch times the channels of
    a layer."""
    if not isinstance(batch, (list, tuple)):
        return math.inf  # unknown
    largest = max((value.numel() for value in batch if isinstance(value, torch.Tensor)), default=0)
    return largest * max(max(p.shape, default=1) for p in parameters)


def can_be_called(function: Callable, *arguments: Any) -> bool:
    """Whether a function takes so many arguments; those that have no signature may."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def wrong_loss(reason: str) -> InvalidInputError:
    """The error about a loss that is no function of a network and a batch."""
    return InvalidInputError(
        f"this loss cannot be called as loss(net, batch): {reason}. A loss is a function of the "
        "network and a batch; if yours is one of prediction and target, use "
        "loss=tb.training.Criterion(function)."
    )


class Training(torch.nn.Module):
    """The state of a training as one module: the network, its best weights, and losses.

    ``best``, ``best_epoch``, ``waited`` (epochs without improvement) and ``diverged`` are scalars,
    or ``(replicas,)``: every replica keeps its own best weights and stops by itself.
    """

    best: torch.Tensor
    best_epoch: torch.Tensor
    waited: torch.Tensor
    diverged: torch.Tensor

    def __init__(
        self, net, parameters, optimizer, loss, fabric, patience, min_delta, clip, accumulate
    ) -> None:
        super().__init__()
        self.net, self.trained, self.optimizer, self.loss, self.fabric = (
            net,
            parameters,
            optimizer,
            loss,
            fabric,
        )
        self.processes: int = 1 if fabric is None else fabric.world_size
        self.rank: int = 0 if fabric is None else fabric.global_rank
        self.patience = None if patience is None else positive_integer(patience, "patience")
        self.clip = None if clip is None else positive(clip, "clip")
        self.min_delta = nonnegative(min_delta, "min_delta")
        self.accumulate = positive_integer(accumulate, "accumulate")
        shape = (len(net),) if isinstance(net, Replicas) else ()
        self.tracked: list[torch.Tensor] = [*parameters, *net.buffers()]
        copies = [torch.nn.Parameter(t.detach().clone(), requires_grad=False) for t in self.tracked]
        self.weights = torch.nn.ParameterList(copies)
        self.register_buffer("best", torch.full(shape, torch.inf, dtype=torch.float64))
        self.register_buffer("best_epoch", torch.full(shape, -1))
        self.register_buffer("waited", torch.zeros(shape, dtype=torch.long))
        self.register_buffer("diverged", torch.zeros(shape, dtype=torch.bool))
        self.history: dict[str, list] = {"training loss": []}
        self.closure_needed = takes_closure(optimizer)
        self.modes_differ = may_act_differently_in_training(net)
        self.epochs_compared = 0
        self.identity = f"{net!r} {[tuple(p.shape) for p in parameters]} {optimizer!r}"

    @property
    def epochs(self) -> int:
        return len(self.history["training loss"])

    @property
    def monitor(self) -> str:
        return list(self.history)[-1]

    @property
    def active(self) -> torch.Tensor:
        """Which replicas are still in training."""
        return (
            ~self.diverged
            if self.patience is None
            else ~self.diverged & (self.waited < self.patience)
        )

    def _sum(self, value: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        one = self.processes == 1
        return (
            value
            if one
            else self.fabric.all_reduce(value.clone(), reduce_op="sum").to(value.device)
        )

    def run(self, data, validation, seed, epochs, schedule, place, show) -> None:
        """Epochs until all replicas have stopped; then the best weights. The first process writes
        checkpoints."""
        writer = place if self.rank == 0 else None
        rates = [group["lr"] for group in self.optimizer.param_groups]
        with contextlib.nullcontext() if writer is None else only_writer(writer.folder):
            if place is not None and place.path.exists():
                place.load(self)
            with deferred_interrupt() as interrupted:
                stop = False
                while self.epochs < epochs and self.active.any() and not stop:
                    factor = (
                        1.0
                        if schedule is None
                        else nonnegative(schedule(self.epochs), "schedule(epoch)")
                    )
                    for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                        group["lr"] = rate * factor
                    self.epoch(data, validation, seed)
                    show(self.epochs, f"{self.monitor} {self.best.mean():.4g}")
                    # all stop in the same epoch, or others would wait forever
                    stop = bool(self._sum(torch.tensor(float(interrupted()))) > 0)
                    if writer is not None and writer.due:
                        writer.save(self)
                if writer is not None:
                    writer.save(self)
                self.adopt_best()
        if stop or interrupted():
            raise KeyboardInterrupt(
                "training was interrupted; the best weights so far are in the network"
            )

    def epoch(self, data: Sequence[Any], validation: Sequence[Any] | None, seed: int) -> None:
        """One pass through the data in random order, and the choice of the best weights."""
        source = torch.Generator().manual_seed(seed * 1_000_003 + self.epochs)
        order = torch.randperm(len(data), generator=source).tolist()
        size = self.accumulate * self.processes
        total = torch.zeros_like(self.best)
        # the losses of a single step belong to the weights before it, which are judged before they
        # change
        single = validation is None and size >= len(order)
        judges_step = single and self._trusts_losses_in_training(data, order)
        self.net.train()
        for start in range(0, len(order), size):
            step = order[start : start + size]
            total += self._gradients(data, step)
            if judges_step:
                self._judge(total / len(order))
            if self.closure_needed:
                self._step_with_closure(data, step)
            else:
                self.optimizer.step()
        training_loss = total / len(order)
        if validation is not None:
            with torch.no_grad():
                values = self._evaluate(validation, range(len(validation))) / len(validation)
            self.history.setdefault("validation loss", []).append(values.tolist())
            self._judge(values)
        elif not judges_step:
            own = range(self.rank, len(data), self.processes)
            training_loss = self._sum(self._evaluate(data, own)) / len(data)
            self._judge(training_loss)
        self.history["training loss"].append(training_loss.tolist())

    def _evaluate(self, data: Sequence[Any], indices: Sequence[int]) -> torch.Tensor:
        """The sum of the losses of some batches at the present weights; a loss may use gradients of
        its own."""
        self.net.eval()
        return self._total_loss(data, indices)

    def _total_loss(self, data: Sequence[Any], indices: Sequence[int]) -> torch.Tensor:
        """The sum of the losses of some batches, in the mode in which the network is."""
        total = torch.zeros_like(self.best)
        for index in indices:
            total += self._loss(data[index]).detach().to("cpu", torch.float64)
        return total

    def _trusts_losses_in_training(self, data: Sequence[Any], order: Sequence[int]) -> bool:
        """Whether the losses of a step are those of its weights in use, so that these need no
        evaluation of their own.

        Networks of unknown parts are evaluated. A loss may ask for ``net.training``, too: in the
        first epochs those of both modes are compared, with the same random numbers.
        """
        if self.modes_differ:
            return False
        if self.epochs_compared < EPOCHS_COMPARED:
            self.epochs_compared += 1
            own = order[self.rank :: self.processes]
            in_training = self._losses_in_mode(data, own, training=True)
            in_use = self._losses_in_mode(data, own, training=False)
            agree = torch.isclose(in_training, in_use, rtol=1e-6, atol=0.0, equal_nan=True)
            self.modes_differ = not bool(agree.all())
        return not self.modes_differ

    def _losses_in_mode(
        self, data: Sequence[Any], indices: Sequence[int], training: bool
    ) -> torch.Tensor:
        """The sum of the losses over all processes in one mode, which leaves the random numbers to
        come as they are."""
        self.net.train(training)
        with torch.random.fork_rng(devices=[]):
            return self._sum(self._total_loss(data, indices))

    def _loss(self, batch: Any) -> torch.Tensor:
        """The loss of a batch, of the shape that the replicas need."""
        shape = tuple(self.best.shape)
        try:
            losses = self.loss(self.net, batch)
        except (TypeError, AttributeError) as error:
            if not can_be_called(self.loss, self.net, batch):
                raise wrong_loss(f"it takes other arguments ({error})") from error
            if self._is_loss_of_predictions(batch):
                raise wrong_loss("it takes a prediction and a target") from error
            raise  # an error in the loss itself, which its traceback shows best
        if not isinstance(losses, torch.Tensor) or losses.shape != shape:
            got = losses.shape if isinstance(losses, torch.Tensor) else repr(losses)
            raise InvalidInputError(
                f"expected a loss of shape {shape}, one for each replica, got {got}."
            )
        return losses

    def _is_loss_of_predictions(self, batch: Any) -> bool:
        """Whether the loss gives a number for the prediction and the target of a batch."""
        with torch.no_grad():
            try:
                prediction, target = predict_batch(self.net, batch)
                return isinstance(self.loss(prediction, target), torch.Tensor)
            except Exception:  # whatever is wrong, it is not that
                return False

    def _gradients(self, data: Sequence[Any], step: Sequence[int]) -> torch.Tensor:
        """Set the mean gradient of the batches of a step, clipped; returns the sum of their
        losses."""
        shape, total = tuple(self.best.shape), torch.zeros_like(self.best)
        self.optimizer.zero_grad(set_to_none=True)
        for index in step[self.rank :: self.processes]:
            losses = self._loss(data[index])
            if not losses.requires_grad:
                raise InvalidInputError(
                    "the loss has no gradients in the network's parameters. Compute it from "
                    "net(...) without detach(), item() or torch.no_grad(), and call fit outside of "
                    "torch.no_grad()."
                )
            (losses.sum() / len(step)).backward()
            total += losses.detach().to("cpu", torch.float64)
        for p in (
            self.trained if self.processes > 1 else []
        ):  # a process without batches in this step has no gradients
            p.grad = self._sum(torch.zeros_like(p) if p.grad is None else p.grad)
        if self.clip is not None:
            gradients = [p.grad for p in self.trained if p.grad is not None]
            norms = torch.stack([g.reshape(*shape, -1).norm(dim=-1) for g in gradients]).norm(dim=0)
            for g in gradients:
                g.mul_(_like((self.clip / (norms + 1e-6)).clamp_max(1.0), g))
        return self._sum(total)

    def _step_with_closure(self, data: Sequence[Any], step: Sequence[int]) -> None:
        """One step of an optimiser that computes losses and gradients itself, as LBFGS."""

        def mean_loss() -> torch.Tensor:
            with torch.enable_grad():
                return self._gradients(data, step) / len(step)

        self.optimizer.step(mean_loss)

    def _judge(self, losses: torch.Tensor) -> None:
        """Keep the weights of those that improved, and stop those that diverged."""
        active = self.active
        better, lost = (
            active & (losses < self.best - self.min_delta),
            active & ~torch.isfinite(losses),
        )
        self.best = torch.where(better, losses, self.best)
        self.best_epoch = torch.where(better, self.epochs, self.best_epoch)
        self.waited = torch.where(better, 0, self.waited + 1)
        self.diverged = self.diverged | lost
        for best, p in zip(self.weights, self.tracked, strict=True):
            torch.where(_like(better, p), p.detach(), best.data, out=best.data)
        if lost.any():
            warn(
                f"training diverged ({int(lost.sum())} of {lost.numel()} replicas): the "
                f"{self.monitor} of epoch {self.epochs} is not finite. The best weights before it "
                "are restored. Try a smaller lr, or clip=1.0.",
                DivergedWarning,
            )

    def adopt_best(self) -> None:
        """Give the network its best weights; the initial ones if no loss was finite."""
        with torch.no_grad():
            for p, best in zip(self.tracked, self.weights, strict=True):
                p.copy_(best)
        self.net.eval()
        if not torch.isfinite(self.best).all():
            raise ConvergenceError(
                "training never had a finite loss. Check the data's scale, and try a smaller lr."
            )


EPOCHS_COMPARED = 3
"""Epochs in which the losses of both modes are compared: in the first, a last layer of zeros could
hide a difference."""

ONLY_IN_TRAINING = (
    torch.nn.modules.dropout._DropoutNd,
    torch.nn.RNNBase,
    torch.nn.MultiheadAttention,
)
"""Modules of torch whose ``dropout``, or ``p``, acts only in training."""


def may_act_differently_in_training(net: torch.nn.Module) -> bool:
    """Whether losses of a network in training may not be its own.

    So it is with dropout, statistics of batches, hooks, and classes of a user's own, whose
    ``forward`` may ask for ``self.training``.
    """
    roots = [net, net.skeleton] if isinstance(net, Replicas) else [net]
    modules = [module for root in roots for module in root.modules()]
    return any(_may_act_differently(module) for module in modules)


def _may_act_differently(module: torch.nn.Module) -> bool:
    own = not type(module).__module__.startswith(("torch.nn.modules.", "tangentbundle."))
    if own or module._forward_hooks or module._forward_pre_hooks:
        return True
    if isinstance(module, torch.nn.modules.batchnorm._NormBase):
        return module.track_running_stats
    if isinstance(module, ONLY_IN_TRAINING):
        return getattr(module, "p", 0.0) > 0 or getattr(module, "dropout", 0.0) > 0
    return isinstance(module, torch.nn.RReLU)


def _like(values: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Numbers of replicas in a shape that broadcasts against parameters ``(replicas, ...)``."""
    return values.to(parameter.device).reshape(values.shape + (1,) * (parameter.ndim - values.ndim))
