"""Equal-area maps of the Earth: points and tangent vectors of the unit sphere, drawn in the
plane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..geometry.known_frames import latlon_frames
from .landmarks import (
    border_lines,
    coastlines,
    cut_at_edges,
    land,
    on_sphere,
    scale_for,
    towns,
)

STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Degrees between the lines of a graticule."""

MOLLWEIDE_HALF_AXES = np.sqrt([8.0, 2.0])
"""Of the ellipse that shows the globe, whose area is that of the unit sphere."""


PIXELS = 1200
"""Outlines are as fine as a picture of so many pixels."""

HALF_SPHERE = 2 * np.pi
"""Area of half the unit sphere: no continent is larger."""


@dataclass(frozen=True)
class EqualAreaMap:
    """The map around a place ``lat``, ``lon`` in degrees that preserves areas.

    With a ``radius`` in degrees it shows that part of the Earth (Lambert's azimuthal projection),
    without one all of it, as an ellipse (Mollweide's projection).

    >>> points = latlon_frames([0.0, 90.0], [0.0, 0.0])[0]
    >>> EqualAreaMap().project(points).round(6).tolist()
    [[0.0, 0.0], [0.0, 1.414214]]
    """

    lat: float = 0.0
    lon: float = 0.0
    radius: float | None = None

    @classmethod
    def fitting(cls, lat: np.ndarray, lon: np.ndarray) -> EqualAreaMap:
        """The globe, or the surroundings of all places if these lie within 50 degrees of their
        centre."""
        points = latlon_frames(lat, lon)[0]
        centre = points.mean(axis=0)
        centre /= max(float(np.linalg.norm(centre)), 1e-9)
        radius = float(np.degrees(np.arccos(np.clip((points @ centre).min(), -1, 1))))
        if radius > 50:
            return cls()
        x, y, z = centre
        radius = 1.5 * radius if radius > 0.01 else 20.0  # a single place
        return cls(float(np.degrees(np.arcsin(z))), float(np.degrees(np.arctan2(y, x))), radius)

    @property
    def axes(self) -> np.ndarray:
        """East, north and up at the centre, ``(3, 3)``."""
        points, frames, _ = latlon_frames(np.array([self.lat]), np.array([self.lon]))
        return np.vstack([frames[0].T, points])

    def project(self, points: np.ndarray) -> np.ndarray:
        """Points ``(..., 3)`` to the plane ``(..., 2)``; NaN outside of the map."""
        east, north, up = np.moveaxis(points @ self.axes.T, -1, 0)
        if self.radius is None:
            return _mollweide(east, north, up)
        is_on_map = up > np.cos(np.radians(self.radius)) - 1e-9
        stretch = np.where(is_on_map, np.sqrt(2 / np.maximum(1 + up, 1e-12)), np.nan)
        return stretch[..., None] * np.stack([east, north], axis=-1)

    def outline(self) -> np.ndarray:
        """The edge of the map, ``(k, 2)``."""
        angle = np.linspace(0, 2 * np.pi, 361)
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        if self.radius is None:
            return MOLLWEIDE_HALF_AXES * circle
        return 2 * np.sin(np.radians(self.radius) / 2) * circle

    def project_vectors(
        self, points: np.ndarray, vectors: np.ndarray, step: float = 1e-5
    ) -> np.ndarray:
        """Arrows in the plane ``(n, 2)``: the directions of tangent vectors ``(n, 3)`` on the map,
        and their lengths.

        Directions are finite differences over ``step`` radians, taken on the side that does not
        cross the map's edge.
        """
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        along = step * vectors / np.maximum(length, 1e-300)
        here = self.project(points)
        forward = self.project(points + along) - here
        backward = here - self.project(points - along)
        is_forward_shorter = _lengths(forward) <= _lengths(backward)
        move = np.where(is_forward_shorter, forward, backward)
        return length * move / np.maximum(_lengths(move), 1e-300)

    def unproject(self, plane: np.ndarray) -> np.ndarray:
        """Places of the plane ``(..., 2)`` to points of the sphere ``(..., 3)``; NaN outside of the
        map.

        >>> chart = EqualAreaMap(40.0, 10.0, 30.0)
        >>> bool(np.allclose(chart.project(chart.unproject(np.array([0.1, -0.2]))), [0.1, -0.2]))
        True
        """
        x, y = np.moveaxis(np.asarray(plane, dtype=float), -1, 0)
        if self.radius is None:
            is_on_map, local = _from_mollweide(x, y)
        else:
            square = x**2 + y**2
            is_on_map = square < 4 * np.sin(np.radians(self.radius) / 2) ** 2
            shrink = np.sqrt(1 - np.where(is_on_map, square, 0.0) / 4)
            local = np.stack([shrink * x, shrink * y, 1 - square / 2], axis=-1)
        return np.where(is_on_map[..., None], local, np.nan) @ self.axes

    def coastline(self) -> np.ndarray:
        """Coastlines as one curve ``(k, 2)``, with gaps of NaN."""
        curve = _broken(self.project(coastlines(scale_for(self.radius))))
        return _thinned(curve, self._pixel())

    def borders(self) -> np.ndarray:
        """Borders of countries as one curve ``(k, 2)``, with gaps of NaN; none on the globe."""
        if self.radius is None:
            return np.full((1, 2), np.nan)
        curve = _broken(self.project(border_lines(scale_for(self.radius))))
        return _thinned(curve, self._pixel())

    def land(self) -> list[np.ndarray]:
        """Outlines ``(k, 2)`` of land, closed, to be filled; those of lakes run the other way.

        A globe that is not centred at the equator has none.
        """
        if self.radius is None:
            return self._land_of_globe()
        polygons = []
        for ring in land(scale_for(self.radius)):
            points = on_sphere(ring)
            polygon = self._azimuthal(points)
            if _area(polygon) > HALF_SPHERE:  # land around the opposite side of the Earth
                continue
            polygons.append(polygon)
        limit = 2 * np.sin(np.radians(min(1.2 * self.radius, 180.0)) / 2)
        nearby = [polygon for polygon in polygons if _reaches(polygon, limit)]
        return _without_specks(nearby, self._pixel())

    def _land_of_globe(self) -> list[np.ndarray]:
        if self.lat != 0:
            return []
        polygons = []
        for ring in land(scale_for(None)):
            for part in cut_at_edges(ring, self.lon):
                inward = 1 - 1e-9
                shifted = self.lon + inward * (part[:, 0] - self.lon)
                polygons.append(self.project(on_sphere(np.stack([shifted, part[:, 1]], axis=1))))
        return _without_specks(polygons, self._pixel())

    def towns(self, low: np.ndarray, high: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """Names and places ``(2,)`` of the towns in a box, the largest first; none on the globe."""
        if self.radius is None:
            return []
        known = towns()
        places = self.project(known.points)
        margin = 0.03 * (high - low)
        inside = ((places > low + margin) & (places < high - margin)).all(axis=1)
        return [(known.names[row], places[row]) for row in np.flatnonzero(inside)]

    def _azimuthal(self, points: np.ndarray) -> np.ndarray:
        """Lambert's projection of all of the sphere, also beyond the edge of the map."""
        east, north, up = np.moveaxis(points @ self.axes.T, -1, 0)
        stretch = np.sqrt(2 / np.maximum(1 + up, 1e-9))
        return stretch[..., None] * np.stack([east, north], axis=-1)

    def _pixel(self) -> float:
        """The size of a pixel of a picture of the map."""
        return float(np.ptp(self.outline()[:, 0])) / PIXELS

    def graticule(self) -> np.ndarray:
        """Parallels and meridians as one curve ``(k, 2)``, with gaps of NaN."""
        gap = np.full((1, 2), np.nan)
        curves = []
        for line in self._lines():
            curves += [_broken(line.curve), gap]
        return np.concatenate(curves)

    def labels(self, low: np.ndarray, high: np.ndarray) -> list[tuple[str, np.ndarray, bool]]:
        """Names of the lines of the graticule in a box: text, place ``(2,)``, and whether it is a
        parallel.

        Parallels are named where they leave the box to the left, meridians where they leave it
        below, or on the globe every other one at the equator.
        """
        labels = []
        for line in self._lines():
            if self.radius is None and not line.is_parallel:
                place = self._crossing_of_equator(line)
            else:
                place = self._end_in_box(line, low, high)
            if place is not None:
                labels.append((line.name, place, line.is_parallel))
        return labels

    def _crossing_of_equator(self, line: GraticuleLine) -> np.ndarray | None:
        """Where every other meridian crosses the equator of the globe, ``(2,)``, unless near the
        edge."""
        place = self.project(latlon_frames(np.zeros(1), np.array([line.degrees]))[0])[0]
        if line.degrees % 60 or abs(place[0]) > 2.8:
            return None
        return place

    def _end_in_box(
        self, line: GraticuleLine, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray | None:
        """Where a parallel leaves a box to the left, or a meridian below, ``(2,)``; None if the
        line is not in the box, or on a map of a region ends before."""
        axis = 0 if line.is_parallel else 1
        is_inside = ((line.curve >= low) & (line.curve <= high)).all(axis=1)
        inside = line.curve[is_inside]
        if not len(inside):
            return None
        place = inside[np.argmin(inside[:, axis])]
        margin = 0.05 * (high - low)[axis]
        if self.radius is not None and place[axis] > low[axis] + margin:
            return None
        return place

    def _lines(self) -> Iterator[GraticuleLine]:
        """A few parallels, then meridians."""
        height, width = self._extent()
        lat = np.linspace(self.lat - height, self.lat + height, 361)
        lon = np.linspace(self.lon - width, self.lon + width, 361)
        for degrees in _round_degrees(self.lat, height):
            if abs(degrees) < 90:
                points = latlon_frames(np.full(len(lon), degrees), lon)[0]
                yield GraticuleLine(float(degrees), True, self.project(points))
        for degrees in _round_degrees(self.lon, width):
            points = latlon_frames(np.clip(lat, -90, 90), np.full(len(lat), degrees))[0]
            yield GraticuleLine(float(degrees), False, self.project(points))

    def _extent(self) -> tuple[float, float]:
        """Degrees of latitude and of longitude from the centre to the edge of the map."""
        if self.radius is None:
            return 90.0 + abs(self.lat), 180.0
        if abs(self.lat) + self.radius > 85:
            return self.radius, 180.0
        ratio = np.sin(np.radians(self.radius)) / np.cos(np.radians(self.lat))
        return self.radius, float(np.degrees(np.arcsin(ratio)))


class GraticuleLine(NamedTuple):
    """A parallel or a meridian, at ``degrees``, and its ``curve`` (k, 2) on a map."""

    degrees: float
    is_parallel: bool
    curve: np.ndarray

    @property
    def name(self) -> str:
        """Such as 30°N."""
        degrees = (self.degrees + 180) % 360 - 180
        if degrees in (0, -180):
            return f"{abs(degrees):g}°"
        sides = "SN" if self.is_parallel else "WE"
        return f"{abs(degrees):g}°{sides[degrees > 0]}"


def _round_degrees(middle: float, half: float) -> np.ndarray:
    """A few round numbers within ``half`` of the middle."""
    step = next((step for step in STEPS if step >= half / 4), STEPS[-1])
    return step * np.arange(np.ceil((middle - half) / step), (middle + half) / step)


def _mollweide(east: np.ndarray, north: np.ndarray, up: np.ndarray) -> np.ndarray:
    r"""Mollweide's projection ``(..., 2)``; its angle a solves
    :math:`2 a + \sin 2a = \pi \sin \varphi`, by interpolation and a step of Newton."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, 2001)
    angle = np.interp(north, (2 * angles + np.sin(2 * angles)) / np.pi, angles)
    residual = 2 * angle + np.sin(2 * angle) - np.pi * north
    angle -= residual / np.maximum(2 + 2 * np.cos(2 * angle), 1e-4)
    x = 2 / np.pi * np.arctan2(east, up) * np.cos(angle)
    return np.sqrt(2) * np.stack([x, np.sin(angle)], axis=-1)


def _from_mollweide(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which places of the plane lie on the map, and east, north and up there, ``(..., 3)``."""
    is_on_map = x**2 / 8 + y**2 / 2 < 1
    angle = np.arcsin(np.where(is_on_map, y, 0.0) / np.sqrt(2))
    north = (2 * angle + np.sin(2 * angle)) / np.pi
    turn = np.pi * np.where(is_on_map, x, 0.0) / (np.sqrt(8) * np.cos(angle))
    horizontal = np.sqrt(1 - north**2)
    return is_on_map, np.stack(
        [horizontal * np.sin(turn), north, horizontal * np.cos(turn)], axis=-1
    )


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1, keepdims=True)


def _broken(curve: np.ndarray) -> np.ndarray:
    """A curve with gaps where it runs from one edge of the map to the other."""
    jumps = np.linalg.norm(np.diff(curve, axis=0), axis=1) > 0.3
    return np.insert(curve, np.flatnonzero(jumps) + 1, np.nan, axis=0)


def _area(polygon: np.ndarray) -> float:
    """The area of a closed polygon ``(k, 2)``."""
    x, y = polygon.T
    return abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))) / 2


def _reaches(polygon: np.ndarray, limit: float) -> bool:
    """Whether a polygon comes within a distance of the origin, or surrounds it."""
    if np.linalg.norm(polygon, axis=1).min() < limit:
        return True
    angles = np.unwrap(np.arctan2(polygon[:, 1], polygon[:, 0]))
    return abs(angles[-1] - angles[0]) > np.pi


def _thinned(curve: np.ndarray, pixel: float) -> np.ndarray:
    """A curve without points that lie in one pixel with the one before; gaps stay, one each."""
    known = np.isfinite(curve[:, 0])
    cells = np.where(known[:, None], np.floor(np.nan_to_num(curve) / pixel), np.inf)
    moved = np.ones(len(curve), dtype=bool)
    moved[1:] = (cells[1:] != cells[:-1]).any(axis=1)
    return curve[moved]


def _without_specks(polygons: list[np.ndarray], pixel: float) -> list[np.ndarray]:
    """Polygons in whole pixels, without those that are smaller than some."""
    thinned = [_thinned(polygon, pixel) for polygon in polygons]
    return [polygon for polygon in thinned if len(polygon) > 3]
