"""The dimension of the manifold, from the variances of neighbourhoods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..arrays import host, positive
from ..errors import DimensionWarning, InvalidInputError, Remedy, warn
from ..parallel import num_threads
from .cloud import PointCloud
from .local_pca import MAX_VARIANCES, local_pca, pca_of_nearest

SIZES = (6, 8, 12, 16, 24, 32, 48)
"""Neighbourhood sizes looked at, smallest first."""

LINKED_NEIGHBORS = 8
"""Nearest neighbours that may belong to the same sheet as a point."""

MIN_ALIGNMENT = 0.9
"""A neighbour is on a point's sheet if the tangent space has this share of the displacement."""

MIN_SHEETS = 4
"""So many sheets are rows of a grid rather than a manifold in pieces."""

MIN_POINTS_OF_SHEET = 5
"""Points that each of them must have on average."""

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

MIN_SIZE_OF_FAINT_GAP = 12
"""Smallest neighbourhoods whose gaps count though they are not clear."""

MAX_FULL_DIMENSION = 8
"""Ambient dimensions up to which a cloud without any gap is taken as full-dimensional."""

CHECKED_POINTS = 200
"""Points at which the largest neighbourhoods are compared with those that decided."""

MIN_AGREEMENT = 0.6
"""Share of the points whose local dimension should be that of the cloud."""

Spectra = Iterable[tuple[int, np.ndarray]]
"""Neighbourhood sizes, and the variances ``(m, q)`` of m neighbourhoods of that size,
descending."""


