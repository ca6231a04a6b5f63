"""Eigenvectors, polar factors and inverse roots of very many small matrices, on any device.

Batched eigensolvers and singular values of CUDA libraries are slow for millions of small matrices,
or refuse them: here Jacobi rotations, subspace iteration and Newton-Schulz iteration work on all
matrices at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..arrays import host
from ..parallel import run_ranges

TINY = 1e-300

JACOBI_SIZE = 4
"""Matrices up to this size are decomposed completely."""

SWEEPS = 5
"""Rounds of Jacobi rotations, after which matrices of this size are diagonal to the last digits."""

SPARE = 2
"""Columns of a subspace in addition to those asked for."""

MAX_ROUNDS = 12
"""Checks of a subspace, each after four products, before LAPACK takes over what has not
converged."""

SUBSPACE_TOLERANCE = 1e-9
"""Residual of a subspace, in units of the largest eigenvalue, at which it has converged."""

MAX_NEWTON_STEPS = 20
"""Steps of the Newton-Schulz iteration before LAPACK takes over."""

ORTHOGONALITY = 1e-7
"""Error of a matrix from orthogonal that the next step, which squares it, makes rounding."""


class _UpperTriangles:
    """The upper triangles of symmetric matrices ``(n, m, m)``: an entry (p, q) of all of them is
    one tensor ``(n,)``."""

    def __init__(self, matrices: Tensor) -> None:
        self.size = matrices.shape[1]
        self.entries = {}
        for p in range(self.size):
            for q in range(p, self.size):
                self.entries[p, q] = matrices[:, p, q]

    def __getitem__(self, place: tuple[int, int]) -> Tensor:
        p, q = place
        return self.entries[min(p, q), max(p, q)]

    def __setitem__(self, place: tuple[int, int], values: Tensor) -> None:
        p, q = place
        self.entries[min(p, q), max(p, q)] = values

    def rotate(self, p: int, q: int) -> tuple[Tensor, Tensor]:
        """Make the entries (p, q) zero by a rotation; returns its cosines and sines."""
        off = self[p, q]
        gap = self[q, q] - self[p, p]
        sign = torch.where(gap < 0, -1.0, 1.0)
        hypotenuse = (gap * gap + 4 * off * off).sqrt()
        tan = 2 * sign * off / (gap.abs() + hypotenuse).clamp_min(TINY)
        cos = (1 + tan * tan).rsqrt()
        sin = tan * cos
        self[p, p] = self[p, p] - tan * off
        self[q, q] = self[q, q] + tan * off
        self[p, q] = torch.zeros_like(off)
        for r in range(self.size):
            if r not in (p, q):
                at_p = self[r, p]
                at_q = self[r, q]
                self[r, p] = cos * at_p - sin * at_q
                self[r, q] = sin * at_p + cos * at_q
        return cos, sin


def jacobi(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and eigenvectors of symmetric matrices ``(n, m, m)``, m small."""
    size = matrices.shape[1]
    unit = matrices.abs().amax((1, 2)).clamp_min(TINY)  # no squares overflow
    scaled = _UpperTriangles(matrices / unit[:, None, None])
    vectors = list(torch.eye(size).to(matrices).expand(matrices.shape).unbind(2))
    for _ in range(SWEEPS):
        for p in range(size):
            for q in range(p + 1, size):
                cos, sin = scaled.rotate(p, q)
                first = vectors[p]
                second = vectors[q]
                vectors[p] = cos[:, None] * first - sin[:, None] * second
                vectors[q] = sin[:, None] * first + cos[:, None] * second
    diagonal = torch.stack([unit * scaled[p, p] for p in range(size)], 1)
    values, places = diagonal.sort(1, descending=True)
    columns = places[:, None].expand(matrices.shape)
    return values, torch.stack(vectors, 2).gather(2, columns)


def orthonormal(vectors: Tensor) -> Tensor:
    """Gram-Schmidt, twice, on the columns of ``(n, m, p)``."""
    columns: list[Tensor] = []
    for column in vectors.unbind(2):
        for _ in range(2):
            for other in columns:
                column = column - (other * column).sum(1, keepdim=True) * other
        length = torch.linalg.vector_norm(column, dim=1, keepdim=True)
        columns.append(column / length.clamp_min(TINY))
    return torch.stack(columns, 2)


def leading(matrices: Tensor, count: int, exact: bool = False) -> tuple[Tensor, Tensor]:
    """The ``count`` largest eigenvalues and their vectors of positive semidefinite matrices
    ``(n, m, m)``.

    With ``exact``, which is faster on CPUs, larger matrices are left to LAPACK.
    """
    size = matrices.shape[1]
    if size <= JACOBI_SIZE:
        values, vectors = jacobi(matrices)
        return values[:, :count], vectors[:, :, :count]
    if exact:
        return _leading_by_lapack(matrices, count)
    return _leading_by_subspaces(matrices, count)


