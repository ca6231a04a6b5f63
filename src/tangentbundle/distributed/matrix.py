r"""The average P in files: dimension and scale, which all partitions share; how its rows are built,
and applied.

Every quantity at a point is computed from the same numbers in the same order as on a single
machine, so that both agree to the last digits. Neighbours, frames and degrees of a point are
computed once, by the partition that owns it; its row of P needs those of its neighbours.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch

from ..errors import IsolatedPointsError, Remedy
from ..geometry.cloud import PointCloud, first_of
from ..geometry.dimension import DimensionRule, joined_labels, resolve_dimension
from ..geometry.frames import PCASettings, neighborhood_pca
from ..geometry.graph import NeighborGraph, edge_distances
from ..geometry.kernels import Kernel
from ..geometry.scale import Scale
from ..geometry.transport import connect
from ..memory import EdgeMemory
from ..operators.assembly import average_blocks, edge_factors, refuse_faint, row_sums
from ..operators.product import step
from ..operators.storage import BlockMatrix
from ..parallel import num_threads, run_ranges
from .cloud import Geometry, PartitionedCloud, load_array, on_cluster, run_all, save_array


def resolve_geometry(
    cloud: PointCloud,
    *,
    dim: int | DimensionRule | None,
    scale: Scale,
    settings: PCASettings,
    kernel: Kernel,
    dtype: torch.dtype,
    partition: int,
) -> Geometry:
    """Dimension and scales as in memory; the automatic scale is not widened to connect the graph.

    A scale at which the graph of a partition would not fit in memory is refused, from a sample of
    points.
    """
    cloud.warn_of_duplicates()
    dim, _ = resolve_dimension(cloud, dim, settings.eps_pca)
    # not all edges have to fit in memory
    eps = scale.squared_radius(cloud, dim, max_memory=math.inf)
    geometry = Geometry(dim=dim, eps=eps, settings=settings, kernel=kernel, dtype=dtype)
    reach = max(geometry.eps, geometry.eps_pca) ** 0.5
    edges = _neighbors_within(cloud, reach) * min(partition, len(cloud))
    EdgeMemory(dim).require(edges, "Use a smaller eps, or smaller partitions.")
    return geometry


def _neighbors_within(cloud: PointCloud, radius: float) -> float:
    """Mean number of neighbours within a radius, of sampled points."""
    tree = cloud.tree()
    sample = tree.data[cloud.sample_rows().numpy()]
    counts = tree.query_ball_point(sample, radius, return_length=True, workers=num_threads())
    return float(counts.mean() - 1)


def build_all(parts: PartitionedCloud) -> None:
    """Frames and operators of all partitions."""
    arguments = [(parts, p) for p in range(parts.num_parts)]
    run_all(build_frames, arguments)
    refuse_faint(torch.from_numpy(parts.joined("degree")))
    run_all(build_operator, arguments)


def build_frames(parts: PartitionedCloud, p: int) -> None:
    """Neighbours, frames and degrees of a partition."""
    file = partial(parts.part, p=p)
    if file("degree").exists():
        return
    geometry = parts.geometry
    cloud = parts.cloud
    rows = parts.rows(p)
    radius = float(np.sqrt(geometry.eps))
    graph = cloud.within(radius, dim=geometry.dim, rows=rows)
    numbers = cloud.curve_order[rows]
    isolated = graph.isolated
    if len(isolated):
        raise IsolatedPointsError(
            f"{len(isolated)} of the {graph.num_points} points of partition {p} (first: "
            f"{first_of(isolated, numbers)[1]}, counted from 0) have no neighbour within "
            f"sqrt(eps) = {radius:.4g}.",
            Remedy(
                "Give a larger {eps}, or {neighbors}, or remove outliers. Mind the units of the "
                "coordinates.",
                eps=...,
                neighbors=...,
            ),
        )
    save_array(file("indptr"), graph.indptr.numpy())
    save_array(file("neighbors"), graph.indices.numpy())
    degree = row_sums(graph.indptr, geometry.kernel(graph.distances / radius))
    pca, _ = neighborhood_pca(
        cloud,
        graph,
        eps=geometry.eps,
        dim=geometry.dim,
        settings=geometry.settings,
        rows=rows,
    )
    save_array(file("frames"), pca.frames(geometry.dim, numbers).numpy())
    save_array(file("degree"), degree.numpy())  # the last one: all are there


def build_operator(parts: PartitionedCloud, p: int) -> None:
    """The rows of P of a partition; columns number the points of the cloud."""
    file = partial(parts.part, p=p)
    if file("values").exists():
        return
    geometry = parts.geometry
    neighborhood = _Neighborhood.of(parts, p)
    graph = neighborhood.graph
    numbers = neighborhood.numbers
    degrees = torch.from_numpy(parts.gather("degree", numbers))
    weights = geometry.kernel(graph.distances / float(np.sqrt(geometry.eps)))
    mass = row_sums(graph.indptr, weights / degrees[graph.indices]) / degrees
    frames = torch.from_numpy(parts.gather("frames", numbers))
    connection = connect(frames, graph, geometry.dtype, parts.cloud.curve_order[numbers])
    factors = edge_factors(graph, weights, degrees, mass)
    cols, values = average_blocks(graph, connection, factors)
    is_reflected = cols.numpy() < 0
    columns = load_array(file("neighbors"))
    save_array(file("mass"), mass[neighborhood.own].numpy())
    save_array(file("factors"), factors[:, None, None].numpy())
    save_array(file("cols"), np.where(is_reflected, ~columns, columns))
    save_array(file("values"), values.numpy())


@dataclass(frozen=True, eq=False)
class _Neighborhood:
    """The points of a partition and their neighbours.

    Attributes: ``numbers`` (m,) of these points in the cloud, sorted; ``own``, the rows among them
    of the partition; ``graph``, in which other points have rows without edges.
    """

    numbers: np.ndarray
    own: slice
    graph: NeighborGraph

    @classmethod
    def of(cls, parts: PartitionedCloud, p: int) -> _Neighborhood:
        """That of a partition."""
        rows = parts.rows(p)
        columns = load_array(parts.part("neighbors", p))
        is_used = np.zeros(len(parts.cloud), bool)
        is_used[columns] = True
        is_used[rows] = True
        numbers = np.flatnonzero(is_used)
        places = np.cumsum(is_used, dtype=np.int32) - 1
        first, last = np.searchsorted(numbers, (rows.start, rows.stop)).tolist()
        ends = load_array(parts.part("indptr", p))
        indptr = np.pad(ends, (first, len(numbers) - last), mode="edge")
        indices = places[columns]
        distances = np.empty(len(indices))
        points = parts.cloud.at(numbers)
        run_ranges(edge_distances, len(numbers), points, points, indptr, indices, distances)
        graph = NeighborGraph(
            indptr=torch.from_numpy(indptr),
            indices=torch.from_numpy(indices),
            distances=torch.from_numpy(distances),
        )
        return cls(numbers=numbers, own=slice(first, last), graph=graph)


def component_labels(parts: PartitionedCloud) -> np.ndarray:
    """The number of each point's component of the whole graph, ``(n,)``."""
    arguments = [(parts, p) for p in range(parts.num_parts)]
    links = np.concatenate(run_all(links_of_partition, arguments), axis=1)
    return joined_labels(links[0], links[1], len(parts.cloud))


