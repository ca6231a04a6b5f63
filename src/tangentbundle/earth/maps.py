"""Equal-area maps of the Earth: points and tangent vectors of the unit sphere, drawn in the
plane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ..geometry.known_frames import latlon_frames

STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Degrees between the lines of a graticule."""


@cache
def coastlines() -> np.ndarray:
    """Coastlines as one curve ``(k, 3)`` on the unit sphere, with gaps of NaN (Natural Earth
    1:110m, public domain).

    Neighbouring points are a degree apart or less, at most a few.
    """
    stored = np.load(Path(__file__).with_name("coastlines.npz"))["curve"]
    lon, lat = np.where(stored == np.iinfo(np.int16).min, 0, stored / 100.0).T
    curve = latlon_frames(lat, lon)[0]
    curve[stored[:, 0] == np.iinfo(np.int16).min] = np.nan
    curve.setflags(write=False)
    return curve


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
        if self.radius is None:  # solve 2 a + sin 2a = pi sin(latitude)
            angles = np.linspace(-np.pi / 2, np.pi / 2, 2001)
            angle = np.interp(north, (2 * angles + np.sin(2 * angles)) / np.pi, angles)
            angle -= (2 * angle + np.sin(2 * angle) - np.pi * north) / np.maximum(
                2 + 2 * np.cos(2 * angle), 1e-4
            )
            return np.sqrt(2) * np.stack(
                [2 / np.pi * np.arctan2(east, up) * np.cos(angle), np.sin(angle)], axis=-1
            )
        stretch = np.where(
            up > np.cos(np.radians(self.radius)) - 1e-9,
            np.sqrt(2 / np.maximum(1 + up, 1e-12)),
            np.nan,
        )
        return stretch[..., None] * np.stack([east, north], axis=-1)

    def outline(self) -> np.ndarray:
        """The edge of the map, ``(k, 2)``."""
        angle = np.linspace(0, 2 * np.pi, 361)
        sides = (
            np.sqrt([8.0, 2.0]) if self.radius is None else 2 * np.sin(np.radians(self.radius) / 2)
        )
        return sides * np.stack([np.cos(angle), np.sin(angle)], axis=1)

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
        behind, here, ahead = (self.project(points + k * along) for k in (-1, 0, 1))
        back, forth = (
            np.linalg.norm(move, axis=1, keepdims=True) for move in (here - behind, ahead - here)
        )
        move = np.where(forth <= back, ahead - here, here - behind)
        return length * move / np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-300)

    def unproject(self, plane: np.ndarray) -> np.ndarray:
        """Places of the plane ``(..., 2)`` to points of the sphere ``(..., 3)``; NaN outside of the
        map.

        >>> chart = EqualAreaMap(40.0, 10.0, 30.0)
        >>> bool(np.allclose(chart.project(chart.unproject(np.array([0.1, -0.2]))), [0.1, -0.2]))
        True
        """
        x, y = np.moveaxis(np.asarray(plane, dtype=float), -1, 0)
        if self.radius is None:
            inside = x**2 / 8 + y**2 / 2 < 1
            angle = np.arcsin(np.where(inside, y, 0.0) / np.sqrt(2))
            north = (2 * angle + np.sin(2 * angle)) / np.pi
            turn = np.pi * np.where(inside, x, 0.0) / (np.sqrt(8) * np.cos(angle))
            flat = np.sqrt(1 - north**2)
            local = np.stack([flat * np.sin(turn), north, flat * np.cos(turn)], axis=-1)
        else:
            square = x**2 + y**2
            inside = square < 4 * np.sin(np.radians(self.radius) / 2) ** 2
            shrink = np.sqrt(1 - np.where(inside, square, 0.0) / 4)
            local = np.stack([shrink * x, shrink * y, 1 - square / 2], axis=-1)
        return np.where(inside[..., None], local, np.nan) @ self.axes

    def coastline(self) -> np.ndarray:
        """Coastlines as one curve ``(k, 2)``, with gaps of NaN."""
        return _broken(self.project(coastlines()))

    def graticule(self) -> np.ndarray:
        """Parallels and meridians as one curve ``(k, 2)``, with gaps of NaN."""
        gap = np.full((1, 2), np.nan)
        return np.concatenate(
            [part for *_, curve in self._lines() for part in (_broken(curve), gap)]
        )

    def labels(self, low: np.ndarray, high: np.ndarray) -> list[tuple[str, np.ndarray, bool]]:
        """Names of the lines of the graticule in a box: text, place ``(2,)``, and whether it is a
        parallel.

        Parallels are named where they leave the box to the left, meridians where they leave it
        below, or on the globe every other one at the equator.
        """
        found, world = [], self.radius is None
        for degrees, parallel, curve in self._lines():
            axis = 0 if parallel else 1
            inside = curve[((curve >= low) & (curve <= high)).all(axis=1)]
            if world and not parallel:
                inside = self.project(latlon_frames(np.zeros(1), np.array([degrees]))[0])
                inside = inside[: 0 if degrees % 60 or abs(inside[0, 0]) > 2.8 else 1]
            if not len(inside):
                continue
            place = inside[np.argmin(inside[:, axis])]
            if not world and place[axis] > low[axis] + 0.05 * (high - low)[axis]:
                continue
            degrees = (degrees + 180) % 360 - 180
            side = "" if degrees in (0, -180) else ("SN" if parallel else "WE")[degrees > 0]
            found.append((f"{abs(degrees):g}°{side}", place, parallel))
        return found

    def _lines(self) -> Iterator[tuple[float, bool, np.ndarray]]:
        """A few parallels and meridians: their degrees, whether it is a parallel, and curves
        ``(k, 2)``."""
        height, width = (
            90.0 + abs(self.lat) if self.radius is None else self.radius,
            180.0,
        )  # from the centre
        if self.radius is not None and abs(self.lat) + self.radius <= 85:
            width = float(
                np.degrees(
                    np.arcsin(np.sin(np.radians(self.radius)) / np.cos(np.radians(self.lat)))
                )
            )
        lat, lon = (
            np.linspace(m - h, m + h, 361) for m, h in ((self.lat, height), (self.lon, width))
        )
        for middle, half, parallel in ((self.lat, height, True), (self.lon, width, False)):
            step = next((s for s in STEPS if s >= half / 4), 30.0)
            for degrees in step * np.arange(
                np.ceil((middle - half) / step), (middle + half) / step
            ):
                fixed = np.full(len(lat), degrees)
                if not parallel:
                    yield (
                        float(degrees),
                        False,
                        self.project(latlon_frames(np.clip(lat, -90, 90), fixed)[0]),
                    )
                elif abs(degrees) < 90:
                    yield float(degrees), True, self.project(latlon_frames(fixed, lon)[0])


def _broken(curve: np.ndarray) -> np.ndarray:
    """A curve with gaps where it runs from one edge of the map to the other."""
    jumps = np.linalg.norm(np.diff(curve, axis=0), axis=1) > 0.3
    return np.insert(curve, np.flatnonzero(jumps) + 1, np.nan, axis=0)
