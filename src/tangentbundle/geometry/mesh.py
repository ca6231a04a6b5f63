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
import torch
from numba import njit
from torch import Tensor

from ..errors import NotManifoldError
from .cloud import PointCloud
from .graph import NeighborGraph
from .halfedges import CUT_REMEDY, counting_sort, oriented_halfedges, vertex_normals
from .known_frames import mesh_frames
from .transport import Connection

SLACK = 1e-9
"""Least excess of two sides over the third, in mean edge lengths: degenerate triangles are opened
that much."""


@dataclass(frozen=True, eq=False)
class IntrinsicTriangles:
    """The Delaunay triangles of a mesh, in the user's order: ``faces`` (f, 3); the ``curvature``
    (f,) of each, the angle by which transport around it turns vectors; and the ``senses`` (n,) of
    the frames, -1 where a frame sees the triangles from behind.

    On a closed mesh the curvatures sum to two pi times the Euler characteristic.
    """

    faces: np.ndarray
    curvature: np.ndarray
    senses: np.ndarray


@dataclass(frozen=True, eq=False)
class Triangulation:
    """What a bundle says of its mesh: ``faces`` (f, 3) in the user's numbers, oriented where they
    form a surface; how many edges lie on the ``boundary``, and how many were ``flipped``."""

    faces: np.ndarray
    boundary: int
    flipped: int

    @property
    def is_on_boundary(self) -> Tensor:
        """Whether each of the user's vertices lies on the boundary, ``(n,)``."""
        corners = self.faces
        edges = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
        n = int(corners.max()) + 1
        forward = edges[:, 0] * n + edges[:, 1]
        backward = edges[:, 1] * n + edges[:, 0]
        is_single = ~np.isin(forward, backward)
        on_boundary = np.zeros(n, bool)
        on_boundary[edges[is_single]] = True
        return torch.from_numpy(on_boundary)

    def __str__(self) -> str:
        return (
            f"{len(self.faces)} triangles, {self.boundary} boundary edges, {self.flipped} "
            "edges flipped"
        )


@dataclass(frozen=True, eq=False)
class IntrinsicMesh:
    """The geometry of a mesh along the curve: the ``graph`` of its edges and the transport along
    them, tangent ``frames`` (n, 3, 2), the weights ``cotangents`` (e,) of the edges and the
    ``areas`` (n,) of the vertices."""

    graph: NeighborGraph
    connection: Connection
    frames: Tensor
    cotangents: Tensor
    areas: Tensor
    triangulation: Triangulation
    intrinsic: IntrinsicTriangles


@njit(cache=True, nogil=True)
def _next(h):  # pragma: no cover - compiled
    return h + 1 if h % 3 < 2 else h - 2


@njit(cache=True, nogil=True)
def _previous(h):  # pragma: no cover - compiled
    return h - 1 if h % 3 else h + 2


@njit(cache=True, nogil=True)
def triangle_area(a, b, c):  # pragma: no cover - compiled
    """The area of a triangle (or of many) from its sides, by Kahan's formula: stable for
    needles."""
    lower = np.minimum(a, b)
    upper = np.maximum(a, b)
    long = np.maximum(upper, c)
    middle = np.maximum(lower, np.minimum(upper, c))
    short = np.minimum(lower, c)
    gap = long - middle
    product = (long + (middle + short)) * (short - gap) * (short + gap) * (long + (middle - short))
    return 0.25 * np.sqrt(np.maximum(product, 0.0))


@njit(cache=True, nogil=True)
def _angle(a, b, c):  # pragma: no cover - compiled
    """The angle between sides a and b of a triangle with sides a, b and c."""
    return np.arctan2(4 * triangle_area(a, b, c), a * a + b * b - c * c)


@njit(cache=True, nogil=True)
def _unit(angle):  # pragma: no cover - compiled
    return complex(np.cos(angle), np.sin(angle))


def _corners(length: np.ndarray) -> np.ndarray:
    """The angle at the tail of each half-edge, in its triangle."""
    squares = (length**2).reshape(-1, 3)
    areas = triangle_area(length[::3], length[1::3], length[2::3])
    cosines = squares + np.roll(squares, 1, axis=1) - np.roll(squares, -1, axis=1)
    return np.arctan2(4 * areas[:, None], cosines).ravel()


