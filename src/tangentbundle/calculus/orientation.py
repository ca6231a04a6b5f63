r"""Orientation of the tangent spaces: whether frames can be made to agree, which curl and rot need,
and the side that an oriented surface faces.

Signs :math:`s_i` of the frames agree along an edge with the transport :math:`O_{ij}` if
:math:`s_i \det O_{ij}\, s_j > 0`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..arrays import median
from ..errors import AccuracyWarning, NotOrientableError, warn
from ..geometry.frame_signs import (
    MIN_FACING_OF_EDGES,
    cover_signs,
    determinants_along_edges,
    facing_edges,
    tree_signs,
)
from ..geometry.graph import NeighborGraph
from ..parallel import threads_by_size

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MAJORITY_VOTES = 20
"""Rounds in which every frame adopts the orientation of the majority of its neighbours."""

MIN_CUT = 0.05
"""Smallest share of bad edges of a non-orientable space, in units of the radius of a ball: half of
the value for Klein bottles."""

OWN_VOTE = 1e-9
"""Weight of a frame's own sign in a vote of its neighbours: it decides where they are divided."""

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

UPWARD = (0.0625, 0.25, 1.0)
"""The direction that surfaces in space face: the third axis; the second if they are vertical, and
then the first."""


# Whether frames agree.


def confident_edges(bundle: TangentBundle, facing: float = MIN_FACING_OF_EDGES) -> NeighborGraph:
    r"""The edges with similar tangent spaces, :math:`|\det O_i^T O_j|` > ``facing``; lengths are
    the determinants."""
    graph = bundle.sorted_graph
    if bundle.tangent_frames is None:
        return facing_edges(graph, bundle.connection.det.double(), facing)
    det = determinants_along_edges(bundle.tangent_frames.matrices, graph)
    return facing_edges(graph, det, facing)


@dataclass(frozen=True)
class Orientability:
    """Whether a space is orientable, whether all frames can be made ``consistent``, and the
    ``frustration``: the share of edges that remain reflections."""

    is_orientable: bool
    is_consistent: bool
    frustration: float


def orientability(bundle: TangentBundle) -> Orientability:
    r"""Whether the space of a bundle is orientable.

    If no exact signs exist, those of a spanning tree are improved by majority votes of neighbours.
    The space counts as orientable if fewer edges remain bad than would have to be cut to make a
    non-orientable space orientable: those across a hypersurface, whose share is proportional to the
    radius of a ball. Meshes are always orientable, since others are refused.
    """
    consistent = Orientability(is_orientable=True, is_consistent=True, frustration=0.0)
    if bundle.weights.mesh is not None:
        return consistent
    edges = confident_edges(bundle)
    if cover_signs(edges, edges.distances) is not None:
        return consistent
    signs = _majority_signs(edges, tree_signs(edges))
    products = signs[edges.rows] * edges.distances * signs[edges.indices]
    frustration = float((products < 0).double().mean())
    share_of_neighbors = median(edges.degrees) / edges.num_points
    return Orientability(
        is_orientable=frustration < MIN_CUT * share_of_neighbors ** (1 / bundle.dim),
        is_consistent=False,
        frustration=frustration,
    )


def _majority_signs(edges: NeighborGraph, signs: Tensor) -> Tensor:
    """Signs ``(n,)`` after votes of the neighbours, which weigh as much as they face each other."""
    for _ in range(MAJORITY_VOTES):
        votes = OWN_VOTE * signs
        votes.index_add_(0, edges.rows, edges.distances * signs[edges.indices])
        signs = torch.where(votes < 0, -1.0, 1.0).double()
    return signs


def consistent_signs(bundle: TangentBundle) -> Tensor:
    """Signs ``(n,)`` of the frames along the curve that make them agree with their neighbours,
    either way round."""
    signs = cover_signs(bundle.sorted_graph, bundle.connection.det)
    if signs is not None:
        return signs
    if not orientability(bundle).is_orientable:
        raise NotOrientableError(
            "the tangent planes cannot be oriented alike: the space is not orientable, like a "
            "Klein bottle. Curl and rot need an orientation; gradient, divergence and jacobian do "
            "not."
        )
    return tree_signs(confident_edges(bundle, facing=0.0))


