r"""The Laplacian of functions on any triangles: the tufted cover of Sharp and Crane (2020).

Triangles need not form a surface. Each is taken twice, as a front and a back that look to opposite
sides. Around an edge the triangles are sorted by angle, and each side is glued to the side that
faces it: the edge of a surface joins two fronts and two backs, an edge of the boundary a triangle's
front to its own back, an edge with k triangles k pairs of sides. The result, the *tufted cover*, is
oriented and has no boundary, so that its edges can be flipped until all cotangent weights are
:math:`w_{ij} = (\cot\alpha + \cot\beta)/2 \ge 0`. Vertices stay those of the mesh, and weights and
areas are halved, as every triangle counts twice.

Before that all edges are lengthened by as much as opens every triangle a little (intrinsic
mollification), so that cotangents are finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..errors import InvalidInputError, MeshRepairWarning, warn
from .cloud import PointCloud
from .graph import NeighborGraph
from .mesh import Triangulation, other_diagonal, triangle_area

MOLLIFY_FACTOR = 1e-5
"""Least excess of two sides of a triangle over the third, in mean edge lengths (Sharp and Crane,
2020)."""

DELAUNAY_TOLERANCE = 1e-6
"""Edges with weights below minus that are flipped: four corners on a circle, as in grids, keep
their diagonal whatever the rounding errors of the coordinates."""

MAX_FLIPS = 1000
"""Most flips for each edge: rounding errors could flip some edges for ever."""

ISOLATED_SHARE = 1e-3
"""The area of vertices in no triangle, as a share of the least of others: a mass must be positive,
and these vertices should not count. It is that of the library robust_laplacian."""


@dataclass(frozen=True, eq=False)
class TuftedMesh:
    """The intrinsic Delaunay triangulation of the tufted cover, along the curve: the ``graph`` of
    its edges, their weights ``cotangents`` (e,), none of them negative, and the ``areas`` (n,) of
    the vertices."""

    graph: NeighborGraph
    cotangents: Tensor
    areas: Tensor
    triangulation: Triangulation


@dataclass(frozen=True, eq=False)
class Cover:
    """Half-edges of the tufted cover: the vertex each comes from, the one ``after`` it in its
    triangle, the ``twin`` it is glued to, and its ``length``; all ``(6 f,)``.

    Half-edge ``3 f + s`` is side s of the front of triangle f; ``3 num_faces + 3 f + s`` is that of
    its back, which runs the other way.
    """

    tails: np.ndarray
    after: np.ndarray
    twin: np.ndarray
    length: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, faces: np.ndarray, mollify_factor: float) -> Cover:
        """That of triangles ``(f, 3)`` between points ``(n, 3)``."""
        num_sides = faces.size
        sides = np.arange(num_sides)
        following = np.roll(sides.reshape(-1, 3), -1, axis=1).ravel()
        preceding = np.roll(sides.reshape(-1, 3), 1, axis=1).ravel()
        tails = faces.ravel()
        heads = tails[following]
        edges = _SideGroups.of(tails, heads, points)
        length = edges.mollified_lengths(points, mollify_factor)
        return cls(
            tails=np.concatenate([tails, heads]),
            after=np.concatenate([following, num_sides + preceding]),
            twin=edges.glued(),
            length=np.concatenate([length, length]),
        )

    @property
    def num_boundary(self) -> int:
        """Edges with one triangle, whose front is glued to its own back."""
        num_sides = len(self.tails) // 2
        own_backs = np.arange(num_sides, 2 * num_sides)
        return int((self.twin[:num_sides] == own_backs).sum())

    def flip_to_delaunay(self) -> int:
        """Flip edges until opposite angles sum to at most pi, and count flips."""
        return _flip_to_delaunay(self.tails, self.after, self.twin, self.length)

    def weights(self) -> np.ndarray:
        """Half the cotangent weight of the edge of each half-edge: there are two covers of every
        triangle."""
        half_cotangents = self._half_cotangents()
        return 0.5 * (half_cotangents + half_cotangents[self.twin])

    def _half_cotangents(self) -> np.ndarray:
        a = self.length
        b = self.length[self.after]
        c = self.length[self.after[self.after]]
        return (b * b + c * c - a * a) / (8 * triangle_area(a, b, c))

    def areas(self, n: int) -> np.ndarray:
        """The areas of n vertices: a third of the triangles around each, halved."""
        a = self.length
        b = self.length[self.after]
        c = self.length[self.after[self.after]]
        return np.bincount(self.tails, triangle_area(a, b, c) / 6, minlength=n)


@dataclass(frozen=True, eq=False)
class _SideGroups:
    """The sides of all triangles, sorted by their edge, and by the angle of their triangle around
    it.

    Attributes: ``sides`` (3 f,), the numbers of the sides in this order; ``starts`` (e,), where the
    sides of each edge begin; ``is_forward`` (3 f,), by side, whether it runs from the lower to the
    higher vertex.
    """

    tails: np.ndarray
    heads: np.ndarray
    sides: np.ndarray
    starts: np.ndarray
    is_forward: np.ndarray

    @classmethod
    def of(cls, tails: np.ndarray, heads: np.ndarray, points: np.ndarray) -> _SideGroups:
        lower = np.minimum(tails, heads)
        upper = np.maximum(tails, heads)
        apexes = np.roll(heads.reshape(-1, 3), -1, axis=1).ravel()
        angles = _angles_around(points[lower], points[upper], points[apexes])
        sides = np.lexsort([_layers(tails, heads, apexes), angles, upper, lower])
        is_first = np.ones(len(sides), bool)
        same_lower = lower[sides[1:]] == lower[sides[:-1]]
        same_upper = upper[sides[1:]] == upper[sides[:-1]]
        is_first[1:] = ~(same_lower & same_upper)
        return cls(
            tails=tails,
            heads=heads,
            sides=sides,
            starts=np.flatnonzero(is_first),
            is_forward=tails < heads,
        )

    @property
    def counts(self) -> np.ndarray:
        """How many triangles each edge has, ``(e,)``."""
        return np.diff(self.starts, append=len(self.sides))

    def glued(self) -> np.ndarray:
        """The twin ``(6 f,)`` of each half-edge of the tufted cover.

        Seen along the edge, the half-edge that runs forward belongs to the side of its triangle
        that faces increasing angles: it is glued to the half-edge of the next triangle that runs
        backward.
        """
        num_sides = len(self.sides)
        following = np.arange(1, num_sides + 1)
        ends = self.starts + self.counts
        following[ends - 1] = self.starts
        is_forward = self.is_forward[self.sides]
        forward = np.where(is_forward, self.sides, self.sides + num_sides)
        backward = np.where(is_forward, self.sides + num_sides, self.sides)
        twin = np.empty(2 * num_sides, np.int64)
        twin[forward] = backward[following]
        twin[backward[following]] = forward
        return twin

    def mollified_lengths(self, points: np.ndarray, factor: float) -> np.ndarray:
        """Lengths ``(3 f,)`` of the sides, all longer by as much as opens all triangles."""
        length = np.linalg.norm(points[self.heads] - points[self.tails], axis=1)
        least = factor * length[self.sides[self.starts]].mean()
        corners = length.reshape(-1, 3)
        excess = corners.sum(axis=1) - 2 * corners.max(axis=1)
        return length + max(0.0, least - excess.min())


def _layers(tails: np.ndarray, heads: np.ndarray, apexes: np.ndarray) -> np.ndarray:
    """The order of the sides ``(3 f,)`` of triangles with the same three vertices.

    They are taken as layers on top of each other. Angles around an edge increase towards the upper
    layers, and towards the lower ones if the vertex opposite the edge is the middle one of the
    three.
    """
    layers = np.arange(len(tails)) // 3
    is_middle = (np.minimum(tails, heads) < apexes) & (apexes < np.maximum(tails, heads))
    return np.where(is_middle, -layers, layers)


def _angles_around(starts: np.ndarray, ends: np.ndarray, apexes: np.ndarray) -> np.ndarray:
    """The angle at which each apex lies around its edge from ``starts`` to ``ends``, all
    ``(k, 3)``.

    Zero is any direction that is the same for all apexes of an edge.
    """
    axis = ends - starts
    axis = axis / np.maximum(np.linalg.norm(axis, axis=1, keepdims=True), 1e-300)
    smallest = np.abs(axis).argmin(axis=1)
    zero = np.cross(axis, np.eye(3)[smallest])
    quarter = np.cross(axis, zero)
    away = apexes - starts
    return np.arctan2((away * quarter).sum(axis=1), (away * zero).sum(axis=1))


@njit(cache=True, nogil=True, error_model="numpy")
def _half_cotangent(h, after, length):  # pragma: no cover - compiled
    """Half the cotangent of the angle opposite a half-edge."""
    a = length[h]
    b = length[after[h]]
    c = length[after[after[h]]]
    return (b * b + c * c - a * a) / (8 * triangle_area(a, b, c))


@njit(cache=True, nogil=True, error_model="numpy")
def _flip(h, tails, after, twin, length):  # pragma: no cover - compiled
    """Replace the diagonal ab of the quadrilateral a, d, b, c by cd; False if it is no
    quadrilateral."""
    t = twin[h]
    bc = after[h]
    ca = after[bc]
    ad = after[t]
    db = after[ad]
    if t in (bc, ca):  # both sides belong to one triangle
        return False
    cd = other_diagonal(length[h], length[bc], length[ca], length[ad], length[db])
    if not (np.isfinite(cd) and cd > 0):
        return False
    tails[h] = tails[db]
    tails[t] = tails[ca]
    length[h] = cd
    length[t] = cd
    after[h] = ca
    after[ca] = ad
    after[ad] = h
    after[t] = db
    after[db] = bc
    after[bc] = t
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _flip_to_delaunay(tails, after, twin, length):  # pragma: no cover - compiled
    """Flip edges until opposite angles sum to at most pi. Counts flips."""
    waiting = np.ones(len(tails), np.bool_)
    stack = np.arange(len(tails))
    top = len(stack)
    flips = 0
    while top and flips < MAX_FLIPS * len(tails):
        top -= 1
        h = stack[top]
        waiting[h] = False
        t = twin[h]
        if waiting[t]:  # the twin will be looked at
            continue
        weight = _half_cotangent(h, after, length) + _half_cotangent(t, after, length)
        if weight < -DELAUNAY_TOLERANCE and _flip(h, tails, after, twin, length):
            flips += 1
            for side in (after[h], after[after[h]], after[t], after[after[t]]):
                if not waiting[side]:
                    waiting[side] = True
                    stack[top] = side
                    top += 1
    return flips


def tufted_mesh(
    cloud: PointCloud, faces: np.ndarray, mollify_factor: float = MOLLIFY_FACTOR
) -> TuftedMesh:
    """Edges, weights and areas for functions on triangles ``(f, 3)`` in the user's numbers."""
    if not len(faces):
        raise InvalidInputError(
            "there are no triangles.", "Use the points alone: TangentBundle.from_points(vertices)."
        )
    points = cloud.points.numpy()
    numbers = cloud.curve_order.numpy()
    along_curve = np.argsort(numbers)[faces]
    cover = Cover.of(points, along_curve, mollify_factor)
    num_boundary = cover.num_boundary
    num_flips = cover.flip_to_delaunay()
    graph, cotangents = _summed_edges(cover, len(points))
    return TuftedMesh(
        graph=graph,
        cotangents=cotangents,
        areas=torch.from_numpy(_positive_areas(cover.areas(len(points)), numbers)),
        triangulation=Triangulation(faces, num_boundary, num_flips),
    )