def links_of_partition(parts: PartitionedCloud, p: int) -> np.ndarray:
    """Pairs of points ``(2, m)`` that connect what the edges of a partition connect: one for each
    point of an edge."""
    own = parts.rows(p)
    neighbors = load_array(parts.part("neighbors", p))
    degrees = np.diff(load_array(parts.part("indptr", p)))
    rows = np.repeat(np.arange(own.start, own.stop), degrees)
    numbers, places = np.unique(np.concatenate([rows, neighbors]), return_inverse=True)
    starts, ends = np.split(places, [len(rows)])
    labels = joined_labels(starts, ends, len(numbers))
    first_of_component = np.unique(labels, return_index=True)[1]
    return np.stack([numbers, numbers[first_of_component[labels]]])


FILES_OF_FIELDS = ("indptr", "cols", "values")
"""Files of the rows of P."""

FILES_OF_FUNCTIONS = ("indptr", "neighbors", "factors")
"""Files of the average of functions with the same weights."""


@dataclass(frozen=True)
class PartitionedMatrix:
    """P of fields, or the average of functions with the same weights, from the ``files`` of their
    row ends, columns and values; signals are sorted along the curve."""

    cloud: PartitionedCloud
    files: tuple[str, str, str] = FILES_OF_FIELDS

    def part(self, p: int) -> BlockMatrix:
        """The rows of a partition; its files are mapped, not read."""
        row_ends, columns, values = self.files
        own = self.cloud.rows(p)
        return BlockMatrix(
            indptr=self._mapped(row_ends, p),
            cols=self._mapped(columns, p),
            values=self._mapped(values, p),
            curve_order=torch.arange(own.start, own.stop, dtype=torch.int32),
        )

    def _mapped(self, name: str, p: int) -> torch.Tensor:
        """A file of a partition; copied on write, as torch wants writable pages."""
        return torch.from_numpy(load_array(self.cloud.part(name, p), "c"))

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
    arguments = [(p, signals, scalars) for p in range(cloud.num_parts)]
    for p, rows in enumerate(run_all(matrix.rows_of_step, arguments)):
        out[cloud.rows(p)] = rows
    signals.unlink()
