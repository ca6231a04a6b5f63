"""Tangent spaces at the training points and at any others: exact ones, or by local PCA, turned to
agree."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import host
from ..bundle import TangentBundle
from ..calculus.orientation import confident_edges, tree_signs
from ..errors import (
    DimensionWarning,
    InvalidInputError,
    IsolatedPointsError,
    NoInformationWarning,
    Remedy,
    SuspiciousDataWarning,
    TangentBundleWarning,
    warn,
)
from ..geometry.cloud import PointCloud
from ..geometry.dimension import resolve_dimension
from ..geometry.local_pca import pca_of_nearest
from ..geometry.reach import Reach
from ..geometry.scale import affordable_neighbors, target_neighbors
from ..manifolds import Manifold
from .neighborhoods import NearestPoints


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
        dim = _dimension(points, dim)
        if dim == points.shape[1]:  # all of the space: no frames to estimate
            return cls(points, _axes_of_space(points), True, None)
        with (
            warnings.catch_warnings()
        ):  # scales and components matter to Laplacians, not to tangent spaces
            warnings.simplefilter("ignore", TangentBundleWarning)
            try:
                bundle = TangentBundle.from_points(
                    points, dim=dim, neighbors=affordable_neighbors(len(points))
                )
            except (
                IsolatedPointsError
            ):  # an outlier has a tangent space, too: that of its nearest points
                return cls.from_nearest(points, dim)
        edges = confident_edges(bundle)
        signs = _with_most_columns_kept(host(tree_signs(edges)), host(edges.components))
        signs_at_starts = signs[host(edges.rows)]
        signs_at_ends = signs[host(edges.indices)]
        agree = signs_at_starts * host(edges.distances) * signs_at_ends > 0
        frames = np.array(bundle.frames, dtype=float)
        frames[host(bundle.cloud.curve_order), :, -1] *= signs[:, None]
        return cls(points, frames, bool(len(agree) and agree.mean() > 0.98), None)

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
        space, and a sample of 2000 is used.
        """
        n, D, d = self.frames.shape
        if self.manifold is not None:
            return 0.0
        if n > 2000:
            sample = self.points[np.random.default_rng(0).choice(n, 2000, replace=False)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DimensionWarning)
                d = resolve_dimension(PointCloud.in_order(sample), None)[0] if d == D else d
            return TangentSpaces.from_nearest(sample, d).position_variance
        terms = (d + 1) * (d + 2) // 2
        if d == D or n <= 4 * terms:
            return 0.0
        rows = np.unique(np.linspace(0, n - 1, min(n, 300)).astype(int))
        frames, (i, j) = self.frames[rows], np.triu_indices(d)
        away = (
            self.points[self.tree.query(self.points[rows], k=3 * terms)[1]]
            - self.points[rows, None]
        )
        along = away @ frames
        across = away - along @ frames.transpose(0, 2, 1)
        basis = np.concatenate(
            [np.ones_like(along[..., :1]), along, along[..., i] * along[..., j]], axis=2
        )
        found = []
        for k in (2 * terms, 3 * terms):
            axes = np.linalg.qr(basis[:, :k])[0]
            rest = across[:, :k] - axes @ (axes.transpose(0, 2, 1) @ across[:, :k])
            found.append(
                float(np.median(np.square(rest).sum(axis=(1, 2)))) / ((k - terms) * (D - d))
            )
        return max(2 * found[0] - found[1], 0.0)

    def at(self, points: np.ndarray) -> np.ndarray:
        """Bases ``(m, D, d)`` at other points: at training points those of training, elsewhere a
        mean of the nearest.

        The mean is the space nearest to the projections of ``2 d`` training points, by inverse
        squared distance.
        """
        if self.manifold is not None:
            return exact_frames(self.manifold, points)
        d, (m, D) = self.dim, points.shape
        if d == D:
            return _axes_of_space(points)
        k = min(2 * d, len(self.points))
        distances, indices = (a.reshape(m, k) for a in self.tree.query(points, k=k))
        squares = np.square(distances)
        squares = np.maximum(squares, 1e-24 * squares[:, -1:] + 1e-300)  # of each point by itself
        weights = squares[:, :1] / squares
        spans = (
            (np.sqrt(weights)[:, :, None, None] * self.frames[indices])
            .transpose(0, 2, 1, 3)
            .reshape(m, D, k * d)
        )
        values, vectors = np.linalg.eigh(spans.transpose(0, 2, 1) @ spans)
        axes = (
            spans
            @ vectors[:, :, : -d - 1 : -1]
            / np.sqrt(np.maximum(values[:, None, : -d - 1 : -1], 1e-300))
        )
        nearest = self.frames[indices[:, 0]]
        left, _, right = np.linalg.svd(axes.transpose(0, 2, 1) @ nearest)
        axes = axes @ (left @ right)  # turned to agree with the nearest basis
        axes[distances[:, 0] == 0.0] = nearest[distances[:, 0] == 0.0]
        return axes

    def warn_if_far(self, points: np.ndarray, ratio: float = 3.0) -> np.ndarray:
        """Which points ``(m,)`` are so much further from the training points than neighbours among
        these; warns."""
        if len(self.points) < 2:
            return np.zeros(len(points), dtype=bool)
        spacing, distances = self.spacing, self.tree.query(points)[0]
        far = distances > ratio * spacing
        if far.any():
            warn(
                f"{int(far.sum())} of {len(points)} points lie up to {distances.max():.3g} from "
                f"the nearest training point; training points are typically {spacing:.3g} apart. "
                "Predictions there are little more than the prior.",
                NoInformationWarning,
                remedy=Remedy(
                    "Use {return_std}, and check the units of the points.", return_std=True
                ),
            )
        return far


