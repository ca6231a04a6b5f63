"""The compiled CPU kernels: one fused step for a range of rows (see ``product.step``), and its
gradient in the blocks.

The matrix is walked along the space-filling curve, so that the neighbours of a row are mostly in
cache, in whatever order the signals are stored: row r of the matrix belongs to row
``curve_order[r]`` of the signals. What a row will read and write is prefetched.
"""

from __future__ import annotations

import numba

from .simd import tile_1, tile_4, tile_8, tile_16, tile_32

AHEAD = 20
"""Rows of lead for prefetching the output: signals in another order than the curve's are written at
random."""


@numba.njit(cache=True, nogil=True)
def fused_rows(
    start, stop, indptr, order, matrix, signals, extras, alpha, beta, gamma
):  # pragma: no cover - compiled
    """Weights (e, 2) are w cos and w sin, with complemented columns for reflections; (e, d, d) are
    blocks."""
    channels = signals[0].shape[2]
    for r in range(start, stop):
        row = order[r]
        a = indptr[r]
        b = indptr[r + 1]
        later = order[min(r + AHEAD, order.shape[0] - 1)]
        k = 0
        while k + 32 <= channels:
            tile_32(matrix, signals, extras, row, later, a, b, k, alpha, beta, gamma)
            k += 32
        if k + 16 <= channels:
            tile_16(matrix, signals, extras, row, later, a, b, k, alpha, beta, gamma)
            k += 16
        if k + 8 <= channels:
            tile_8(matrix, signals, extras, row, later, a, b, k, alpha, beta, gamma)
            k += 8
        if k + 4 <= channels:
            tile_4(matrix, signals, extras, row, later, a, b, k, alpha, beta, gamma)
            k += 4
        while k < channels:
            tile_1(matrix, signals, extras, row, later, a, b, k, alpha, beta, gamma)
            k += 1


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def outer_rows(start, stop, indptr, order, cols, y, x, out, alpha):  # pragma: no cover - compiled
    """Add ``alpha y_i x_j^T``, summed over channels, to the blocks ij of a range of rows, ``out``
    (e, d, d)."""
    d, channels = x.shape[1:]
    for r in range(start, stop):
        row = order[r]
        for e in range(indptr[r], indptr[r + 1]):
            for p in range(d):
                for q in range(d):
                    total = out.dtype.type(0)
                    for k in range(channels):
                        total += y[row, p, k] * x[cols[e], q, k]
                    out[e, p, q] += alpha * total
