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
from .covariance import Covariance, Helmholtz, Isotropic, Potential, Rotational, terms_of
from .learning import learn
from .likelihood import NOISE_START, ODDS, PRIOR, Evidence, Tilted, White, maximise
from .problem import Fitted, Method, Problem
from .tangents import TangentSpaces
from .zonal import Meridional, Planetary, Zonal

CHUNK = 2048

TANGENT = 1e-3
"""Vectors with less across a manifold, in units of their tangent parts, were measured along it."""

ENOUGH = 5000
"""Points tell the size of the noise across."""

MORE = 0.1
"""By which the noise across must be greater than that along to say something of it, as a logarithm."""


Model = tuple[Covariance, np.ndarray]
"""A covariance with its parameters, the noise last."""


def candidates(spaces: TangentSpaces, bands: bool = True) -> list[Covariance]:
    """Covariances among which the marginal likelihood chooses: smooth, rougher, a Helmholtz mixture, bands."""
    planetary = [Planetary(spaces.axis)] if bands and spaces.axis is not None else []
    return [Isotropic(np.inf), Isotropic(1.5), mixture(spaces), *planetary]


def mixture(spaces: TangentSpaces) -> Covariance:
    """Rough fields with few assumptions."""
    return Helmholtz() if spaces.dim == 2 and spaces.oriented else Potential() + Isotropic(0.5)


