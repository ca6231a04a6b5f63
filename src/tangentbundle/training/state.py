"""The state of a training: the network, its best weights so far, and what led to them."""

from __future__ import annotations

import torch

from ..errors import ConvergenceError, DivergedWarning, warn
from .replicas import Replicas


class TrainingState(torch.nn.Module):
    """The state of a training as one module, which checkpoints hold.

    ``best``, ``best_epoch``, ``waited`` (epochs without improvement) and ``diverged`` are scalars,
    or ``(replicas,)``: every replica keeps its own best weights and stops by itself.

    Args:
        net: the network in training.
        parameters: those of its parameters that are trained.
        patience: epochs without improvement after which a replica stops; None for no limit.
        min_delta: an improvement is by more than this.
    """

    best: torch.Tensor
    best_epoch: torch.Tensor
    waited: torch.Tensor
    diverged: torch.Tensor

    def __init__(
        self,
        net: torch.nn.Module,
        parameters: list[torch.nn.Parameter],
        patience: int | None,
        min_delta: float,
    ) -> None:
        super().__init__()
        self.net = net
        self.patience = patience
        self.min_delta = min_delta
        self.tracked: list[torch.Tensor] = [*parameters, *net.buffers()]
        copies = [torch.nn.Parameter(t.detach().clone(), requires_grad=False) for t in self.tracked]
        self.weights = torch.nn.ParameterList(copies)
        self.shape = (len(net),) if isinstance(net, Replicas) else ()
        self.register_buffer("best", torch.full(self.shape, torch.inf, dtype=torch.float64))
        self.register_buffer("best_epoch", torch.full(self.shape, -1))
        self.register_buffer("waited", torch.zeros(self.shape, dtype=torch.long))
        self.register_buffer("diverged", torch.zeros(self.shape, dtype=torch.bool))

    @property
    def active(self) -> torch.Tensor:
        """Which replicas are still in training."""
        if self.patience is None:
            return ~self.diverged
        return ~self.diverged & (self.waited < self.patience)

    @property
    def reason(self) -> str:
        """Why training ended."""
        if self.diverged.all():
            return "diverged"
        if self.active.any():
            return "epochs"
        return "patience"

    def judge(self, losses: torch.Tensor, epoch: int, monitor: str) -> None:
        """Keep the weights of those that improved, and stop those that diverged.

        ``losses`` are those of the present weights, and ``monitor`` is their name.
        """
        improved = self.active & (losses < self.best - self.min_delta)
        lost = self.active & ~torch.isfinite(losses)
        self.best = torch.where(improved, losses, self.best)
        self.best_epoch = torch.where(improved, epoch, self.best_epoch)
        self.waited = torch.where(improved, 0, self.waited + 1)
        self.diverged = self.diverged | lost
        for best, present in zip(self.weights, self.tracked, strict=True):
            chosen = like_parameter(improved, present)
            torch.where(chosen, present.detach(), best.data, out=best.data)
        if lost.any():
            warn(
                f"training diverged ({int(lost.sum())} of {lost.numel()} replicas): the "
                f"{monitor} of epoch {epoch} is not finite. The best weights before it "
                "are restored. Try a smaller lr, or clip=1.0.",
                DivergedWarning,
            )

    def adopt_best(self) -> None:
        """Give the network its best weights; the initial ones if no loss was finite."""
        with torch.no_grad():
            for present, best in zip(self.tracked, self.weights, strict=True):
                present.copy_(best)
        self.net.eval()
        if not torch.isfinite(self.best).all():
            raise ConvergenceError(
                "training never had a finite loss. Check the data's scale, and try a smaller lr."
            )


def like_parameter(values: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Numbers of replicas in a shape that broadcasts against parameters ``(replicas, ...)``."""
    missing_axes = (1,) * (parameter.ndim - values.ndim)
    return values.to(parameter.device).reshape(values.shape + missing_axes)
