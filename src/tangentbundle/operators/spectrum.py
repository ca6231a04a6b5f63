"""Eigenpairs of the connection Laplacian without a dense matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal

from ..errors import ConvergenceError
from ..memory import require_memory
from .base import MAX_DENSE_SIZE
from .product import step, unsort_rows
from .storage import BlockMatrix, along_curve

if TYPE_CHECKING:
    from .laplacian import ConnectionLaplacian

DENSE_SIZE = 600
"""Up to this many rows a dense eigensolver is faster and certain."""

GROWTH = 14.0
"""Logarithm of the greatest amplification of one filter: more would cost digits."""

MAX_FILTERS = 200
"""Filters before the eigensolver gives up."""


def lowest_eigenpairs(
    laplacian: ConnectionLaplacian, k: int, *, tol: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Eigenvalues of :math:`-\Delta` ascending, and mass-orthonormal fields ``(n, d, k)``; residuals below tol."""
    size = laplacian.shape[0]
    if size <= max(DENSE_SIZE, min(3 * k, MAX_DENSE_SIZE)):
        _require_rows(size, size, k)
        values, fields = laplacian.decompose()
        return values[:k], fields[..., :k].contiguous()
    averages, fields = _filtered_subspace(laplacian, k, tol, seed)
    return laplacian.generator((1.0 - averages).clamp_min(0.0)), fields


def _filtered_subspace(
    laplacian: ConnectionLaplacian, k: int, tol: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The top k eigenpairs of P by Chebyshev-filtered subspace iteration (Zhou, Saad, Tiago and Chelikowsky, 2006).

    On an oriented surface every eigenvalue is double. Lanczos iteration from one vector (ARPACK) can stop with one
    field of each eigenspace; a block of random fields contains all of them.
    """
    n, d = laplacian.num_points, laplacian.dim
    indptr, cols, values, order, mass = laplacian.curve
    matrix = along_curve(indptr, cols, values, order)
    root = mass.index_select(0, order).sqrt()[:, None, None]
    guard = max(12, min(k, 32 + k // 4))  # the next eigenvalues too, so that a cluster at k is seldom cut
    width = min(n * d, 4 * -(-(k + guard) // 4))
    _require_rows(n * d, width, k)
    low = least_average(laplacian)
    noise = np.random.default_rng(seed).standard_normal((n * d, width))
    block = torch.from_numpy(noise).to(root)
    for _ in range(MAX_FILTERS):
        basis = torch.linalg.qr(block)[0]
        fields = (basis.reshape(n, d, width) / root).contiguous()
        images = torch.empty_like(fields)
        step(matrix, fields, fields, images, (1.0, 0.0, 0.0))
        images = (images * root).flatten(0, 1)
        ritz = basis.T @ images
        values, turn = torch.linalg.eigh((ritz + ritz.T) / 2)
        values, turn = values.flip(0), turn.flip(1)
        basis = basis @ turn
        residual = torch.linalg.vector_norm(images @ turn[:, :k] - basis[:, :k] * values[:k], dim=0)
        fields = (basis.reshape(n, d, width) / root).contiguous()
        if float(residual.max()) <= max(tol, 1e-13):
            return values[:k], unsort_rows(fields[:, :, :k].contiguous(), order)
        block = (_amplify(matrix, fields, low, float(values[-1])) * root).flatten(0, 1)
        block = block / torch.linalg.vector_norm(block, dim=0)
    raise ConvergenceError(
        f"the eigensolver has {int((residual <= tol).sum())} of {k} eigenpairs after {MAX_FILTERS} rounds. Loosen tol, "
        "or ask for a few more or fewer: the next eigenvalues lie too close."
    )


def _require_rows(size: int, width: int, k: int) -> None:
    """Refuse eigenpairs whose five float64 work arrays ``(size, width)`` do not fit."""
    require_memory(5 * 8.0 * size * width, f"{k} eigenpairs of {size} rows", "Ask for fewer, or use fewer points.")


def _amplify(matrix: BlockMatrix, fields: torch.Tensor, low: float, cut: float) -> torch.Tensor:
    """A Chebyshev polynomial of P on fields: at most one on [low, cut], steeply growing above."""
    middle, radius = (cut + low) / 2, (cut - low) / 2
    degree = int(np.clip(GROWTH / np.arccosh(max(1.0 + 1e-6, (1.0 - middle) / radius)), 8, 160))
    previous, current = fields, torch.empty_like(fields)
    step(matrix, fields, fields, current, (1 / radius, -middle / radius, 0.0))
    for _ in range(degree - 1):
        step(matrix, current, previous, previous, (2 / radius, -2 * middle / radius, -1.0))
        previous, current = current, previous
    return current


def least_average(laplacian: ConnectionLaplacian, steps: int = 24) -> float:
    """A lower bound of P's spectrum: the least Ritz value of a short Lanczos run, less its residual and a margin."""
    root = laplacian.mass.sqrt()[:, None, None]
    shape = (laplacian.num_points, laplacian.dim, 1)
    current = torch.from_numpy(np.random.default_rng(0).standard_normal(shape)).to(root)
    previous, current = torch.zeros_like(current), current / current.norm()
    alpha, beta = np.zeros(steps), np.zeros(steps)
    for m in range(min(steps, current.numel())):
        new = root * laplacian.average(current / root) - (beta[m - 1] if m else 0.0) * previous
        alpha[m] = float((new * current).sum())
        new -= alpha[m] * current
        beta[m] = float(new.norm())
        if beta[m] < 1e-10:
            break
        previous, current = current, new / beta[m]
    values, vectors = eigh_tridiagonal(alpha[: m + 1], beta[:m])
    residual = beta[m] * abs(vectors[-1, 0])
    return max(-1.0, float(values[0] - residual - 0.02 * (1.0 - values[0])))
