r"""The intrinsic geometry of a triangle mesh: cotangent weights, vertex areas and transport along edges.

Only the lengths of edges count. Edges are flipped inside the surface until it is Delaunay (Bobenko and Springborn,
2007), so that cotangent weights :math:`w_{ij} = (\cot\alpha + \cot\beta)/2` are not negative. Directions at an interior
vertex are angles that are scaled to sum to :math:`2\pi`; an edge keeps its direction while a vector is transported
along it (Knoeppel et al., 2013; Sharp, Soliman and Crane, 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import NotManifoldError
from ..jit import njit
from .graph import NeighborGraph, symmetric_csr
from .halfedges import oriented_halfedges, vertex_normals
from .known_frames import mesh_frames
from .transport import Connection

SLACK = 1e-9
"""Least excess of two sides over the third, in mean edge lengths: degenerate triangles are opened that much."""

FLAT = 1e-4
"""A mesh is flat if the angle sums of all interior vertices are this close to two pi: its boundary keeps its angles."""


@dataclass(frozen=True, eq=False)
class MeshGeometry:
    """What a bundle keeps of its mesh: oriented ``faces`` (f, 3) in the user's numbers; cotangent ``weights`` (e,) and
    vertex ``areas`` (n,) along the curve; half a ``bound`` of the spectrum of the Laplacian; how many edges lie on the
    ``boundary``, and how many were ``flipped``.
    """

    faces: np.ndarray
    weights: np.ndarray
    areas: np.ndarray
    bound: float
    boundary: int
    flipped: int

    def __str__(self) -> str:
        return f"{len(self.faces)} triangles, {self.boundary} boundary edges, {self.flipped} edges flipped"


@njit(cache=True, nogil=True)
def _next(h):  # pragma: no cover - compiled
    return h + 1 if h % 3 < 2 else h - 2


@njit(cache=True, nogil=True)
def _previous(h):  # pragma: no cover - compiled
    return h - 1 if h % 3 else h + 2


@njit(cache=True, nogil=True)
def _area(a, b, c):  # pragma: no cover - compiled
    """The area of a triangle from its sides, by Kahan's formula: stable for needles."""
    if a < b:
        a, b = b, a
    if b < c:
        b, c = c, b
    if a < b:
        a, b = b, a
    return 0.25 * np.sqrt(max((a + (b + c)) * (c - (a - b)) * (c + (a - b)) * (a + (b - c)), 0.0))


@njit(cache=True, nogil=True)
def _angle(a, b, c):  # pragma: no cover - compiled
    """The angle between sides a and b of a triangle with sides a, b and c."""
    return np.arctan2(4 * _area(a, b, c), a * a + b * b - c * c)


@njit(cache=True, nogil=True)
def _corner(length, h):  # pragma: no cover - compiled
    """The angle at the tail of a half-edge, in its triangle."""
    return _angle(length[h], length[_previous(h)], length[_next(h)])


@njit(cache=True, nogil=True)
def _angle_sums(tails, twin, length, n):  # pragma: no cover - compiled
    """Per half-edge the angle from the first at its tail; per vertex the first, the sum, whether it is interior.

    The last number is a vertex where several fans of triangles meet, or -1.
    """
    start, corners = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    for h in range(len(tails)):
        corners[tails[h]] += 1
        if start[tails[h]] < 0 or twin[h] < 0:  # at the boundary: the first in counterclockwise order
            start[tails[h]] = h
    phi, total, inside, pinched = np.empty(len(tails)), np.zeros(n), np.zeros(n, np.bool_), -1
    for v in range(n):
        h = start[v]
        while h >= 0:
            phi[h] = total[v]
            total[v] += _corner(length, h)
            corners[v] -= 1
            h = twin[_previous(h)]
            if h == start[v]:
                inside[v] = True
                break
        if corners[v]:
            pinched = v
    return phi, start, total, inside, pinched


@njit(cache=True, nogil=True)
def _turn_to_frames(phi, start, points, frames, sense, tails, twin, length):  # pragma: no cover - compiled
    """Count the angles at each vertex from the axis of its frame: the turn that fits the edges in space best."""
    for v in range(len(points)):
        h, x, y = start[v], 0.0, 0.0
        while h >= 0:
            a = b = 0.0
            for k in range(3):
                edge = (points[tails[_next(h)], k] - points[v, k]) / length[h]
                a += edge * frames[v, k, 0]
                b += edge * frames[v, k, 1] * sense[v]
            c, s = np.cos(phi[h]), np.sin(phi[h])
            x += a * c + b * s
            y += b * c - a * s
            h = twin[_previous(h)]
            if h == start[v]:
                break
        turn, h = np.arctan2(y, x), start[v]
        while h >= 0:
            phi[h] += turn
            h = twin[_previous(h)]
            if h == start[v]:
                break


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
def _move(source, to, tails, twin, length, phi):  # pragma: no cover - compiled
    tails[to], twin[to], length[to], phi[to] = source
    if twin[to] >= 0:
        twin[twin[to]] = to


