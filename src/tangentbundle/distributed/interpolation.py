"""Fields at new points: each partition serves those that fall on its part of the curve."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from ..geometry.frames import local_pca
from ..geometry.graph import graph_of_lists
from .build import SLACK
from .cloud import BLOCK, Cloud, boxes_of
from .exchange import Exchange
from .files import load_array, save_array
from .scale import Geometry


@dataclass(frozen=True)
class Interpolation:
    """Tangent vectors ``part(vectors, p)`` of a cloud at the points of another exchange, with the same splits.

    The value at a new point is the mean of the vectors at its ``nearest`` points by inverse squared distance, projected
    on the tangent space that ``neighbors`` points around it span.
    """

    cloud: Cloud = field(repr=False)
    places: Exchange = field(repr=False)
    vectors: str
    neighbors: int
    folder: Path
    geometry: Geometry = field(repr=False)
    nearest: int = 6

    def interpolate(self, p: int) -> None:
        """Write the field at the new points of a partition, unmerged."""
        place = self.folder / f"vectors-{p:06d}.npy"
        if not place.exists():
            points = np.array(load_array(self.places.part("points", p)))
            shape = load_array(self.cloud.part(self.vectors, p)).shape[1:]
            values = np.empty((len(points), *shape), self.geometry.real)
            for a in range(0, len(points), BLOCK):
                values[a : a + BLOCK] = self.at(points[a : a + BLOCK], p)
            save_array(place, self.places.unmerge(values, p))

    def at(self, points: np.ndarray, p: int) -> np.ndarray:
        """The field at points that are near each other."""
        numbers, tree = self._around(points, p)
        frames = self.cloud.gather(self.geometry.of_frames("frames"), numbers)
        vectors = self.cloud.gather(self.vectors, numbers).astype(np.float64)
        tangent = np.einsum("nij,nkj,nk...->ni...", frames, frames, vectors)
        k = [np.arange(1, min(count, tree.n) + 1) for count in (self.nearest, self.neighbors)]
        distances, index = tree.query(points, k=k[0])
        weights = 1.0 / np.maximum(np.square(distances), 1e-24 * max(float(np.square(distances).max()), 1e-300))
        mean = np.einsum("mk,mk...->m...", weights / weights.sum(axis=1, keepdims=True), tangent[index])
        bases = tangent_bases(points, tree, frames, *tree.query(points, k=k[1]))
        return np.einsum("mij,mkj,mk...->mi...", bases, bases, mean)

    def _around(self, points: np.ndarray, p: int) -> tuple[np.ndarray, cKDTree]:
        """Numbers and tree of points of the cloud, among them all that can be nearest."""
        boxes, cloud, k, reach = boxes_of(points), self.cloud, max(self.nearest, self.neighbors), 0.0
        numbers = cloud.near(boxes, reach)
        numbers = numbers if len(numbers) >= k else np.union1d(numbers, cloud.own(p))
        numbers = numbers if len(numbers) >= k else np.arange(cloud.rows)
        while True:  # the nearest of a subset bound how far the nearest of all can be
            tree = cKDTree(cloud.gather("points", numbers))
            farthest = float(tree.query(points, k=[min(k, tree.n)])[0].max())
            if farthest <= reach or tree.n == cloud.rows:
                return numbers, tree
            reach = farthest * SLACK
            numbers = cloud.near(boxes, reach)


def tangent_bases(
    points: np.ndarray, tree: cKDTree, frames: np.ndarray, distances: np.ndarray, index: np.ndarray
) -> np.ndarray:
    """Bases ``(m, D, d)`` at new points by local PCA of their neighbours ``(m, k)`` in a tree.

    Where a new point is a point of the tree, or its neighbours span too little, the nearest point's frame is used.
    """
    reach = np.maximum(1.2 * distances[:, -1], np.finfo(float).tiny)
    graph = graph_of_lists(distances, index)
    axes = local_pca(np.array(tree.data), graph, reach, centers=points, axes=frames.shape[2]).axes
    known = (distances[:, 0] == 0.0) | (np.abs(np.linalg.norm(axes, axis=1) - 1).max(axis=1) > 1e-6)
    axes[known] = frames[index[known, 0]]
    return axes