@dataclass(frozen=True)
class GaussianProcess(Method):
    """Method of the field estimators: an exact Gaussian process, for up to a few thousand points.

    With a history the covariance is ``history.learned`` of it, with hyperparameters from the history's last third
    given the rest of it, then adjusted to the field at hand.

    Args:
        covariance: a ``Covariance``, or several of which the marginal likelihood takes the best. Default: smooth,
            rougher, a Helmholtz mixture (on oriented surfaces), and one with bands of latitude (on known surfaces of
            revolution); with a history only the mixture.
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
        n = len(problem.values)
        options = self._options(problem.spaces)
        values = torch.from_numpy(np.ascontiguousarray(problem.values)).reshape(-1, 1)
        noise = None if problem.noise is None else torch.from_numpy(problem.noise)

        def given(problem: Problem) -> Evidence:
            sites = problem.sites(problem.spaces.points[:n], problem.spaces.frames[:n])
            known = sites.expected
            return Evidence(sites, values if known is None else values - known.reshape(-1, 1), noise)

        if problem.past is None:
            seen, across = given(problem), noise_across(problem)
            found = select(options, seen, self.likelihood_size, self.patches, problem.rng)
            if across is not None and across.level > found[1][-1] + MORE:
                one = select(options, seen, self.likelihood_size, self.patches, problem.rng, also=(across,))
                if agree(one, found, seen.patches(self.likelihood_size, self.patches, problem.rng), across):
                    found = one
            return *found, seen, problem
        base = mixture(problem.spaces) if self.covariance is None else options[-1]
        covariance, *seasons = learn(base, problem, problem.past)
        best: tuple[float, np.ndarray, Evidence, Problem] | None = None
        seed = problem.rng.integers(2**32)
        for season in seasons:
            now = replace(problem, past=season.past)
            seen = given(now)
            parts = seen.patches(self.likelihood_size, self.patches, np.random.default_rng(seed))
            theta, loss = maximise(covariance, parts, season.center, season.width)
            if best is None or loss - season.likely < best[0]:
                best = loss - season.likely, theta, seen, now
        assert best is not None
        return covariance, *best[1:]

    def _options(self, spaces: TangentSpaces) -> list[Covariance]:
        given = candidates(spaces) if self.covariance is None else self.covariance
        options = [given] if isinstance(given, Covariance) else list(given)
        if not options or not all(isinstance(option, Covariance) for option in options):
            raise InvalidInputError(
                f"covariance must be a Covariance such as Isotropic(1.5), or several, got {given!r}."
            )
        terms = {type(term) for option in options for term in terms_of(option)}
        if terms & {Rotational, Zonal} and not (spaces.dim == 2 and spaces.oriented):
            raise InvalidInputError(
                f"Rotational() and Zonal() need an oriented surface, but here d = {spaces.dim} and the frames "
                f"{'agree' if spaces.oriented else 'do not agree'}. Use Potential() and Isotropic()."
            )
        if terms & {Zonal, Meridional} and spaces.points.shape[1] != 3:
            raise InvalidInputError(
                f"Zonal() and Meridional() need a surface in space, but here D = {spaces.points.shape[1]}. Leave them "
                "out."
            )
        return options


def noise_across(problem: Problem) -> White | Tilted | None:
    """What was measured across the tangent spaces: noise, if it is to be estimated, and parts of the field where these
    are not known.
    """
    n, d = problem.values.shape
    spaces, ambient = problem.spaces, problem.ambient
    if problem.noise is not None or ambient is None or d == ambient.shape[1]:
        return None
    some = slice(None, n, -(-n // ENOUGH))
    across = np.linalg.svd(spaces.frames[:n][some])[0][:, :, d:]
    values = np.einsum("nij,ni->nj", across, ambient[some])
    if np.square(values).mean() <= TANGENT**2:
        return None
    if spaces.manifold is not None:
        return White(torch.from_numpy(values), None)
    return Tilted(torch.from_numpy(values), torch.from_numpy(np.square(problem.values[some]).sum(axis=1)))


def agree(one: Model, two: Model, seen: Sequence[Evidence], across: White | Tilted) -> bool:
    """Whether a model with noise of one size, along and across, is to be preferred to one with noise of its own along.

    That is so if it has more noise and is not much less likely: a rough field at few points looks like noise, and noise
    along that is greater than across like a rough field, but the first would be denoised as if it were exact.
    """

    def loss(model: Model, noise: np.ndarray) -> float:
        covariance, theta = model
        parts = [part.loss(covariance, torch.from_numpy(theta), grad=False) for part in seen]
        return sum(parts) + across.loss(covariance, torch.from_numpy(noise), grad=False)

    return bool(one[1][-1] > two[1][-1]) and loss(one, one[1]) < loss(two, np.array([across.level])) + ODDS


def select(
    options: Sequence[Covariance],
    seen: Evidence,
    size: int,
    count: int,
    rng: np.random.Generator,
    width: float = PRIOR,
    also: Sequence[White | Tilted] = (),
) -> Model:
    """The covariance of greatest evidence on patches of a third of the size, and its parameters on full ones."""
    trial: list[Evidence | White | Tilted] = [*seen.patches(max(size // 3, 2), count, rng), *also]
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
    return covariance, maximise(covariance, [*seen.patches(size, count, rng), *also], center, width, theta)[0]


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
        """Errors at sites left out one at a time over their predicted standard deviations ``(n, d)``."""
        errors, covariances = self._left_out
        return errors / np.sqrt(np.einsum("nii->ni", covariances))

    @property
    def left_out(self) -> np.ndarray:  # type: ignore[override]
        return self._left_out[0]

    @cached_property
    def _left_out(self) -> tuple[np.ndarray, np.ndarray]:
        r"""Errors at sites left out one at a time, and their covariances.

        With :math:`P = (K + N)^{-1}` the error at site i is :math:`P_{ii}^{-1} (P y)_i`, its covariance
        :math:`P_{ii}^{-1}`.
        """
        n, d = len(self.seen.sites), self.seen.sites.dim
        inverse = torch.cholesky_inverse(self.factor).reshape(n, d, n, d)
        covariances = torch.linalg.inv(inverse.diagonal(dim1=0, dim2=2).permute(2, 0, 1))
        return (covariances @ self.weights.reshape(n, d, 1))[:, :, 0].numpy(), covariances.numpy()

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
                means.append(mean if part.expected is None else mean + part.expected)
                if with_covariance:
                    half = torch.linalg.solve_triangular(self.factor, cross.T, upper=False).T.reshape(len(part), d, -1)
                    spreads.append(self.covariance.diagonal(theta, part) - half @ half.mT)
        return torch.cat(means).numpy(), torch.cat(spreads).numpy() if with_covariance else None
