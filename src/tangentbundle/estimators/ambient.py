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

import numpy as np
import torch
from scipy.optimize import minimize

from ..errors import InvalidInputError
from .covariance import distances, matern
from .problem import Fitted, Method, Problem
from .process import CHUNK, JITTER, PRIOR

START_LENGTH, START_NOISE = -1.0, -2.0
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
        _, axes = np.linalg.eigh(problem.ambient.T @ problem.ambient)
        components = torch.from_numpy(problem.ambient @ axes)
        points = problem.sites(problem.spaces.points[:n], problem.spaces.frames[:n])
        some = np.sort(problem.rng.choice(n, min(n, self.likelihood_size), replace=False))
        noise = None if problem.noise is None else torch.from_numpy(problem.noise)
        known = None if noise is None else noise[some]
        apart = distances(points, points)
        best: tuple[float, float, np.ndarray] | None = None
        for smoothness in self.smoothness:
            theta, loss = _maximise(smoothness, apart[some][:, some], components[some], known)
            if best is None or loss < best[0]:
                best = (loss, smoothness, theta)
        assert best is not None
        return AmbientPosterior.of(best[1], best[2], apart, components, noise, axes, problem)


def _matrices(smoothness: float, theta: torch.Tensor, apart: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
    """``K_a + N`` of every axis, ``(D, n, n)``; theta holds the length, the amplitudes and the noise."""
    kernel = matern(apart * torch.exp(-theta[0]), smoothness)
    level = torch.exp(2 * theta[-1]).expand(len(apart)) if noise is None else noise
    return torch.exp(2 * theta[1:-1])[:, None, None] * kernel + torch.diag(level + JITTER)


def _loss(matrices: torch.Tensor, components: torch.Tensor) -> torch.Tensor:
    """Minus the log density of the components ``(n, D)``."""
    factor = torch.linalg.cholesky(matrices)
    white = torch.linalg.solve_triangular(factor, components.T[:, :, None], upper=False)
    logdet = factor.diagonal(dim1=1, dim2=2).log().sum()
    return 0.5 * white.square().sum() + logdet + 0.5 * components.numel() * np.log(2 * np.pi)


def _maximise(
    smoothness: float, apart: torch.Tensor, components: torch.Tensor, noise: torch.Tensor | None
) -> tuple[np.ndarray, float]:
    """Parameters of greatest likelihood times a weak prior around their starts, and minus its logarithm there."""
    sizes = components.square().mean(0).clamp_min(1e-8).sqrt().log().numpy()
    center = np.array([START_LENGTH, *sizes, START_NOISE])

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.from_numpy(vector.copy()).requires_grad_()
        try:
            loss = _loss(_matrices(smoothness, theta, apart, noise), components)
        except torch.linalg.LinAlgError:
            return 1e10, np.zeros_like(vector)
        (gradient,) = torch.autograd.grad(loss, theta)
        prior = 0.5 * np.square((vector - center) / PRIOR).sum()
        return float(loss.detach()) + prior, gradient.numpy() + (vector - center) / PRIOR**2

    bounds = [(c - 9.0, c + 6.0) for c in center]
    starts = [center, center + np.eye(len(center))[0]]  # the likelihood may have modes of short and of long lengths
    options = {"maxiter": 100, "ftol": 1e-7}
    found = [minimize(objective, s, jac=True, method="L-BFGS-B", bounds=bounds, options=options) for s in starts]
    best = min(found, key=lambda result: result.fun)
    return best.x, float(best.fun)


@dataclass(frozen=True, eq=False)
class AmbientPosterior(Fitted):
    """Processes of the components given data; ``evidence`` is the log density of all of these."""

    smoothness: float
    theta: np.ndarray
    evidence: float
    noise: float
    seen: torch.Tensor = field(repr=False)
    axes: torch.Tensor = field(repr=False)
    factor: torch.Tensor = field(repr=False)
    weights: torch.Tensor = field(repr=False)
    problem: Problem = field(repr=False)

    @classmethod
    def of(cls, smoothness, theta, apart, components, noise, axes, problem) -> AmbientPosterior:
        with torch.no_grad():
            matrices = _matrices(smoothness, torch.from_numpy(theta), apart, noise)
            evidence = -float(_loss(matrices, components))
            factor = torch.linalg.cholesky(matrices)
            weights = torch.cholesky_solve(components.T[:, :, None], factor)[:, :, 0]
        level = float(np.exp(theta[-1])) if noise is None else float(noise.mean().sqrt())
        points = torch.from_numpy(problem.spaces.points[: len(components)])
        return cls(smoothness, theta, evidence, level, points, torch.from_numpy(axes), factor, weights, problem)

    def predict(
        self, points: np.ndarray, frames: np.ndarray, *, with_covariance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        theta = torch.from_numpy(self.theta)
        sizes = torch.exp(2 * theta[1:-1])
        here = self.problem.sites(self.seen.numpy(), self.problem.spaces.frames[: len(self.seen)])
        means, spreads = [], []
        with torch.no_grad():
            for a in range(0, len(points), CHUNK):
                there = self.problem.sites(points[a : a + CHUNK], frames[a : a + CHUNK])
                kernel = matern(distances(there, here) * torch.exp(-theta[0]), self.smoothness)
                cross = sizes[:, None, None] * kernel  # (D, m, n)
                turned = there.frames.mT @ self.axes  # (m, d, D): from principal components to coordinates
                means.append(torch.einsum("mdk,kmn,kn->md", turned, cross, self.weights))
                if with_covariance:
                    half = torch.linalg.solve_triangular(self.factor, cross.mT, upper=False)
                    left = sizes[:, None] - half.square().sum(1)  # (D, m)
                    spreads.append(torch.einsum("mdk,km,mek->mde", turned, left, turned))
        return torch.cat(means).numpy(), torch.cat(spreads).numpy() if with_covariance else None


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
