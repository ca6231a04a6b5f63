"""Nearest neighbours, from k-d trees, and all pairs of points within a radius, sorted, on the CPU.

Pairs are searched in blocks: points that follow each other along the space-filling curve are near
each other, so that blocks of them have small bounding boxes. Only blocks whose boxes are near
enough are looked at; the search is exact for points in any order, and fast for sorted ones.
``cuda_search.py`` does the same on GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from scipy.spatial import cKDTree

from ..errors import TooFewPointsError
from ..parallel import num_threads, run_ranges
from .ordering import principal_coordinates

WIDE = 8
"""Ambient dimensions above this are searched in principal coordinates."""

SAMPLE = 2000
"""Points looked at when a number of edges, a scale or a dimension is estimated."""

MIN_SAMPLED_NEIGHBORS = 32
"""Neighbours of the sampled points that are searched for at once, though fewer were asked for."""

CHUNK_ROWS = 2**16
"""Displacements that are computed at once."""

BLOCK = 32
"""Points in a block, and blocks in a superblock."""


@dataclass
class _Search:
    """What is known of a cloud while its bundle is built: its tree, a sample of rows, and their
    nearest points."""

    points: Any
    sampled: tuple[np.ndarray, np.ndarray] | None = None

    @cached_property
    def tree(self) -> cKDTree:
        coordinates = (
            principal_coordinates(self.points) if self.points.shape[1] > WIDE else self.points
        )
        return cKDTree(coordinates, balanced_tree=False, compact_nodes=False)

    @cached_property
    def central_order(self) -> np.ndarray:
        """Rows by their distance to the centroid, ``(n,)``."""
        if isinstance(self.points, np.ndarray):
            return _central_order(self.points)
        return self.points.central_order()


_current: ContextVar[_Search | None] = ContextVar("current search", default=None)


def _search(points: Any) -> _Search:
    current = _current.get()
    return current if current is not None and current.points is points else _Search(points)


@contextmanager
def one_search(points: Any) -> Iterator[_Search]:
    """Inside this context all searches among these very points, which must not change, share their
    tree."""
    search = _search(points)
    token = _current.set(search)
    try:
        yield search
    finally:
        _current.reset(token)


def search_tree(points: np.ndarray) -> cKDTree:
    """A k-d tree of the points; above ``WIDE`` dimensions of their principal coordinates
    (``tree.data``).

    Turning the cloud keeps all distances and lets the tree split where the points spread.
    """
    return _search(points).tree


@njit(cache=True, nogil=True)
def edge_distances(
    start, stop, centers, points, indptr, indices, out
):  # pragma: no cover - compiled
    """Distance of each edge of a CSR graph from ``centers`` to ``points``."""
    dims = points.shape[1]
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            total = 0.0
            for a in range(dims):
                step = centers[i, a] - points[j, a]
                total += step * step
            out[e] = np.sqrt(total)


def nearest_distances(
    points: Any, k: int, queries: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices ``(q, k)`` of the k nearest *other* points of each query point.

    ``queries`` are rows of ``points``, an array or a ``TensorCloud`` (default: all of them).
    """
    if k >= len(points):
        raise TooFewPointsError(
            f"{k} neighbours of each point were asked for, but there are only {len(points)} "
            "points. Give more points or ask for fewer neighbours."
        )
    rows = np.arange(len(points)) if queries is None else queries
    if not isinstance(points, np.ndarray):
        return points.nearest(k, rows)
    tree = search_tree(points)
    distances, indices = tree.query(tree.data[rows], k=k + 1, workers=num_threads())
    itself = indices == rows[:, None]
    itself[~itself.any(axis=1), -1] = True  # among exact duplicates the point may be absent
    distances, indices = (values[~itself].reshape(len(rows), k) for values in (distances, indices))
    if (
        points.shape[1] > WIDE
    ):  # distances of the tree are rounded: coincident points must have distance zero
        starts = np.arange(len(rows) + 1, dtype=np.int64) * k
        run_ranges(
            edge_distances,
            len(rows),
            points[rows],
            points,
            starts,
            indices.ravel(),
            distances.ravel(),
        )
    return distances, indices


def sample_rows(points: Any, most: int = SAMPLE) -> np.ndarray:
    """Up to ``most`` row numbers of points ``(n, D)``, an array or a ``TensorCloud``, sorted.

    Their points are evenly spaced in the order of distances to the centroid, so that the sample is
    the same for clouds in any order, turned, shifted or in other units, but for rounding.
    """
    n = len(points)
    if n <= most:
        return np.arange(n)
    places = (np.arange(most) + 0.5) * n / most
    return np.sort(_search(points).central_order[places.astype(np.int64)])


