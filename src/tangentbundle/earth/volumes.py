r"""Cells of grids on the unit sphere as finite volumes: who touches whom, along how long a side,
and areas.

The Laplacian is :math:`(\Delta v)_i = A_i^{-1} \sum_j w_{ij} (O_{ij} v_j - v_i)`. The weight of two
cells is the length of the side that they share, over the distance :math:`\theta` of their centres,
up to terms of second order. On regular grids these are such that
:math:`\sum_j w_{ij} \sin(\theta_{ij})\, e_{ij} = 0` with the directions :math:`e_{ij}` of the
neighbours. Then errors of rotations, relative to their speed, are no larger at the poles than
elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .gaps import column_steps, untouching
from .triangles import Triangulation


class Volumes(NamedTuple):
    """Pairs ``(e, 2)`` of neighbouring cells, each pair once, and their weights ``(e,)``; areas
    ``(n,)`` on the unit sphere; ``rim`` (n,), true where the region ends.
    """

    pairs: np.ndarray
    weights: np.ndarray
    areas: np.ndarray
    rim: np.ndarray


POLE_SHARE = 0.01
"""Rows that would end within this share of a step from a pole end there: latitudes are rounded,
often to float32."""


SAME_SHARE = 1e-3
"""Columns nearer to each other than this share of the typical step are one longitude, rounded: 0
and 359.99999."""


def rounded_to_poles(lat: np.ndarray) -> np.ndarray:
    """Latitudes of rows (degrees), those nearer to a pole than ``POLE_SHARE`` of their step at it.

    Otherwise the cells of such a row are so narrow that they determine the operator's largest
    eigenvalue.

    >>> rounded_to_poles(np.array([-89.9999, -60.0, 0.0, 89.0]))
    array([-90.,  -60.,    0.,   89.])
    """
    rows = np.unique(lat)
    if len(rows) < 2:
        return lat
    rounded = np.array(lat, np.float64)
    for pole, row, next_row in ((-90.0, rows[0], rows[1]), (90.0, rows[-1], rows[-2])):
        if 0 < abs(pole - row) < POLE_SHARE * abs(row - next_row):
            rounded[lat == row] = pole
    return rounded


def merged_columns(lon: np.ndarray) -> np.ndarray:
    """Longitudes of columns (degrees), those that coincide up to rounding made equal.

    >>> merged_columns(np.array([0.0, 120.0, 240.0, 359.99999])) % 360
    array([  0., 120., 240.,   0.])
    """
    order = np.argsort(lon % 360, kind="stable")
    steps = column_steps((lon % 360)[order])
    if len(steps) < 3:
        return lon
    same = (steps > 0) & (steps < SAME_SHARE * np.median(steps))
    merged = np.array(lon, np.float64)
    for k in np.flatnonzero(same):
        pair = sorted((order[k], order[(k + 1) % len(order)]))
        merged[pair[1]] = merged[pair[0]]
    return merged


def latitude_bands(lat: np.ndarray) -> np.ndarray:
    """Area on the unit sphere, per radian of longitude, of the bands around ascending or descending
    rows (degrees).

    >>> round(float(latitude_bands(np.linspace(90, -90, 73)).sum()), 12)
    2.0
    """
    return np.abs(np.diff(np.sin(np.radians(_sides(lat)))))


def longitude_widths(lon: np.ndarray) -> np.ndarray:
    """Width in radians around each longitude (degrees); a grid that does not go round has no width
    across its gap.

    >>> round(float(longitude_widths(np.arange(0, 360, 2.5)).sum() / np.pi), 12)
    2.0
    """
    order = np.argsort(lon % 360)
    east, west = _half_widths(column_steps((lon % 360)[order]))
    return np.radians(east + west)[np.argsort(order)]


def _sides(rows: np.ndarray) -> np.ndarray:
    """Latitudes of the sides of sorted rows, one more than rows; at a pole, if a further row would
    lie there or behind.

    The cells of a row that is one step from a pole meet there, since no other cell covers the pole.
    """
    padded = _padded(rows)
    sides = (padded[1:] + padded[:-1]) / 2
    for end, closed in zip((0, -1), _reaches_pole(rows), strict=True):
        if closed:
            sides[end] = np.copysign(90.0, padded[end])
    return sides


def _padded(rows: np.ndarray) -> np.ndarray:
    """Sorted rows, and one more at each end, as far away as the next row."""
    if len(rows) == 1:
        return rows + np.array([-1.0, 0.0, 1.0])
    return np.pad(rows, 1, "reflect", reflect_type="odd")


def _reaches_pole(rows: np.ndarray) -> np.ndarray:
    """Whether the cells of the first and of the last row reach a pole, (2,)."""
    padded = _padded(rows)
    steps = np.abs(padded[[1, -1]] - padded[[0, -2]])
    return np.abs(padded[[0, -1]]) > 90 - POLE_SHARE * steps


def _half_widths(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the cell of each sorted longitude reaches to the east and to the west, in degrees.

    Half a step, but beside a gap as far as on the other side.
    """
    if len(steps) == 1:
        return steps / 2, steps / 2
    gaps = untouching(steps)
    east = np.where(gaps, np.nan, steps / 2)
    west = np.roll(east, 1)
    touching_steps = steps[~gaps]
    if len(touching_steps):
        alone = np.median(touching_steps) / 2
    else:
        alone = steps.min() / 2
    east_or_west = np.where(np.isnan(east), west, east)
    west_or_east = np.where(np.isnan(west), east, west)
    return np.nan_to_num(east_or_west, nan=alone), np.nan_to_num(west_or_east, nan=alone)


