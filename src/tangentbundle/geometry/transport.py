r"""Orthogonal maps along edges: :math:`O_{ij}`, the closest orthogonal matrix to :math:`O_i^T O_j`.

Stored compactly: d = 1 a sign, d = 2 a unit complex number and a sign, otherwise the blocks. Each
edge is computed from its ordered end points, so that :math:`O_{ji} = O_{ij}^T` to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidInputError, RankDeficientError, ShapeError
from ..jit import njit
from ..parallel import run_ranges
from .graph import NeighborGraph


@dataclass(frozen=True)
class Connection:
    r"""The orthogonal map of every directed edge of a graph, in compact form.

    Attributes: ``values`` and ``det``. For d = 1, ``values`` is empty with shape (e, 0) and the map is
    ``det``; for d = 2 it is (e, 2) with the first column (cos, sin) of
    :math:`\begin{pmatrix} c & -\delta s \\ s & \delta c \end{pmatrix}`, where :math:`\delta` is
    ``det`` = +1 for rotations and -1 for reflections; for d > 2 it is (e, d, d). ``det`` is (e,) int8.
    """

    values: np.ndarray
    det: np.ndarray
    dim: int

    @classmethod
    def from_blocks(cls, maps: np.ndarray, dtype: type = np.float64) -> Connection:
        """The compact form of orthogonal maps ``(e, d, d)``."""
        d = maps.shape[1]
        det = np.where(np.linalg.det(maps) > 0, 1, -1).astype(np.int8)
        values = maps if d > 2 else maps[:, :, 0][:, : 2 * (d - 1)]
        return cls(np.ascontiguousarray(values, dtype=dtype), det, d)

    def blocks(self, edges: slice | np.ndarray = slice(None)) -> np.ndarray:
        """The maps as ``(e, d, d)`` matrices."""
        det = self.det[edges].astype(self.values.dtype)
        if self.dim == 1:
            return det[:, None, None]
        if self.dim > 2:
            return self.values[edges]
        c, s = self.values[edges].T
        return np.stack([np.stack([c, -det * s], -1), np.stack([s, det * c], -1)], axis=1)


def closest_orthogonal(matrices: np.ndarray) -> np.ndarray:
    """Closest orthogonal matrix to each of ``(..., d, d)``: the readable reference.

    >>> closest_orthogonal(np.array([[[2.0, 0.0], [0.0, 0.5]]])).tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    left, _, right = np.linalg.svd(matrices)
    return left @ right


@njit(cache=True, nogil=True)
def _transport_line(start, stop, frames, indptr, indices, values, det, weak):  # pragma: no cover
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            a = 0.0
            for q in range(frames.shape[2]):
                a += frames[i, 0, q] * frames[j, 0, q]
            det[e] = 1 if a >= 0.0 else -1
            weak[i] += abs(a) < 1e-9


@njit(cache=True, nogil=True)
def _transport_plane(start, stop, frames, indptr, indices, values, det, weak):  # pragma: no cover
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            a = b = c = d = 0.0
            for q in range(frames.shape[2]):
                p0, p1 = frames[i, 0, q], frames[i, 1, q]
                q0, q1 = frames[j, 0, q], frames[j, 1, q]
                a += p0 * q0
                b += p0 * q1
                c += p1 * q0
                d += p1 * q1
            if a * d - b * c >= 0.0:
                det[e] = 1
                cos, sin = a + d, c - b
            else:
                det[e] = -1
                cos, sin = a - d, c + b
            norm = np.sqrt(cos * cos + sin * sin)
            if norm > 1e-9:
                values[e, 0] = cos / norm
                values[e, 1] = sin / norm
            else:
                values[e, 0] = 1.0
                values[e, 1] = 0.0
                weak[i] += 1


@njit(cache=True, nogil=True)
def _inverse_transpose(m, work, out):  # pragma: no cover - compiled
    """Gauss-Jordan with pivoting; returns the determinant."""
    d = m.shape[0]
    det = 1.0
    for r in range(d):
        for s in range(d):
            work[r, s] = m[r, s]
            work[r, d + s] = 1.0 if r == s else 0.0
    for k in range(d):
        pivot = k
        for r in range(k + 1, d):
            if abs(work[r, k]) > abs(work[pivot, k]):
                pivot = r
        if abs(work[pivot, k]) < 1e-12:
            return 0.0
        if pivot != k:
            det = -det
            for s in range(2 * d):
                work[k, s], work[pivot, s] = work[pivot, s], work[k, s]
        det *= work[k, k]
        scale = 1.0 / work[k, k]
        for s in range(2 * d):
            work[k, s] *= scale
        for r in range(d):
            if r != k:
                factor = work[r, k]
                for s in range(2 * d):
                    work[r, s] -= factor * work[k, s]
    for r in range(d):
        for s in range(d):
            out[r, s] = work[s, d + r]
    return det


