r"""What all partitions share (dimension and scale), then neighbours, frames, degrees and the average P of each.

Every quantity at a point is computed from the same numbers in the same order as on a single machine, so that both
agree to the last digits. Neighbours, frames and degrees of a point are computed once, by the partition that owns it;
its row of P needs those of its neighbours.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from ..errors import IsolatedPointsError, TooFewPointsError
from ..geometry.dimension import DimensionRule, resolve_dimension
from ..geometry.frames import local_pca, pca_of_nearest
from ..geometry.graph import NeighborGraph, check_memory, edge_weights, radius_graph
from ..geometry.kernels import Kernel
from ..geometry.pipeline import Scale, warn_of_duplicates
from ..geometry.scale import radius_for_neighbors, target_neighbors
from ..geometry.search import edge_distances, nearest_distances, one_search, sample_rows, search_tree
from ..geometry.transport import connect
from ..operators.assembly import average_blocks, edge_factors, refuse_faint, row_sums
from ..parallel import run_ranges
from .cloud import PartitionedCloud, load_array, save_array
from .tasks import run_all


@dataclass(frozen=True)
class Geometry:
    """Dimension, squared radii of graph and PCA, kernel and precision.

    ``rescue`` says whether points with few others in their PCA ball use their nearest ones instead.
    """

    dim: int
    eps: float
    eps_pca: float
    rescue: bool
    kernel: Kernel
    real: type

    def of(self, name: str) -> str:
        """The name of a file that depends on these settings; a folder may hold files of several."""
        return f"{name}-{hashlib.sha256(repr(self).encode()).hexdigest()[:12]}"


def resolve_geometry(
    points: np.ndarray, dim: int | DimensionRule | None, asked: Scale, kernel: Kernel, real: type, partition: int
) -> Geometry:
    """Dimension and scales as in memory; the automatic scale is not adapted to connectedness and steepness.

    A scale at which the graph of a partition would not fit in memory is refused, from a sample of points.
    """
    eps = asked.eps
    with one_search(points):
        warn_of_duplicates(points)
        d, _ = resolve_dimension(points, dim, asked.eps_pca)
        if eps is None:
            wanted = asked.neighbors or target_neighbors(len(points), d)
            eps = (radius_for_neighbors(points, wanted) * (1 + 1e-6)) ** 2
            if eps == 0.0:
                raise TooFewPointsError(f"half of the points have {wanted} or more exact duplicates; remove them.")
        eps_pca, tree = asked.eps_pca or eps * 0.5 ** (2 / d), search_tree(points)
        sample, reach = tree.data[sample_rows(len(points))], max(eps, eps_pca) ** 0.5
        near = tree.query_ball_point(sample, reach, return_length=True, workers=-1).mean() - 1
        check_memory(near * min(partition, len(points)), None, "Use a smaller eps, or smaller partitions.", d)
    return Geometry(d, eps, eps_pca, asked.eps_pca is None, kernel, real)


def build_all(cloud: PartitionedCloud, geometry: Geometry) -> None:
    """Frames and operators of all partitions."""
    arguments = [(cloud, geometry, p) for p in range(cloud.num_parts)]
    run_all(build_frames, arguments)
    refuse_faint(torch.from_numpy(cloud.joined(geometry.of("degree"))))
    run_all(build_operator, arguments)


def build_frames(cloud: PartitionedCloud, geometry: Geometry, p: int) -> None:
    """Neighbours, frames and degrees of a partition."""
    part, dim = (lambda name: cloud.part(geometry.of(name), p)), geometry.dim
    if part("degree").exists():
        return
    radius, pca_radius = np.sqrt([geometry.eps, geometry.eps_pca]).tolist()
    points, own = cloud.points, cloud.rows(p)
    graph = radius_graph(points, radius, dim=dim, rows=own)
    if isolated := len(graph.isolated):
        raise IsolatedPointsError(
            f"{isolated} of the {graph.num_points} points of partition {p} have no neighbour within sqrt(eps) = "
            f"{radius:.4g}. Use a larger eps (mind the units of the coordinates), give neighbors=..., or "
            "remove outliers."
        )
    save_array(part("indptr"), graph.indptr)
    save_array(part("neighbors"), graph.indices)
    degree = row_sums(graph.tensors[0], edge_weights(graph, geometry.kernel, radius)).numpy()
    if pca_radius > radius:
        graph = radius_graph(points, pca_radius, dim=dim, rows=own)
    pca = local_pca(points, graph, pca_radius, centers=points[own], axes=dim)
    least = min(2 * dim + 2, len(points) - 1)
    poor = pca.sparse_rows(least)
    if len(poor) and geometry.rescue:
        rows = own.start + poor
        pca.replace(poor, pca_of_nearest(points, *nearest_distances(points, least, rows), points[rows], dim))
    save_array(part("frames"), pca.frames(dim))
    save_array(part("degree"), degree)  # the last one: all are there


def build_operator(cloud: PartitionedCloud, geometry: Geometry, p: int) -> None:
    """The rows of P of a partition; columns number the points of the cloud."""
    part, own = (lambda name: cloud.part(geometry.of(name), p)), cloud.rows(p)
    if part("values").exists():
        return
    near, used = load_array(part("neighbors")), np.zeros(len(cloud.points), bool)
    used[near] = used[own] = True
    numbers, places = np.flatnonzero(used), np.cumsum(used, dtype=np.int32) - 1
    gathered = partial(cloud.gather, numbers=numbers)
    first, last = np.searchsorted(numbers, (own.start, own.stop))
    n, points, ends = len(numbers), cloud.points[numbers], load_array(part("indptr"))
    indptr = np.pad(ends, (first, n - last), mode="edge")  # points around the partition have rows without edges
    graph = NeighborGraph(indptr, places[near], np.empty(len(near)))
    run_ranges(edge_distances, n, points, points, graph.indptr, graph.indices, graph.distances)
    degrees = torch.from_numpy(gathered(geometry.of("degree")))
    weights = edge_weights(graph, geometry.kernel, float(np.sqrt(geometry.eps)))
    mass = row_sums(graph.tensors[0], weights / degrees[graph.tensors[1]]) / degrees
    connection = connect(gathered(geometry.of("frames")), graph, geometry.real)
    factors = edge_factors(graph, weights, degrees, mass)
    cols, values = average_blocks(graph, connection, factors)
    save_array(part("mass"), mass[first:last].numpy())
    save_array(part("factors"), factors[:, None, None].numpy())
    save_array(part("cols"), np.where(cols.numpy() < 0, ~near, near))  # complemented for reflections
    save_array(part("values"), values.numpy())
