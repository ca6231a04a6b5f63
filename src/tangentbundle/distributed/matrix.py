r"""The average P in files: dimension and scale, which all partitions share; how its rows are built,
and applied.

Every quantity at a point is computed from the same numbers in the same order as on a single
machine, so that both agree to the last digits. Neighbours, frames and degrees of a point are
computed once, by the partition that owns it; its row of P needs those of its neighbours.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..errors import (
    IsolatedPointsError,
    Remedy,
    TooFewPointsError,
)
from ..geometry.dimension import DimensionRule, resolve_dimension
from ..geometry.graph import NeighborGraph, check_memory, radius_graph
from ..geometry.kernels import Kernel
from ..geometry.ordering import first_of
from ..geometry.pipeline import Scale, estimate_frames, warn_of_duplicates
from ..geometry.scale import automatic_neighbors, radius_for_neighbors
from ..geometry.search import edge_distances, one_search, sample_rows, search_tree
from ..geometry.transport import connect
from ..operators.assembly import average_blocks, edge_factors, refuse_faint, row_sums
from ..operators.product import step
from ..operators.storage import BlockMatrix
from ..parallel import num_threads, run_ranges
from .cloud import Geometry, PartitionedCloud, load_array, on_cluster, run_all, save_array


def resolve_geometry(
    points: np.ndarray,
    dim: int | DimensionRule | None,
    asked: Scale,
    kernel: Kernel,
    real: type,
    partition: int,
) -> Geometry:
    """Dimension and scales as in memory; the automatic scale is not widened to connect the graph.

    A scale at which the graph of a partition would not fit in memory is refused, from a sample of
    points.
    """
    eps = asked.eps
    with one_search(points):
        warn_of_duplicates(points)
        d, _ = resolve_dimension(points, dim, asked.eps_pca)
        if eps is None:
            wanted = asked.neighbors or automatic_neighbors(points, d)
            eps = (radius_for_neighbors(points, wanted) * (1 + 1e-6)) ** 2
            if eps == 0.0:
                raise TooFewPointsError(
                    f"half of the points have {wanted} or more exact duplicates; remove them."
                )
        eps_pca, tree = asked.eps_pca or eps * 0.5 ** (2 / d), search_tree(points)
        sample, reach = tree.data[sample_rows(points)], max(eps, eps_pca) ** 0.5
        near = (
            tree.query_ball_point(sample, reach, return_length=True, workers=num_threads()).mean()
            - 1
        )
        check_memory(
            near * min(partition, len(points)), None, "Use a smaller eps, or smaller partitions.", d
        )
    return Geometry(d, eps, eps_pca, asked, kernel, real)


def build_all(cloud: PartitionedCloud) -> None:
    """Frames and operators of all partitions."""
    arguments = [(cloud, p) for p in range(cloud.num_parts)]
    run_all(build_frames, arguments)
    refuse_faint(torch.from_numpy(cloud.joined("degree")))
    run_all(build_operator, arguments)


def build_frames(cloud: PartitionedCloud, p: int) -> None:
    """Neighbours, frames and degrees of a partition."""
    part, geometry, dim = partial(cloud.part, p=p), cloud.geometry, cloud.geometry.dim
    if part("degree").exists():
        return
    points, own, radius = cloud.points, cloud.rows(p), float(np.sqrt(geometry.eps))
    graph = radius_graph(points, radius, dim=dim, rows=own)
    if isolated := len(graph.isolated):
        raise IsolatedPointsError(
            f"{isolated} of the {graph.num_points} points of partition {p} (first: "
            f"{first_of(graph.isolated, cloud.curve_order[own])[1]}, counted from 0) have no "
            f"neighbour "
            f"within sqrt(eps) = {radius:.4g}.",
            Remedy(
                "Give a larger {eps}, or {neighbors}, or remove outliers. Mind the units of the "
                "coordinates.",
                eps=...,
                neighbors=...,
            ),
        )
    save_array(part("indptr"), graph.indptr)
    save_array(part("neighbors"), graph.indices)
    degree = row_sums(graph.tensors[0], geometry.kernel(graph.tensors[2] / radius)).numpy()
    pca, _ = estimate_frames(points, graph, geometry.eps, dim, geometry.asked, own)
    save_array(part("frames"), pca.frames(dim, cloud.curve_order[own]))
    save_array(part("degree"), degree)  # the last one: all are there


def build_operator(cloud: PartitionedCloud, p: int) -> None:
    """The rows of P of a partition; columns number the points of the cloud."""
    part, geometry, own = partial(cloud.part, p=p), cloud.geometry, cloud.rows(p)
    if part("values").exists():
        return
    near, used = load_array(part("neighbors")), np.zeros(len(cloud.points), bool)
    used[near] = used[own] = True
    numbers, places = np.flatnonzero(used), np.cumsum(used, dtype=np.int32) - 1
    first, last = np.searchsorted(numbers, (own.start, own.stop))
    n, points, ends = len(numbers), cloud.points[numbers], load_array(part("indptr"))
    indptr = np.pad(
        ends, (first, n - last), mode="edge"
    )  # points around the partition have rows without edges
    graph = NeighborGraph(indptr, places[near], np.empty(len(near)))
    run_ranges(edge_distances, n, points, points, graph.indptr, graph.indices, graph.distances)
    degrees = torch.from_numpy(cloud.gather("degree", numbers))
    weights = geometry.kernel(graph.tensors[2] / float(np.sqrt(geometry.eps)))
    mass = row_sums(graph.tensors[0], weights / degrees[graph.tensors[1]]) / degrees
    connection = connect(
        cloud.gather("frames", numbers), graph, geometry.real, cloud.curve_order[numbers]
    )
    factors = edge_factors(graph, weights, degrees, mass)
    cols, values = average_blocks(graph, connection, factors)
    save_array(part("mass"), mass[first:last].numpy())
    save_array(part("factors"), factors[:, None, None].numpy())
    save_array(
        part("cols"), np.where(cols.numpy() < 0, ~near, near)
    )  # complemented for reflections
    save_array(part("values"), values.numpy())


def component_labels(cloud: PartitionedCloud) -> np.ndarray:
    """The number of each point's component of the whole graph, ``(n,)``."""
    n = len(cloud.points)
    links = np.concatenate(
        run_all(links_of_partition, [(cloud, p) for p in range(cloud.num_parts)]), axis=1
    )
    graph = sparse.coo_array((np.ones(links.shape[1], np.int8), (links[0], links[1])), shape=(n, n))
    return connected_components(graph, directed=False)[1]


