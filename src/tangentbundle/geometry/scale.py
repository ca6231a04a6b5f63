r"""Automatic scales: accurate spectrum first, connected graph second.

Two errors oppose each other (measured on spheres, figure in docs/theory/scale.md). The kernel
average differs from the Laplacian by a relative :math:`O(\epsilon)`, and the k random neighbours in a
ball make an uneven medium that conducts less than the even one by :math:`O(1/k)`. With
:math:`\epsilon \propto (k/n)^{2/d}` both are equal at :math:`k \propto n^{2/(d+2)}`.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from ..errors import TooFewPointsError
from ..memory import memory_limit
from .graph import NeighborGraph
from .search import MIN_SAMPLED_NEIGHBORS, SAMPLE, nearest_distances, sample_rows, sampled_nearest, search_tree

MAX_NEIGHBORS = 160
"""Cap on the automatic number of neighbours: keeps the cost linear in n (error floor below 1 %)."""

LARGE_CLOUD, MAX_EDGES, MIN_NEIGHBORS = 400_000, 40_000_000, 24
"""Above so many points, so many edges are affordable, but at least so many neighbours: 3.2 GB for a million points."""


def target_neighbors(n: int, d: int) -> int:
    r"""Neighbours in a ball at the automatic scale: :math:`0.29 \cdot 2^d\, n^{2/(d+2)}`, clipped.

    >>> [target_neighbors(n, 2) for n in (100, 5000, 20000)]
    [12, 82, 160]
    """
    wish = round(0.29 * 2**d * n ** (2 / (d + 2)))
    return min(max(wish, least_neighbors(n, d)), MAX_NEIGHBORS, n - 1)


def affordable_neighbors(n: int) -> int | None:
    """Neighbours with which a large cloud fits a laptop, where the automatic number does not; None for others.

    >>> affordable_neighbors(100_000), affordable_neighbors(1_000_000)
    (None, 40)
    """
    return max(MIN_NEIGHBORS, MAX_EDGES // n) if n > LARGE_CLOUD else None


def least_neighbors(n: int, d: int) -> int:
    """Fewest neighbours an automatic scale goes down to."""
    return min(4 * (d + 1), n - 1)


def radius_for_neighbors(points: np.ndarray, k: int) -> float:
    """The radius within which the median point has ``k`` neighbours.

    >>> radius_for_neighbors(np.arange(100.0)[:, None], 2)
    1.0
    """
    if len(points) <= k:
        raise TooFewPointsError(f"{k} neighbours per point need at least {k + 1} points, got {len(points)}.")
    if len(points) <= SAMPLE or k < 2 * MIN_SAMPLED_NEIGHBORS:
        return float(np.median(sampled_nearest(points, k)[0][:, -1]))
    rows = sample_rows(len(points))[:: k // MIN_SAMPLED_NEIGHBORS]  # distances of the k-th vary as the root of 1/k
    return float(np.median(nearest_distances(points, k, rows)[0][:, -1]))


def connecting_radius(points: np.ndarray, graph: NeighborGraph, within: float) -> float:
    """The least radius whose ball graph is connected, infinite if it is larger than ``within``; exact.

    It is the longest edge of a minimum spanning tree. Of all edges up to ``within`` only those that leave one of the
    smaller components of the graph can be missing from it. (Infinite, too, where memory would not hold them.)

    >>> from tangentbundle.geometry.graph import radius_graph
    >>> line = np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> [connecting_radius(line, radius_graph(line, 1.0), within) for within in (1.5, 2.0)]
    [inf, 2.0]
    """
    labels, tree = graph.components(), search_tree(points)
    small = np.flatnonzero(labels != np.bincount(labels).argmax())
    some = cKDTree(tree.data[small])
    if 64.0 * some.count_neighbors(tree, within) > memory_limit():
        return np.inf
    near = some.sparse_distance_matrix(tree, within * (1 + 1e-12), output_type="ndarray")
    near = near[labels[small[near["i"]]] != labels[near["j"]]]
    ends = small[near["i"]], near["j"]
    bridges = sparse.csr_array((near["v"], ends), shape=(len(points),) * 2)
    lengths = graph.to_scipy().copy()
    lengths.data = np.maximum(lengths.data, np.finfo(float).tiny)  # a stored zero, of coincident points, is no edge
    links = bridges.maximum(lengths)
    if csgraph.connected_components(links, directed=False)[0] > 1:
        return np.inf
    return float(csgraph.minimum_spanning_tree(links).data.max())
