"""Eigenpairs of the connection Laplacian without a dense matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..errors import ConvergenceError

if TYPE_CHECKING:
    from .laplacian import ConnectionLaplacian

DENSE_SIZE = 600
"""Below this many rows a dense eigensolver is faster and certain."""


def symmetric_product(laplacian: ConnectionLaplacian) -> tuple[LinearOperator, np.ndarray]:
    r"""The symmetric matrix :math:`A = M^{1/2} P M^{-1/2}` for scipy's solvers, and :math:`\sqrt{m}` (n d,)."""
    n, d = laplacian.num_points, laplacian.dim
    root = laplacian.mass.sqrt().repeat_interleave(d).cpu().numpy()

    def product(block: np.ndarray) -> np.ndarray:
        weight = root.reshape(-1, *([1] * (block.ndim - 1)))
        x = torch.from_numpy(np.ascontiguousarray(block / weight)).reshape(n, d, -1)
        return weight * laplacian.average(x.to(laplacian.device)).cpu().numpy().reshape(block.shape)

    return LinearOperator((n * d,) * 2, matvec=product, matmat=product, dtype=root.dtype), root


def lowest_eigenpairs(
    laplacian: ConnectionLaplacian, k: int, *, tol: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Eigenvalues of :math:`-\Delta` ascending, and mass-orthonormal fields ``(n, d, k)``."""
    operator, root = symmetric_product(laplacian)
    size = operator.shape[0]
    if size <= max(DENSE_SIZE, 3 * k):
        values, vectors = np.linalg.eigh(operator.matmat(np.eye(size)))
        values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    else:
        start = np.random.default_rng(seed).standard_normal(size)
        space = min(size, max(2 * k + 20, 40))
        try:
            values, vectors = eigsh(operator, k, which="LA", v0=start, tol=tol, ncv=space)
        except ArpackNoConvergence as error:
            raise ConvergenceError(
                f"the eigensolver found {len(error.eigenvalues)} of {k} eigenpairs. Ask for fewer, or loosen tol."
            ) from error
        values, vectors = values[::-1], vectors[:, ::-1]
    eigenvalues = np.maximum((1.0 - values) / laplacian.scale, 0.0)
    fields = (vectors / root[:, None]).reshape(laplacian.num_points, laplacian.dim, k)
    return torch.from_numpy(eigenvalues), torch.from_numpy(fields)


def least_average(laplacian: ConnectionLaplacian, steps: int = 24) -> float:
    """A lower bound of P's spectrum: the least Ritz value of a short Lanczos run, less its residual and a margin."""
    operator, _ = symmetric_product(laplacian)
    rng = np.random.default_rng(0)
    previous, current = np.zeros(operator.shape[0]), rng.standard_normal(operator.shape[0])
    current /= np.linalg.norm(current)
    alpha, beta = np.zeros(steps), np.zeros(steps)
    for m in range(min(steps, operator.shape[0])):
        new = operator.matvec(current) - (beta[m - 1] if m else 0.0) * previous
        alpha[m] = new @ current
        new -= alpha[m] * current
        beta[m] = np.linalg.norm(new)
        if beta[m] < 1e-10:
            break
        previous, current = current, new / beta[m]
    count = m + 1
    values, vectors = eigh_tridiagonal(alpha[:count], beta[: count - 1])
    residual = beta[count - 1] * abs(vectors[-1, 0])
    return max(-1.0, float(values[0] - residual - 0.02 * (1.0 - values[0])))
