"""What to show: evenly spread points, and surfaces as seen from afar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.spatial import Delaunay, cKDTree

from ..geometry.known_frames import latlon_frames, normal_frames

MAX_DISCS = 60_000
"""Discs of a mesh, and the most of a cloud: enough to look smooth at 520 pixels."""

LIGHT_FROM = np.array([0.15, 0.42, 0.9])
"""Over the viewer's shoulder: right, up, toward the viewer."""


def spread_out(points: np.ndarray, count: int, *, pool: int = 20, seed: int = 0) -> np.ndarray:
    """Rows of at most ``count`` points ``(n, D)``, each the farthest from those before it (Gonzalez, 1985).

    Candidates are at most ``pool * count`` points, drawn at random. The first k rows are spread evenly for every k.

    >>> line = np.linspace(0, 1, 101)[:, None]
    >>> sorted(spread_out(line, 5).tolist())[::4]
    [0, 100]
    """
    rows = np.arange(len(points))
    if len(points) > pool * count:
        rows = np.sort(np.random.default_rng(seed).choice(rows, pool * count, replace=False))
    if len(rows) <= count:
        return rows
    places = np.asarray(points, dtype=np.float64)[rows]
    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = np.square(places - places.mean(axis=0)).sum(axis=1).argmax()
    nearest = np.square(places - places[chosen[0]]).sum(axis=1)
    for k in range(1, count):
        chosen[k] = nearest.argmax()
        np.minimum(nearest, np.square(places - places[chosen[k]]).sum(axis=1), out=nearest)
    return rows[chosen]


