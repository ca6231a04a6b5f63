"""Fields at new points, from the nearest points of a cloud."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..geometry.frames import pca_of_nearest
from .build import Geometry
from .cloud import BLOCK, Cloud
from .files import load_array, save_array


@dataclass(frozen=True)
class Interpolation:
    """Tangent vectors ``part(vectors, p)`` of a cloud at other points, ``places``, sorted along the same curve.

    The value at a new point is the mean of the vectors at its ``nearest`` points by inverse squared distance, projected
    on the tangent space that ``neighbors`` points around it span.
    """

    cloud: Cloud = field(repr=False)
    geometry: Geometry = field(repr=False)
    places: Cloud
    vectors: str
    neighbors: int
    nearest: int = 6

    def interpolate(self, p: int) -> None:
        """Write the field at the new points of a partition as ``field``, block by block."""
        if not self.places.part("field", p).exists():
            points = load_array(self.places.part("points", p))
            blocks = [self.at(np.array(points[a : a + BLOCK])) for a in range(0, len(points), BLOCK)]
            save_array(self.places.part("field", p), np.concatenate(blocks).astype(self.geometry.real))

    def at(self, points: np.ndarray) -> np.ndarray:
        """The field at points that are near each other."""
        distances, numbers = self.cloud.nearest(points, max(self.nearest, self.neighbors))
        known, index = np.unique(numbers, return_inverse=True)
        index = index.reshape(numbers.shape)
        frames = self.cloud.gather(self.geometry.of_frames("frames"), known)
        vectors = self.cloud.gather(self.vectors, known).astype(np.float64)
        tangent = np.einsum("nij,nkj,nk...->ni...", frames, frames, vectors)
        squares = np.square(distances[:, : self.nearest])
        weights = 1.0 / np.maximum(squares, 1e-24 * max(float(squares.max()), 1e-300))
        weights /= weights.sum(axis=1, keepdims=True)
        mean = np.einsum("mk,mk...->m...", weights, tangent[index[:, : self.nearest]])
        span = distances[:, : self.neighbors], index[:, : self.neighbors]
        bases = tangent_bases(points, self.cloud.gather("points", known), frames, *span)
        return np.einsum("mij,mkj,mk...->mi...", bases, bases, mean)


def tangent_bases(
    points: np.ndarray, cloud: np.ndarray, frames: np.ndarray, distances: np.ndarray, index: np.ndarray
) -> np.ndarray:
    """Bases ``(m, D, d)`` at new points by local PCA of their neighbours ``(m, k)`` in a cloud with frames.

    Where a new point is a point of the cloud, or its neighbours span too little, the nearest point's frame is used.
    """
    axes = pca_of_nearest(cloud, distances, index, points, axes=frames.shape[2]).axes
    known = (distances[:, 0] == 0.0) | (np.abs(np.linalg.norm(axes, axis=1) - 1).max(axis=1) > 1e-6)
    axes[known] = frames[index[known, 0]]
    return axes
