"""Orientation of the tangent planes, which curl and rot need, and whether a manifold has a
boundary."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from ..diagnostics import confident_edges, cover_signs, orientability, tree_signs
from ..errors import AccuracyWarning, InvalidInputError, NotOrientableError, warn
from ..parallel import threads_by_size

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MIN_OFFSET, MIN_MEAN_OFFSET, MIN_SHARE = 0.25, 0.15, 0.2
"""A point is at the boundary if the mean of its neighbours lies so many radii off, if these offsets
of its neighbours agree (their mean is so long), and if such a share of its neighbours is at the
boundary, too. On a straight edge the first is 0.38 and the second 0.2; among scattered points
inside, both at once are rare, and never in groups."""

MIN_EDGE = 0.1
"""Points at the boundary, compared with those along a line across a square, the root of points
times neighbours: about 0.45 for a square. Less is a hole of a few neighbourhoods. The ends of a
curve are compared with one neighbourhood."""


MAX_HEIGHT = 4.0
"""Points higher than so many standard deviations count as if they were there: outliers do not
decide."""

MIN_ORIENTATION_ERRORS = 2.0
"""An orientation is certain if the integral that decides on it is so many of its standard errors
away from where another sample would be oriented the other way."""

MIN_FACING = math.exp(-4.0)
"""A side decides on the orientation if a surface faces it so much, compared with the root mean
square of all planes. It is far above rounding. Planes with simple coordinates, like axes and
diagonals, do not face a side by a power of e: rounding would decide on these."""

UPWARD = np.array([0.0625, 0.25, 1.0])
"""The direction that surfaces in space face: the third axis; the second if they are vertical, and
then the first."""


@threads_by_size
def orientation(bundle: TangentBundle) -> np.ndarray:
    r"""A sign for each frame ``(n,)``, along the curve: with it, all frames are oriented alike.

    The plane keeps its own orientation, and so do given frames that agree already (latitude and
    longitude, meshes). In all other cases each component of the graph is oriented by the side that
    it faces,

    .. math:: F = \frac{\int e^{h \cdot (x - \bar x) / s}\, \langle e_1 \wedge e_2, A \rangle\, dx}
              {|A| \int e^{h \cdot (x - \bar x) / s}\, dx} > 0

    for positively oriented orthonormal tangents :math:`e_1, e_2`, with mean :math:`\bar x`, and s
    the standard deviation of :math:`h \cdot x`. So other samples of the same surface, in any order,
    of any size and anywhere in space, are oriented alike. In space
    :math:`\langle e_1 \wedge e_2, A \rangle = h \cdot n` is the product of the normal and a fixed
    direction h, nearly that of the third axis (``UPWARD``). By the theorem of Gauss, normals of
    closed surfaces then point outward; those of graphs z = f(x, y) point upward. In more dimensions
    :math:`A = b \wedge c` with :math:`b_k = \cos k`, :math:`c_k = \sin k`,
    :math:`h_k = \cos(2k + 1)` for k = 0, 1...: the plane of the first two axes has its usual
    orientation.

    Surfaces that hardly face that side, with \|F\| below ``MIN_FACING`` of the root mean square
    of F over all planes, face the next one that they do not hardly face: in space h is the second
    axis, then the first; in more dimensions A is one coordinate plane after another. Some side
    decides on each plane. No rule is continuous for all planes, since half a turn in space turns a
    plane over: the sign changes between planes where another side takes over.

    Where no side decides beyond the sampling error, other samples may be oriented the other way:
    this gives an ``AccuracyWarning``.
    """
    frames = bundle.sorted_frames
    if frames is not None and frames.shape[1] == frames.shape[2]:
        return np.sign(np.linalg.det(frames))
    are_given = bundle.pca is None
    if frames is None or (are_given and (bundle.connection.det > 0).all()):
        return np.ones(bundle.num_points)
    signs = consistent_signs(bundle)
    labels = bundle.sorted_graph.components()
    order = np.argsort(labels, kind="stable")
    components = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    oriented = np.empty(bundle.num_points)
    uncertain = 0
    for rows in components:
        tangents = frames[rows] * np.stack([signs[rows], np.ones(len(rows))], axis=1)[:, None]
        side = _side(bundle.sorted_points[rows], bundle.sorted_mass[rows], tangents)
        oriented[rows] = side.sign * signs[rows]
        uncertain += not side.is_certain
    if uncertain:
        warn(
            f"the orientation of {uncertain} of {len(components)} components of the surface is not "
            "certain: it faces neither side of the directions by which surfaces are oriented, so "
            "that curl, rot and stream functions may have the other sign for another sample. Turn "
            "the surface, or give frames that are oriented alike to from_frames.",
            AccuracyWarning,
        )
    return oriented


def consistent_signs(bundle: TangentBundle) -> np.ndarray:
    """Signs ``(n,)`` of the frames along the curve that make them agree with their neighbours,
    either way round."""
    signs = cover_signs(bundle.sorted_graph, bundle.connection.det)
    if signs is not None:
        return signs
    if not orientability(bundle)[0]:
        raise NotOrientableError(
            "the tangent planes cannot be oriented alike: the space is not orientable, like a "
            "Klein bottle. Curl and rot need an orientation; gradient, divergence and jacobian do "
            "not."
        )
    return tree_signs(confident_edges(bundle, facing=0.0))


@dataclass(frozen=True)
class _Side:
    """The sign that turns tangents to the side that they are to face, and whether other samples
    have the same."""

    sign: float
    is_certain: bool


def _side(points: np.ndarray, mass: np.ndarray, tangents: np.ndarray) -> _Side:
    """The side of one component with ``tangents`` (n, D, 2) that agree: that of the first integral
    that is large enough."""
    dims = points.shape[1]
    limit = MIN_FACING * math.sqrt(2.0 / (dims * (dims - 1)))
    first_share = 0.0
    chosen_share = 0.0
    possible_signs = set()
    for direction, areas in _projected_areas(tangents):
        share, standard_error = _facing(points, mass, direction, areas)
        margin = MIN_ORIENTATION_ERRORS * standard_error
        first_share = first_share or share
        if abs(share) + margin >= limit:
            possible_signs.add(math.copysign(1.0, share))
        if margin - abs(share) >= limit:
            possible_signs.add(math.copysign(1.0, -share))
        if abs(share) >= limit:
            chosen_share = chosen_share or share
        if abs(share) - margin >= limit:
            return _Side(math.copysign(1.0, chosen_share), len(possible_signs) == 1)
    return _Side(math.copysign(1.0, chosen_share or first_share), False)


def _facing(
    points: np.ndarray, mass: np.ndarray, direction: np.ndarray, areas: np.ndarray
) -> tuple[float, float]:
    """The mean of ``areas`` (n,), which is F of ``orientation``, and its standard error."""
    weights = mass / mass.sum()
    heights = (points - weights @ points) @ direction
    spread = max(math.sqrt(weights @ np.square(heights)), np.finfo(float).tiny)
    weights = weights * np.exp(np.minimum(heights / spread, MAX_HEIGHT))
    weights /= weights.sum()
    share = float(weights @ areas)
    return share, float(np.linalg.norm(weights * (areas - share)))


def _projected_areas(tangents: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The directions h ``(D,)`` and the products ``(n,)`` of unit areas with A over its length, of
    ``orientation``, in turn."""
    first, second = np.moveaxis(tangents, 2, 0)
    dims = tangents.shape[1]
    if dims == 3:
        normals = np.cross(first, second)
        for direction in (UPWARD, np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])):
            yield direction, normals @ direction / np.linalg.norm(direction)
        return
    axes = np.arange(dims)
    plane = np.stack([np.cos(axes), np.sin(axes)], axis=1)
    direction = np.cos(2 * axes + 1)
    yield direction, np.linalg.det(plane.T @ tangents) / math.sqrt(np.linalg.det(plane.T @ plane))
    for a, b in combinations(range(dims), 2):
        yield direction, first[:, a] * second[:, b] - first[:, b] * second[:, a]