def _leading_by_subspaces(matrices: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same by subspace iteration, from a random subspace."""
    n, size, _ = matrices.shape
    width = min(size, count + SPARE)
    values = matrices.new_empty((n, count))
    vectors = matrices.new_empty((n, size, count))
    remaining = torch.arange(n, device=matrices.device)
    random = np.random.default_rng(0).standard_normal((size, width))
    basis = torch.from_numpy(random).to(matrices).expand(n, size, width)
    for _ in range(MAX_ROUNDS):
        for _ in range(4):
            basis = orthonormal(matrices @ basis)
        images = matrices @ basis
        ritz_values, turn = jacobi(basis.mT @ images)
        ritz_values = ritz_values[:, :count]
        turn = turn[:, :, :count]
        ritz_vectors = basis @ turn
        residuals = images @ turn - ritz_vectors * ritz_values[:, None]
        errors = torch.linalg.vector_norm(residuals, dim=(1, 2))
        done = errors <= SUBSPACE_TOLERANCE * ritz_values[:, 0].clamp_min(TINY)
        values[remaining[done]] = ritz_values[done]
        vectors[remaining[done]] = ritz_vectors[done]
        remaining = remaining[~done]
        if len(remaining) == 0:
            return values, vectors
        matrices = matrices[~done]
        basis = basis[~done]
    values[remaining], vectors[remaining] = _leading_by_lapack(matrices, count)
    return values, vectors


def _leading_by_lapack(matrices: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same by LAPACK, whose eigenvalues ascend."""

    def decompose(arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(arrays)
        return values[:, ::-1][:, :count], vectors[:, :, ::-1][:, :, :count]

    values, vectors = lapack(decompose, matrices)
    return values, vectors


def lapack(function: Callable[[np.ndarray], tuple], matrices: Tensor) -> tuple[Tensor, ...]:
    """What a function of NumPy returns for matrices ``(n, m, m)``, computed on the CPU by several
    threads."""
    results: dict[int, tuple] = {}
    arrays = host(matrices)

    def solve(start: int, stop: int) -> None:
        results[start] = tuple(function(arrays[start:stop]))

    run_ranges(solve, len(arrays), grain=64)
    in_order = [results[start] for start in sorted(results)]
    outputs = [np.concatenate(pieces) for pieces in zip(*in_order, strict=True)]
    return tuple(torch.from_numpy(output).to(matrices) for output in outputs)


def polar_factors(maps: Tensor, min_singular_value: float) -> tuple[Tensor, Tensor]:
    """Closest orthogonal matrices to ``(e, d, d)`` with singular values up to one, and which are
    not defined, as a singular value is below the least.

    Newton-Schulz iteration; the few that are nearly singular are left to LAPACK.
    """
    factors = maps
    unit = torch.eye(maps.shape[1]).to(maps)
    for _ in range(MAX_NEWTON_STEPS):
        product = factors.mT @ factors
        factors = factors @ (1.5 * unit - 0.5 * product)
        errors = (product - unit).abs().amax((1, 2))  # before this step
        if bool((errors < ORTHOGONALITY).all()):
            break
    undefined = torch.zeros(len(maps), dtype=torch.bool, device=maps.device)
    slow = (errors >= ORTHOGONALITY).nonzero().flatten()
    if len(slow):
        left, singular_values, right = lapack(np.linalg.svd, maps[slow])
        factors[slow] = left @ right
        undefined[slow] = singular_values[:, -1] < min_singular_value
    return factors, undefined


def eye_like(matrices: Tensor) -> Tensor:
    """The unit matrix of the last two axes."""
    return torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)


def inverse_root(a: Tensor) -> Tensor:
    r"""The inverse roots :math:`X = A^{-1/2}`, on the range of A, of symmetric semidefinite
    matrices ``(..., d, d)``.

    X comes from eigenvectors without gradients, which would not exist for equal eigenvalues. Two
    Newton steps for :math:`X A X = I`, :math:`A^{1/2} E + E A^{1/2} = I - X A X`, leave it as it is
    and add derivatives of order two.
    """
    with torch.no_grad():
        values, basis = torch.linalg.eigh(a)
        rounding = values[..., -1:] * (a.shape[-1] * torch.finfo(a.dtype).eps)
        roots = torch.where(values > rounding, values, 0.0).sqrt()
        inverses = torch.where(roots > 0, 1 / roots, 0.0)
        x = (basis * inverses[..., None, :]) @ basis.mT
        projection = (basis * (roots > 0)[..., None, :]) @ basis.mT
        sums = roots[..., :, None] + roots[..., None, :]
        weights = torch.where(sums > 0, 1 / sums, 0.0)
    for _ in range(2):
        error = basis.mT @ (projection - x @ a @ x) @ basis
        x = x + basis @ (weights * error) @ basis.mT
    return x
