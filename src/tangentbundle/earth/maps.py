"""Equal-area maps of the Earth: points and tangent vectors of the unit sphere, drawn in the plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..geometry.known_frames import latlon_frames


@dataclass(frozen=True)
class EqualAreaMap:
    """The map around a place ``lat``, ``lon`` in degrees that preserves areas.

    With a ``radius`` in degrees it shows that part of the Earth (Lambert's azimuthal projection), without one all of
    it, as an ellipse (Mollweide's projection).

    >>> points = latlon_frames([0.0, 90.0], [0.0, 0.0])[0]
    >>> EqualAreaMap().project(points).round(6).tolist()
    [[0.0, 0.0], [0.0, 1.414214]]
    """

    lat: float = 0.0
    lon: float = 0.0
    radius: float | None = None

    @classmethod
    def fitting(cls, lat: np.ndarray, lon: np.ndarray) -> EqualAreaMap:
        """The globe, or a part of it if all places lie within 50 degrees of their centre."""
        points = latlon_frames(lat, lon)[0]
        centre = points.mean(axis=0)
        centre /= max(float(np.linalg.norm(centre)), 1e-9)
        radius = float(np.degrees(np.arccos(np.clip((points @ centre).min(), -1, 1))))
        if radius > 50:
            return cls()
        x, y, z = centre
        return cls(float(np.degrees(np.arcsin(z))), float(np.degrees(np.arctan2(y, x))), max(1.05 * radius, 0.01))

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
            angle -= (2 * angle + np.sin(2 * angle) - np.pi * north) / np.maximum(2 + 2 * np.cos(2 * angle), 1e-4)
            return np.sqrt(2) * np.stack([2 / np.pi * np.arctan2(east, up) * np.cos(angle), np.sin(angle)], axis=-1)
        stretch = np.where(up > np.cos(np.radians(self.radius)) - 1e-9, np.sqrt(2 / np.maximum(1 + up, 1e-12)), np.nan)
        return stretch[..., None] * np.stack([east, north], axis=-1)

    def outline(self) -> np.ndarray:
        """The edge of the map, ``(k, 2)``."""
        angle = np.linspace(0, 2 * np.pi, 361)
        sides = np.sqrt([8.0, 2.0]) if self.radius is None else 2 * np.sin(np.radians(self.radius) / 2)
        return sides * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def project_vectors(self, points: np.ndarray, vectors: np.ndarray, step: float = 1e-5) -> np.ndarray:
        """Arrows in the plane ``(n, 2)``: the directions of tangent vectors ``(n, 3)`` on the map, and their lengths.

        Directions are finite differences over ``step`` radians, taken on the side that does not cross the map's edge.
        """
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        along = step * vectors / np.maximum(length, 1e-300)
        behind, here, ahead = (self.project(points + k * along) for k in (-1, 0, 1))
        back, forth = (np.linalg.norm(move, axis=1, keepdims=True) for move in (here - behind, ahead - here))
        move = np.where(forth <= back, ahead - here, here - behind)
        return length * move / np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-300)

    def graticule(self) -> np.ndarray:
        """Parallels and meridians as one curve ``(k, 2)``, with gaps of NaN."""
        apart, along = 30.0 if self.radius is None else 10.0, np.linspace(-180, 180, 721)
        lines = [latlon_frames(np.full(721, lat), along)[0] for lat in np.arange(apart - 90, 90, apart)]
        lines += [latlon_frames(along / 2, np.full(721, lon))[0] for lon in np.arange(-180, 180, apart)]
        curves = self.project(np.array(lines))
        curves[:, -1] = np.nan
        curves[:, 1:][np.linalg.norm(np.diff(curves, axis=1), axis=2) > 0.3] = np.nan  # from one edge to the other
        return curves.reshape(-1, 2)
