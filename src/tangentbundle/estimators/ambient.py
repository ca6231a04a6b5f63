r"""Gaussian processes of ambient vectors, and the choice between methods by evidence.

Where vectors are measured with all their ambient components, those that are normal to the manifold say something, too:
how large the noise is, and more where estimated tangent planes are tilted or a field is not quite tangent. Along
orthonormal axes :math:`u_a` the components are independent,

.. math:: u_a \cdot v(x) \sim \mathrm{GP}(0, \sigma_a^2\, k(|L^{-1}(x - x')|)), \qquad y = v + \eta,

with one noise and the same lengths L along the principal axes of the points for all. A component that the field does
not have gets :math:`\sigma_a \to 0`; an axis on which it does not depend gets a great length. The axes are the
principal ones of the vectors or, where their D (D - 1) / 2 angles would be fitted to few points, those of the points or
of the coordinates, whichever err less on left-out vectors: of many noisy components some combinations are larger by
chance, and a process along these takes noise for signal. Errors then have directions of their own, see ``directions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..errors import InvalidInputError
from .correlations import Correlations, Prior, Profile
from .directions import Directions
from .likelihood import JITTER, NOISE_START, ODDS
from .problem import Fitted, Method, Problem

SMOOTHNESS = (np.inf, 2.5, 1.5)
CHUNK = 2048

POINTS_PER_ANGLE = 10
"""Fewer points are too few for axes of the vectors."""


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
        n, D = problem.ambient.shape
        if n >= D * (D - 1) / 2 * POINTS_PER_ANGLE:
            return self._along(principal_axes(problem.ambient), problem, fitted=True)
        options = principal_axes(problem.spaces.points[:n] - problem.center), np.eye(D)
        fits = [self._along(axes, problem) for axes in options]
        return min(fits, key=lambda fit: float(np.square(fit.left_out).sum()))

    def _along(self, axes: np.ndarray, problem: Problem, fitted: bool = False) -> AmbientPosterior:
        """The process along these axes, which may have been ``fitted`` to the vectors."""
        components = problem.ambient @ axes
        n, noise = len(components), problem.noise
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
            best = whole.profile(best.shape, components, prior, best.theta)
        vectors = whole.decomposed(best.shape)[1]
        return AmbientPosterior(whole, best, vectors, components, axes, problem, fitted)

    def _correlations(self, problem: Problem, index: np.ndarray) -> Correlations:
        """Kept with the points if they do not depend on a known noise."""

        def make() -> Correlations:
            return Correlations(problem.spaces.points[index], None if problem.noise is None else problem.noise[index])

        return problem.spaces.cached(("correlations", index.tobytes()), make) if problem.noise is None else make()


def principal_axes(vectors: np.ndarray) -> np.ndarray:
    """Orthonormal columns ``(D, D)``, by rising size of the vectors along them."""
    return np.linalg.eigh(vectors.T @ vectors)[1]


def tilts_of(components: np.ndarray, noise: float) -> np.ndarray:
    r"""Variances ``(r,)`` of the angles by which axes fitted to noisy vectors are off towards any other.

    Of a field with ``components (n, r)`` along them it is that of the slope of noise against each,
    :math:`s^2 / (n \langle f_a^2 \rangle)`: a component across that is called zero is known no better.

    >>> tilts_of(np.ones((100, 2)), 0.5).tolist()
    [0.0025, 0.0025]
    """
    return noise**2 / (len(components) * np.maximum(np.square(components).mean(axis=0), JITTER))


@dataclass(frozen=True, eq=False)
class AmbientPosterior(Fitted):
    """The processes of the components given data, one for each of the columns of ``axes``, which may be ``fitted``."""

    whole = True

    correlations: Correlations = field(repr=False)
    profile: Profile
    vectors: np.ndarray = field(repr=False)
    """Eigenvectors of the correlations ``(n, n)``."""
    components: np.ndarray = field(repr=False)
    axes: np.ndarray = field(repr=False)
    problem: Problem = field(repr=False)
    fitted: bool

    @property
    def noise(self) -> float:  # type: ignore[override]
        known = self.problem.noise
        if known is not None:
            return float(np.sqrt(known.mean()))
        return float(np.sqrt(self.profile.noise * (1.0 if self.directions is None else self.directions.noise)))

    @property
    def evidence(self) -> float:  # type: ignore[override]
        return self.profile.density - len(self.axes) * float(np.log(self.correlations.root).sum())

    @cached_property
    def residuals(self) -> np.ndarray:
        """Errors of left-out vectors over their standard deviations ``(n, D)``."""
        errors, own, noise = self._left_out
        if self.directions is None:
            return self.left_out / np.sqrt((own + noise) @ np.square(self.axes.T))
        points = self.problem.spaces.points[: len(errors)]
        return self.left_out / np.sqrt(self.directions.variances(points, self.components - errors, own, noise))

    @cached_property
    def left_out(self) -> np.ndarray:  # type: ignore[override]
        return self._left_out[0] @ self.axes.T

    @cached_property
    def directions(self) -> Directions | None:
        """Of errors, unless the axes are the vectors' own."""
        if self.fitted:
            return None
        known = self.problem.noise is not None
        return Directions.learn(self.problem.spaces, self.axes, self.components, *self._left_out, known_noise=known)

    @cached_property
    def _left_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""Errors of vectors left out one at a time, along the axes, and their variances, each ``(n, D)``.

        Of the variance, :math:`1 / P_{ii}` with P the inverse of the data's covariance, :math:`s^2 (P^2)_{ii} /
        P_{ii}^2` is noise: of the vector itself and of the others, by their weights :math:`P_{ij} / P_{ii}`.
        """
        root, squares = self.correlations.root[:, None], np.square(self.vectors)
        spread = 1 / (squares @ (1 / self._variances))
        noise = self.profile.noise * (squares @ (1 / np.square(self._variances))) * spread**2
        own = np.maximum(spread - noise, 0.0)
        return root * spread * (self.vectors @ self._weights), root**2 * own, root**2 * noise

    @cached_property
    def _variances(self) -> np.ndarray:
        """Of the data along the eigenvectors ``(n, D)``."""
        return np.outer(self.profile.spectrum, self.profile.sizes) + self.profile.noise

    @cached_property
    def _weights(self) -> np.ndarray:
        return self.vectors.T @ (self.components / self.correlations.root[:, None]) / self._variances

    @cached_property
    def _tilts(self) -> np.ndarray:
        fit = self.vectors @ (self.profile.spectrum[:, None] * self.profile.sizes * self._weights)
        return tilts_of(fit * self.correlations.root[:, None], self.noise)

    @property
    def expected(self) -> float:
        """The mean squared error at the points that it takes to have, of whole vectors."""
        points = self.problem.spaces.points[: len(self.components)]
        cross = self.correlations.cross(points, self.profile.shape) @ self.vectors
        return float(self._variance(cross).sum(axis=1).mean())

    def _variance(self, cross: np.ndarray) -> np.ndarray:
        """Of the components ``(m, D)``."""
        sizes = self.profile.sizes
        return np.maximum(sizes - np.square(cross) @ (sizes**2 / self._variances), 0.0)

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
        turned = np.einsum("mij,ik->mjk", frames, self.axes)  # components to coordinates
        sizes = self.profile.sizes
        along = cross @ (sizes * self._weights)
        mean = np.einsum("mjk,mk->mj", turned, along)
        if not spread:
            return mean, None
        variance = self._variance(cross)
        if self.directions is None:
            variance += (np.square(along) @ self._tilts)[:, None]
            return mean, np.einsum("mjk,mk,mlk->mjl", turned, variance, turned)
        passed = np.square(cross) @ np.square(sizes / self._variances)
        noise = np.minimum(self.profile.noise * passed, variance)
        covariance = self.directions.covariance(points, along, variance - noise, noise)
        return mean, turned @ covariance @ turned.transpose(0, 2, 1)


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


@dataclass(frozen=True)
class UnlessHidden(Method):
    """A method's fit, unless estimated tangent spaces hide more of the field than an ambient process would miss.

    A fit of tangent parts may be likelier even so: of many components, what is hidden looks like a little more noise in
    each. Compared are squared errors of whole vectors, left out one at a time; to be smaller means by two standard
    errors of the mean difference.

    With ``at_points``, for answers at the points themselves, what is hidden there must also be less than the variance
    of the ambient process: of little noise more would be lost across the tangent spaces than is removed along them.
    The noise is then the greater of both fits', where the ambient one is not much less likely with it.
    """

    method: Method
    ambient: AmbientProcess = AmbientProcess()
    at_points: bool = False

    def fit(self, problem: Problem) -> Fitted:
        fitted = self.method.fit(problem)
        if fitted.whole or problem.spaces.manifold is not None:
            return fitted
        if not hasattr(fitted, "left_out"):
            raise InvalidInputError(
                f"UnlessHidden() needs a method with errors of left-out vectors, such as GaussianProcess(), got "
                f"{self.method!r}."
            )
        other = self.ambient.fit(problem)
        normal = np.square(problem.normal).sum(axis=1)
        gain = np.square(fitted.left_out).sum(axis=1) + normal - np.square(other.left_out).sum(axis=1)
        if gain.mean() > 2 * gain.std() / np.sqrt(len(gain)):
            return other
        if not self.at_points:
            return fitted
        n, D = other.components.shape
        if problem.noise is None and other.noise < fitted.noise:
            noisier = self.ambient.fit(replace(problem, noise=np.full(n, fitted.noise**2)))
            other = noisier if noisier.evidence > other.evidence - ODDS else other
        hidden = normal.mean() - (D - problem.spaces.dim) * fitted.noise**2
        return other if hidden > other.expected else fitted


def normal_evidence(problem: Problem) -> float:
    """The log density of the normal components of the data as white noise."""
    if problem.ambient is None:
        return 0.0
    count = problem.ambient.size - problem.values.size
    if count == 0:
        return 0.0
    variance = max(float(np.square(problem.normal).sum()) / count, JITTER)
    return -0.5 * count * (np.log(2 * np.pi * variance) + 1.0)
