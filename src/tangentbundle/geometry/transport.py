r"""Orthogonal maps along edges: :math:`O_{ij}`, the closest orthogonal matrix to :math:`O_i^T O_j`.

Stored compactly: d = 1 a sign, d = 2 a unit complex number and a sign, otherwise the blocks. Each
edge is computed from its ordered end points, so that :math:`O_{ji} = O_{ij}^T` to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numba import njit

from ..errors import InvalidInputError, RankDeficientError, ShapeError
from ..parallel import run_ranges
from .graph import NeighborGraph

CHUNK = 2**13
"""Edges whose maps are computed at a time."""


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

    @classmethod
    def identity(cls, num_edges: int, dtype: type = np.float64) -> Connection:
        """The identity of each edge, d = 1: the connection of functions."""
        return cls(np.empty((num_edges, 0), dtype), np.ones(num_edges, np.int8), 1)

    def blocks(self, edges: slice | np.ndarray = slice(None)) -> np.ndarray:
        """The maps as ``(e, d, d)`` matrices."""
        det = self.det[edges].astype(self.values.dtype)
        if self.dim == 1:
            return det[:, None, None]
        if self.dim > 2:
            return self.values[edges]
        c, s = self.values[edges].T
        return np.stack([np.stack([c, -det * s], -1), np.stack([s, det * c], -1)], axis=1)


@singledispatch
def trivial_connection(graph: NeighborGraph, dtype: type = np.float64) -> Connection:
    """The connection of functions on a graph."""
    return Connection.identity(graph.num_edges, dtype)


def closest_orthogonal(matrices: np.ndarray) -> np.ndarray:
    """Closest orthogonal matrix to each of ``(..., d, d)``: the readable reference.

    >>> closest_orthogonal(np.array([[[2.0, 0.0], [0.0, 0.5]]])).tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    left, _, right = np.linalg.svd(matrices)
    return left @ right


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


@singledispatch
def connect(frames: Any, graph: NeighborGraph, dtype: type = np.float64) -> Connection:
    """Transport maps between the frames ``(n, D, d)`` along every edge of the graph.

    >>> from tangentbundle.geometry.graph import radius_graph
    >>> plane = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> frames = np.stack([np.eye(2), np.array([[0.0, -1.0], [1.0, 0.0]])])
    >>> connect(frames, radius_graph(plane, 2.0)).blocks()[0].tolist()   # from point 1 to point 0
    [[0.0, -1.0], [1.0, 0.0]]
    """
    n, _, d = frames.shape
    if d != 2:
        return _connect_edges(graph, d, lambda low, high: frames[low].transpose(0, 2, 1) @ frames[high], dtype)
    values: np.ndarray = np.empty((graph.num_edges, 2), dtype)
    det = np.empty(graph.num_edges, np.int8)
    rows, weak = np.ascontiguousarray(frames.transpose(0, 2, 1)), np.zeros(n, np.int64)
    run_ranges(_transport_plane, n, rows, graph.indptr, graph.indices, values, det, weak, grain=512)
    refuse_weak(weak)
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
    d, dims = frames.shape[2], points.shape[1]

    def products(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        ambient = np.asarray(transport(points[high], points[low]))
        if ambient.shape != (len(low), dims, dims):
            raise ShapeError(f"transport must give maps (m, D, D) for m pairs of points, got {ambient.shape}.")
        maps = frames[low].transpose(0, 2, 1) @ ambient @ frames[high]
        if not np.abs(maps.transpose(0, 2, 1) @ maps - np.eye(d)).max() < 0.5:
            raise InvalidInputError(
                "transport must carry the tangent space at each source isometrically onto the one at its target; "
                "it does not. Do the frames belong to the same manifold?"
            )
        return maps

    return _connect_edges(graph, d, products, dtype)


def _connect_edges(graph: NeighborGraph, d: int, products: Callable, dtype: type) -> Connection:
    """The orthogonal maps closest to ``products(low, high)``, for the end points of each edge with low < high."""
    maps, weak, rows = np.empty((graph.num_edges, d, d)), np.zeros(graph.num_edges, bool), graph.rows

    def connect_range(start: int, stop: int) -> None:
        for a in range(start, stop, CHUNK):
            edges = slice(a, min(a + CHUNK, stop))
            i, j = rows[edges], graph.indices[edges]
            left, sizes, right = np.linalg.svd(products(np.minimum(i, j), np.maximum(i, j)))
            forward = left @ right
            maps[edges] = np.where((i < j)[:, None, None], forward, forward.transpose(0, 2, 1))
            weak[edges] = sizes[:, -1] < 1e-9

    run_ranges(connect_range, graph.num_edges)
    refuse_weak(np.bincount(rows[weak]))
    return Connection.from_blocks(maps, dtype)


def refuse_weak(weak: np.ndarray) -> None:
    """Refuse maps that are not defined; ``weak`` (n,) counts their edges at each point."""
    if weak.any():
        raise RankDeficientError(
            f"along {int(weak.sum())} edges (first at point {np.flatnonzero(weak)[0]}) the two tangent spaces hold "
            "perpendicular directions, so no transport between them is defined. The scale is too large for the "
            "curvature, or the dimension is wrong: use a smaller eps."
        )
