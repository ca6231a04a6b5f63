"""Triangle meshes as half-edges: who lies across each side, and triangles that are oriented alike.

Half-edge ``3 f + s`` runs from corner s of triangle f to the next one; its twin is the other side
of the same edge.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..arrays import Array
from ..errors import (
    InvalidInputError,
    MeshRepairWarning,
    NotManifoldError,
    RankDeficientError,
    ShapeError,
    warn,
)


def check_corners(faces: Array, n: int) -> np.ndarray:
    """Refuse triangles ``(f, 3)`` that are no numbers of n vertices; int64."""
    try:
        triangles = np.asarray(faces)
    except ValueError as error:
        raise ShapeError(
            "faces must all have three corners. Split polygons into triangles first."
        ) from error
    if triangles.ndim != 2 or triangles.shape[1] != 3 or triangles.dtype.kind not in "iu":
        raise ShapeError(
            f"faces must be an integer array of shape (f, 3), got {triangles.dtype} of shape "
            f"{triangles.shape}. Split polygons into triangles first."
        )
    triangles = np.ascontiguousarray(triangles, np.int64)
    if triangles.size and (triangles.min() < 0 or triangles.max() >= n):
        raise InvalidInputError(
            f"faces name vertices {triangles.min()} to {triangles.max()}, but there are {n} (0 to "
            f"{n - 1}). Some formats count from one: subtract it."
        )
    return triangles


def check_soup(faces: Array, *, num_points: int, ambient_dim: int = 3) -> np.ndarray:
    """Refuse triangles ``(f, 3)`` that are no vertex numbers, and vertices that do not lie in space;
    leave out those with a repeated corner. int64."""
    n = num_points
    if ambient_dim != 3:
        raise ShapeError(f"vertices must have shape (n, 3), got {(n, ambient_dim)}.")
    triangles = check_corners(faces, n)
    repeated = (triangles == np.roll(triangles, 1, axis=1)).any(axis=1)
    if repeated.any():
        triangles = triangles[~repeated]
        warn(
            f"triangles with a repeated corner left out: {repeated.sum()}.",
            MeshRepairWarning,
        )
    return triangles


def check_faces(faces: Array, *, num_points: int, ambient_dim: int = 3) -> np.ndarray:
    """The same, and refuse vertices that no triangle has."""
    triangles = check_soup(faces, num_points=num_points, ambient_dim=ambient_dim)
    used = np.zeros(num_points, bool)
    used[triangles] = True
    if not used.all():
        raise RankDeficientError(
            f"vertices without a normal, in no triangle: {num_points - used.sum()} (first: "
            f"{used.argmin()}).",
            "Remove them and number the others anew.",
        )
    return triangles


@njit(cache=True, nogil=True)
def counting_sort(keys, order, n):  # pragma: no cover - compiled
    """``order``, sorted by its keys from 0 to n - 1; equal ones stay in order."""
    place = np.zeros(n + 1, np.int64)
    out = np.empty_like(order)
    for e in order:
        place[keys[e] + 1] += 1
    place = np.cumsum(place)
    for e in order:
        out[place[keys[e]]] = e
        place[keys[e]] += 1
    return out


@njit(cache=True, nogil=True)
def _match(faces, n):  # pragma: no cover - compiled
    """Twins (-1 at boundaries), a half-edge whose edge has a third triangle (or -1), pairs that run
    alike."""
    num_halfedges = faces.shape[0] * 3
    tails = faces.reshape(-1)
    lower = np.empty(num_halfedges, np.int64)
    upper = np.empty(num_halfedges, np.int64)
    for h in range(num_halfedges):
        head = tails[h + 1 if h % 3 < 2 else h - 2]
        lower[h] = min(tails[h], head)
        upper[h] = max(tails[h], head)
    twin = np.full(num_halfedges, -1, np.int64)
    last = np.full(n, -1, np.int64)
    alike = 0
    # by the lower end: a mate was the last to see the upper one
    for h in counting_sort(lower, np.arange(num_halfedges), n):
        mate = last[upper[h]]
        if mate < 0 or lower[mate] != lower[h]:
            last[upper[h]] = h
        elif twin[mate] < 0:
            twin[mate] = h
            twin[h] = mate
            alike += tails[mate] == tails[h]
        else:
            return twin, h, alike
    return twin, -1, alike


@njit(cache=True, nogil=True)
def _turns(faces, twin):  # pragma: no cover - compiled
    """Which triangles to turn over so that all agree, and a half-edge across which none can (or
    -1)."""
    turn = np.full(len(faces), -1, np.int8)
    queue = np.empty(len(faces), np.int64)
    tails = faces.reshape(-1)
    end = 0
    for seed in range(len(faces)):
        if turn[seed] >= 0:
            continue
        begin = end
        at = begin
        turn[seed] = 0
        queue[end] = seed
        end += 1
        while at < end:
            for h in range(3 * queue[at], 3 * queue[at] + 3):
                if twin[h] < 0:
                    continue
                other = twin[h] // 3
                wanted = turn[h // 3] ^ (tails[h] == tails[twin[h]])
                if turn[other] < 0:
                    turn[other] = wanted
                    queue[end] = other
                    end += 1
                elif turn[other] != wanted:
                    return turn, h
            at += 1
        part = queue[begin:end]
        if 2 * turn[part].sum() > len(part):  # the majority is right
            turn[part] = 1 - turn[part]
    return turn, -1


def oriented_halfedges(faces: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Triangles ``(f, 3)`` that run alike around every edge, and the twin of every half-edge, -1 at
    boundaries.

    ``order`` (n,) holds the user's numbers of the vertices, for messages.
    """
    n = len(order)
    twin, crowded, alike = _match(faces, n)
    if crowded >= 0:
        raise NotManifoldError(
            f"{_edge(order[faces], crowded)} belongs to more than two triangles, so the mesh is "
            "no surface there.",
            "Remove surplus triangles, or use the points alone: "
            "TangentBundle.from_points(vertices).",
        )
    if alike:
        turn, conflict = _turns(faces, twin)
        if conflict >= 0:
            raise NotManifoldError(
                "the mesh is not orientable: its triangles cannot agree across "
                f"{_edge(order[faces], conflict)}.",
                "Use the points alone, TangentBundle.from_points(vertices): their transports may "
                "be reflections.",
            )
        turned = np.flatnonzero(turn)
        warn(
            f"triangles turned over to agree: {len(turned)}.",
            MeshRepairWarning,
        )
        faces = faces.copy()
        faces[turned] = faces[turned, ::-1]
        twin = _match(faces, n)[0]
    return faces, twin


def _edge(faces: np.ndarray, h: int) -> str:
    return f"the edge from vertex {faces[h // 3, h % 3]} to {faces[h // 3, (h + 1) % 3]}"


@njit(cache=True, nogil=True)
def vertex_normals(points, faces):  # pragma: no cover - compiled
    """Normals ``(n, 3)`` of any length: sums over the triangles around each vertex, weighted by
    area."""
    normals = np.zeros((len(points), 3))
    for corners in faces:
        p = points[corners[0]]
        q = points[corners[1]]
        r = points[corners[2]]
        for k in range(3):
            a = (k + 1) % 3
            b = (k + 2) % 3
            product = (q[a] - p[a]) * (r[b] - p[b]) - (q[b] - p[b]) * (r[a] - p[a])
            for corner in corners:
                normals[corner, k] += product
    return normals