@njit(cache=True, nogil=True)
def _transport_block(start, stop, frames, indptr, indices, values, det, weak):  # pragma: no cover
    """Newton's iteration X <- (X + X^-T) / 2 for the polar factor, quadratically convergent."""
    d = frames.shape[1]
    m, inv, work = np.empty((d, d)), np.empty((d, d)), np.empty((d, 2 * d))
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            lo, hi = min(i, j), max(i, j)
            for r in range(d):
                for s in range(d):
                    total = 0.0
                    for q in range(frames.shape[2]):
                        total += frames[lo, r, q] * frames[hi, s, q]
                    m[r, s] = total
            sign, change = 1.0, 1.0
            for _ in range(60):
                sign = _inverse_transpose(m, work, inv)
                if sign == 0.0:
                    break
                change = 0.0
                for r in range(d):
                    for s in range(d):
                        new = 0.5 * (m[r, s] + inv[r, s])
                        change = max(change, abs(new - m[r, s]))
                        m[r, s] = new
                if change < 1e-15 * d:
                    break
            det[e] = 1 if sign > 0.0 else -1
            if sign == 0.0 or not change < 1e-6:
                weak[i] += 1
            for r in range(d):
                for s in range(d):
                    values[e, r, s] = m[r, s] if i < j else m[s, r]


def connect(frames: np.ndarray, graph: NeighborGraph, dtype: type = np.float64) -> Connection:
    """Transport maps between the frames ``(n, D, d)`` along every edge of the graph.

    >>> from tangentbundle.geometry.graph import radius_graph
    >>> plane = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> frames = np.stack([np.eye(2), np.array([[0.0, -1.0], [1.0, 0.0]])])
    >>> connect(frames, radius_graph(plane, 2.0)).blocks()[0].tolist()   # from point 1 to point 0
    [[0.0, -1.0], [1.0, 0.0]]
    """
    n, _, d = frames.shape
    rows = np.ascontiguousarray(frames.transpose(0, 2, 1))
    edges = graph.num_edges
    shape: tuple[int, ...] = {1: (edges, 0), 2: (edges, 2)}.get(d, (edges, d, d))
    values: np.ndarray = np.empty(shape, dtype)
    det = np.empty(edges, np.int8)
    weak = np.zeros(n, np.int64)
    kernel = {1: _transport_line, 2: _transport_plane}.get(d, _transport_block)
    run_ranges(kernel, n, rows, graph.indptr, graph.indices, values, det, weak, grain=512)
    if weak.any():
        where = np.flatnonzero(weak)
        raise RankDeficientError(
            f"along {int(weak.sum())} of {edges} edges (first at point {where[0]}) the two tangent "
            "spaces hold perpendicular directions, so no transport between them is defined. The "
            "scale is too large for the curvature, or the dimension is wrong: use a smaller eps."
        )
    return Connection(values, det, d)


def connect_exactly(
    points: np.ndarray,
    frames: np.ndarray,
    graph: NeighborGraph,
    transport: Callable[[np.ndarray, np.ndarray], np.ndarray],
    dtype: type = np.float64,
) -> Connection:
    r"""Maps :math:`O_{ij} = O_i^T P_{ij} O_j` with known parallel transports P from j to i.

    ``transport(source, target)`` takes points ``(m, D)`` and gives ambient maps ``(m, D, D)``.
    """
    d, rows = frames.shape[2], graph.rows
    maps = np.empty((graph.num_edges, d, d))
    for a in range(0, graph.num_edges, CHUNK):
        i, j = rows[a : a + CHUNK], graph.indices[a : a + CHUNK]
        low, high = np.minimum(i, j), np.maximum(i, j)  # one direction, then transposed where needed
        ambient = np.asarray(transport(points[high], points[low]))
        if ambient.shape != (len(i), points.shape[1], points.shape[1]):
            raise ShapeError(f"transport must give maps (m, D, D) for m pairs of points, got {ambient.shape}.")
        forward = frames[low].transpose(0, 2, 1) @ ambient @ frames[high]
        if not np.abs(forward.transpose(0, 2, 1) @ forward - np.eye(d)).max() < 0.5:
            raise InvalidInputError(
                "transport must carry the tangent space at each source isometrically onto the one at its target; "
                "it does not. Do the frames belong to the same manifold?"
            )
        forward = closest_orthogonal(forward)  # rounding only
        maps[a : a + CHUNK] = np.where((i < j)[:, None, None], forward, forward.transpose(0, 2, 1))
    return Connection.from_blocks(maps, dtype)


CHUNK = 2**16
