r"""Orthonormal bases of the tangent spaces: known, or estimated by local PCA.

Where the points have gradients, estimated bases have them, too. The first d eigenvectors of

.. math:: C_i = \sum_j b_{ij}\,(x_j - \bar x_i)(x_j - \bar x_i)^T

are defined up to a turn within their plane, whose derivative is set to zero. So gradients are right
for losses that do not depend on frames, such as all that are computed from ambient vectors;
eigenvalues that are close within the plane do no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import median, positive
from ..errors import InvalidInputError, SuspiciousDataWarning, warn
from ..transforms import outside_transforms
from .cloud import PointCloud
from .graph import NeighborGraph
from .kernels import Biweight
from .local_pca import REACH_OF_NEAREST, LocalPCA, local_pca, pca_of_nearest

NOISE_SHARE = 0.4
"""Share of a median neighbourhood's variance off its tangent space above which the cloud counts as
noisy."""

MAX_TILTED_SHARE = 0.015
"""Outliers are suspected where more pairs of neighbours than this share stand at more than 60
degrees, though most pairs agree: on clean surfaces of ``MIN_SMOOTHNESS`` it is below 0.01."""

MIN_SMOOTHNESS = 0.93
"""Cosine of the median pair of neighbours above which most pairs agree."""

MIN_POINTS = 500
"""Points from which outliers are looked for: among fewer, curved ends of an ellipsoid look the
same."""

MAX_COMPARED_EDGES = 40_000
"""Up to so many edges all tangent spaces are compared, above a sample."""

NUM_SAMPLED_EDGES = 4000
"""Edges of that sample."""


@dataclass(frozen=True, eq=False)
class TangentFrames:
    """A basis of each tangent space: ``matrices (n, D, d)``, with orthonormal columns.

    >>> frames = TangentFrames(torch.eye(3)[:, :2].expand(5, 3, 2))
    >>> frames.dim, frames.is_estimated
    (2, False)
    """

    matrices: Tensor

    is_estimated = False

    @property
    def dim(self) -> int:
        """The dimension d of the tangent spaces."""
        return self.matrices.shape[2]

    def to_coordinates(self, vectors: Tensor) -> Tensor:
        r""":math:`f_i = O_i^T v_i`: vectors ``(..., n, D, c)`` to coordinates
        ``(..., n, d, c)``."""
        return torch.einsum("nij,...nic->...njc", self.matrices.to(vectors), vectors)

    def to_ambient(self, signal: Tensor) -> Tensor:
        r""":math:`v_i = O_i f_i`: coordinates ``(..., n, d, c)`` to vectors ``(..., n, D, c)``."""
        return torch.einsum("nij,...njc->...nic", self.matrices.to(signal), signal)

    def moved(self, cloud: PointCloud, points: Tensor) -> TangentFrames:
        """Frames at other points: those that are given do not depend on the points."""
        raise InvalidInputError(
            "gradients in the points need frames that are estimated: build the bundle with "
            "from_points."
        )

    def warn_of_noise(self, graph: NeighborGraph) -> None:
        """Known frames are not in doubt."""


@dataclass(frozen=True, eq=False)
class EstimatedFrames(TangentFrames):
    """Bases from local PCA: its first d axes.

    ``pca`` is the analysis within balls of squared radius ``eps_pca``, but at the points
    ``by_nearest`` of their nearest neighbours, and ``center`` says whether about the mean of each
    neighbourhood; ``local_dimensions`` are the estimates of the dimension that it was chosen from,
    where it was.
    """

    pca: LocalPCA
    eps_pca: float
    by_nearest: Tensor
    center: bool
    local_dimensions: np.ndarray | None = None

    is_estimated = True

    def moved(self, cloud: PointCloud, points: Tensor) -> TangentFrames:
        """Bases at other points ``(n, D)``, differentiable in them, with the neighbourhoods that
        the points of the cloud have."""
        with outside_transforms():
            edges = self._edges_of_pca(cloud)
        covariances = _covariances_of_edges(points, *edges, center=self.center)
        return TangentFrames(_LeadingEigenvectors.apply(covariances, self.matrices)[0])

    def _edges_of_pca(self, cloud: PointCloud) -> tuple[Tensor, Tensor, Tensor]:
        """Edges of the neighbourhoods that were analysed, and the radius at each: rows, columns and
        radii ``(e,)``."""
        radius = self.eps_pca**0.5
        graph = cloud.within(radius, dim=self.dim)
        in_ball = ~torch.isin(graph.rows, self.by_nearest)
        count = num_nearest(cloud, self.dim)
        distances, nearest = cloud.nearest(count, self.by_nearest)
        reach_of_nearest = REACH_OF_NEAREST * distances[:, -1]
        rows = torch.cat([graph.rows[in_ball], self.by_nearest.repeat_interleave(count)])
        columns = torch.cat([graph.indices[in_ball].long(), nearest.flatten()])
        reach = torch.full_like(graph.distances[in_ball], radius)
        return rows, columns, torch.cat([reach, reach_of_nearest.repeat_interleave(count)])

    def warn_of_noise(self, graph: NeighborGraph) -> None:
        """Warn of neighbourhoods whose variance lies mostly off the tangent spaces, and of signs of
        outliers."""
        share = median(self.pca.residual(self.dim))
        if share > NOISE_SHARE:
            warn(
                f"{share:.0%} of the variance of the median neighbourhood lies off its tangent "
                "space: noise hides the manifold at this scale, or its dimension is not "
                f"{self.dim}. Use a larger eps, give another dim, or project the cloud onto its "
                "leading principal coordinates first.",
                SuspiciousDataWarning,
            )
        if graph.num_points < MIN_POINTS:
            return
        cosines = smallest_cosines(products_along_edges(self.matrices, graph))
        tilted = float((cosines < 0.5).double().mean())
        if tilted > MAX_TILTED_SHARE and median(cosines) > MIN_SMOOTHNESS:
            warn(
                f"most neighbouring tangent spaces agree well, but {tilted:.1%} of pairs stand at "
                "more than 60 degrees: there may be outliers, sharp edges, or sheets closer to "
                "each other than the scale. Remove outliers, or use a smaller eps.",
                SuspiciousDataWarning,
            )


@dataclass(frozen=True)
class PCASettings:
    """How local PCA is done: within the squared radius ``eps_pca``, or by default within that of
    half the neighbours; about the weighted mean of each neighbourhood, or about the point."""

    eps_pca: float | None = None
    center: bool = True

    def __post_init__(self) -> None:
        if self.eps_pca is not None:
            object.__setattr__(self, "eps_pca", positive(self.eps_pca, "eps_pca"))

    def squared_radius(self, eps: float, dim: int) -> float:
        """``eps_pca``; by default its ball holds half as many neighbours as that of ``eps``."""
        if self.eps_pca is not None:
            return self.eps_pca
        return eps * 0.5 ** (2 / dim)


def neighborhood_pca(
    cloud: PointCloud,
    graph: NeighborGraph,
    *,
    eps: float,
    dim: int,
    settings: PCASettings,
    max_memory: float | None = None,
    rows: slice | None = None,
) -> tuple[LocalPCA, Tensor]:
    """Local PCA of all points, or of those ``rows`` that the graph has; and the numbers of those
    whose nearest neighbours it looks at.

    Points with fewer than ``2 d + 2`` neighbours in the default ball, or whose neighbours there do
    not span d directions, use their ``2 d + 2`` nearest ones instead, however far. A ball that the
    user gave is obeyed, and ``LocalPCA.frames`` refuses neighbours that do not span d directions.
    """
    eps_pca = settings.squared_radius(eps, dim)
    radius = float(np.sqrt(eps_pca))
    if eps_pca > eps:
        graph = cloud.within(radius, max_memory=max_memory, dim=dim, rows=rows)
    centers = cloud.points
    if rows is not None:
        centers = cloud.points[rows]
    options: dict[str, Any] = {"num_axes": dim, "center": settings.center}
    pca = local_pca(cloud.points, graph, radius, centers=centers, **options)
    least = num_nearest(cloud, dim)
    few = (pca.counts < least).nonzero().flatten()
    poor = torch.cat([few, pca.undetermined(dim)]).unique()
    if settings.eps_pca is not None:
        return pca, poor[:0]
    if len(poor):
        first_row = 0 if rows is None else rows.start
        distances, indices = cloud.nearest(least, first_row + poor)
        nearest = pca_of_nearest(cloud.points, distances, indices, centers[poor], **options)
        pca.replace(poor, nearest)
    return pca, poor


def num_nearest(cloud: PointCloud, dim: int) -> int:
    """Nearest neighbours that determine a tangent space: ``2 d + 2``, or all there are."""
    return min(2 * dim + 2, len(cloud) - 1)


def estimate_frames(
    cloud: PointCloud,
    graph: NeighborGraph,
    *,
    eps: float,
    dim: int,
    settings: PCASettings,
    max_memory: float | None = None,
    local_dimensions: np.ndarray | None = None,
) -> EstimatedFrames:
    """The first ``dim`` axes of all neighbourhoods."""
    pca, by_nearest = neighborhood_pca(
        cloud, graph, eps=eps, dim=dim, settings=settings, max_memory=max_memory
    )
    return EstimatedFrames(
        matrices=pca.frames(dim, cloud.curve_order),
        pca=pca,
        eps_pca=settings.squared_radius(eps, dim),
        by_nearest=by_nearest,
        center=settings.center,
        local_dimensions=local_dimensions,
    )


# Gradients in the points.


class _LeadingEigenvectors(torch.autograd.Function):
    """The first d eigenvectors of symmetric matrices ``(n, D, D)``, turned within their span
    towards ``like``.

    Eigenvalues, eigenvectors and the turn are outputs for the backward pass alone.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(covariance: Tensor, like: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(covariance)
        tangent = vectors[..., -like.shape[-1] :]
        left, _, right = torch.linalg.svd(tangent.mT @ like)
        turn = left @ right
        return tangent @ turn, values, vectors, turn

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _, values, vectors, turn = output
        ctx.mark_non_differentiable(values, vectors, turn)
        ctx.save_for_backward(values, vectors, turn)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor, *unused: Tensor):
        values, vectors, turn = ctx.saved_tensors
        d = turn.shape[-1]
        normal = vectors[..., :-d]
        tangent = vectors[..., -d:]
        gaps = values[..., None, -d:] - values[..., :-d, None]
        mixed = normal @ (normal.mT @ grad @ turn.mT / gaps) @ tangent.mT
        return (mixed + mixed.mT) / 2, None