def _central_order(points: np.ndarray) -> np.ndarray:
    """Rows by their distance to the centroid, ``(n,)``."""
    centroid = points.mean(axis=0)
    squares = np.empty(len(points))
    for start in range(0, len(points), CHUNK_ROWS):
        steps = points[start : start + CHUNK_ROWS] - centroid
        squares[start : start + len(steps)] = np.einsum("nd,nd->n", steps, steps)
    return np.argsort(squares, kind="stable")


def sampled_nearest(points: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices ``(m, k)`` of the k nearest other points of ``sample_rows``."""
    with one_search(points) as search:
        if search.sampled is None or search.sampled[0].shape[1] < k:
            several = max(k, min(MIN_SAMPLED_NEIGHBORS, len(points) - 1))
            search.sampled = nearest_distances(points, several, sample_rows(points))
        distances, indices = search.sampled
    return distances[:, :k], indices[:, :k]


@njit(cache=True, nogil=True)
def _gap(boxes, a, others, b):  # pragma: no cover - compiled
    """Squared distance between two boxes of ``(2, m, q)``: least and largest coordinates."""
    total = 0.0
    for axis in range(boxes.shape[2]):
        step = max(
            others[0, b, axis] - boxes[1, a, axis], boxes[0, a, axis] - others[1, b, axis], 0.0
        )
        total += step * step
    return total


@njit(cache=True, nogil=True)
def _near(
    start, stop, skip, axes, blocks, outer, squares, counts, indices, distances
):  # pragma: no cover - compiled
    """Counts the neighbours of points ``axes`` (D, n) of blocks after ``skip``, or writes them from
    ``counts`` on."""
    limit, wide, fill = squares
    dims, n = axes.shape
    near, totals = np.empty(blocks.shape[1], np.int64), np.empty(BLOCK, axes.dtype)
    for block in range(skip + start, skip + stop):
        found = 0
        for group in range(outer.shape[1]):
            if _gap(blocks, block, outer, group) <= wide:
                for other in range(group * BLOCK, min(group * BLOCK + BLOCK, blocks.shape[1])):
                    if _gap(blocks, block, blocks, other) <= wide:
                        near[found] = other
                        found += 1
        for i in range(block * BLOCK, min(block * BLOCK + BLOCK, n)):
            place = counts[i] if fill else 0
            for k in range(found):
                first = near[k] * BLOCK
                size = min(BLOCK, n - first)
                totals[:] = 0.0
                for a in range(dims):  # all of a block at once
                    x, others = axes[a, i], axes[a, first : first + size]
                    for j in range(size):
                        totals[j] += (x - others[j]) * (x - others[j])
                for j in range(size):
                    if totals[j] <= limit and first + j != i:
                        if fill:
                            indices[place], distances[place] = first + j, np.sqrt(totals[j])
                        place += 1
            if not fill:
                counts[i] = place


def bounding_boxes(values: np.ndarray) -> np.ndarray:
    """Least and largest coordinates ``(2, blocks, q)`` of consecutive rows of ``(n, q)``."""
    starts = np.arange(0, len(values), BLOCK)
    return np.stack([np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)])


def ball_edges(
    points: np.ndarray,
    boxed: np.ndarray,
    radius: float,
    allow: Callable[[int], None],
    rows: slice | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row ends, columns and distances of all pairs at most ``radius`` apart, or of the pairs of
    consecutive ``rows``.

    ``boxed`` are coordinates for the boxes, turned and fewer where there are many; ``allow`` is
    asked before the edges are allocated.
    """
    rows, boxes = rows or slice(0, len(points)), bounding_boxes(boxed)
    first, last = rows.start // BLOCK, -(-rows.stop // BLOCK)
    outer = np.stack([bounding_boxes(boxes[0])[0], bounding_boxes(boxes[1])[1]])
    margin = (
        0.0 if boxed is points else 1e-5 * float(np.abs(boxed).max())
    )  # turned coordinates are rounded
    indptr, axes = np.zeros(len(points) + 1, np.int64), np.ascontiguousarray(points.T)
    diagonal = math.hypot(*np.ptp(axes, axis=1).tolist())  # does not overflow
    radius = min(radius, 2.0 * diagonal)  # finds every pair, too, and its square is finite

    def search(fill: bool, counts: np.ndarray, indices: np.ndarray, distances: np.ndarray) -> None:
        squares = radius * radius, (radius * (1 + 1e-9) + margin) ** 2, fill
        run_ranges(
            _near,
            last - first,
            first,
            axes,
            boxes,
            outer,
            squares,
            counts,
            indices,
            distances,
            grain=32,
        )

    search(False, indptr[1:], np.empty(0, np.int32), np.empty(0, points.dtype))
    np.cumsum(indptr, out=indptr)
    allow(int(indptr[-1]))
    indices, distances = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], points.dtype)
    search(True, indptr, indices, distances)
    ends = indptr[rows.start : rows.stop + 1]  # the first and the last block may have further rows
    edges = slice(ends[0], ends[-1])
    return ends - ends[0], indices[edges], distances[edges]
