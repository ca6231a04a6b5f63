"""Sort points along a space-filling (Morton) curve, so that neighbours are near in memory."""

from __future__ import annotations

import numpy as np

_BITS = 20


def _spread(value: np.ndarray, dims: int) -> np.ndarray:
    """Insert ``dims - 1`` zero bits between the bits of each integer."""
    out = np.zeros_like(value)
    for bit in range(_BITS):
        out |= ((value >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * dims)
    return out


def curve_order(points: np.ndarray) -> np.ndarray:
    """Return the permutation that sorts ``(n, D)`` points along a Morton curve.

    For D > 3 the curve runs through the three principal axes of the cloud.

    >>> curve_order(np.array([[0.9], [0.1], [0.5]])).tolist()
    [1, 2, 0]
    """
    if points.shape[1] > 3:
        centred = points - points.mean(axis=0)
        _, axes = np.linalg.eigh(centred.T @ centred)
        points = centred @ axes[:, -3:]
    low, high = points.min(axis=0), points.max(axis=0)
    extent = max(float((high - low).max()), np.finfo(float).tiny)
    cells = np.minimum((points - low) / extent * 2.0**_BITS, 2.0**_BITS - 1).astype(np.uint64)
    dims = cells.shape[1]
    code = np.zeros(len(cells), dtype=np.uint64)
    for axis in range(dims):
        code |= _spread(cells[:, axis], dims) << np.uint64(axis)
    return np.argsort(code, kind="stable")
