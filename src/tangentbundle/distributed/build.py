r"""What all partitions share (dimension, scale, width of the halo), then frames, degrees and the average P of each.

Every quantity at a point is computed from the same numbers in the same order as on a single machine, so that both
agree to the last digits. What is global is the scale. Neighbours, frames and degrees of a point are computed once, by
the partition that owns it, from the points within one radius; other partitions read them.

The halo of a partition are the points up to s steps along edges from it. Rows of P up to s - 1 steps away are complete,
and s consecutive products need no exchange: each makes the outermost ring invalid.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from math import gamma

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
from ..geometry.search import edge_distances, sample_rows
from ..geometry.transport import Connection, connect
from ..operators.assembly import FAINT, average_blocks, row_sums
from ..operators.storage import BlockMatrix
from ..parallel import run_ranges
from .cloud import SLACK, Cloud
from .files import load_array, save_array
from .tasks import run_all


@dataclass(frozen=True)
class Geometry:
    """Dimension, squared radii of graph and PCA, kernel, precision, and the halo's width in steps (``rings``).

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
        return replace(self, rings=0).of_operator(name)

    def of_operator(self, name: str) -> str:
        """The name of a file that depends on all settings."""
        return f"{name}-{hashlib.sha256(repr(self).encode()).hexdigest()[:12]}"


def resolve_geometry(
    cloud: Cloud, dim: int | DimensionRule | None, asked: Scale, kernel: Kernel | None, dtype: np.dtype
) -> Geometry:
    """Dimension and scales, from the nearest neighbours of the same sample of points as in memory."""
    n, dims, rule = cloud.rows, cloud.boxes.shape[2], WidestGap() if dim is None else dim
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
        eps = (float(np.median(distances[:, wanted - 1])) * (1 + 1e-6)) ** 2
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


def halo_rings(dim: int, points: float, neighbors: float, overlap: float = 0.25, most: int = 12) -> int:
    r"""The halo's width, from 2 to ``most``, with which it adds about the share ``overlap`` to a partition.

    A partition is about :math:`(n\,v/k)^{1/d}` radii wide, v the volume of the unit ball.

    >>> halo_rings(2, 500_000, 24), halo_rings(3, 500_000, 40), halo_rings(2, 1000, 24)
    (12, 2, 2)
    """
    ball = np.pi ** (dim / 2) / gamma(dim / 2 + 1)
    width = (points * ball / neighbors) ** (1 / dim)
    return int(np.clip(width * ((1 + overlap) ** (1 / dim) - 1) / 2, 2, most))


def build_all(cloud: Cloud, geometry: Geometry, rings: int | None) -> tuple[Geometry, int, float]:
    """Frames and operators of all partitions; returns the geometry with its rings, edges, and the share of halos."""
    parts, rows = range(cloud.num_parts), cloud.rows
    edges, degrees = zip(*run_all(build_frames, [(cloud, geometry, p) for p in parts]), strict=True)
    automatic = halo_rings(geometry.dim, rows / len(parts), sum(edges) / rows)
    geometry = replace(geometry, rings=automatic if rings is None else positive_integer(rings, "rings"))
    halos = run_all(build_operator, [(cloud, geometry, p, float(np.median(degrees))) for p in parts])
    return geometry, sum(edges), sum(halos) / rows


def build_frames(cloud: Cloud, geometry: Geometry, p: int) -> tuple[int, float]:
    """Neighbours, frames and degrees of a partition; returns its number of edges and its median degree."""
    part, name = cloud.part, geometry.of_frames
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
        save_array(part(name("indptr"), p), graph.indptr)
        save_array(part(name("neighbors"), p), numbers.astype(np.min_scalar_type(-cloud.rows))[graph.indices])
        degree = np.empty(graph.num_points)
        weights = edge_weights(graph, geometry.kernel, geometry.radius)
        run_ranges(row_sums, len(degree), graph.indptr, graph.indices, weights, np.ones(len(points)), degree)
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


