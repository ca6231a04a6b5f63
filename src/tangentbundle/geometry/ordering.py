"""Sort points along a space-filling (Hilbert) curve, so that neighbours are near in memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..arrays import host
from ..parallel import run_ranges

BITS = 16
"""Cells along each axis, as a power of two; three axes fit in one 64-bit code."""

CHUNK = 2**12
"""Points whose codes are computed at a time by a thread: their coordinates stay in cache."""


def _hilbert_codes(cell: list[Any]) -> Any:
    """Places on the curve of cells, from their integer coordinates along each axis, arrays or tensors, overwritten.

    The algorithm is that of J. Skilling, Programming the Hilbert curve (2004).
    """
    for level in range(BITS - 1, 0, -1):  # undo the rotations and reflections of each level
        below = (1 << level) - 1
        for axis in cell:
            up = -(axis >> level & 1)  # all bits, or none
            swap = (cell[0] ^ axis) & below & ~up
            cell[0] ^= below & up | swap
            if axis is not cell[0]:
                axis ^= swap
    for before, axis in pairwise(cell):  # Gray code
        axis ^= before
    flip, code = cell[0] ^ cell[0], cell[0] ^ cell[0]
    for level in range(BITS - 1, 0, -1):
        flip ^= -(cell[-1] >> level & 1) & (1 << level) - 1
    for level in range(BITS - 1, -1, -1):
        for axis in cell:
            code = code << 1 | (axis ^ flip) >> level & 1
    return code


def principal_axes(centred: Any) -> np.ndarray:
    """Orthonormal directions ``(D, q)`` of centred points, an array or a tensor, that of the greatest spread first.

    They are those of a sample when there are many points.
    """
    n, dims = centred.shape
    sample = host(centred[:: max(1, n // max(4000, 4 * dims))])
    sample = sample / max(float(np.abs(sample).max()), np.finfo(float).tiny)
    if len(sample) <= sample.shape[1]:
        return np.linalg.svd(sample, full_matrices=False)[2].T
    return np.linalg.eigh(sample.T @ sample)[1][:, ::-1]


def principal_coordinates(points: np.ndarray, count: int | None = None) -> np.ndarray:
    """The cloud centred and turned to its principal axes, widest first: all distances stay.

    ``count`` keeps only the first few coordinates, and those without any spread are left out.

    >>> np.abs(principal_coordinates(np.array([[0.0, 1.0], [0.0, -1.0]]), 1)).round(9).tolist()
    [[1.0], [1.0]]
    """
    centred = points - points.mean(axis=0)
    turned = centred @ principal_axes(centred)[:, :count]
    spread = np.ptp(turned, axis=0)
    return np.ascontiguousarray(turned[:, spread >= 1e-13 * spread.max()])


def curve_order(points: Any) -> Any:
    """Return the permutation that sorts ``(n, D)`` points, an array, along a Hilbert curve; D <= 3 for tensors.

    For D > 3 the curve runs through the three principal axes of the cloud.

    >>> curve_order(np.array([[0.9], [0.1], [0.5]])).tolist()
    [1, 2, 0]
    """
    if points.shape[1] > 3:
        points = principal_coordinates(points, 3)
    low, high = (points.min(axis=0), points.max(axis=0)) if isinstance(points, np.ndarray) else points.aminmax(dim=0)
    scaled = (points - low) / (float((high - low).max()) or 1.0) * (2**BITS - 1)
    if not isinstance(points, np.ndarray):
        return _hilbert_codes([axis.contiguous() for axis in scaled.long().unbind(1)]).argsort(stable=True)
    cells, codes = np.ascontiguousarray(scaled.T.astype(np.int64)), np.empty(len(points), np.int64)

    def encode(start: int, stop: int) -> None:
        for a in range(start, stop, CHUNK):
            codes[a : min(a + CHUNK, stop)] = _hilbert_codes(list(cells[:, a : min(a + CHUNK, stop)]))

    run_ranges(encode, len(points), grain=CHUNK)
    return np.argsort(codes, kind="stable")
