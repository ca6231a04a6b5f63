"""The points of a cloud that are nearest to other places."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

MAX_TREE_DIMENSIONS = 15
"""In more dimensions a tree visits nearly all points, and products of matrices are faster."""


class NearestPoints:
    """A search for the nearest of points ``(n, D)``, with the interface of scipy's trees."""

    def __init__(self, points: np.ndarray) -> None:
        self.points = points
        self._tree: cKDTree | None = None
        if points.shape[1] <= MAX_TREE_DIMENSIONS:
            self._tree = cKDTree(points)
        else:
            from sklearn.neighbors import NearestNeighbors  # slow to import, rarely needed

            # squared distances are differences of squared lengths, which round less the nearer the
            # origin is
            self._center = points.mean(axis=0)
            self._search = NearestNeighbors(algorithm="brute").fit(points - self._center)

    def query(self, points: np.ndarray, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Distances and indices ``(m, k)``; without the last axis if k is one."""
        if self._tree is not None:
            return self._tree.query(points, k=k)
        flat = np.atleast_2d(points)
        indices = self._search.kneighbors(
            flat - self._center, min(k, len(self.points)), return_distance=False
        )
        # products of matrices round: coincident points must have distance zero
        distances = np.stack(
            [
                np.linalg.norm(self.points[row] - p, axis=1)
                for row, p in zip(indices, flat, strict=True)
            ]
        )
        order = np.argsort(distances, axis=1, kind="stable")
        distances = np.take_along_axis(distances, order, axis=1)
        indices = np.take_along_axis(indices, order, axis=1)
        if k == 1:
            distances = distances[:, 0]
            indices = indices[:, 0]
        if points.ndim == 1:
            return distances[0], indices[0]
        return distances, indices
