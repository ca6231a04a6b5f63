r"""What all partitions share (dimension, scale, width of the halo), then frames, degrees and the average P of each.

Every quantity at a point is computed from the same numbers in the same order as on a single machine, so that both
agree to the last digits. What is global is the scale; degrees :math:`\deg_i` need the points within one radius r of a
partition, masses :math:`m_i = \sum_j w_{ij}/(\deg_i \deg_j)` those within two. Frames and degrees are computed once,
by the partition that owns the point, and read by others: their signs agree.

With a halo of :math:`s` radii, rows of P up to :math:`(s - 1) r` away are complete, and :math:`s` consecutive products
need no exchange: each makes the outermost ring invalid.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from math import gamma
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
from ..geometry.search import sample_rows
from ..geometry.transport import connect
from ..operators.assembly import FAINT, average_blocks, row_sums
from ..operators.storage import BlockMatrix
from ..parallel import run_ranges
from .cloud import SLACK, Cloud
from .files import load_array, save_array
from .tasks import run_all


@dataclass(frozen=True)
class Geometry:
    """Dimension, squared radii of graph and PCA, kernel, precision, and the halo's width in radii (``rings``).

    ``rescue`` says whether points with few others in their PCA ball use their nearest ones instead.
    """

    dim: int
    eps: float
    eps_pca: float
    rescue: bool
    kernel: Kernel
    real: type
    rings: int = 0

    @property
    def radius(self) -> float:
        return float(np.sqrt(self.eps))

    def of_frames(self, name: str) -> str:
        """The name of a file that depends on the frames' settings; a folder may hold files of several settings."""
        return f"{name}-{_digest(replace(self, rings=0))}"

    def of_operator(self, name: str) -> str:
        """The name of a file that depends on all settings."""
        return f"{name}-{_digest(self)}"


def _digest(settings: Geometry) -> str:
    return hashlib.sha256(repr(settings).encode()).hexdigest()[:12]


