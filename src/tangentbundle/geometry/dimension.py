"""The dimension of the manifold, from the variances of neighbourhoods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..arrays import positive
from ..errors import (
    DimensionWarning,
    InvalidInputError,
    Remedy,
    warn,
)
from ..parallel import num_threads
from .frames import MAX_VARIANCES, local_pca, pca_of_nearest
from .graph import radius_graph
from .search import nearest_distances, sample_rows, sampled_nearest

SIZES = (6, 8, 12, 16, 24, 32, 48)
"""Neighbourhood sizes looked at, smallest first."""

LINKED_NEIGHBORS = 8
"""Nearest neighbours that may belong to the same sheet as a point."""

MIN_ALIGNMENT = 0.9
"""A neighbour is on a point's sheet if the tangent space has this share of the displacement."""

MIN_SHEETS, MIN_POINTS_OF_SHEET = 4, 5
"""So many sheets, with so many points each on average, are rows of a grid rather than a manifold in
pieces."""

MIN_ROWS = 2.5
"""More rows than this, each with more points on average, make a grid: three, where two are two
curves."""

MAX_SPACING_VARIATION = 0.25
"""Standard deviation of the distances to the nearest points, in units of their mean, up to which
rows are looked for: that of random points is 1 on curves, 0.52 on surfaces and 0.36 in space."""

GRID_CANDIDATES = 16
"""Points from which a shift between rows of a grid is taken. Those in the last rows have none."""

MAX_SHIFT_COSINE = 0.5
"""Largest cosine between a shift to the nearest row and the rows: in a lattice it is at most 1/2
for the shortest vectors."""

MIN_SHIFTED_SHARE = 7 / 12
"""Share of the points of a grid that a shift to the next row moves onto points. It is 1/2 with two
rows and 2/3 with three."""

CHECKED_POINTS = 200
"""Points at which the largest neighbourhoods are compared with those that decided."""

Spectra = Iterable[tuple[int, np.ndarray]]
"""Neighbourhood sizes, and the variances ``(m, q)`` of m neighbourhoods of that size,
descending."""


class DimensionRule(ABC):
    """A rule that estimates the dimension of a cloud."""

    @abstractmethod
    def local(self, points: np.ndarray, eps_pca: float | None) -> np.ndarray:
        """An estimate at every point looked at, ``(m,)``; ``eps_pca`` is the squared radius of
        local PCA, if given."""

    def combine(self, local: np.ndarray) -> int:
        """The dimension of the cloud: the median of the local estimates."""
        return int(np.median(local))


@dataclass(frozen=True)
class VarianceShare(DimensionRule):
    r"""The paper's rule, on the singular values :math:`\beta_{i,1} \ge \beta_{i,2} \ge \dots` of
    local PCA.

    The local dimension is the least :math:`\hat d_i` with
    :math:`\sum_{j \le \hat d_i} \beta_{i,j} \ge \gamma \sum_j \beta_{i,j}`. Local PCA is that of
    Algorithm 1: all points in the ball of radius :math:`\sqrt{\epsilon_{PCA}}`, displacements from
    its centre. It needs ``eps_pca``. The dimension is the median of the local ones, or with
    ``mean=True`` their mean, rounded.

    >>> VarianceShare(0.8).count(np.array([[1.0, 1.0, 0.1]])).tolist()
    [2]
    """

    gamma: float = 0.8
    mean: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", positive(self.gamma, "gamma"))
        if self.gamma > 1.0:
            raise InvalidInputError(f"gamma must lie in (0, 1], got {self.gamma}.")

    def count(self, singular: np.ndarray) -> np.ndarray:
        """Local dimensions ``(n,)`` from descending singular values ``(n, q)``."""
        needed = (self.gamma - 1e-12) * singular.sum(axis=1, keepdims=True)
        return 1 + (np.cumsum(singular[:, :-1], axis=1) < needed).sum(axis=1)

    def local(self, points: np.ndarray, eps_pca: float | None) -> np.ndarray:
        if eps_pca is None:
            raise InvalidInputError(
                "VarianceShare looks at balls of radius sqrt(eps_pca): give eps_pca=... too."
            )
        radius = float(np.sqrt(eps_pca))
        pca = local_pca(points, radius_graph(points, radius), radius, axes=0, center=False)
        rounding = 1e-13 * pca.variances[:, :1]
        return self.count(np.sqrt(np.where(pca.variances > rounding, pca.variances, 0.0)))

    def combine(self, local: np.ndarray) -> int:
        return int(np.floor(local.mean() + 0.5)) if self.mean else super().combine(local)


