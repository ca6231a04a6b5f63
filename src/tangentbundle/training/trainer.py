"""The training loop: epochs of steps, after each of which the best weights are chosen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import torch

from ..arrays import nonnegative
from ..console import deferred_interrupt
from ..errors import InvalidInputError
from ..files import only_writer
from .batches import Batches, Step
from .checkpoint import Checkpoint
from .checks import takes_closure
from .losses import Objective
from .modes import ModeComparison
from .processes import Processes
from .state import TrainingState, like_parameter

TRAINING_LOSS = "training loss"
VALIDATION_LOSS = "validation loss"


class Trainer:
    """A training under way: what is trained, how steps are taken, and the losses so far.

    Args:
        state: the network with its best weights.
        optimizer: takes the steps, in the parameters ``trained``.
        objective: the loss of a batch.
        data, validation: batches to learn from, and those that choose the best weights.
        clip: largest norm of a gradient, or None.
        schedule: factor of the rates in an epoch, or None.
        processes: which share the batches of a step.
    """

    def __init__(
        self,
        *,
        state: TrainingState,
        trained: list[torch.nn.Parameter],
        optimizer: torch.optim.Optimizer,
        objective: Objective,
        data: Batches,
        validation: Batches | None,
        clip: float | None,
        schedule: Callable[[int], float] | None,
        processes: Processes,
    ) -> None:
        self.state = state
        self.net = state.net
        self.trained = trained
        self.optimizer = optimizer
        self.objective = objective
        self.data = data
        self.validation = validation
        self.clip = clip
        self.schedule = schedule
        self.processes = processes
        self.takes_closure = takes_closure(optimizer)
        self.first_rates = [group["lr"] for group in optimizer.param_groups]
        self.modes = ModeComparison(self.net)
        self.history: dict[str, list] = {TRAINING_LOSS: []}
        self.identity = f"{self.net!r} {[tuple(p.shape) for p in trained]} {optimizer!r}"

    @property
    def epochs(self) -> int:
        """Epochs so far, those before a resumed checkpoint included."""
        return len(self.history[TRAINING_LOSS])

    @property
    def monitor(self) -> str:
        """The name of the loss that chooses the best weights."""
        return TRAINING_LOSS if self.validation is None else VALIDATION_LOSS

    def run(
        self, epochs: int, checkpoint: Checkpoint | None, show: Callable[[int, str], None]
    ) -> None:
        """Epochs until all replicas have stopped; then the best weights. The first process writes
        checkpoints."""
        writer = checkpoint if self.processes.is_first else None
        with contextlib.ExitStack() as stack:
            if writer is not None:
                stack.enter_context(only_writer(writer.folder))
            if checkpoint is not None and checkpoint.path.exists():
                checkpoint.load(self)
            interrupted = stack.enter_context(deferred_interrupt())
            was_stopped = self._train_epochs(epochs, writer, interrupted, show)
            if writer is not None:
                writer.save(self)
            self.state.adopt_best()
        if was_stopped or interrupted():
            raise KeyboardInterrupt(
                "training was interrupted; the best weights so far are in the network"
            )

    def _train_epochs(
        self,
        epochs: int,
        writer: Checkpoint | None,
        interrupted: Callable[[], bool],
        show: Callable[[int, str], None],
    ) -> bool:
        """Epochs until all replicas have stopped, or a process was interrupted; whether one was."""
        while self.epochs < epochs and self.state.active.any():
            self._set_rates()
            self._train_epoch()
            show(self.epochs, f"{self.monitor} {self.state.best.mean():.4g}")
            # all stop in the same epoch, or others would wait forever
            is_stopped = self.processes.any(interrupted())
            if writer is not None and writer.due:
                writer.save(self)
            if is_stopped:
                return True
        return False

    def _set_rates(self) -> None:
        factor = 1.0
        if self.schedule is not None:
            factor = nonnegative(self.schedule(self.epochs), "schedule(epoch)")
        for group, rate in zip(self.optimizer.param_groups, self.first_rates, strict=True):
            group["lr"] = rate * factor

    # An epoch.

    def _train_epoch(self) -> None:
        """One pass through the data, and the choice of the best weights."""
        # the loss of a single step is that of the weights before it, judged before they change
        judges_before_step = self._can_judge_before_step()
        self.net.train()
        total = torch.zeros_like(self.state.best)
        count = 0
        for step in self.data.steps(self.epochs):
            total += self._compute_gradients(step)
            count += step.count
            if judges_before_step:
                self._judge(total / count)
            self._take_step(step)
        training_loss = total / count
        if not judges_before_step:
            training_loss = self._judge_epoch(training_loss)
        self.history[TRAINING_LOSS].append(training_loss.tolist())

    def _judge_epoch(self, mean_over_steps: torch.Tensor) -> torch.Tensor:
        """Judge the weights after an epoch; returns its training loss, that of these weights or the
        mean over its steps."""
        if self.validation is None:
            training_loss = self._evaluate(self.data)  # a loss may use gradients of its own
            self._judge(training_loss)
            return training_loss
        with torch.no_grad():
            validation_loss = self._evaluate(self.validation)
        self.history.setdefault(VALIDATION_LOSS, []).append(validation_loss.tolist())
        self._judge(validation_loss)
        return mean_over_steps

    def _can_judge_before_step(self) -> bool:
        """Whether the losses of the only step of an epoch are those of the weights before it."""
        if self.validation is not None or not self.data.is_one_step:
            return False
        return self.modes.trusts_training(self._losses_in_mode)

    def _judge(self, losses: torch.Tensor) -> None:
        self.state.judge(losses, self.epochs, self.monitor)

    # Losses of fixed weights.

    def _evaluate(self, batches: Batches) -> torch.Tensor:
        """The mean loss of batches at the present weights."""
        self.net.eval()
        return self._mean_loss(batches)

    def _losses_in_mode(self, training: bool) -> torch.Tensor:
        """The mean loss of the data in one mode, which leaves the random numbers to come as they
        are."""
        self.net.train(training)
        with torch.random.fork_rng(devices=[]):
            return self._mean_loss(self.data)

    def _mean_loss(self, batches: Batches) -> torch.Tensor:
        """The mean loss over the batches of all processes, in the mode in which the network is."""
        total = torch.zeros_like(self.state.best)
        count = torch.zeros((), dtype=total.dtype)
        for batch in batches.own():
            total += in_double(self.objective(batch))
            count += 1
        return self.processes.sum(total) / self.processes.sum(count)

    # A step.

    def _take_step(self, step: Step) -> None:
        """One step of the optimiser; some, as LBFGS, compute losses and gradients themselves."""
        if not self.takes_closure:
            self.optimizer.step()
            return

        def mean_loss() -> torch.Tensor:
            with torch.enable_grad():
                return self._compute_gradients(step) / step.count

        self.optimizer.step(mean_loss)  # type: ignore[arg-type]

    def _compute_gradients(self, step: Step) -> torch.Tensor:
        """Set the mean gradient of the batches of a step, clipped; returns the sum of their
        losses."""
        total = torch.zeros_like(self.state.best)
        self.optimizer.zero_grad(set_to_none=True)
        for batch in step.batches:
            losses = self.objective(batch)
            require_gradients(losses)
            (losses.sum() / step.count).backward()
            total += in_double(losses)
        if self.processes.count > 1:
            self._share_gradients()
        if self.clip is not None:
            clip_gradients(self.trained, self.clip, self.state.shape)
        return self.processes.sum(total)

    def _share_gradients(self) -> None:
        """Sum the gradients of all processes; those without batches in this step have none."""
        for parameter in self.trained:
            gradient = parameter.grad
            if gradient is None:
                gradient = torch.zeros_like(parameter)
            parameter.grad = self.processes.sum(gradient)


def in_double(losses: torch.Tensor) -> torch.Tensor:
    """Losses without their graph, to be added up on the CPU."""
    return losses.detach().to("cpu", torch.float64)


def require_gradients(losses: torch.Tensor) -> None:
    """Refuse a loss that does not depend on the weights."""
    if not losses.requires_grad:
        raise InvalidInputError(
            "the loss has no gradients in the network's parameters. Compute it from "
            "net(...) without detach(), item() or torch.no_grad(), and call fit outside of "
            "torch.no_grad()."
        )


def clip_gradients(
    parameters: Sequence[torch.nn.Parameter], limit: float, shape: tuple[int, ...]
) -> None:
    """Shorten gradients to a norm of at most ``limit``, of each replica ``shape`` by itself."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norms = [gradient.reshape(*shape, -1).norm(dim=-1) for gradient in gradients]
    norm = torch.stack(norms).norm(dim=0)
    factor = (limit / (norm + 1e-6)).clamp_max(1.0)
    for gradient in gradients:
        gradient.mul_(like_parameter(factor, gradient))
