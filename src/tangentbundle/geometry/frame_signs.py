r"""Signs of frames that make neighbours agree.

Signs :math:`s_i` of the frames :math:`O_i` agree along an edge if
:math:`s_i \det(O_i^T O_j)\, s_j > 0`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor
from torch.nn.functional import pad

from ..arrays import host
from .cloud import PointCloud
from .graph import NeighborGraph
from .nearest_points import NearestPoints
from .transport import MIN_OVERLAP, connect

MIN_FACING_OF_EDGES = 0.8
"""Determinant of the product of two frames from which an edge says how its ends are oriented. For
very different tangent spaces the sign of the determinant does not determine the orientation."""

EDGES_AT_ONCE = 2**13
"""Edges whose products of frames are computed at a time."""


@dataclass(frozen=True, eq=False)
class FrameSigns:
    """A sign for each frame, with which neighbours agree as far as that is possible.

    Attributes: ``signs`` (n,) along the curve, each 1 or -1; ``agreement``, the share of the edges
    between similar tangent spaces whose ends then agree, zero if there are no such edges.

    >>> line = PointCloud(torch.arange(3.0)[:, None])
    >>> frames = torch.tensor([[[1.0]], [[1.0]], [[-1.0]]])
    >>> oriented = FrameSigns.of(line, line.within(1.0), frames)
    >>> oriented.signs.tolist(), oriented.agreement
    ([1.0, 1.0, -1.0], 1.0)
    """

    signs: Tensor
    agreement: float

    @classmethod
    def of(cls, cloud: PointCloud, graph: NeighborGraph, frames: Tensor) -> FrameSigns:
        """The signs of frames ``(n, D, d)``, which follow from distances and angles alone up to one
        sign of all: most frames keep theirs.

        Where the two choices keep equally many, the first point along the curve keeps its frame.
        """
        det = determinants_along_edges(frames, graph)
        if bool((det.abs() <= MIN_OVERLAP).any()):
            # refuses tangent spaces with perpendicular directions, which have no orientation alike
            connect(frames, graph, numbers=cloud.curve_order)
        signs = signs_along_edges(facing_edges(graph, det, least=0.0))
        signs = _joined_signs(cloud, frames, signs, graph.components)
        majority = signs.sum().sign()
        if majority == 0:
            majority = signs[0]
        signs = signs * majority
        edges = facing_edges(graph, det)
        products = signs[edges.rows] * edges.distances * signs[edges.indices]
        agreement = 0.0
        if edges.num_edges:
            agreement = float((products > 0).double().mean())
        return cls(signs, agreement)


def _joined_signs(cloud: PointCloud, frames: Tensor, signs: Tensor, components: Tensor) -> Tensor:
    """The signs ``(n,)`` with those of whole ``components`` (n,) turned over, so that the
    components of a graph agree where they are nearest to each other."""
    points = host(cloud.points)
    bases = host(frames)
    joined = host(signs).copy()
    labels = host(components)
    is_linked = np.zeros(len(points), dtype=bool)
    nearest_linked = np.zeros(len(points), dtype=int)
    distances = np.full(len(points), np.inf)
    newest = 0
    while True:
        added = np.flatnonzero(labels == newest)
        is_linked[added] = True
        others = np.flatnonzero(~is_linked)
        if not len(others):
            return torch.from_numpy(joined)
        new_distances, neighbors = NearestPoints(points[added]).query(points[others])
        is_nearer = new_distances < distances[others]
        distances[others[is_nearer]] = new_distances[is_nearer]
        nearest_linked[others[is_nearer]] = added[neighbors[is_nearer]]
        end = others[distances[others].argmin()]
        start = nearest_linked[end]
        newest = labels[end]
        agreement = joined[start] * joined[end] * np.linalg.det(bases[start].T @ bases[end])
        if agreement < 0:
            joined[labels == newest] *= -1


def determinants_along_edges(matrices: Tensor, graph: NeighborGraph) -> Tensor:
    r"""The determinant of :math:`O_i^T O_j` of each edge ``(e,)``, for frames ``(n, D, d)``."""
    starts = graph.rows.split(EDGES_AT_ONCE)
    ends = graph.indices.split(EDGES_AT_ONCE)
    if not graph.num_edges:
        return matrices.new_empty(0)
    chunks = [
        torch.linalg.det(matrices[rows].mT @ matrices[columns])
        for rows, columns in zip(starts, ends, strict=True)
    ]
    return torch.cat(chunks)


def facing_edges(
    graph: NeighborGraph, det: Tensor, least: float = MIN_FACING_OF_EDGES
) -> NeighborGraph:
    """The edges between similar tangent spaces, those whose determinant ``det`` (e,) is larger than
    ``least`` in magnitude; their lengths are the determinants."""
    is_facing = det.abs() > least
    return NeighborGraph(
        indptr=pad(is_facing.cumsum(0), (1, 0))[graph.indptr],
        indices=graph.indices[is_facing],
        distances=det[is_facing],
    )


def cover_signs(graph: NeighborGraph, det: Tensor) -> Tensor | None:
    """Signs ``(n,)`` with ``s_i det_ij s_j > 0`` on all edges, or None if they do not exist.

    They do not exist if a point is connected to its copy in the double cover: two copies of the
    points, in which edges with a negative determinant connect different copies.
    """
    n = graph.num_points
    ends_from_first = graph.indices + n * (det < 0)
    ends_from_second = graph.indices + n * (det > 0)
    cover = NeighborGraph(
        indptr=torch.cat([graph.indptr, graph.indptr[1:] + graph.num_edges]),
        indices=torch.cat([ends_from_first, ends_from_second]).int(),
        distances=graph.distances.new_empty(0),
    )
    first_sheet, second_sheet = cover.components.split(n)
    if bool((first_sheet == second_sheet).any()):
        return None
    return torch.where(first_sheet < second_sheet, 1.0, -1.0).double()


def signs_along_edges(edges: NeighborGraph) -> Tensor:
    """Signs ``(n,)`` of frames that agree along all edges, whose lengths are determinants, or else
    along those of a spanning tree."""
    signs = cover_signs(edges, edges.distances)
    if signs is not None:
        return signs
    return tree_signs(edges)


def tree_signs(edges: NeighborGraph) -> Tensor:
    """Signs ``(n,)`` of frames that agree along a spanning tree of edges with similar tangent
    spaces, whose lengths are determinants."""
    facing = edges.to_scipy()
    costs = facing.copy()
    costs.data = 1.0 + 1e-9 - np.abs(facing.data)
    in_tree = csgraph.minimum_spanning_tree(costs).astype(bool)
    one_way = in_tree * facing
    tree = sparse.csr_array(one_way + one_way.T)
    det = torch.from_numpy(tree.data).to(edges.device)
    graph = NeighborGraph(
        indptr=torch.from_numpy(tree.indptr).long().to(edges.device),
        indices=torch.from_numpy(tree.indices).int().to(edges.device),
        distances=det,
    )
    signs = cover_signs(graph, det)
    assert signs is not None, "a tree can be oriented"
    return signs