def links_of_partition(cloud: PartitionedCloud, p: int) -> np.ndarray:
    """Pairs of points ``(2, m)`` that connect what the edges of a partition connect: one for each
    point of an edge."""
    own = cloud.rows(p)
    neighbors = load_array(cloud.part("neighbors", p))
    degrees = np.diff(load_array(cloud.part("indptr", p)))
    rows = np.repeat(np.arange(own.start, own.stop), degrees)
    numbers, places = np.unique(np.concatenate([rows, neighbors]), return_inverse=True)
    ends = places[: len(rows)], places[len(rows) :]
    graph = sparse.coo_array(
        (np.ones(len(rows), np.int8), ends), shape=(len(numbers), len(numbers))
    )
    _, labels = connected_components(graph, directed=False)
    _, first = np.unique(labels, return_index=True)
    return np.stack([numbers, numbers[first[labels]]])


@dataclass(frozen=True)
class PartitionedMatrix:
    """P of fields, or the average of ``functions`` with the same weights; signals are sorted along
    the curve."""

    cloud: PartitionedCloud
    functions: bool = False

    def part(self, p: int) -> BlockMatrix:
        """The rows of a partition; its files are mapped, not read."""
        names = (
            ("indptr", "neighbors", "factors") if self.functions else ("indptr", "cols", "values")
        )
        files = (load_array(self.cloud.part(name, p), "c") for name in names)
        indptr, cols, values = map(
            torch.from_numpy, files
        )  # copied on write: torch wants writable pages
        own = self.cloud.rows(p)
        return BlockMatrix(
            indptr, cols, values, torch.arange(own.start, own.stop, dtype=torch.int32)
        )

    @cached_property
    def parts(self) -> list[BlockMatrix]:
        """All partitions, mapped once: of a process's pages the system drops those that do not fit
        in memory."""
        return [self.part(p) for p in range(self.cloud.num_parts)]

    def rows_of_step(
        self, p: int, signals: Path, scalars: tuple[float, float, float]
    ) -> torch.Tensor:
        """The rows of a partition of a step, from the file of its signals x and z."""
        x, z = torch.from_numpy(load_array(signals, "c"))
        out = torch.empty_like(x)
        step(self.part(p), x, z, out, scalars)
        return out[self.cloud.rows(p)].clone()


@step.register
def _step_in_parts(
    matrix: PartitionedMatrix, x, z, out, scalars, sources=None, targets=None
) -> None:
    """On this machine the threads share a partition; on a cluster the signals are in a file of the
    folder meanwhile."""
    if not on_cluster():
        for part in matrix.parts:
            step(part, x, z, out, scalars, sources, targets)
        return
    cloud = matrix.cloud
    signals = cloud.folder / f"signal-{uuid.uuid4().hex}.npy"
    np.save(signals, np.stack([x, z]))  # no worker looks for it yet
    for p, rows in enumerate(
        run_all(matrix.rows_of_step, [(p, signals, scalars) for p in range(cloud.num_parts)])
    ):
        out[cloud.rows(p)] = rows
    signals.unlink()
