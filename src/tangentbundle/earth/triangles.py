r"""Spherical Delaunay triangles, which are the convex hull of points on the sphere, and transport
along great circles.

A place t in the triangle of :math:`s_1, s_2, s_3` is :math:`t = \sum_k b_k s_k` with
:math:`b_k \ge 0`. The weights :math:`w_k = b_k \, s_k \cdot t` sum to one; in central projection to
the plane at t, t is the mean of the corners.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull, QhullError, cKDTree

from ..errors import RankDeficientError, TooFewPointsError

MAX_GAP = 6.0
"""How large the circle through a Delaunay triangle may be, in units of the smallest circle at a
corner. Larger ones lie across a gap in the data. No circle of 20 000 random points reaches it."""

SAME_PLACE = 1e-6
"""Distances on the unit sphere below this, 6 m on the Earth, are rounding of coordinates in single
precision."""


def transports(to: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Parallel transport along great circles ``(...)``, in frames ``(..., 3, 2)`` of places not
    opposite.

    A vector (x, y) of the frame is the complex number x + iy, and transport multiplies it by one of
    modulus one.
    """
    overlap = np.einsum("...da,...db->...ab", to, start)
    turn = overlap[..., 0, 0] + overlap[..., 1, 1] + 1j * (overlap[..., 1, 0] - overlap[..., 0, 1])
    return turn / np.maximum(np.abs(turn), 1e-300)


def central_angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances in radians between points ``(..., 3)`` of the unit sphere."""
    return 2 * np.arcsin(np.minimum(np.linalg.norm(a - b, axis=-1) / 2, 1.0))


class Triangulation:
    """The Delaunay triangles of points ``(n, 3)`` on the unit sphere, which may cover a region
    only.

    ``faces (k, 3)`` are the numbers of the corners of the triangles of the region.
    """

    def __init__(self, points: np.ndarray) -> None:
        n, self.tree = len(points), cKDTree(points)
        if n < 4:
            raise TooFewPointsError(f"triangles need at least 4 points with values, got {n}.")
        try:
            hull, mean = ConvexHull(points), points.mean(axis=0)
            if (
                hull.equations[:, 3].max() >= -1e-9
            ):  # a hemisphere: with the place opposite to the mean, as number n
                hull = ConvexHull(np.vstack([points, -mean / np.linalg.norm(mean)]))
        except QhullError as error:
            raise RankDeficientError(
                f"all {n} points lie on a circle: there are no triangles."
            ) from error
        corners, radii = hull.simplices, np.arccos(np.clip(-hull.equations[:, 3], -1, 1))
        smallest = np.full(n + 1, np.inf)
        np.minimum.at(smallest, corners.ravel(), np.repeat(radii, 3))
        self._hull = hull
        self._spanned = (radii <= MAX_GAP * smallest[corners].max(axis=1)) & (corners < n).all(
            axis=1
        )
        self.faces = corners[self._spanned]

    def locate(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Corners and weights ``(m, 3)`` of the triangles around places ``(m, 3)``, and whether the
        region has them.

        From a triangle at the nearest point one walks across edges that the place lies behind.
        """
        faces, places = self._hull.simplices, np.asarray(places)
        inverse = np.linalg.inv(self._hull.points[faces].swapaxes(1, 2))
        face_at = np.zeros(len(self._hull.points), np.int64)
        face_at[faces] = np.arange(len(faces))[:, None]
        distance, nearest = self.tree.query(places)
        at, left, inside = face_at[nearest], np.arange(len(places)), np.empty((len(places), 3))
        for _ in range(len(faces)):
            inside[left] = np.einsum("mab,mb->ma", inverse[at[left]], places[left])
            side = inside[left].argmin(axis=1)
            out = inside[left, side] < -1e-12  # less is rounding
            left, side = left[out], side[out]
            if not len(left):
                break
            at[left] = self._hull.neighbors[at[left], side]
        weights = np.maximum(
            inside * np.einsum("mkd,md->mk", self._hull.points[faces[at]], places), 0.0
        )
        corners, weights, same = (
            faces[at],
            weights / weights.sum(axis=1, keepdims=True),
            distance < SAME_PLACE,
        )
        corners[same], weights[same] = nearest[same, None], (1.0, 0.0, 0.0)
        return corners, weights, self._spanned[at] | same
