r"""Balls about sampled points: how much the surface bends in them, and whether it is one sheet.

In the axes of its local PCA a neighbour has d coordinates along the tangent space, and the
coordinate along the next axis is its *height*. A surface of curvature :math:`\kappa` has heights
:math:`\kappa s^2 / 2` at the distance s from the center. Steep chords lead to another sheet, and
heights with a gap belong to two layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from ..arrays import host
from .cloud import PointCloud
from .graph import NeighborGraph
from .local_pca import LocalPCA, local_pca
from .sampled_neighbors import SampledNeighbors
from .small_matrices import TINY

WEIGHT_REACH = 1.2
"""Radius, in radii of the ball, at which the weights of the local PCA of a ball vanish: its rim
keeps some weight."""

STEEP_COSINE = 0.5
"""Cosine of the angle to the tangent space above which a chord leads to another sheet."""

SHEET_MARGIN = 0.98
"""Share of the least distance to another sheet, among sampled points, that a ball may reach: others
are nearer."""

MIN_BIMODALITY = 0.776
"""Bimodality, (skewness^2 + 1) / kurtosis, above which heights lie on two layers. It is 1 for two
values, 5/9 for uniform heights, and this if the middle third of a uniform distribution is empty:
then the layers are as thick as the gap between them."""

MIN_HEIGHTS = 24
"""Fewest neighbours whose heights are tested for two layers: the standard error of a kurtosis,
sqrt(24 / k), is one."""


@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """Points ``centers`` (m, D) with ``chords`` (m, k, D) to their k nearest other points.

    ``distances`` (m, k) are the lengths of the chords, nearest first, and ``indices`` (m, k) the
    points at their ends.
    """

    centers: np.ndarray
    chords: np.ndarray
    distances: np.ndarray
    indices: np.ndarray

    @classmethod
    def of(cls, cloud: PointCloud, sample: SampledNeighbors, part: slice) -> Neighborhoods:
        """The neighbourhoods of consecutive sampled points."""
        indices = sample.indices[part]
        centers = cloud.at(sample.rows[part])
        chords = cloud.at(indices) - centers[:, None]
        return cls(centers, chords, distances=sample.distances[part], indices=indices)

    def nearest(self, k: int) -> Neighborhoods:
        """The same with the k nearest points alone."""
        return Neighborhoods(
            self.centers,
            self.chords[:, :k],
            distances=self.distances[:, :k],
            indices=self.indices[:, :k],
        )


@dataclass(frozen=True, eq=False)
class HeightFit:
    """A regression of the heights on squared distances from the center, in units of the radius.

    Attributes: ``weights`` (m, k) of the neighbours, zero outside of the ball, with sum one;
    ``slopes`` (m,); ``residuals`` (m, k), zero outside of the ball.
    """

    weights: np.ndarray
    slopes: np.ndarray
    residuals: np.ndarray

    @cached_property
    def variances(self) -> np.ndarray:
        """Weighted mean squares of the residuals, ``(m,)``."""
        return (self.weights * self.residuals**2).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Balls:
    """Balls about m points, with their neighbours in the axes of local PCA.

    Attributes: ``dim`` d; ``radii`` (m,); ``distances`` (m, k) of the listed neighbours, nearest
    first, some of which may be outside; ``steps`` (m, k, d + 1), their coordinates along the axes;
    ``counts`` (m,) of neighbours in the PCA, and its ``variances`` (m, d + 1).
    """

    dim: int
    radii: np.ndarray
    distances: np.ndarray
    steps: np.ndarray
    counts: np.ndarray
    variances: np.ndarray

    @classmethod
    def of(
        cls, cloud: PointCloud, neighborhoods: Neighborhoods, *, radii: np.ndarray, dim: int
    ) -> Balls:
        """Balls of ``radii`` (m,) in a cloud."""
        pca = ball_pca(cloud, neighborhoods, radii=radii, dim=dim)
        return cls(
            dim=dim,
            radii=radii,
            distances=neighborhoods.distances,
            steps=neighborhoods.chords @ host(pca.axes),
            counts=host(pca.counts),
            variances=host(pca.variances),
        )

    @classmethod
    def of_radius(
        cls, cloud: PointCloud, neighborhoods: Neighborhoods, *, radius: float, dim: int
    ) -> Balls:
        """Balls of one radius, or as large as the lists of neighbours where these end before."""
        distances = neighborhoods.distances
        radii = np.minimum(radius, distances[:, -1])
        radii[radii == 0] = radius  # all listed points coincide with the center
        largest_count = int((distances <= radius).sum(axis=1).max())
        inside = neighborhoods.nearest(max(1, largest_count))
        return cls.of(cloud, inside, radii=radii, dim=dim)

    @cached_property
    def is_inside(self) -> np.ndarray:
        """Which of the listed neighbours lie in the ball, ``(m, k)``."""
        return self.distances <= self.radii[:, None]

    @cached_property
    def height_fit(self) -> HeightFit:
        """Regression of the heights off the tangent space on squared distances."""
        shares = self.distances / (WEIGHT_REACH * self.radii[:, None])
        weights = np.where(self.is_inside, (1 - shares**2) ** 2, 0.0)
        weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY)
        heights = self.steps[:, :, self.dim] / self.radii[:, None]
        squares = np.square(self.distances / self.radii[:, None])
        heights = heights - (weights * heights).sum(axis=1, keepdims=True)
        squares = squares - (weights * squares).sum(axis=1, keepdims=True)
        covariances = (weights * heights * squares).sum(axis=1)
        slopes = covariances / np.maximum((weights * squares**2).sum(axis=1), TINY)
        residuals = np.where(weights > 0, heights - slopes[:, None] * squares, 0.0)
        return HeightFit(weights, slopes, residuals)

    def bends(self, radius: float) -> np.ndarray:
        """The radius times the curvature ``(m,)``; infinite where a ball reaches another sheet.

        ``radius`` is that which the balls were to have. Chords up to half of it do not count: noise
        makes short chords steep.
        """
        sheets = self.sheet_distances()
        reaches_sheet = (sheets > radius / 2) & (SHEET_MARGIN * sheets <= radius)
        return np.where(reaches_sheet.any(axis=1), np.inf, radius * self.curvatures())

    def curvatures(self) -> np.ndarray:
        r"""Largest curvature within each ball, ``(m,)``.

        A surface leaves its tangent space by :math:`y = \frac{1}{2} x^T A x`. Let :math:`A = h I +
        A_0`, with the mean h of the principal curvatures and a traceless rest. Under weights that
        are the same in all directions the rest is uncorrelated with the squared distance
        :math:`s^2` from the center, so that a regression of y on it (exact on spheres) gives both,

        .. math::
            h = \frac{2 \, \mathrm{Cov}(y, s^2)}{\mathrm{Var}\,s^2}, \qquad
            \mathrm{Var}\bigl(y - \tfrac{h}{2} s^2\bigr)
            = \tfrac{1}{2} \|A_0\|^2 E[x_1^2 x_2^2].

        The largest principal curvature is at most :math:`|h| + \sqrt{(d - 1) / d} \, \|A_0\|`, with
        equality for surfaces, spheres and tubes.

        The curvature is NaN where the ball holds too few points, and infinite where the normal
        variance is half of one along the tangent space or more: such a ball has no tangent space.
        """
        curvatures = 2 * np.abs(self.height_fit.slopes)
        if self.dim > 1:
            curvatures = curvatures + self._traceless_curvatures()
        is_flat = 2 * self.variances[:, self.dim] <= self.variances[:, self.dim - 1]
        has_enough = self.counts > self.dim + 2
        return np.where(has_enough, np.where(is_flat, curvatures / self.radii, np.inf), np.nan)

    def _traceless_curvatures(self) -> np.ndarray:
        r"""The part :math:`\sqrt{(d - 1) / d} \, \|A_0\|` of the curvatures, times the radii."""
        dim = self.dim
        # the mean, the tangent space and the slope are fitted
        freedom = (self.counts - dim - 2) / np.maximum(self.counts, 1)
        variances = self.height_fit.variances / np.where(freedom > 0, freedom, np.nan)
        return np.sqrt((dim - 1) / dim * 2 * variances / mixed_moment(dim))

    def sheet_distances(self) -> np.ndarray:
        """Lengths ``(m, k)`` of the chords that lead to another sheet, others infinite.

        They leave the tangent space at more than 60 degrees. On one sheet a chord as long as the
        radius of curvature leaves it at 30 degrees.
        """
        along = np.square(self.steps[:, :, : self.dim]).sum(axis=2)
        is_steep = along < STEEP_COSINE**2 * self.distances**2
        return np.where(is_steep, self.distances, np.inf)

    def on_two_layers(self) -> np.ndarray:
        r"""Which balls ``(m,)`` hold two parallel layers: the heights have a gap.

        The residuals of ``height_fit`` have the bimodality :math:`(\gamma_1^2 + 1) / \gamma_2`,
        with skewness :math:`\gamma_1` and kurtosis :math:`\gamma_2`. It is above
        ``MIN_BIMODALITY``, while noise with one mode has about 5/9 at most. Layers whose distance
        is below that of neighbouring points, :math:`r k^{-1/d}`, are one thick layer.
        """
        fit = self.height_fit
        scaled = fit.residuals / np.sqrt(np.maximum(fit.variances, TINY))[:, None]
        skewness = (fit.weights * scaled**3).sum(axis=1)
        kurtosis = (fit.weights * scaled**4).sum(axis=1)
        is_bimodal = skewness**2 + 1 > MIN_BIMODALITY * kurtosis
        counts = self.is_inside.sum(axis=1)
        gaps = 2 * np.sqrt(fit.variances)
        spacings = np.maximum(counts, 1) ** (-1 / self.dim)
        return is_bimodal & (gaps > spacings) & (counts >= MIN_HEIGHTS)


def ball_pca(
    cloud: PointCloud, neighborhoods: Neighborhoods, *, radii: np.ndarray, dim: int
) -> LocalPCA:
    """Local PCA of the neighbours within ``radii`` (m,), with one axis more than the tangent
    space."""
    device = cloud.device
    is_inside = neighborhoods.distances <= radii[:, None]
    ends = np.concatenate([[0], np.cumsum(is_inside.sum(axis=1))])
    indices = neighborhoods.indices[is_inside].astype(np.int32)
    graph = NeighborGraph(
        indptr=torch.as_tensor(ends, device=device),
        indices=torch.as_tensor(indices, device=device),
        distances=torch.as_tensor(neighborhoods.distances[is_inside], device=device),
    )
    return local_pca(
        cloud.points,
        graph,
        torch.as_tensor(WEIGHT_REACH * radii, device=device),
        centers=torch.as_tensor(neighborhoods.centers, device=device),
        num_axes=dim + 1,
    )


def mixed_moment(dim: int) -> float:
    """Mean of the product of the squares of two coordinates in the unit ball, weighted as
    ``ball_pca``.

    >>> bool(0.02 < mixed_moment(2) < 1 / 24)  # 1/24 without weights
    True
    """
    return radial_moment(dim + 4) / (dim * (dim + 2) * radial_moment(dim))


def radial_moment(power: int) -> float:
    r""":math:`\int_0^1 u^{p - 1} (1 - (u / 1.2)^2)^2 \, du`, with ``WEIGHT_REACH`` for 1.2."""
    rim = 1.0 / WEIGHT_REACH
    return 1 / power - 2 * rim**2 / (power + 2) + rim**4 / (power + 4)
