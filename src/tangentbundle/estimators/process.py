r"""Gaussian processes of tangent fields, exact: hyperparameters by marginal likelihood, posterior mean and covariance.

.. math:: f = O^T g, \quad y = f + \eta, \qquad
          E[f_* | y] = K_{*}(K + N)^{-1} y, \quad \mathrm{Cov}[f_* | y] = K_{**} - K_* (K + N)^{-1} K_*^T,

with N the variance of the noise. The likelihood has a weak prior on the logarithms of the parameters, around their
starts. Above ``likelihood_size`` points it is the sum over compact patches of the cloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from ..errors import InvalidInputError, MemoryLimitError
from .covariance import Covariance, Helmholtz, Isotropic, Potential
from .learning import learn
from .likelihood import NOISE_START, PRIOR, Evidence, maximise
from .problem import Fitted, Method, Problem

ADJUST, SEASON = 0.2, 1.0
"""Widths of priors once a history has been learned from; the last of a change of season, of which one tells little."""

CHUNK = 2048


def candidates(d: int, oriented: bool) -> list[Covariance]:
    """Covariances among which the marginal likelihood chooses: smooth, rougher, and a Helmholtz mixture."""
    mixture = Helmholtz() if d == 2 and oriented else Potential() + Isotropic(0.5)
    return [Isotropic(np.inf), Isotropic(1.5), mixture]


@dataclass(frozen=True)
class GaussianProcess(Method):
    """Method of the field estimators: an exact Gaussian process, for up to a few thousand points.

    With a history the covariance is ``history.learned`` of it, with hyperparameters from the history's last third
    given the rest of it, then adjusted to the field at hand.

    Args:
        covariance: a ``Covariance``, or several of which the marginal likelihood takes the best. Default: smooth,
            rougher, and a Helmholtz mixture (on oriented surfaces); with a history only the last.
        likelihood_size: above this many points the likelihood is that of ``patches`` compact patches of this size.
        max_points: more are refused, as the matrix ``(n d, n d)`` is dense.
    """

    covariance: Covariance | Sequence[Covariance] | None = None
    likelihood_size: int = 400
    patches: int = 3
    max_points: int = 4000

    def fit(self, problem: Problem) -> Posterior:
        n, d = problem.values.shape
        if n > self.max_points:
            raise MemoryLimitError(
                f"an exact process of {n} points would need a dense matrix of {n * d} rows; the limit is "
                f"{self.max_points} points. Use LocalProcess() (SpectralShrinkage() to denoise), or raise max_points."
            )
        return Posterior.of(*self.parameters(problem))

    def parameters(self, problem: Problem) -> tuple[Covariance, np.ndarray, Evidence, Problem]:
        """The covariance, its parameters, what was seen, and the problem with what was found in its history."""
        n, d = problem.values.shape
        options = self._options(d, problem.spaces.oriented)
        if problem.past is not None:
            covariance, center, past = learn(options[-1], problem, problem.past)
            problem = replace(problem, past=past)
        sites = problem.sites(problem.spaces.points[:n], problem.spaces.frames[:n])
        values = torch.from_numpy(np.ascontiguousarray(problem.values)).reshape(-1, 1)
        noise = None if problem.noise is None else torch.from_numpy(problem.noise)
        if problem.past is not None:
            assert sites.mean is not None
            seen = Evidence(sites, values - sites.mean.reshape(-1, 1), noise)
            parts = seen.patches(self.likelihood_size, self.patches, problem.rng)
            width = np.array([*(SEASON if "seasonal" in name else ADJUST for name in covariance.names), ADJUST])
            theta = maximise(covariance, parts, center, width)[0]
            return covariance, theta, seen, problem
        seen = Evidence(sites, values, noise)
        return *select(options, seen, self.likelihood_size, self.patches, problem.rng), seen, problem

    def _options(self, d: int, oriented: bool) -> list[Covariance]:
        given = candidates(d, oriented) if self.covariance is None else self.covariance
        options = [given] if isinstance(given, Covariance) else list(given)
        if not options or not all(isinstance(option, Covariance) for option in options):
            raise InvalidInputError(
                f"covariance must be a Covariance such as Isotropic(1.5), or several, got {given!r}."
            )
        if any("rotational" in name for option in options for name in option.names) and not (d == 2 and oriented):
            raise InvalidInputError(
                f"Rotational() needs an oriented surface, but here d = {d} and the frames "
                f"{'agree' if oriented else 'do not agree'}. Use Potential() and Isotropic()."
            )
        return options


def select(
    options: Sequence[Covariance], seen: Evidence, size: int, count: int, rng: np.random.Generator, width: float = PRIOR
) -> tuple[Covariance, np.ndarray]:
    """The covariance of greatest evidence on patches of a third of the size, and its parameters on full ones."""
    trial = seen.patches(max(size // 3, 2), count, rng)
    best: tuple[float, Covariance, np.ndarray] | None = None
    for covariance in options:
        center = np.array([*covariance.start, NOISE_START])
        lengths = np.array([*(name.endswith("length") for name in covariance.names), False])
        for shift in (0.0, 1.0):  # the likelihood may have a mode of short and one of long lengths
            theta, loss = maximise(covariance, trial, center, width, center + shift * lengths)
            if best is None or loss < best[0]:
                best = (loss, covariance, theta)
    assert best is not None
    _, covariance, theta = best
    if trial[0] is seen:
        return covariance, theta
    center = np.array([*covariance.start, NOISE_START])
    return covariance, maximise(covariance, seen.patches(size, count, rng), center, width, theta)[0]


@dataclass(frozen=True, eq=False)
class Posterior(Fitted):
    """A Gaussian process given evidence; ``theta`` are its parameters, the noise last."""

    covariance: Covariance
    theta: np.ndarray
    seen: Evidence = field(repr=False)
    problem: Problem = field(repr=False)
    factor: torch.Tensor = field(repr=False)
    weights: torch.Tensor = field(repr=False)

    @classmethod
    def of(cls, covariance: Covariance, theta: np.ndarray, seen: Evidence, problem: Problem) -> Posterior:
        with torch.no_grad():
            factor = torch.linalg.cholesky(seen.matrix(covariance, torch.from_numpy(theta)))
            return cls(covariance, theta, seen, problem, factor, torch.cholesky_solve(seen.values, factor))

    @cached_property
    def log_density(self) -> float:
        """Of the data it was given."""
        return -self.seen.loss(self.covariance, torch.from_numpy(self.theta), grad=False)

    @property
    def evidence(self) -> float:  # type: ignore[override]
        """The log density of all components, the normal ones as white noise."""
        from .ambient import normal_evidence

        return self.log_density + normal_evidence(self.problem)

    @property
    def noise(self) -> float:  # type: ignore[override]
        """The estimated noise's standard deviation (root mean square of a known one)."""
        known = self.seen.noise
        return float(np.exp(self.theta[-1])) if known is None else float(known.mean().sqrt())

    @cached_property
    def residuals(self) -> np.ndarray:
        r"""Errors at sites left out one at a time over their predicted standard deviations ``(n, d)``.

        With :math:`P = (K + N)^{-1}` the error at site i is :math:`P_{ii}^{-1} (P y)_i`, its covariance
        :math:`P_{ii}^{-1}`.
        """
        n, d = len(self.seen.sites), self.seen.sites.dim
        inverse = torch.cholesky_inverse(self.factor).reshape(n, d, n, d)
        covariances = torch.linalg.inv(inverse.diagonal(dim1=0, dim2=2).permute(2, 0, 1))
        errors = (covariances @ self.weights.reshape(n, d, 1))[:, :, 0]
        return (errors / covariances.diagonal(dim1=1, dim2=2).sqrt()).numpy()

    def predict(
        self, points: np.ndarray, frames: np.ndarray, *, with_covariance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        theta, d = torch.from_numpy(self.theta[:-1]), frames.shape[2]
        means, spreads = [], []
        with torch.no_grad():
            for a in range(0, len(points), CHUNK):
                part = self.problem.sites(points[a : a + CHUNK], frames[a : a + CHUNK])
                cross = self.covariance(theta, part, self.seen.sites)
                mean = (cross @ self.weights).reshape(len(part), d)
                means.append(mean if part.mean is None else mean + part.mean)
                if with_covariance:
                    half = torch.linalg.solve_triangular(self.factor, cross.T, upper=False).T.reshape(len(part), d, -1)
                    spreads.append(self.covariance.diagonal(theta, part) - half @ half.mT)
        return torch.cat(means).numpy(), torch.cat(spreads).numpy() if with_covariance else None
