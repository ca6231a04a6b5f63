"""What to show and from where: evenly spread points, distances between them, orthographic views."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..earth.maps import EqualAreaMap
from ..errors import InvalidInputError
from ..upright import upright_axis

Box = tuple[np.ndarray, np.ndarray]
"""The lowest and the highest corner of what a picture shows."""


def spread_out(points: np.ndarray, count: int, *, pool: int = 20) -> np.ndarray:
    """Rows of at most ``count`` points ``(n, D)``, each the farthest from those before it
    (Gonzalez, 1985).

    Candidates are at most ``pool * count`` points, drawn at random. The first k rows are spread
    evenly for every k.

    >>> line = np.linspace(0, 1, 101)[:, None]
    >>> sorted(spread_out(line, 5).tolist())[::4]
    [0, 100]
    """
    rows = np.arange(len(points))
    if len(points) > pool * count:
        rows = np.sort(np.random.default_rng(0).choice(rows, pool * count, replace=False))
    if len(rows) <= count:
        return rows
    places = np.asarray(points, dtype=np.float64)[rows]
    places -= places.mean(axis=0)
    nearest = np.full(len(rows), np.inf)
    chosen = np.zeros(count, dtype=np.int64)
    chosen[0] = np.einsum("nd,nd->n", places, places).argmax()
    for k in range(1, count):
        away = places - places[chosen[k - 1]]
        np.minimum(nearest, np.einsum("nd,nd->n", away, away), out=nearest)
        chosen[k] = nearest.argmax()
    return rows[chosen]


def spacing(points: np.ndarray, rank: int = 3) -> float:
    """Median distance of a point ``(n, D)`` from its ``rank``-th neighbour."""
    if len(points) <= rank:
        return extent(points)
    subset = points[:: len(points) // 4000 + 1]
    return float(np.median(cKDTree(points).query(subset, rank + 1)[0][:, rank])) or 1.0


def reach(points: np.ndarray, size: float | None = None) -> float:
    """Length of the longest arrows at points ``(n, D)``: to the neighbours, at most an eighth of
    the picture's size."""
    longest = 0.125 * (size or extent(points))
    if len(points) <= 3:
        return longest
    return min(spacing(points), longest)


def tips(places: np.ndarray, moves: np.ndarray, longest: float) -> np.ndarray:
    """Ends of arrows at places ``(n, k)``; of arrows longer than ``longest``, the place at that
    length."""
    return places + moves / np.maximum(np.linalg.norm(moves, axis=1, keepdims=True) / longest, 1.0)


def on_map(chart: EqualAreaMap, places: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Beginnings ``(n, 2)`` of arrows at places of a map; arrows that would leave the map end at
    their place."""
    leaves = ~np.isfinite(chart.unproject(places + moves))[:, :1]
    return np.where(leaves, places - moves, places)


def box_around(places: np.ndarray, ends: np.ndarray | None = None, margin: float = 0.04) -> Box:
    """Opposite corners ``(k,)`` of a box around places ``(n, k)`` and the ``ends`` ``(m, k)`` of
    their arrows.

    The margin is a share of the size of the places. A side is at least a quarter of it, or of one
    for a single place.
    """
    size = float(np.max(np.nanmax(places, axis=0) - np.nanmin(places, axis=0))) or 1.0
    shown = places if ends is None else np.concatenate([places, ends])
    lowest = np.nanmin(shown, axis=0)
    highest = np.nanmax(shown, axis=0)
    middle = (lowest + highest) / 2
    half = np.maximum((highest - lowest) / 2 + margin * size, 0.125 * size)
    return middle - half, middle + half


def usual_up(points: np.ndarray, faces: np.ndarray | None) -> str:
    """The axis that points up in pictures: that along which a mesh seems to stand, z for clouds."""
    if faces is None:
        return "z"
    return upright_axis(points)


def extent(points: np.ndarray) -> float:
    """The longest side of the box around points ``(n, D)``; one if there is none."""
    if not len(points):
        return 1.0
    return float(np.ptp(points, axis=0).max()) or 1.0


@dataclass(frozen=True)
class View:
    """An orthographic view, from ``elevation`` and ``azimuth`` in degrees, around the axis ``up``
    (x, y or z).

    >>> View(90, -90).project(np.array([[1.0, 2.0, 3.0]])).round(6).tolist()
    [[1.0, 2.0, 3.0]]
    """

    elevation: float = 35.0
    azimuth: float = -60.0
    up: str = "z"

    def __post_init__(self) -> None:
        if self.up not in ("x", "y", "z"):
            raise InvalidInputError(argument="up", expected="x, y or z", received=repr(self.up))

    @property
    def axes(self) -> np.ndarray:
        """Unit vectors to the right, up, and toward the viewer, ``(3, 3)``."""
        return np.roll(
            EqualAreaMap(self.elevation, self.azimuth).axes, "zxy".index(self.up), axis=1
        )

    def project(self, points: np.ndarray) -> np.ndarray:
        """Right, up, and toward the viewer, ``(n, 3)``; points of the plane as they are."""
        if points.shape[-1] == 2:
            return points
        return points @ self.axes.T