@njit(cache=True, nogil=True)
def _edge_lengths(points, tails):  # pragma: no cover - compiled
    """Lengths of all half-edges, all longer by as much as opens triangles that have no area."""
    length = np.empty(len(tails))
    excess = np.inf
    for h in range(len(tails)):
        a = points[tails[h]]
        b = points[tails[_next(h)]]
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
    start = np.full(n, -1, np.int64)
    corners = np.zeros(n, np.int64)
    for h in range(len(tails)):
        corners[tails[h]] += 1
        # at the boundary: the first in counterclockwise order
        if start[tails[h]] < 0 or twin[h] < 0:
            start[tails[h]] = h
    phi = np.empty(len(tails))
    total = np.zeros(n)
    inside = np.zeros(n, np.bool_)
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
    direction = np.empty(len(tails), np.complex128)
    axis = np.zeros(len(points), np.complex128)
    for h in range(len(tails)):
        i = tails[h]
        j = tails[_next(h)]
        x = 0.0
        y = 0.0
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
def _move(side, to, tails, twin, length, direction):  # pragma: no cover - compiled
    """Make the half-edge ``to`` one with the tail, twin, length and direction of ``side``."""
    tails[to] = side[0]
    twin[to] = side[1]
    length[to] = side[2]
    direction[to] = side[3]
    if twin[to] >= 0:
        twin[twin[to]] = to


@njit(cache=True, nogil=True, error_model="numpy")
def other_diagonal(ab, bc, ca, ad, db):  # pragma: no cover - compiled
    """The length of cd in the quadrilateral of the triangles abc and bad, laid out in the plane
    along ab."""
    along = ((ca - bc) * (ca + bc) - (ad - db) * (ad + db)) / (2 * ab)
    across = 2 * (triangle_area(ab, bc, ca) + triangle_area(ab, ad, db)) / ab
    return np.hypot(along, across)


@njit(cache=True, nogil=True, error_model="numpy")
def _flip(h, tails, twin, length, direction, scale):  # pragma: no cover - compiled
    """Replace the diagonal ab of the quadrilateral a, d, b, c by cd, which becomes half-edge h;
    False if cd exists."""
    t = twin[h]
    h_next = _next(h)
    h_previous = _previous(h)
    t_next = _next(t)
    t_previous = _previous(t)
    c = tails[h_previous]
    d = tails[t_previous]
    if c == d or _joined(h_previous, d, tails, twin):
        return False
    ab = length[h]
    bc = length[h_next]
    ca = length[h_previous]
    ad = length[t_next]
    db = length[t_previous]
    cd = other_diagonal(ab, bc, ca, ad, db)
    at_c = direction[h_previous] * _unit(scale[c] * _angle(ca, cd, ad))
    at_d = direction[t_previous] * _unit(scale[d] * _angle(db, cd, bc))
    b_to_c = (tails[h_next], twin[h_next], bc, direction[h_next])
    d_to_b = (d, twin[t_previous], db, direction[t_previous])
    c_to_a = (c, twin[h_previous], ca, direction[h_previous])
    a_to_d = (tails[t_next], twin[t_next], ad, direction[t_next])
    _move(d_to_b, h_next, tails, twin, length, direction)
    _move(b_to_c, h_previous, tails, twin, length, direction)
    _move(c_to_a, t_next, tails, twin, length, direction)
    _move(a_to_d, t_previous, tails, twin, length, direction)
    tails[h] = c
    length[h] = cd
    direction[h] = at_c
    tails[t] = d
    length[t] = cd
    direction[t] = at_d
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _opposite(length, h):  # pragma: no cover - compiled
    """Cosine and sine of the angle opposite a half-edge."""
    a = length[h]
    b = length[_next(h)]
    c = length[_previous(h)]
    cosine = (b * b + c * c - a * a) / (2 * b * c)
    sine = 2 * triangle_area(a, b, c) / (b * c)
    return cosine, sine


@njit(cache=True, nogil=True, error_model="numpy")
def _make_delaunay(tails, twin, length, direction, scale):  # pragma: no cover - compiled
    """Flip edges until opposite angles sum to at most pi; no flip may join two vertices twice.
    Counts flips."""
    waiting = np.ones(len(tails), np.bool_)
    stack = np.arange(len(tails))
    top = len(stack)
    flips = 0
    while top:
        top -= 1
        h = stack[top]
        waiting[h] = False
        t = twin[h]
        if t < 0 or waiting[t]:  # the twin will be looked at
            continue
        cos_h, sin_h = _opposite(length, h)
        cos_t, sin_t = _opposite(length, t)
        is_obtuse = cos_h < 0 or cos_t < 0
        exceeds_pi = is_obtuse and sin_h * cos_t + cos_h * sin_t < -1e-10
        if exceeds_pi and _flip(h, tails, twin, length, direction, scale):
            flips += 1
            for side in (_next(h), _previous(h), _next(t), _previous(t)):
                if not waiting[side]:
                    waiting[side] = True
                    stack[top] = side
                    top += 1
    return flips


