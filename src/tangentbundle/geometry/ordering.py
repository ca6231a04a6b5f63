"""Sort points along a space-filling (Hilbert) curve, so that neighbours are near in memory."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..parallel import run_ranges

BITS = 16
"""Cells along each axis, as a power of two; three axes fit in one 64-bit code."""


@njit(cache=True, nogil=True)
def _hilbert_codes(start, stop, cells, out):  # pragma: no cover - compiled
    """Position on the curve of each cell (J. Skilling, Programming the Hilbert curve, 2004)."""
    dims = cells.shape[1]
    for r in range(start, stop):
        cell = cells[r]
        bit = np.int64(1) << (BITS - 1)
        while bit > 1:  # undo the rotations and reflections of each level
            below = bit - 1
            for a in range(dims):
                if cell[a] & bit:
                    cell[0] ^= below
                else:
                    swap = (cell[0] ^ cell[a]) & below
                    cell[0] ^= swap
                    cell[a] ^= swap
            bit >>= 1
        for a in range(1, dims):  # Gray code
            cell[a] ^= cell[a - 1]
        flip = np.int64(0)
        bit = np.int64(1) << (BITS - 1)
        while bit > 1:
            if cell[dims - 1] & bit:
                flip ^= bit - 1
            bit >>= 1
        code = np.int64(0)
        for level in range(BITS - 1, -1, -1):
            for a in range(dims):
                code = (code << 1) | (((cell[a] ^ flip) >> level) & 1)
        out[r] = code


def principal_axes(sample: np.ndarray) -> np.ndarray:
    """Orthonormal directions ``(D, q)`` of centred points, that of the greatest spread first."""
    sample = sample / max(float(np.abs(sample).max()), np.finfo(float).tiny)
    if len(sample) <= sample.shape[1]:
        return np.linalg.svd(sample, full_matrices=False)[2].T
    return np.linalg.eigh(sample.T @ sample)[1][:, ::-1]


def principal_coordinates(points: np.ndarray, count: int | None = None) -> np.ndarray:
    """The cloud centred and turned to its principal axes, widest first: all distances stay.

    ``count`` keeps only the first few coordinates, and those without any spread are left out. The axes are those of a
    sample when there are many points.

    >>> np.abs(principal_coordinates(np.array([[0.0, 1.0], [0.0, -1.0]]), 1)).round(9).tolist()
    [[1.0], [1.0]]
    """
    n, dims = points.shape
    centred = points - points.mean(axis=0)
    axes = principal_axes(centred[:: max(1, n // max(4000, 4 * dims))])
    turned = centred @ axes[:, :count]
    spread = np.ptp(turned, axis=0)
    return np.ascontiguousarray(turned[:, spread >= 1e-13 * spread.max()])


def curve_order(points: np.ndarray) -> np.ndarray:
    """Return the permutation that sorts ``(n, D)`` points along a Hilbert curve.

    For D > 3 the curve runs through the three principal axes of the cloud.

    >>> curve_order(np.array([[0.9], [0.1], [0.5]])).tolist()
    [1, 2, 0]
    """
    if points.shape[1] > 3:
        points = principal_coordinates(points, 3)
    low, high = points.min(axis=0), points.max(axis=0)
    return np.argsort(curve_codes(points, low, float((high - low).max()) or 1.0), kind="stable")


def curve_codes(points: np.ndarray, low: np.ndarray, extent: float) -> np.ndarray:
    """Places on the Hilbert curve, int64 ``(n,)``, of points ``(n, D <= 3)`` in the cube of width ``extent`` at
    ``low``.

    >>> curve_codes(np.array([[0.9], [0.1]]), np.zeros(1), 1.0).tolist()
    [58981, 6553]
    """
    cells = ((points - low) / extent * (2**BITS - 1)).astype(np.int64)
    codes = np.empty(len(cells), np.int64)
    run_ranges(_hilbert_codes, len(cells), cells, codes)
    return codes
