"""Land, borders and towns for maps: Natural Earth 1:50m and 1:10m (public domain) and the towns of
GeoNames (CC BY 4.0), as ``scripts/build_coastlines.py`` stores them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ..geometry.known_frames import latlon_frames

STEP = 0.004
"""Degrees of a stored unit."""

MAX_FINE_RADIUS = 22.0
"""Radius in degrees of the largest maps with the finer coastlines."""

EDGE = 179.99
"""Longitudes beyond this are on the antimeridian, along which there is no coast."""


@dataclass(frozen=True, eq=False)
class Towns:
    """Names of towns and their places, the largest first.

    Attributes:
        names: ``(n,)``.
        points: on the unit sphere ``(n, 3)``.
    """

    names: list[str]
    points: np.ndarray


@cache
def _stored() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).with_name("natural_earth.npz")) as file:
        return dict(file)


def scale_for(radius: float | None) -> int:
    """The scale, in millions, of coastlines for a map of a radius in degrees; None is the globe."""
    if radius is None or radius > MAX_FINE_RADIUS:
        return 50
    return 10


@cache
def land(scale: int) -> list[np.ndarray]:
    """The outlines of land and lakes, longitude and latitude in degrees ``(k, 2)`` each."""
    return _curves(f"land_{scale}")


@cache
def borders(scale: int) -> list[np.ndarray]:
    """The borders between countries, as ``land``."""
    return _curves(f"borders_{scale}")


def _curves(name: str) -> list[np.ndarray]:
    points = STEP * np.cumsum(_stored()[name], axis=0)
    ends = np.cumsum(_stored()[f"{name}_lengths"])
    return np.split(points, ends[:-1])


@cache
def towns() -> Towns:
    """All towns.

    >>> towns().names[:2]
    ['Shanghai', 'Beijing']
    """
    names = _stored()["town_names"].tobytes().decode().split("\n")
    lon, lat = STEP * _stored()["towns"].T
    return Towns(names, on_sphere(np.stack([lon, lat], axis=1)))


def on_sphere(curve: np.ndarray) -> np.ndarray:
    """Longitudes and latitudes ``(k, 2)`` as points of the unit sphere ``(k, 3)``."""
    lon, lat = curve.T
    return latlon_frames(lat, lon)[0]


@cache
def coastlines(scale: int = 50) -> np.ndarray:
    """Coastlines as one curve ``(k, 3)`` on the unit sphere, with gaps of NaN."""
    curves = []
    gap = np.full((1, 3), np.nan)
    for ring in land(scale):
        points = on_sphere(ring)
        is_edge = (np.abs(ring[:, 0]) > EDGE) | (ring[:, 1] < -89.9)
        points[is_edge & np.roll(is_edge, 1)] = np.nan
        curves += [points, gap]
    curve = np.concatenate(curves)
    curve.setflags(write=False)
    return curve


@cache
def border_lines(scale: int) -> np.ndarray:
    """Borders as one curve ``(k, 3)`` on the unit sphere, with gaps of NaN."""
    gap = np.full((1, 3), np.nan)
    curves = []
    for line in borders(scale):
        curves += [on_sphere(line), gap]
    return np.concatenate(curves)


def cut_at_edges(ring: np.ndarray, middle: float) -> list[np.ndarray]:
    """The parts ``(k, 2)`` of a ring on a map that goes from 180 degrees west of ``middle`` to 180
    degrees east.

    A ring around a pole is closed along the edges of the map.

    >>> ring = np.array([[170.0, 0.0], [-170.0, 0.0], [-170.0, 9.0], [170.0, 9.0], [170.0, 0.0]])
    >>> [float(np.ptp(part[:, 0])) for part in cut_at_edges(ring, 0.0)]
    [10.0, 10.0]
    """
    lon = np.unwrap(ring[:, 0] - middle, period=360.0)
    lon = lon - 360.0 * np.round((lon.min() + lon.max()) / 720.0)
    outline = np.stack([lon, ring[:, 1]], axis=1)
    if abs(lon[-1] - lon[0]) > 180.0:
        pole = 90.0 * np.sign(ring[:, 1].mean())
        corners = np.array([[lon[-1], pole], [lon[0], pole]])
        outline = np.concatenate([outline, corners, outline[:1]])
    parts = []
    mirror = np.array([-1.0, 1.0])
    for turn in (-360.0, 0.0, 360.0):
        part = _left_of(outline + np.array([turn, 0.0]), 180.0)
        part = mirror * _left_of(mirror * part, 180.0)
        if len(part) > 2:
            parts.append(part + np.array([middle, 0.0]))
    return parts


def _left_of(ring: np.ndarray, limit: float) -> np.ndarray:
    """The part of a polygon ``(k, 2)`` where the first coordinate is at most ``limit`` (Sutherland
    and Hodgman, 1974)."""
    inside = ring[:, 0] <= limit
    if inside.all():
        return ring
    if not inside.any():
        return ring[:0]
    following = np.roll(ring, -1, axis=0)
    points = []
    for start, end, is_inside in zip(ring, following, inside, strict=True):
        if is_inside:
            points.append(start)
        if is_inside != (end[0] <= limit):
            share = (limit - start[0]) / (end[0] - start[0])
            points.append(start + share * (end - start))
    return np.array(points)
