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
    """Refuse triangles ``(f, 3)`` that are no vertex numbers, and vertices that do not lie in
    space; leave out those with a repeated corner, and copies. int64."""
    n = num_points
    if ambient_dim != 3:
        raise ShapeError(f"vertices must have shape (n, 3), got {(n, ambient_dim)}.")
    return without_copies(distinct_corners(check_corners(faces, n)))


def distinct_corners(triangles: np.ndarray) -> np.ndarray:
    """The triangles ``(f, 3)`` without those that have a repeated corner."""
    repeated = (triangles == np.roll(triangles, 1, axis=1)).any(axis=1)
    if not repeated.any():
        return triangles
    warn(
        f"triangles with a repeated corner left out: {repeated.sum()}.",
        MeshRepairWarning,
    )
    return triangles[~repeated]


def without_copies(triangles: np.ndarray) -> np.ndarray:
    """The triangles ``(f, 3)`` without those that have the corners of an earlier one in the same
    sense of rotation: their area would count twice."""
    count = len(triangles)
    if not count:
        return triangles
    first_corner = triangles.argmin(axis=1)
    turned = triangles[np.arange(count)[:, None], (first_corner[:, None] + np.arange(3)) % 3]
    order = np.lexsort(turned.T)  # stable: the first of equal ones comes first
    ordered = turned[order]
    repeats = order[1:][(ordered[1:] == ordered[:-1]).all(axis=1)]
    if not len(repeats):
        return triangles
    warn(f"triangles that are listed twice left out: {len(repeats)}.", MeshRepairWarning)
    return np.delete(triangles, repeats, axis=0)


