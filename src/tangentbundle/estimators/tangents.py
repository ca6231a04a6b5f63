"""Tangent spaces at the training points and at any others: exact ones, or by local PCA, turned to
agree."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import float_tensor, host
from ..errors import (
    DimensionWarning,
    InvalidInputError,
    IsolatedPointsError,
    NoInformationWarning,
    NotTangentWarning,
    Remedy,
    SuspiciousDataWarning,
    warn,
)
from ..geometry.cloud import PointCloud, refuse_degenerate
from ..geometry.dimension import resolve_dimension
from ..geometry.frame_signs import FrameSigns
from ..geometry.frames import PCASettings, estimate_frames
from ..geometry.graph import NeighborGraph
from ..geometry.local_pca import pca_of_nearest
from ..geometry.nearest_points import NearestPoints
from ..geometry.reach import Reach
from ..geometry.scale import NeighborCount, affordable_neighbors, target_neighbors
from ..manifolds import Manifold

MIN_POINTS_OF_DIMENSION = 30
"""Fewer points do not tell a curve from a surface."""

MIN_AGREEMENT = 0.98
"""Share of the similar neighbours that must agree for the bases to count as oriented."""

DENSE_POINTS = 2000
"""The accuracy of positions is estimated from so many points at most."""

QUADRATICS_FITTED = 300
"""Points at which it is estimated."""


@dataclass(frozen=True, eq=False)
class TangentSpaces:
    """Points ``(n, D)`` with orthonormal tangent bases ``(n, D, d)``; ``oriented`` if the bases
    agree everywhere."""

    points: np.ndarray
    frames: np.ndarray
    oriented: bool
    manifold: Manifold | None

    @classmethod
    def of(
        cls, points: np.ndarray, dim: Any = None, manifold: Manifold | None = None
    ) -> TangentSpaces:
        """Exact tangent spaces of a known manifold, otherwise estimated ones."""
        points = np.ascontiguousarray(points, dtype=float)
        if manifold is not None and not isinstance(manifold, Manifold):
            raise InvalidInputError(
                f"manifold must be an object such as manifolds.Sphere(2), got {manifold!r}."
            )
        if manifold is not None:
            return cls(points, exact_frames(manifold, points), manifold.orientable, manifold)
        cloud = PointCloud.along_curve(float_tensor(points, "points")[0])
        dim = _dimension(cloud, dim)
        if dim == cloud.ambient_dim:  # no frames to estimate
            return cls(points, _axes_of_space(points), True, None)
        refuse_degenerate(cloud.points)
        try:
            graph, eps = _ball_graph(cloud, dim)
        except IsolatedPointsError:
            # an outlier has a tangent space, too: that of its nearest points
            return cls.from_nearest(points, dim)
        frames = estimate_frames(cloud, graph, eps=eps, dim=dim, settings=PCASettings()).matrices
        signs = FrameSigns.of(cloud, graph, frames)
        frames[:, :, -1] *= signs.signs[:, None]
        oriented = signs.agreement > MIN_AGREEMENT
        return cls(points, host(cloud.in_user_order(frames)), oriented, None)

    @classmethod
    def from_nearest(cls, points: np.ndarray, d: int) -> TangentSpaces:
        """Spaces from as many nearest points everywhere, not turned to agree.

        An outlier, which sees all its nearest points in one direction, has the space of the nearest
        point that has one.
        """
        cloud = PointCloud.in_order(points)
        reach = Reach.of(cloud, d, target_neighbors(len(cloud), d))
        k = min(max(reach.num_neighbors // 2, 2 * d + 2), len(cloud) - 1)
        distances, indices = cloud.nearest(k)
        pca = pca_of_nearest(cloud.points, distances, indices, cloud.points, num_axes=d)
        outliers = host(pca.undetermined(d))
        has_space = np.ones(len(points), dtype=bool)
        has_space[outliers] = False
        candidates = host(indices)[outliers]
        if not has_space[candidates].any(axis=1).all():
            # refuses points that span too few directions
            return cls(points, host(pca.frames(d)), False, None)
        nearest = candidates[np.arange(len(outliers)), has_space[candidates].argmax(axis=1)]
        frames = host(pca.axes[:, :, :d]).copy()
        frames[outliers] = frames[nearest]
        return cls(points, frames, False, None)

    @property
    def dim(self) -> int:
        return self.frames.shape[2]

    @cached_property
    def tree(self) -> NearestPoints:
        return NearestPoints(self.points)

    @cached_property
    def spacing(self) -> float:
        """The largest distance of a point to its nearest one; of those that differ if all have
        duplicates."""
        spacing = float(self.tree.query(self.points, k=2)[0][:, 1].max())
        unique = self.points if spacing > 0 else np.unique(self.points, axis=0)
        if spacing > 0 or len(unique) == 1:
            return spacing
        return float(NearestPoints(unique).query(unique, k=2)[0][:, 1].max())

    @cached_property
    def position_variance(self) -> float:
        """The variance of each coordinate of the points about the space, zero if that is known.

        It is that of neighbours about quadratic functions on the tangent spaces, two for each
        coefficient; less what a third one for each would add, which is due to curvature. In dense
        clouds neighbours may be nearer than the points are exact, so that they seem to fill the
        space, and a sample is used.
        """
        n, D, d = self.frames.shape
        if self.manifold is not None:
            return 0.0
        if n > DENSE_POINTS:
            return self._sample(DENSE_POINTS).position_variance
        coefficients = (d + 1) * (d + 2) // 2
        if d == D or n <= 4 * coefficients:
            return 0.0
        fewer = self._variance_about_quadratics(2 * coefficients)
        more_neighbors = self._variance_about_quadratics(3 * coefficients)
        return max(2 * fewer - more_neighbors, 0.0)

    def _sample(self, count: int) -> TangentSpaces:
        """Spaces of a random part of the points, with the dimension these have."""
        rows = np.random.default_rng(0).choice(len(self.points), count, replace=False)
        sample = self.points[rows]
        dim = self.dim
        if dim == sample.shape[1]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DimensionWarning)
                dim = resolve_dimension(PointCloud.in_order(sample), None)[0]
        return TangentSpaces.from_nearest(sample, dim)

    def _variance_about_quadratics(self, count: int) -> float:
        """The median variance of a normal coordinate of ``count`` neighbours about a quadratic
        function of the tangent ones."""
        n, D, d = self.frames.shape
        rows = np.unique(np.linspace(0, n - 1, min(n, QUADRATICS_FITTED)).astype(int))
        frames = self.frames[rows]
        neighbors = self.tree.query(self.points[rows], k=count)[1]
        offsets = self.points[neighbors] - self.points[rows, None]
        along = offsets @ frames
        across = offsets - along @ frames.transpose(0, 2, 1)
        i, j = np.triu_indices(d)
        products = along[..., i] * along[..., j]
        basis = np.concatenate([np.ones_like(along[..., :1]), along, products], axis=2)
        axes = np.linalg.qr(basis)[0]
        residual = across - axes @ (axes.transpose(0, 2, 1) @ across)
        free = (count - basis.shape[2]) * (D - d)
        return float(np.median(np.square(residual).sum(axis=(1, 2)))) / free

    def at(self, points: np.ndarray) -> np.ndarray:
        """Bases ``(m, D, d)`` at other points: at training points those of training, elsewhere a
        mean of the nearest."""
        if self.manifold is not None:
            return exact_frames(self.manifold, points)
        count = min(2 * self.dim, len(self.points))
        distances, indices = self.tree.query(points, k=count)
        distances = distances.reshape(len(points), count)
        indices = indices.reshape(len(points), count)
        frames = self._mean_frames(distances, indices)
        is_training_point = distances[:, 0] == 0.0
        frames[is_training_point] = self.frames[indices[is_training_point, 0]]
        return frames

    def left_out(self, index: np.ndarray) -> np.ndarray:
        """Bases ``(m, D, d)`` at training points as they are elsewhere: from all points but
        these."""
        if self.manifold is not None:
            return self.frames[index]
        count = min(2 * self.dim, len(self.points) - 1)
        distances, indices = self.tree.query(self.points[index], k=count + 1)
        is_own = indices == index[:, None]
        is_own[~is_own.any(axis=1), -1] = True  # many coincident points
        distances = distances[~is_own].reshape(len(index), count)
        indices = indices[~is_own].reshape(len(index), count)
        return self._mean_frames(distances, indices)

    def _mean_frames(self, distances: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """The spaces ``(m, D, d)`` nearest to the projections of training points ``(m, k)``,
        weighted by inverse squared distances; turned to agree with the first ones."""
        m, k = indices.shape
        D = self.points.shape[1]
        d = self.dim
        if d == D:
            return _axes_of_space(np.empty((m, D)))
        squares = np.square(distances)
        squares = np.maximum(squares, 1e-24 * squares[:, -1:] + 1e-300)  # of each point by itself
        weights = squares[:, :1] / squares
        weighted = np.sqrt(weights)[:, :, None, None] * self.frames[indices]
        spans = weighted.transpose(0, 2, 1, 3).reshape(m, D, k * d)
        eigenvalues, vectors = np.linalg.eigh(spans.transpose(0, 2, 1) @ spans)
        largest = np.maximum(eigenvalues[:, None, : -d - 1 : -1], 1e-300)
        axes = spans @ vectors[:, :, : -d - 1 : -1] / np.sqrt(largest)
        nearest = self.frames[indices[:, 0]]
        left, _, right = np.linalg.svd(axes.transpose(0, 2, 1) @ nearest)
        return axes @ (left @ right)

    def warn_if_far(self, points: np.ndarray, ratio: float = 3.0) -> np.ndarray:
        """Which points ``(m,)`` are so much further from the training points than neighbours among
        these; warns."""
        if len(self.points) < 2:
            return np.zeros(len(points), dtype=bool)
        spacing = self.spacing
        distances = self.tree.query(points)[0]
        far = distances > ratio * spacing
        if far.any():
            warn(
                f"{int(far.sum())} of {len(points)} points lie up to {distances.max():.3g} from "
                f"the nearest training point; training points are typically {spacing:.3g} apart. "
                "Predictions there are little more than the prior.",
                NoInformationWarning,
                remedy=Remedy(
                    "Use {return_std}, and check the units of the points and the order of their "
                    "coordinates.",
                    return_std=True,
                ),
            )
        return far


def _dimension(cloud: PointCloud, dim: Any) -> int:
    """As given, or estimated; few points are taken as all of the space in at most three
    dimensions."""
    n = len(cloud)
    D = cloud.ambient_dim
    if dim is not None or n >= MIN_POINTS_OF_DIMENSION:
        return resolve_dimension(cloud, dim)[0]
    resolved = D
    if D > 3:
        resolved = resolve_dimension(cloud, dim)[0]
    warn(
        f"{n} points are too few to estimate the dimension of the space they lie on, in {D} "
        f"dimensions: it is taken as {resolved}.",
        DimensionWarning,
        remedy=Remedy("Give {dim} if you know it.", dim=...),
    )
    return resolved


def _ball_graph(cloud: PointCloud, dim: int) -> tuple[NeighborGraph, float]:
    """The graph and the squared radius at the automatic scale, or at one that a laptop can afford.

    Points that are too sparse for Laplacians still have tangent spaces: nothing warns of them.
    """
    affordable = affordable_neighbors(len(cloud))
    if affordable is not None:
        return NeighborCount(affordable).ball_graph(cloud, dim)
    reach = Reach.of(cloud, dim, target_neighbors(len(cloud), dim))
    return NeighborCount(reach.num_neighbors).joined_ball_graph(cloud, dim)


def _axes_of_space(points: np.ndarray) -> np.ndarray:
    """The standard basis at every point, ``(n, D, D)``."""
    return np.broadcast_to(np.eye(points.shape[1]), (*points.shape, points.shape[1])).copy()


def exact_frames(manifold: Manifold, points: np.ndarray, share: float = 0.1) -> np.ndarray:
    """Tangent bases ``(n, D, d)`` of a known manifold; warns of points off it by such a share of
    its extent."""
    nearest = manifold.nearest(points)
    distances = np.linalg.norm(points - nearest, axis=1)
    extent = float(np.sqrt(np.square(nearest).sum(axis=1).mean()))
    is_off = distances > share * extent
    if is_off.any():
        warn(
            f"{int(is_off.sum())} of {len(points)} points lie up to {distances.max():.3g} from "
            f"{manifold}, which extends about {extent:.3g} from the origin. Are manifold and "
            "units right?",
            SuspiciousDataWarning,
        )
    return manifold.frames(points)


def check_tangent(y: np.ndarray, coordinates: np.ndarray, weights: np.ndarray) -> float:
    """The share of the energy of vectors ``(n, D)`` off the tangent spaces, with weights ``(n,)``;
    refused if nothing else is left."""
    total = float(weights @ np.square(y).sum(axis=1))
    share = 0.0
    if total > 0:
        share = 1.0 - float(weights @ np.square(coordinates).sum(axis=1)) / total
    dim = coordinates.shape[-1]
    ambient_dim = y.shape[-1]
    if share > 1 - 0.02 * dim / ambient_dim:
        raise InvalidInputError(
            f"{share:.1%} of the vectors' energy is normal to the tangent spaces: there is no "
            "tangent field to learn. Are they ambient vectors, in the order of the points?"
        )
    if share > 1 - 0.5 * dim / ambient_dim:
        warn(
            f"{share:.0%} of the vectors' energy is normal to the tangent spaces. Are they ambient "
            "vectors, in the order of the points? Is the dimension right?",
            NotTangentWarning,
        )
    return share