def _covariances_of_edges(
    points: Tensor, rows: Tensor, columns: Tensor, reach: Tensor, *, center: bool
) -> Tensor:
    """Covariances ``(n, D, D)`` of neighbourhoods of points ``(n, D)``, given by their edges."""
    n = len(points)
    steps = points[columns] - points[rows]
    weights = Biweight()(torch.linalg.vector_norm(steps, dim=1) / reach)[:, None]
    totals = points.new_zeros(n, 1).index_add(0, rows, weights)
    if center:
        means = torch.zeros_like(points).index_add(0, rows, weights * steps) / totals
        steps = steps - means[rows]
    products = steps[:, :, None] * (weights / totals[rows] * steps)[:, None]
    return points.new_zeros(n, *products.shape[1:]).index_add(0, rows, products)


# How well neighbouring tangent spaces agree.


def products_along_edges(matrices: Tensor, graph: NeighborGraph) -> Tensor:
    """The products of the bases ``(n, D, d)`` at both ends of edges, ``(m, d, d)``: of all edges,
    or of a sample."""
    if graph.num_edges <= MAX_COMPARED_EDGES:
        edges = torch.arange(graph.num_edges, device=graph.device)
    else:
        sample = np.random.default_rng(0).integers(0, graph.num_edges, NUM_SAMPLED_EDGES)
        edges = torch.from_numpy(sample).to(graph.device)
    rows = torch.searchsorted(graph.indptr, edges, right=True) - 1
    return matrices[rows].mT @ matrices[graph.indices[edges]]


def smallest_cosines(products: Tensor) -> Tensor:
    """Cosine of the largest angle between two tangent spaces, ``(m,)``: the least singular value of
    ``(m, d, d)``."""
    d = products.shape[-1]
    if d > 2:
        return torch.linalg.svdvals(products.cpu())[:, -1]
    determinants = torch.linalg.det(products).abs()
    if d == 1:
        return determinants
    squares = products.square().sum(dim=(1, 2))
    discriminant = (squares.square() - 4 * determinants.square()).clamp_min(0.0)
    largest = ((squares + discriminant.sqrt()) / 2).sqrt()
    return determinants / largest.clamp_min(torch.finfo(products.dtype).tiny)
