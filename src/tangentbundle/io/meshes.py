"""Meshes: PLY, OBJ, STL, VTK and other formats of meshio."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import (
    DamagedFileError,
    InvalidInputError,
    Note,
    OutputError,
)
from ..extras import extra
from .arrays import first_at_place, from_arrays, to_arrays, vector_arrays
from .field import Field, Request, check_count
from .names import split_unit
from .spaces import Mesh


def read_mesh(path: Path, request: Request) -> Field:
    """A field on a mesh, from its vertex data; without triangles, the vertices are a cloud."""
    meshio, suffix, printed = (
        extra("meshio", "Reading meshes", "files"),
        path.suffix.lower(),
        io.StringIO(),
    )
    claimed = check_counts(path)
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            np.errstate(over="ignore"),
        ):
            mesh = {".obj": _read_obj, ".ply": _read_ply}.get(suffix, meshio.read)(path)
    except (
        SystemExit,
        Exception,
    ) as error:  # meshio raises whatever its parsers meet, and exits on its own errors
        unknown = isinstance(error, SystemExit) or not str(error)
        text = "it is damaged or cut short" if unknown else str(error).splitlines()[0].rstrip(".")
        raise DamagedFileError(
            f"{path.name} is not a readable {suffix[1:].upper()} mesh ({text}). Write it anew, or "
            f"convert it to {'VTK' if suffix == '.ply' else 'PLY'}."
        ) from error
    if (expected := claimed.get("element vertex", len(mesh.points))) != len(mesh.points):
        raise DamagedFileError(
            f"{path.name} has {len(mesh.points)} of {expected} vertices: it is cut short."
        )
    return from_meshio(mesh, request)


def _read_obj(path: Path) -> Any:
    """Vertices and faces; meshio's reader needs a texture coordinate for each vertex, and counts
    from the start."""
    points: list[list[float]] = []
    faces: dict[int, list[list[int]]] = {}
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        kind, *items = line.split() or [""]
        try:
            if kind == "v":
                points.append([float(items[k]) for k in range(3)])  # colours may follow
            elif kind == "f":
                corners = [int(item.partition("/")[0]) for item in items]
                back = len(points)  # negative numbers count back from the last vertex so far
                faces.setdefault(len(items), []).append(
                    [c + back if c < 0 else c - 1 for c in corners]
                )
        except (ValueError, IndexError) as error:
            raise DamagedFileError(f"line {number} is {line[:80]!r}") from error
    cells = [
        ({3: "triangle", 4: "quad"}.get(k, "polygon"), np.array(block))
        for k, block in faces.items()
    ]
    return extra("meshio", "Reading meshes", "files").Mesh(np.array(points).reshape(-1, 3), cells)


def _read_ply(path: Path) -> Any:
    """The mesh; faces may also be named ``vertex_index``, which meshio does not know."""
    head, mark, body = path.read_bytes().partition(b"end_header")
    content = io.BytesIO(head.replace(b"vertex_index", b"vertex_indices") + mark + body)
    return extra("meshio", "Reading meshes", "files").read(content, "ply")


COUNTS = (
    rb"^(element\s+\w+|POINTS|CELLS|CELL_TYPES|POLYGONS|VERTICES|LINES|TRIANGLE_STRIPS|POINT_DATA|CELL_DATA|DIMENSIONS)"
    rb"[ \t]+(\d[\d \t]*)"
)
"""Element counts in PLY and VTK headers."""


def check_counts(path: Path) -> dict[str, int]:
    """Return the element counts in the header of a mesh file; raise if the file is too small for
    them."""
    content, suffix = path.read_bytes(), path.suffix.lower()
    head = content.partition(b"end_header")[0] if suffix == ".ply" else content
    if suffix == ".ply" and head == content:
        raise DamagedFileError(
            f"{path.name} is not a readable PLY mesh: its header is not complete."
        )
    found = {}
    for what, text in re.findall(COUNTS, head, re.MULTILINE):
        numbers = [*map(int, text.split())]
        found[what.decode()] = math.prod(numbers) if what == b"DIMENSIONS" else max(numbers)
    if suffix == ".stl" and len(content) >= 84 and not content.lstrip().startswith(b"solid"):
        found = {"bytes of triangles": 50 * int.from_bytes(content[80:84], "little")}
    for what, number in found.items():
        if number > len(content):
            raise DamagedFileError(
                f"{path.name} says it has {number} {what}, but it has {len(content)} bytes. It is "
                "damaged or cut short."
            )
    return found


def from_meshio(mesh: Any, request: Request | None = None) -> Field:
    """The field on a ``meshio.Mesh``: its triangles, or a cloud of points if there are none.

    Vectors are guessed among the vertex data, or named by ``Request(vectors=("NAME",))``.
    ``field.space.bundle()`` is the bundle, and ``field.with_vectors(...)`` the same mesh with other
    vectors.

    >>> import meshio, tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(100, seed=0)
    >>> field = from_meshio(meshio.Mesh(points, [], {"flow": np.cross(points, [0, 0, 1])}))
    >>> str(field), field.space.bundle().dim
    ('100 points in R^3', 2)
    """
    request = request or Request(needs_vectors=False)
    points = np.asarray(mesh.points)[..., :3]  # colours may follow in OBJ files
    check_count(len(points), request)
    faces, blocks, notes = _triangles(mesh)
    data = _with_face_data(mesh, points, faces, blocks, request, notes)
    return from_arrays(points, data, request, notes, faces if len(faces) else None)


def _triangles(mesh: Any) -> tuple[np.ndarray, list[int], list[Note]]:
    """Triangles ``(f, 3)``, with polygons split into fans; for each part of them its block of
    cells; notes."""
    n, blocks, counts = len(mesh.points), list[int](), Counter[str]()
    parts = [np.zeros((0, 3), np.int64)]
    for i, block in enumerate(mesh.cells):
        corners = block.data.shape[1] if block.type in ("triangle", "quad", "polygon") else 0
        fan = [block.data[:, [0, k, k + 1]] for k in range(1, corners - 1)]
        parts += fan
        blocks += [i] * len(fan)
        if corners > 3:
            counts[f"faces of {corners} corners split into triangles"] += len(block.data)
        elif corners < 3 and block.type not in ("vertex", "line"):
            counts[f"cells of kind {block.type} left out"] += len(block.data)
    notes = [Note(f"{what}: {count}") for what, count in counts.items()]
    faces = np.concatenate(parts).astype(np.int64)
    if faces.size and (faces.min() < 0 or faces.max() >= n):
        raise InvalidInputError(
            f"faces name vertices {faces.min()} to {faces.max()}, but there are {n} (0 to "
            f"{n - 1}). Clean the mesh."
        )
    return (
        faces,
        blocks,
        notes if len(faces) else [*notes, Note("no triangles: the vertices are a cloud of points")],
    )


def _with_face_data(
    mesh: Any,
    points: np.ndarray,
    faces: np.ndarray,
    blocks: list[int],
    request: Request,
    notes: list[Note],
) -> dict[str, np.ndarray]:
    """Vertex data; if no vectors are among them, also the real numbers and vectors of faces,
    averaged by area."""
    data = dict(mesh.point_data)
    there = set(request.vectors) <= set(data) if request.vectors else vector_arrays(data, points)
    if request.only_points or not len(faces) or there:
        return data
    a, b, c = points[faces].swapaxes(0, 1)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)[:, None]
    corners = first_at_place(points)[
        faces
    ].ravel()  # vertices at one place are refused, or merged into the first
    for name, cells in mesh.cell_data.items():
        parts = [np.asarray(cells[i]) for i in blocks]
        if (
            name in data
            or "normal" in name.lower()
            or any(p.dtype.kind != "f" or p.ndim > 2 for p in parts)
        ):
            continue
        values = np.concatenate(parts)
        shares = np.concatenate([area, area * values.reshape(len(faces), -1)], axis=1)
        sums = [np.bincount(corners, np.repeat(column, 3), len(points)) for column in shares.T]
        with np.errstate(invalid="ignore"):  # vertices without triangles have none
            data[name] = np.stack([s / sums[0] for s in sums[1:]], axis=1).reshape(
                len(points), *values.shape[1:]
            )
        notes.append(Note(f"face data {name} averaged to the vertices, by area"))
    return data


def write_mesh(field: Field, path: Path) -> None:
    """A mesh with the vectors as vertex data: one array, or vx, vy, vz in PLY files, which have
    numbers only."""
    suffix = path.suffix.lower()
    mesh = to_meshio(field, columns=suffix == ".ply")
    if suffix in (".ply", ".vtk"):  # names are words
        mesh.point_data = {
            "_".join(split_unit(name)[0].split()) if " " in name else name: a
            for name, a in mesh.point_data.items()
        }
    with contextlib.redirect_stdout(io.StringIO()):
        mesh.write(path)


def to_meshio(field: Field, columns: bool = False) -> Any:
    """A ``meshio.Mesh`` with the vectors as vertex data, added to that of the file they came from.

    With ``columns`` each component is an array of its own. Arrays that are not numbers at the
    vertices are left out.
    """
    n, shapes, space = len(field.space), (1,) if columns else (1, 2), field.space
    kind, cells = (
        ("triangle", space.faces) if isinstance(space, Mesh) else ("vertex", np.arange(n)[:, None])
    )
    least = {
        "f": "f4",
        "i": "i4",
        "u": "u1",
    }  # meshio knows no shorter numbers, and in PLY files no other byte order
    data = {}
    for name, a in to_arrays(field, columns).items():
        if a.ndim in shapes and len(a) == n and a.dtype.kind in least:
            data[name] = a.astype(np.promote_types(a.dtype, least[a.dtype.kind]))
    new = extra("meshio", "Writing meshes", "files").Mesh
    return new(space.points, [(kind, cells.astype(np.int32))], point_data=data)


def check_mesh_output(field: Field, path: Path) -> None:
    """Refuse what a mesh file cannot hold."""
    if path.suffix.lower() in (".obj", ".stl"):
        raise OutputError(
            f"{path.suffix} files cannot hold vectors. Write {path.with_suffix('.ply').name} or "
            ".vtk."
        )
    if field.space.points.shape[1] != 3:
        raise OutputError(
            "a mesh file holds points of space, with x, y and z. Write .csv or .npz instead."
        )