def neighbors_of(cloud: Cloud, geometry: Geometry, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many neighbours points have, by sorted numbers, and the numbers of these, one point after the other."""
    counts, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int8)]
    for p, span in cloud.parts_of(numbers):
        indptr, stored = (load_array(cloud.part(geometry.of_frames(n), p)) for n in ("indptr", "neighbors"))
        own = numbers[span] - cloud.offsets[p]
        counts.append(indptr[own + 1] - indptr[own])
        if len(own) == own[-1] - own[0] + 1:  # consecutive, as a partition itself
            found.append(stored[indptr[own[0]] : indptr[own[-1] + 1]])
        else:
            ends = np.cumsum(counts[-1])
            found.append(stored[np.arange(ends[-1]) + np.repeat(indptr[own + 1] - ends, counts[-1])])
    return np.concatenate(counts), np.concatenate(found)


def surrounding(cloud: Cloud, geometry: Geometry, p: int) -> tuple[np.ndarray, np.ndarray, NeighborGraph]:
    """Sorted numbers of a partition and its halo, which of them have all their edges, and the graph of these edges."""
    steps = np.full(cloud.rows, -1, np.int32)
    frontier = np.arange(*cloud.offsets[p : p + 2])
    steps[frontier] = 0
    for step in range(1, geometry.rings + 1):
        near = neighbors_of(cloud, geometry, frontier)[1]
        steps[near[steps[near] < 0]] = step
        frontier = np.flatnonzero(steps == step)
    numbers = np.flatnonzero(steps >= 0)
    complete = steps[numbers] < geometry.rings
    counts, near = neighbors_of(cloud, geometry, numbers[complete])
    indptr = np.zeros(len(numbers) + 1, np.int64)
    indptr[1:][complete] = counts
    steps[numbers] = np.arange(len(numbers), dtype=np.int32)  # from here on, places among the numbers
    return numbers, complete, NeighborGraph(np.cumsum(indptr), steps[near], np.empty(len(near)))


def build_operator(cloud: Cloud, geometry: Geometry, p: int, median_degree: float) -> int:
    """The rows of P that a partition needs; returns the size of its halo."""
    part, name, frames = cloud.part, geometry.of_operator, geometry.of_frames
    if not part(name("values"), p).exists():
        numbers, complete, graph = surrounding(cloud, geometry, p)
        n, points = len(numbers), cloud.gather("points", numbers)
        run_ranges(edge_distances, n, points, points, graph.indptr, graph.indices, graph.distances)
        degree, mass = cloud.gather(frames("degree"), numbers), np.empty(n)
        inside = cloud.inside(p, numbers)
        if faint := int((~(degree[inside] > FAINT * median_degree)).sum()):
            raise IsolatedPointsError(
                f"the kernel gives {faint} points of partition {p} no weight to speak of: their neighbours lie at the "
                "rim of its support. Use a larger eps, more neighbors, or a kernel that falls off less steeply."
            )
        weights = edge_weights(graph, geometry.kernel, geometry.radius)
        run_ranges(row_sums, n, graph.indptr, graph.indices, weights, 1.0 / degree, mass)
        mass[~complete] = 1.0
        line = Connection.identity(graph.num_edges)
        connection = connect(cloud.gather(frames("frames"), numbers), graph, geometry.real)
        save_array(part(name("numbers"), p), numbers)
        save_array(part(name("mass"), p), mass[inside])
        save_array(part(name("indptr"), p), graph.indptr)
        save_array(part(name("weights"), p), average_blocks(graph, line, weights, degree, mass, np.float64)[1])
        cols, values = average_blocks(graph, connection, weights, degree, mass, geometry.real)
        save_array(part(name("cols"), p), cols)
        save_array(part(name("values"), p), values)
    return len(load_array(part(name("numbers"), p))) - len(load_array(part(name("mass"), p)))


def matrix_of(cloud: Cloud, geometry: Geometry, p: int, values: str = "values") -> BlockMatrix:
    """The rows of P of a partition and its halo; with ``values="weights"`` the average of functions."""
    files = (cloud.part(geometry.of_operator(name), p) for name in ("indptr", "cols", values))
    arrays = [torch.from_numpy(np.load(file, mmap_mode="c")) for file in files]  # torch wants writable pages
    indptr, cols, entries = arrays
    cols = torch.where(cols < 0, ~cols, cols) if values == "weights" else cols  # reflections are of no concern
    return BlockMatrix(indptr, cols, entries, torch.arange(len(indptr) - 1, dtype=torch.int32))
