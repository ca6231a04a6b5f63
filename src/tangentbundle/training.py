"""One training loop: small, resumable, honest about when it stopped and why."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .arrays import positive, whole
from .console import deferred_interrupt
from .console import progress as progress_bar
from .errors import DamagedFileError, DivergedWarning, InvalidInputError, TrainingError
from .files import only_writer, read_tensors, write_tensors
from .nn import Replicas

Loss = Callable[[torch.nn.Module, Any], torch.Tensor]
KIND = "tangentbundle.training"


def squared_error(net: torch.nn.Module, batch: Any) -> torch.Tensor:
    """The mean squared error of ``net(*inputs)`` against the last member of a batch ``(*inputs, target)``."""
    *inputs, target = batch
    return (net(*inputs) - target).square().mean()


@dataclass
class Fit:
    """How a training went. ``monitor`` names the quantity that chose the best weights.

    ``history`` holds the losses of every epoch, by name: numbers, or lists with one number a replica.
    """

    monitor: str
    history: dict[str, list] = field(default_factory=lambda: {"training loss": []})
    best: Any = float("inf")
    best_epoch: Any = -1
    stopped: str = "not yet"

    @property
    def epochs(self) -> int:
        return len(self.history["training loss"])

    def __repr__(self) -> str:
        best = f"{self.best:.4g} at epoch {self.best_epoch}" if isinstance(self.best, float) else f"of {len(self.best)}"
        return f"Fit({self.epochs} epochs, stopped: {self.stopped}, best {self.monitor} {best})"


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
    checkpoint: str | os.PathLike | None = None,
    every: float = 20.0,
    seed: int = 0,
    progress: bool = True,
    fabric: Any = None,
) -> Fit:
    """Train a network in place, and leave it with its best weights.

    Args:
        data: batches, anything that ``loss(net, batch)`` takes; with the default loss ``(*inputs, target)``.
        loss: a number, or one a replica ``(R,)`` for ``nn.Replicas``: each then stops and keeps its best by itself.
        epochs: passes through the data at most.
        lr, optimizer: Adam with this rate, or a function from parameters to an optimiser.
        schedule: a factor of the rate for every epoch, such as ``lambda epoch: 0.999**epoch``.
        validation: batches whose mean loss chooses the best weights; without them the training loss does. Both are
            known while training: nothing looks at test data.
        patience: stop after so many epochs without an improvement by more than ``min_delta``.
        clip: largest norm of the gradient, of each replica by itself.
        accumulate: batches whose mean gradient makes one step.
        checkpoint: a folder; what is there is resumed, to the same numbers as an uninterrupted run. Written
            atomically every ``every`` seconds, at Ctrl-C and at the end.
        seed: of the order of the batches.
        fabric: a launched ``lightning_fabric.Fabric``: each process takes its share of every step's batches, one step
            uses ``accumulate`` batches a process, and gradients are averaged.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Torus().sample(200, seed=0).astype("float32"))
    >>> lap, x = bundle.laplacian(), torch.randn(200, 2, 1, generator=torch.Generator().manual_seed(0))
    >>> net = tb.nn.TNN([1, 4, 1])
    >>> result = tb.fit(net, [(x, lap, tb.Heat(1.0)(lap, x))], epochs=50, progress=False)
    >>> result.epochs, result.stopped, bool(result.best < result.history["training loss"][0])
    (50, 'epochs', True)
    """
    if not len(data):
        raise InvalidInputError("there is no data to train on: data is an empty list of batches.")
    parameters = [p for p in net.parameters() if p.requires_grad]
    if not parameters:
        raise InvalidInputError(f"{type(net).__name__} has no parameters to train.")
    if optimizer is None:
        lr = positive(lr, "lr")
        if lr > 1e6:  # torch's optimisers overflow
            raise InvalidInputError(f"lr must be at most 1e6, got {lr:g}. Useful rates lie far below 1.")
    if clip is not None:
        positive(clip, "clip")
    if patience is not None:
        whole(patience, "patience")
    make = optimizer or (lambda parts: torch.optim.Adam(parts, lr=lr, foreach=True))
    steps = -(-len(data) // (whole(accumulate, "accumulate") * (1 if fabric is None else fabric.world_size)))
    run = _Run(net, parameters, make(parameters), loss, schedule, clip, accumulate, fabric, single=steps == 1)
    run.result.monitor = "training loss" if validation is None else "validation loss"
    is_writer = fabric is None or fabric.is_global_zero
    with contextlib.ExitStack() as stack:
        place = None
        if checkpoint is not None:
            place = Path(checkpoint) / "checkpoint.safetensors"
            if is_writer:
                stack.enter_context(only_writer(checkpoint))
            if place.exists():
                run.restore(place)
        interrupted = stack.enter_context(deferred_interrupt())
        show = stack.enter_context(progress_bar(whole(epochs, "epochs"), "epoch", progress and is_writer))
        saved, asked = time.monotonic(), False
        while run.result.epochs < epochs and run.active.any() and run.result.stopped == "not yet":
            run.epoch(data, validation, seed, patience, min_delta)
            show(run.result.epochs, run.summary())
            if run.anywhere(interrupted()):
                asked = True
                break
            if place is not None and is_writer and time.monotonic() - saved > every:
                run.store(place)
                saved = time.monotonic()
        run.conclude(epochs)
        if place is not None and is_writer:
            run.store(place)
        run.adopt_best()
    if asked or (fabric is None and interrupted()):
        raise KeyboardInterrupt("training was interrupted; the best weights so far are in the network")
    return run.report()


@dataclass
class _Run:
    """The state of a training: what a checkpoint holds."""

    net: torch.nn.Module
    parameters: list[torch.nn.Parameter]
    optimizer: torch.optim.Optimizer
    loss: Loss
    schedule: Callable[[int], float] | None
    clip: float | None
    accumulate: int
    fabric: Any
    single: bool

    def __post_init__(self) -> None:
        shape = (self.net.count,) if isinstance(self.net, Replicas) else ()
        self.best_weights = [p.detach().clone() for p in self.parameters]
        self.best, self.best_epoch = torch.full(shape, torch.inf, dtype=torch.float64), torch.full(shape, -1)
        self.waited, self.active = torch.zeros(shape, dtype=torch.long), torch.ones(shape, dtype=torch.bool)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.identity = self._identity()
        self.result = Fit("training loss")

    # One epoch.

    def epoch(self, data, validation, seed, patience, min_delta) -> None:
        number = self.result.epochs
        if self.schedule is not None:
            for options, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
                options["lr"] = rate * self.schedule(number)
        source = torch.Generator().manual_seed(seed * 1_000_003 + number)
        order = torch.randperm(len(data), generator=source).tolist()
        world, rank = (1, 0) if self.fabric is None else (self.fabric.world_size, self.fabric.global_rank)
        group, total = self.accumulate * world, torch.zeros_like(self.best)
        self.net.train()
        for start in range(0, len(order), group):
            chosen = order[start : start + group]
            self.optimizer.zero_grad(set_to_none=True)
            for index in chosen[rank::world]:
                losses = self.loss(self.net, data[index])
                if losses.shape != self.best.shape:
                    raise InvalidInputError(
                        f"the loss must have shape {tuple(self.best.shape)} (one number, or one a replica), got "
                        f"{tuple(losses.shape)}."
                    )
                (losses.sum() / len(chosen)).backward()
                total += losses.detach().to("cpu", torch.float64)
            self._finish_gradients()
            if self.single and validation is None:  # the loss belongs to the weights before the step
                self._judge(self._summed(total) / len(order), patience, min_delta)
            self.optimizer.step()
        mean = self._summed(total) / len(order)
        if validation is not None:
            self.net.eval()
            with torch.no_grad():
                values = torch.stack([self.loss(self.net, batch).double().cpu() for batch in validation]).mean(0)
            self._judge(values, patience, min_delta)
            self.result.history.setdefault("validation loss", []).append(values.tolist())
        elif not self.single:
            self._judge(mean, patience, min_delta)
        self.result.history["training loss"].append(mean.tolist())

    def _summed(self, total: torch.Tensor) -> torch.Tensor:
        """The sum over processes."""
        return total if self.fabric is None else self.fabric.all_reduce(total.clone(), reduce_op="sum")

    def anywhere(self, flag: bool) -> bool:
        """Whether any process says so: all must stop in the same epoch, or the others would wait for ever."""
        if self.fabric is None or self.fabric.world_size == 1:
            return flag
        return bool(self.fabric.all_reduce(torch.tensor(float(flag)), reduce_op="sum") > 0)

    def _finish_gradients(self) -> None:
        """Average over processes, then clip, each replica by itself."""
        if self.fabric is not None and self.fabric.world_size > 1:
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self.parameters])
            flat = self.fabric.all_reduce(flat, reduce_op="sum")
            for p, part in zip(self.parameters, flat.split([p.numel() for p in self.parameters]), strict=True):
                p.grad = part.reshape(p.shape).clone()
        if self.clip is None:
            return
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self.best.ndim == 0:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
            return
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
        factor = (self.clip / (norms + 1e-6)).clamp_max(1.0)
        for g in gradients:
            g.mul_(factor.reshape(-1, *([1] * (g.ndim - 1))))

    def _judge(self, values: torch.Tensor, patience: int | None, min_delta: float) -> None:
        """Keep the weights of those that improved, and stop those that wait too long or are lost."""
        better = self.active & (values < self.best - min_delta)
        self.best = torch.where(better, values, self.best)
        self.best_epoch = torch.where(better, self.result.epochs, self.best_epoch)
        self.waited = torch.where(better, 0, self.waited + 1)
        if bool(better.any()):
            for kept, p in zip(self.best_weights, self.parameters, strict=True):
                if better.ndim == 0:
                    kept.copy_(p.detach())
                else:
                    mask = better.to(p.device).reshape(-1, *([1] * (p.ndim - 1)))
                    torch.where(mask, p.detach(), kept, out=kept)
        lost = self.active & ~torch.isfinite(values)
        if bool(lost.any()):
            who = "training" if lost.ndim == 0 else f"{int(lost.sum())} of {len(lost)} replicas"
            warnings.warn(
                f"{who} diverged: the {self.result.monitor} at epoch {self.result.epochs} is not finite. The best "
                "weights before it are kept. A smaller lr or clip=1.0 often helps.",
                DivergedWarning,
                stacklevel=4,
            )
            if lost.ndim == 0:
                self.result.stopped = "diverged"
        self.active = self.active & ~lost
        if patience is not None:
            self.active = self.active & (self.waited < patience)

    # The end, and files.

    def summary(self) -> str:
        last = self.result.history[self.result.monitor][-1]
        return (
            f"{self.result.monitor} {last:.4g}" if isinstance(last, float) else f"{int(self.active.sum())} in training"
        )

    def conclude(self, epochs: int) -> None:
        if self.result.stopped == "not yet":
            if not bool(self.active.any()):
                self.result.stopped = "patience"
            elif self.result.epochs >= epochs:
                self.result.stopped = "epochs"

    def adopt_best(self) -> None:
        if not bool(torch.isfinite(self.best).all()):
            raise TrainingError(
                "training never had a finite loss, so there are no weights to keep. Check the data's scale, and try a "
                "smaller lr."
            )
        with torch.no_grad():
            for p, kept in zip(self.parameters, self.best_weights, strict=True):
                p.copy_(kept)
        self.net.eval()

    def report(self) -> Fit:
        return dataclasses.replace(self.result, best=self.best.tolist(), best_epoch=self.best_epoch.tolist())

    def _identity(self) -> str:
        shapes = [tuple(p.shape) for p in self.parameters]
        return hashlib.sha256(f"{self.net!r} {shapes} {self.optimizer!r}".encode()).hexdigest()

    def store(self, path: Path) -> None:
        """Write all there is, atomically."""
        tensors = {f"weight.{i}": p.detach() for i, p in enumerate(self.parameters)}
        tensors |= {f"best.{i}": p for i, p in enumerate(self.best_weights)}
        for name in ("best", "best_epoch", "waited", "active"):
            tensors[f"run.{name}"] = getattr(self, name)
        state = self.optimizer.state_dict()["state"]
        numbers = {}
        for index, entries in state.items():
            for key, value in entries.items():
                if isinstance(value, torch.Tensor):
                    tensors[f"optimizer.{index}.{key}"] = value
                else:
                    numbers[f"{index}.{key}"] = value
        tensors |= {f"buffer.{name}": b for name, b in self.net.named_buffers()}
        tensors |= {f"history.{name}": torch.tensor(v, dtype=torch.float64) for name, v in self.result.history.items()}
        tensors["random"] = torch.get_rng_state()
        result = {"monitor": self.result.monitor, "stopped": self.result.stopped}
        notes = {"identity": self.identity, "result": result, "numbers": numbers}
        write_tensors(path, KIND, tensors, notes)

    def restore(self, path: Path) -> None:
        """Continue from a checkpoint of the same network and optimiser."""
        tensors, notes = read_tensors(path, KIND)
        if not isinstance(notes, dict) or notes.get("identity") != self.identity:
            raise InvalidInputError(
                f"{path} is the checkpoint of another network or optimiser. Choose another folder, or delete it."
            )
        try:
            self._adopt(tensors, notes)
        except Exception as error:  # anything can be raised by a forged file
            raise DamagedFileError(f"{path} is not a complete checkpoint ({error!r:.300}). Delete it.") from error

    def _adopt(self, tensors: dict[str, torch.Tensor], notes: dict[str, Any]) -> None:
        with torch.no_grad():
            for i, p in enumerate(self.parameters):
                p.copy_(tensors[f"weight.{i}"].view_as(p))
                self.best_weights[i].copy_(tensors[f"best.{i}"].view_as(p))
        for name in ("best", "best_epoch", "waited", "active"):
            setattr(self, name, tensors[f"run.{name}"].view_as(getattr(self, name)))
        state: dict[int, dict[str, Any]] = {}
        entries = [(n, t) for n, t in tensors.items() if n.startswith("optimizer.")]
        entries += [(f"optimizer.{n}", v) for n, v in notes["numbers"].items()]
        for name, value in entries:
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = value
        full = self.optimizer.state_dict()
        self.optimizer.load_state_dict({"state": state, "param_groups": full["param_groups"]})
        for name, buffer in self.net.named_buffers():
            buffer.copy_(tensors[f"buffer.{name}"])
        torch.set_rng_state(tensors["random"])
        history = {n.removeprefix("history."): t.tolist() for n, t in tensors.items() if n.startswith("history.")}
        self.result = Fit(history=history, **notes["result"])
        if self.result.stopped == "epochs":
            self.result.stopped = "not yet"  # there may be more of them now