def _positive_areas(areas: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The areas, with a little for vertices in no triangle."""
    is_isolated = areas == 0
    if not is_isolated.any():
        return areas
    isolated = numbers[is_isolated]
    warn(
        f"vertices in no triangle: {len(isolated)} (first: {isolated.min()}). The Laplacian of "
        "functions is zero there.",
        MeshRepairWarning,
        point=isolated.min(),
    )
    return np.where(is_isolated, ISOLATED_SHARE * areas[~is_isolated].min(), areas)


def _summed_edges(cover: Cover, n: int) -> tuple[NeighborGraph, Tensor]:
    """The graph of the edges between two vertices, and their weights: several edges between the
    same two are one, with the sum of their weights and the least of their lengths."""
    rows = cover.tails
    columns = cover.tails[cover.twin]
    is_edge = rows != columns
    keys = rows[is_edge] * n + columns[is_edge]
    order = np.argsort(keys, kind="stable")
    pairs, starts = np.unique(keys[order], return_index=True)
    weights = np.add.reduceat(cover.weights()[is_edge][order], starts)
    distances = np.minimum.reduceat(cover.length[is_edge][order], starts)
    degrees = np.bincount(pairs // n, minlength=n)
    graph = NeighborGraph(
        indptr=torch.from_numpy(np.append(0, np.cumsum(degrees))),
        indices=torch.from_numpy((pairs % n).astype(np.int32)),
        distances=torch.from_numpy(distances),
    )
    return graph, torch.from_numpy(np.maximum(weights, 0.0))