class DimensionRule(ABC):
    """A rule that estimates the dimension of a cloud."""

    @abstractmethod
    def local(self, cloud: PointCloud, eps_pca: float | None) -> np.ndarray:
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

    def local(self, cloud: PointCloud, eps_pca: float | None) -> np.ndarray:
        if eps_pca is None:
            raise InvalidInputError(
                "VarianceShare looks at balls of radius sqrt(eps_pca): give eps_pca=... too."
            )
        radius = float(np.sqrt(eps_pca))
        pca = local_pca(cloud.points, cloud.within(radius), radius, num_axes=0, center=False)
        variances = host(pca.variances)
        rounding = 1e-13 * variances[:, :1]
        return self.count(np.sqrt(np.where(variances > rounding, variances, 0.0)))

    def combine(self, local: np.ndarray) -> int:
        if self.mean:
            return int(np.floor(local.mean() + 0.5))
        return super().combine(local)


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

    def local(self, cloud: PointCloud, eps_pca: float | None) -> np.ndarray:
        n = len(cloud)
        sizes = [size for size in SIZES if size <= n // 4] or [n - 1]
        local = self.compare(_sampled_spectra(cloud, sizes))
        dim = self.combine(local)
        if dim == cloud.ambient_dim:
            return local
        if spacing_variation(cloud) < MAX_SPACING_VARIATION:
            labels = sheet_labels(cloud, dim)
            dim_of_grid = dim + num_repetitions(cloud, labels, dim)
            if dim_of_grid > dim:
                _warn_of_sheets(dim, dim_of_grid, effective_number(labels))
                return np.full_like(local, dim_of_grid)
        across = self.compare(_spectra_at_checked_points(cloud, sizes[-1]))
        dim_across = self.combine(across)
        if dim_across <= dim:
            return local
        sheets = num_sheets(cloud, dim)
        if sheets >= MIN_SHEETS and n >= MIN_POINTS_OF_SHEET * sheets:
            _warn_of_sheets(dim, dim_across, sheets)
            return across
        return local

    def compare(self, spectra: Spectra) -> np.ndarray:
        """Local dimensions ``(m,)`` from the variances of neighbourhoods of several sizes."""
        mean_ratio_of = {}
        ratios_of = {}
        for size, variances in spectra:
            count, axes = variances.shape
            if axes == 1:
                return np.ones(count, dtype=np.int64)
            total = np.maximum(variances.sum(axis=1, keepdims=True), 1e-300)
            mean_shares = (variances / total).mean(axis=0, keepdims=True)
            mean_ratio_of[size] = self._ratios(mean_shares, size).max()
            ratios_of[size] = self._ratios(variances, size)
            if mean_ratio_of[size] >= self.clear:
                return _places_of_gaps(ratios_of[size])
        large = [size for size in mean_ratio_of if size >= MIN_SIZE_OF_FAINT_GAP]
        best = max(large or mean_ratio_of, key=lambda size: mean_ratio_of[size])
        if mean_ratio_of[best] < self.faint and axes <= MAX_FULL_DIMENSION:
            # k neighbours span k - 1 directions about their mean
            spanned = max(1, max(mean_ratio_of) - 1)
            return np.full(count, min(axes, spanned), dtype=np.int64)
        return _places_of_gaps(ratios_of[best])


def _places_of_gaps(ratios: np.ndarray) -> np.ndarray:
    """Dimensions ``(m,)`` below the widest of the ratios ``(m, q)`` of consecutive variances."""
    return 1 + ratios.argmax(axis=1)


def _sampled_spectra(cloud: PointCloud, sizes: list[int]) -> Spectra:
    """Variances of neighbourhoods of sampled points, each size computed when it is asked for."""
    for size in sizes:
        distances, indices = cloud.sampled_nearest(size)
        yield size, _variances_of_nearest(cloud, cloud.sample_rows(), distances, indices)


def _spectra_at_checked_points(cloud: PointCloud, size: int) -> Spectra:
    """Variances of the neighbourhoods of one size of ``CHECKED_POINTS`` points."""
    sample = cloud.sample_rows()
    rows = sample[:: max(1, len(sample) // CHECKED_POINTS)]
    distances, indices = cloud.nearest(size, rows)
    yield size, _variances_of_nearest(cloud, rows, distances, indices)


def _variances_of_nearest(
    cloud: PointCloud, rows: torch.Tensor, distances: torch.Tensor, indices: torch.Tensor
) -> np.ndarray:
    """Variances ``(m, q)`` of the neighbours of some rows, descending."""
    centers = cloud.points[rows]
    pca = pca_of_nearest(cloud.points, distances, indices, centers, num_axes=0)
    return host(pca.variances[:, :MAX_VARIANCES])


def num_sheets(cloud: PointCloud, dim: int) -> float:
    r"""How many sheets of dimension ``dim`` a cloud consists of, each weighted by its size.

    >>> x, y = np.meshgrid(np.arange(40.0), 5.0 * np.arange(10.0))
    >>> rows = PointCloud(torch.from_numpy(np.stack([x.ravel(), y.ravel()], axis=1)))
    >>> round(num_sheets(rows, dim=1))
    10
    """
    return effective_number(sheet_labels(cloud, dim))


def effective_number(labels: np.ndarray) -> float:
    r"""Number of the sets with ``labels`` (n,), each weighted by its size.

    With shares :math:`p_k` of the points in set k it is :math:`1/\sum_k p_k^2`: a few single points
    count for nothing.
    """
    shares = np.bincount(labels) / len(labels)
    return float(1.0 / np.square(shares).sum())


def sheet_labels(cloud: PointCloud, dim: int) -> np.ndarray:
    """The sheet of dimension ``dim`` of each point, ``(n,)``.

    A point is joined to those of its nearest neighbours that lie along its tangent space.
    """
    n = len(cloud)
    size = min(LINKED_NEIGHBORS, n - 1)
    distances, indices = cloud.nearest(size)
    tangent_size = min(size, 2 * dim)
    pca = pca_of_nearest(
        cloud.points,
        distances[:, :tangent_size],
        indices[:, :tangent_size],
        cloud.points,
        num_axes=dim,
    )
    steps = cloud.points[indices] - cloud.points[:, None]
    along = torch.linalg.vector_norm(steps @ pca.axes, dim=2)
    is_aligned = host(along >= MIN_ALIGNMENT * distances)
    rows = np.repeat(np.arange(n), is_aligned.sum(axis=1))
    return joined_labels(rows, host(indices)[is_aligned], n)


def joined_labels(starts: np.ndarray, ends: np.ndarray, n: int) -> np.ndarray:
    """Labels ``(n,)`` of the connected components of links from ``starts`` to ``ends``."""
    links = sparse.coo_array((np.ones(len(starts)), (starts, ends)), shape=(n, n))
    return connected_components(links, directed=False)[1]


def spacing_variation(cloud: PointCloud) -> float:
    """Standard deviation of the distances of sampled points to their nearest ones, in units of
    their mean."""
    distances = host(cloud.sampled_nearest(1)[0])
    return float(distances.std() / max(distances.mean(), 1e-300))


@dataclass(frozen=True, eq=False)
class ShiftedCloud:
    """A cloud that is compared with itself after a shift."""

    cloud: PointCloud

    @cached_property
    def points(self) -> np.ndarray:
        """The points ``(n, D)`` on the host."""
        return self.cloud.at(slice(None))

    @cached_property
    def tree(self) -> cKDTree:
        """A k-d tree of the points as they are, in any number of dimensions."""
        return cKDTree(self.points, balanced_tree=False, compact_nodes=False)

    @cached_property
    def spacings(self) -> np.ndarray:
        """Distance of each point to its nearest one, ``(n,)``."""
        distances, _ = self.cloud.nearest(1)
        return host(distances[:, 0])

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
        num_neighbors = min(2 * dim, len(self.cloud) - 1)
        rows = torch.tensor([row], device=self.cloud.device)
        distances, indices = self.cloud.nearest(num_neighbors, rows)
        centers = self.cloud.points[rows]
        pca = pca_of_nearest(self.cloud.points, distances, indices, centers, num_axes=dim)
        return host(pca.axes[0])


def num_repetitions(cloud: PointCloud, labels: np.ndarray, dim: int) -> int:
    """In how many directions the sheets of dimension ``dim`` with ``labels`` (n,) repeat, as the
    rows of a grid do.

    A grid of rows that are far from each other consists of sheets that one shift moves onto each
    other. Joined along this shift they are sheets of one more dimension, which may repeat in turn.

    >>> x, y, z = np.meshgrid(np.arange(9.0), 5.0 * np.arange(4.0), 5.0 * np.arange(4.0))
    >>> points = np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1)
    >>> grid = PointCloud(torch.from_numpy(points))
    >>> num_repetitions(grid, sheet_labels(grid, dim=1), dim=1)
    2
    """
    n = len(cloud)
    rows = np.arange(n)
    shifted = ShiftedCloud(cloud)
    shifts = np.zeros((0, cloud.ambient_dim))
    while dim + len(shifts) < cloud.ambient_dim:
        sheets = effective_number(labels)
        if sheets <= MIN_ROWS or n <= MIN_ROWS * sheets:
            break
        shift = shift_between_sheets(shifted, labels, dim, shifts)
        if shift is None:
            break
        starts, ends = shifted.matches(shift, rows, labels)
        first_of_sheet = np.unique(labels, return_index=True)[1]
        starts = np.concatenate([rows, starts])
        ends = np.concatenate([first_of_sheet[labels], ends])
        labels = joined_labels(starts, ends, n)
        shifts = np.concatenate([shifts, shift[None]])
    return len(shifts)


def shift_between_sheets(
    shifted: ShiftedCloud, labels: np.ndarray, dim: int, shifts: np.ndarray
) -> np.ndarray | None:
    """The shift ``(D,)`` that moves most points onto points of another sheet; None if there is none
    for ``MIN_SHIFTED_SHARE`` of them.

    Candidates lead from a point to the nearest one of another sheet, across the tangent space and
    the earlier ``shifts`` (s, D).
    """
    sample = host(shifted.cloud.sample_rows())
    points = shifted.points
    best_share = 0.0
    best_shift = None
    for row in sample[:: max(1, len(sample) // GRID_CANDIDATES)]:
        step = shifted.step_to_other_label(row, labels)
        along_sheet = np.concatenate([shifted.tangents(row, dim), shifts.T], axis=1)
        if cosine_to_span(step, along_sheet) > MAX_SHIFT_COSINE:
            continue
        starts, ends = shifted.matches(step, sample, labels)
        if len(starts) == 0:
            continue
        mean_step = (points[ends] - points[starts]).mean(axis=0)
        share = len(shifted.matches(mean_step, sample, labels)[0]) / len(sample)
        if share > best_share:
            best_share = share
            best_shift = mean_step
    if best_share < MIN_SHIFTED_SHARE:
        return None
    return best_shift


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
    cloud: PointCloud, dim: int | DimensionRule | None, eps_pca: float | None = None
) -> tuple[int, np.ndarray | None]:
    """A dimension that the user gave, checked, or an estimated one with the local estimates that it
    comes from.

    >>> circle = np.exp(2j * np.pi * np.arange(60) / 60)
    >>> cloud = PointCloud.from_points(np.stack([circle.real, circle.imag], axis=1))
    >>> resolve_dimension(cloud, WidestGap())[0]
    1
    """
    if dim is None:
        dim = WidestGap()
    if not isinstance(dim, DimensionRule):
        return check_dimension(dim, cloud.ambient_dim), None
    local = dim.local(cloud, eps_pca)
    estimate = dim.combine(local)
    _warn_of_disagreement(local, estimate)
    return estimate, local


def check_dimension(dim: int, ambient_dim: int) -> int:
    """Refuse what is no number of dimensions, up to that of the ambient space."""
    is_integer = isinstance(dim, (int, np.integer)) and not isinstance(dim, bool)
    if not is_integer or not 1 <= dim <= ambient_dim:
        raise InvalidInputError(
            argument="dim",
            expected=f"an integer from 1 to the ambient dimension {ambient_dim}",
            received=repr(dim),
        )
    return int(dim)


def _warn_of_disagreement(local: np.ndarray, estimate: int) -> None:
    share = float((local == estimate).mean())
    if share >= MIN_AGREEMENT:
        return
    dimensions, counts = np.unique(local, return_counts=True)
    points_of_dimension = dict(zip(dimensions.tolist(), counts.tolist(), strict=True))
    warn(
        f"only {share:.0%} of the points have local dimension {estimate} (points by dimension: "
        f"{points_of_dimension}). The cloud may be noisy, undersampled or a union of pieces.",
        DimensionWarning,
        remedy=Remedy("Give {dim} if you know it.", dim=...),
    )
