"""Marginal likelihoods of Gaussian processes of tangent fields, and parameters that maximise them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import minimize, minimize_scalar

from ..errors import ConvergenceError
from .covariance import Covariance, Sites

JITTER = 1e-8
"""Added to the diagonal, in units of the data's variance."""

PRIOR = 3.0
"""Standard deviation of the prior on logarithms of parameters."""

NOISE_START = -2.0

ODDS = 5.0
"""By which a smaller noise must be likelier than one that other components tell of, as a logarithm."""

SHARES = np.append(0.0, np.geomspace(1e-4, 1.0, 41))
"""Of a field's energy across tilted tangent spaces, for each component."""


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


@dataclass(frozen=True, eq=False)
class White:
    """Components ``(n, k)`` that are noise alone, as evidence for its level."""

    values: torch.Tensor
    known: torch.Tensor | None

    @property
    def level(self) -> float:
        """The logarithm of its root mean square."""
        return 0.5 * float(self.values.square().mean().log())

    def loss(self, covariance: Covariance, theta: torch.Tensor, grad: bool = True) -> float:
        level = torch.exp(2 * theta[-1]) if self.known is None else self.known[:, None]
        variance = (level + JITTER).expand(self.values.shape)
        total = 0.5 * ((2 * np.pi * variance).log() + self.values.square() / variance).sum()
        if grad and self.known is None and self.values.numel():
            total.backward()
        return float(total.detach())


@dataclass(frozen=True, eq=False)
class Tilted:
    r"""Components ``(n, k)`` across tilted tangent spaces, as evidence for the noise.

    Of the field's ``energy (n,)`` along them they have a share: variances are :math:`s^2 + \tau |f|^2`, with
    :math:`\tau` the likeliest of ``SHARES``.
    """

    values: torch.Tensor
    energy: torch.Tensor

    @cached_property
    def level(self) -> float:
        """The likeliest logarithm of the noise."""
        top = 0.5 * float(self.values.square().mean().log())

        def loss(level: float) -> float:
            return float(self._losses(self.values.new_tensor(level)).min())

        return float(minimize_scalar(loss, bounds=(top - 6, top)).x)

    def loss(self, covariance: Covariance, theta: torch.Tensor, grad: bool = True) -> float:
        total = self._losses(theta[-1]).min()
        if grad:
            total.backward()
        return float(total.detach())

    def _losses(self, level: torch.Tensor) -> torch.Tensor:
        """For all shares."""
        variance = torch.exp(2 * level) + JITTER + torch.outer(torch.tensor(SHARES), self.energy)
        count, squares = self.values.shape[1], self.values.square().sum(1)
        return 0.5 * (count * (2 * np.pi * variance).log() + squares / variance).sum(1)


def maximise(
    covariance: Covariance,
    seen: Sequence[Evidence | White | Tilted],
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
