r"""Gaussian processes of tangent fields, exact: hyperparameters by marginal likelihood, posterior mean and covariance.

.. math:: f = O^T g, \quad y = f + \eta, \qquad
          E[f_* | y] = K_{*}(K + N)^{-1} y, \quad \mathrm{Cov}[f_* | y] = K_{**} - K_* (K + N)^{-1} K_*^T,

with N the variance of the noise. The likelihood has a weak prior on the logarithms of the parameters, around their
starts. Above ``likelihood_size`` points it is the sum over compact patches of the cloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import minimize

from ..errors import ConvergenceError, InvalidInputError, MemoryLimitError
from .covariance import Covariance, Helmholtz, Isotropic, Potential, Sites
from .history import learned
from .problem import Fitted, Method, Problem

JITTER = 1e-8
"""Added to the diagonal, in units of the data's variance."""

PRIOR = 3.0
"""Standard deviation of the prior on logarithms of parameters."""

ADJUST, SEASON = 0.2, 1.0
"""The same once a history has been learned from; and of a change of season, of which one season tells little."""

HISTORY_SITES, HISTORY_FIELDS = 150, 12
"""Points and fields of a history that hyperparameters are learned from."""

NOISE_START = -2.0
CHUNK = 2048


def candidates(d: int, oriented: bool) -> list[Covariance]:
    """Covariances among which the marginal likelihood chooses: smooth, rougher, and a Helmholtz mixture."""
    mixture = Helmholtz() if d == 2 and oriented else Potential() + Isotropic(0.5)
    return [Isotropic(np.inf), Isotropic(1.5), mixture]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Fields ``(n d, c)`` seen at sites, with the known noise variance of each site ``(n,)`` or None: to be
    estimated.
    """

    sites: Sites
    values: torch.Tensor
    noise: torch.Tensor | None = None

    def matrix(self, covariance: Covariance, theta: torch.Tensor) -> torch.Tensor:
        """``K + N``."""
        kernel = covariance(theta[:-1], self.sites, self.sites)
        noise = torch.exp(2 * theta[-1]).expand(len(self.sites)) if self.noise is None else self.noise
        return kernel + torch.diag((noise + JITTER).repeat_interleave(self.sites.dim))

    def patches(self, size: int, count: int, rng: np.random.Generator) -> list[Evidence]:
        """Itself if small, otherwise the nearest ``size`` sites of ``count`` random ones."""
        if len(self.sites) <= size:
            return [self]
        found = []
        for center in rng.choice(len(self.sites), count, replace=False):
            away = (self.sites.points - self.sites.points[center]).square().sum(1)
            found.append(self.part(torch.topk(away, size, largest=False).indices.numpy()))
        return found

    def part(self, index: np.ndarray) -> Evidence:
        """What was seen at some of the sites."""
        rows = (index[:, None] * self.sites.dim + np.arange(self.sites.dim)).ravel()
        noise = None if self.noise is None else self.noise[index]
        return Evidence(self.sites[index], self.values[rows], noise)

    def loss(self, covariance: Covariance, theta: torch.Tensor, grad: bool = True) -> float:
        r"""The negative log marginal likelihood of all fields (infinite where the matrix is not positive definite).

        Adds its gradient to that of ``theta``: by :math:`\partial L/\partial K = \frac12 (c K^{-1} - A A^T)`,
        :math:`A = K^{-1} Y`, so that only the covariance is differentiated automatically.
        """
        matrix = self.matrix(covariance, theta)
        factor, info = torch.linalg.cholesky_ex(matrix.detach())
        if int(info) > 0:
            return np.inf
        size, count = self.values.shape
        weights = torch.cholesky_solve(self.values, factor)
        if grad:
            matrix.backward(0.5 * (count * torch.cholesky_inverse(factor) - weights @ weights.T))
        logdet = float(factor.diagonal().log().sum())
        return 0.5 * float((self.values * weights).sum()) + count * (logdet + 0.5 * size * np.log(2 * np.pi))


def maximise(
    covariance: Covariance,
    seen: Sequence[Evidence],
    center: np.ndarray,
    width: float | np.ndarray,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """Parameters ``(p + 1,)``, the noise last, that maximise likelihood times prior, and minus its logarithm there."""

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.from_numpy(vector.copy()).requires_grad_()
        total = sum(part.loss(covariance, theta) for part in seen) + 0.5 * np.square((vector - center) / width).sum()
        if theta.grad is None or not np.isfinite(total):
            return 1e10, np.zeros_like(vector)
        return float(total), theta.grad.numpy() + (vector - center) / width**2

    bounds = [(c - 6.0, c + 6.0) for c in center]
    start = center if start is None else start
    options = {"maxiter": 100, "ftol": 1e-6}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if not found.fun < 1e10:
        raise ConvergenceError(
            f"the covariance {covariance} of these data is not positive definite at any parameters tried. Are there "
            "coincident points with different vectors and no noise? Give noise_std, or remove duplicates."
        )
    return found.x, float(found.fun)


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
        return Posterior.of(*self.parameters(problem), problem)

    def parameters(self, problem: Problem) -> tuple[Covariance, np.ndarray, Evidence]:
        """The covariance, its parameters, and what was seen."""
        n, d = problem.values.shape
        options = self._options(d, problem.spaces.oriented)
        sites = problem.sites(problem.spaces.points[:n], problem.spaces.frames[:n])
        values = torch.from_numpy(np.ascontiguousarray(problem.values)).reshape(-1, 1)
        noise = None if problem.noise is None else torch.from_numpy(problem.noise)
        if problem.past is not None:
            assert sites.mean is not None
            seen = Evidence(sites, values - sites.mean.reshape(-1, 1), noise)
            covariance, center = self._learn(options[-1], problem)
            parts = seen.patches(self.likelihood_size, self.patches, problem.rng)
            width = np.array([*(SEASON if "seasonal" in name else ADJUST for name in covariance.names), ADJUST])
            theta = maximise(covariance, parts, center, width)[0]
            return covariance, theta, seen
        seen = Evidence(sites, values, noise)
        return *select(options, seen, self.likelihood_size, self.patches, problem.rng), seen

    def _learn(self, base: Covariance, problem: Problem) -> tuple[Covariance, np.ndarray]:
        """The covariance with a history, and parameters by which its first two thirds predict the last best."""
        past, covariance = problem.past, learned(base)
        assert past is not None
        count = min(HISTORY_SITES, len(past.points))
        index = np.sort(problem.rng.choice(len(past.points), count, replace=False))
        points, split = past.points[index], 2 * len(past.fields) // 3
        sites = problem.sites(points, problem.spaces.at(points), past.part(slice(split)))
        assert sites.mean is not None
        later = past.fields[split:][:: max(1, (len(past.fields) - split) // HISTORY_FIELDS)][:, index]
        fields = torch.from_numpy(np.einsum("nij,tni->njt", sites.frames.numpy(), later)) - sites.mean[:, :, None]
        seen = Evidence(sites, fields.reshape(-1, len(later)))
        center = np.array([*covariance.start, NOISE_START])
        return covariance, maximise(covariance, [seen], center, PRIOR)[0]

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