@dataclass(frozen=True)
class WidestGap(DimensionRule):
    """The default: the widest ratio of consecutive mean variances, at the smallest size that shows
    one.

    Curvature fills small gaps at large sizes, noise at small ones; so sizes are tried from the
    smallest up, and the first with a ratio above ``clear`` decides. Without any, the widest ratio
    among sizes of at least 12 does if it is above ``faint``, and otherwise the cloud is taken as
    full-dimensional. A neighbourhood of k points is trusted for dimensions up to k / 3: six points
    in four dimensions nearly always look flat.

    >>> WidestGap().compare([(24, np.array([[1.0, 0.8, 0.02]] * 4))]).tolist()
    [2, 2, 2, 2]
    >>> WidestGap().compare([(24, np.array([[1.0, 0.9, 0.7]] * 2))]).tolist()
    [3, 3]
    """

    clear: float = 4.0
    faint: float = 2.7
    floor: float = 1e-3

    def _ratios(self, variances: np.ndarray, size: int) -> np.ndarray:
        raised = variances + self.floor * variances[:, :1] + 1e-300
        trusted = max(1, min(size // 3, variances.shape[1] - 1))
        return raised[:, :trusted] / raised[:, 1 : trusted + 1]

    def local(self, points: np.ndarray, eps_pca: float | None) -> np.ndarray:
        n = len(points)
        sizes = [size for size in SIZES if size <= n // 4] or [n - 1]
        local = self.compare(_sampled_spectra(points, sizes))
        dim = self.combine(local)
        if dim == points.shape[1]:
            return local
        if spacing_variation(points) < MAX_SPACING_VARIATION:
            cloud = np.asarray(points)
            rows = sheet_labels(cloud, dim)
            dim_of_grid = dim + num_repetitions(cloud, rows, dim)
            if dim_of_grid > dim:
                _warn_of_sheets(dim, dim_of_grid, effective_number(rows))
                return np.full_like(local, dim_of_grid)
        across = self.compare(_spectra_at_checked_points(points, sizes[-1]))
        dim_across = self.combine(across)
        if dim_across <= dim:
            return local
        sheets = num_sheets(points, dim)
        if sheets >= MIN_SHEETS and n >= MIN_POINTS_OF_SHEET * sheets:
            _warn_of_sheets(dim, dim_across, sheets)
            return across
        return local

    def compare(self, spectra: Spectra) -> np.ndarray:
        """Local dimensions ``(m,)`` from the variances of neighbourhoods of several sizes."""
        gaps, spectrum_of = {}, {}
        for size, variances in spectra:
            spectrum_of[size] = variances
            count, axes = variances.shape
            if axes == 1:
                return np.ones(count, dtype=np.int64)
            total = np.maximum(variances.sum(axis=1, keepdims=True), 1e-300)
            gaps[size] = self._ratios((variances / total).mean(axis=0, keepdims=True), size).max()
            if gaps[size] >= self.clear:
                best = size
                break
        else:
            large = [size for size in gaps if size >= 12] or list(gaps)
            best = max(large, key=lambda size: gaps[size])
            if gaps[best] < self.faint and axes <= 8:
                spanned = max(
                    1, max(gaps) - 1
                )  # k neighbours span k - 1 directions about their mean
                return np.full(count, min(axes, spanned), dtype=np.int64)
        return 1 + self._ratios(spectrum_of[best], best).argmax(axis=1)


def _sampled_spectra(points: np.ndarray, sizes: list[int]) -> Spectra:
    """Variances of neighbourhoods of sampled points, each size computed when it is asked for."""
    for size in sizes:
        distances, indices = sampled_nearest(points, size)
        centers = points[sample_rows(points)]
        yield (
            size,
            pca_of_nearest(points, distances, indices, centers, axes=0).variances[
                :, :MAX_VARIANCES
            ],
        )


def _spectra_at_checked_points(points: Any, size: int) -> Spectra:
    """Variances of the neighbourhoods of one size of ``CHECKED_POINTS`` points."""
    rows = sample_rows(points)
    rows = rows[:: max(1, len(rows) // CHECKED_POINTS)]
    distances, indices = nearest_distances(points, size, rows)
    pca = pca_of_nearest(points, distances, indices, points[rows], axes=0)
    yield size, pca.variances[:, :MAX_VARIANCES]


def num_sheets(points: Any, dim: int) -> float:
    r"""How many sheets of dimension ``dim`` a cloud consists of, each weighted by its size.

    >>> x, y = np.meshgrid(np.arange(40.0), 5.0 * np.arange(10.0))
    >>> round(num_sheets(np.stack([x.ravel(), y.ravel()], axis=1), dim=1))
    10
    """
    return effective_number(sheet_labels(np.asarray(points), dim))


def effective_number(labels: np.ndarray) -> float:
    r"""Number of the sets with ``labels`` (n,), each weighted by its size.

    With shares :math:`p_k` of the points in set k it is :math:`1/\sum_k p_k^2`: a few single points
    count for nothing.
    """
    shares = np.bincount(labels) / len(labels)
    return float(1.0 / np.square(shares).sum())


def sheet_labels(points: np.ndarray, dim: int) -> np.ndarray:
    """The sheet of dimension ``dim`` of each point, ``(n,)``.

    A point is joined to those of its nearest neighbours that lie along its tangent space.
    """
    n = len(points)
    size = min(LINKED_NEIGHBORS, n - 1)
    distances, indices = nearest_distances(points, size)
    few = min(size, 2 * dim)
    pca = pca_of_nearest(points, distances[:, :few], indices[:, :few], points, axes=dim)
    steps = points[indices] - points[:, None]
    along = np.linalg.norm(steps @ pca.axes, axis=2)
    aligned = along >= MIN_ALIGNMENT * distances
    rows = np.repeat(np.arange(n), aligned.sum(axis=1))
    return joined_labels(rows, indices[aligned], n)


def joined_labels(starts: np.ndarray, ends: np.ndarray, n: int) -> np.ndarray:
    """Labels ``(n,)`` of the connected components of links from ``starts`` to ``ends``."""
    links = sparse.coo_array((np.ones(len(starts)), (starts, ends)), shape=(n, n))
    return connected_components(links, directed=False)[1]


def spacing_variation(points: Any) -> float:
    """Standard deviation of the distances of sampled points to their nearest ones, in units of
    their mean."""
    distances, _ = sampled_nearest(points, 1)
    return float(distances.std() / max(distances.mean(), 1e-300))


@dataclass(frozen=True)
class ShiftedCloud:
    """Points ``(n, D)`` that are compared with themselves after a shift."""

    points: np.ndarray

    @cached_property
    def tree(self) -> cKDTree:
        return cKDTree(self.points, balanced_tree=False, compact_nodes=False)

    @cached_property
    def spacings(self) -> np.ndarray:
        """Distance of each point to its nearest one, ``(n,)``."""
        return nearest_distances(self.points, 1)[0][:, 0]

    def matches(
        self, shift: np.ndarray, rows: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Those of the points ``rows`` that a shift moves onto points with another label, and these
        points.

        Onto means nearer than half of the distance to the nearest point.
        """
        distances, ends = self.tree.query(self.points[rows] + shift, workers=num_threads())
        reached = (distances < self.spacings[rows] / 2) & (labels[ends] != labels[rows])
        return rows[reached], ends[reached]

    def step_to_other_label(self, row: int, labels: np.ndarray) -> np.ndarray:
        """The step ``(D,)`` from a point to the nearest one with another label."""
        steps = self.points[labels != labels[row]] - self.points[row]
        return steps[np.square(steps).sum(axis=1).argmin()]

    def tangents(self, row: int, dim: int) -> np.ndarray:
        """Axes ``(D, dim)`` of the nearest points of a point."""
        rows = np.array([row])
        neighbors = min(2 * dim, len(self.points) - 1)
        distances, indices = nearest_distances(self.points, neighbors, rows)
        return pca_of_nearest(self.points, distances, indices, self.points[rows], axes=dim).axes[0]


def num_repetitions(points: np.ndarray, labels: np.ndarray, dim: int) -> int:
    """In how many directions the sheets of dimension ``dim`` with ``labels`` (n,) repeat, as the
    rows of a grid do.

    A grid of rows that are far from each other consists of sheets that one shift moves onto each
    other. Joined along this shift they are sheets of one more dimension, which may repeat in turn.

    >>> x, y, z = np.meshgrid(np.arange(9.0), 5.0 * np.arange(4.0), 5.0 * np.arange(4.0))
    >>> grid = np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1)
    >>> num_repetitions(grid, sheet_labels(grid, dim=1), dim=1)
    2
    """
    n = len(points)
    rows = np.arange(n)
    cloud = ShiftedCloud(points)
    shifts = np.zeros((0, points.shape[1]))
    while dim + len(shifts) < points.shape[1]:
        sheets = effective_number(labels)
        if sheets <= MIN_ROWS or n <= MIN_ROWS * sheets:
            break
        shift = shift_between_sheets(cloud, labels, dim, shifts)
        if shift is None:
            break
        starts, ends = cloud.matches(shift, rows, labels)
        first_of_sheet = np.unique(labels, return_index=True)[1]
        starts = np.concatenate([rows, starts])
        ends = np.concatenate([first_of_sheet[labels], ends])
        labels = joined_labels(starts, ends, n)
        shifts = np.concatenate([shifts, shift[None]])
    return len(shifts)


def shift_between_sheets(
    cloud: ShiftedCloud, labels: np.ndarray, dim: int, shifts: np.ndarray
) -> np.ndarray | None:
    """The shift ``(D,)`` that moves most points onto points of another sheet; None if there is none
    for ``MIN_SHIFTED_SHARE`` of them.

    Candidates lead from a point to the nearest one of another sheet, across the tangent space and
    the earlier ``shifts`` (s, D).
    """
    sample = sample_rows(cloud.points)
    best_share = 0.0
    best_shift = None
    for row in sample[:: max(1, len(sample) // GRID_CANDIDATES)]:
        step = cloud.step_to_other_label(row, labels)
        along_sheet = np.concatenate([cloud.tangents(row, dim), shifts.T], axis=1)
        if cosine_to_span(step, along_sheet) > MAX_SHIFT_COSINE:
            continue
        starts, ends = cloud.matches(step, sample, labels)
        if len(starts) == 0:
            continue
        mean_step = (cloud.points[ends] - cloud.points[starts]).mean(axis=0)
        share = len(cloud.matches(mean_step, sample, labels)[0]) / len(sample)
        if share > best_share:
            best_share = share
            best_shift = mean_step
    return best_shift if best_share >= MIN_SHIFTED_SHARE else None


def cosine_to_span(step: np.ndarray, vectors: np.ndarray) -> float:
    """Cosine of the angle of a vector ``(D,)`` to the span of ``vectors`` (D, s).

    >>> cosine_to_span(np.array([3.0, 4.0, 0.0]), np.eye(3)[:, :1])
    0.6
    """
    basis = np.linalg.qr(vectors)[0]
    return float(np.linalg.norm(step @ basis) / np.linalg.norm(step))


def _warn_of_sheets(dim: int, dim_across: int, sheets: float) -> None:
    shapes = {1: "curves", 2: "surfaces"}.get(dim, f"sheets of dimension {dim}")
    warn(
        f"the points lie on about {sheets:.0f} {shapes}, such as the rows of a stretched grid, "
        f"which together span {dim_across} dimensions: the dimension is taken as {dim_across}.",
        DimensionWarning,
        remedy=Remedy(
            f"Give {{dim}} if each of the {shapes} is a manifold by itself, and {dim_across} "
            "instead to silence this.",
            dim=dim,
        ),
    )


def resolve_dimension(
    points: Any, dim: int | DimensionRule | None, eps_pca: float | None = None
) -> tuple[int, np.ndarray | None]:
    """A given dimension, checked, or an estimated one with the local estimates that it comes from.

    >>> circle = np.exp(2j * np.pi * np.arange(60) / 60)
    >>> resolve_dimension(np.stack([circle.real, circle.imag], axis=1), WidestGap())[0]
    1
    """
    rule = WidestGap() if dim is None else dim
    if not isinstance(rule, DimensionRule):
        if (
            isinstance(dim, bool)
            or not isinstance(dim, (int, np.integer))
            or not 1 <= dim <= points.shape[1]
        ):
            raise InvalidInputError(
                argument="dim",
                expected=f"an integer from 1 to the ambient dimension {points.shape[1]}",
                received=repr(dim),
            )
        return int(dim), None
    local = rule.local(points if isinstance(rule, WidestGap) else np.asarray(points), eps_pca)
    found = rule.combine(local)
    agree = float((local == found).mean())
    if agree < 0.6:
        counts = {
            int(d): int(c) for d, c in zip(*np.unique(local, return_counts=True), strict=True)
        }
        warn(
            f"only {agree:.0%} of the points have local dimension {found} (points by dimension: "
            f"{counts}). The cloud may be noisy, undersampled or a union of pieces.",
            DimensionWarning,
            remedy=Remedy("Give {dim} if you know it.", dim=...),
        )
    return found, local
