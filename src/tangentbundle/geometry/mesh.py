r"""The intrinsic geometry of a triangle mesh: cotangent weights, vertex areas and transport along
edges.

Only the lengths of edges count. Edges are flipped inside the surface until it is Delaunay (Bobenko
and Springborn, 2007), so that cotangent weights :math:`w_{ij} = (\cot\alpha + \cot\beta)/2` are not
negative. Directions at an interior vertex are angles that are scaled to sum to :math:`2\pi`; an
edge keeps its direction while a vector is transported along it (Knoeppel et al., 2013; Sharp,
Soliman and Crane, 2019). At the boundary angles are not scaled: their sum is that of the tangent
directions which point into the surface, and a rim that turns, or is jagged, has no curvature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from ..errors import NotManifoldError
from .graph import NeighborGraph
from .halfedges import counting_sort, oriented_halfedges, vertex_normals
from .known_frames import mesh_frames
from .transport import Connection

SLACK = 1e-9
"""Least excess of two sides over the third, in mean edge lengths: degenerate triangles are opened
that much."""


@dataclass(frozen=True, eq=False)
class MeshGeometry:
    """What a bundle keeps of its mesh: oriented ``faces`` (f, 3) in the user's numbers; cotangent
    ``weights`` (e,) and vertex ``areas`` (n,) along the curve; how many edges lie on the
    ``boundary``, and how many were ``flipped``.
    """

    faces: np.ndarray
    weights: np.ndarray
    areas: np.ndarray
    boundary: int
    flipped: int

    def __str__(self) -> str:
        return (
            f"{len(self.faces)} triangles, {self.boundary} boundary edges, {self.flipped} "
            "edges flipped"
        )


@njit(cache=True, nogil=True)
def _next(h):  # pragma: no cover - compiled
    return h + 1 if h % 3 < 2 else h - 2


@njit(cache=True, nogil=True)
def _previous(h):  # pragma: no cover - compiled
    return h - 1 if h % 3 else h + 2


@njit(cache=True, nogil=True)
def _area(a, b, c):  # pragma: no cover - compiled
    """The area of a triangle (or of many) from its sides, by Kahan's formula: stable for
    needles."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    long, middle, short = (
        np.maximum(high, c),
        np.maximum(low, np.minimum(high, c)),
        np.minimum(low, c),
    )
    gap = long - middle
    return 0.25 * np.sqrt(
        np.maximum(
            (long + (middle + short)) * (short - gap) * (short + gap) * (long + (middle - short)),
            0.0,
        )
    )


@njit(cache=True, nogil=True)
def _angle(a, b, c):  # pragma: no cover - compiled
    """The angle between sides a and b of a triangle with sides a, b and c."""
    return np.arctan2(4 * _area(a, b, c), a * a + b * b - c * c)


@njit(cache=True, nogil=True)
def _unit(angle):  # pragma: no cover - compiled
    return complex(np.cos(angle), np.sin(angle))


def _corners(length: np.ndarray) -> np.ndarray:
    """The angle at the tail of each half-edge, in its triangle."""
    square, area = (length**2).reshape(-1, 3), _area(length[::3], length[1::3], length[2::3])
    return np.arctan2(
        4 * area[:, None], square + np.roll(square, 1, axis=1) - np.roll(square, -1, axis=1)
    ).ravel()


