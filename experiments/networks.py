"""The paper's networks on fields: how they see vectors, and how they are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tangentbundle.nn import TNN, Coordinatewise
from tangentbundle.operators import SquareOperator
from tangentbundle.training import BatchLoss, Replicas, fit


@dataclass(frozen=True, eq=False)
class NetworkView:
    """How a network sees fields ``(..., n, components)``: an operator, its number of taps, and
    frames.

    With ``frames (n, components, d)`` signals are coordinates ``(..., n, d, 1)``; without them the
    components are scalar channels ``(..., n, 1, components)``.
    """

    name: str
    operator: SquareOperator
    taps: int
    components: int
    frames: torch.Tensor | None = None

    @property
    def channels(self) -> int:
        """Channels of the signals."""
        if self.frames is None:
            return self.components
        return 1

    def signal(self, field: torch.Tensor) -> torch.Tensor:
        """The signal of a field."""
        if self.frames is None:
            return field[..., None, :]
        return torch.einsum("nia,...ni->...na", self.frames, field)[..., None]

    def field(self, signal: torch.Tensor) -> torch.Tensor:
        """The field of a signal."""
        if self.frames is None:
            return signal[..., 0, :]
        return torch.einsum("nia,...na->...ni", self.frames, signal[..., 0])

    def network(self, seed: int = 0) -> TNN:
        """The paper's network of three layers."""
        widths = [self.channels, 8, 4, self.channels]
        return TNN(widths, self.taps, activation=Coordinatewise(torch.tanh), seed=seed)


class OracleEpoch:
    """The outputs ``(r, n, c)`` of the epoch nearest to the truth, for each of r fields.

    It stands for a user who knows the truth, as in the paper's stopping rule. ``truth`` has the
    shape ``(r, n, c)``, or ``(n, c)`` if it is the same for all fields; the errors are those at the
    ``scored (r, n)`` points.
    """

    def __init__(self, truth: torch.Tensor, scored: torch.Tensor) -> None:
        count, points = scored.shape
        self.truth = truth
        self.scored = scored
        self.errors = torch.full((count,), torch.inf)
        self.fields = torch.zeros(count, points, truth.shape[-1])

    def see(self, fields: torch.Tensor) -> None:
        """Keep the outputs of an epoch that are nearer to the truth than all before."""
        squares = (fields - self.truth).square().sum(dim=-1)
        errors = (squares * self.scored).sum(dim=-1)
        closer = errors < self.errors
        self.errors[closer] = errors[closer]
        self.fields[closer] = fields[closer]


def reproduce_inputs(
    view: NetworkView,
    inputs: np.ndarray,
    observed: np.ndarray,
    truth: np.ndarray,
    scored: np.ndarray,
    seed: int = 0,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Train a network for each field of ``inputs (r, n, c)`` to reproduce it at ``observed (r, n)``
    points.

    Returns the outputs ``(r, n, c)`` of the lowest training loss, and those of the oracle: the
    epoch nearest to the truth ``(r, n, c)`` or ``(n, c)`` at the ``scored (r, n)`` points. The
    truth is used for nothing else.
    """
    signals = view.signal(_single(inputs))
    weights = _single(observed)
    oracle = OracleEpoch(_single(truth), _single(scored))

    def loss(networks: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
        outputs = networks(batch, view.operator)
        with torch.no_grad():
            oracle.see(view.field(outputs))
        squares = (outputs - batch).square().sum(dim=(-2, -1))
        return (squares * weights).sum(dim=-1) / weights.sum(dim=-1)

    networks = Replicas(view.network, len(signals), seed)
    fit(networks, [signals], BatchLoss(loss), progress=False, **options)
    with torch.no_grad():
        final = view.field(networks(signals, view.operator))
    return final.double().numpy(), oracle.fields.double().numpy()


def _single(array: np.ndarray) -> torch.Tensor:
    """An array as a tensor of single precision."""
    return torch.from_numpy(array).float()
