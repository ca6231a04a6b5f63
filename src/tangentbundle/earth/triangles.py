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

ROUNDING = 1e-12
"""A place behind an edge by less lies on it."""

MIN_DEPTH = 1e-9
"""The least distance of the centre of the sphere from the faces of a hull that it lies inside
of."""


def transports(to: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Parallel transport along great circles ``(...)``, in frames ``(..., 3, 2)`` of places not
    opposite.

    A vector (x, y) of the frame is the complex number x + iy, and transport multiplies it by one of
    modulus one.
    """
    overlap = np.einsum("...da,...db->...ab", to, start)
    cosine = overlap[..., 0, 0] + overlap[..., 1, 1]
    sine = overlap[..., 1, 0] - overlap[..., 0, 1]
    turn = cosine + 1j * sine
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
        n = len(points)
        if n < 4:
            raise TooFewPointsError(f"triangles need at least 4 points with values, got {n}.")
        self.tree = cKDTree(points)
        self._hull = _hull_around_centre(points)
        corners = self._hull.simplices
        radii = np.arccos(np.clip(-self._hull.equations[:, 3], -1, 1))
        smallest = np.full(n + 1, np.inf)
        np.minimum.at(smallest, corners.ravel(), np.repeat(radii, 3))
        is_small = radii <= MAX_GAP * smallest[corners].max(axis=1)
        is_of_points = (corners < n).all(axis=1)
        self._in_region = is_small & is_of_points
        self.faces = corners[self._in_region]

    def locate(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Corners and weights ``(m, 3)`` of the triangles around places ``(m, 3)``, and whether the
        region has them."""
        places = np.asarray(places)
        distance, nearest = self.tree.query(places)
        triangle, shares = self._walk(places, nearest)
        corners = self._hull.simplices[triangle]
        heights = np.einsum("mkd,md->mk", self._hull.points[corners], places)
        weights = np.maximum(shares * heights, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        at_point = distance < SAME_PLACE
        corners[at_point] = nearest[at_point, None]
        weights[at_point] = (1.0, 0.0, 0.0)
        return corners, weights, self._in_region[triangle] | at_point

    def _walk(self, places: np.ndarray, nearest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""The triangles ``(m,)`` around places, and :math:`b_k` ``(m, 3)`` in them.

        From a triangle at the nearest point one walks across edges that the place lies behind.
        """
        faces = self._hull.simplices
        inverse = np.linalg.inv(self._hull.points[faces].swapaxes(1, 2))
        triangle_at = np.zeros(len(self._hull.points), np.int64)
        triangle_at[faces] = np.arange(len(faces))[:, None]
        triangle = triangle_at[nearest]
        shares = np.empty((len(places), 3))
        walking = np.arange(len(places))
        for _ in range(len(faces)):
            shares[walking] = np.einsum("mab,mb->ma", inverse[triangle[walking]], places[walking])
            side = shares[walking].argmin(axis=1)
            is_outside = shares[walking, side] < -ROUNDING
            walking = walking[is_outside]
            if not len(walking):
                break
            triangle[walking] = self._hull.neighbors[triangle[walking], side[is_outside]]
        return triangle, shares


def _hull_around_centre(points: np.ndarray) -> ConvexHull:
    """The convex hull of points on the sphere; if they lie in a hemisphere, of these and the place
    opposite to their mean, as number n."""
    try:
        hull = ConvexHull(points)
        if hull.equations[:, 3].max() < -MIN_DEPTH:
            return hull
        mean = points.mean(axis=0)
        return ConvexHull(np.vstack([points, -mean / np.linalg.norm(mean)]))
    except QhullError as error:
        raise RankDeficientError(
            f"all {len(points)} points lie on a circle: there are no triangles."
        ) from error
