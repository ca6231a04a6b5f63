r"""Gaussian processes of ambient vectors, and the choice between methods by evidence.

Where vectors are measured with all their ambient components, those that are normal to the manifold say something, too:
how large the noise is, and more where estimated tangent planes are tilted or a field is not quite tangent. Along the
principal axes :math:`u_a` of the vectors the components are independent,

.. math:: u_a \cdot v(x) \sim \mathrm{GP}(0, \sigma_a^2\, k(|L^{-1}(x - x')|)), \qquad y = v + \eta,

with one noise and the same lengths L along the principal axes of the points for all. A component that the field does
not have gets :math:`\sigma_a \to 0`; an axis on which it does not depend gets a great length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import InvalidInputError
from .correlations import Correlations, Prior, Profile
from .likelihood import JITTER, NOISE_START
from .problem import Fitted, Method, Problem

SMOOTHNESS = (np.inf, 2.5, 1.5)
CHUNK = 2048


@dataclass(frozen=True)
class AmbientProcess(Method):
    """Method of the field estimators: a process of the ambient components; of known manifolds, its tangent part.

    Args:
        smoothness: Matern smoothnesses of which the marginal likelihood takes the best.
        likelihood_size: above this many points the likelihood is that of so many random ones.
    """

    smoothness: Sequence[float] = SMOOTHNESS
    likelihood_size: int = 400

    def fit(self, problem: Problem) -> AmbientPosterior:
        if problem.ambient is None:
            raise InvalidInputError("AmbientProcess() needs vectors with all ambient components.")
        n, noise = len(problem.ambient), problem.noise
        axes = np.linalg.eigh(problem.ambient.T @ problem.ambient)[1]
        components = problem.ambient @ axes
        sizes = 0.5 * np.log(np.maximum(np.square(components).mean(axis=0), JITTER))
        prior = Prior(np.append(sizes, NOISE_START if noise is None else 0.0), known_noise=noise is not None)
        everything = np.arange(n)
        some = everything
        if n > self.likelihood_size:
            some = np.sort(problem.rng.choice(n, self.likelihood_size, replace=False))
        trial = self._correlations(problem, some)
        best = trial.best(tuple(self.smoothness), components[some], prior)
        whole = trial
        if len(some) < n:
            whole = self._correlations(problem, everything)
            best = whole.profile(best.shape, components, prior)
        return AmbientPosterior.of(whole, best, components, axes, problem)

    def _correlations(self, problem: Problem, index: np.ndarray) -> Correlations:
        """Kept with the points if they do not depend on a known noise."""

        def make() -> Correlations:
            return Correlations(problem.spaces.points[index], None if problem.noise is None else problem.noise[index])

        return problem.spaces.kept(("correlations", index.tobytes()), make) if problem.noise is None else make()


@dataclass(frozen=True, eq=False)
class AmbientPosterior(Fitted):
    """The processes of the components given data, one for each principal axis, the columns of ``axes``."""

    whole = True

    correlations: Correlations = field(repr=False)
    profile: Profile
    coefficients: np.ndarray = field(repr=False)
    vectors: np.ndarray = field(repr=False)
    axes: np.ndarray = field(repr=False)
    noise: float
    evidence: float

    @classmethod
    def of(
        cls, correlations: Correlations, profile: Profile, components: np.ndarray, axes: np.ndarray, problem: Problem
    ) -> AmbientPosterior:
        spectrum, vectors = correlations.decomposed(profile.shape)
        variance = np.outer(spectrum, profile.sizes) + profile.noise
        coefficients = profile.sizes * (vectors.T @ (components / correlations.root[:, None])) / variance
        known = problem.noise
        level = float(np.sqrt(profile.noise if known is None else known.mean()))
        units = components.shape[1] * float(np.log(correlations.root).sum())
        return cls(correlations, profile, coefficients, vectors, axes, level, profile.density - units)

    def predict(
        self, points: np.ndarray, frames: np.ndarray, *, with_covariance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        parts = [
            self._part(points[a : a + CHUNK], frames[a : a + CHUNK], with_covariance)
            for a in range(0, len(points), CHUNK)
        ]
        means, spreads = zip(*parts, strict=True)
        return np.concatenate(means), np.concatenate(spreads) if with_covariance else None

    def _part(self, points: np.ndarray, frames: np.ndarray, spread: bool) -> tuple[np.ndarray, np.ndarray | None]:
        cross = self.correlations.cross(points, self.profile.shape) @ self.vectors
        turned = np.einsum("mij,ik->mjk", frames, self.axes)  # principal components to coordinates
        mean = np.einsum("mjk,mk->mj", turned, cross @ self.coefficients)
        if not spread:
            return mean, None
        sizes = self.profile.sizes
        explained = np.square(cross) @ (sizes**2 / (np.outer(self.profile.spectrum, sizes) + self.profile.noise))
        return mean, np.einsum("mjk,mk,mlk->mjl", turned, np.maximum(sizes - explained, 0.0), turned)


@dataclass(frozen=True)
class ByEvidence(Method):
    """The one of several methods whose fit gives all measured components the greatest density.

    For methods of the tangent part the normal components count as white noise of their own. They are compared on
    ``trial_size`` random points if there are more, and only the best is fitted to all.
    """

    methods: Sequence[Method]
    trial_size: int = 80

    def fit(self, problem: Problem) -> Fitted:
        n = len(problem.values)
        if n <= self.trial_size:
            return max((method.fit(problem) for method in self.methods), key=lambda fitted: fitted.evidence)
        trial = problem.part(np.sort(problem.rng.choice(n, self.trial_size, replace=False)))
        return max(self.methods, key=lambda method: method.fit(trial).evidence).fit(problem)


def normal_evidence(problem: Problem) -> float:
    """The log density of the normal components of the data as white noise."""
    if problem.ambient is None:
        return 0.0
    n, d = problem.values.shape
    frames = problem.spaces.frames[:n]
    normal = problem.ambient - np.einsum("nij,nj->ni", frames, problem.values)
    count = n * (problem.ambient.shape[1] - d)
    if count == 0:
        return 0.0
    variance = max(float(np.square(normal).sum()) / count, JITTER)
    return -0.5 * count * (np.log(2 * np.pi * variance) + 1.0)
