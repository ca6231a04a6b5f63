"""Nearest neighbours, from k-d trees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from scipy.spatial import cKDTree

from ..errors import TooFewPointsError
from ..parallel import run_ranges
from .ordering import principal_coordinates

WIDE = 8
"""Ambient dimensions above this are searched in principal coordinates."""

SAMPLE = 2000
"""Points looked at when a number of edges, a scale or a dimension is estimated."""

MIN_SAMPLED_NEIGHBORS = 32
"""Neighbours of the sampled points that are searched for at once, though fewer were asked for."""


@dataclass
class _Search:
    """What is known of a cloud while its bundle is built: its tree, and the nearest points of a sample."""

    points: Any
    sampled: tuple[np.ndarray, np.ndarray] | None = None

    @cached_property
    def tree(self) -> cKDTree:
        coordinates = principal_coordinates(self.points) if self.points.shape[1] > WIDE else self.points
        return cKDTree(coordinates, balanced_tree=False, compact_nodes=False)


_current: ContextVar[_Search | None] = ContextVar("current search", default=None)


def _search(points: Any) -> _Search:
    current = _current.get()
    return current if current is not None and current.points is points else _Search(points)


@contextmanager
def one_search(points: Any) -> Iterator[_Search]:
    """Inside this context all searches among these very points, which must not change, share their tree."""
    search = _search(points)
    token = _current.set(search)
    try:
        yield search
    finally:
        _current.reset(token)


def search_tree(points: np.ndarray) -> cKDTree:
    """A k-d tree of the points; above ``WIDE`` dimensions of their principal coordinates (``tree.data``).

    Turning the cloud keeps all distances and lets the tree split where the points spread.
    """
    return _search(points).tree


@njit(cache=True, nogil=True)
def edge_distances(start, stop, centers, points, indptr, indices, out):  # pragma: no cover - compiled
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


def nearest_distances(points: Any, k: int, queries: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices ``(q, k)`` of the k nearest *other* points of each query point.

    ``queries`` are rows of ``points``, an array or a ``TensorCloud`` (default: all of them).
    """
    if k >= len(points):
        raise TooFewPointsError(
            f"{k} neighbours of each point were asked for, but there are only {len(points)} points. "
            "Give more points or ask for fewer neighbours."
        )
    rows = np.arange(len(points)) if queries is None else queries
    if not isinstance(points, np.ndarray):
        return points.nearest(k, rows)
    tree = search_tree(points)
    distances, indices = without_self(rows, *tree.query(tree.data[rows], k=k + 1, workers=-1))
    if points.shape[1] > WIDE:  # distances of the tree are rounded: coincident points must have distance zero
        starts = np.arange(len(rows) + 1, dtype=np.int64) * k
        run_ranges(edge_distances, len(rows), points[rows], points, starts, indices.ravel(), distances.ravel())
    return distances, indices


def without_self(rows: np.ndarray, distances: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours ``(m, k)`` without the points themselves, of k + 1 nearest each."""
    itself = indices == rows[:, None]
    itself[~itself.any(axis=1), -1] = True  # among exact duplicates the point may be absent
    shape = len(rows), indices.shape[1] - 1
    return distances[~itself].reshape(shape), indices[~itself].reshape(shape)


def sample_rows(n: int) -> np.ndarray:
    """Up to ``SAMPLE`` row numbers, sorted, the same for the same n."""
    if n <= SAMPLE:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, SAMPLE, replace=False))


def sample_step(n: int, k: int) -> int:
    """Every so many of ``sample_rows`` tell the median distance of the k-th neighbour: it varies as the root of 1/k."""
    return max(1, k // MIN_SAMPLED_NEIGHBORS) if n > SAMPLE else 1


def sampled_nearest(points: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices ``(m, k)`` of the k nearest other points of ``sample_rows``."""
    with one_search(points) as search:
        if search.sampled is None or search.sampled[0].shape[1] < k:
            several = max(k, min(MIN_SAMPLED_NEIGHBORS, len(points) - 1))
            search.sampled = nearest_distances(points, several, sample_rows(len(points)))
        distances, indices = search.sampled
    return distances[:, :k], indices[:, :k]