@njit(cache=True, nogil=True, error_model="numpy")
def _half_cotangents(tails, length, n):  # pragma: no cover - compiled
    """Half the cotangent opposite each half-edge, and the areas of the vertices."""
    half_cotangents = np.empty(len(tails))
    areas = np.zeros(n)
    for h in range(len(tails)):
        if h % 3 == 0:
            area = triangle_area(length[h], length[h + 1], length[h + 2])
        areas[tails[h]] += area / 3
        a = length[h]
        b = length[_next(h)]
        c = length[_previous(h)]
        half_cotangents[h] = (b * b + c * c - a * a) / (8 * area)
    return half_cotangents, areas


@njit(cache=True, nogil=True)
def _edge_weights(half_cotangents, twin):  # pragma: no cover - compiled
    """The weight of each half-edge's edge, negative only at the boundary."""
    weights = np.empty(len(twin))
    for h in range(len(twin)):
        if twin[h] < 0:
            weights[h] = half_cotangents[h]
        else:
            weights[h] = max(half_cotangents[h] + half_cotangents[twin[h]], 0.0)
    return weights


@njit(cache=True, nogil=True)
def _flat_sides(half_cotangents, twin, length):  # pragma: no cover - compiled
    """Half-edges opposite obtuse angles whose triangles must be flat, from the shortest to the
    longest.

    The energy of a triangle with an obtuse angle has a negative weight, and is not negative if its
    transports agree: if that along its longest side is that along the two others. This is needed at
    boundaries, where nothing balances the weight, and across the other sides of such a triangle if
    these are opposite obtuse angles in turn.
    """
    is_flat = np.zeros(len(twin), np.bool_)
    stack = np.flatnonzero((twin < 0) & (half_cotangents < 0))
    is_flat[stack] = True
    count = len(stack)
    flat = np.empty(len(twin), np.int64)
    flat[:count] = stack
    at = 0
    while at < count:
        for side in (_next(flat[at]), _previous(flat[at])):
            across = twin[side]
            if across >= 0 and half_cotangents[across] < 0 and not is_flat[across]:
                is_flat[across] = True
                flat[count] = across
                count += 1
        at += 1
    flat = flat[:count]
    return flat[np.argsort(length[flat])]


@njit(cache=True, nogil=True)
def _transports(tails, twin, length, direction, scale, flat):  # pragma: no cover - compiled
    """The rotation from the frame at the head of each half-edge to that at its tail, as a unit
    complex number; along ``flat`` half-edges, that along the two other sides of their triangle."""
    turns = np.empty_like(direction)
    for h in range(len(tails)):
        after = _next(h)
        if twin[h] >= 0:  # the inverse of that of the twin to the last bit
            back = direction[twin[h]]
        else:
            corner = _angle(length[h], length[after], length[_previous(h)])
            back = direction[after] * _unit(scale[tails[after]] * corner)
        turns[h] = -direction[h] * back.conjugate()
    for h in flat:  # the other sides are shorter
        turns[h] = (turns[_next(h)] * turns[_previous(h)]).conjugate()
        if twin[h] >= 0:
            turns[twin[h]] = turns[h].conjugate()
    return turns


