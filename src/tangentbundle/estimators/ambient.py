r"""Gaussian processes of ambient vectors, and the choice between methods by evidence.

Where vectors are measured with all their ambient components, those that are normal to the manifold say something, too:
how large the noise is, and more where estimated tangent planes are tilted or a field is not quite tangent. Along the
principal axes :math:`u_a` of the vectors the components are independent,

.. math:: u_a \cdot v(x) \sim \mathrm{GP}(0, \sigma_a^2\, k(|x - x'| / \ell)), \qquad y = v + \eta,

with one length and one noise for all; a component that the field does not have gets :math:`\sigma_a \to 0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import minimize

from ..errors import InvalidInputError
from .covariance import Covariance, Isotropic, Sites
from .problem import Fitted, Method, Problem
from .process import JITTER, NOISE_START, PRIOR, Evidence, Posterior

SMOOTHNESS = (np.inf, 2.5, 1.5)


@dataclass(frozen=True)
class AmbientProcess(Method):
    """Method of ``FieldDenoiser``: a process of the ambient components, whose tangent part is the answer.

    Args:
        smoothness: Matern smoothnesses of which the marginal likelihood takes the best.
        likelihood_size: above this many points the likelihood is that of so many random ones.
    """

    smoothness: Sequence[float] = SMOOTHNESS
    likelihood_size: int = 800

    def fit(self, problem: Problem) -> AmbientPosterior:
        if problem.ambient is None:
            raise InvalidInputError("AmbientProcess() needs vectors with all ambient components.")
        n = len(problem.ambient)
        axes = np.linalg.eigh(problem.ambient.T @ problem.ambient)[1]
        sites = _scalar(problem, problem.spaces.points[:n])
        noise = None if problem.noise is None else torch.from_numpy(problem.noise)
        components = torch.from_numpy(problem.ambient @ axes)
        seen = [Evidence(sites, column[:, None], noise) for column in components.T]
        some = torch.from_numpy(np.sort(problem.rng.choice(n, min(n, self.likelihood_size), replace=False)))
        trial = [Evidence(sites[some], part.values[some], None if noise is None else noise[some]) for part in seen]
        fits = [(_maximise(Isotropic(smoothness), trial), smoothness) for smoothness in self.smoothness]
        (theta, _), smoothness = min(fits, key=lambda fit: fit[0][1])
        posteriors = [
            Posterior.of(Isotropic(smoothness), theta[[1 + a, 0, -1]], part, problem) for a, part in enumerate(seen)
        ]
        return AmbientPosterior(posteriors, torch.from_numpy(axes), problem)


def _scalar(problem: Problem, points: np.ndarray) -> Sites:
    """Sites for functions instead of fields."""
    return problem.sites(points, np.ones((len(points), 1, 1)))


def _maximise(covariance: Covariance, seen: Sequence[Evidence]) -> tuple[np.ndarray, float]:
    """Parameters of greatest likelihood times a weak prior around their starts, and minus its logarithm there.

    They are the length, the amplitude of every axis, and the noise.
    """
    sizes = [float(part.values.square().mean().clamp_min(1e-8).sqrt().log()) for part in seen]
    center = np.array([covariance.start[1], *sizes, NOISE_START])

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.from_numpy(vector.copy()).requires_grad_()
        total = 0.5 * np.square((vector - center) / PRIOR).sum()
        for a, part in enumerate(seen):
            total += part.loss(covariance, torch.stack([theta[1 + a], theta[0], theta[-1]]))
        if theta.grad is None or not np.isfinite(total):
            return 1e10, np.zeros_like(vector)
        return float(total), theta.grad.numpy() + (vector - center) / PRIOR**2

    bounds = [(c - 9.0, c + 6.0) for c in center]
    starts = [center, center + np.eye(len(center))[0]]  # the likelihood may have modes of short and of long lengths
    options = {"maxiter": 100, "ftol": 1e-7}
    found = [minimize(objective, s, jac=True, method="L-BFGS-B", bounds=bounds, options=options) for s in starts]
    best = min(found, key=lambda result: result.fun)
    return best.x, float(best.fun)


@dataclass(frozen=True, eq=False)
class AmbientPosterior(Fitted):
    """The processes of the components given data, one for each principal axis, the columns of ``axes``."""

    components: list[Posterior]
    axes: torch.Tensor = field(repr=False)
    problem: Problem = field(repr=False)

    @property
    def noise(self) -> float:  # type: ignore[override]
        return self.components[0].noise

    @cached_property
    def evidence(self) -> float:  # type: ignore[override]
        """The log density of all components."""
        return sum(part.log_density for part in self.components)

    def predict(
        self, points: np.ndarray, frames: np.ndarray, *, with_covariance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        line = np.ones((len(points), 1, 1))
        parts = [part.predict(points, line, with_covariance=with_covariance) for part in self.components]
        turned = np.einsum("mij,ik->mjk", frames, self.axes.numpy())  # principal components to coordinates
        mean = np.einsum("mjk,km->mj", turned, np.stack([m[:, 0] for m, _ in parts]))
        if not with_covariance:
            return mean, None
        spread = np.stack([c[:, 0, 0] for _, c in parts if c is not None])
        return mean, np.einsum("mjk,km,mlk->mjl", turned, spread, turned)


@dataclass(frozen=True)
class ByEvidence(Method):
    """The one of several methods whose fit gives all measured components the greatest density.

    For methods of the tangent part the normal components count as white noise of their own.
    """

    methods: Sequence[Method]

    def fit(self, problem: Problem) -> Fitted:
        return max((method.fit(problem) for method in self.methods), key=lambda fitted: fitted.evidence)


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
