"""The three properties of the paper, measured on an interval of eigenvalues: lowpass, Lipschitz,
non-amplifying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..errors import InvalidInputError
from ..operators import SquareOperator

if TYPE_CHECKING:
    from .base import Filter

Interval = tuple[float, float]
"""Least and largest eigenvalue looked at."""


@dataclass(frozen=True)
class Properties:
    """What was found of a response on an ``interval`` of eigenvalues; see ``Filter.properties``."""

    lowpass: bool
    lipschitz: float
    gain: float
    interval: Interval

    def __str__(self) -> str:
        lowest, highest = self.interval
        decay = "yes" if self.lowpass else "no"
        effect = "non-amplifying" if self.gain <= 1 + 1e-12 else "amplifying"
        return (
            f"lowpass: {decay}, Lipschitz constant {self.lipschitz:.4g}, largest gain "
            f"{self.gain:.4g} ({effect}) on eigenvalues from {lowest:.4g} to {highest:.4g}"
        )


def interval_of(on: Interval | SquareOperator | None) -> Interval:
    """The interval meant by ``on``; a wide one if nothing is said."""
    if on is None:
        return 0.0, 1e8
    if isinstance(on, SquareOperator):
        return on.spectral_interval
    lowest, highest = on
    if not 0 <= lowest < highest < np.inf:
        raise InvalidInputError(f"an interval of eigenvalues needs 0 <= low < high, got {on}.")
    return float(lowest), float(highest)


def measure(filter: Filter, interval: Interval) -> Properties:
    """Properties of a response at nodes that are dense near both ends of the interval."""
    nodes = _nodes(interval)
    pieces = [_differentiate(filter, piece) for piece in nodes.split(1024)]
    responses = torch.cat([response for response, _ in pieces])
    slopes = torch.cat([slope for _, slope in pieces])
    if not bool(torch.isfinite(responses[1:]).all()):
        raise InvalidInputError(
            "the response is not finite on the interval; filters must be finite for lambda > 0."
        )
    size = responses.abs()
    gain = float(size.max())
    lipschitz = np.inf
    if np.isfinite(gain):
        lipschitz = _lipschitz(nodes, responses, slopes, gain)
    return Properties(_is_lowpass(nodes, size), lipschitz, gain, interval)


def _nodes(interval: Interval) -> torch.Tensor:
    """Eigenvalues in an interval, ascending, dense near both of its ends."""
    lowest, highest = interval
    distances = np.geomspace(1e-14, 1.0, 10_001)
    shares = np.concatenate([[0.0], distances, 1.0 - distances, np.linspace(0.0, 1.0, 20_001)])
    values = lowest + (highest - lowest) * shares
    return torch.from_numpy(np.unique(np.clip(values, lowest, highest)))


def _is_lowpass(nodes: torch.Tensor, size: torch.Tensor) -> bool:
    """Whether the last decade falls at least as fast as one over lambda squared, or is
    negligible."""
    tail = nodes >= 0.1 * nodes[-1]
    weighted = (size * nodes.square())[tail]
    if bool(weighted[-1] <= 1.05 * weighted[0]):
        return True
    return bool(size[tail].max() <= 1e-12 * size[1:].max())


def _differentiate(filter: Filter, lam: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The response and its derivative at some nodes; NaN where automatic differentiation finds
    none."""
    device = lam.device
    for parameter in filter.parameters()[:1]:
        device = parameter.device
    slopes = None
    with torch.inference_mode(False), torch.enable_grad():
        nodes = lam.to(device, copy=True).requires_grad_()
        values = filter.evaluate(nodes)
        if values.requires_grad:
            (slopes,) = torch.autograd.grad(values.sum(), nodes, allow_unused=True)
    if slopes is None:
        slopes = torch.full_like(lam, torch.nan)
    return values.detach().cpu(), slopes.cpu()


def _lipschitz(lam: torch.Tensor, h: torch.Tensor, slope: torch.Tensor, gain: float) -> float:
    """The largest derivative or difference quotient; infinite if the response jumps between two
    nodes.

    Changes below 1e-10 of the largest gain, or those that rounding of lambda makes, do not count.
    """
    steep = torch.maximum(slope[:-1].abs(), slope[1:].abs())
    largest = float(steep.nan_to_num(0.0).max())
    rounding = 1e-10 * gain + 1e-15 * largest * lam[1:]
    quotient = (h.diff().abs() - rounding).clamp_min(0.0) / lam.diff()
    if bool((quotient > 10 * steep).any()):
        return np.inf
    return max(largest, float(quotient.max()))
