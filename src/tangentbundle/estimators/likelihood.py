"""Hyperparameters of a Gaussian process that maximise its marginal likelihood on a sample of the observations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ..errors import ConvergenceError
from .covariance import Covariance, Pairs, Sites
from .observations import JITTER

PRIOR_WIDTH = 3.0
"""Standard deviation of the prior on logarithms of parameters: a factor of 20 either way."""

NOISE_START = -2.0
"""Logarithm of the noise's standard deviation from which its estimate starts, in units of the data's."""


def stacked(blocks: Tensor) -> Tensor:
    """Blocks as g matrices ``(..., g, N, M)``: one for each independent component, or one for all of them."""
    if blocks.ndim % 2:  # (p, n, m): one for each of p components
        return blocks
    return blocks.flatten(-4, -3).flatten(-2, -1).unsqueeze(-3)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Fields at n sites.

    Attributes:
        sites: where.
        values: coordinates ``(n, p, c)`` of c fields.
        noise: known variances ``(n,)``, or None.
        white: number and sum of squares of further components that are noise alone.
    """

    sites: Sites
    values: Tensor
    noise: Tensor | None = None
    white: tuple[int, float] = (0, 0.0)

    @cached_property
    def pairs(self) -> Pairs:
        return Pairs(self.sites, self.sites)

    def matrix(self, covariance: Covariance, theta: Tensor) -> Tensor:
        """``K + N``, see ``stacked``."""
        matrix = stacked(covariance(theta[:-1], self.pairs))
        n = self.sites.count
        noise = torch.exp(2 * theta[-1]).expand(n) if self.noise is None else self.noise
        return matrix + torch.diag_embed((noise + JITTER).tile(matrix.shape[-1] // n))

    def columns(self, covariance: Covariance) -> Tensor:
        """The values as right-hand sides ``(g, N, c)``."""
        columns = self.values.transpose(0, 1)
        return columns if covariance.independent else columns.flatten(0, 1)[None]

    def loss(self, covariance: Covariance, theta: Tensor) -> float:
        r"""The negative log marginal likelihood, infinite where the matrix is not positive definite.

        Adds its gradient to that of ``theta``: by :math:`\partial L/\partial K = \frac12 (c K^{-1} - A A^T)`,
        :math:`A = K^{-1} Y`, so that only the covariance is differentiated automatically.
        """
        matrix = self.matrix(covariance, theta)
        factor, info = torch.linalg.cholesky_ex(matrix.detach())
        if int(info.max()) > 0 or not torch.isfinite(factor).all():
            return np.inf
        columns = self.columns(covariance)
        weights = torch.cholesky_solve(columns, factor)
        count = columns.shape[-1]
        if theta.requires_grad:
            matrix.backward(0.5 * (count * torch.cholesky_inverse(factor) - weights @ weights.mT))
        total = 0.5 * float((columns * weights).sum())
        total += count * float(factor.diagonal(dim1=-2, dim2=-1).log().sum())
        return total + 0.5 * columns.numel() * np.log(2 * np.pi) + self._white_loss(theta)

    def _white_loss(self, theta: Tensor) -> float:
        count, squares = self.white
        if not count:
            return 0.0
        variance = torch.exp(2 * theta[-1]) + JITTER
        total = 0.5 * (count * torch.log(2 * np.pi * variance) + squares / variance)
        if theta.requires_grad:
            total.backward()
        return float(total.detach())


def maximize(
    covariance: Covariance,
    evidence: Evidence,
    center: np.ndarray,
    width: np.ndarray,
    max_noise: float = np.inf,
) -> np.ndarray:
    """Logarithms of the parameters, the noise last, of the greatest posterior density.

    The prior is normal around ``center``. The likelihood may have one mode of short and one of long lengths: the search
    begins with the likeliest of three common factors of all lengths. ``max_noise`` bounds the noise's standard
    deviation.
    """
    names = [*covariance.parameters(evidence.sites.points.shape[-1], evidence.sites.dim), "noise"]
    low, high = center - 6.0, center + 6.0
    if np.isfinite(max_noise):
        high[-1] = np.log(max(max_noise, 1e-4))
        low[-1] = min(low[-1], high[-1] - 6.0)
    known_noise = evidence.noise is not None

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.from_numpy(vector.copy()).requires_grad_()
        loss = evidence.loss(covariance, theta) + 0.5 * np.square((vector - center) / width).sum()
        if not np.isfinite(loss) or theta.grad is None:
            return 1e10, np.zeros_like(vector)
        gradient = theta.grad.numpy() + (vector - center) / np.square(width)
        if known_noise:
            gradient[-1] = 0.0
        return float(loss), gradient

    lengths = np.array(["length" in name for name in names])
    begins = [center + shift * lengths for shift in (-1.0, 0.0, 1.0)]
    begins = [np.clip(one, low, high) for one in begins]
    with torch.no_grad():
        losses = [evidence.loss(covariance, torch.from_numpy(one)) for one in begins]
    begin = begins[int(np.argmin(losses))]
    bounds = list(zip(low, high, strict=True))
    options = {"maxiter": 60, "ftol": 1e-5}
    found = minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if not found.fun < 1e10:
        raise ConvergenceError(
            f"the covariance {covariance} of these data is not positive definite at any parameters tried. Are there "
            "coincident points with different vectors and no noise? Give noise_std, or remove duplicates."
        )
    return found.x
