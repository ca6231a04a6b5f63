"""Eigenpairs of the connection Laplacian without a dense matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..errors import ConvergenceError

if TYPE_CHECKING:
    from .laplacian import ConnectionLaplacian

DENSE_SIZE = 600
"""Below this many rows a dense eigensolver is faster and certain."""


def lowest_eigenpairs(
    laplacian: ConnectionLaplacian, k: int, *, tol: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Eigenvalues of :math:`-\Delta` ascending, and orthonormal vectors ``(n, d, k)`` of A (curve order)."""
    n, d = laplacian.num_points, laplacian.rank
    size, device = n * d, laplacian.device

    def product(block: np.ndarray) -> np.ndarray:
        x = torch.from_numpy(np.ascontiguousarray(block)).reshape(n, d, -1).to(device)
        return laplacian.symmetric_product(x).cpu().numpy().reshape(block.shape)

    if size <= max(DENSE_SIZE, 3 * k):
        values, vectors = np.linalg.eigh(product(np.eye(size)))
        values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    else:
        start = np.random.default_rng(seed).standard_normal(size)
        operator = LinearOperator((size, size), matvec=product, matmat=product, dtype=np.float64)
        try:
            values, vectors = eigsh(
                operator, k, which="LA", v0=start, tol=tol, ncv=min(size, max(2 * k + 20, 40))
            )
        except ArpackNoConvergence as error:
            raise ConvergenceError(
                f"the eigensolver found {len(error.eigenvalues)} of {k} eigenpairs. Ask for fewer, or "
                "loosen tol."
            ) from error
        values, vectors = values[::-1], vectors[:, ::-1]
    eigenvalues = np.maximum((1.0 - values) / laplacian.scale, 0.0)
    return (
        torch.from_numpy(eigenvalues.copy()),
        torch.from_numpy(vectors.copy()).reshape(n, d, k).to(device),
    )
