"""Meshes: PLY, OBJ, STL, VTK and other formats of meshio."""

from __future__ import annotations

import contextlib
import io
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DamagedFileError, InvalidInputError, MissingColumnsError, OutputError
from ..extras import extra
from .columns import assemble, to_columns
from .field import Field, Request, check_count
from .names import Columns, find_columns, listed, split_unit
from .spaces import Mesh


@dataclass(frozen=True)
class MeshFile:
    """The rest of a mesh file: data at its vertices, the name of its vectors if they are one array, and the axis that
    points up: y in most OBJ files, z in others.
    """

    point_data: dict[str, np.ndarray]
    array: str | None
    up: str = "z"


def up_axis(field: Field) -> str:
    """The axis of a field's points that figures should show as up, ``"y"`` or ``"z"``."""
    return field.origin.up if isinstance(field.origin, MeshFile) else "z"


def read_mesh(path: Path, request: Request) -> Field:
    """A field on a mesh, from its vertex data; without triangles, the vertices are a cloud."""
    meshio = extra("meshio", "Reading meshes", "files")
    claimed = check_counts(path)
    try:
        with contextlib.redirect_stdout(io.StringIO()), np.errstate(over="ignore"):  # meshio prints
            mesh = meshio.read(path)
    except (SystemExit, Exception) as error:  # meshio raises whatever its parsers meet, and exits on its own errors
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedFileError(f"{path.name} is no readable {path.suffix[1:].upper()} mesh ({text}).") from error
    if (said := claimed.get("element vertex", len(mesh.points))) != len(mesh.points):
        raise DamagedFileError(f"{path.name} has {len(mesh.points)} of {said} vertices: it is cut short.")
    field = from_meshio(mesh, request, path.name)
    if path.suffix.lower() == ".obj" and isinstance(field.origin, MeshFile):
        field = replace(field, origin=replace(field.origin, up="y"))
    return field


COUNTS = (
    rb"^(element\s+\w+|POINTS|CELLS|CELL_TYPES|POLYGONS|VERTICES|LINES|TRIANGLE_STRIPS|POINT_DATA|CELL_DATA|DIMENSIONS)"
    rb"[ \t]+(\d[\d \t]*)"
)
"""Where PLY and VTK files say how many of what they have."""


def check_counts(path: Path) -> dict[str, int]:
    """How many of what a mesh file says it has; refused, before it is parsed, if that is more than it can hold."""
    content, suffix = path.read_bytes(), path.suffix.lower()
    head = content.partition(b"end_header")[0] if suffix == ".ply" else content
    if suffix == ".ply" and head == content:
        raise DamagedFileError(f"{path.name} is no readable PLY mesh: its header is not complete.")
    found = {}
    for what, text in re.findall(COUNTS, head, re.MULTILINE):
        numbers = [*map(int, text.split())]
        found[what.decode()] = math.prod(numbers) if what == b"DIMENSIONS" else max(numbers)
    if suffix == ".stl" and len(content) >= 84 and not content.lstrip().startswith(b"solid"):
        found = {"bytes of triangles": 50 * int.from_bytes(content[80:84], "little")}
    for what, number in found.items():
        if number > len(content):
            raise DamagedFileError(
                f"{path.name} says it has {number} {what}, but it has {len(content)} bytes. It is damaged or cut short."
            )
    return found


def from_meshio(mesh: Any, request: Request, name: str = "the mesh") -> Field:
    """The field of a ``meshio.Mesh``."""
    points = np.asarray(mesh.points)
    check_count(len(points), request)
    faces, notes = _triangles(mesh)
    data = _with_face_data(mesh, points, faces, request, notes)
    names, values, array = _vectors(data, points, request, notes)
    units = tuple(split_unit(name)[1] for name in names)
    columns = Columns(("x", "y", "z")[: points.shape[1]], names, False, units, tuple(notes))
    field, rows = assemble(points, values, columns, request)
    if len(faces):
        if rows is not None:
            raise InvalidInputError(f"rows of {name} cannot be left out: its triangles count them. Clean the mesh.")
        field = replace(field, space=Mesh(field.space.points, faces))
    return replace(field, origin=MeshFile(data, array) if rows is None else None)


def _triangles(mesh: Any) -> tuple[np.ndarray, list[str]]:
    parts, notes = [np.zeros((0, 3), np.int64)], []
    for block in mesh.cells:
        corners = np.asarray(block.data)
        if block.type == "triangle":
            parts.append(corners)
        elif block.type == "quad":
            parts += [corners[:, [0, 1, 2]], corners[:, [0, 2, 3]]]
            notes.append(f"{len(corners)} quadrilaterals split into triangles")
        elif block.type not in ("vertex", "line"):
            notes.append(f"{len(corners)} cells of kind {block.type} left out")
    faces, n = np.concatenate(parts).astype(np.int64), len(mesh.points)
    if faces.size and (faces.min() < 0 or faces.max() >= n):
        raise InvalidInputError(
            f"faces name vertices {faces.min()} to {faces.max()}, but there are {n} (0 to {n - 1}). Clean the mesh."
        )
    return faces, notes if len(faces) else [*notes, "no triangles: the vertices are a cloud of points"]


