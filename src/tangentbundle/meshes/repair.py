"""Meshes that are no surface, made to be surfaces."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..geometry.halfedges import check_corners, distinct_corners
from ..geometry.sheets import Sheets
from .sources import read_mesh
from .triangles import Triangles


def cut_sheets(mesh: Any, faces: Any = None) -> Triangles:
    """A mesh cut into oriented surfaces, so that vectors can be transported on it.

    It is cut along edges with more than two triangles, where triangles cannot be oriented alike,
    and at vertices where several parts meet; it gets a boundary there. Vertices in no triangle are
    left out. The arguments are those of ``read_mesh``; ``origin`` of the result has the number of
    each of its vertices in the mesh.

    >>> vertices = np.array([[0.0, 0, 0], [0, 0, 1], [1, 0, 0], [-1, 1, 0], [-1, -1, 0]])
    >>> cut = cut_sheets(vertices, [[0, 1, 2], [0, 1, 3], [0, 1, 4]])  # three pages of a book
    >>> cut, cut.origin.tolist()
    (Triangles(9 vertices, 3 triangles), [0, 1, 2, 3, 4, 0, 0, 1, 1])
    """
    triangles = read_mesh(mesh, faces)
    corners = distinct_corners(check_corners(triangles.faces, len(triangles.vertices)))
    sheets = Sheets.of(corners)
    return Triangles(
        triangles.vertices[sheets.origin], sheets.faces, origin=sheets.origin, is_cut=True
    )


def merge_vertices(mesh: Any, faces: Any = None) -> Triangles:
    """A mesh with one vertex at each place: files may have several, for each triangle or along
    seams of textures.

    Triangles whose corners coincide are left out. The arguments are those of ``read_mesh``;
    ``origin`` of the result has the number of the first vertex at each place.

    >>> vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    >>> merged = merge_vertices(vertices, [[0, 1, 2], [3, 4, 5]])
    >>> merged, merged.faces.tolist()
    (Triangles(4 vertices, 2 triangles), [[0, 1, 2], [1, 3, 2]])
    """
    triangles = read_mesh(mesh, faces)
    vertices = np.asarray(triangles.vertices)
    _, first, place = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    representatives = first[place.ravel()]
    origin = np.unique(representatives)
    corners = np.searchsorted(origin, representatives)
    merged = corners[check_corners(triangles.faces, len(vertices))]
    is_triangle = (merged != np.roll(merged, 1, axis=1)).all(axis=1)
    return Triangles(triangles.vertices[origin], merged[is_triangle], origin)
