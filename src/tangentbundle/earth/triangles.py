r"""Spherical Delaunay triangles, which are the convex hull of points on the sphere, and transport along great circles.

A place t in the triangle of :math:`s_1, s_2, s_3` is :math:`t = \sum_k b_k s_k` with :math:`b_k \ge 0`. The weights
:math:`w_k = b_k \, s_k \cdot t` sum to one; in central projection to the plane at t, t is the mean of the corners.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import ConvexHull, QhullError, cKDTree

from ..errors import RankDeficientError, TooFewPointsError

MAX_GAP = 6.0
"""How large the circle through a Delaunay triangle may be, in units of the smallest circle at a corner. Larger ones lie
across a gap in the data. No circle of 20 000 random points reaches it."""


def transports(to: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Parallel transport along great circles ``(...)``, in frames ``(..., 3, 2)`` of places not opposite.

    A vector (x, y) of the frame is the complex number x + iy, and transport multiplies it by one of modulus one.
    """
    overlap = np.einsum("...da,...db->...ab", to, start)
    turn = overlap[..., 0, 0] + overlap[..., 1, 1] + 1j * (overlap[..., 1, 0] - overlap[..., 0, 1])
    return turn / np.maximum(np.abs(turn), 1e-300)


def central_angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances in radians between points ``(..., 3)`` of the unit sphere."""
    return 2 * np.arcsin(np.minimum(np.linalg.norm(a - b, axis=-1) / 2, 1.0))


@dataclass(frozen=True, eq=False)
class Triangulation:
    """The Delaunay triangles of points ``(n, 3)`` on the unit sphere, which may cover a region only."""

    points: np.ndarray

    @cached_property
    def tree(self) -> cKDTree:
        return cKDTree(self.points)

    @cached_property
    def _hull(self) -> ConvexHull:
        """Of the points; if they lie in a hemisphere, also of the place opposite to their mean, as number n."""
        if len(self.points) < 4:
            raise TooFewPointsError(f"triangles need at least 4 points with values, got {len(self.points)}.")
        try:
            hull, mean = ConvexHull(self.points), self.points.mean(axis=0)
            around = hull.equations[:, 3].max() < -1e-9  # the centre of the Earth lies inside
            return hull if around else ConvexHull(np.vstack([self.points, -mean / np.linalg.norm(mean)]))
        except QhullError as error:
            raise RankDeficientError(
                f"all {len(self.points)} points lie on a circle: there are no triangles."
            ) from error

    @cached_property
    def _spanned(self) -> np.ndarray:
        """Which triangles ``(k,)`` lie inside the region: those of large circles (``MAX_GAP``) lie across a gap."""
        faces, radii = self._hull.simplices, np.arccos(np.clip(-self._hull.equations[:, 3], -1, 1))
        smallest = np.full(len(self.points) + 1, np.inf)
        np.minimum.at(smallest, faces.ravel(), np.repeat(radii, 3))
        return (radii <= MAX_GAP * smallest[faces].max(axis=1)) & (faces < len(self.points)).all(axis=1)

    @property
    def faces(self) -> np.ndarray:
        """Numbers of the corners ``(k, 3)`` of the triangles of the region."""
        return self._hull.simplices[self._spanned]

    def locate(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Corners and weights ``(m, 3)`` of the triangles around places ``(m, 3)``, and whether the region has them.

        From a triangle at the nearest point one walks across edges that the place lies behind.
        """
        faces, places = self._hull.simplices, np.asarray(places)
        inverse = np.linalg.inv(self._hull.points[faces].swapaxes(1, 2))
        some = np.zeros(len(self._hull.points), np.int64)
        some[faces] = np.arange(len(faces))[:, None]
        at, left, inside = some[self.tree.query(places)[1]], np.arange(len(places)), np.empty((len(places), 3))
        for _ in range(len(faces)):
            inside[left] = np.einsum("mab,mb->ma", inverse[at[left]], places[left])
            side = inside[left].argmin(axis=1)
            out = inside[left, side] < -1e-12  # less is rounding
            left, side = left[out], side[out]
            if not len(left):
                break
            at[left] = self._hull.neighbors[at[left], side]
        weights = np.maximum(inside * np.einsum("mkd,md->mk", self._hull.points[faces[at]], places), 0.0)
        return faces[at], weights / weights.sum(axis=1, keepdims=True), self._spanned[at]
