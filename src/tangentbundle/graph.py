"""Who is near whom: symmetric neighbour graphs in CSR form, from a k-d tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from .errors import InvalidInputError, MemoryLimitError, TooFewPointsError
from .jit import njit
from .ordering import principal_coordinates
from .parallel import run_ranges

BYTES_PER_EDGE = 80
"""Peak memory of building a d = 2 bundle, per directed edge (measured)."""

WIDE = 8
"""Ambient dimensions above this are searched in principal coordinates."""

SAMPLE = 2000
"""Points looked at when a number of edges, a scale or a dimension is estimated."""


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
    def rows(self) -> np.ndarray:
        """The point each directed edge starts from, ``(e,)``."""
        return np.repeat(np.arange(self.num_points, dtype=np.int32), self.degrees)

    def to_scipy(self) -> sparse.csr_array:
        """The distances as a scipy CSR array.

        >>> radius_graph(np.array([[0.0], [1.0], [3.0]]), 1.5).to_scipy().toarray()
        array([[0., 1., 0.], [1., 0., 0.], [0., 0., 0.]])
        """
        n = self.num_points
        return sparse.csr_array((self.distances, self.indices, self.indptr), shape=(n, n))

    def components(self) -> np.ndarray:
        """Label of the connected component of each point, ``(n,)``."""
        links = sparse.csr_array(
            (np.ones(self.num_edges), self.indices, self.indptr),
            shape=(self.num_points, self.num_points),
        )
        # every edge has its reverse: strong components are the components, and are found without a transposition
        return csgraph.connected_components(links, connection="strong")[1]

    def relabel(self, order: np.ndarray) -> NeighborGraph:
        """The same graph with point ``k`` renamed to ``order[k]``."""
        coo = self.to_scipy().tocoo()
        renamed = sparse.csr_array((coo.data, (order[coo.row], order[coo.col])), shape=coo.shape)
        renamed.sort_indices()
        return NeighborGraph(renamed.indptr.astype(np.int64), renamed.indices.astype(np.int32), renamed.data)


@njit(cache=True, nogil=True)
def _symmetric_csr(pairs, n):  # pragma: no cover - compiled
    """Pairs (i, j) to a symmetric CSR with sorted rows, by counting and one transposition."""
    counts = np.zeros(n + 1, np.int64)
    for p in range(pairs.shape[0]):
        counts[pairs[p, 0] + 1] += 1
        counts[pairs[p, 1] + 1] += 1
    indptr = np.cumsum(counts)
    fill = indptr[:-1].copy()
    loose = np.empty(indptr[n], np.int32)
    for p in range(pairs.shape[0]):
        i, j = pairs[p, 0], pairs[p, 1]
        loose[fill[i]] = j
        fill[i] += 1
        loose[fill[j]] = i
        fill[j] += 1
    fill = indptr[:-1].copy()
    indices = np.empty_like(loose)
    for i in range(n):  # the pattern is symmetric, so its transpose is itself, with sorted rows
        for e in range(indptr[i], indptr[i + 1]):
            j = loose[e]
            indices[fill[j]] = i
            fill[j] += 1
    return indptr, indices


@njit(cache=True, nogil=True)
def _edge_distances(start, stop, centers, points, indptr, indices, out):  # pragma: no cover - compiled
    dims = points.shape[1]
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            total = 0.0
            for a in range(dims):
                step = centers[i, a] - points[j, a]
                total += step * step
            out[e] = np.sqrt(total)


def graph_from_pairs(points: np.ndarray, pairs: np.ndarray) -> NeighborGraph:
    """Build the graph whose edges are the given unordered pairs, each listed once."""
    indptr, indices = _symmetric_csr(pairs, len(points))
    distances = np.empty(len(indices))
    run_ranges(_edge_distances, len(points), points, points, indptr, indices, distances)
    return NeighborGraph(indptr, indices, distances)


def search_tree(points: np.ndarray) -> cKDTree:
    """A k-d tree of the points; above ``WIDE`` dimensions of their principal coordinates (``tree.data``).

    Turning the cloud keeps all distances and lets the tree split where the points spread.
    """
    coordinates = principal_coordinates(points) if points.shape[1] > WIDE else points
    return cKDTree(coordinates, balanced_tree=False, compact_nodes=False)


def check_memory(edges: float, max_memory: float | None, remedy: str) -> None:
    """Refuse a graph that would not fit, before anything is allocated."""
    import psutil  # only here: a machine without it can still run what was built elsewhere

    limit = 0.8 * psutil.virtual_memory().available if max_memory is None else max_memory
    need = edges * BYTES_PER_EDGE
    if need > limit:
        raise MemoryLimitError(
            f"this graph would have {edges:.3g} directed edges and need about {need / 1e9:.3g} GB; "
            f"the limit is {limit / 1e9:.3g} GB. {remedy}"
        )


def radius_graph(points: np.ndarray, radius: float, *, max_memory: float | None = None) -> NeighborGraph:
    """Connect every two points at distance at most ``radius``.

    The pairs come from a dual-tree search; their number is estimated first, from a sample of points, so that a
    radius that needs more than ``max_memory`` bytes (default: 80 % of what is free) is refused unallocated.

    >>> radius_graph(np.array([[0.0], [1.0], [3.0]]), 1.5).degrees.tolist()
    [1, 1, 0]
    """
    if not (np.isfinite(radius) and radius > 0):
        raise InvalidInputError(f"radius must be positive and finite, got {radius}.")
    tree = search_tree(points)
    sample = tree.data[:: max(1, len(points) // SAMPLE)]
    degree = tree.query_ball_point(sample, radius, return_length=True, workers=-1).mean() - 1
    check_memory(degree * len(points), max_memory, "Use a smaller eps, or fewer neighbors.")
    return graph_from_pairs(points, tree.query_pairs(radius, output_type="ndarray"))


def nearest_distances(points: np.ndarray, k: int, queries: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices ``(q, k)`` of the k nearest *other* points of each query point.

    ``queries`` are rows of ``points`` (default: all of them).
    """
    if k >= len(points):
        raise TooFewPointsError(
            f"{k} neighbours of each point were asked for, but there are only {len(points)} points. "
            "Give more points or ask for fewer neighbours."
        )
    rows = np.arange(len(points)) if queries is None else queries
    tree = search_tree(points)
    distances, indices = tree.query(tree.data[rows], k=k + 1, workers=-1)
    found_self = indices == rows[:, None]
    found_self[~found_self.any(axis=1), -1] = True  # among exact duplicates the point may be absent
    indices = indices[~found_self]
    if points.shape[1] <= WIDE:
        return distances[~found_self].reshape(-1, k), indices.reshape(-1, k)
    distances = np.empty(len(indices))  # those of the tree are rounded: coincident points must have distance zero
    starts = np.arange(len(rows) + 1, dtype=np.int64) * k
    run_ranges(_edge_distances, len(rows), points[rows], points, starts, indices, distances)
    return distances.reshape(-1, k), indices.reshape(-1, k)


def knn_graph(points: np.ndarray, k: int, *, max_memory: float | None = None) -> NeighborGraph:
    """Connect each point to its ``k`` nearest; symmetric: an edge exists if either end wants it.

    >>> knn_graph(np.array([[0.0], [1.0], [3.0]]), 1).degrees.tolist()
    [1, 2, 1]
    """
    if k < 1:
        raise InvalidInputError(f"k must be at least 1, got {k}.")
    check_memory(2.0 * k * len(points), max_memory, "Ask for fewer neighbors.")
    _, indices = nearest_distances(points, k)
    first, second = np.repeat(np.arange(len(points)), k), indices.ravel()
    keys = np.unique(np.minimum(first, second) * len(points) + np.maximum(first, second))
    return graph_from_pairs(points, np.stack(np.divmod(keys, len(points)), axis=1))


def nearest_graph(points: np.ndarray, rows: np.ndarray, k: int) -> NeighborGraph:
    """The directed graph from some rows to their ``k`` nearest points, nearest first."""
    distances, indices = nearest_distances(points, k, rows)
    indptr = np.arange(len(rows) + 1, dtype=np.int64) * k
    return NeighborGraph(indptr, indices.ravel().astype(np.int32), distances.ravel())
