"""Who is near whom: symmetric neighbour graphs in CSR form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numba import njit
from scipy import sparse
from torch import Tensor

from ..arrays import host
from ..parallel import run_ranges


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """A symmetric graph without self-loops: row ``i`` holds the sorted neighbours of point ``i``.

    Attributes are tensors on one device: ``indptr`` (n + 1) int64, ``indices`` (e) int32,
    ``distances`` (e) float64, which have gradients where the points have.
    """

    indptr: Tensor
    indices: Tensor
    distances: Tensor

    @property
    def device(self) -> torch.device:
        return self.indptr.device

    @property
    def num_points(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Directed edges: each pair of neighbours counts twice."""
        return len(self.indices)

    @property
    def degrees(self) -> Tensor:
        """Number of neighbours of each point, ``(n,)``."""
        return self.indptr.diff()

    @property
    def isolated(self) -> Tensor:
        """Points without neighbours."""
        return (self.degrees == 0).nonzero().flatten()

    @property
    def rows(self) -> Tensor:
        """The point each directed edge starts from, ``(e,)`` int64."""
        points = torch.arange(self.num_points, device=self.device)
        return torch.repeat_interleave(points, self.degrees, output_size=self.num_edges)

    def to_scipy(self) -> sparse.csr_array:
        """The distances as a scipy CSR array.

        >>> from tangentbundle.geometry.cloud import PointCloud
        >>> line = PointCloud(torch.tensor([[0.0], [1.0], [3.0]]))
        >>> line.within(1.5).to_scipy().toarray()
        array([[0., 1., 0.], [1., 0., 0.], [0., 0., 0.]])
        """
        arrays = (host(self.distances.detach()), host(self.indices), host(self.indptr))
        return sparse.csr_array(arrays, shape=(self.num_points, self.num_points))

    @property
    def num_components(self) -> int:
        """Number of the connected components."""
        return int(self.components.max()) + 1

    @cached_property
    def components(self) -> Tensor:
        """Label of the connected component of each point, ``(n,)``: 0 for that of the first point,
        and so on."""
        if self.device.type == "cpu":
            return torch.from_numpy(_component_labels(self.indptr.numpy(), self.indices.numpy()))
        return _labels_by_hooking(self)

    def measured_on(self, points: Tensor) -> NeighborGraph:
        """The same graph with the distances of other points ``(n, D)``, differentiable in them."""
        steps = points[self.indices] - points[self.rows]
        return NeighborGraph(self.indptr, self.indices, torch.linalg.vector_norm(steps, dim=1))

    def relabel(self, numbers: Tensor) -> NeighborGraph:
        """The same graph with point ``k`` renamed to ``numbers[k]``."""
        renamed_rows = numbers[self.rows]
        renamed_columns = numbers[self.indices.long()]
        edges = torch.argsort(renamed_rows * self.num_points + renamed_columns)
        degrees = torch.empty_like(self.degrees).index_copy_(0, numbers, self.degrees)
        return NeighborGraph(
            indptr=torch.nn.functional.pad(degrees.cumsum(0), (1, 0)),
            indices=renamed_columns[edges].int(),
            distances=self.distances[edges],
        )


@njit(cache=True, nogil=True)
def _component_labels(indptr, indices):  # pragma: no cover - compiled
    """Join the trees of both ends of every edge; the root of a tree is its least point."""
    n = len(indptr) - 1
    parent = np.arange(n)
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            lower = np.int64(indices[e])
            upper = np.int64(i)
            # the reverse edge would tell nothing new
            while lower < upper and parent[lower] != parent[upper]:
                one_parent = parent[lower]
                other_parent = parent[upper]
                lower = min(one_parent, other_parent)
                upper = max(one_parent, other_parent)
                if parent[upper] == upper:
                    parent[upper] = lower
                else:
                    parent[upper] = parent[parent[upper]]
    labels = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        if parent[i] == i:
            labels[i] = count
            count += 1
        else:
            labels[i] = labels[parent[i]]
    return labels


def _labels_by_hooking(graph: NeighborGraph) -> Tensor:
    """The same for GPUs: points start below their first neighbour; then trees at both ends of edges
    are joined."""
    parent = torch.arange(graph.num_points, device=graph.device)
    if graph.num_edges:
        first_edges = graph.indptr[:-1].clamp_max(graph.num_edges - 1)
        first_neighbors = graph.indices[first_edges]
        lower = torch.minimum(parent, first_neighbors)
        parent = _roots(torch.where(graph.degrees > 0, lower, parent))
    starts = parent[graph.rows]
    ends = parent[graph.indices]
    apart = (starts != ends).nonzero().flatten()
    while len(apart):
        starts = starts[apart]
        ends = ends[apart]
        upper = torch.maximum(starts, ends)
        lower = torch.minimum(starts, ends)
        parent = _roots(parent.scatter_reduce(0, upper, lower, "amin"))
        starts = parent[starts]
        ends = parent[ends]
        apart = (starts != ends).nonzero().flatten()
    return torch.unique(parent, return_inverse=True)[1]


def _roots(parent: Tensor) -> Tensor:
    """The root of every point's tree."""
    above = parent[parent]
    while not torch.equal(above, parent):
        parent = above
        above = parent[parent]
    return parent


@njit(cache=True, nogil=True)
def edge_distances(
    start, stop, centers, points, indptr, indices, out
):  # pragma: no cover - compiled
    """Distance of each edge of a CSR graph from ``centers`` to ``points``."""
    dims = points.shape[1]
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            total = 0.0
            for a in range(dims):
                step = centers[i, a] - points[j, a]
                total += step * step
            out[e] = np.sqrt(total)


def graph_from_pairs(points: Tensor, pairs: Tensor) -> NeighborGraph:
    """The graph whose edges are the given unordered pairs ``(m, 2)``, each listed once; on CPUs."""
    n = len(points)
    starts = torch.cat([pairs[:, 0], pairs[:, 1]])
    ends = torch.cat([pairs[:, 1], pairs[:, 0]])
    edges = torch.argsort(starts * n + ends)
    degrees = torch.bincount(starts, minlength=n)
    indptr = torch.nn.functional.pad(degrees.cumsum(0), (1, 0))
    indices = ends[edges].int()
    distances = torch.empty(len(indices), dtype=torch.float64)
    arrays = [tensor.numpy() for tensor in (points, points, indptr, indices, distances)]
    run_ranges(edge_distances, n, *arrays)
    return NeighborGraph(indptr=indptr, indices=indices, distances=distances)
