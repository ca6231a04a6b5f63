r"""What all partitions share (dimension and scale), then neighbours, frames, degrees and the average P of each.

Every quantity at a point is computed from the same numbers in the same order as on a single machine, so that both
agree to the last digits. What is global is the scale. Neighbours, frames and degrees of a point are computed once, by
the partition that owns it, from the points within one radius; its row of P needs those of its neighbours.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..arrays import positive_integer
from ..errors import DuplicatePointsWarning, InvalidInputError, IsolatedPointsError, TooFewPointsError
from ..geometry.dimension import SIZES, DimensionRule, WidestGap
from ..geometry.frames import local_pca
from ..geometry.graph import NeighborGraph, edge_weights, radius_graph
from ..geometry.kernels import Gaussian, Kernel
from ..geometry.pipeline import Scale
from ..geometry.scale import target_neighbors
from ..geometry.search import edge_distances, sample_rows, sample_step
from ..geometry.transport import Connection, connect
from ..operators.assembly import FAINT, average_blocks, edge_factors, row_sums
from ..parallel import run_ranges
from .cloud import SLACK, Cloud
from .files import load_array, save_array
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

    @property
    def radius(self) -> float:
        return float(np.sqrt(self.eps))

    def of(self, name: str) -> str:
        """The name of a file that depends on these settings; a folder may hold files of several."""
        return f"{name}-{hashlib.sha256(repr(self).encode()).hexdigest()[:12]}"


def resolve_geometry(
    cloud: Cloud, dim: int | DimensionRule | None, asked: Scale, kernel: Kernel | None, dtype: np.dtype
) -> Geometry:
    """Dimension and scales, from the nearest neighbours of the same sample of points as in memory."""
    n, dims = cloud.rows, cloud.boxes.shape[2]
    rule: Any = WidestGap() if dim is None else dim
    estimated = isinstance(rule, WidestGap)
    if isinstance(rule, DimensionRule) and not estimated:
        raise InvalidInputError(f"a distributed cloud takes dim=WidestGap() or a number, got {dim!r}.")
    if not estimated and not 1 <= positive_integer(rule, "dim") <= dims:
        raise InvalidInputError(f"dim must be an integer from 1 to the ambient dimension {dims}, got {dim!r}.")
    sizes = [k for k in SIZES if k <= n // 4] or [n - 1]
    most = 1
    if asked.eps is None:
        most = asked.neighbors or target_neighbors(n, min(dims, 8) if estimated else rule)
    most = max(most, *sizes) if estimated else most
    if most >= n:
        raise TooFewPointsError(f"{most} neighbours a point need at least {most + 1} points, got {n}.")
    rows = sample_rows(n)
    found = run_all(cloud.nearest_others, [(rows[part], most) for _, part in cloud.parts_of(rows)])
    distances, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
    if same := int((distances[:, 0] == 0).sum()):
        text = f"{same} of {len(rows)} points looked at have an exact duplicate."
        warnings.warn(text, DuplicatePointsWarning, stacklevel=4)
    if estimated:
        centers = cloud.gather("points", rows)
        near = ((k, cloud.nearest_pca(centers, distances[:, :k], numbers[:, :k], axes=0)) for k in sizes)
        rule = rule.combine(rule.compare((k, pca.variances) for k, pca in near))
    eps = asked.eps
    if eps is None:
        wanted = asked.neighbors or target_neighbors(n, rule)
        eps = (float(np.median(distances[:: sample_step(n, wanted), wanted - 1])) * (1 + 1e-6)) ** 2
        if eps == 0.0:
            raise TooFewPointsError(f"half of the points have {wanted} or more exact duplicates; remove them.")
    return Geometry(
        dim=int(rule),
        eps=eps,
        eps_pca=asked.eps_pca or eps * 0.5 ** (2 / rule),
        rescue=asked.eps_pca is None,
        kernel=Gaussian() if kernel is None else kernel,
        real=np.float32 if dtype == np.float32 else np.float64,
    )


def build_all(cloud: Cloud, geometry: Geometry) -> int:
    """Frames and operators of all partitions; returns the number of edges."""
    parts = range(cloud.num_parts)
    edges, degrees = zip(*run_all(build_frames, [(cloud, geometry, p) for p in parts]), strict=True)
    run_all(build_operator, [(cloud, geometry, p, float(np.median(degrees))) for p in parts])
    return sum(edges)


def build_frames(cloud: Cloud, geometry: Geometry, p: int) -> tuple[int, float]:
    """Neighbours, frames and degrees of a partition; returns its number of edges and its median degree."""
    part, name = cloud.part, geometry.of
    if not part(name("degree"), p).exists():
        numbers, points = cloud.surrounded(p, float(np.sqrt(max(geometry.eps, geometry.eps_pca))) * SLACK)
        inside = cloud.inside(p, numbers)
        graph = rows_of(radius_graph(points, geometry.radius), inside)
        if isolated := int((graph.degrees == 0).sum()):
            raise IsolatedPointsError(
                f"{isolated} of the {graph.num_points} points of partition {p} have no neighbour within sqrt(eps) = "
                f"{geometry.radius:.4g}. Use a larger eps (mind the units of the coordinates), give neighbors=..., or "
                "remove outliers."
            )
        save_array(part(name("counts"), p), graph.degrees)
        save_array(part(name("neighbors"), p), numbers.astype(np.min_scalar_type(-cloud.rows))[graph.indices])
        degree = row_sums(graph.tensors[0], edge_weights(graph, geometry.kernel, geometry.radius)).numpy()
        if geometry.eps_pca > geometry.eps:
            graph = rows_of(radius_graph(points, float(np.sqrt(geometry.eps_pca))), inside)
        centers = points[inside]
        pca = local_pca(points, graph, float(np.sqrt(geometry.eps_pca)), centers=centers, axes=geometry.dim)
        least = min(2 * geometry.dim + 2, cloud.rows - 1)
        poor = np.flatnonzero(pca.counts < least)
        if len(poor) and geometry.rescue:  # their nearest points, however far: even beyond the halo
            nearest = cloud.nearest_others(numbers[inside][poor], least)
            pca.replace(poor, cloud.nearest_pca(centers[poor], *nearest, axes=geometry.dim))
        save_array(part(name("frames"), p), pca.frames(geometry.dim))
        save_array(part(name("degree"), p), degree)  # the last one: all are there
    return len(load_array(part(name("neighbors"), p))), float(np.median(load_array(part(name("degree"), p))))


def rows_of(graph: NeighborGraph, rows: slice) -> NeighborGraph:
    """Consecutive rows of a graph; columns are numbered as before."""
    ends = graph.indptr[rows.start : rows.stop + 1]
    edges = slice(ends[0], ends[-1])
    return NeighborGraph(ends - ends[0], graph.indices[edges], graph.distances[edges])


def build_operator(cloud: Cloud, geometry: Geometry, p: int, median_degree: float) -> None:
    """The rows of P of a partition; columns are places among the sorted ``numbers`` of its points and those around."""
    part, name = cloud.part, geometry.of
    if part(name("fields-values"), p).exists():
        return
    near, places = load_array(part(name("neighbors"), p)), np.full(cloud.rows, -1, np.int32)
    places[cloud.offsets[p] : cloud.offsets[p + 1]] = 0
    places[near] = 0
    numbers = np.flatnonzero(places == 0)
    places[numbers] = np.arange(len(numbers))
    n, points, inside = len(numbers), cloud.gather("points", numbers), cloud.inside(p, numbers)
    counts = np.zeros(n + 1, np.int64)
    counts[1:][inside] = load_array(part(name("counts"), p))
    graph = NeighborGraph(np.cumsum(counts), places[near], np.empty(len(near)))
    run_ranges(edge_distances, n, points, points, graph.indptr, graph.indices, graph.distances)
    degree = cloud.gather(name("degree"), numbers)
    if faint := int((~(degree[inside] > FAINT * median_degree)).sum()):
        raise IsolatedPointsError(
            f"the kernel gives {faint} points of partition {p} no weight to speak of: their neighbours lie at the rim "
            "of its support. Use a larger eps, more neighbors, or a kernel that falls off less steeply."
        )
    weights, degrees = edge_weights(graph, geometry.kernel, geometry.radius), torch.from_numpy(degree)
    mass = row_sums(graph.tensors[0], weights / degrees[graph.tensors[1]]) / degrees
    mass[: inside.start] = mass[inside.stop :] = 1.0  # rows without edges
    line = Connection.identity(graph.num_edges)
    connection = connect(cloud.gather(name("frames"), numbers), graph, geometry.real)
    arrays = {"numbers": numbers, "mass": mass[inside].numpy(), "indptr": graph.indptr}
    for key, array in arrays.items():
        save_array(part(name(key), p), array)
    factors = edge_factors(graph, weights, degrees, mass)
    for kind, maps in (("functions", line), ("fields", connection)):
        for key, tensor in zip(("cols", "values"), average_blocks(graph, maps, factors), strict=True):
            save_array(part(name(f"{kind}-{key}"), p), tensor.numpy())