def regular_volumes(lat: np.ndarray, lon: np.ndarray, point: np.ndarray, n: int) -> Volumes:
    """Cells between circles of latitude and meridians; ``point`` (rows, columns) numbers them, a
    pole's row alike.

    Cells touch along their sides, never at corners, and across the meridian at which longitudes
    begin. Around a pole without a row they meet in the pole, opposite ones too (see
    ``_polar_link``).
    """
    cells = LatLonCells.of(lat, lon, point)
    around_poles, meridional = _links_around_poles(cells)
    groups = [*around_poles, _links_along_rows(cells, meridional), _links_along_columns(cells)]
    return Volumes(
        pairs=np.concatenate([group.pairs for group in groups]),
        weights=np.concatenate([group.weights for group in groups]),
        areas=cells.areas(n),
        rim=cells.rim(n),
    )


@dataclass(frozen=True, eq=False)
class LatLonCells:
    """The cells of a regular grid from south to north and from west to east.

    Attributes:
        lat, lon: rows and columns in degrees, ascending.
        point: ``(rows, columns)`` the numbers of the cells.
        sides: ``(rows + 1,)`` latitudes of the sides of rows, in radians.
        steps: ``(columns,)`` degrees from each column to the next.
        east_half, west_half: ``(columns,)`` degrees that cells reach to the east and to the west.
        touching: ``(columns,)`` whether the cells of a column touch those of the next.
    """

    lat: np.ndarray
    lon: np.ndarray
    point: np.ndarray
    sides: np.ndarray
    steps: np.ndarray
    east_half: np.ndarray
    west_half: np.ndarray
    touching: np.ndarray

    @classmethod
    def of(cls, lat: np.ndarray, lon: np.ndarray, point: np.ndarray) -> LatLonCells:
        """The cells of rows and columns in any order; of several columns of one longitude, the
        first."""
        lon = lon % 360
        rows = np.argsort(lat)
        columns = np.argsort(lon)
        is_new = np.append(True, np.diff(lon[columns]) > 1e-6)
        columns = columns[is_new]
        steps = column_steps(lon[columns])
        east_half, west_half = _half_widths(steps)
        return cls(
            lat=lat[rows],
            lon=lon[columns],
            point=point[np.ix_(rows, columns)],
            sides=np.radians(_sides(lat[rows])),
            steps=steps,
            east_half=east_half,
            west_half=west_half,
            touching=~untouching(steps),
        )

    @property
    def widths(self) -> np.ndarray:
        """Of the columns in radians."""
        return np.radians(self.east_half + self.west_half)

    @property
    def is_pole(self) -> np.ndarray:
        """Which rows are a pole."""
        return np.abs(self.lat) > 90 - 1e-6

    def areas(self, n: int) -> np.ndarray:
        """Of n points, on the unit sphere."""
        areas = np.outer(latitude_bands(self.lat), self.widths)
        return np.bincount(self.point.ravel(), areas.ravel(), n)

    def rim(self, n: int) -> np.ndarray:
        """Which of n points lie where the region ends: at rows that do not reach a pole, and beside
        gaps between columns."""
        rim = np.zeros(n, bool)
        last_rows = np.array([0, -1])[~_reaches_pole(self.lat)]
        beside_gap = ~self.touching | ~np.roll(self.touching, 1)
        rim[self.point[last_rows]] = True
        rim[self.point[:, beside_gap]] = True
        return rim


