"""Surfaces below the arrows: of a mesh, or of a cloud of points that forms one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import Delaunay, cKDTree

from ..errors import ShapeError
from ..geometry.halfedges import vertex_normals
from ..geometry.known_frames import normal_frames
from .views import View, extent, spacing, spread_out

MIN_POINTS = 400
"""A cloud of fewer points is not drawn as a surface."""

MAX_SPACING = 0.16
"""Nor one whose distances are a larger share of its size."""

MAX_FACES = 60_000
"""Larger meshes are drawn as the surface between a sample of their points."""


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles ``(f, 3)`` between points ``(m, 3)`` with unit normals of either sign
    ``(m, 3)``."""

    points: np.ndarray
    faces: np.ndarray
    normals: np.ndarray

    @classmethod
    def of(
        cls, points: np.ndarray, faces: np.ndarray | None = None, most: int = 3000
    ) -> Surface | None:
        """Of a mesh, or between ``most`` points of a cloud that looks like a surface; otherwise
        None."""
        if faces is not None:
            faces = _checked(np.asarray(faces), len(points))
            if len(faces) <= MAX_FACES:
                normals = vertex_normals(points, faces)
                size = np.linalg.norm(normals, axis=1, keepdims=True)
                return cls(points, faces, normals / np.maximum(size, 1e-300))
        if points.shape[1] != 3 or len(points) < MIN_POINTS:
            return None
        points = points[spread_out(points, most, pool=2)]
        neighbors = cKDTree(points).query(points, 24)[1]
        nearest = points[neighbors[:, :13]]
        offsets = nearest - nearest.mean(axis=1, keepdims=True)
        variances, axes = np.linalg.eigh(offsets.transpose(0, 2, 1) @ offsets)
        shares = variances / variances.sum(axis=1, keepdims=True)
        thinnest, second, _ = np.median(shares, axis=0)
        if thinnest > 0.04 or second < 0.1 or spacing(points, 5) > MAX_SPACING * extent(points):
            return None
        normals = axes[:, :, 0]
        return cls(points, _triangles(points, neighbors, normals), normals)

    def light(self, view: View) -> np.ndarray:
        """Brightness ``(m,)`` of both sides, between 0 and 1, lit from above the viewer's
        shoulder."""
        source = view.axes.T @ np.array([0.15, 0.42, 0.9])  # right, up, toward the viewer
        return np.clip(np.abs(self.normals @ source), 0, 1)

    def visible(
        self, view: View, places: np.ndarray, pixels: int = 100, samples: int = 300_000
    ) -> np.ndarray:
        """Which places ``(n, 3)`` are not behind the surface: a depth buffer of random points of
        its triangles."""
        rng = np.random.default_rng(0)
        corners = view.project(self.points)[self.faces]
        sides = corners[:, 1:] - corners[:, :1]
        area = np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)
        rows = rng.choice(len(area), samples, p=area / area.sum())
        drawn = np.einsum("kc,kcd->kd", rng.dirichlet(np.ones(3), samples), corners[rows])
        lowest = drawn.min(axis=0)
        pixel = extent(drawn[:, :2]) / pixels

        def cells(places: np.ndarray) -> tuple[np.ndarray, ...]:
            return tuple(np.clip((places - lowest)[:, :2] / pixel, 0, pixels).astype(int).T)

        depth = np.full((pixels + 1, pixels + 1), -np.inf)
        np.maximum.at(depth, cells(drawn), drawn[:, 2])
        places = view.project(places)
        edge = float(np.median(np.linalg.norm(sides, axis=2)))
        return places[:, 2] > depth[cells(places)] - edge - 2 * pixel

    def both_sides(self, curves: np.ndarray) -> np.ndarray:
        """Curves ``(m, k, 3)`` lifted off the surface, once to each side ``(2 m, k, 3)``."""
        rows = cKDTree(self.points).query(np.nan_to_num(curves.reshape(-1, 3)))[1]
        normals = self.normals[rows].reshape(curves.shape)
        cosines = (normals[:, 1:] * normals[:, :-1]).sum(axis=2)
        turns = np.where(cosines < 0, -1.0, 1.0)  # a curve stays on its side
        normals[:, 1:] *= np.cumprod(turns, axis=1)[..., None]
        lift = 0.015 * extent(self.points) * normals
        return np.concatenate([curves + lift, curves - lift])


def _checked(faces: np.ndarray, n: int) -> np.ndarray:
    """Refuse what is no triangles of n points."""
    is_triangles = faces.dtype.kind in "iu" and faces.ndim == 2 and faces.shape[1] == 3
    if not is_triangles or not ((faces >= 0) & (faces < n)).all():
        raise ShapeError(
            f"expected triangles (f, 3) of integer rows below {n}, got {faces.dtype} faces "
            f"{faces.shape}."
        )
    return faces


def _triangles(points: np.ndarray, neighbors: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Triangles ``(f, 3)``: around each point those of Delaunay with its neighbours ``(n, k)``, in
    its plane.

    Neighbours far above the plane are left out: they belong to another sheet, or to the far side of
    a thin tube.
    """
    offsets = points[neighbors] - points[:, None]
    heights = np.abs(np.einsum("nkd,nd->nk", offsets, normals))
    in_plane = np.einsum("nda,nkd->nka", normal_frames(normals), offsets)
    is_low = heights <= 0.5 * np.linalg.norm(offsets, axis=2)
    triangles = [np.empty((0, 3), int)]
    for rows, places, usable in zip(neighbors, in_plane, is_low, strict=True):
        if usable.sum() > 5:
            corners = Delaunay(places[usable]).simplices
            around = corners[(corners == 0).any(axis=1)]
            triangles.append(rows[usable][around])
    return np.unique(np.sort(np.concatenate(triangles), axis=1), axis=0)
