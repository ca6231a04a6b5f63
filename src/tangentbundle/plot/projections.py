"""Maps of the globe: from the unit sphere to the plane, arrows too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

STEP = 1e-5
"""How far an arrow's direction is followed on the sphere, in radians."""


def on_sphere(lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
    """Degrees to points of the unit sphere ``(..., 3)``."""
    a, b = np.radians(lat), np.radians(lon)
    return np.stack([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)], axis=-1)


class Projection(ABC):
    """A map of the unit sphere."""

    lines = (np.arange(-60, 61, 30), np.arange(-180, 180, 60))
    """Parallels and meridians that are drawn."""

    @abstractmethod
    def project(self, points: np.ndarray) -> np.ndarray:
        """Points ``(..., 3)`` to the plane ``(..., 2)``; NaN where they do not show."""

    @abstractmethod
    def inverse(self, plane: np.ndarray) -> np.ndarray:
        """The way back, ``(..., 2)`` to ``(..., 3)``; NaN off the map."""

    @abstractmethod
    def outline(self) -> np.ndarray:
        """The edge of the map, ``(k, 2)``."""

    def turn(self, points: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Arrows in the plane ``(n, 2)``: along the tangent vectors ``(n, 3)``, and as long as they are."""
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        way = STEP * vectors / np.maximum(length, 1e-300)
        here, ahead, behind = (self.project(p / np.linalg.norm(p, axis=1, keepdims=True)) for p in (
            points, points + way, points - way
        ))  # fmt: skip
        moves = np.stack([ahead - here, here - behind])  # one of them may cross the edge of the map
        size = np.linalg.norm(moves, axis=2)
        best = np.where(np.isfinite(size), size, np.inf).argmin(axis=0)
        move = moves[best, np.arange(len(points))]
        return length * move / np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-300)

    def graticule(self) -> list[np.ndarray]:
        """Curves ``(k, 2)`` of some parallels and meridians."""
        around, along = np.linspace(-180, 180, 361), np.linspace(-90, 90, 181)
        curves = [on_sphere(np.full_like(around, a), around) for a in self.lines[0]]
        curves += [on_sphere(along, np.full_like(along, b)) for b in self.lines[1]]
        return [whole for curve in curves for whole in _pieces(self.project(curve))]


def _pieces(curve: np.ndarray) -> list[np.ndarray]:
    """A curve cut where it leaves the map or jumps from one edge to the other."""
    jumps = np.flatnonzero(~(np.linalg.norm(np.diff(curve, axis=0), axis=1) < 0.3)) + 1
    return [piece for piece in np.split(curve, jumps) if len(piece) > 1]


@dataclass(frozen=True)
class Mollweide(Projection):
    """The whole globe, areas kept; ``center`` is the longitude in the middle, in degrees.

    >>> world = Mollweide()
    >>> world.project(on_sphere(0.0, 90.0)).round(6).tolist()
    [1.414214, 0.0]
    >>> np.allclose(world.inverse(world.project(on_sphere(40.0, -100.0))), on_sphere(40.0, -100.0))
    True
    """

    center: float = 0.0

    def project(self, points: np.ndarray) -> np.ndarray:
        sine = np.clip(points[..., 2], -1, 1)
        lon = (np.arctan2(points[..., 1], points[..., 0]) - np.radians(self.center) + np.pi) % (2 * np.pi) - np.pi
        angle = np.arcsin(sine)  # solve 2 a + sin 2a = pi sine
        for _ in range(60):
            slope = np.maximum(2 + 2 * np.cos(2 * angle), 1e-9)
            angle = np.clip(angle - (2 * angle + np.sin(2 * angle) - np.pi * sine) / slope, -np.pi / 2, np.pi / 2)
        return np.sqrt(2) * np.stack([2 / np.pi * lon * np.cos(angle), np.sin(angle)], axis=-1)

    def inverse(self, plane: np.ndarray) -> np.ndarray:
        x, y = plane[..., 0] / np.sqrt(2), plane[..., 1] / np.sqrt(2)
        inside = x**2 / 4 + y**2 <= 1
        angle = np.arcsin(np.where(inside, y, 0.0))
        lat = np.arcsin((2 * angle + np.sin(2 * angle)) / np.pi)
        lon = np.pi / 2 * x / np.maximum(np.cos(angle), 1e-9)
        return np.where(inside[..., None], on_sphere(np.degrees(lat), np.degrees(lon) + self.center), np.nan)

    def outline(self) -> np.ndarray:
        angle = np.linspace(0, 2 * np.pi, 361)
        return np.sqrt(2) * np.stack([2 * np.cos(angle), np.sin(angle)], axis=1)


@dataclass(frozen=True)
class Azimuthal(Projection):
    """A part of the globe around a place in degrees, areas kept (Lambert); ``radius`` is its edge in degrees."""

    lat: float
    lon: float
    radius: float = 90.0
    lines = (np.arange(-80, 81, 10), np.arange(-180, 180, 10))

    @property
    def axes(self) -> np.ndarray:
        """East, north, and up at the centre, ``(3, 3)``."""
        a, b = np.radians(self.lat), np.radians(self.lon)
        east = [-np.sin(b), np.cos(b), 0.0]
        up = on_sphere(np.array(self.lat), np.array(self.lon))
        return np.array([east, [-np.sin(a) * np.cos(b), -np.sin(a) * np.sin(b), np.cos(a)], up])

    def project(self, points: np.ndarray) -> np.ndarray:
        east, north, up = np.moveaxis(points @ self.axes.T, -1, 0)
        stretch = np.where(up >= np.cos(np.radians(self.radius)) - 1e-9, self.stretch(up), np.nan)
        return np.stack([stretch * east, stretch * north], axis=-1)

    def stretch(self, up: np.ndarray) -> np.ndarray:
        """What distances from the axis through the centre are multiplied with."""
        return np.sqrt(2 / np.maximum(1 + up, 1e-9))

    def inverse(self, plane: np.ndarray) -> np.ndarray:
        square = np.square(plane).sum(axis=-1)
        inside = square <= 2 - 2 * np.cos(np.radians(self.radius))
        flat = np.where(inside, np.sqrt(np.maximum(1 - square / 4, 0)), np.nan)[..., None] * plane
        return np.concatenate([flat, np.where(inside, 1 - square / 2, np.nan)[..., None]], axis=-1) @ self.axes

    def outline(self) -> np.ndarray:
        angle, radius = np.linspace(0, 2 * np.pi, 361), np.radians(self.radius)
        size = np.sin(radius) * self.stretch(np.cos(radius))
        return size * np.stack([np.cos(angle), np.sin(angle)], axis=1)


@dataclass(frozen=True)
class Orthographic(Azimuthal):
    """The globe from afar: half of it shows."""

    lat: float = 25.0
    lon: float = -30.0
    lines = Projection.lines

    def stretch(self, up: np.ndarray) -> np.ndarray:
        return np.ones_like(up)

    def inverse(self, plane: np.ndarray) -> np.ndarray:
        square = np.square(plane).sum(axis=-1)
        up = np.sqrt(np.where(square <= 1, 1 - square, np.nan))[..., None]
        return np.where(np.isfinite(up), np.concatenate([plane, up], axis=-1), np.nan) @ self.axes


def fitting(lat: np.ndarray, lon: np.ndarray) -> Projection:
    """The whole globe, or only a part of it where all points lie within 50 degrees of their middle."""
    points = on_sphere(np.asarray(lat, float), np.asarray(lon, float))
    middle = points.mean(axis=0)
    size = np.linalg.norm(middle)
    if size < 0.3:
        return Mollweide()
    reach = float(np.degrees(np.arccos(np.clip((points @ middle / size).min(), -1, 1))))
    if reach > 50:
        return Mollweide()
    x, y, z = middle / size
    return Azimuthal(float(np.degrees(np.arcsin(z))), float(np.degrees(np.arctan2(y, x))), max(1.05 * reach, 0.01))