class Links(NamedTuple):
    """Pairs ``(e, 2)`` of cells that share a side, and weights ``(e,)``."""

    pairs: np.ndarray
    weights: np.ndarray


def _links_around_poles(cells: LatLonCells) -> tuple[list[Links], np.ndarray]:
    """Links between opposite cells of the last rows, if these meet in a pole, and the weights of
    cells side by side of each row, ``(rows,)``, per radian of longitude."""
    # fluxes of rotations balance with these and the sides along parallels
    meridional = np.sin(np.diff(cells.sides) / 2)
    links: list[Links] = []
    if not cells.touching.all() or len(cells.lat) == 1:
        return links, meridional
    opposite = _opposite(
        np.radians(cells.lon), np.radians(cells.east_half), np.radians(cells.west_half)
    )
    reaches_pole = _reaches_pole(cells.lat)
    for end, row, inner in ((0, 0, 1), (1, -1, -2)):
        if not reaches_pole[end] or cells.is_pole[row]:
            continue
        link, meridional[row] = _polar_link(
            colatitude=np.pi / 2 - np.radians(abs(cells.lat[row])),
            side=np.pi / 2 - abs(cells.sides[inner]),
            step=np.radians(abs(cells.lat[row] - cells.lat[inner])),
            reach=opposite.reach,
            otherwise=meridional[row],
        )
        if link > 0:
            links.append(Links(cells.point[row][opposite.pairs], link * opposite.widths))
    return links, meridional


def _links_along_rows(cells: LatLonCells, meridional: np.ndarray) -> Links:
    """Between cells side by side in a row, of the weight ``meridional`` (rows,) per radian."""
    angles = np.radians(cells.steps)
    per_step = angles / 2 / np.square(np.sin(angles / 2))
    weights = np.outer(meridional / np.cos(np.radians(cells.lat)), per_step)
    pairs = np.stack([cells.point, np.roll(cells.point, -1, axis=1)], axis=-1)
    rows = ~cells.is_pole
    return Links(
        pairs[rows][:, cells.touching].reshape(-1, 2), weights[rows][:, cells.touching].ravel()
    )


def _links_along_columns(cells: LatLonCells) -> Links:
    """Between cells of neighbouring rows."""
    per_radian = np.cos(cells.sides[1:-1]) / np.sin(np.radians(np.diff(cells.lat)))
    pairs = np.stack([cells.point[:-1], cells.point[1:]], axis=-1)
    return Links(pairs.reshape(-1, 2), np.outer(per_radian, cells.widths).ravel())


class Opposite(NamedTuple):
    r"""Pairs ``(k, 2)`` of columns whose sectors overlap across a pole, and by how much, in radians
    of longitude.

    ``reach`` is the mean of :math:`1 - \cos(\lambda_a - \lambda_b)`, which is 2 for columns exactly
    opposite.
    """

    pairs: np.ndarray
    widths: np.ndarray
    reach: float


