"""glTF files, by trimesh: vectors are attributes of vertices, whose names begin with an underscore
in the file. Numbers are in single precision, and the y axis points up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..extras import extra


def read_gltf(path: Path) -> Any:
    """The ``meshio.Mesh`` of a glTF file: all its meshes where they are placed.

    Attributes are read from files with one mesh that is not moved.
    """
    meshio = extra("meshio", "Reading meshes", "files")
    trimesh = extra("trimesh", "Reading glTF files", "files")
    scene = trimesh.load_scene(path, process=False)
    nodes = scene.graph.nodes_geometry
    attributes = {}
    if len(nodes) == 1:
        transform, name = scene.graph[nodes[0]]
        mesh = scene.geometry[name]
        if np.array_equal(transform, np.eye(4)):
            attributes = {
                attribute.removeprefix("_"): np.asarray(values, np.float64)
                for attribute, values in mesh.vertex_attributes.items()
            }
    else:
        mesh = scene.to_mesh()
    points = np.asarray(mesh.vertices, np.float64)
    return meshio.Mesh(points, [("triangle", np.asarray(mesh.faces))], point_data=attributes)


def write_gltf(mesh: Any, path: Path) -> None:
    """Write a ``meshio.Mesh`` of triangles as one file, binary for ``.glb``."""
    trimesh = extra("trimesh", "Writing glTF files", "files")
    attributes = {
        f"_{name}": np.asarray(values, np.float32) for name, values in mesh.point_data.items()
    }
    surface = trimesh.Trimesh(
        vertices=mesh.points,
        faces=mesh.cells[0].data,
        vertex_attributes=attributes,
        process=False,
    )
    if path.suffix.lower() == ".glb":
        path.write_bytes(surface.export(file_type="glb"))
    else:
        files = surface.export(file_type="gltf", embed_buffers=True)
        path.write_bytes(files["model.gltf"])
