"""Fields on meshes in memory: from ``meshio.Mesh``, and back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInputError, Note
from ..extras import extra
from .arrays import first_at_place, from_arrays, to_arrays, vector_arrays
from .checks import check_count
from .field import Field, Request
from .spaces import Mesh

SURFACES = ("triangle", "quad", "polygon")
"""Cells of a mesh that are faces."""

SHORTEST = {"f": "f4", "i": "i4", "u": "u1"}
"""The shortest numbers that meshio knows, by kind; in PLY files it knows no other byte order."""


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
    notes: list[Note] = []
    triangles = _triangles(mesh, notes)
    data = dict(mesh.point_data)
    if _needs_face_data(data, points, triangles, request):
        data |= _face_data(mesh, data, points, triangles, notes)
    if not len(triangles.corners):
        return from_arrays(points, data, request, notes)
    return from_arrays(points, data, request, notes, triangles.corners)


@dataclass(frozen=True, eq=False)
class _Triangles:
    """Triangles ``(f, 3)``, with polygons split into fans; each part of them comes from the block
    of cells of this number."""

    corners: np.ndarray
    blocks: list[int]


def _triangles(mesh: Any, notes: list[Note]) -> _Triangles:
    """The triangles of a mesh; notes say what was split or left out."""
    counts: Counter[str] = Counter()
    fans = [np.zeros((0, 3), np.int64)]
    blocks: list[int] = []
    for number, block in enumerate(mesh.cells):
        corners = 0
        if block.type in SURFACES:
            corners = block.data.shape[1]
        for corner in range(1, corners - 1):
            fans.append(block.data[:, [0, corner, corner + 1]])
            blocks.append(number)
        if corners > 3:
            counts[f"faces of {corners} corners split into triangles"] += len(block.data)
        elif corners < 3 and block.type not in ("vertex", "line"):
            counts[f"cells of kind {block.type} left out"] += len(block.data)
    notes += [Note(f"{what}: {count}") for what, count in counts.items()]
    faces = np.concatenate(fans).astype(np.int64)
    n = len(mesh.points)
    if faces.size and (faces.min() < 0 or faces.max() >= n):
        raise InvalidInputError(
            f"faces name vertices {faces.min()} to {faces.max()}, but there are {n} (0 to "
            f"{n - 1}). Clean the mesh."
        )
    if not len(faces):
        notes.append(Note("no triangles: the vertices are a cloud of points"))
    return _Triangles(faces, blocks)


def _needs_face_data(
    data: dict[str, np.ndarray], points: np.ndarray, triangles: _Triangles, request: Request
) -> bool:
    """Whether the vectors are not among the vertex data, and may be among those of faces."""
    if request.only_points or not len(triangles.corners):
        return False
    if request.vectors:
        return not set(request.vectors) <= set(data)
    return not vector_arrays(data, points)


def _face_data(
    mesh: Any,
    vertex_data: dict[str, np.ndarray],
    points: np.ndarray,
    triangles: _Triangles,
    notes: list[Note],
) -> dict[str, np.ndarray]:
    """The real numbers and vectors of faces at the vertices, averaged by area."""
    faces = triangles.corners
    a, b, c = points[faces].swapaxes(0, 1)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)[:, None]
    # vertices at one place are refused, or merged into the first
    corners = first_at_place(points)[faces].ravel()

    def sum_at_vertices(column: np.ndarray) -> np.ndarray:
        return np.bincount(corners, np.repeat(column, 3), len(points))

    averages = {}
    total_area = sum_at_vertices(area[:, 0])
    for name, cells in mesh.cell_data.items():
        blocks = [np.asarray(cells[number]) for number in triangles.blocks]
        is_number = all(block.dtype.kind == "f" and block.ndim <= 2 for block in blocks)
        if name in vertex_data or "normal" in name.lower() or not is_number:
            continue
        values = np.concatenate(blocks)
        weighted = area * values.reshape(len(faces), -1)
        with np.errstate(invalid="ignore"):  # vertices without triangles have none
            columns = [sum_at_vertices(column) / total_area for column in weighted.T]
        averages[name] = np.stack(columns, axis=1).reshape(len(points), *values.shape[1:])
        notes.append(Note(f"face data {name} averaged to the vertices, by area"))
    return averages


def to_meshio(field: Field, columns: bool = False) -> Any:
    """A ``meshio.Mesh`` with the vectors as vertex data, added to that of the file they came from.

    With ``columns`` each component is an array of its own. Arrays that are not numbers at the
    vertices are left out.
    """
    n = len(field.space)
    shapes = (1,) if columns else (1, 2)
    if isinstance(field.space, Mesh):
        cell_type = "triangle"
        cells = field.space.faces
    else:
        cell_type = "vertex"
        cells = np.arange(n)[:, None]
    data = {}
    for name, array in to_arrays(field, columns).items():
        if array.ndim in shapes and len(array) == n and array.dtype.kind in SHORTEST:
            dtype = np.promote_types(array.dtype, SHORTEST[array.dtype.kind])
            data[name] = array.astype(dtype)
    meshio = extra("meshio", "Writing meshes", "files")
    return meshio.Mesh(field.space.points, [(cell_type, cells.astype(np.int32))], point_data=data)
