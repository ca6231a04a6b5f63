r"""The marginal likelihood of a Gaussian process, and the parameters that maximise it.

With the covariance K of the field at n sites, the variances N of the noise, and c fields Y,

.. math:: L = \tfrac{c}{2} \log\det(K + N) + \tfrac12 \operatorname{tr} Y^T (K + N)^{-1} Y.

In large clouds L is the sum over a sample of all points and patches of neighbouring ones: the
sample tells long lengths, patches tell short lengths and the noise. A weak prior on the logarithms
of the parameters keeps few points from ending in a corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import LinearConstraint, minimize
from torch import Tensor

from ..errors import NO_EXAMPLE, ConvergenceError, Remedy
from .covariance import Covariance, Parameter, Role
from .observations import JITTER
from .sites import Pairs, Sites

PRIOR_WIDTH = 3.0
"""Standard deviation of the logarithms: a factor of 20. Data and points have size one."""

SHORT_LENGTH_WIDTH = 1.5
"""That of lengths below their start. Few points agree with any short length, for then neighbours
are independent; long lengths say that a field does not change along an axis."""

BOUND = 6.0
"""Logarithms stay within so much of their start."""

START_LENGTHS = (-1.0, 0.0, 1.0)
START_NOISES = (-1.5, 0.0, 1.5)
"""The likelihood may have one maximum of short lengths and little noise, and one of long lengths
and much noise. The search begins with the likeliest combination of a factor of all lengths and of
one of the noise, given as logarithms."""

MAX_STEPS = 60
TOLERANCE = 1e-5
"""Of the search, for a loss per observed component."""

REFINING_STEPS = 8
REFINING_TOLERANCE = 1e-4
"""Of a search that begins near the maximum, with steps of the right size. Where it begins far away,
the model agrees with these data badly, and more steps would hardly change its weight."""

DIFFERENCE = 0.05
"""Of logarithms, at which slopes are compared to find the curvature of the loss."""

IMPOSSIBLE = 1e10
"""The loss where a matrix is not positive definite."""


def as_matrices(blocks: Tensor, independent: bool) -> Tensor:
    """Blocks as g matrices ``(..., g, N, M)``: one for each component if they are independent, or
    one for all."""
    if independent:
        return blocks
    return blocks.flatten(-4, -3).flatten(-2, -1).unsqueeze(-3)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Fields that were observed at n sites."""

    sites: Sites
    values: Tensor  # coordinates (n, p, c) of c fields
    noise: Tensor | None = None  # known variances (n,)

    @cached_property
    def pairs(self) -> Pairs:
        return Pairs(self.sites, self.sites)

    def matrices(self, blocks: Tensor, independent: bool, noise: float | Tensor) -> Tensor:
        """``K + N``, see ``as_matrices``; ``noise`` is a standard deviation if none is known."""
        matrices = as_matrices(blocks, independent)
        count = self.sites.count
        if self.noise is None:
            variances = torch.as_tensor(noise, dtype=torch.float64).square().expand(count)
        else:
            variances = self.noise
        components = matrices.shape[-1] // count
        diagonal = matrices.diagonal(dim1=-2, dim2=-1) + (variances + JITTER).tile(components)
        return matrices.diagonal_scatter(diagonal, dim1=-2, dim2=-1)

    def columns(self, independent: bool) -> Tensor:
        """The values as right-hand sides ``(g, N, c)``."""
        columns = self.values.transpose(0, 1)
        if independent:
            return columns
        return columns.flatten(0, 1)[None]

    def loss(self, covariance: Covariance, values: Tensor, noise: float) -> float:
        """The negative log likelihood, infinite where a matrix is not positive definite."""
        blocks = covariance(values, self.pairs)
        return self._solve(blocks, covariance.independent, noise)[0]

    def loss_and_gradient(
        self, covariance: Covariance, values: Tensor, noise: float
    ) -> tuple[float, np.ndarray]:
        r"""Also the derivatives by the logarithms of the parameters, that of the noise last.

        They follow from :math:`\partial L/\partial K = \frac12 (c K^{-1} - A A^T)`,
        :math:`A = K^{-1} Y`, so that only the covariance is differentiated automatically.
        """
        independent = covariance.independent
        leaves = values.clone().requires_grad_()
        blocks = covariance(leaves, self.pairs)
        loss, factors, weights = self._solve(blocks.detach(), independent, noise)
        if not np.isfinite(loss):
            return loss, np.zeros(len(values) + 1)
        inverses = torch.cholesky_inverse(factors).mT  # the same, by rows
        fields = weights.shape[-1]
        slopes = torch.baddbmm(inverses, weights, weights.mT, beta=0.5 * fields, alpha=-0.5)
        outer = slopes if independent else self.pairs.blocks(slopes[0])
        # of a number: for the gradient of an array torch loads sympy, which takes half a second
        product = torch.dot(blocks.reshape(-1), outer.reshape(-1))
        (by_value,) = torch.autograd.grad(product, leaves)
        by_log_noise = 0.0
        if self.noise is None:
            by_log_noise = 2 * noise**2 * float(slopes.diagonal(dim1=-2, dim2=-1).sum())
        return loss, np.append((by_value * values).numpy(), by_log_noise)

    def _solve(
        self, blocks: Tensor, independent: bool, noise: float
    ) -> tuple[float, Tensor, Tensor]:
        """The loss, the factors of the matrices, and A."""
        factors, info = torch.linalg.cholesky_ex(self.matrices(blocks, independent, noise))
        columns = self.columns(independent)
        if int(info.max()) > 0:
            return np.inf, factors, columns
        weights = torch.cholesky_solve(columns, factors)
        loss = 0.5 * float((columns * weights).sum())
        loss += columns.shape[-1] * float(factors.diagonal(dim1=-2, dim2=-1).log().sum())
        loss += 0.5 * columns.numel() * np.log(2 * np.pi)
        if not np.isfinite(loss):
            return np.inf, factors, weights
        return loss, factors, weights


