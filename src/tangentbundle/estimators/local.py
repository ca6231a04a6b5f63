"""Gaussian processes on many points, near by near: each neighbourhood is predicted from the observations around it.

The covariance is that of the exact process, its parameters those of the likelihood of patches. Of the observations
only the nearest count, as they screen off the others (local kriging): a small dense system for each group of
neighbouring points instead of one of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from ..geometry.ordering import curve_order
from .covariance import Covariance
from .likelihood import Evidence
from .problem import Fitted, Method, Problem
from .process import GaussianProcess, Posterior, candidates

GROUP, OWN = 64, 12
"""Points that are predicted together, and nearest observations of each of them that always count."""


@dataclass(frozen=True)
class LocalProcess(Method):
    """Method of ``FieldInterpolator`` for more points than an exact process takes: local kriging, linear in the points.

    Args:
        covariance: as of ``GaussianProcess``; by default without bands of latitude.
        neighbors: observations around a group of points that predict it.
        likelihood_size, patches: as of ``GaussianProcess``.
    """

    covariance: Covariance | Sequence[Covariance] | None = None
    neighbors: int = 200
    likelihood_size: int = 200
    patches: int = 4

    def fit(self, problem: Problem) -> LocalPosterior:
        # near observations tell more than bands of latitude, which would double the time
        given = candidates(problem.spaces, bands=False) if self.covariance is None else self.covariance
        process = GaussianProcess(given, self.likelihood_size, self.patches)
        covariance, theta, seen, problem = process.parameters(problem)
        tree = cKDTree(problem.spaces.points[: len(problem.values)])
        return LocalPosterior(covariance, theta, seen, problem, self.neighbors, tree)


@dataclass(frozen=True, eq=False)
class LocalPosterior(Fitted):
    """A Gaussian process given all evidence, of which each prediction uses the nearest."""

    covariance: Covariance
    theta: np.ndarray
    seen: Evidence = field(repr=False)
    problem: Problem = field(repr=False)
    neighbors: int
    tree: cKDTree = field(repr=False)

    @property
    def noise(self) -> float:  # type: ignore[override]
        """The estimated noise's standard deviation (root mean square of a known one)."""
        known = self.seen.noise
        return float(np.exp(self.theta[-1])) if known is None else float(known.mean().sqrt())

    def predict(
        self, points: np.ndarray, frames: np.ndarray, *, with_covariance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        m, d = len(points), frames.shape[2]
        mean, spread = np.empty((m, d)), np.empty((m, d, d))
        order = curve_order(points)
        for start in range(0, m, GROUP):
            group = order[start : start + GROUP]
            near = Posterior.of(self.covariance, self.theta, self.seen.part(self._around(points[group])), self.problem)
            mean[group], blocks = near.predict(points[group], frames[group], with_covariance=with_covariance)
            if blocks is not None:
                spread[group] = blocks
        return mean, spread if with_covariance else None

    def _around(self, points: np.ndarray) -> np.ndarray:
        """The observations nearest to the middle of some points, and to each of them."""
        count = len(self.seen.sites)
        middle = self.tree.query(points.mean(axis=0), k=min(self.neighbors, count))[1]
        each = self.tree.query(points, k=min(OWN, count))[1]
        return np.union1d(middle, each)
