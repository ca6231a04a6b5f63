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


def _cosines(nodes: int, count: int) -> torch.Tensor:
    """The matrix ``(nodes, count)`` that turns samples at Chebyshev nodes into coefficients."""
    angles = np.pi * (np.arange(nodes) + 0.5) / nodes
    matrix = np.cos(angles[:, None] * np.arange(count)) * (2.0 / nodes)
    matrix[:, 0] *= 0.5
    return torch.from_numpy(matrix)


def _samples(filters: Sequence[Filter], interval: Interval, nodes: int) -> torch.Tensor:
    """Responses ``(k, nodes)`` at the Chebyshev nodes of the interval (z = 1 is its lower end)."""
    low, high = interval
    z = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    lam = torch.from_numpy(low + (high - low) * (1.0 - z) / 2)
    devices = {p.device for f in filters for p in f.parameters()} | {lam.device}
    device = next((d for d in devices if d.type != "cpu"), lam.device)
    return torch.stack([f.evaluate(lam.to(device)) for f in filters])


def expand(filters: Sequence[Filter], interval: Interval, tol: float) -> torch.Tensor:
    """Coefficients ``(k, m)``, float64, whose expansions differ from the responses by at most ``tol`` times their
    maximum.

    The number of terms is the least for which the sum of the coefficients left out is below the tolerance.
    Differentiable in the filters' parameters.
    """
    nodes = 32
    while True:
        with torch.no_grad():
            samples = _samples(filters, interval, nodes).cpu()
            if not bool(torch.isfinite(samples).all()):
                raise NonFiniteError(
                    f"a response is not finite on the operator's eigenvalues, {interval[0]:.4g} to {interval[1]:.4g}."
                )
            coefficients = _transform(samples)
            size = samples.abs().amax(dim=1, keepdim=True).clamp_min(1e-300)
            # rounding of the transform itself leaves noise of a few units in the last place
            tails = (coefficients.abs() / size).flip(1).cumsum(1).flip(1).amax(dim=0)
            floor = max(tol, 2e-15 * nodes)
            long = torch.nonzero(tails > floor)
            terms = int(long[-1]) + 1 if len(long) else 1
        if terms <= nodes // 2 or (terms <= nodes and nodes >= MAX_NODES):
            break
        if nodes >= MAX_NODES:
            raise ConvergenceError(
                f"{MAX_NODES} Chebyshev terms do not follow this response to {tol:g}: it jumps, or changes on a scale "
                f"far below the operator's largest eigenvalue {interval[1]:.4g}. Use method=Exact() or Lanczos(), a "
                "smoother response, or Chebyshev(order=...) to accept what that order gives."
            )
        nodes *= 2
    return fixed_order(filters, interval, terms, nodes)


def fixed_order(filters: Sequence[Filter], interval: Interval, terms: int, nodes: int | None = None) -> torch.Tensor:
    """Coefficients ``(k, terms)`` whatever their accuracy; needs no look at their values."""
    nodes = max(2 * terms, 32) if nodes is None else nodes
    samples = _samples(filters, interval, nodes)
    return samples @ _cosines(nodes, terms).to(samples.device)


def _transform(samples: torch.Tensor) -> torch.Tensor:
    """All coefficients by a fast cosine transform, for choosing the order."""
    from scipy.fft import dct

    nodes = samples.shape[1]
    coefficients = torch.from_numpy(dct(samples.numpy(), type=2, axis=1)) / nodes
    coefficients[:, 0] *= 0.5
    return coefficients
