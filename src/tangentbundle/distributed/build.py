r"""Frames, degrees and the average P of one partition, from its points and those around it.

Every quantity at a point is computed from the same numbers in the same order as on a single machine, so that both
agree to the last digits. What is global is the scale; degrees :math:`\deg_i` need the points within one radius r of a
partition, masses :math:`m_i = \sum_j w_{ij}/(\deg_i \deg_j)` those within two. Frames and degrees are computed once,
by the partition that owns the point, and read by others: their signs agree.

With a halo of :math:`s` radii, rows of P up to :math:`(s - 1) r` away are complete, and :math:`s` consecutive products
need no exchange: each makes the outermost ring invalid.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..arrays import positive_integer
from ..errors import IsolatedPointsError
from ..geometry.frames import LocalPCA, local_pca
from ..geometry.graph import NeighborGraph, edge_weights, nearest_graph, radius_graph
from ..geometry.transport import connect
from ..operators.assembly import FAINT, average_blocks, row_sums
from ..operators.storage import BlockMatrix
from ..parallel import run_ranges
from .cloud import Cloud, Surrounded, boxes_of
from .components import count_components, label_pieces
from .files import load_array, save_array
from .scale import Geometry, halo_rings
from .tasks import run_all

SLACK = 1 + 1e-9
"""Factor on radii, so that a distance at the rim counts as inside however it was rounded."""


def build_all(cloud: Cloud, geometry: Geometry, rings: int | None) -> dict[str, Any]:
    """Frames and operators of all partitions; returns the fields of ``DistributedBundle`` that follow from them."""
    parts, rows = range(cloud.num_parts), cloud.rows
    edges, degrees, counts = zip(*run_all(build_frames, [(cloud, geometry, p) for p in parts]), strict=True)
    automatic = halo_rings(geometry.dim, rows / len(parts), sum(edges) / rows)
    geometry = replace(geometry, rings=automatic if rings is None else positive_integer(rings, "rings"))
    degree = float(np.median(degrees))
    found = run_all(build_operator, [(cloud, geometry, p, degree) for p in parts])
    touched, halos, pieces = zip(*found, strict=True)
    borders = [{*near} for near in touched]
    for p, near in enumerate(touched):
        for q in near:
            borders[q].add(p)
    return {
        "geometry": geometry,
        "borders": tuple(tuple(sorted(near)) for near in borders),
        "halo": sum(halos) / rows,
        "neighbors": max(int(np.median(counts)), 2 * geometry.dim + 2),
        "edges": sum(edges),
        "components": count_components(cloud, geometry.of_operator("labels"), geometry.of_operator("joined"), pieces),
    }


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
        widest = float(np.sqrt(max(geometry.eps, geometry.eps_pca)))
        near = cloud.surrounded(p, widest * SLACK)
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
        if geometry.rescue:
            rescue(cloud, near, pca, geometry.dim, widest)
        save_array(part(name("frames"), p), pca.frames(geometry.dim))
        save_array(part(name("degree"), p), degree)
        save_array(summary, np.array([edges, np.median(degree), np.median(pca.counts)]))
    total, middle, count = load_array(summary)
    return int(total), float(middle), float(count)


def rescue(cloud: Cloud, near: Surrounded, pca: LocalPCA, dim: int, reach: float) -> None:
    """Points with few others in their PCA ball take their nearest ones, however far: even beyond the halo's reach."""
    least = min(2 * dim + 2, cloud.rows - 1)
    poor = np.flatnonzero(pca.counts < least)
    if not len(poor):
        return
    centers, numbers = near.points[near.inside][poor], near.numbers[near.inside][poor]
    points, known = near.points, near.numbers
    if len(points) <= least:
        reach, known = np.inf, np.arange(cloud.rows)
        points = cloud.gather("points", known)
    graph = nearest_graph(points, np.searchsorted(known, numbers), least)
    if graph.distances.max() > reach:  # those found bound how far the nearest of all can be
        known = cloud.near(boxes_of(centers), graph.distances.max() * SLACK)
        points = cloud.gather("points", known)
        graph = nearest_graph(points, np.searchsorted(known, numbers), least)
    radii = np.maximum(1.2 * graph.distances.reshape(-1, least)[:, -1], np.finfo(float).tiny)
    better = local_pca(points, graph, radii, centers=centers, axes=dim)
    for name in ("axes", "variances", "total", "counts"):
        getattr(pca, name)[poor] = getattr(better, name)


def build_operator(cloud: Cloud, geometry: Geometry, p: int, median_degree: float) -> tuple[list[int], int, int]:
    """The rows of P that a partition needs.

    Returns the partitions it touches, itself included, the size of its halo, and the pieces of its own graph.
    """
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
        labels, joined = label_pieces(graph, near)
        arrays = {"numbers": near.numbers, "mass": mass[near.inside], "labels": labels, "joined": joined}
        arrays |= {"indptr": graph.indptr, "cols": cols, "values": values}
        for key, array in arrays.items():
            save_array(part(name(key), p), array)
    numbers, labels = (load_array(part(name(key), p)) for key in ("numbers", "labels"))
    return [q for q, _ in cloud.parts_of(numbers)], len(numbers) - len(cloud.own(p)), int(labels.max()) + 1


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
