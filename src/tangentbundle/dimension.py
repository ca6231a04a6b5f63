"""The dimension of the manifold, from the variances of neighbourhoods of several sizes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .arrays import positive
from .errors import DimensionWarning, InvalidInputError
from .frames import local_pca
from .graph import graph_of_lists
from .search import sample_rows, sampled_nearest

SIZES = (6, 8, 12, 16, 24, 32, 48)
"""Neighbourhood sizes looked at, smallest first."""

Spectra = Mapping[int, np.ndarray]
"""Neighbourhood size k -> variances ``(m, q)`` of m neighbourhoods, descending."""


class DimensionRule(ABC):
    """How the variances of neighbourhoods tell the dimension."""

    @abstractmethod
    def local(self, spectra: Spectra) -> np.ndarray:
        """An estimate at each point looked at, ``(m,)``; the dimension is their median."""


@dataclass(frozen=True)
class VarianceShare(DimensionRule):
    r"""The paper's rule: the fewest singular values :math:`\beta_j` whose sum is the share gamma of all.

    >>> VarianceShare(0.8).local({24: np.array([[1.0, 1.0, 0.01]])}).tolist()
    [2]
    """

    gamma: float = 0.8

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", positive(self.gamma, "gamma"))
        if self.gamma > 1.0:
            raise InvalidInputError(f"gamma must lie in (0, 1], got {self.gamma}.")

    def local(self, spectra: Spectra) -> np.ndarray:
        size = max(k for k in spectra if k <= 24)
        singular = np.sqrt(np.maximum(spectra[size], 0.0))
        share = np.cumsum(singular, axis=1) / np.maximum(singular.sum(axis=1, keepdims=True), 1e-300)
        return np.minimum(1 + (share < self.gamma - 1e-12).sum(axis=1), singular.shape[1])


@dataclass(frozen=True)
class WidestGap(DimensionRule):
    """The default: the widest ratio of consecutive mean variances, at the smallest size that shows one.

    Curvature fills small gaps at large sizes, noise at small ones; so sizes are tried from the smallest up, and the
    first with a ratio above ``clear`` decides. Without any, the widest ratio among sizes of at least 12 does if it is
    above ``faint``, and otherwise the cloud is taken as full-dimensional. A neighbourhood of k points is trusted for
    dimensions up to k / 3: six points in four dimensions nearly always look flat.

    >>> WidestGap().local({24: np.array([[1.0, 0.8, 0.02]] * 4)}).tolist()
    [2, 2, 2, 2]
    >>> WidestGap().local({24: np.array([[1.0, 0.9, 0.7]] * 2)}).tolist()
    [3, 3]
    """

    clear: float = 4.0
    faint: float = 2.7
    floor: float = 1e-3

    def _ratios(self, variances: np.ndarray, size: int) -> np.ndarray:
        raised = variances + self.floor * variances[:, :1] + 1e-300
        trusted = max(1, min(size // 3, variances.shape[1] - 1))
        return raised[:, :trusted] / raised[:, 1 : trusted + 1]

    def local(self, spectra: Spectra) -> np.ndarray:
        count, axes = next(iter(spectra.values())).shape
        if axes == 1:
            return np.ones(count, dtype=np.int64)
        gaps = {}
        for size, variances in spectra.items():
            total = np.maximum(variances.sum(axis=1, keepdims=True), 1e-300)
            gaps[size] = self._ratios((variances / total).mean(axis=0, keepdims=True), size).max()
            if gaps[size] >= self.clear:
                best = size
                break
        else:
            large = [size for size in gaps if size >= 12] or list(gaps)
            best = max(large, key=lambda size: gaps[size])
            if gaps[best] < self.faint and axes <= 8:
                return np.full(count, axes, dtype=np.int64)
        return 1 + self._ratios(spectra[best], best).argmax(axis=1)


class SampledSpectra(Spectra):
    """Variances of neighbourhoods of sampled points, each size computed when it is first looked at."""

    def __init__(self, points: np.ndarray, sizes: list[int]):
        self.points, self.sizes = points, sizes
        self.known: dict[int, np.ndarray] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, size: int) -> np.ndarray:
        if size not in self.known:
            distances, indices = sampled_nearest(self.points, size)
            reach = np.maximum(1.2 * distances[:, -1], np.finfo(float).tiny)
            near = graph_of_lists(distances, indices)
            centers = self.points[sample_rows(len(self.points))]
            self.known[size] = local_pca(self.points, near, reach, centers=centers, axes=0).variances
        return self.known[size]


def estimate_dimension(points: np.ndarray, rule: DimensionRule) -> tuple[int, np.ndarray]:
    """Median of the local dimensions at a sample of points, and those local estimates.

    >>> circle = np.exp(2j * np.pi * np.arange(60) / 60)
    >>> estimate_dimension(np.stack([circle.real, circle.imag], axis=1), WidestGap())[0]
    1
    """
    n = len(points)
    local = rule.local(SampledSpectra(points, [k for k in SIZES if k <= n // 4] or [n - 1]))
    dim = int(np.median(local))
    agree = float((local == dim).mean())
    if agree < 0.6:
        counts = {int(d): int(c) for d, c in zip(*np.unique(local, return_counts=True), strict=True)}
        warnings.warn(
            f"only {agree:.0%} of the points have local dimension {dim} (points by dimension: {counts}). "
            "The cloud may be noisy, undersampled or a union of pieces; give dim=... if you know it.",
            DimensionWarning,
            stacklevel=4,
        )
    return dim, local


def resolve_dimension(points: np.ndarray, dim: int | DimensionRule | None) -> tuple[int, np.ndarray | None]:
    """A given dimension, checked, or an estimated one with its local estimates."""
    if dim is None or isinstance(dim, DimensionRule):
        return estimate_dimension(points, WidestGap() if dim is None else dim)
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or not 1 <= dim <= points.shape[1]:
        raise InvalidInputError(
            f"dim must be a whole number from 1 to the ambient dimension {points.shape[1]}, got {dim!r}."
        )
    return int(dim), None
