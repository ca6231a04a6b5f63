"""The three properties of the paper, measured on an interval of eigenvalues: lowpass, Lipschitz,
non-amplifying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..errors import InvalidInputError
from ..operators import LinearOperator

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
        return (
            f"lowpass: {'yes' if self.lowpass else 'no'}, Lipschitz constant {self.lipschitz:.4g}, "
            f"largest gain {self.gain:.4g} "
            f"({'non-amplifying' if self.gain <= 1 + 1e-12 else 'amplifying'}) on eigenvalues from "
            "{:.4g} to {:.4g}".format(*self.interval)
        )


def interval_of(on: Interval | LinearOperator | None) -> Interval:
    """The interval meant by ``on``; a wide one if nothing is said."""
    if on is None:
        return 0.0, 1e8
    if isinstance(on, LinearOperator):
        return on.spectral_interval
    low, high = on
    if not 0 <= low < high < np.inf:
        raise InvalidInputError(f"an interval of eigenvalues needs 0 <= low < high, got {on}.")
    return float(low), float(high)


def measure(filter: Filter, interval: Interval) -> Properties:
    """Properties of a response at nodes that are dense near both ends of the interval."""
    low, high = interval
    near = np.geomspace(1e-14, 1.0, 10_001)
    shares = np.concatenate([[0.0], near, 1.0 - near, np.linspace(0.0, 1.0, 20_001)])
    lam = torch.from_numpy(np.unique(np.clip(low + (high - low) * shares, low, high)))
    h, slope = (
        torch.cat(parts)
        for parts in zip(*(_differentiate(filter, nodes) for nodes in lam.split(1024)), strict=True)
    )
    size = h.abs()
    if not bool(torch.isfinite(h[1:]).all()):
        raise InvalidInputError(
            "the response is not finite on the interval; filters must be finite for lambda > 0."
        )
    tail, gain = lam >= 0.1 * high, float(size.max())
    weighted = (size * lam.square())[tail]
    decays = bool(weighted[-1] <= 1.05 * weighted[0]) or bool(
        size[tail].max() <= 1e-12 * size[1:].max()
    )
    return Properties(
        decays, _lipschitz(lam, h, slope, gain) if np.isfinite(gain) else np.inf, gain, interval
    )


def _differentiate(filter: Filter, lam: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The response and its derivative at some nodes; NaN where automatic differentiation finds
    none."""
    with torch.inference_mode(False), torch.enable_grad():
        device = next((p.device for p in filter.parameters()), lam.device)
        nodes = lam.to(device, copy=True).requires_grad_()
        values = filter.evaluate(nodes)
        found = (
            torch.autograd.grad(values.sum(), nodes, allow_unused=True)[0]
            if values.requires_grad
            else None
        )
    return values.detach().cpu(), torch.full_like(lam, torch.nan) if found is None else found.cpu()


def _lipschitz(lam: torch.Tensor, h: torch.Tensor, slope: torch.Tensor, gain: float) -> float:
    """The largest derivative or difference quotient; infinite if the response jumps between two
    nodes.

    Changes below 1e-10 of the largest gain, or those that rounding of lambda makes, do not count.
    """
    steep = torch.maximum(slope[:-1].abs(), slope[1:].abs())
    largest = float(steep.nan_to_num(0.0).max())
    rounding = 1e-10 * gain + 1e-15 * largest * lam[1:]
    quotient = (h.diff().abs() - rounding).clamp_min(0.0) / lam.diff()
    return np.inf if bool((quotient > 10 * steep).any()) else max(largest, float(quotient.max()))
