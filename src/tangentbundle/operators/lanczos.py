"""Bounds of a spectrum from a short Lanczos run: products with the operator are all it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal

from ..errors import ConvergenceError

LANCZOS_STEPS = 24
"""Products of a run: the ends of a spectrum then are known to a few percent."""

BOUND_MARGIN = 0.02
"""Share of the spectrum's length by which a bound is wider than Ritz values and residuals say."""

BREAKDOWN_ROUNDINGS = 1e2
"""A run ends where the next vector is so many roundings long: the space is invariant."""


class RitzValues(NamedTuple):
    """Ascending Ritz values of a Lanczos run, and how far from each an eigenvalue may be."""

    values: np.ndarray
    residuals: np.ndarray


@torch.no_grad()
def ritz_values(
    product: Callable[[torch.Tensor], torch.Tensor], mass: torch.Tensor, rank: int
) -> RitzValues:
    """Ritz values of a product with signals ``(n, rank, 1)`` that is self-adjoint in the mass.

    The run starts from one random vector, in the mass inner product, and is fully reorthogonalised.
    """
    weights = mass[:, None, None]

    def inner(f: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return (weights * f * g).sum()

    shape = (len(mass), rank, 1)
    start = torch.from_numpy(np.random.default_rng(0).standard_normal(shape)).to(weights)
    basis = [start / inner(start, start).sqrt()]
    diagonal = []
    couplings = []
    for _ in range(min(LANCZOS_STEPS, start.numel())):
        vector = product(basis[-1])
        diagonal.append(float(inner(basis[-1], vector)))
        for previous in 2 * basis:  # twice is enough
            vector = vector - inner(previous, vector) * previous
        couplings.append(float(inner(vector, vector).sqrt()))
        if couplings[-1] < BREAKDOWN_ROUNDINGS * torch.finfo(vector.dtype).eps:
            break
        basis.append(vector / couplings[-1])
    if not np.isfinite([*diagonal, *couplings]).all():
        raise ConvergenceError(
            "the operator has products that are not finite, and so no eigenpairs. Expected finite "
            "weights: check the tensors that it was made of, such as curvatures of noisy points."
        )
    values, vectors = eigh_tridiagonal(diagonal, couplings[:-1])
    return RitzValues(values, couplings[-1] * np.abs(vectors[-1]))
