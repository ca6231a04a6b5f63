"""Compiled CPU kernels for block-sparse matrices.

Both write ``y_i = alpha (A x)_i + beta x_i + gamma z_i`` for a range of rows: the product (alpha = 1), and the
three-term step of Chebyshev recurrences. ``y`` may be ``z`` itself, since row i reads only its own row
of z. Row r of the matrix belongs to row ``order[r]`` of the signals, and so do columns: the matrix is walked along
the space-filling curve, so that neighbours are still in cache, while signals stay in the user's order.
"""

from __future__ import annotations

import numba

from .simd import (
    block_1,
    block_4,
    block_8,
    block_16,
    block_32,
    plane_1,
    plane_4,
    plane_8,
    plane_16,
    plane_32,
    prefetch,
)

AHEAD = 300
"""Rows of lead for prefetching: a row is first needed by neighbours that come earlier on the curve."""


@numba.njit(cache=True, nogil=True)
def plane_rows(start, stop, indptr, cols, values, order, x, z, y, alpha, beta, gamma):  # pragma: no cover - compiled
    """d = 2: ``values`` (e, 2) holds w cos and w sin; complemented columns mark reflections."""
    channels = x.shape[2]
    for r in range(start, stop):
        row, a, b = order[r], indptr[r], indptr[r + 1]
        prefetch(x, order[min(r + AHEAD, order.shape[0] - 1)])
        k = 0
        while k + 32 <= channels:
            plane_32(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 32
        if k + 16 <= channels:
            plane_16(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 16
        if k + 8 <= channels:
            plane_8(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 8
        if k + 4 <= channels:
            plane_4(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 4
        while k < channels:
            plane_1(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 1


@numba.njit(cache=True, nogil=True)
def block_rows(start, stop, indptr, cols, values, order, x, z, y, alpha, beta, gamma):  # pragma: no cover - compiled
    """Any d: ``values`` (e, d, d) holds the weighted blocks."""
    channels = x.shape[2]
    for r in range(start, stop):
        row, a, b = order[r], indptr[r], indptr[r + 1]
        prefetch(x, order[min(r + AHEAD, order.shape[0] - 1)])
        k = 0
        while k + 32 <= channels:
            block_32(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 32
        if k + 16 <= channels:
            block_16(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 16
        if k + 8 <= channels:
            block_8(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 8
        if k + 4 <= channels:
            block_4(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 4
        while k < channels:
            block_1(cols, values, order, x, z, y, row, a, b, k, alpha, beta, gamma)
            k += 1