def check_faces(faces: Array, *, num_points: int, ambient_dim: int = 3) -> np.ndarray:
    """The same, and refuse vertices that no triangle has."""
    triangles = check_soup(faces, num_points=num_points, ambient_dim=ambient_dim)
    used = np.zeros(num_points, bool)
    used[triangles] = True
    if not used.all():
        raise RankDeficientError(
            f"vertices without a normal, in no triangle: {num_points - used.sum()} (first: "
            f"{used.argmin()}).",
            "Leave them out, TangentBundle.from_mesh(meshes.cut_sheets(mesh)), or work with "
            "functions: TangentBundle.scalar_from_mesh(mesh).",
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
def match_sides(faces, n):  # pragma: no cover - compiled
    """Twins, -1 at boundaries and where an edge has more than two triangles, and which half-edges
    are crowded like that."""
    num_halfedges = faces.shape[0] * 3
    tails = faces.reshape(-1)
    lower = np.empty(num_halfedges, np.int64)
    upper = np.empty(num_halfedges, np.int64)
    for h in range(num_halfedges):
        head = tails[h + 1 if h % 3 < 2 else h - 2]
        lower[h] = min(tails[h], head)
        upper[h] = max(tails[h], head)
    twin = np.full(num_halfedges, -1, np.int64)
    crowded = np.zeros(num_halfedges, np.bool_)
    last = np.full(n, -1, np.int64)
    # by the lower end: a mate was the last to see the upper one
    for h in counting_sort(lower, np.arange(num_halfedges), n):
        mate = last[upper[h]]
        if mate < 0 or lower[mate] != lower[h]:
            last[upper[h]] = h
        elif crowded[mate]:
            crowded[h] = True
        elif twin[mate] < 0:
            twin[mate] = h
            twin[h] = mate
        else:
            second = twin[mate]
            crowded[h] = True
            crowded[mate] = True
            crowded[second] = True
            twin[mate] = -1
            twin[second] = -1
    return twin, crowded


@njit(cache=True, nogil=True)
def agreeing_turns(faces, twin):  # pragma: no cover - compiled
    """Which triangles to turn over so that all agree, and the half-edges across which they cannot:
    the surface is not orientable there."""
    turn = np.full(len(faces), -1, np.int8)
    torn = np.zeros(len(twin), np.bool_)
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
                    torn[h] = True
            at += 1
        part = queue[begin:end]
        if 2 * turn[part].sum() > len(part):  # the majority is right
            turn[part] = 1 - turn[part]
    return turn == 1, torn


def turned_over(faces: np.ndarray, is_turned: np.ndarray) -> np.ndarray:
    """Triangles ``(f, 3)``, some of them the other way round."""
    oriented = faces.copy()
    oriented[is_turned] = faces[is_turned, ::-1]
    return oriented


CUT_REMEDY = (
    "Fields on it: cut it there, TangentBundle.from_mesh(meshes.cut_sheets(mesh)). Functions: "
    "TangentBundle.scalar_from_mesh(mesh). Points without triangles: "
    "TangentBundle.from_points(vertices)."
)
"""What to do about meshes that are no surface."""


def oriented_halfedges(faces: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Triangles ``(f, 3)`` that run alike around every edge, and the twin of every half-edge, -1 at
    boundaries.

    ``order`` (n,) holds the user's numbers of the vertices, for messages.
    """
    n = len(order)
    twin, crowded = match_sides(faces, n)
    if crowded.any():
        edges = _distinct_edges(order[faces], crowded)
        verb = "belongs" if len(edges) == 1 else "belong"
        raise NotManifoldError(
            f"{_listed(edges)} {verb} to more than two triangles, so the mesh is no surface there.",
            CUT_REMEDY,
        ).at_edges(edges)
    is_turned, torn = agreeing_turns(faces, twin)
    if torn.any():
        edges = _distinct_edges(order[faces], torn)
        raise NotManifoldError(
            f"the mesh is not orientable: its triangles cannot agree across {_listed(edges)}.",
            CUT_REMEDY,
        ).at_edges(edges)
    if is_turned.any():
        warn(
            f"triangles turned over to agree: {is_turned.sum()}.",
            MeshRepairWarning,
        )
        faces = turned_over(faces, is_turned)
        twin = match_sides(faces, n)[0]
    return faces, twin


def _distinct_edges(faces: np.ndarray, is_chosen: np.ndarray) -> np.ndarray:
    """The edges ``(k, 2)`` of chosen half-edges, each once."""
    heads = np.roll(faces, -1, axis=1)
    ends = np.stack([faces.ravel(), heads.ravel()], axis=1)[is_chosen]
    return np.unique(np.sort(ends, axis=1), axis=0)


MAX_LISTED_EDGES = 5
"""Edges that a message names; the error has them all."""


def _listed(edges: np.ndarray) -> str:
    """Edges by their vertices, the first of them if there are many.

    >>> _listed(np.array([[0, 1], [4, 7]]))
    '2 edges (from vertex 0 to 1, 4 to 7)'
    """
    names = [f"{tail} to {head}" for tail, head in edges[:MAX_LISTED_EDGES]]
    if len(edges) == 1:
        return f"the edge from vertex {names[0]}"
    if len(edges) > MAX_LISTED_EDGES:
        names.append("...")
    return f"{len(edges)} edges (from vertex {', '.join(names)})"


@njit(cache=True, nogil=True)
def vertex_normals(points, faces):  # pragma: no cover - compiled
    r"""Normals ``(n, 3)`` of any length: sums over the triangles around each vertex,

    .. math:: \sum \frac{a \times b}{|a|^2\, |b|^2}

    for the edges a and b that leave it, which are exact where the vertices lie on a sphere (Max,
    1999, "Weights for computing vertex normals from facet normals").
    """
    normals = np.zeros((len(points), 3))
    for corners in faces:
        for k in range(3):
            p = points[corners[k]]
            a = points[corners[(k + 1) % 3]] - p
            b = points[corners[(k + 2) % 3]] - p
            square_a = a[0] ** 2 + a[1] ** 2 + a[2] ** 2
            square_b = b[0] ** 2 + b[1] ** 2 + b[2] ** 2
            if square_a > 0.0 and square_b > 0.0:
                for m in range(3):
                    after = (m + 1) % 3
                    before = (m + 2) % 3
                    product = a[after] * b[before] - a[before] * b[after]
                    normals[corners[k], m] += product / square_a / square_b
    return normals
