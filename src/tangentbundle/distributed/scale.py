"""What all partitions share: dimension, scale and width of the halo, from a sample and from counts."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from math import gamma

import numpy as np

from ..arrays import positive_integer
from ..errors import DuplicatePointsWarning, InvalidInputError, TooFewPointsError
from ..geometry.dimension import SIZES, DimensionRule, WidestGap
from ..geometry.frames import local_pca
from ..geometry.graph import graph_of_lists
from ..geometry.kernels import Gaussian, Kernel
from ..geometry.pipeline import Scale
from ..geometry.scale import target_neighbors
from .cloud import Cloud


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

    @property
    def scale(self) -> float:
        r""":math:`c\,\epsilon` by the kernel's moments."""
        return self.kernel.calibration(self.dim) * self.eps


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
    rows, distances, numbers = cloud.sampled_nearest(most)
    same = int((distances[:, 0] == 0).sum())
    if same:
        warnings.warn(
            f"{same} of {len(rows)} points looked at have an exact duplicate.", DuplicatePointsWarning, stacklevel=4
        )
    d = _dimension(cloud, rule, sizes, rows, distances, numbers) if isinstance(rule, WidestGap) else int(rule)
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


def halo_rings(dim: int, points: float, neighbors: float, overlap: float = 0.25, most: int = 12) -> int:
    r"""The halo's width in radii, from 2 to ``most``, with which it adds about the share ``overlap`` to a partition.

    A partition is about :math:`(n\,v/k)^{1/d}` radii wide, v the volume of the unit ball.

    >>> halo_rings(2, 500_000, 24), halo_rings(3, 500_000, 40), halo_rings(2, 1000, 24)
    (12, 2, 2)
    """
    ball = np.pi ** (dim / 2) / gamma(dim / 2 + 1)
    width = (points * ball / neighbors) ** (1 / dim)
    return int(np.clip(width * ((1 + overlap) ** (1 / dim) - 1) / 2, 2, most))
