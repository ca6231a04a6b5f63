"""Hyperparameters of a Gaussian process that maximise its marginal likelihood on a sample of the
observations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ..errors import (
    NO_EXAMPLE,
    ConvergenceError,
    Remedy,
)
from .covariance import Covariance
from .observations import JITTER
from .sites import Pairs, Sites


def stacked(blocks: Tensor, independent: bool) -> Tensor:
    """Blocks as g matrices ``(..., g, N, M)``: one for each component if they are independent, or
    one for all."""
    return blocks if independent else blocks.flatten(-4, -3).flatten(-2, -1).unsqueeze(-3)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Fields at n sites."""

    sites: Sites
    values: Tensor  # coordinates (n, p, c) of c fields
    noise: Tensor | None = None  # known variances (n,)
    white: tuple[int, float] = (
        0,
        0.0,
    )  # number and sum of squares of further components that are noise alone

    @cached_property
    def pairs(self) -> Pairs:
        return Pairs(self.sites, self.sites)

    def matrix(self, blocks: Tensor, independent: bool, log_noise: Tensor) -> Tensor:
        """``K + N``, see ``stacked``."""
        matrix, n = stacked(blocks, independent), self.sites.count
        noise = torch.exp(2 * log_noise).expand(n) if self.noise is None else self.noise
        return matrix + torch.diag_embed((noise + JITTER).tile(matrix.shape[-1] // n))

    def columns(self, independent: bool) -> Tensor:
        """The values as right-hand sides ``(g, N, c)``."""
        columns = self.values.transpose(0, 1)
        return columns if independent else columns.flatten(0, 1)[None]

    def loss(self, covariance: Covariance, theta: Tensor) -> float:
        """The negative log marginal likelihood, infinite where the matrix is not positive
        definite."""
        return self._solve(covariance(theta[:-1], self.pairs), covariance.independent, theta[-1])[0]

    def loss_and_gradient(self, covariance: Covariance, theta: Tensor) -> tuple[float, Tensor]:
        r"""By :math:`\partial L/\partial K = \frac12 (c K^{-1} - A A^T)`, :math:`A = K^{-1} Y`."""
        alone, parameters = covariance.independent, theta[:-1].clone().requires_grad_()
        blocks = covariance(parameters, self.pairs)
        loss, factor, weights = self._solve(blocks.detach(), alone, theta[-1])
        gradient = torch.zeros_like(theta)
        if not np.isfinite(loss):
            return loss, gradient
        inverse = torch.cholesky_inverse(factor).mT  # the same, by rows
        slope = torch.baddbmm(
            inverse, weights, weights.mT, beta=0.5 * weights.shape[-1], alpha=-0.5
        )
        # Of a number: for the gradient of an array torch loads sympy, which takes half a second.
        slopes = slope if alone else self.pairs.blocks(slope[0])
        product = torch.dot(blocks.reshape(-1), slopes.reshape(-1))
        (gradient[:-1],) = torch.autograd.grad(product, parameters)
        if self.noise is None:
            count, squares = self.white
            variance, trace = torch.exp(2 * theta[-1]), slope.diagonal(dim1=-2, dim2=-1).sum()
            white = 0.5 * (count - squares / (variance + JITTER)) / (variance + JITTER)
            gradient[-1] = 2 * variance * (trace + white)
        return loss, gradient

    def _solve(
        self, blocks: Tensor, independent: bool, log_noise: Tensor
    ) -> tuple[float, Tensor, Tensor]:
        """The loss, the factor of the matrix, and A."""
        factor, info = torch.linalg.cholesky_ex(self.matrix(blocks, independent, log_noise))
        columns = self.columns(independent)
        if int(info.max()) > 0:
            return np.inf, factor, columns
        weights = torch.cholesky_solve(columns, factor)
        total = 0.5 * float((columns * weights).sum())
        total += columns.shape[-1] * float(factor.diagonal(dim1=-2, dim2=-1).log().sum())
        count, squares = self.white
        variance = float(torch.exp(2 * log_noise)) + JITTER
        total += 0.5 * (count * np.log(2 * np.pi * variance) + squares / variance)
        total += 0.5 * columns.numel() * np.log(2 * np.pi)
        return total if np.isfinite(total) else np.inf, factor, weights


def maximize(
    covariance: Covariance,
    evidence: Evidence,
    center: np.ndarray,
    width: np.ndarray,
    steps: int = 60,
    max_noise: float = np.inf,
    min_length: float = 0.0,
) -> np.ndarray:
    """Logarithms of the parameters, the noise last, of the greatest posterior density.

    The prior is normal around ``center``. The likelihood may have one mode of short and one of long
    lengths: the search begins with the likeliest of three common factors of all lengths. It takes
    at most so many ``steps``. ``max_noise`` bounds the noise's standard deviation, ``min_length``
    all lengths.
    """
    names = [*covariance.parameters(evidence.sites.points.shape[-1], evidence.sites.dim), "noise"]
    size = evidence.values.numel()  # for slopes of about one: first steps are as long as they are
    lengths = np.array(["length" in name for name in names])
    low, high = center - 6.0, center + 6.0
    low[lengths] = np.clip(np.log(max(min_length, 1e-300)), low[lengths], center[lengths])
    if np.isfinite(max_noise):
        high[-1] = np.log(max(max_noise, 1e-4))
        low[-1] = min(low[-1], high[-1] - 6.0)

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = evidence.loss_and_gradient(covariance, torch.from_numpy(vector))
        away = (vector - center) / width
        if loss == np.inf:
            return 1e10, 0 * away
        return (loss + 0.5 * np.square(away).sum()) / size, (gradient.numpy() + away / width) / size

    begins = [np.clip(center + shift * lengths, low, high) for shift in (-1.0, 0.0, 1.0)]
    begin = min(begins, key=lambda one: evidence.loss(covariance, torch.from_numpy(one)))
    options = {"maxiter": steps, "ftol": 1e-5}
    bounds = list(zip(low, high, strict=True))
    found = minimize(objective, begin, jac=True, method="SLSQP", bounds=bounds, options=options)
    if not found.fun < 1e10:
        raise ConvergenceError(
            f"the covariance {covariance} of these data is not positive definite at any "
            "parameters tried. Are there coincident points with different vectors and no noise?",
            Remedy("Give {noise_std}, or remove duplicates.", noise_std=NO_EXAMPLE),
        )
    return found.x
