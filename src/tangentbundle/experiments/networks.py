"""The paper's networks on fields: how they see vectors, and how they are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..nn import TNN, Coordinatewise
from ..operators import SquareOperator
from ..training import Replicas, fit


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
        return self.components if self.frames is None else 1

    def signal(self, field: torch.Tensor) -> torch.Tensor:
        if self.frames is None:
            return field[..., None, :]
        return torch.einsum("nia,...ni->...na", self.frames, field)[..., None]

    def field(self, signal: torch.Tensor) -> torch.Tensor:
        if self.frames is None:
            return signal[..., 0, :]
        return torch.einsum("nia,...na->...ni", self.frames, signal[..., 0])

    def network(self, seed: int = 0) -> TNN:
        """The paper's network of three layers."""
        widths = [self.channels, 8, 4, self.channels]
        return TNN(widths, self.taps, activation=Coordinatewise(torch.tanh), seed=seed)


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
    epoch nearest to the truth at the ``scored`` points. The truth is used for nothing else.
    """
    fields, exact, known, judged = (
        torch.from_numpy(a).float() for a in (inputs, truth, observed, scored)
    )
    x, nearest, oracle = (
        view.signal(fields),
        torch.full((len(fields),), torch.inf),
        torch.zeros_like(fields),
    )

    def loss(nets: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
        output = nets(batch, view.operator)
        with torch.no_grad():
            field = view.field(output)
            errors = ((field - exact).square().sum(dim=-1) * judged).sum(dim=-1)
            closer = errors < nearest
            nearest[closer], oracle[closer] = errors[closer], field[closer]
        return ((output - batch).square().sum(dim=(-2, -1)) * known).sum(dim=-1) / known.sum(dim=-1)

    nets = Replicas(view.network, len(fields), seed)
    fit(nets, [x], loss, progress=False, **options)
    with torch.no_grad():
        final = view.field(nets(x, view.operator))
    return final.double().numpy(), oracle.double().numpy()