def spacing(points: np.ndarray, rank: int = 3) -> float:
    """Median distance of a point ``(n, D)`` from its ``rank``-th neighbour."""
    if len(points) <= rank:
        return extent(points)
    subset = points[:: len(points) // 4000 + 1]
    return float(np.median(cKDTree(points).query(subset, rank + 1)[0][:, rank])) or 1.0


def reach(points: np.ndarray) -> float:
    """Length of the longest arrows at points ``(n, D)``: to the neighbours, at most an eighth of the picture."""
    return min(spacing(points), 0.125 * extent(points))


def extent(points: np.ndarray) -> float:
    """The longest side of the box around points ``(n, D)``; one if there is none."""
    return (float(np.ptp(points, axis=0).max()) if len(points) else 0.0) or 1.0


def face_normals(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Normals of triangles ``(f, 3)``, as long as twice their area."""
    corners = points[faces]
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


@njit(cache=True)
def _lay_discs(centres, normals, radius, depth, owner):  # pragma: no cover - compiled
    """Write the height of the topmost disc, and its number, into every pixel; all lengths in pixels."""
    for k in range(len(centres)):
        x0, y0, z0 = centres[k]
        nz = max(normals[k, 2], 0.05)
        for y in range(max(0, int(y0 - radius)), min(depth.shape[0], int(y0 + radius) + 2)):
            for x in range(max(0, int(x0 - radius)), min(depth.shape[1], int(x0 + radius) + 2)):
                rise = -(normals[k, 0] * (x - x0) + normals[k, 1] * (y - y0)) / nz
                if (x - x0) ** 2 + (y - y0) ** 2 + rise**2 <= radius**2 and z0 + rise > depth[y, x]:
                    depth[y, x] = z0 + rise
                    owner[y, x] = k


@dataclass(frozen=True)
class View:
    """An orthographic view, from ``elevation`` and ``azimuth`` in degrees, around the axis ``up`` (x, y or z).

    >>> View(90, -90).project(np.array([[1.0, 2.0, 3.0]])).round(6).tolist()
    [[1.0, 2.0, 3.0]]
    """

    elevation: float = 35.0
    azimuth: float = -60.0
    up: str = "z"

    @property
    def axes(self) -> np.ndarray:
        """Unit vectors to the right, up, and toward the viewer, ``(3, 3)``."""
        toward, frames, _ = latlon_frames(np.array([self.elevation]), np.array([self.azimuth]))
        return np.roll(np.vstack([frames[0].T, toward]), "zxy".index(self.up), axis=1)

    def project(self, points: np.ndarray) -> np.ndarray:
        """Right, up, and toward the viewer, ``(n, 3)``; points of the plane as they are."""
        return points if points.shape[-1] == 2 else points @ self.axes.T


@dataclass(frozen=True, eq=False)
class Patches:
    """A surface as small discs: centres ``(m, 3)``, unit normals of either sign ``(m, 3)``, and their radius."""

    centres: np.ndarray
    normals: np.ndarray
    radius: float

    @classmethod
    def of(cls, points: np.ndarray, faces: np.ndarray | None) -> Patches | None:
        """Of a mesh, or of a cloud that looks like a surface; otherwise None."""
        return cls.of_cloud(points) if faces is None else cls.of_mesh(points, faces)

    @classmethod
    def of_mesh(cls, points: np.ndarray, faces: np.ndarray, seed: int = 0) -> Patches:
        """Centres drawn by area."""
        corners, normals = points[faces], face_normals(points, faces)
        area = np.linalg.norm(normals, axis=1)
        rng = np.random.default_rng(seed)
        rows = rng.choice(len(faces), MAX_DISCS, p=area / area.sum())
        centres = np.einsum("nk,nkd->nd", rng.dirichlet(np.ones(3), MAX_DISCS), corners[rows])
        radius = 2.2 * float(np.sqrt(0.5 * area.sum() / MAX_DISCS))
        return cls(centres, normals[rows] / area[rows, None], radius)

    @classmethod
    def of_cloud(cls, points: np.ndarray, neighbors: int = 12, coarsest: float = 0.08) -> Patches | None:
        """One disc a point, if the cloud is a surface in space with discs below ``coarsest`` of it; otherwise None."""
        if points.shape[1] != 3 or len(points) < 400:
            return None
        if len(points) > MAX_DISCS:
            points = points[np.random.default_rng(0).choice(len(points), MAX_DISCS, replace=False)]
        rows = cKDTree(points).query(points, neighbors + 1)[1]
        local = points[rows] - points[rows].mean(axis=1, keepdims=True)
        shares, axes = np.linalg.eigh(local.transpose(0, 2, 1) @ local)
        radius = 1.25 * spacing(points, 5)
        thin, flat = np.median(shares[:, 0] / shares.sum(axis=1)), np.median(shares[:, 1] / shares.sum(axis=1))
        if thin > 0.04 or flat < 0.1 or radius > coarsest * extent(points):
            return None
        return cls(points, axes[:, :, 0], radius)

    def faces(self, neighbors: int = 16) -> np.ndarray:
        """Triangles ``(f, 3)`` between centres: around each, those of Delaunay with its neighbours in its plane."""
        rows = cKDTree(self.centres).query(self.centres, neighbors)[1]
        planes = normal_frames(self.normals)
        flat = np.einsum("nda,nkd->nka", planes, self.centres[rows] - self.centres[:, None])
        found = []
        for near, places in zip(rows, flat, strict=True):
            corners = Delaunay(places).simplices
            found.append(near[corners[(corners == 0).any(axis=1)]])
        return np.unique(np.sort(np.concatenate(found), axis=1), axis=0)

    def shade(self, view: View, points: np.ndarray, width: int = 520) -> tuple[np.ndarray, list[float], np.ndarray]:
        """The picture from a view, ``width`` pixels wide, lit from above the viewer's shoulder; NaN off the surface.

        Also its left, right, bottom and top, and which ``points (n, 3)`` are not behind the surface.
        """
        centres, normals = view.project(self.centres), view.project(self.normals)
        normals = normals * np.where(normals[:, 2:] < 0, -1.0, 1.0)
        low, high = centres[:, :2].min(axis=0) - self.radius, centres[:, :2].max(axis=0) + self.radius
        pixel = float((high - low).max()) / width
        shape = tuple(np.ceil((high - low)[::-1] / pixel).astype(int) + 1)
        depth, owner = np.full(shape, -np.inf), np.zeros(shape, dtype=np.int64)
        _lay_discs((centres - [*low, 0.0]) / pixel, normals, self.radius / pixel, depth, owner)
        light, there = np.clip(normals @ LIGHT_FROM, 0, 1)[owner], np.isfinite(depth)
        blur = max(0.5 * self.radius / pixel, 1.0)
        smooth, weight = (gaussian_filter(image, blur) for image in (np.where(there, light, 0.0), 1.0 * there))
        light = np.where(there, smooth / np.maximum(weight, 1e-9), np.nan)
        right, top = low + pixel * np.array(shape[::-1])
        places = view.project(points)
        pixels = (places[:, 1::-1] - low[::-1]) / pixel
        surface = map_coordinates(pixel * depth, pixels.T, order=0, cval=np.inf)
        return light, [low[0], right, low[1], top], places[:, 2] > surface - self.radius