def _opposite(lon: np.ndarray, east: np.ndarray, west: np.ndarray) -> Opposite:
    """The sectors of sorted longitudes that go round, and the same turned by half a circle, cut
    each other."""
    turn = 2 * np.pi
    starts = (lon - west) % turn
    cuts = np.unique(np.concatenate([starts, (starts + np.pi) % turn]))
    lengths = np.diff(cuts, append=cuts[0] + turn)
    middles = cuts + lengths / 2
    order = np.argsort(starts)

    def sector(angle: np.ndarray) -> np.ndarray:
        return order[np.searchsorted(starts[order], angle % turn, side="right") - 1]

    first = sector(middles)
    second = sector(middles + np.pi)
    each_once = (first < second) & (lengths > 1e-9)
    joined = np.stack([first, second], axis=1)[each_once]
    widths = lengths[each_once]
    if not len(widths):
        return Opposite(joined, widths, reach=2.0)
    away = 1 - np.cos(lon[joined[:, 0]] - lon[joined[:, 1]])
    return Opposite(joined, widths, reach=float(np.average(away, weights=widths)))


def _polar_link(
    colatitude: float, side: float, step: float, reach: float, otherwise: float
) -> tuple[float, float]:
    r"""Weights around a pole without a row: of opposite cells, and of cells side by side, per
    radian of longitude.

    With the colatitudes c of the row and s of its other side, and the distance t of the next row,
    cells are sectors of area :math:`s^2/2`. Derivatives and their adjoints are consistent in the
    cell i if its neighbours have

    .. math:: \sum_j w_{ij} y_j y_j^T = 2 A_i I, \qquad \sum_j w_{ij} y_j = 0

    for the ways :math:`y_j` to them. With the weight s/t of the next row, both hold for opposite
    cells that have the weight :math:`s (s - t) / 4 c^2` and neighbours side by side that balance
    the rest. No link is needed if the row is half a step from the pole. Nearer to it the weight
    would be negative, and cells side by side have ``otherwise``.
    """
    link = np.sin(side) * (np.sin(side) - np.sin(step)) / (4 * np.sin(colatitude) ** 2)
    if link <= 1e-9:
        return 0.0, otherwise
    balance = np.sin(side) - link * reach * np.sin(colatitude) * np.cos(colatitude)
    return link, balance / (2 * np.cos(colatitude))


def voronoi_volumes(points: np.ndarray) -> Volumes:
    """Voronoi cells of points ``(n, 3)`` on the unit sphere, from the Delaunay triangles, which
    their hull is made of.

    Triangles across a gap in the data do not count: there the region ends.
    """
    n = len(points)
    faces = Triangulation(points).faces.astype(np.int64)
    corners = points[faces]
    opposite_sides = np.roll(corners, -1, axis=1) - np.roll(corners, -2, axis=1)
    squares = np.square(opposite_sides).sum(axis=2)  # (k, 3), by the corner opposite
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    face_areas = np.linalg.norm(normals, axis=1) / 2
    total = squares.sum(axis=1)[:, None]
    cotangents = (total - 2 * squares) / (4 * face_areas)[:, None]

    # of each triangle, the part that is nearest to each corner
    moments = squares * cotangents / 8
    nearest_areas = np.roll(moments, 1, axis=1) + np.roll(moments, 2, axis=1)
    areas = np.bincount(faces.ravel(), nearest_areas.ravel(), n)
    least_areas = np.bincount(faces.ravel(), np.repeat(face_areas / 6, 3), n)

    sides = np.concatenate([faces[:, [k - 1, k - 2]] for k in range(3)])  # opposite each corner
    pairs, number = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True)
    weights = np.bincount(number.ravel(), cotangents.T.ravel() / 2, len(pairs))
    faces_of_side = np.bincount(number.ravel())
    rim = np.bincount(pairs[faces_of_side == 1].ravel(), minlength=n) > 0
    return Volumes(
        pairs=pairs,
        weights=np.maximum(weights, 0.0),
        areas=np.maximum(areas, least_areas),  # nearest parts may be negative at ragged edges
        rim=rim,
    )
