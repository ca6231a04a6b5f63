"""Sort points along a space-filling (Hilbert) curve, so that neighbours are near in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ..arrays import host
from ..parallel import run_ranges

BITS = 16
"""Cells along each axis, as a power of two; three axes fit in one 64-bit code."""


def _hilbert_codes(cell: Any) -> Any:
    """Places on the curve of cells, from their integer coordinates along each axis, numbers or
    tensors, overwritten.

    The algorithm is that of J. Skilling, Programming the Hilbert curve (2004).
    """
    for level in range(BITS - 1, 0, -1):  # undo the rotations and reflections of each level
        below = (1 << level) - 1
        for k in range(len(cell)):
            up = -(cell[k] >> level & 1)  # all bits, or none
            swap = (cell[0] ^ cell[k]) & below & ~up
            cell[0] ^= below & up | swap
            if k:
                cell[k] ^= swap
    for k in range(1, len(cell)):  # Gray code
        cell[k] ^= cell[k - 1]
    flip, code = cell[0] ^ cell[0], cell[0] ^ cell[0]
    for level in range(BITS - 1, 0, -1):
        flip ^= -(cell[-1] >> level & 1) & (1 << level) - 1
    for level in range(BITS - 1, -1, -1):
        for axis in cell:
            code = code << 1 | (axis ^ flip) >> level & 1
    return code


_hilbert_code = njit(cache=True, nogil=True)(_hilbert_codes)


@njit(cache=True, nogil=True)
def _encode(start, stop, cells, codes):  # pragma: no cover - compiled
    for i in range(start, stop):
        codes[i] = _hilbert_code(cells[i])


def principal_axes(centred: Any) -> np.ndarray:
    """Orthonormal directions ``(D, q)`` of centred points, an array or a tensor, that of the
    greatest spread first.

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


def order_along_curve(points: Any) -> Any:
    """Return the permutation that sorts ``(n, D)`` points, an array, along a Hilbert curve; D <= 3
    for tensors.

    For D > 3 the curve runs through the three principal axes of the cloud.

    >>> order_along_curve(np.array([[0.9], [0.1], [0.5]])).tolist()
    [1, 2, 0]
    """
    if points.shape[1] > 3:
        points = principal_coordinates(points, 3)
    is_array = isinstance(points, np.ndarray)
    low, high = (
        [f(points.T.copy(), axis=1) for f in (np.min, np.max)]
        if is_array
        else points.aminmax(dim=0)
    )
    scaled = (points - low) / (float((high - low).max()) or 1.0) * (2**BITS - 1)
    if not is_array:
        return _hilbert_codes([axis.contiguous() for axis in scaled.long().unbind(1)]).argsort(
            stable=True
        )
    cells, codes = scaled.astype(np.int64), np.empty(len(points), np.int64)
    run_ranges(_encode, len(points), cells, codes, grain=2**14)
    return np.argsort(codes, kind="stable")


def first_of(rows: Any, order: Any = None) -> tuple[int, int]:
    """Of some rows of a sorted cloud that with the smallest of the user's numbers, and this number,
    for messages.

    ``order`` holds the user's number of each row; by default rows have those numbers.

    >>> first_of(np.array([0, 2]), np.array([7, 1, 5]))
    (2, 5)
    """
    rows = host(rows)
    numbers = rows if order is None else host(order)[rows]
    place = int(numbers.argmin())
    return int(rows[place]), int(numbers[place])
