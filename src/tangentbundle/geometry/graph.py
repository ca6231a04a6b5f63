"""Who is near whom: symmetric neighbour graphs in CSR form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from ..errors import InvalidInputError
from ..memory import memory_limit, require_memory
from ..parallel import run_ranges
from .balls import ball_edges
from .kernels import Kernel
from .search import SAMPLE, WIDE, edge_distances, nearest_distances, search_tree


def bytes_per_edge(dim: int) -> int:
    """Peak memory of building a bundle and its Laplacian, per directed edge (measured for d = 2, 3, 5 and 8)."""
    return 80 if dim <= 2 else 48 + 16 * dim**2


@dataclass(frozen=True)
class NeighborGraph:
    """A symmetric graph without self-loops: row ``i`` holds the sorted neighbours of point ``i``.

    Attributes: ``indptr`` (n + 1) int64, ``indices`` (e) int32, ``distances`` (e) float64.
    """

    indptr: np.ndarray
    indices: np.ndarray
    distances: np.ndarray

    @property
    def num_points(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Directed edges: each pair of neighbours counts twice."""
        return len(self.indices)

    @property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each point, ``(n,)``."""
        return np.diff(self.indptr)

    @property
    def median_degree(self) -> float:
        return float(np.median(self.degrees))

    @property
    def isolated(self) -> np.ndarray:
        """Points without neighbours."""
        return np.flatnonzero(self.degrees == 0)

    @cached_property
    def num_components(self) -> int:
        return int(self.components().max()) + 1

    @property
    def rows(self) -> np.ndarray:
        """The point each directed edge starts from, ``(e,)``."""
        return np.repeat(np.arange(self.num_points, dtype=np.int32), self.degrees)

    def ends(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two points of some edges."""
        return np.searchsorted(self.indptr, edges, side="right") - 1, self.indices[edges]

    def to_scipy(self) -> sparse.csr_array:
        """The distances as a scipy CSR array.

        >>> radius_graph(np.array([[0.0], [1.0], [3.0]]), 1.5).to_scipy().toarray()
        array([[0., 1., 0.], [1., 0., 0.], [0., 0., 0.]])
        """
        n = self.num_points
        return sparse.csr_array((self.distances, self.indices, self.indptr), shape=(n, n))

    def components(self) -> np.ndarray:
        """Label of the connected component of each point, ``(n,)``: 0 for that of the first point, and so on."""
        return self._labels

    @cached_property
    def _labels(self) -> np.ndarray:
        return _component_labels(self.indptr, self.indices)

    def relabel(self, order: np.ndarray) -> NeighborGraph:
        """The same graph with point ``k`` renamed to ``order[k]``."""
        coo = self.to_scipy().tocoo()
        renamed = sparse.csr_array((coo.data, (order[coo.row], order[coo.col])), shape=coo.shape)
        renamed.sort_indices()
        return NeighborGraph(renamed.indptr.astype(np.int64), renamed.indices.astype(np.int32), renamed.data)


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


@singledispatch
def edge_weights(graph: NeighborGraph, kernel: Kernel, radius: float | np.ndarray) -> Any:
    """The kernel at distance / radius of each edge, ``(e,)``; the radius is a number, or one a point."""
    weights = np.empty(graph.num_edges)

    def weigh(start, stop):
        weights[graph.indptr[start] : graph.indptr[stop]] = row_weights(graph, kernel, radius, start, stop)

    run_ranges(weigh, graph.num_points)
    return weights


def row_weights(graph: NeighborGraph, kernel: Kernel, radius: float | np.ndarray, start: int, stop: int) -> np.ndarray:
    """The weights of the edges of rows ``start`` to ``stop``."""
    ends = graph.indptr[start : stop + 1]
    reach = np.repeat(radius[start:stop], np.diff(ends)) if isinstance(radius, np.ndarray) else radius
    return kernel(graph.distances[ends[0] : ends[-1]] / reach)


def check_memory(edges: float, max_memory: float | None, remedy: str, dim: int = 2) -> None:
    """Refuse a graph whose bundle of dimension ``dim`` would not fit, before anything is allocated."""
    require_memory(edges * bytes_per_edge(dim), f"a bundle with {edges:.3g} directed edges", remedy, max_memory)


@singledispatch
def radius_graph(points: Any, radius: float, *, max_memory: float | None = None, dim: int = 2) -> NeighborGraph:
    """Connect every two points at distance at most ``radius``.

    The number of pairs is estimated first, from a sample of points, so that a radius that needs more than
    ``max_memory`` bytes (default: 80 % of what is free) for the bundle of dimension ``dim`` is refused unallocated.

    >>> radius_graph(np.array([[0.0], [1.0], [3.0]]), 1.5).degrees.tolist()
    [1, 1, 0]
    """
    if not (np.isfinite(radius) and radius > 0):
        raise InvalidInputError(f"radius must be positive and finite, got {radius}.")

    def allow(edges: float) -> None:
        check_memory(edges, max_memory, "Use a smaller eps, or fewer neighbors.", dim)

    if bytes_per_edge(dim) * float(len(points)) ** 2 > memory_limit(max_memory):  # else all pairs would fit
        tree = search_tree(points)
        sample = tree.data[:: max(1, len(points) // SAMPLE)]
        allow((tree.query_ball_point(sample, radius, return_length=True, workers=-1).mean() - 1) * len(points))
    boxed = search_tree(points).data[:, :WIDE] if points.shape[1] > WIDE else points
    return NeighborGraph(*ball_edges(points, boxed, radius, allow))


@singledispatch
def nearest_in_graph(points: Any, graph: NeighborGraph, k: int, rows: np.ndarray) -> tuple[Any, Any]:
    """Distances and indices ``(m, k)`` of the nearest points of some rows, where the graph of a ball may know them."""
    return nearest_distances(points, k, rows)


def nearest_graph(points: np.ndarray, rows: np.ndarray, k: int) -> NeighborGraph:
    """The directed graph from some rows to their ``k`` nearest points, nearest first."""
    return graph_of_lists(*nearest_distances(points, k, rows))


def graph_of_lists(distances: np.ndarray, indices: np.ndarray) -> NeighborGraph:
    """The directed graph of as many neighbours of each row, ``(m, k)``."""
    rows, k = indices.shape
    return NeighborGraph(np.arange(rows + 1, dtype=np.int64) * k, indices.ravel().astype(np.int32), distances.ravel())