# The side that a surface faces.


@threads_by_size
def orientation(bundle: TangentBundle) -> Tensor:
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
    frames = bundle.tangent_frames
    if frames is None:
        return bundle.cloud.points.new_ones(bundle.num_points)
    if frames.dim == bundle.ambient_dim:
        return torch.linalg.det(frames.matrices).sign()
    if not frames.is_estimated and bool((bundle.connection.det > 0).all()):
        return bundle.cloud.points.new_ones(bundle.num_points)
    signs = consistent_signs(bundle)
    masses = bundle.sorted_masses()
    components = _rows_of_components(bundle.sorted_graph)
    oriented = torch.empty_like(signs)
    num_uncertain = 0
    for rows in components:
        tangents = frames.matrices[rows].clone()
        tangents[:, :, 0] *= signs[rows, None]
        side = _side(bundle.cloud.points[rows], masses[rows], tangents)
        oriented[rows] = side.sign * signs[rows]
        num_uncertain += not side.is_certain
    if num_uncertain:
        warn(
            f"the orientation of {num_uncertain} of {len(components)} components of the surface is "
            "not certain: it faces neither side of the directions by which surfaces are oriented, "
            "so that curl, rot and stream functions may have the other sign for another sample. "
            "Turn the surface, or give frames that are oriented alike to from_frames.",
            AccuracyWarning,
        )
    return oriented


def _rows_of_components(graph: NeighborGraph) -> tuple[Tensor, ...]:
    """The points of each connected component of a graph."""
    by_component = torch.argsort(graph.components, stable=True)
    sizes = torch.bincount(graph.components)
    return by_component.split(sizes.tolist())


@dataclass(frozen=True)
class _Side:
    """The sign that turns tangents to the side that they are to face, and whether other samples
    have the same."""

    sign: float
    is_certain: bool


def _side(points: Tensor, mass: Tensor, tangents: Tensor) -> _Side:
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


def _facing(points: Tensor, mass: Tensor, direction: Tensor, areas: Tensor) -> tuple[float, float]:
    """The mean of ``areas`` (n,), which is F of ``orientation``, and its standard error."""
    weights = mass / mass.sum()
    heights = (points - weights @ points) @ direction
    spread = (weights @ heights.square()).sqrt().clamp_min(torch.finfo(torch.float64).tiny)
    weights = weights * (heights / spread).clamp_max(MAX_HEIGHT).exp()
    weights = weights / weights.sum()
    share = weights @ areas
    standard_error = torch.linalg.vector_norm(weights * (areas - share))
    return float(share), float(standard_error)


def _projected_areas(tangents: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The directions h ``(D,)`` and the products ``(n,)`` of unit areas with A over its length, of
    ``orientation``, in turn."""
    if tangents.shape[1] == 3:
        return _areas_in_space(tangents)
    return _areas_in_more_dimensions(tangents)


def _areas_in_space(tangents: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Those of tangents ``(n, 3, 2)``: the components of the normals along directions."""
    first, second = tangents.unbind(2)
    normals = torch.linalg.cross(first, second)
    for axis in (UPWARD, (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)):
        direction = tangents.new_tensor(axis)
        yield direction, normals @ direction / torch.linalg.vector_norm(direction)


def _areas_in_more_dimensions(tangents: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Those of tangents ``(n, D, 2)``, projected to one plane, then to each coordinate plane."""
    first, second = tangents.unbind(2)
    dims = tangents.shape[1]
    axes = torch.arange(dims).to(tangents)
    plane = torch.stack([axes.cos(), axes.sin()], dim=1)
    direction = (2 * axes + 1).cos()
    area_of_plane = torch.linalg.det(plane.T @ plane).sqrt()
    yield direction, torch.linalg.det(plane.T @ tangents) / area_of_plane
    for a, b in combinations(range(dims), 2):
        yield direction, first[:, a] * second[:, b] - first[:, b] * second[:, a]