def resolve_geometry(
    cloud: Cloud, dim: int | DimensionRule | None, asked: Scale, kernel: Kernel | None, dtype: np.dtype
) -> Geometry:
    """Dimension and scales, from the nearest neighbours of the same sample of points as in memory."""
    n, dims, rule = cloud.rows, cloud.ambient_dim, WidestGap() if dim is None else dim
    if isinstance(rule, DimensionRule) and not isinstance(rule, WidestGap):
        raise InvalidInputError(f"a distributed cloud takes dim=WidestGap() or a number, got {dim!r}.")
    if not isinstance(rule, WidestGap) and not 1 <= positive_integer(rule, "dim") <= dims:
        raise InvalidInputError(f"dim must be an integer from 1 to the ambient dimension {dims}, got {dim!r}.")
    sizes = [k for k in SIZES if k <= n // 4] or [n - 1]
    most = 1
    if asked.eps is None:
        most = asked.neighbors or target_neighbors(n, min(dims, 8) if isinstance(rule, WidestGap) else rule)
    if isinstance(rule, WidestGap):
        most = max(most, *sizes)
    if most >= n:
        raise TooFewPointsError(f"{most} neighbours a point need at least {most + 1} points, got {n}.")
    rows = sample_rows(n)
    found = run_all(cloud.nearest_others, [(rows[part], most) for _, part in cloud.parts_of(rows)])
    distances, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
    same = int((distances[:, 0] == 0).sum())
    if same:
        warnings.warn(
            f"{same} of {len(rows)} points looked at have an exact duplicate.", DuplicatePointsWarning, stacklevel=4
        )
    if isinstance(rule, WidestGap):
        centers = cloud.gather("points", rows)
        near = ((k, cloud.nearest_pca(centers, distances[:, :k], numbers[:, :k], axes=0)) for k in sizes)
        d = rule.combine(rule.compare((k, pca.variances) for k, pca in near))
    else:
        d = int(rule)
    eps = asked.eps
    if eps is None:
        wanted = asked.neighbors or target_neighbors(n, d)
        eps = (float(np.median(distances[:, wanted - 1])) * (1 + 1e-6)) ** 2
        if eps == 0.0:
            raise TooFewPointsError(f"half of the points have {wanted} or more exact duplicates; remove them.")
    return Geometry(
        dim=d,
        eps=eps,
        eps_pca=asked.eps_pca or eps * 0.5 ** (2 / d),
        rescue=asked.eps_pca is None,
        kernel=Gaussian() if kernel is None else kernel,
        real=np.float32 if dtype == np.float32 else np.float64,
    )


def halo_rings(dim: int, points: float, neighbors: float, overlap: float = 0.25, most: int = 12) -> int:
    r"""The halo's width in radii, from 2 to ``most``, with which it adds about the share ``overlap`` to a partition.

    A partition is about :math:`(n\,v/k)^{1/d}` radii wide, v the volume of the unit ball.

    >>> halo_rings(2, 500_000, 24), halo_rings(3, 500_000, 40), halo_rings(2, 1000, 24)
    (12, 2, 2)
    """
    ball = np.pi ** (dim / 2) / gamma(dim / 2 + 1)
    width = (points * ball / neighbors) ** (1 / dim)
    return int(np.clip(width * ((1 + overlap) ** (1 / dim) - 1) / 2, 2, most))


def build_all(cloud: Cloud, geometry: Geometry, rings: int | None) -> dict[str, Any]:
    """Frames and operators of all partitions; returns the fields of ``DistributedBundle`` that follow from them."""
    parts, rows = range(cloud.num_parts), cloud.rows
    edges, degrees, counts = zip(*run_all(build_frames, [(cloud, geometry, p) for p in parts]), strict=True)
    automatic = halo_rings(geometry.dim, rows / len(parts), sum(edges) / rows)
    geometry = replace(geometry, rings=automatic if rings is None else positive_integer(rings, "rings"))
    degree = float(np.median(degrees))
    halos = run_all(build_operator, [(cloud, geometry, p, degree) for p in parts])
    neighbors = max(int(np.median(counts)), 2 * geometry.dim + 2)
    return {"geometry": geometry, "halo": sum(halos) / rows, "neighbors": neighbors, "edges": sum(edges)}


def rows_of(graph: NeighborGraph, rows: slice) -> NeighborGraph:
    """Consecutive rows of a graph; columns are numbered as before."""
    ends = graph.indptr[rows.start : rows.stop + 1]
    edges = slice(ends[0], ends[-1])
    return NeighborGraph(ends - ends[0], graph.indices[edges], graph.distances[edges])


def build_frames(cloud: Cloud, geometry: Geometry, p: int) -> tuple[int, float, float]:
    """Frames and degrees of a partition; returns its edges, and medians of degrees and of points in the PCA balls."""
    part, name = cloud.part, geometry.of_frames
    summary = part(name("summary"), p)
    if not summary.exists():
        near = cloud.surrounded(p, float(np.sqrt(max(geometry.eps, geometry.eps_pca))) * SLACK)
        graph = rows_of(radius_graph(near.points, geometry.radius), near.inside)
        isolated = int((graph.degrees == 0).sum())
        if isolated:
            raise IsolatedPointsError(
                f"{isolated} of the {graph.num_points} points of partition {p} have no neighbour within sqrt(eps) = "
                f"{geometry.radius:.4g}. Use a larger eps (mind the units of the coordinates), give neighbors=..., or "
                "remove outliers."
            )
        degree = np.empty(graph.num_points)
        weights = edge_weights(graph, geometry.kernel, geometry.radius)
        ones = np.ones(len(near.points))
        run_ranges(row_sums, graph.num_points, graph.indptr, graph.indices, weights, ones, degree)
        edges = graph.num_edges
        if geometry.eps_pca > geometry.eps:
            graph = rows_of(radius_graph(near.points, float(np.sqrt(geometry.eps_pca))), near.inside)
        centers = near.points[near.inside]
        pca = local_pca(near.points, graph, float(np.sqrt(geometry.eps_pca)), centers=centers, axes=geometry.dim)
        least = min(2 * geometry.dim + 2, cloud.rows - 1)
        poor = np.flatnonzero(pca.counts < least)
        if len(poor) and geometry.rescue:  # their nearest points, however far: even beyond the halo
            nearest = cloud.nearest_others(near.numbers[near.inside][poor], least)
            pca.replace(poor, cloud.nearest_pca(centers[poor], *nearest, axes=geometry.dim))
        save_array(part(name("frames"), p), pca.frames(geometry.dim))
        save_array(part(name("degree"), p), degree)
        save_array(summary, np.array([edges, np.median(degree), np.median(pca.counts)]))
    total, middle, count = load_array(summary)
    return int(total), float(middle), float(count)


def build_operator(cloud: Cloud, geometry: Geometry, p: int, median_degree: float) -> int:
    """The rows of P that a partition needs; returns the size of its halo."""
    part, name, frames = cloud.part, geometry.of_operator, geometry.of_frames
    if not part(name("values"), p).exists():
        near = cloud.surrounded(p, geometry.rings * geometry.radius * SLACK)
        degree = cloud.gather(frames("degree"), near.numbers)
        faint = int((~(degree[near.inside] > FAINT * median_degree)).sum())
        if faint:
            raise IsolatedPointsError(
                f"the kernel gives {faint} points of partition {p} no weight to speak of: their neighbours lie at the "
                "rim of its support. Use a larger eps, more neighbors, or a kernel that falls off less steeply."
            )
        complete = near.away <= (geometry.rings - 1) * geometry.radius
        graph = only_rows(radius_graph(near.points, geometry.radius), complete)
        weights = edge_weights(graph, geometry.kernel, geometry.radius)
        mass = np.empty(len(degree))
        run_ranges(row_sums, len(degree), graph.indptr, graph.indices, weights, 1.0 / degree, mass)
        mass[~complete] = 1.0
        connection = connect(cloud.gather(frames("frames"), near.numbers), graph, geometry.real)
        cols, values = average_blocks(graph, connection, weights, degree, mass, geometry.real)
        arrays = {"numbers": near.numbers, "mass": mass[near.inside], "indptr": graph.indptr}
        for key, array in (arrays | {"cols": cols, "values": values}).items():
            save_array(part(name(key), p), array)
    return len(load_array(part(name("numbers"), p))) - len(load_array(part(name("mass"), p)))


def only_rows(graph: NeighborGraph, chosen: np.ndarray) -> NeighborGraph:
    """The graph with the edges of chosen rows ``(n,)`` only."""
    edges = np.repeat(chosen, graph.degrees)
    indptr = np.concatenate([[0], np.cumsum(np.where(chosen, graph.degrees, 0))])
    return NeighborGraph(indptr.astype(np.int64), graph.indices[edges], graph.distances[edges])


def matrix_of(cloud: Cloud, geometry: Geometry, p: int) -> BlockMatrix:
    """The rows of P of a partition and its halo."""
    files = (cloud.part(geometry.of_operator(name), p) for name in ("indptr", "cols", "values"))
    indptr, cols, values = (np.load(file, mmap_mode="c") for file in files)  # private pages: torch wants writable ones
    order = torch.arange(len(indptr) - 1, dtype=torch.int32)
    return BlockMatrix(torch.from_numpy(indptr), torch.from_numpy(cols), torch.from_numpy(values), order)