@threads_by_size
def has_boundary(bundle: TangentBundle) -> bool:
    """Whether the points of a tangent bundle end somewhere, like those of a rectangle or of a
    region of the Earth."""
    if bundle.mesh is not None:
        return bundle.mesh.boundary > 0
    graph, frames, n = bundle.sorted_graph, bundle.sorted_frames, bundle.num_points
    if frames is None:
        raise InvalidInputError(
            "the scalar bundle has no frames: look for a boundary with the tangent bundle itself."
        )
    weights = sparse.csr_array((bundle.edge_weights(), graph.indices, graph.indptr), shape=(n, n))
    total, points = (
        weights.sum(axis=1)[:, None],
        bundle.sorted_points - bundle.sorted_points.mean(axis=0),
    )
    offset = np.einsum(
        "nxa,nx->na", frames, (weights @ points / total - points) / np.sqrt(bundle.eps)
    )
    vectors = np.einsum("nxa,na->nx", frames, offset)
    mean = np.einsum("nxa,nx->na", frames, weights @ (vectors / total) / (weights @ (1 / total)))
    length = np.linalg.norm(mean, axis=1)
    found = (np.einsum("na,na->n", offset, mean) > MIN_OFFSET * length) & (length > MIN_MEAN_OFFSET)
    share = np.add.reduceat(found[graph.indices].astype(float), graph.indptr[:-1]) / graph.degrees
    count = int((found & (share >= MIN_SHARE)).sum())
    neighbors = float(np.median(graph.degrees))
    expected = neighbors if bundle.dim == 1 else math.sqrt(n * neighbors)
    return count > MIN_EDGE * expected
