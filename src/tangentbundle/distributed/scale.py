"""What all partitions share: dimension, scale and width of the halo, from a sample and from counts."""

from __future__ import annotations

import warnings
from math import gamma

import numpy as np

from ..arrays import whole
from ..errors import DuplicatePointsWarning, InvalidInputError, TooFewPointsError
from ..geometry.dimension import SIZES, DimensionRule, WidestGap
from ..geometry.frames import local_pca
from ..geometry.graph import graph_of_lists
from ..geometry.pipeline import Scale
from ..geometry.scale import target_neighbors
from .cloud import Cloud

OVERLAP = 0.25
"""The halo adds at most about this share to a partition, where one ring does not already."""

MOST_RINGS = 12


def resolve_scale(cloud: Cloud, dim: int | DimensionRule | None, asked: Scale) -> tuple[int, float]:
    """Dimension and eps, from the nearest neighbours of the same sample of points as on a single machine."""
    n, dims = cloud.exchange.rows, cloud.boxes.shape[2]
    if isinstance(dim, DimensionRule) and not isinstance(dim, WidestGap):
        raise InvalidInputError(f"a distributed cloud takes dim=WidestGap() or a number, got {dim!r}.")
    if dim is not None and not isinstance(dim, WidestGap) and not 1 <= whole(dim, "dim") <= dims:
        raise InvalidInputError(f"dim must be a whole number from 1 to the ambient dimension {dims}, got {dim!r}.")
    sizes = [k for k in SIZES if k <= n // 4] or [n - 1]
    rule = WidestGap() if dim is None else dim
    most = asked.neighbors or (target_neighbors(n, dim) if isinstance(dim, int) else target_neighbors(n, min(dims, 8)))
    most = 1 if asked.eps is not None else most
    if isinstance(rule, WidestGap):
        most = max(most, *sizes)
    if most >= n:
        raise TooFewPointsError(f"{most} neighbours a point need at least {most + 1} points, got {n}.")
    rows, distances, numbers = cloud.sampled_nearest(most)
    same = int((distances[:, 0] == 0).sum())
    if same:
        warnings.warn(
            f"{same} of {len(rows)} points looked at have an exact duplicate.", DuplicatePointsWarning, stacklevel=4
        )
    d = int(dim) if not isinstance(rule, WidestGap) else _dimension(cloud, rule, sizes, rows, distances, numbers)  # type: ignore[arg-type]
    if asked.eps is not None:
        return d, asked.eps
    wanted = asked.neighbors or target_neighbors(n, d)
    radius = float(np.median(distances[:, wanted - 1])) * (1 + 1e-6)
    if radius == 0.0:
        raise TooFewPointsError(f"half of the points have {wanted} or more exact duplicates; remove them.")
    return d, radius**2


def _dimension(cloud: Cloud, rule: WidestGap, sizes, rows, distances, numbers) -> int:
    """The median of local dimensions at the sample."""
    known, places = np.unique(numbers, return_inverse=True)
    points, places = cloud.gather("points", known), places.reshape(numbers.shape)
    centers, spectra = cloud.gather("points", rows), {}
    for k in sizes:
        near = graph_of_lists(np.ascontiguousarray(distances[:, :k]), np.ascontiguousarray(places[:, :k]))
        reach = np.maximum(1.2 * distances[:, k - 1], np.finfo(float).tiny)
        spectra[k] = local_pca(points, near, reach, centers=centers, axes=0).variances
    return rule.combine(rule.compare(spectra.items()))


def halo_rings(dim: int, points: float, neighbors: float) -> int:
    r"""The halo's width in radii: a partition is about :math:`(n\,v/k)^{1/d}` radii wide, v the volume of the unit
    ball.

    >>> halo_rings(2, 500_000, 24), halo_rings(3, 500_000, 40), halo_rings(2, 1000, 24)
    (12, 2, 2)
    """
    ball = np.pi ** (dim / 2) / gamma(dim / 2 + 1)
    width = (points * ball / neighbors) ** (1 / dim)
    return int(np.clip(width * ((1 + OVERLAP) ** (1 / dim) - 1) / 2, 2, MOST_RINGS))
