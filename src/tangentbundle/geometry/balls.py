"""All pairs of points within a radius, sorted, on the CPU.

Points that follow each other along the space-filling curve are near each other, so that blocks of them have small
bounding boxes. Only blocks whose boxes are near enough are looked at; the search is exact for points in any order, and
fast for sorted ones. ``cuda_search.py`` does the same on GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ..parallel import run_ranges

BLOCK = 32
"""Points in a block, and blocks in a superblock."""


@njit(cache=True, nogil=True)
def _gap(boxes, a, others, b):  # pragma: no cover - compiled
    """Squared distance between two boxes of ``(2, m, q)``: least and largest coordinates."""
    total = 0.0
    for axis in range(boxes.shape[2]):
        step = max(others[0, b, axis] - boxes[1, a, axis], boxes[0, a, axis] - others[1, b, axis], 0.0)
        total += step * step
    return total


@njit(cache=True, nogil=True)
def _near(start, stop, axes, blocks, outer, squares, counts, indices, distances):  # pragma: no cover - compiled
    """Counts the neighbours of points ``axes`` (D, n) of some blocks, or writes them from ``counts`` on."""
    limit, wide, fill = squares
    dims, n = axes.shape
    near, totals = np.empty(blocks.shape[1], np.int64), np.empty(BLOCK, axes.dtype)
    for block in range(start, stop):
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
    points: np.ndarray, boxed: np.ndarray, radius: float, allow: Callable[[int], None], rows: slice | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row ends, columns and distances of all pairs at most ``radius`` apart, or of the pairs of consecutive ``rows``.

    ``boxed`` are coordinates for the boxes, turned and fewer where there are many; ``allow`` is asked before the
    edges are allocated.
    """
    rows, boxes = rows or slice(0, len(points)), bounding_boxes(boxed)
    first, last = rows.start // BLOCK, -(-rows.stop // BLOCK)
    outer = np.stack([bounding_boxes(boxes[0])[0], bounding_boxes(boxes[1])[1]])
    margin = 0.0 if boxed is points else 1e-5 * float(np.abs(boxed).max())  # turned coordinates are rounded
    indptr, axes = np.zeros(len(points) + 1, np.int64), np.ascontiguousarray(points.T)

    def near(start: int, stop: int, *args: Any) -> None:
        _near(first + start, first + stop, *args)

    def search(fill: bool, counts: np.ndarray, indices: np.ndarray, distances: np.ndarray) -> None:
        squares = radius * radius, (radius * (1 + 1e-9) + margin) ** 2, fill
        run_ranges(near, last - first, axes, boxes, outer, squares, counts, indices, distances, grain=32)

    search(False, indptr[1:], np.empty(0, np.int32), np.empty(0, points.dtype))
    np.cumsum(indptr, out=indptr)
    allow(int(indptr[-1]))
    indices, distances = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], points.dtype)
    search(True, indptr, indices, distances)
    ends = indptr[rows.start : rows.stop + 1]  # the first and the last block may have further rows
    edges = slice(ends[0], ends[-1])
    return ends - ends[0], indices[edges], distances[edges]