@njit(cache=True, nogil=True)
def _flip(h, tails, twin, length, phi, scale):  # pragma: no cover - compiled
    """Replace the diagonal ab of the quadrilateral a, d, b, c by cd, which becomes half-edge h; False if cd exists."""
    t = twin[h]
    hn, hp, tn, tp = _next(h), _previous(h), _next(t), _previous(t)
    c, d = tails[hp], tails[tp]
    if c == d or _joined(hp, d, tails, twin):
        return False
    ab, bc, ca, ad, db = length[h], length[hn], length[hp], length[tn], length[tp]
    x = ((ca - bc) * (ca + bc) - (ad - db) * (ad + db)) / (2 * ab)  # laid out in the plane, along ab
    cd = np.hypot(x, 2 * (_area(ab, bc, ca) + _area(ab, ad, db)) / ab)
    at_c = phi[hp] + scale[c] * _angle(ca, cd, ad)
    at_d = phi[tp] + scale[d] * _angle(db, cd, bc)
    b_to_c, d_to_b = (tails[hn], twin[hn], bc, phi[hn]), (d, twin[tp], db, phi[tp])
    c_to_a, a_to_d = (c, twin[hp], ca, phi[hp]), (tails[tn], twin[tn], ad, phi[tn])
    _move(d_to_b, hn, tails, twin, length, phi)
    _move(b_to_c, hp, tails, twin, length, phi)
    _move(c_to_a, tn, tails, twin, length, phi)
    _move(a_to_d, tp, tails, twin, length, phi)
    tails[h], length[h], phi[h] = c, cd, at_c
    tails[t], length[t], phi[t] = d, cd, at_d
    return True


@njit(cache=True, nogil=True)
def _make_delaunay(tails, twin, length, phi, scale):  # pragma: no cover - compiled
    """Flip edges until opposite angles sum to at most pi; no flip may join two vertices twice. Counts flips."""
    waiting, stack, flips = np.ones(len(tails), np.bool_), np.arange(len(tails)), 0
    top = len(stack)
    while top:
        top -= 1
        h = stack[top]
        waiting[h] = False
        t = twin[h]
        if t < 0 or (waiting[t] and not flips):
            continue
        if _corner(length, _previous(h)) + _corner(length, _previous(t)) <= np.pi + 1e-10:
            continue
        if _flip(h, tails, twin, length, phi, scale):
            flips += 1
            for side in (_next(h), _previous(h), _next(t), _previous(t)):
                if not waiting[side]:
                    waiting[side], stack[top], top = True, side, top + 1
    return flips


@njit(cache=True, nogil=True)
def _transport(h, tails, twin, length, phi, scale):  # pragma: no cover - compiled
    """The angle of the rotation from the frame at the head of a half-edge to that at its tail."""
    if twin[h] >= 0:
        return phi[h] + np.pi - phi[twin[h]]
    forth = _next(h)
    return phi[h] + np.pi - (phi[forth] + scale[tails[forth]] * _corner(length, forth))


