"""Eigenvectors and polar factors of very many small matrices, on any device.

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


def jacobi(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and eigenvectors of symmetric matrices ``(n, m, m)``, m small."""
    size, unit = (
        matrices.shape[1],
        matrices.abs().amax((1, 2)).clamp_min(TINY),
    )  # no squares overflow
    a = {(p, q): matrices[:, p, q] / unit for p in range(size) for q in range(p, size)}
    at = lambda p, q: a[min(p, q), max(p, q)]  # noqa: E731
    vectors = list(torch.eye(size).to(matrices).expand(matrices.shape).unbind(2))
    for _ in range(SWEEPS):
        for p in range(size):
            for q in range(p + 1, size):
                off, gap = a[p, q], a[q, q] - a[p, p]
                sign = torch.where(gap < 0, -1.0, 1.0)
                # the angle that makes (p, q) zero
                tan = (
                    2
                    * sign
                    * off
                    / (gap.abs() + (gap * gap + 4 * off * off).sqrt()).clamp_min(TINY)
                )
                cos = (1 + tan * tan).rsqrt()
                sin = tan * cos
                a[p, p], a[q, q], a[p, q] = (
                    a[p, p] - tan * off,
                    a[q, q] + tan * off,
                    torch.zeros_like(off),
                )
                for r in range(size):
                    if r not in (p, q):
                        rp, rq = at(r, p), at(r, q)
                        a[min(r, p), max(r, p)], a[min(r, q), max(r, q)] = (
                            cos * rp - sin * rq,
                            sin * rp + cos * rq,
                        )
                c, s = cos[:, None], sin[:, None]
                vectors[p], vectors[q] = (
                    c * vectors[p] - s * vectors[q],
                    s * vectors[p] + c * vectors[q],
                )
    values, sort = torch.stack([unit * a[p, p] for p in range(size)], 1).sort(1, descending=True)
    return values, torch.stack(vectors, 2).gather(2, sort[:, None].expand(matrices.shape))


def orthonormal(vectors: Tensor) -> Tensor:
    """Gram-Schmidt, twice, on the columns of ``(n, m, p)``."""
    columns: list[Tensor] = []
    for column in vectors.unbind(2):
        for _ in range(2):
            for other in columns:
                column = column - (other * column).sum(1, keepdim=True) * other
        columns.append(
            column / torch.linalg.vector_norm(column, dim=1, keepdim=True).clamp_min(TINY)
        )
    return torch.stack(columns, 2)


def leading(matrices: Tensor, count: int, exact: bool = False) -> tuple[Tensor, ...]:
    """The ``count`` largest eigenvalues and their vectors of positive semidefinite matrices
    ``(n, m, m)``.

    With ``exact``, which is faster on CPUs, larger matrices are left to LAPACK.
    """
    n, size, _ = matrices.shape
    width = min(size, count + SPARE)
    if size <= JACOBI_SIZE:
        values, vectors = jacobi(matrices)
        return values[:, :count], vectors[:, :, :count]
    if exact:
        return _exact(matrices, count)
    values = torch.empty((n, count), dtype=matrices.dtype, device=matrices.device)
    vectors = values.new_empty((n, size, count))
    todo = torch.arange(n, device=values.device)
    start = torch.from_numpy(np.random.default_rng(0).standard_normal((size, width))).to(matrices)
    basis, rest = start.expand(n, size, width), matrices
    for _ in range(MAX_ROUNDS):
        for _ in range(4):
            basis = orthonormal(rest @ basis)
        images = rest @ basis
        found, turn = jacobi(basis.mT @ images)
        new = basis @ turn[:, :, :count]
        error = torch.linalg.vector_norm(
            images @ turn[:, :, :count] - new * found[:, None, :count], dim=(1, 2)
        )
        done = error <= 1e-9 * found[:, 0].clamp_min(TINY)
        values[todo[done]], vectors[todo[done]] = found[done, :count], new[done]
        todo, rest, basis = todo[~done], rest[~done], basis[~done]
        if not len(todo):
            return values, vectors
    values[todo], vectors[todo] = _exact(rest, count)
    return values, vectors


def _exact(matrices: Tensor, count: int) -> tuple[Tensor, ...]:
    """The same by LAPACK, whose eigenvalues ascend."""
    return lapack(
        lambda some: [part[..., ::-1][..., :count] for part in np.linalg.eigh(some)], matrices
    )


def lapack(function: Callable, matrices: Tensor) -> tuple[Tensor, ...]:
    """What a function of NumPy returns for matrices ``(n, m, m)``, computed on the CPU by several
    threads."""
    pieces: dict[int, tuple] = {}
    arrays = host(matrices)

    def solve(start: int, stop: int) -> None:
        pieces[start] = tuple(function(arrays[start:stop]))

    run_ranges(solve, len(arrays), grain=64)
    parts = zip(*(pieces[start] for start in sorted(pieces)), strict=True)
    return tuple(torch.from_numpy(np.concatenate(part)).to(matrices) for part in parts)


def polar_factors(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Closest orthogonal matrices to ``(e, d, d)`` with singular values up to one, and which are
    not defined.

    Newton-Schulz iteration; the few that are nearly singular are left to LAPACK.
    """
    near, eye = maps, torch.eye(maps.shape[1]).to(maps)
    for _ in range(20):
        near = near @ (1.5 * eye - 0.5 * (product := near.mT @ near))
        error = (product - eye).abs().amax((1, 2))
        if bool((error < 1e-7).all()):  # before this step, which squares it
            break
    bad = (error >= 1e-7).nonzero().flatten()
    left, sizes, right = lapack(np.linalg.svd, maps[bad])
    near[bad] = left @ right
    faint = torch.zeros(len(maps), dtype=torch.bool, device=maps.device)
    faint[bad] = sizes[:, -1] < 1e-9
    return near, faint
