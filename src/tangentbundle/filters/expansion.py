"""Chebyshev coefficients of responses, to a wanted accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..errors import ConvergenceError, NonFiniteError
from .base import Filter
from .properties import Interval

MAX_NODES = 2**14
"""Largest number of nodes tried; a smooth response needs far fewer."""

SHARES = np.concatenate([[0.0], np.geomspace(1e-16, 0.5, 128)])
"""Where expansions are checked: distances from the interval's ends, as shares of its length."""


def _evaluate(filters: Sequence[Filter], points: torch.Tensor) -> torch.Tensor:
    """Responses ``(k, nodes)``, on the device of the filters' parameters."""
    devices = {p.device for f in filters for p in f.parameters()} | {points.device}
    device = next((d for d in devices if d.type != "cpu"), points.device)
    return torch.stack([f.evaluate(points.to(device)) for f in filters])


def _samples(filters: Sequence[Filter], interval: Interval, nodes: int) -> torch.Tensor:
    """Responses ``(k, nodes)`` at the Chebyshev nodes of the interval (z = 1 is its lower end)."""
    low, high = interval
    z = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    return _evaluate(filters, torch.from_numpy(low + (high - low) * (1.0 - z) / 2))


def _transform(samples: torch.Tensor, terms: int) -> torch.Tensor:
    """Coefficients ``(k, terms)`` from samples at Chebyshev nodes, by a fast cosine transform; differentiable."""
    nodes = samples.shape[1]
    turn = torch.polar(*(torch.from_numpy(a) for a in (np.ones(terms), -np.pi / (2 * nodes) * np.arange(terms))))
    sums = (torch.fft.rfft(samples, n=2 * nodes)[:, :terms] * turn.to(samples.device)).real / nodes
    return torch.cat([sums[:, :1], 2 * sums[:, 1:]], dim=1)


def check_points(interval: Interval) -> torch.Tensor:
    """Eigenvalues at which expansions are compared with the responses, dense near both ends of the interval."""
    low, high = interval
    return torch.from_numpy(low + (high - low) * np.concatenate([SHARES, 1.0 - SHARES]))


def expand(filters: Sequence[Filter], interval: Interval, tol: float) -> torch.Tensor:
    """Coefficients ``(k, m)``, float64, whose expansions differ from the responses by at most ``tol`` times their
    maximum.

    The number of terms is the least for which the sum of the coefficients left out is below the tolerance.
    Differentiable in the filters' parameters.
    """
    low, high = interval
    angles = 2 * np.arcsin(np.sqrt(SHARES))
    angles = np.concatenate([angles, np.pi - angles])
    nodes = 32
    with torch.no_grad():
        checks = require_finite(_evaluate(filters, check_points(interval)), low, high).cpu()
    while True:
        with torch.no_grad():
            samples = require_finite(_samples(filters, interval, nodes), low, high).cpu()
            coefficients = _transform(samples, nodes)
            size = torch.cat([samples, checks], dim=1).abs().amax(dim=1, keepdim=True).clamp_min(1e-300)
            # rounding of the transform itself leaves noise of a few units in the last place
            tails = (coefficients.abs() / size).flip(1).cumsum(1).flip(1).amax(dim=0)
            floor = max(tol, 2e-15 * nodes)
            long = torch.nonzero(tails > floor)
            terms = int(long[-1]) + 1 if len(long) else 1
        if terms <= nodes // 2 or (terms <= nodes and nodes >= MAX_NODES):
            # what happens close to an end, like heat after a long time, can lie between coarse nodes
            cosines = torch.from_numpy(np.cos(np.arange(terms)[:, None] * angles))
            errors = (coefficients[:, :terms] @ cosines - checks).abs() / size
            if float(errors.max()) <= 2 * floor:
                break
        if nodes >= MAX_NODES:
            raise ConvergenceError(
                f"{MAX_NODES} Chebyshev terms do not follow this response to {tol:g}: it jumps, or changes on a scale "
                f"far below the operator's largest eigenvalue {interval[1]:.4g}. Use method=Exact() or Lanczos(), a "
                "smoother response, or Chebyshev(order=...) to accept what that order gives."
            )
        nodes *= 2
    return fixed_order(filters, interval, terms, nodes)


def require_finite(responses: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Refuse NaN and infinity among responses at eigenvalues from low to high."""
    if not bool(torch.isfinite(responses).all()):
        raise NonFiniteError(
            f"a response is not finite on the operator's eigenvalues, {low:.4g} to {high:.4g}. Change the filter so "
            "that it is."
        )
    return responses


def fixed_order(filters: Sequence[Filter], interval: Interval, terms: int, nodes: int | None = None) -> torch.Tensor:
    """Coefficients ``(k, terms)`` whatever their accuracy; needs no look at their values."""
    nodes = max(2 * terms, 32) if nodes is None else nodes
    return _transform(_samples(filters, interval, nodes), terms)
