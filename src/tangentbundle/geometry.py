"""The steps from bare points to frames: dimension, scales, graph, local PCA."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from .errors import (
    DimensionWarning,
    DisconnectedWarning,
    DuplicatePointsWarning,
    GlobalNeighborhoodWarning,
    InvalidInputError,
    IsolatedPointsError,
    TooFewPointsError,
)
from .frames import DimensionRule, LocalPCA, WidestGap, local_pca
from .graph import NeighborGraph, nearest_distances, radius_graph
from .scale import connecting_radius, radius_for_neighbors, sample_rows, target_neighbors

GLOBAL_SHARE = 0.5
"""A median neighbourhood with more than this share of the cloud is no longer local."""


@dataclass(frozen=True)
class ScaledGraph:
    """A neighbour graph and the scale that made it (``eps`` is the squared radius)."""

    graph: NeighborGraph
    eps: float


def nearest_graph(points: np.ndarray, rows: np.ndarray, k: int) -> NeighborGraph:
    """The directed graph from some rows to their ``k`` nearest points."""
    distances, indices = nearest_distances(points, k, rows)
    indptr = np.arange(len(rows) + 1, dtype=np.int64) * k
    return NeighborGraph(indptr, indices.ravel().astype(np.int32), distances.ravel())


def check_cloud(points: np.ndarray) -> None:
    """Refuse clouds with nothing to estimate; warn of coincident points."""
    n, dims = points.shape
    if n < 3:
        raise TooFewPointsError(
            f"a bundle needs at least 3 points in general position, got {n}. Give more points."
        )
    if not np.ptp(points, axis=0).max() > 0:
        raise TooFewPointsError(f"all {n} points coincide; there is no manifold to estimate.")
    nearest, _ = nearest_distances(points, 1, sample_rows(n))
    same = int((nearest == 0).sum())
    if same:
        warnings.warn(
            f"{same} of {len(nearest)} points looked at have an exact duplicate. Their frames come "
            "from the other neighbours; remove duplicates with np.unique(points, axis=0).",
            DuplicatePointsWarning,
            stacklevel=4,
        )


def estimate_dimension(points: np.ndarray, rule: DimensionRule) -> tuple[int, np.ndarray]:
    """Median of the local dimensions at a sample of points, and those local estimates.

    Neighbourhoods hold 24 points (fewer in a small cloud): enough to see a gap up to d = 8.
    """
    rows = sample_rows(len(points))
    k = min(24, max(3, len(points) // 8), len(points) - 1)
    graph = nearest_graph(points, rows, k)
    reach = graph.distances.reshape(-1, k)[:, -1] * 1.2
    reach = np.maximum(reach, np.finfo(float).tiny)
    local = rule.local(local_pca(points, graph, reach, centers=points[rows]).variances)
    dim = int(np.median(local))
    agree = float((local == dim).mean())
    if agree < 0.7:
        warnings.warn(
            f"only {agree:.0%} of the points have local dimension {dim} (counts: "
            f"{dict(enumerate(np.bincount(local).tolist()))}). The cloud may be noisy, undersampled or "
            "a union of pieces; give dim=... if you know it.",
            DimensionWarning,
            stacklevel=4,
        )
    return dim, local


def _positive(value: float | None, name: str) -> None:
    if value is not None and not (np.isfinite(value) and value > 0):
        raise InvalidInputError(f"{name} must be a positive number, got {value}.")


def build_graph(
    points: np.ndarray,
    dim: int,
    eps: float | None,
    neighbors: int | None,
    max_memory: float | None,
) -> ScaledGraph:
    """The ball graph at a given scale, at a wanted number of neighbours, or at the automatic scale.

    The automatic scale is widened, up to twice the radius, if that connects the graph.
    """
    _positive(eps, "eps")
    if eps is not None and neighbors is not None:
        raise InvalidInputError("give eps or neighbors, not both.")
    if neighbors is not None and neighbors < 1:
        raise InvalidInputError(f"neighbors must be at least 1, got {neighbors}.")
    if eps is None:
        wanted = target_neighbors(len(points), dim) if neighbors is None else int(neighbors)
        radius = radius_for_neighbors(points, wanted)
        if radius == 0.0:
            raise TooFewPointsError(
                f"more than half of the points have {wanted} exact duplicates; remove them with "
                "np.unique(points, axis=0)."
            )
    else:
        radius = float(np.sqrt(eps))
    graph = radius_graph(points, radius, max_memory=max_memory)
    components = int(graph.components().max()) + 1
    if components > 1 and eps is None and neighbors is None:
        joined = connecting_radius(points, graph) * (1 + 1e-9)
        if joined <= 2 * radius:
            radius = joined
            graph, components = radius_graph(points, radius, max_memory=max_memory), 1
    _judge(points, graph, radius, components)
    return ScaledGraph(graph, radius**2 if eps is None else float(eps))


def _judge(points: np.ndarray, graph: NeighborGraph, radius: float, components: int) -> None:
    """Refuse isolated points; warn of several components and of neighbourhoods that are not local."""
    degrees = graph.degrees
    isolated = np.flatnonzero(degrees == 0)
    if len(isolated):
        nearest, _ = nearest_distances(points, 1, isolated[:SHOWN])
        raise IsolatedPointsError(
            f"{len(isolated)} of {len(points)} points have no neighbour within sqrt(eps) = "
            f"{radius:.4g}; the nearest points of the first of them are {nearest.min():.4g} to "
            f"{nearest.max():.4g} away. Use a larger eps (mind the units of the coordinates), give "
            "neighbors=..., or remove outliers."
        )
    if components > 1:
        warnings.warn(
            f"the neighbour graph has {components} components; nothing flows between them. If the "
            "manifold is connected, use a larger eps.",
            DisconnectedWarning,
            stacklevel=5,
        )
    share = float(np.median(degrees)) / (len(points) - 1)
    if share > GLOBAL_SHARE and len(points) > 20:
        warnings.warn(
            f"the median neighbourhood holds {share:.0%} of the cloud, so the Laplacian is not local. "
            "Use a smaller eps (mind the units of the coordinates).",
            GlobalNeighborhoodWarning,
            stacklevel=5,
        )


SHOWN = 100


def estimate_frames(
    points: np.ndarray, scaled: ScaledGraph, dim: int, eps_pca: float | None, max_memory: float | None
) -> tuple[LocalPCA, float]:
    """Local PCA within ``sqrt(eps_pca)``, and that scale.

    By default the PCA ball holds half as many neighbours as the graph's. Points with fewer than ``2 d + 2``
    neighbours in the ball use their nearest ones instead, however far.
    """
    _positive(eps_pca, "eps_pca")
    graph = scaled.graph
    automatic = eps_pca is None
    if eps_pca is None:
        eps_pca = scaled.eps * 0.5 ** (2 / dim)
    elif eps_pca > scaled.eps:
        graph = radius_graph(points, float(np.sqrt(eps_pca)), max_memory=max_memory)
    pca = local_pca(points, graph, float(np.sqrt(eps_pca)))
    least = min(2 * dim + 2, len(points) - 1)
    poor = np.flatnonzero(pca.counts < least)
    if len(poor) and automatic:
        rescued = nearest_graph(points, poor, least)
        reach = rescued.distances.reshape(-1, least)[:, -1]
        reach = np.maximum(1.2 * reach, np.finfo(float).tiny)
        better = local_pca(points, rescued, reach, centers=points[poor])
        for name in ("axes", "variances", "total", "counts"):
            getattr(pca, name)[poor] = getattr(better, name)
    return pca, float(eps_pca)


def resolve_dimension(
    points: np.ndarray, dim: int | DimensionRule | None
) -> tuple[int, np.ndarray | None]:
    """A given dimension, checked, or an estimated one with its local estimates."""
    if dim is None or isinstance(dim, DimensionRule):
        return estimate_dimension(points, WidestGap() if dim is None else dim)
    if isinstance(dim, bool) or int(dim) != dim or not 1 <= dim <= points.shape[1]:
        raise InvalidInputError(
            f"dim must be a whole number from 1 to the ambient dimension {points.shape[1]}, got {dim}."
        )
    return int(dim), None