@dataclass(frozen=True)
class PureNoise:
    """Components that are noise alone: how many, and the sum of their squares."""

    count: int = 0
    squares: float = 0.0

    def loss_and_slope(self, noise: float) -> tuple[float, float]:
        """The negative log likelihood and its derivative by the logarithm of the noise."""
        variance = noise**2 + JITTER
        loss = 0.5 * (self.count * np.log(2 * np.pi * variance) + self.squares / variance)
        slope = (self.count - self.squares / variance) * noise**2 / variance
        return loss, slope


@dataclass(frozen=True, eq=False)
class Prior:
    """Normal distributions of the logarithms of parameters, in two halves, with bounds; all
    ``(k,)``."""

    center: np.ndarray
    width_below: np.ndarray
    width_above: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    is_length: np.ndarray

    @classmethod
    def of(
        cls, parameters: Sequence[Parameter], min_length: float = 0.0, max_noise: float = np.inf
    ) -> Prior:
        """Around the starts of the parameters.

        ``min_length`` bounds all lengths: below, neighbours are independent, as noise is.
        ``max_noise`` bounds the standard deviation of the noise.
        """
        center = np.log([parameter.start for parameter in parameters])
        width = np.full(len(parameters), PRIOR_WIDTH)
        is_length = np.array([parameter.role is Role.LENGTH for parameter in parameters])
        is_noise = np.array([parameter.role is Role.NOISE for parameter in parameters])
        width_below = np.where(is_length, SHORT_LENGTH_WIDTH, width)
        lower = center - BOUND
        upper = center + BOUND
        shortest = np.log(max(min_length, 1e-300))
        lower = np.where(is_length, np.clip(shortest, lower, center), lower)
        if np.isfinite(max_noise):
            largest = np.log(max(max_noise, 1e-4))
            upper = np.where(is_noise, largest, upper)
            lower = np.where(is_noise, np.minimum(lower, largest - BOUND), lower)
        return cls(center, width_below, width, lower, upper, is_length)

    def around(self, logarithms: np.ndarray, width: float) -> Prior:
        """Around values of the first parameters that are known better; the others keep their own
        prior."""
        center = self.center.copy()
        width_below = self.width_below.copy()
        width_above = self.width_above.copy()
        known = slice(len(logarithms))
        center[known] = logarithms
        width_below[known] = width
        width_above[known] = width
        return replace(self, center=center, width_below=width_below, width_above=width_above)

    def loss_and_gradient(self, logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        width = np.where(logarithms < self.center, self.width_below, self.width_above)
        standardized = (logarithms - self.center) / width
        return 0.5 * float(np.square(standardized).sum()), standardized / width

    def starts(self) -> list[np.ndarray]:
        """Where a search may begin; the noise is the last parameter."""
        starts = []
        for length_shift in START_LENGTHS:
            for noise_shift in START_NOISES:
                start = self.center + length_shift * self.is_length
                start[-1] += noise_shift
                starts.append(self.clipped(start))
        return starts

    def clipped(self, logarithms: np.ndarray) -> np.ndarray:
        """Within the bounds."""
        return np.clip(logarithms, self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class ParameterPosterior:
    """The density of the logarithms of parameters, that of the noise last, given evidence."""

    covariance: Covariance
    evidence: Sequence[Evidence]
    pure_noise: PureNoise
    prior: Prior

    @property
    def size(self) -> int:
        """Observed components, by which losses are divided for slopes of about one."""
        return sum(part.values.numel() for part in self.evidence)

    def loss_and_gradient(self, logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative log density for each observed component."""
        values, noise = values_and_noise(logarithms)
        loss, gradient = self.prior.loss_and_gradient(logarithms)
        noise_loss, noise_slope = self.pure_noise.loss_and_slope(noise)
        loss += noise_loss
        gradient[-1] += noise_slope
        for part in self.evidence:
            own_loss, own_gradient = part.loss_and_gradient(self.covariance, values, noise)
            if not np.isfinite(own_loss):
                return IMPOSSIBLE, np.zeros_like(gradient)
            loss += own_loss
            gradient += own_gradient
        return loss / self.size, gradient / self.size

    def loss(self, logarithms: np.ndarray) -> float:
        """The same without its gradient."""
        values, noise = values_and_noise(logarithms)
        loss = self.prior.loss_and_gradient(logarithms)[0]
        loss += self.pure_noise.loss_and_slope(noise)[0]
        loss += sum(part.loss(self.covariance, values, noise) for part in self.evidence)
        return loss / self.size

    def maximum(self) -> np.ndarray:
        """The most probable logarithms."""
        prior = self.prior
        start = min(prior.starts(), key=self.loss)
        result = minimize(
            self.loss_and_gradient,
            start,
            jac=True,
            method="SLSQP",
            bounds=list(zip(prior.lower, prior.upper, strict=True)),
            options={"maxiter": MAX_STEPS, "ftol": TOLERANCE},
        )
        self._check(result.fun)
        return result.x

    def maximum_near(self, start: np.ndarray, axes: np.ndarray) -> np.ndarray:
        """The most probable logarithms, searched from ``start`` along the columns of ``axes``
        ``(k, k)``, at which the loss has about curvature one."""
        prior = self.prior

        def loss_and_gradient(steps: np.ndarray) -> tuple[float, np.ndarray]:
            loss, gradient = self.loss_and_gradient(prior.clipped(start + axes @ steps))
            return loss, axes.T @ gradient

        result = minimize(
            loss_and_gradient,
            np.zeros(len(start)),
            jac=True,
            method="SLSQP",
            constraints=LinearConstraint(axes, prior.lower - start, prior.upper - start),
            options={"maxiter": REFINING_STEPS, "ftol": REFINING_TOLERANCE},
        )
        self._check(result.fun)
        return prior.clipped(start + axes @ result.x)

    def axes_of_curvature(self, logarithms: np.ndarray) -> np.ndarray:
        """Directions as columns ``(k, k)``, of such lengths that the loss has about curvature one
        along each.

        The Hessian is that of slopes at small differences; it is at least that of the prior.
        """
        slopes = self.loss_and_gradient(logarithms)[1]
        hessian = np.empty((len(slopes), len(slopes)))
        for k in range(len(slopes)):
            step = DIFFERENCE
            if logarithms[k] + step > self.prior.upper[k]:
                step = -DIFFERENCE
            moved = logarithms.copy()
            moved[k] += step
            hessian[k] = (self.loss_and_gradient(moved)[1] - slopes) / step
        curvatures, directions = np.linalg.eigh((hessian + hessian.T) / 2)
        least = 1 / (PRIOR_WIDTH**2 * self.size)
        return directions / np.sqrt(np.maximum(np.abs(curvatures), least))

    def _check(self, loss: float) -> None:
        if not loss < IMPOSSIBLE:
            raise ConvergenceError(
                f"the covariance {self.covariance} of these data is not positive definite at any "
                "parameters tried. Are there coincident points with different vectors and no "
                "noise?",
                Remedy("Give {noise_std}, or remove duplicates.", noise_std=NO_EXAMPLE),
            )


def values_and_noise(logarithms: np.ndarray) -> tuple[Tensor, float]:
    """The parameters of the covariance, and the standard deviation of the noise."""
    values = np.exp(logarithms)
    return torch.from_numpy(values[:-1].copy()), float(values[-1])
