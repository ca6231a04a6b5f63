r"""Cells of grids on the unit sphere as finite volumes: who touches whom, along how long a side, and areas.

The Laplacian is :math:`(\Delta v)_i = A_i^{-1} \sum_j w_{ij} (O_{ij} v_j - v_i)`. The weight of two cells is the length
of the side that they share, over the distance :math:`\theta` of their centres, up to terms of second order. On regular
grids these are such that :math:`\sum_j w_{ij} \sin(\theta_{ij})\, e_{ij} = 0` with the directions :math:`e_{ij}` of the
neighbours. Then errors of rotations, relative to their speed, are no larger at the poles than elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .triangles import Triangulation


class Volumes(NamedTuple):
    """Pairs ``(e, 2)`` of neighbouring cells, each pair once, and their weights ``(e,)``; areas ``(n,)`` on the unit
    sphere; ``rim`` (n,), true where the region ends.
    """

    pairs: np.ndarray
    weights: np.ndarray
    areas: np.ndarray
    rim: np.ndarray


def latitude_bands(lat: np.ndarray) -> np.ndarray:
    """Area on the unit sphere, per radian of longitude, of the bands around ascending or descending rows (degrees).

    >>> round(float(latitude_bands(np.linspace(90, -90, 73)).sum()), 12)
    2.0
    """
    return np.abs(np.diff(np.sin(np.radians(_sides(lat)))))


def longitude_widths(lon: np.ndarray) -> np.ndarray:
    """Width in radians around each longitude (degrees); a grid that does not go round has no width across its gap.

    >>> round(float(longitude_widths(np.arange(0, 360, 2.5)).sum() / np.pi), 12)
    2.0
    """
    order = np.argsort(lon % 360)
    gaps = _steps((lon % 360)[order])
    gaps = np.where(_across(gaps), np.median(gaps), gaps)
    return np.radians((gaps + np.roll(gaps, 1)) / 2)[np.argsort(order)]


def _sides(rows: np.ndarray) -> np.ndarray:
    """Latitudes of the sides of sorted rows, one more than rows; at a pole, if a further row would lie behind it."""
    padded = np.pad(rows, 1, "reflect", reflect_type="odd") if len(rows) > 1 else np.add(rows, (-1.0, 0.0, 1.0))
    sides = (padded[1:] + padded[:-1]) / 2
    ends = padded[[0, -1]]
    sides[[0, -1]] = np.where(np.abs(ends) > 90 + 1e-6, 90 * np.sign(ends), sides[[0, -1]])
    return sides


def _steps(ring: np.ndarray) -> np.ndarray:
    """From each longitude to the next, and from the last one round to the first."""
    return np.diff(ring, append=ring[0] + 360)


def _across(gaps: np.ndarray) -> np.ndarray:
    """Which steps are gaps in a grid that does not go round."""
    return gaps > 1.5 * np.median(gaps)


def regular_volumes(lat: np.ndarray, lon: np.ndarray, point: np.ndarray, n: int) -> Volumes:
    """Cells between circles of latitude and meridians; ``point`` (rows, columns) numbers them, a pole's row alike.

    Cells touch along their sides only, never at corners, and across the meridian at which longitudes begin.
    """
    rows, columns = np.argsort(lat), np.argsort(lon % 360)
    columns = columns[np.append(True, np.diff((lon % 360)[columns]) > 1e-6)]  # 0 and 360 are one longitude
    lat, lon, point = lat[rows], lon[columns], point[np.ix_(rows, columns)]
    widths, gaps, heights = longitude_widths(lon), np.radians(_steps(lon % 360)), np.radians(np.diff(_sides(lat)))
    inner = np.abs(lat) < 90 - 1e-6
    round_trip = ~_across(gaps) if len(lon) > 2 else np.arange(len(lon)) < len(lon) - 1
    east = np.stack([point, np.roll(point, -1, axis=1)], axis=-1)[inner][:, round_trip]
    north = np.stack([point[:-1], point[1:]], axis=-1)
    across = np.outer(np.sin(heights / 2) / np.cos(np.radians(lat)), gaps / 2 / np.square(np.sin(gaps / 2)))
    along = np.outer(np.cos(np.radians(_sides(lat)[1:-1])) / np.sin(np.radians(np.diff(lat))), widths)
    weights = np.concatenate([across[inner][:, round_trip].ravel(), along.ravel()])
    areas = np.bincount(point.ravel(), np.outer(latitude_bands(lat), widths).ravel(), n)
    rim = np.zeros(n, bool)
    rim[point[[row for row in (0, -1) if abs(2 * _sides(lat)[row] - lat[row]) < 90 - 1e-6]]] = True  # a further row
    rim[point[:, ~round_trip | ~np.roll(round_trip, 1)]] = True
    return Volumes(np.concatenate([east.reshape(-1, 2), north.reshape(-1, 2)]), weights, areas, rim)


def voronoi_volumes(points: np.ndarray) -> Volumes:
    """Voronoi cells of points ``(n, 3)`` on the unit sphere, from the Delaunay triangles, which their hull is made of.

    Triangles across a gap in the data do not count: there the region ends.
    """
    n, faces = len(points), Triangulation(points).faces.astype(np.int64)
    a, b, c = corners = points[faces].swapaxes(0, 1)
    squares = np.square(np.roll(corners, 1, axis=0) - np.roll(corners, 2, axis=0)).sum(axis=2).T
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    cotangents = (squares.sum(axis=1)[:, None] - 2 * squares) / (4 * area)[:, None]  # at each corner
    moments = squares * cotangents / 8
    parts = np.roll(moments, 1, axis=1) + np.roll(moments, 2, axis=1)  # of the triangle, nearest to each corner
    sides = np.sort(np.concatenate([faces[:, [k - 1, k - 2]] for k in range(3)]), axis=1)  # opposite each corner
    pairs, number = np.unique(sides, axis=0, return_inverse=True)
    weights = np.maximum(np.bincount(number.ravel(), cotangents.T.ravel() / 2, len(pairs)), 0.0)
    areas = np.bincount(faces.ravel(), parts.ravel(), n)
    areas = np.maximum(areas, np.bincount(faces.ravel(), np.repeat(area / 6, 3), n))  # at ragged edges
    rim = np.bincount(pairs[np.bincount(number.ravel()) == 1].ravel(), minlength=n) > 0
    return Volumes(pairs, weights, areas, rim)
