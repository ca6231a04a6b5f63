"""Whether a manifold has a boundary, from its points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..arrays import median
from ..errors import InvalidInputError
from ..geometry.frames import TangentFrames
from ..geometry.graph import NeighborGraph
from ..parallel import threads_by_size
from .derivatives import sparse_csr

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MIN_OFFSET = 0.25
"""A point may be at the boundary if the mean of its neighbours lies so many radii off, on the side
of its neighbours' offsets. On a straight edge it is 0.38."""

MIN_MEAN_OFFSET = 0.15
"""The offsets of the neighbours agree there: their mean is so long. On a straight edge it is 0.2.
Among scattered points inside, both at once are rare, and never in groups."""

MIN_SHARE = 0.2
"""Share of the neighbours of a point at the boundary that must look so, too."""

MIN_EDGE = 0.1
"""Points at the boundary, compared with those along a line across a square, the root of points
times neighbours: about 0.45 for a square. Less is a hole of a few neighbourhoods. The ends of a
curve are compared with one neighbourhood."""


@threads_by_size
def has_boundary(bundle: TangentBundle) -> bool:
    """Whether the points of a tangent bundle end somewhere, like those of a rectangle or of a
    region of the Earth."""
    mesh = bundle.weights.mesh
    if mesh is not None:
        return mesh.boundary > 0
    if bundle.tangent_frames is None:
        raise InvalidInputError(
            "the scalar bundle has no frames: look for a boundary with the tangent bundle itself."
        )
    graph = bundle.sorted_graph
    looks_so = _looks_like_boundary(
        bundle.cloud.points, bundle.tangent_frames, graph, bundle.edge_weights(), bundle.eps**0.5
    )
    count = int((looks_so & (_share_of_neighbors(graph, looks_so) >= MIN_SHARE)).sum())
    neighbors = median(graph.degrees)
    expected = math.sqrt(bundle.num_points * neighbors)
    if bundle.dim == 1:
        expected = neighbors
    return count > MIN_EDGE * expected


def _looks_like_boundary(
    points: Tensor, frames: TangentFrames, graph: NeighborGraph, weights: Tensor, radius: float
) -> Tensor:
    """Whether the neighbours of each point ``(n,)`` lie on one side, the same as those of its
    neighbours."""
    n = graph.num_points
    averages = sparse_csr(graph.indptr, graph.indices.long(), weights, (n, n))
    total = averages @ weights.new_ones((n, 1))
    centred = points - points.mean(dim=0)
    displacements = (averages @ centred / total - centred) / radius
    offsets = frames.to_coordinates(displacements[:, :, None])
    vectors = frames.to_ambient(offsets)[:, :, 0]
    # the mean of the offsets of the neighbours, which count the less the more neighbours they have
    means = averages @ (vectors / total) / (averages @ (1 / total))
    mean_offsets = frames.to_coordinates(means[:, :, None])[:, :, 0]
    length = torch.linalg.vector_norm(mean_offsets, dim=1)
    along_mean = (offsets[:, :, 0] * mean_offsets).sum(dim=1)
    return (along_mean > MIN_OFFSET * length) & (length > MIN_MEAN_OFFSET)


def _share_of_neighbors(graph: NeighborGraph, is_counted: Tensor) -> Tensor:
    """The share of the neighbours of each point that are counted, ``(n,)``."""
    counted_up_to = pad(is_counted[graph.indices].cumsum(0), (1, 0))
    return counted_up_to[graph.indptr].diff() / graph.degrees