def _with_most_columns_kept(signs: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Of the two orientations of each component, the one that keeps the stated sign of most
    columns.

    ``signs`` (n,) orient the frames along the curve, up to a sign of each component. Where both
    orientations keep equally many, the first point along the curve keeps its frame.
    """
    kept = np.bincount(components, weights=signs)
    first = np.unique(components, return_index=True)[1]
    orientation = np.where(kept == 0, signs[first], np.sign(kept))
    return signs * orientation[components]


def _dimension(points: np.ndarray, dim: Any, least: int = 30) -> int:
    """As given, or estimated; fewer points do not tell a curve from a surface: all of the space in
    at most three."""
    n, D = points.shape
    few = dim is None and n < least
    found = D if few and D <= 3 else resolve_dimension(PointCloud.in_order(points), dim)[0]
    if few:
        warn(
            f"{n} points are too few to estimate the dimension of the space they lie on, in {D} "
            f"dimensions: it is taken as {found}.",
            DimensionWarning,
            remedy=Remedy("Give {dim} if you know it.", dim=...),
        )
    return found


def _axes_of_space(points: np.ndarray) -> np.ndarray:
    """The standard basis at every point, ``(n, D, D)``."""
    return np.broadcast_to(np.eye(points.shape[1]), (*points.shape, points.shape[1])).copy()


def exact_frames(manifold: Manifold, points: np.ndarray, share: float = 0.1) -> np.ndarray:
    """Tangent bases ``(n, D, d)`` of a known manifold; warns of points off it by such a share of
    its extent."""
    near = manifold.nearest(points)
    away, extent = (
        np.linalg.norm(points - near, axis=1),
        float(np.sqrt(np.square(near).sum(axis=1).mean())),
    )
    off = away > share * extent
    if off.any():
        warn(
            f"{int(off.sum())} of {len(points)} points lie up to {away.max():.3g} from "
            f"{manifold}, which extends about {extent:.3g} from the origin. Are manifold and "
            "units right?",
            SuspiciousDataWarning,
        )
    return manifold.frames(points)