def _curvatures(scaled_angles: np.ndarray, flat: np.ndarray, twin: np.ndarray) -> np.ndarray:
    """The angle by which transport around each triangle turns vectors, ``(f,)``: the excess of its
    scaled angles over pi, or what triangles that were made flat passed on to it."""
    curvature = scaled_angles.reshape(-1, 3).sum(axis=1) - np.pi
    for h in flat:
        if twin[h] >= 0:
            curvature[twin[h] // 3] += curvature[h // 3]
        curvature[h // 3] = 0.0
    return curvature


def intrinsic_mesh(
    cloud: PointCloud, faces: np.ndarray, frames: Tensor | None, dtype: torch.dtype
) -> IntrinsicMesh:
    """The geometry of the mesh of triangles ``faces`` (f, 3) in the user's numbers.

    ``frames`` (n, 3, 2) are along the curve; those that are not given are perpendicular to the
    area-weighted normals. Transports have the precision ``dtype``.
    """
    points = cloud.points.numpy()
    numbers = cloud.curve_order.numpy()
    n = len(points)
    along_curve = np.ascontiguousarray(np.argsort(numbers)[faces])
    oriented, twin = oriented_halfedges(along_curve, numbers)
    if frames is None:
        bases = mesh_frames(points, oriented, numbers)
        sense = np.ones(n)
    else:
        bases = frames.contiguous().numpy()
        sense = _senses(bases, vertex_normals(points, oriented))
    tails = oriented.reshape(-1).copy()
    length = _edge_lengths(points, tails)
    phi, total, inside, pinched = _angle_sums(tails, twin, _corners(length), n)
    if pinched >= 0:
        raise NotManifoldError(
            f"at vertex {numbers[pinched]} several parts of the mesh meet in a point, so it has no "
            "tangent plane there.",
            CUT_REMEDY,
        )
    scale = np.where(inside, 2 * np.pi / total, 1.0)
    direction = _directions(points, bases, sense, tails, length, phi, scale)
    num_boundary = int((twin < 0).sum())
    num_flips = _make_delaunay(tails, twin, length, direction, scale)
    half_cotangents, areas = _half_cotangents(tails, length, n)
    weights = _edge_weights(half_cotangents, twin)
    flat = _flat_sides(half_cotangents, twin, length)
    turns = _transports(tails, twin, length, direction, scale, flat)
    edges = _SortedEdges.of(tails, twin, n)
    return IntrinsicMesh(
        graph=edges.graph(length),
        connection=edges.connection(turns, sense, dtype),
        frames=torch.from_numpy(bases),
        cotangents=torch.from_numpy(weights[edges.halfedges]),
        areas=torch.from_numpy(areas),
        triangulation=Triangulation(
            faces=numbers[oriented],
            boundary=num_boundary,
            flipped=num_flips,
        ),
        intrinsic=IntrinsicTriangles(
            faces=numbers[tails.reshape(-1, 3)],
            curvature=_curvatures(_corners(length) * scale[tails], flat, twin),
            senses=sense[np.argsort(numbers)],
        ),
    )


def _senses(frames: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """-1 where frames ``(n, 3, 2)`` look at the surface from the other side than its normals, 1
    elsewhere."""
    heights = (np.cross(frames[:, :, 0], frames[:, :, 1]) * normals).sum(axis=1)
    return np.where(heights < 0, -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class _SortedEdges:
    """The directed edges of a mesh, sorted by their ends: those of the boundary, which have one
    half-edge, count in both directions.

    Attributes: ``rows`` and ``columns`` (e,); ``halfedges`` (e,), the half-edge of each, and
    ``is_reversed`` (e,), whether it runs the other way.
    """

    num_points: int
    rows: np.ndarray
    columns: np.ndarray
    halfedges: np.ndarray
    is_reversed: np.ndarray

    @classmethod
    def of(cls, tails: np.ndarray, twin: np.ndarray, n: int) -> _SortedEdges:
        """Those of half-edges between n points."""
        heads = np.roll(tails.reshape(-1, 3), -1, axis=1).ravel()
        boundary = np.flatnonzero(twin < 0)
        rows = np.append(tails, heads[boundary])
        columns = np.append(heads, tails[boundary])
        by_column = counting_sort(columns, np.arange(len(rows)), n)
        edges = counting_sort(rows, by_column, n)
        return cls(
            num_points=n,
            rows=rows[edges],
            columns=columns[edges],
            halfedges=np.append(np.arange(len(tails)), boundary)[edges],
            is_reversed=edges >= len(tails),
        )

    def graph(self, length: np.ndarray) -> NeighborGraph:
        """The graph of the edges, from the lengths of the half-edges."""
        degrees = np.bincount(self.rows, minlength=self.num_points)
        return NeighborGraph(
            indptr=torch.from_numpy(np.append(0, np.cumsum(degrees))),
            indices=torch.from_numpy(self.columns.astype(np.int32)),
            distances=torch.from_numpy(length[self.halfedges]),
        )

    def connection(self, turns: np.ndarray, sense: np.ndarray, dtype: torch.dtype) -> Connection:
        """The transport along the edges, from that along the half-edges ``turns``; frames of the
        ``sense`` (n,) -1 are mirrored."""
        forward = turns[self.halfedges]
        rotations = np.where(self.is_reversed, forward.conj(), forward)
        left = sense[self.rows]
        right = sense[self.columns]
        values = np.stack([rotations.real, left * rotations.imag], axis=1)
        det = (left * right).astype(np.int8)
        return Connection(
            values=torch.from_numpy(values).to(dtype), det=torch.from_numpy(det), rank=2
        )
