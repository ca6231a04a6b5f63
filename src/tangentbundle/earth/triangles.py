r"""Spherical Delaunay triangles of points, and vectors carried between points along great circles.

The convex hull of points on the sphere is their Delaunay triangulation. A place t inside the triangle of
:math:`s_1, s_2, s_3` is :math:`t = \sum_k b_k s_k` with :math:`b_k \ge 0`; the weights :math:`w_k = b_k \, (s_k \cdot
t)` sum to one, and the corners seen from t (in central projection) have their weighted mean at t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import ConvexHull, QhullError, cKDTree

from ..errors import RankDeficientError, TooFewPointsError
from .volumes import MAX_GAP

ROUNDING = 1e-12
"""Barycentric coordinates above minus this count as positive."""


def great_circle_rotations(to: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Parallel transport along great circles ``(..., 2, 2)``, in frames ``(..., 3, 2)`` of places not opposite.

    >>> from tangentbundle.geometry.known_frames import latlon_frames
    >>> frames = latlon_frames(np.array([0.0, 0.0]), np.array([0.0, 90.0]))[1]
    >>> great_circle_rotations(frames[1], frames[0]).round(12).tolist()     # east stays east along the equator
    [[1.0, -0.0], [0.0, 1.0]]
    """
    overlap = np.einsum("...da,...db->...ab", to, start)
    cosine, sine = overlap[..., 0, 0] + overlap[..., 1, 1], overlap[..., 1, 0] - overlap[..., 0, 1]
    turn = np.stack([cosine, -sine, sine, cosine], axis=-1) / np.maximum(np.hypot(cosine, sine), 1e-300)[..., None]
    return turn.reshape(*turn.shape[:-1], 2, 2)


def central_angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances in radians between points ``(..., 3)`` of the unit sphere."""
    return 2 * np.arcsin(np.minimum(np.linalg.norm(a - b, axis=-1) / 2, 1.0))


@dataclass(frozen=True, eq=False)
class Triangulation:
    """The Delaunay triangles of points ``(n, 3)`` on the unit sphere, which may cover a region only.

    >>> import tangentbundle as tb
    >>> triangles = Triangulation(tb.manifolds.Sphere(2).sample(100, seed=0))
    >>> corners, weights, inside = triangles.locate(np.array([[0.0, 0.0, 1.0]]))
    >>> corners.shape, round(float(weights.sum()), 12), bool(inside[0])
    ((1, 3), 1.0, True)
    """

    points: np.ndarray

    @cached_property
    def tree(self) -> cKDTree:
        return cKDTree(self.points)

    @cached_property
    def _hull(self) -> ConvexHull:
        """Of the points; if they lie in a hemisphere, also of the place opposite to their mean (number n)."""
        if len(self.points) < 4:
            raise TooFewPointsError(f"triangles need at least 4 points with values, got {len(self.points)}.")
        try:
            hull = ConvexHull(self.points)
            if hull.equations[:, 3].max() < -1e-9:
                return hull
            mean = self.points.mean(axis=0)
            return ConvexHull(np.vstack([self.points, -mean / np.linalg.norm(mean)]))
        except QhullError as error:
            raise RankDeficientError(
                f"the {len(self.points)} points lie on one circle, so that there are no triangles. Give a grid or a "
                "network of stations."
            ) from error

    @cached_property
    def spanned(self) -> np.ndarray:
        """Which triangles ``(k,)`` lie inside the region: those of large circles (``MAX_GAP``) lie across a gap."""
        faces, radii = self._hull.simplices, np.arccos(np.clip(-self._hull.equations[:, 3], -1, 1))
        smallest = np.full(len(self.points) + 1, np.inf)
        np.minimum.at(smallest, faces.ravel(), np.repeat(radii, 3))
        return (radii <= MAX_GAP * smallest[faces].max(axis=1)) & (faces < len(self.points)).all(axis=1)

    def locate(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Corners and weights ``(m, 3)`` of the triangles around places ``(m, 3)``, and whether these are ``spanned``.

        From a triangle at the nearest point one walks across edges that the place lies behind.
        """
        triangles, beside = self._hull.simplices, self._hull.neighbors
        inverse = np.linalg.inv(self._hull.points[triangles].swapaxes(1, 2))
        start = np.zeros(len(self.points), np.int64)
        inner = triangles < len(self.points)
        start[triangles[inner]] = np.nonzero(inner)[0]
        at, left = start[self.tree.query(places)[1]], np.arange(len(places))
        inside = np.empty((len(places), 3))
        for _ in range(len(triangles)):
            inside[left] = np.einsum("mab,mb->ma", inverse[at[left]], places[left])
            worst = inside[left].argmin(axis=1)
            out = inside[left, worst] < -ROUNDING
            left, worst = left[out], worst[out]
            if not len(left):
                break
            at[left] = beside[at[left], worst]
        corners = triangles[at]
        weights = np.maximum(inside * np.einsum("mkd,md->mk", self._hull.points[corners], places), 0.0)
        return corners, weights / weights.sum(axis=1, keepdims=True), self.spanned[at]
