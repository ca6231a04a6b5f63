"""What other libraries call a mesh, told by its attributes: none of them is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidInputError, ShapeError
from .files import read_mesh_file
from .triangles import Triangles, fans, triangulated

FACE_CELLS = ("triangle", "quad", "polygon")
"""Cells of meshio that are faces."""


def read_mesh(mesh: Any, faces: Any = None) -> Triangles:
    """Vertices and triangles of a mesh: arrays, an object of another library, or a file.

    Args:
        mesh: vertices ``(n, 3)`` if ``faces`` are given, otherwise a mesh of trimesh, PyVista,
            meshio or Open3D, a scene of trimesh, ``Triangles``, a ``spaces.Mesh``, or the path of a
            file that meshio or, for glTF, trimesh can read.
        faces: triangles ``(f, 3)``, polygons ``(f, k)``, or a list of polygons. Polygons are split
            into fans of triangles, and should be convex.

    >>> square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    >>> read_mesh(square, [[0, 1, 2, 3]]).faces.tolist()
    [[0, 1, 2], [0, 2, 3]]
    """
    if faces is not None:
        return Triangles(mesh, triangulated(faces))
    if isinstance(mesh, Triangles):
        return mesh
    if isinstance(mesh, str | Path):
        return _from_meshio(read_mesh_file(mesh))
    return _from_object(mesh)


def _from_object(mesh: Any) -> Triangles:
    """The triangles of an object of another library."""
    for names, reader in READERS:
        if all(hasattr(mesh, name) for name in names):
            return reader(mesh)
    if isinstance(mesh, np.ndarray | list | tuple) or hasattr(mesh, "shape"):
        raise ShapeError(
            "vertices need their faces, an integer array of shape (f, 3).",
            "Without faces they are a cloud: TangentBundle.from_points(vertices).",
        )
    raise InvalidInputError(
        argument="mesh",
        expected="vertices and faces, a mesh of trimesh, PyVista, meshio or Open3D, or a file",
        received=type(mesh).__name__,
    )


def _from_trimesh(mesh: Any) -> Triangles:
    """``trimesh.Trimesh``, and others with vertices and faces."""
    return Triangles(np.asarray(mesh.vertices), triangulated(mesh.faces))


def _from_scene(scene: Any) -> Triangles:
    """``trimesh.Scene``: all its meshes where they are placed."""
    return _from_trimesh(scene.to_mesh())


def _from_open3d(mesh: Any) -> Triangles:
    """``open3d.geometry.TriangleMesh``."""
    return Triangles(np.asarray(mesh.vertices), np.asarray(mesh.triangles))


def _from_open3d_tensors(mesh: Any) -> Triangles:
    """``open3d.t.geometry.TriangleMesh``."""
    return Triangles(mesh.vertex.positions.cpu().numpy(), mesh.triangle.indices.cpu().numpy())


def _from_meshio(mesh: Any) -> Triangles:
    """``meshio.Mesh``: its triangles, quads and polygons; other cells are no faces."""
    corners = [np.zeros((0, 3), np.int64)]
    for block in mesh.cells:
        if block.type in FACE_CELLS:
            corners.append(triangulated(block.data))
    points = np.asarray(mesh.points)[..., :3]  # colours may follow in OBJ files
    return Triangles(points, np.concatenate(corners))


def _from_polydata(mesh: Any) -> Triangles:
    """``pyvista.PolyData``, whose faces are one array: the number of corners before the corners of
    each; or ``spaces.Mesh``, with triangles ``(f, 3)``."""
    points = np.asarray(mesh.points)
    faces = np.asarray(mesh.faces)
    if faces.ndim != 1:
        return Triangles(points, triangulated(faces))
    places = []
    counts = []
    at = 0
    while at < len(faces):
        count = int(faces[at])
        counts.append(count)
        places.append(np.arange(at + 1, at + 1 + count))
        at += 1 + count
    if not counts:
        return Triangles(points, np.zeros((0, 3), np.int64))
    return Triangles(points, fans(faces[np.concatenate(places)], np.array(counts)))


def _from_dataset(mesh: Any) -> Triangles:
    """Other data of PyVista, such as grids: the faces of their surface."""
    return _from_polydata(mesh.extract_surface())


READERS = (
    (("points", "faces"), _from_polydata),
    (("vertices", "faces"), _from_trimesh),
    (("geometry", "to_mesh"), _from_scene),
    (("vertices", "triangles"), _from_open3d),
    (("vertex", "triangle"), _from_open3d_tensors),
    (("points", "extract_surface"), _from_dataset),
    (("points", "cells"), _from_meshio),
)
"""Attributes that a mesh has, and how it is read then; the first that fits counts."""
