"""Who is near whom: symmetric neighbour graphs in CSR form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numba import njit
from scipy import sparse
from torch import Tensor

from ..arrays import host, on_host
from ..errors import InvalidInputError
from ..memory import device_memory, memory_limit, require_memory
from ..parallel import num_threads, run_ranges
from .search import SAMPLE, WIDE, ball_edges, edge_distances, search_tree
from .tensor_cloud import TensorCloud, near_blocks


def bytes_per_edge(dim: int) -> int:
    """Peak memory of building a bundle and its Laplacian, per directed edge (measured for d = 2, 3,
    5 and 8)."""
    return 80 if dim <= 2 else 48 + 16 * dim**2


@on_host("indptr", "indices", "distances")
@dataclass(frozen=True)
class NeighborGraph:
    """A symmetric graph without self-loops: row ``i`` holds the sorted neighbours of point ``i``.

    Attributes: ``indptr`` (n + 1) int64, ``indices`` (e) int32, ``distances`` (e) float64. They may
    be given as tensors of a device; the attributes are then NumPy copies, made when they are first
    read.
    """

    indptr: np.ndarray
    indices: np.ndarray
    distances: np.ndarray

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """``indptr``, ``indices`` and ``distances`` as tensors, where they are."""
        return tuple(
            torch.as_tensor(vars(self)[name]) for name in ("indptr", "indices", "distances")
        )

    @property
    def num_points(self) -> int:
        return len(vars(self)["indptr"]) - 1

    @property
    def num_edges(self) -> int:
        """Directed edges: each pair of neighbours counts twice."""
        return len(vars(self)["indices"])

    @property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each point, ``(n,)``."""
        return np.diff(self.indptr)

    @property
    def isolated(self) -> np.ndarray:
        """Points without neighbours."""
        return host((self.tensors[0].diff() == 0).nonzero().flatten())

    @cached_property
    def num_components(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def rows(self) -> np.ndarray:
        """The point each directed edge starts from, ``(e,)``."""
        return np.repeat(np.arange(self.num_points, dtype=np.int32), self.degrees)

    @property
    def edge_rows(self) -> Tensor:
        """The same as a tensor, where the graph is."""
        indptr = self.tensors[0]
        rows = torch.arange(self.num_points, device=indptr.device)
        return torch.repeat_interleave(rows, indptr.diff(), output_size=self.num_edges)

    def to_scipy(self) -> sparse.csr_array:
        """The distances as a scipy CSR array.

        >>> radius_graph(np.array([[0.0], [1.0], [3.0]]), 1.5).to_scipy().toarray()
        array([[0., 1., 0.], [1., 0., 0.], [0., 0., 0.]])
        """
        n = self.num_points
        return sparse.csr_array((self.distances, self.indices, self.indptr), shape=(n, n))

    def components(self) -> np.ndarray:
        """Label of the connected component of each point, ``(n,)``: 0 for that of the first point,
        and so on."""
        return host(self.labels)

    @cached_property
    def labels(self) -> Tensor:
        """Labels as a tensor: points start below their first neighbour; then trees at both ends of
        edges are joined."""
        indptr, indices, _ = self.tensors
        if indptr.device.type == "cpu":
            return torch.from_numpy(_component_labels(self.indptr, self.indices))
        parent = torch.arange(self.num_points, device=indptr.device)
        linked = indptr.diff() > 0
        first = (
            indices[indptr[:-1].clamp_max(max(self.num_edges - 1, 0))] if self.num_edges else parent
        )
        parent = _roots(torch.where(linked, torch.minimum(parent, first), parent))
        a, b = parent[self.edge_rows], parent[indices]
        while len(left := (a != b).nonzero().flatten()):
            a, b = a[left], b[left]
            parent = _roots(
                parent.scatter_reduce(0, torch.maximum(a, b), torch.minimum(a, b), "amin")
            )
            a, b = parent[a], parent[b]
        return torch.unique(parent, return_inverse=True)[1]

    def relabel(self, order: np.ndarray) -> NeighborGraph:
        """The same graph with point ``k`` renamed to ``order[k]``."""
        coo = self.to_scipy().tocoo()
        renamed = sparse.csr_array((coo.data, (order[coo.row], order[coo.col])), shape=coo.shape)
        renamed.sort_indices()
        return NeighborGraph(
            renamed.indptr.astype(np.int64), renamed.indices.astype(np.int32), renamed.data
        )


@njit(cache=True, nogil=True)
def _component_labels(indptr, indices):  # pragma: no cover - compiled
    """Join the trees of both ends of every edge; the root of a tree is its least point."""
    n = len(indptr) - 1
    parent = np.arange(n)
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            a, b = np.int64(indices[e]), np.int64(i)
            while a < b and parent[a] != parent[b]:  # the reverse edge would tell nothing new
                a, b = min(parent[a], parent[b]), max(parent[a], parent[b])
                if parent[b] == b:
                    parent[b] = a
                else:
                    parent[b] = parent[parent[b]]
    labels, count = np.empty(n, np.int64), 0
    for i in range(n):
        if parent[i] == i:
            labels[i] = count
            count += 1
        else:
            labels[i] = labels[parent[i]]
    return labels


def _roots(parent: Tensor) -> Tensor:
    """The root of every point's tree."""
    while not torch.equal(above := parent[parent], parent):
        parent = above
    return parent


def graph_from_pairs(points: np.ndarray, pairs: np.ndarray) -> NeighborGraph:
    """The graph whose edges are the given unordered pairs, each listed once."""
    n, (low, high) = len(points), pairs.T.astype(np.int32)
    ends = np.concatenate([low, high]), np.concatenate([high, low])
    matrix = sparse.coo_array((np.ones(2 * len(low), np.int8), ends), shape=(n, n)).tocsr()
    matrix.sort_indices()
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    distances = np.empty(len(indices))
    run_ranges(edge_distances, n, points, points, indptr, indices, distances)
    return NeighborGraph(indptr, indices, distances)


def check_memory(edges: float, max_memory: float | None, remedy: str, dim: int = 2) -> None:
    """Refuse a graph whose bundle of dimension ``dim`` would not fit, before anything is
    allocated."""
    require_memory(
        edges * bytes_per_edge(dim), f"a bundle with {edges:.3g} directed edges", remedy, max_memory
    )


def radius_graph(
    points: Any,
    radius: float,
    *,
    max_memory: float | None = None,
    dim: int = 2,
    rows: slice | None = None,
) -> NeighborGraph:
    """Connect every two points, of an array or a ``TensorCloud``, at distance at most ``radius``.

    The graph of consecutive ``rows`` of an array has their edges to all points.

    The number of pairs is estimated first, from a sample of points, so that a radius that needs
    more than ``max_memory`` bytes (default: 80 % of what is free) for the bundle of dimension
    ``dim`` is refused unallocated.

    >>> radius_graph(np.array([[0.0], [1.0], [3.0]]), 1.5).degrees.tolist()
    [1, 1, 0]
    """
    if not (np.isfinite(radius) and radius > 0):
        raise InvalidInputError(f"radius must be positive and finite, got {radius}.")

    def allow(edges: float) -> None:
        check_memory(edges, max_memory, "Use a smaller eps, or fewer neighbors.", dim)

    if isinstance(points, TensorCloud):
        max_memory = device_memory(points.curve_order.device) if max_memory is None else max_memory
        within = radius / points.unit
        if points.curve_order.device.type == "cuda":
            from .cuda_search import cuda_ball_edges  # there may be no Triton

            edges: Any = cuda_ball_edges(
                points, within, *near_blocks(points, within, max_memory), allow
            )
        else:
            edges = ball_edges(points.coordinates.numpy(), points.boxed.numpy(), within, allow)
        indptr, indices, distances = edges
        return NeighborGraph(indptr, indices, distances * points.unit)
    if rows is None and bytes_per_edge(dim) * float(len(points)) ** 2 > memory_limit(max_memory):
        tree = search_tree(points)
        sample = tree.data[:: max(1, len(points) // SAMPLE)]
        allow(
            (
                tree.query_ball_point(
                    sample, radius, return_length=True, workers=num_threads()
                ).mean()
                - 1
            )
            * len(points)
        )
    boxed = search_tree(points).data[:, :WIDE] if points.shape[1] > WIDE else points
    return NeighborGraph(*ball_edges(points, boxed, radius, allow, rows))


def graph_of_lists(distances: Any, indices: Any) -> NeighborGraph:
    """The directed graph of as many neighbours of each row, ``(m, k)``, arrays or tensors."""
    distances, indices = torch.as_tensor(distances), torch.as_tensor(indices)
    rows, k = indices.shape
    ends = torch.arange(rows + 1, device=indices.device) * k
    return NeighborGraph(ends, indices.flatten().int(), distances.flatten())