def _with_face_data(
    mesh: Any, points: np.ndarray, faces: np.ndarray, request: Request, notes: list[str]
) -> dict[str, np.ndarray]:
    """Vertex data; if no vectors are among them, also the real numbers and vectors of faces, averaged by area."""
    data = dict(mesh.point_data)
    there = set(request.vectors) <= set(data) if request.vectors else _arrays(data, points)
    if request.only_points or not len(faces) or there:
        return data
    a, b, c = points[faces].swapaxes(0, 1)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)[:, None]
    repeats = {"triangle": 1, "quad": 2}
    for name, blocks in mesh.cell_data.items():
        parts = [
            np.concatenate([np.asarray(block)] * repeats[cells.type])
            for cells, block in zip(mesh.cells, blocks, strict=True)
            if cells.type in repeats
        ]
        if name in data or "normal" in name.lower() or any(p.dtype.kind != "f" or p.ndim > 2 for p in parts):
            continue
        values = np.concatenate(parts)
        shares = np.concatenate([area, area * values.reshape(len(faces), -1)], axis=1)
        sums = [np.bincount(faces.ravel(), np.repeat(column, 3), len(points)) for column in shares.T]
        with np.errstate(invalid="ignore"):  # vertices without triangles have none
            data[name] = np.stack([s / sums[0] for s in sums[1:]], axis=1).reshape(len(points), *values.shape[1:])
        notes.append(f"face data {name} averaged to the vertices, by area")
    return data


def _arrays(data: dict[str, np.ndarray], points: np.ndarray) -> list[str]:
    """Names of vertex data that are vectors, but no normals."""
    return [name for name, a in data.items() if a.shape == points.shape and "normal" not in name.lower()]


def _vectors(
    data: dict[str, np.ndarray], points: np.ndarray, request: Request, notes: list[str]
) -> tuple[tuple[str, ...], np.ndarray | None, str | None]:
    """Names of components, vectors ``(n, 3)``, and the array they come from if it is one."""
    if request.only_points:
        return (), None, None
    arrays, asked = _arrays(data, points), request.vectors
    single = asked[0] if len(asked) == 1 else arrays[0] if len(arrays) == 1 and not asked else None
    if single is not None:
        if single not in arrays:
            raise MissingColumnsError(f"the mesh has no vectors {single}; its vertices have {listed([*data])}.")
        notes += [] if asked else [f"vectors: vertex data {single}, the only ones"]
        return ("vx", "vy", "vz"), np.asarray(data[single]), single
    if len(arrays) > 1 and not asked:
        raise MissingColumnsError(f"the vertices have several vectors: {', '.join(arrays)}. Choose: vectors=('NAME',).")
    scalars = {n: a for n, a in data.items() if a.ndim == 1}
    found = find_columns(["x", "y", "z", *scalars], replace(request, points=("x", "y", "z"), latlon=()))
    notes += found.notes
    if not found.vectors:
        return (), None, None
    return found.vectors, np.stack([np.asarray(scalars[n], float) for n in found.vectors], axis=1), None


def write_mesh(field: Field, path: Path) -> None:
    """A mesh with the vectors as vertex data: one array, or vx, vy, vz where a format has numbers only."""
    meshio = extra("meshio", "Writing meshes", "files")
    mesh = to_meshio(field, numbers_only=path.suffix == ".ply")
    with contextlib.redirect_stdout(io.StringIO()):
        meshio.write(path, mesh)


def to_meshio(field: Field, *, numbers_only: bool = False) -> Any:
    """A ``meshio.Mesh`` with the vectors as vertex data, added to that of the file they came from."""
    meshio = extra("meshio", "Meshes", "files")
    points = field.space.points
    faces = field.space.faces if isinstance(field.space, Mesh) else np.zeros((0, 3), np.int64)
    cells = [("triangle", faces.astype(np.int32))] if len(faces) else [("vertex", np.arange(len(points))[:, None])]
    return meshio.Mesh(points, cells, point_data=vertex_data(field, numbers_only))


def vertex_data(field: Field, numbers_only: bool = False) -> dict[str, np.ndarray]:
    """Arrays at the vertices: vectors, their standard deviations, and what else the mesh had."""
    origin = field.origin if isinstance(field.origin, MeshFile) else MeshFile({}, "vectors")
    data = dict(origin.point_data)
    if field.values is None:
        return data
    if numbers_only or origin.array is None:
        data = {n: a for n, a in data.items() if n != origin.array and (a.ndim == 1 or not numbers_only)}
        table = {n: c for n, c in to_columns(field).items() if n not in field.space.names}
        return data | {n if n in data else split_unit(n)[0]: np.ascontiguousarray(c) for n, c in table.items()}
    data[origin.array] = field.values[0]
    if field.std is not None:
        data[f"{origin.array}_std"] = field.std[0]
    return data | {name: part.array[0] for name, part in field.parts.items()}


def check_mesh_output(field: Field, path: Path) -> None:
    """Refuse what a mesh file cannot hold."""
    if path.suffix in (".obj", ".stl"):
        raise OutputError(
            f"{path.suffix[1:].upper()} files hold no vectors. Write {path.with_suffix('.ply').name} or .vtk."
        )
    if field.space.points.shape[1] != 3:
        raise OutputError("a mesh file holds points of space, with x, y and z. Write .csv or .npz instead.")
