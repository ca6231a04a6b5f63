"""Meshes in PLY, OBJ, STL, VTK, XDMF, glTF and other formats of meshio and trimesh."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from ..errors import OutputError
from ..meshes.files import read_mesh_file
from ..meshes.gltf import write_gltf
from ..meshes.vtp import write_vtp
from .field import Field, Request
from .meshes import from_meshio, to_meshio
from .names import plain_name

GLTF = (".gltf", ".glb")
XDMF = (".xdmf", ".xmf")


def read(path: Path, request: Request) -> Field:
    """A field on a mesh, from its vertex data; without triangles, the vertices are a cloud."""
    return from_meshio(read_mesh_file(path), request)


def write(field: Field, path: Path) -> None:
    """A mesh with the vectors as vertex data: one array, or vx, vy, vz in PLY files, which have
    numbers only."""
    suffix = path.suffix.lower()
    mesh = to_meshio(field, columns=suffix == ".ply")
    if suffix in (".ply", ".vtk"):  # names are words
        mesh.point_data = {_word(name): array for name, array in mesh.point_data.items()}
    with contextlib.redirect_stdout(io.StringIO()):
        if suffix == ".vtp":
            write_vtp(mesh, path)
        elif suffix in GLTF:
            write_gltf(mesh, path)
        elif suffix in XDMF:
            mesh.write(path, file_format="xdmf", data_format="XML")  # one file, not two
        else:
            mesh.write(path)


def _word(name: str) -> str:
    """A name without spaces."""
    if " " not in name:
        return name
    return "_".join(plain_name(name).split())


def check_output(field: Field, path: Path) -> None:
    """Refuse what a mesh file cannot hold."""
    if path.suffix.lower() in (".obj", ".stl"):
        raise OutputError(
            f"{path.suffix} files cannot hold vectors.",
            f"Write {path.with_suffix('.ply').name} or .vtk.",
        )
    if path.suffix.lower() in GLTF and field.space.faces is None:
        raise OutputError(
            f"{path.suffix} files hold triangles, and this is a cloud of points.",
            f"Write {path.with_suffix('.ply').name} or .vtp.",
        )
    if field.space.points.shape[1] != 3:
        raise OutputError(
            "a mesh file holds points of space, with x, y and z.", "Write .csv or .npz instead."
        )
