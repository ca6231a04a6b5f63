"""Wider radii that join the pieces of a neighbour graph, short of other sheets of the manifold."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from ..arrays import host
from ..memory import memory_limit
from .balls import SHEET_MARGIN, STEEP_COSINE
from .cloud import PointCloud
from .graph import NeighborGraph
from .local_pca import pca_of_nearest
from .sampled_neighbors import SampledNeighbors
from .tree_search import CHUNK_ROWS

MAX_LISTED_NEIGHBORS = 1000
"""Neighbours of a point among which other sheets are looked for before a scale is widened."""

MAX_WIDENING = 2.0
"""Largest ratio of the widened radius to the automatic one."""

BYTES_PER_PAIR = 64.0
"""Memory of a pair of points that may be joined."""


def widened_radius(
    cloud: PointCloud, graph: NeighborGraph, *, radius: float, dim: int, neighbors: int
) -> float:
    """The radius that joins pieces of a graph, up to twice as large and short of other sheets.

    Points without a neighbour get one in any case, if that takes at most twice the radius.
    ``neighbors`` is the number of nearest points that tangent spaces come from.

    >>> import torch
    >>> line = PointCloud(torch.tensor([[0.0], [1.0], [2.0], [3.5], [4.5], [5.5]]))
    >>> widened_radius(line, line.within(1.0), radius=1.0, dim=1, neighbors=2)
    1.5
    """
    limit = MAX_WIDENING * radius
    nearest_sheet = sheet_distance(cloud, radius, limit, dim=dim, neighbors=neighbors)
    short_of_sheets = min(limit, SHEET_MARGIN * nearest_sheet)
    wider = radius
    if short_of_sheets > radius:
        wider = connecting_radius(cloud, graph, short_of_sheets)
    isolated = graph.isolated
    if len(isolated):
        nearest = host(cloud.nearest(1, isolated)[0])
        reachable = nearest[nearest <= limit]
        wider = max(wider, float(reachable.max(initial=0.0)))
    return wider


def connecting_radius(cloud: PointCloud, graph: NeighborGraph, within: float) -> float:
    """The least radius whose ball graph joins all pieces of a graph that radii up to ``within`` can
    join; exact.

    It is the longest edge of a minimum spanning forest of the graph and its ``bridges``.

    >>> import torch
    >>> line = PointCloud(torch.tensor([[0.0], [1.0], [3.0], [4.0]]))
    >>> [connecting_radius(line, line.within(1.0), within) for within in (1.5, 2.0)]
    [1.0, 2.0]
    """
    lengths = graph.to_scipy().copy()
    # a stored zero, of coincident points, is no edge
    lengths.data = np.maximum(lengths.data, np.finfo(float).tiny)
    links = bridges(cloud, host(graph.components), within).maximum(lengths)
    forest = csgraph.minimum_spanning_tree(links)
    return float(forest.data.max(initial=0.0))


def bridges(cloud: PointCloud, labels: np.ndarray, within: float) -> sparse.csr_array:
    """Distances ``(n, n)`` up to ``within`` between pieces, which have the ``labels`` (n,).

    They are stored in the rows of all pieces but the largest one: of all edges up to ``within``
    only these can be missing from a minimum spanning forest. Where memory would not hold them there
    are none.
    """
    shape = (len(cloud), len(cloud))
    tree = cloud.tree()
    small = np.flatnonzero(labels != np.bincount(labels).argmax())
    small_tree = cKDTree(tree.data[small])
    if BYTES_PER_PAIR * small_tree.count_neighbors(tree, within) > memory_limit():
        return sparse.csr_array(shape)
    pairs = small_tree.sparse_distance_matrix(tree, within * (1 + 1e-12), output_type="ndarray")
    rows = small[pairs["i"]]
    cols = pairs["j"]
    is_bridge = labels[rows] != labels[cols]
    ends = (rows[is_bridge], cols[is_bridge])
    return sparse.csr_array((pairs["v"][is_bridge], ends), shape=shape)


def sheet_distance(
    cloud: PointCloud, radius: float, within: float, *, dim: int, neighbors: int
) -> float:
    """The least distance, between ``radius`` and ``within``, of a sampled point to another sheet;
    infinite if none is.

    Tangent spaces are those of so many nearest neighbours.
    """
    if dim == cloud.ambient_dim:
        return np.inf
    expected_count = int(neighbors * 1.5 * (within / radius) ** dim)
    listed = min(expected_count, MAX_LISTED_NEIGHBORS, len(cloud) - 1)
    sample = SampledNeighbors.of(cloud, listed)
    is_between = (sample.distances > radius) & (sample.distances <= within)
    starts, places = np.nonzero(is_between)
    if len(starts) == 0:
        return np.inf
    distances = sample.distances[starts, places]
    ends = sample.indices[starts, places]
    is_steep = between_sheets(cloud, sample.rows[starts], ends, dim=dim, neighbors=neighbors)
    return float(distances[is_steep].min(initial=np.inf))


def between_sheets(
    cloud: PointCloud, rows: np.ndarray, cols: np.ndarray, *, dim: int, neighbors: int
) -> np.ndarray:
    """Which pairs of points ``(e,)`` lie on different sheets: their chord is steep
    (``STEEP_COSINE``) at both ends.

    Tangent spaces are those of so many nearest neighbours.
    """
    ends, places = np.unique(np.concatenate([rows, cols]), return_inverse=True)
    distances, indices = cloud.nearest(neighbors, ends)
    centers = torch.as_tensor(cloud.at(ends), device=cloud.device)
    pca = pca_of_nearest(cloud.points, distances, indices, centers, num_axes=dim)
    frames = host(pca.axes)
    row_places, col_places = np.split(places, 2)
    is_steep = np.empty(len(rows), dtype=bool)
    for start in range(0, len(rows), CHUNK_ROWS):
        pairs = slice(start, start + CHUNK_ROWS)
        chords = cloud.at(cols[pairs]) - cloud.at(rows[pairs])
        steep_at_row = is_off_tangent(chords, frames[row_places[pairs]])
        steep_at_col = is_off_tangent(chords, frames[col_places[pairs]])
        is_steep[pairs] = steep_at_row & steep_at_col
    return is_steep


def is_off_tangent(chords: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Which chords ``(e, D)`` leave the tangent spaces of ``frames`` (e, D, d) at more than 60
    degrees, ``(e,)``."""
    along = np.einsum("ea,ead->ed", chords, frames)
    return np.square(along).sum(axis=1) < STEEP_COSINE**2 * np.square(chords).sum(axis=1)