@njit(cache=True, nogil=True)
def _edge_lengths(points, tails):  # pragma: no cover - compiled
    """Lengths of all half-edges, all longer by as much as opens triangles that have no area."""
    length, excess = np.empty(len(tails)), np.inf
    for h in range(len(tails)):
        a, b = points[tails[h]], points[tails[_next(h)]]
        length[h] = np.sqrt((b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2 + (b[2] - a[2]) ** 2)
    for h in range(len(tails)):
        excess = min(excess, length[_next(h)] + length[_previous(h)] - length[h])
    return length + max(0.0, SLACK * length.mean() - excess)


@njit(cache=True, nogil=True)
def _angle_sums(tails, twin, corner, n):  # pragma: no cover - compiled
    """Per half-edge the angle from the first at its tail; per vertex the sum, and whether it is
    interior.

    The last number is a vertex where several fans of triangles meet, or -1.
    """
    start, corners = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    for h in range(len(tails)):
        corners[tails[h]] += 1
        if (
            start[tails[h]] < 0 or twin[h] < 0
        ):  # at the boundary: the first in counterclockwise order
            start[tails[h]] = h
    phi, total, inside = np.empty(len(tails)), np.zeros(n), np.zeros(n, np.bool_)
    for v in range(n):
        h = start[v]
        while h >= 0 and not inside[v]:
            phi[h] = total[v]
            total[v] += corner[h]
            corners[v] -= 1
            h = twin[_previous(h)]
            inside[v] = h == start[v]
        if corners[v]:
            return phi, total, inside, v
    return phi, total, inside, -1


@njit(cache=True, nogil=True, error_model="numpy")
def _directions(points, frames, sense, tails, length, phi, scale):  # pragma: no cover - compiled
    """Half-edges as unit complex numbers at their tails, turned at each vertex to fit its edges in
    space best."""
    direction, axis = np.empty(len(tails), np.complex128), np.zeros(len(points), np.complex128)
    for h in range(len(tails)):
        i, j, x, y = tails[h], tails[_next(h)], 0.0, 0.0
        for k in range(3):
            x += (points[j, k] - points[i, k]) * frames[i, k, 0]
            y += (points[j, k] - points[i, k]) * frames[i, k, 1]
        direction[h] = _unit(phi[h] * scale[i])
        axis[i] += complex(x / length[h], y * sense[i] / length[h]) * direction[h].conjugate()
    for i in range(len(axis)):
        axis[i] = axis[i] / abs(axis[i]) if axis[i] else 1.0
    return direction * axis[tails]


@njit(cache=True, nogil=True)
def _joined(h, vertex, tails, twin):  # pragma: no cover - compiled
    """Whether an edge joins the tail of h to another vertex already."""
    g = h
    while g >= 0:  # counterclockwise, to the boundary or all around
        if tails[_next(g)] == vertex or tails[_previous(g)] == vertex:
            return True
        g = twin[_previous(g)]
        if g == h:
            return False
    g = twin[h]
    while g >= 0:
        g = _next(g)
        if tails[_next(g)] == vertex:
            return True
        g = twin[g]
    return False


@njit(cache=True, nogil=True)
def _move(source, to, tails, twin, length, direction):  # pragma: no cover - compiled
    tails[to], twin[to], length[to], direction[to] = source
    if twin[to] >= 0:
        twin[twin[to]] = to


@njit(cache=True, nogil=True, error_model="numpy")
def _flip(h, tails, twin, length, direction, scale):  # pragma: no cover - compiled
    """Replace the diagonal ab of the quadrilateral a, d, b, c by cd, which becomes half-edge h;
    False if cd exists."""
    t = twin[h]
    hn, hp, tn, tp = _next(h), _previous(h), _next(t), _previous(t)
    c, d = tails[hp], tails[tp]
    if c == d or _joined(hp, d, tails, twin):
        return False
    ab, bc, ca, ad, db = length[h], length[hn], length[hp], length[tn], length[tp]
    x = ((ca - bc) * (ca + bc) - (ad - db) * (ad + db)) / (
        2 * ab
    )  # laid out in the plane, along ab
    cd = np.hypot(x, 2 * (_area(ab, bc, ca) + _area(ab, ad, db)) / ab)
    at_c = direction[hp] * _unit(scale[c] * _angle(ca, cd, ad))
    at_d = direction[tp] * _unit(scale[d] * _angle(db, cd, bc))
    b_to_c, d_to_b = (tails[hn], twin[hn], bc, direction[hn]), (d, twin[tp], db, direction[tp])
    c_to_a, a_to_d = (c, twin[hp], ca, direction[hp]), (tails[tn], twin[tn], ad, direction[tn])
    _move(d_to_b, hn, tails, twin, length, direction)
    _move(b_to_c, hp, tails, twin, length, direction)
    _move(c_to_a, tn, tails, twin, length, direction)
    _move(a_to_d, tp, tails, twin, length, direction)
    tails[h], length[h], direction[h] = c, cd, at_c
    tails[t], length[t], direction[t] = d, cd, at_d
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _opposite(length, h):  # pragma: no cover - compiled
    """Cosine and sine of the angle opposite a half-edge."""
    a, b, c = length[h], length[_next(h)], length[_previous(h)]
    return (b * b + c * c - a * a) / (2 * b * c), 2 * _area(a, b, c) / (b * c)


@njit(cache=True, nogil=True, error_model="numpy")
def _make_delaunay(tails, twin, length, direction, scale):  # pragma: no cover - compiled
    """Flip edges until opposite angles sum to at most pi; no flip may join two vertices twice.
    Counts flips."""
    waiting, stack, flips = np.ones(len(tails), np.bool_), np.arange(len(tails)), 0
    top = len(stack)
    while top:
        top -= 1
        h = stack[top]
        waiting[h] = False
        t = twin[h]
        if t < 0 or waiting[t]:  # the twin will be looked at
            continue
        (c, s), (d, r) = _opposite(length, h), _opposite(length, t)
        if (
            (c < 0 or d < 0)
            and s * d + c * r < -1e-10
            and _flip(h, tails, twin, length, direction, scale)
        ):
            flips += 1
            for side in (_next(h), _previous(h), _next(t), _previous(t)):
                if not waiting[side]:
                    waiting[side], stack[top], top = True, side, top + 1
    return flips


@njit(cache=True, nogil=True, error_model="numpy")
def _cotangent_weights(tails, twin, length, n):  # pragma: no cover - compiled
    """The weight of each half-edge's edge, and the areas of the vertices.

    An edge of the boundary opposite an obtuse angle has a weight -k. With transport along the two
    other sides, of weights x and y, its triangle has no negative energy if k <= x y / (x + y); k is
    limited to that.
    """
    half, weights, areas = (
        np.empty(len(tails)),
        np.empty(len(tails)),
        np.zeros(n),
    )  # half: of a cotangent
    obtuse = np.zeros(len(tails) // 3 + 1, np.int64)  # the last for no triangle, -1
    for h in range(len(tails)):
        if h % 3 == 0:
            area = _area(length[h], length[h + 1], length[h + 2])
        areas[tails[h]] += area / 3
        a, b, c = length[h], length[_next(h)], length[_previous(h)]
        half[h] = (b * b + c * c - a * a) / (8 * area)
    for h in range(len(tails)):
        weights[h] = half[h] if twin[h] < 0 else max(half[h] + half[twin[h]], 0.0)
        obtuse[h // 3] |= weights[h] < 0
    for e in np.flatnonzero(weights < 0):
        a, b = (
            _next(e),
            _previous(e),
        )  # with half of their weights if the other triangle needs them, too
        x, y = weights[a] / (1 + obtuse[twin[a] // 3]), weights[b] / (1 + obtuse[twin[b] // 3])
        weights[e] = max(weights[e], -x * y / (x + y) if x + y > 0 else 0.0)
    return weights, areas


@njit(cache=True, nogil=True)
def _transports(tails, twin, length, direction, scale, weights):  # pragma: no cover - compiled
    """The rotation from the frame at the head of each half-edge to that at its tail, as a unit
    complex number."""
    turns = np.empty_like(direction)
    for h in range(len(tails)):
        after = _next(h)
        if twin[h] >= 0:  # the inverse of that of the twin to the last bit
            back = direction[twin[h]]
        else:
            corner = _angle(length[h], length[after], length[_previous(h)])
            back = direction[after] * _unit(scale[tails[after]] * corner)
        turns[h] = -direction[h] * back.conjugate()
    for e in np.flatnonzero(weights < 0):  # along the two other sides
        turns[e] = (turns[_next(e)] * turns[_previous(e)]).conjugate()
    return turns


def mesh_geometry(
    points: np.ndarray,
    faces: np.ndarray,
    order: np.ndarray,
    frames: np.ndarray | None,
    dtype: type = np.float64,
) -> tuple[NeighborGraph, Connection, np.ndarray, MeshGeometry]:
    """Edges, transports, frames ``(n, 3, 2)`` and weights of a mesh.

    Vertices and faces are numbered along the curve, and ``order`` gives the user's numbers. Frames
    that are not given are perpendicular to the area-weighted normals.
    """
    faces, twin = oriented_halfedges(faces, order)
    n, tails, sense = len(points), faces.reshape(-1).copy(), np.ones(len(points))
    if frames is None:
        frames = mesh_frames(points, faces, order)
    else:  # those that look at the surface from the other side have the sense -1
        frames = np.ascontiguousarray(frames)
        outward = np.cross(frames[:, :, 0], frames[:, :, 1]) * vertex_normals(points, faces)
        sense[outward.sum(axis=1) < 0] = -1
    length = _edge_lengths(points, tails)
    phi, total, inside, pinched = _angle_sums(tails, twin, _corners(length), n)
    if pinched >= 0:
        raise NotManifoldError(
            f"at vertex {order[pinched]} several parts of the mesh meet in a point, so it has no "
            "tangent plane there.",
            "Duplicate the vertex, or use the points alone: TangentBundle.from_points(vertices).",
        )
    scale = np.where(inside, 2 * np.pi / total, 1.0)
    direction = _directions(points, frames, sense, tails, length, phi, scale)
    boundary, flipped = int((twin < 0).sum()), _make_delaunay(tails, twin, length, direction, scale)
    weights, areas = _cotangent_weights(tails, twin, length, n)
    turns = _transports(tails, twin, length, direction, scale, weights)
    graph, connection, cotangents = _sorted_edges(tails, twin, length, turns, weights, sense, dtype)
    return (
        graph,
        connection,
        frames,
        MeshGeometry(order[faces], cotangents, areas, boundary, flipped),
    )


def _sorted_edges(
    tails, twin, length, turns, weights, sense, dtype
) -> tuple[NeighborGraph, Connection, np.ndarray]:
    """Graph, connection and weights from half-edges; those of the boundary count in both
    directions."""
    rim, heads, n = (
        np.flatnonzero(twin < 0),
        np.roll(tails.reshape(-1, 3), -1, axis=1).ravel(),
        len(sense),
    )
    rows, cols = np.append(tails, heads[rim]), np.append(heads, tails[rim])
    place = counting_sort(rows, counting_sort(cols, np.arange(len(rows)), n), n)
    half = np.append(np.arange(len(tails)), rim)[place]
    turns, left, right = (
        np.append(turns, turns[rim].conj())[place],
        sense[rows[place]],
        sense[cols[place]],
    )
    values = np.stack([turns.real, left * turns.imag], axis=1).astype(dtype, copy=False)
    indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=n)))
    graph = NeighborGraph(indptr, cols[place].astype(np.int32), length[half])
    return graph, Connection(values, (left * right).astype(np.int8), 2), weights[half]
