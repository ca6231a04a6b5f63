"""Vertices and triangles, and polygons split into triangles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import DuplicatePointsWarning, ShapeError, warn


@dataclass(frozen=True, eq=False)
class Triangles:
    """Triangles ``faces`` (f, 3) of numbers of ``vertices`` (n, 3), in the user's order.

    ``origin`` (n,) holds the number of each vertex in the mesh that was cut or merged, and is None
    for other meshes. ``is_cut`` says that vertices at one place are meant to be apart.

    >>> triangle = Triangles(np.eye(3), np.array([[0, 1, 2]]))
    >>> triangle
    Triangles(3 vertices, 1 triangles)
    """

    vertices: Array
    faces: np.ndarray
    origin: np.ndarray | None = None
    is_cut: bool = False

    def __repr__(self) -> str:
        return f"Triangles({len(self.vertices)} vertices, {len(self.faces)} triangles)"


def warn_of_seams(points: np.ndarray, faces: np.ndarray) -> None:
    """Warn of vertices ``(n, 3)`` of the boundary that lie at one place: nothing flows between
    them."""
    rim = _boundary_vertices(faces)
    num_places = len(np.unique(points[rim], axis=0))
    if num_places == len(rim):
        return
    warn(
        f"vertices of the boundary that lie where another one does: {len(rim) - num_places}. "
        "Triangles that have different vertices there are not connected.",
        DuplicatePointsWarning,
        remedy="Merge them, TangentBundle.from_mesh(meshes.merge_vertices(mesh)), unless the "
        "surface is meant to have a seam.",
    )


def _boundary_vertices(faces: np.ndarray) -> np.ndarray:
    """The vertices of edges that have one triangle."""
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    lower = sides.min(axis=1)
    upper = sides.max(axis=1)
    keys = lower * (int(faces.max(initial=0)) + 1) + upper
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return np.unique(sides[first[counts == 1]])


def triangulated(faces: Any) -> np.ndarray:
    """Triangles ``(f, 3)`` from polygons: an array ``(p, k)`` with k corners for each, or a list of
    polygons of various sizes.

    A polygon is split into the fan of its first corner, and should be convex. What is no list of
    polygons comes back as an array, to be refused later.

    >>> triangulated([[0, 1, 2, 3], [0, 4, 1]]).tolist()
    [[0, 1, 2], [0, 2, 3], [0, 4, 1]]
    """
    try:
        array = np.asarray(faces)
    except ValueError:  # of various sizes
        return _fans_of_lists(faces)
    is_polygons = array.ndim == 2 and array.dtype.kind in "iu" and array.shape[1] > 3
    if not is_polygons:
        return array
    num_corners = array.shape[1]
    return fans(array.ravel(), np.full(len(array), num_corners))


def fans(corners: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Triangles ``(f, 3)`` of polygons that have so many corners each, one after the other."""
    starts = np.cumsum(counts) - counts
    num_triangles = np.maximum(counts - 2, 0)
    first_triangle = np.cumsum(num_triangles) - num_triangles
    polygon = np.repeat(np.arange(len(counts)), num_triangles)
    step = np.arange(num_triangles.sum()) - first_triangle[polygon]
    at = starts[polygon]
    return np.stack([corners[at], corners[at + step + 1], corners[at + step + 2]], axis=1)


def _fans_of_lists(faces: Any) -> np.ndarray:
    """Triangles of polygons of various sizes."""
    polygons = [np.asarray(polygon) for polygon in faces]
    for number, polygon in enumerate(polygons):
        if polygon.ndim != 1 or polygon.dtype.kind not in "iu" or len(polygon) < 3:
            raise ShapeError(
                "faces must be an integer array of shape (f, 3), or a list of polygons of at least "
                f"three corners each; polygon {number} is {faces[number]!r:.80}."
            )
    counts = np.array([len(polygon) for polygon in polygons])
    return fans(np.concatenate(polygons), counts)
