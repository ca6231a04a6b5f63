"""The steps from bare points to frames: scale, graph, local PCA, and what each refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..arrays import Array, ArrayKind, float_tensor, host, points_array, positive, positive_integer
from ..errors import (
    DisconnectedWarning,
    DuplicatePointsWarning,
    GlobalNeighborhoodWarning,
    InvalidInputError,
    IsolatedPointsError,
    Remedy,
    SuspiciousDataWarning,
    TooFewPointsError,
    warn,
)
from ..extras import use_triton
from .frames import LocalPCA, local_pca, pca_of_nearest
from .graph import NeighborGraph, check_memory, radius_graph
from .ordering import first_of, order_along_curve
from .scale import (
    SHEET_MARGIN,
    automatic_neighbors,
    connecting_radius,
    radius_for_neighbors,
    sheet_distance,
)
from .search import nearest_distances, sampled_nearest
from .tensor_cloud import TensorCloud, refuse_degenerate

GLOBAL_SHARE = 0.5
"""A median neighbourhood with more than this share of the cloud is no longer local."""

NOISE_SHARE = 0.4
"""Share of a median neighbourhood's variance off its tangent space above which the cloud counts as
noisy."""

MAX_TILTED_SHARE, MIN_SMOOTHNESS, MIN_POINTS = 0.015, 0.93, 500
"""Outliers are suspected where more pairs of neighbours than this share stand at more than 60
degrees, though the cosine of the median pair is large (on clean surfaces of that smoothness the
share is below 0.01), in clouds of so many points: among fewer, curved ends of an ellipsoid look the
same."""

MAX_FACING_EDGES, SAMPLED_EDGES = 40_000, 4000
"""Up to so many edges all tangent spaces are compared, above a sample of so many."""


@dataclass(frozen=True)
class Scale:
    """What the user asked for: squared radii, or a number of neighbours, or nothing (automatic)."""

    eps: float | None = None
    neighbors: int | None = None
    eps_pca: float | None = None
    max_memory: float | None = None
    pca_center: bool = True

    def __post_init__(self) -> None:
        checks = {
            "eps": positive,
            "eps_pca": positive,
            "max_memory": positive,
            "neighbors": positive_integer,
        }
        for name, check in checks.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check(getattr(self, name), name))
        if self.eps is not None and self.neighbors is not None:
            raise InvalidInputError("give eps or neighbors, not both.")

    @property
    def automatic(self) -> bool:
        return self.eps is None and self.neighbors is None


def sorted_cloud(points: Array, name: str = "points") -> tuple[np.ndarray, np.ndarray, ArrayKind]:
    """The points along the space-filling curve, their order and kind; clouds with nothing to
    estimate are refused."""
    cloud, kind = points_array(points, name)
    refuse_degenerate(
        len(cloud),
        float(np.ptp(np.ascontiguousarray(cloud.T), axis=1).max()) if len(cloud) else 0.0,
    )
    order = order_along_curve(cloud)
    return np.ascontiguousarray(cloud[order]), order, kind


def cloud_of(points: Array) -> tuple[Any, Any, ArrayKind]:
    """The same, but points on a GPU with Triton stay there."""
    _, kind = float_tensor(points, "points")
    if not use_triton(kind.device):
        return sorted_cloud(points)
    cloud = TensorCloud.of(points)
    return cloud, cloud.curve_order, kind


def warn_of_duplicates(points: Any) -> None:
    """Warn of coincident points."""
    nearest, _ = sampled_nearest(points, 1)
    same = int((nearest == 0).sum())
    if same:
        warn(
            f"{same} of {len(nearest)} points looked at have an exact duplicate. Their frames come "
            "from the other neighbours; remove duplicates with np.unique(points, axis=0).",
            DuplicatePointsWarning,
        )


def build_graph(
    points: Any, dim: int, scale: Scale, order: Any = None
) -> tuple[NeighborGraph, float]:
    """The ball graph and its eps: as given, for a wanted number of neighbours, or automatic.

    The automatic scale stays within the reach of the manifold (``scale.Reach``), and is widened, up
    to twice the radius, where that connects pieces of the graph. ``order`` holds the user's numbers
    of the points, for messages.
    """
    if scale.eps is None:
        wanted = scale.neighbors or automatic_neighbors(points, dim)
        check_memory(
            min(wanted, len(points)) * float(len(points)),
            scale.max_memory,
            "Ask for fewer neighbors.",
            dim,
        )
        radius = radius_for_neighbors(points, wanted) * (
            1 + 1e-6
        )  # ties are all in, whatever their rounding
        if radius == 0.0:
            raise TooFewPointsError(
                f"half of the points have {wanted} or more exact duplicates; remove them with "
                "np.unique(points, axis=0)."
            )
    else:
        radius = float(np.sqrt(scale.eps))
    graph = radius_graph(points, radius, max_memory=scale.max_memory, dim=dim)
    if scale.automatic and graph.num_components > 1:
        wider = widened_radius(np.asarray(points), graph, radius, dim, wanted)
        if wider > radius:
            radius = wider * (1 + 1e-9)
            graph = radius_graph(points, radius, max_memory=scale.max_memory, dim=dim)
    isolated = graph.isolated
    if len(isolated):
        nearest, _ = nearest_distances(points, 1, isolated[:100])
        first = first_of(isolated, order)[1]
        raise IsolatedPointsError(
            f"{len(isolated)} of {len(points)} points (first: {first}, "
            f"counted from 0) have no neighbour within sqrt(eps) = {radius:.4g}; their nearest "
            f"points are {nearest.min():.4g} to {nearest.max():.4g} away.",
            Remedy(
                "Give a larger {eps}, or {neighbors}, or remove outliers. Mind the units of the "
                "coordinates.",
                eps=...,
                neighbors=...,
            ),
        ).at_point(first)
    return graph, radius**2 if scale.eps is None else scale.eps


def widened_radius(
    points: np.ndarray, graph: NeighborGraph, radius: float, dim: int, neighbors: int
) -> float:
    """The radius that joins pieces of a graph, up to twice as large and short of other sheets.

    Points without a neighbour get one in any case, if that takes at most twice the radius.
    """
    within = 2 * radius
    short_of_sheets = min(
        within, SHEET_MARGIN * sheet_distance(points, radius, within, dim, neighbors)
    )
    wider = radius
    if short_of_sheets > radius:
        wider = connecting_radius(points, graph, short_of_sheets)
    isolated = graph.isolated
    if len(isolated):
        nearest, _ = nearest_distances(points, 1, isolated)
        reachable = nearest[nearest <= within]
        wider = max(wider, float(reachable.max(initial=0.0)))
    return wider


def warn_of_scale(graph: NeighborGraph) -> None:
    """Warn of several components and of neighbourhoods that are not local."""
    components = graph.num_components
    if components > 1:
        warn(
            f"the neighbour graph has {components} components; nothing flows between them. If the "
            "manifold is connected, use a larger eps.",
            DisconnectedWarning,
        )
    share = float(graph.tensors[0].diff().median()) / (graph.num_points - 1)
    if share > GLOBAL_SHARE and graph.num_points > 20:
        warn(
            f"the median neighbourhood holds {share:.0%} of the cloud, so the Laplacian is not "
            "local. Use a smaller eps (mind the units of the coordinates).",
            GlobalNeighborhoodWarning,
        )


def warn_of_noise(pca: LocalPCA, frames: Any, graph: NeighborGraph) -> None:
    """Warn of neighbourhoods whose variance lies mostly off the tangent spaces, and of signs of
    outliers."""
    dim = frames.shape[2]
    share = float(np.median(pca.residual(dim)))
    if share > NOISE_SHARE:
        warn(
            f"{share:.0%} of the variance of the median neighbourhood lies off its tangent space: "
            f"noise hides the manifold at this scale, or its dimension is not {dim}. Use a larger "
            "eps, give another dim, or project the cloud onto its leading principal coordinates "
            "first.",
            SuspiciousDataWarning,
        )
    if graph.num_points < MIN_POINTS:
        return
    cosines = smallest_cosines(facing(frames, graph))
    tilted = float((cosines < 0.5).mean())
    if tilted > MAX_TILTED_SHARE and np.median(cosines) > MIN_SMOOTHNESS:
        warn(
            f"most neighbouring tangent spaces agree well, but {tilted:.1%} of pairs stand at "
            "more than 60 degrees: there may be outliers, sharp edges, or sheets closer to each "
            "other than the scale. Remove outliers, or use a smaller eps.",
            SuspiciousDataWarning,
        )


def estimate_frames(
    points: Any, graph: NeighborGraph, eps: float, dim: int, scale: Scale, rows: slice | None = None
) -> tuple[LocalPCA, float]:
    """Local PCA within ``sqrt(eps_pca)``, and that scale; of all points, or of those ``rows`` that
    the graph has.

    By default the PCA ball holds half as many neighbours as the graph's. Points with fewer than
    ``2 d + 2`` neighbours in it, or whose neighbours there do not span d directions, use their
    ``2 d + 2`` nearest ones instead, however far. A ball that the user gave is obeyed, and
    ``LocalPCA.frames`` refuses neighbours that do not span d directions.
    """
    eps_pca = scale.eps_pca or eps * 0.5 ** (2 / dim)
    if eps_pca > eps:
        graph = radius_graph(
            points, float(np.sqrt(eps_pca)), max_memory=scale.max_memory, dim=dim, rows=rows
        )
    centers = None if rows is None else points[rows]
    pca = local_pca(
        points, graph, float(np.sqrt(eps_pca)), centers=centers, axes=dim, center=scale.pca_center
    )
    least = min(2 * dim + 2, len(points) - 1)
    if scale.eps_pca is not None:
        return pca, float(eps_pca)
    poor = np.union1d(np.flatnonzero(pca.counts < least), pca.undetermined(dim))
    if len(poor):
        numbers = poor if rows is None else rows.start + poor
        nearest = nearest_distances(points, least, numbers)
        pca.replace(
            poor,
            pca_of_nearest(points, *nearest, points[numbers], axes=dim, center=scale.pca_center),
        )
    return pca, float(eps_pca)


def facing(frames: Any, graph: NeighborGraph) -> np.ndarray:
    """The products of the bases at both ends of edges, ``(m, d, d)``: of all, or of a sample."""
    indptr, indices, _ = graph.tensors
    if graph.num_edges <= MAX_FACING_EDGES:
        edges = torch.arange(graph.num_edges, device=indptr.device)
    else:
        sample = np.random.default_rng(0).integers(0, graph.num_edges, SAMPLED_EDGES)
        edges = torch.from_numpy(sample).to(indptr.device)
    rows = torch.searchsorted(indptr, edges, right=True) - 1
    bases = torch.as_tensor(frames)
    left = host(bases[rows])
    right = host(bases[indices[edges]])
    return left.transpose(0, 2, 1) @ right


def smallest_cosines(products: np.ndarray) -> np.ndarray:
    """Cosine of the largest angle between two tangent spaces, ``(m,)``: the least singular value of
    ``(m, d, d)``."""
    if products.shape[-1] > 2:
        return np.linalg.svd(products, compute_uv=False)[:, -1]
    squares = np.square(products).sum(axis=(1, 2))
    determinants = np.abs(np.linalg.det(products))
    if products.shape[-1] == 1:
        return determinants
    largest = np.sqrt((squares + np.sqrt(np.maximum(squares**2 - 4 * determinants**2, 0.0))) / 2)
    return determinants / np.maximum(largest, np.finfo(float).tiny)


def graph_and_frames(
    points: Any, dim: int, scale: Scale, order: Any = None
) -> tuple[NeighborGraph, float, LocalPCA, float]:
    """Graph, eps, local PCA and eps_pca of a cloud.

    ``order`` holds the user's numbers of the points, for messages.
    """
    graph, eps = build_graph(points, dim, scale, order=order)
    pca, eps_pca = estimate_frames(points, graph, eps, dim, scale)
    warn_of_scale(graph)
    return graph, eps, pca, eps_pca
