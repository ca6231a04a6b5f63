"""Searches on the CPU: nearest neighbours from a k-d tree, and all pairs of points within a radius.

Pairs are searched in blocks: points that follow each other along the space-filling curve are near
each other, so that blocks of them have small bounding boxes. Only blocks whose boxes are near
enough are looked at; the search is exact for points in any order, and fast for sorted ones.
``block_search.py`` does the same on GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from numba import njit
from scipy.spatial import cKDTree
from torch import Tensor

from ..memory import EdgeMemory
from ..parallel import num_threads, run_ranges
from .graph import NeighborGraph, edge_distances
from .ordering import principal_coordinates

MAX_SEARCHED_DIMENSIONS = 8
"""Ambient dimensions above this are searched in principal coordinates."""

NUM_COUNTED_POINTS = 2000
"""Points whose neighbours are counted to estimate the number of edges within a radius."""

CHUNK_ROWS = 2**16
"""Displacements that are computed at once."""

BLOCK = 32
"""Points in a block, and blocks in a superblock."""

TURNED_ROUNDING = 1e-5
"""Rounding of turned coordinates, in units of the largest: boxes are so much wider."""


class TreeSearch:
    """The points ``(n, D)`` of a cloud on the CPU, and its k-d tree, built when it is first
    needed."""

    def __init__(self, points: Tensor) -> None:
        self.points: np.ndarray = points.numpy()

    @cached_property
    def tree(self) -> cKDTree:
        """The k-d tree of the points; in many dimensions of their principal coordinates.

        Turning the cloud keeps all distances and lets the tree split where the points spread.
        """
        coordinates = self.points
        if self._is_turned:
            coordinates = principal_coordinates(torch.from_numpy(self.points)).numpy()
        return cKDTree(coordinates, balanced_tree=False, compact_nodes=False)

    @property
    def _is_turned(self) -> bool:
        return self.points.shape[1] > MAX_SEARCHED_DIMENSIONS

    def nearest(self, k: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Distances and indices ``(q, k)`` of the k nearest other points of some rows."""
        queries = rows.numpy()
        coordinates = self.tree.data[queries]
        distances, indices = self.tree.query(coordinates, k=k + 1, workers=num_threads())
        itself = indices == queries[:, None]
        itself[~itself.any(axis=1), -1] = True  # among exact duplicates the point may be absent
        distances = distances[~itself].reshape(len(queries), k)
        indices = indices[~itself].reshape(len(queries), k)
        if self._is_turned:
            # distances in turned coordinates are rounded: those of coincident points must be zero
            self._measure(queries, indices, out=distances)
        return torch.from_numpy(distances), torch.from_numpy(indices)

    def _measure(self, queries: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
        """Write the distances ``(q, k)`` from the points ``queries`` to ``indices`` (q, k)."""
        count, k = indices.shape
        starts = np.arange(count + 1, dtype=np.int64) * k
        centers = self.points[queries]
        run_ranges(
            edge_distances, count, centers, self.points, starts, indices.ravel(), out.ravel()
        )

    def ball_graph(
        self,
        radius: float,
        memory: EdgeMemory,
        *,
        rows: slice | None,
    ) -> NeighborGraph:
        """The graph of all pairs at most ``radius`` apart, which must fit in the memory.

        Where the complete graph would not fit, the edges are estimated first.
        """
        all_pairs = float(len(self.points)) ** 2
        if rows is None and not memory.holds(all_pairs):
            memory.require(self._expected_edges(radius))
        boxed = self.points
        if self._is_turned:
            boxed = self.tree.data[:, :MAX_SEARCHED_DIMENSIONS]
        indptr, indices, distances = ball_edges(self.points, boxed, radius, memory.require, rows)
        return NeighborGraph(
            indptr=torch.from_numpy(indptr),
            indices=torch.from_numpy(indices),
            distances=torch.from_numpy(distances),
        )

    def _expected_edges(self, radius: float) -> float:
        """Directed edges within a radius, from the neighbours of some points."""
        step = max(1, len(self.points) // NUM_COUNTED_POINTS)
        counts = self.tree.query_ball_point(
            self.tree.data[::step], radius, return_length=True, workers=num_threads()
        )
        return float((counts.mean() - 1) * len(self.points))

    def order_from_centroid(self) -> Tensor:
        """Rows by their distance to the centroid, ``(n,)``."""
        centroid = self.points.mean(axis=0)
        squares = np.empty(len(self.points))
        for start in range(0, len(self.points), CHUNK_ROWS):
            steps = self.points[start : start + CHUNK_ROWS] - centroid
            squares[start : start + len(steps)] = np.einsum("nd,nd->n", steps, steps)
        return torch.from_numpy(np.argsort(squares, kind="stable"))


@njit(cache=True, nogil=True)
def _squared_gap(boxes, a, others, b):  # pragma: no cover - compiled
    """Squared distance between two boxes of ``(2, m, q)``: least and largest coordinates."""
    total = 0.0
    for axis in range(boxes.shape[2]):
        step = max(
            others[0, b, axis] - boxes[1, a, axis], boxes[0, a, axis] - others[1, b, axis], 0.0
        )
        total += step * step
    return total


@njit(cache=True, nogil=True)
def _neighbors_of_blocks(
    start, stop, skip, axes, blocks, outer, squares, counts, indices, distances
):  # pragma: no cover - compiled
    """Counts the neighbours of points ``axes`` (D, n) of blocks after ``skip``, or writes them from
    ``counts`` on."""
    limit, box_limit, fill = squares
    dims, n = axes.shape
    candidates = np.empty(blocks.shape[1], np.int64)
    totals = np.empty(BLOCK, axes.dtype)
    for block in range(skip + start, skip + stop):
        count = 0
        for group in range(outer.shape[1]):
            if _squared_gap(blocks, block, outer, group) <= box_limit:
                for other in range(group * BLOCK, min(group * BLOCK + BLOCK, blocks.shape[1])):
                    if _squared_gap(blocks, block, blocks, other) <= box_limit:
                        candidates[count] = other
                        count += 1
        for i in range(block * BLOCK, min(block * BLOCK + BLOCK, n)):
            place = counts[i] if fill else 0
            for k in range(count):
                first = candidates[k] * BLOCK
                size = min(BLOCK, n - first)
                totals[:] = 0.0
                for a in range(dims):  # all of a block at once
                    x = axes[a, i]
                    others = axes[a, first : first + size]
                    for j in range(size):
                        totals[j] += (x - others[j]) * (x - others[j])
                for j in range(size):
                    if totals[j] <= limit and first + j != i:
                        if fill:
                            indices[place] = first + j
                            distances[place] = np.sqrt(totals[j])
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
    allow: Callable[[float], None],
    rows: slice | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row ends, columns and distances of all pairs at most ``radius`` apart, or of the pairs of
    consecutive ``rows``.

    ``boxed`` are coordinates for the boxes, turned and fewer where there are many; ``allow`` is
    asked before the edges are allocated.
    """
    if rows is None:
        rows = slice(0, len(points))
    boxes = bounding_boxes(boxed)
    outer = np.stack([bounding_boxes(boxes[0])[0], bounding_boxes(boxes[1])[1]])
    first_block = rows.start // BLOCK
    num_blocks = -(-rows.stop // BLOCK) - first_block
    axes = np.ascontiguousarray(points.T)
    diagonal = math.hypot(*np.ptp(axes, axis=1).tolist())  # does not overflow
    radius = min(radius, 2.0 * diagonal)  # finds every pair, too, and its square is finite
    box_radius = radius * (1 + 1e-9)
    if boxed is not points:
        box_radius += TURNED_ROUNDING * float(np.abs(boxed).max())

    def search(fill: bool, counts: np.ndarray, indices: np.ndarray, distances: np.ndarray) -> None:
        run_ranges(
            _neighbors_of_blocks,
            num_blocks,
            first_block,
            axes,
            boxes,
            outer,
            (radius * radius, box_radius**2, fill),
            counts,
            indices,
            distances,
            grain=32,
        )

    indptr = np.zeros(len(points) + 1, np.int64)
    search(False, indptr[1:], np.empty(0, np.int32), np.empty(0, points.dtype))
    np.cumsum(indptr, out=indptr)
    num_edges = int(indptr[-1])
    allow(num_edges)
    indices = np.empty(num_edges, np.int32)
    distances = np.empty(num_edges, points.dtype)
    search(True, indptr, indices, distances)
    ends = indptr[rows.start : rows.stop + 1]  # the first and the last block may have further rows
    edges = slice(ends[0], ends[-1])
    return ends - ends[0], indices[edges], distances[edges]