@njit(cache=True, nogil=True)
def _cotangent_weights(tails, twin, length, n):  # pragma: no cover - compiled
    """The weight of each half-edge's edge, and the areas of vertices.

    An edge of the boundary opposite an obtuse angle has a weight -k. With transport along the two other sides, of
    weights x and y, its triangle has no negative energy if k <= x y / (x + y); k is limited to that.
    """
    cotangent, weights, areas = np.empty(len(tails)), np.empty(len(tails)), np.zeros(n)
    for h in range(0, len(tails), 3):
        a, b, c = length[h], length[h + 1], length[h + 2]
        area = _area(a, b, c)
        cotangent[h] = (b * b + c * c - a * a) / (4 * area)
        cotangent[h + 1] = (c * c + a * a - b * b) / (4 * area)
        cotangent[h + 2] = (a * a + b * b - c * c) / (4 * area)
        for k in range(3):
            areas[tails[h + k]] += area / 3
    obtuse = np.zeros(len(tails) // 3, np.bool_)
    for h in range(len(tails)):
        inside = twin[h] >= 0
        weights[h] = max(0.5 * (cotangent[h] + cotangent[twin[h]]), 0.0) if inside else 0.5 * cotangent[h]
        obtuse[h // 3] |= weights[h] < 0
    for h in range(len(tails)):
        if weights[h] < 0:
            x, y = weights[_next(h)], weights[_previous(h)]
            x *= 0.5 if twin[_next(h)] >= 0 and obtuse[twin[_next(h)] // 3] else 1.0  # the other triangle needs it, too
            y *= 0.5 if twin[_previous(h)] >= 0 and obtuse[twin[_previous(h)] // 3] else 1.0
            weights[h] = max(weights[h], -x * y / (x + y)) if x + y > 0 else 0.0
    return weights, areas


@njit(cache=True, nogil=True)
def _edges(tails, twin, length, phi, scale, weights):  # pragma: no cover - compiled
    """Vertex pairs ``(m, 2)``, half-edges and angles of transport of all edges."""
    m = (len(tails) + np.sum(twin < 0)) // 2
    pairs, places, turns, edge = np.empty((m, 2), np.int64), np.empty(m, np.int64), np.empty(m), 0
    for h in range(len(tails)):
        if 0 <= twin[h] < h:
            continue
        pairs[edge], places[edge] = (tails[h], tails[_next(h)]), h
        if weights[h] >= 0:
            turns[edge] = _transport(h, tails, twin, length, phi, scale)
        else:  # along the two other sides
            turns[edge] = -_transport(_next(h), tails, twin, length, phi, scale)
            turns[edge] -= _transport(_previous(h), tails, twin, length, phi, scale)
        edge += 1
    return pairs, places, turns


@njit(cache=True, nogil=True)
def _place_edges(indptr, indices, pairs, turns, weights, sizes, sense, values):  # pragma: no cover - compiled
    """Both directions of every edge in the rows of a graph: weights, lengths, determinants; maps into ``values``."""
    e = len(indices)
    cotangents, distances, det = np.empty(e), np.empty(e), np.empty(e, np.int8)
    for edge in range(len(pairs)):
        c, s = np.cos(turns[edge]), np.sin(turns[edge])
        for side in range(2):
            i, j = pairs[edge, side], pairs[edge, 1 - side]
            place = indptr[i] + np.searchsorted(indices[indptr[i] : indptr[i + 1]], j)
            cotangents[place], distances[place] = weights[edge], sizes[edge]
            det[place] = sense[i] * sense[j]
            values[place, 0], values[place, 1] = c, sense[i] * (s if side == 0 else -s)
    return cotangents, distances, det


@njit(cache=True, nogil=True)
def _edge_lengths(points, tails):  # pragma: no cover - compiled
    """Lengths of all half-edges, their mean, and the least excess of two sides of a triangle over the third."""
    lengths, excess = np.empty(len(tails)), np.inf
    for h in range(len(tails)):
        a, b = points[tails[h]], points[tails[_next(h)]]
        lengths[h] = np.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2)
        if h % 3 == 2:
            sides = lengths[h - 2 : h + 1]
            excess = min(excess, sides.sum() - 2 * sides.max())
    return lengths, lengths.mean(), excess


def mesh_geometry(
    points: np.ndarray, faces: np.ndarray, order: np.ndarray, frames: np.ndarray | None, dtype: type = np.float64
) -> tuple[NeighborGraph, Connection, np.ndarray, MeshGeometry]:
    """Edges, transports, frames ``(n, 3, 2)`` and weights of a mesh.

    Vertices and faces are numbered along the curve, and ``order`` gives the user's numbers. Frames that are not given
    are perpendicular to the area-weighted normals.
    """
    faces, twin = oriented_halfedges(faces, order)
    n, tails, sense = len(points), faces.reshape(-1).copy(), np.ones(len(points), np.int8)
    if frames is None:
        frames = mesh_frames(points, faces, order)
    else:
        outward = np.cross(frames[:, :, 0], frames[:, :, 1]) * vertex_normals(points, faces)
        sense[outward.sum(axis=1) < 0] = -1
    length, mean, excess = _edge_lengths(points, tails)
    length += max(0.0, SLACK * mean - excess)
    phi, start, total, inside, pinched = _angle_sums(tails, twin, length, n)
    if pinched >= 0:
        raise NotManifoldError(
            f"at vertex {order[pinched]} several parts of the mesh meet in a point, so it has no tangent plane there. "
            "Duplicate the vertex, or use the points alone: TangentBundle.from_points(vertices)."
        )
    flat = np.abs(total[inside] - 2 * np.pi).max(initial=0.0) < FLAT
    scale = np.where(inside, 2 * np.pi, total if flat else np.pi) / total
    phi *= scale[tails]
    _turn_to_frames(phi, start, points, frames, sense, tails, twin, length)
    boundary, flipped = int((twin < 0).sum()), _make_delaunay(tails, twin, length, phi, scale)
    weights, areas = _cotangent_weights(tails, twin, length, n)
    pairs, places, turns = _edges(tails, twin, length, phi, scale, weights)
    indptr, indices = symmetric_csr(pairs, n)
    values: np.ndarray = np.empty((len(indices), 2), dtype)
    cotangents, distances, det = _place_edges(
        indptr, indices, pairs, turns, weights[places], length[places], sense, values
    )
    bound = float((np.add.reduceat(np.maximum(cotangents, 0.0), indptr[:-1]) / areas).max())  # by Gershgorin's circles
    geometry = MeshGeometry(order[faces], cotangents, areas, bound, boundary, flipped)
    return NeighborGraph(indptr, indices, distances), Connection(values, det, 2), frames, geometry
