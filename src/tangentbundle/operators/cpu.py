"""Compiled CPU kernels for symmetric block-sparse matrices.

Both kernels write ``y_i = alpha (A x)_i + beta x_i + gamma z_i`` for a range of rows; ``y`` may be
``z`` itself, since row i reads only its own row of z. They are the product (alpha = 1) and the
three-term step of Chebyshev recurrences. Edges are taken four at a time, so that the running row
is loaded and stored once for four neighbours.
"""

from __future__ import annotations

import numba

FAST = {"contract", "reassoc", "nsz"}
"""Fused multiply-add and reordering, but NaN and infinity keep their meaning."""


@numba.njit(cache=True, nogil=True, inline="always")
def _column(code):  # pragma: no cover - compiled
    """Column and determinant of an edge: reflections are stored as the complement ``~column``."""
    if code >= 0:
        return code, 1
    return ~code, -1


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def plane_rows(
    start, stop, indptr, cols, values, x, z, y, alpha, beta, gamma
):  # pragma: no cover - compiled
    """d = 2: ``values`` (e, 2) holds w cos and w sin; the signs of ``cols`` mark reflections."""
    channels = x.shape[2]
    for i in range(start, stop):
        for k in range(channels):
            y[i, 0, k] = beta * x[i, 0, k] + gamma * z[i, 0, k]
            y[i, 1, k] = beta * x[i, 1, k] + gamma * z[i, 1, k]
        e = indptr[i]
        end = indptr[i + 1]
        while e + 4 <= end:
            j0, s0 = _column(cols[e])
            j1, s1 = _column(cols[e + 1])
            j2, s2 = _column(cols[e + 2])
            j3, s3 = _column(cols[e + 3])
            c0, d0 = alpha * values[e, 0], alpha * values[e, 1]
            c1, d1 = alpha * values[e + 1, 0], alpha * values[e + 1, 1]
            c2, d2 = alpha * values[e + 2, 0], alpha * values[e + 2, 1]
            c3, d3 = alpha * values[e + 3, 0], alpha * values[e + 3, 1]
            for k in range(channels):
                y[i, 0, k] += (
                    (c0 * x[j0, 0, k] - s0 * d0 * x[j0, 1, k])
                    + (c1 * x[j1, 0, k] - s1 * d1 * x[j1, 1, k])
                    + (c2 * x[j2, 0, k] - s2 * d2 * x[j2, 1, k])
                    + (c3 * x[j3, 0, k] - s3 * d3 * x[j3, 1, k])
                )
                y[i, 1, k] += (
                    (d0 * x[j0, 0, k] + s0 * c0 * x[j0, 1, k])
                    + (d1 * x[j1, 0, k] + s1 * c1 * x[j1, 1, k])
                    + (d2 * x[j2, 0, k] + s2 * c2 * x[j2, 1, k])
                    + (d3 * x[j3, 0, k] + s3 * c3 * x[j3, 1, k])
                )
            e += 4
        while e < end:
            j0, s0 = _column(cols[e])
            c0, d0 = alpha * values[e, 0], alpha * values[e, 1]
            for k in range(channels):
                y[i, 0, k] += c0 * x[j0, 0, k] - s0 * d0 * x[j0, 1, k]
                y[i, 1, k] += d0 * x[j0, 0, k] + s0 * c0 * x[j0, 1, k]
            e += 1


@numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def block_rows(
    start, stop, indptr, cols, values, x, z, y, alpha, beta, gamma
):  # pragma: no cover - compiled
    """Any d: ``values`` (e, d, d) holds the weighted blocks."""
    dims, channels = x.shape[1], x.shape[2]
    for i in range(start, stop):
        for p in range(dims):
            for k in range(channels):
                y[i, p, k] = beta * x[i, p, k] + gamma * z[i, p, k]
        for e in range(indptr[i], indptr[i + 1]):
            j = cols[e]
            for p in range(dims):
                for q in range(dims):
                    v = alpha * values[e, p, q]
                    for k in range(channels):
                        y[i, p, k] += v * x[j, q, k]
