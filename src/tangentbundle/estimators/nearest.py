"""Nearest points in few dimensions or many."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

MAX_TREE_DIMENSIONS = 15
"""In more dimensions a tree visits nearly all points, and products of matrices are faster."""


class NearestPoints:
    """A search for the nearest of points ``(n, D)``, with the interface of scipy's trees."""

    def __init__(self, points: np.ndarray) -> None:
        self.points = points
        self._tree = cKDTree(points) if points.shape[1] <= MAX_TREE_DIMENSIONS else None
        self._search = None if self._tree is not None else NearestNeighbors(algorithm="brute").fit(points)

    def query(self, points: np.ndarray, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Distances and indices ``(m, k)``; without the last axis if k is one."""
        if self._tree is not None:
            return self._tree.query(points, k=k)
        assert self._search is not None
        flat = np.atleast_2d(points)
        indices = self._search.kneighbors(flat, min(k, len(self.points)), return_distance=False)
        # products of matrices round: coincident points must have distance zero
        distances = np.stack(
            [np.linalg.norm(self.points[row] - p, axis=1) for row, p in zip(indices, flat, strict=True)]
        )
        order = np.argsort(distances, axis=1, kind="stable")
        found = (np.take_along_axis(a, order, axis=1) for a in (distances, indices))
        away, index = (a[:, 0] if k == 1 else a for a in found)
        return (away[0], index[0]) if points.ndim == 1 else (away, index)
