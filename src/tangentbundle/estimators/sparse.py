r"""Gaussian processes on many points: Matern fields of the connection Laplacian, never a dense matrix.

On the nodes of a bundle (observed points and ``support``) the prior is the solution of the stochastic equation
:math:`(\kappa^2 - \Delta)^{\alpha/2} f = \text{white noise}`, whose covariance is a filter:

.. math:: C = \sigma^2 c\, (1 - \Delta/\kappa^2)^{-\alpha} M^{-1}, \qquad \alpha = \nu + d/2,

with M the mass and c such that the mean variance is :math:`\sigma^2`. Conjugate gradients with Chebyshev-filtered
products solve :math:`(A C A^T + N) w = y`, A the observed nodes; the mean is :math:`C A^T w`. Posterior samples by
Matheron's rule, :math:`f + C A^T (A C A^T + N)^{-1} (y - A f - \eta)`, give the standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ..bundle import TangentBundle
from ..errors import ConvergenceError
from ..filters import Chebyshev, Matern
from ..operators import ConnectionLaplacian
from .covariance import Isotropic
from .likelihood import Evidence
from .problem import AtNodes, Method, Problem
from .process import select

ACCURACY = Chebyshev(tol=1e-8)
WIDTH = 0.7
"""Of the prior on logarithms: lengths beyond the size of the manifold would make the matrix nearly singular."""

LEAST_NOISE = 1e-3
"""Least standard deviation of the noise, in units of the data's: bounds the solver's steps."""


@dataclass(frozen=True)
class SparseProcess(Method):
    """Method of ``FieldInterpolator``: a Matern field through filters, for more points than an exact process takes.

    Length, amplitude and noise maximise the likelihood of ``patches`` compact patches of ``patch_size`` observed
    points.

    Args:
        smoothness: of the Matern field.
        neighbors: neighbours of the median node in the graph. Few: the spectrum of a wide average ends early, and all
            finer fields would share one variance, as if they were noise.
        samples: posterior samples for the standard deviation.
        tol, max_steps: of the solver, relative to the data.
    """

    smoothness: float = 1.5
    neighbors: int | None = 12
    patch_size: int = 200
    patches: int = 6
    samples: int = 32
    tol: float = 1e-4
    max_steps: int = 500

    def fit(self, problem: Problem) -> SparsePosterior:
        spaces, (n, d) = problem.spaces, problem.values.shape
        sites = problem.sites(spaces.points[:n], spaces.frames[:n])
        values = torch.from_numpy(np.ascontiguousarray(problem.values))
        known = None if problem.noise is None else torch.from_numpy(problem.noise)
        seen = Evidence(sites, values.reshape(-1, 1), known)
        _, theta = select([Isotropic(self.smoothness)], seen, self.patch_size, self.patches, problem.rng, WIDTH)
        amplitude, length, noise = np.exp(theta)
        variance = torch.full((n,), noise**2) if known is None else known
        variance = variance.clamp_min(LEAST_NOISE**2)[:, None, None]
        bundle = TangentBundle.from_frames(spaces.points, spaces.frames, neighbors=self.neighbors)
        prior = MaternField.of(
            bundle.laplacian(),
            np.sqrt(2 * self.smoothness) / (length * problem.unit),
            self.smoothness + d / 2,
            amplitude,
            problem.rng,
        )
        draws = prior.sample(self.samples, problem.rng)
        errors = torch.from_numpy(problem.rng.standard_normal((n, d, self.samples))) * variance.sqrt()
        targets = torch.cat([values[:, :, None], values[:, :, None] - draws[:n] - errors], dim=2)
        weights = conjugate_gradients(
            lambda w: prior.multiply(w)[:n] + variance * w, targets, tol=self.tol, max_steps=self.max_steps
        )
        answers = prior.multiply(weights)
        residuals = draws + answers[:, :, 1:] - answers[:, :, :1]
        spread = torch.einsum("ndk,nek->nde", residuals, residuals) / self.samples
        level = float(noise) if known is None else float(known.mean().sqrt())
        return SparsePosterior(spaces, answers[:, :, 0].numpy(), spread.numpy(), level, amplitude, length)


@dataclass(frozen=True, eq=False)
class MaternField:
    """The prior on all nodes of a bundle."""

    laplacian: ConnectionLaplacian
    kappa: float
    alpha: float
    variance: float

    @classmethod
    def of(
        cls, laplacian: ConnectionLaplacian, kappa: float, alpha: float, amplitude: float, rng: np.random.Generator
    ) -> MaternField:
        """The field whose standard deviation is ``amplitude`` on average over the nodes."""
        plain = cls(laplacian, float(kappa), alpha, 1.0)
        return cls(laplacian, float(kappa), alpha, float(amplitude**2 / plain.sample(8, rng).square().mean()))

    def multiply(self, weights: torch.Tensor) -> torch.Tensor:
        """``C A^T w`` on all nodes ``(N, d, c)``, for weights ``(n, d, c)`` of the first n."""
        x = torch.zeros(self.laplacian.num_points, *weights.shape[1:], dtype=weights.dtype)
        x[: len(weights)] = self.variance * weights / self.laplacian.mass[: len(weights), None, None]
        return Matern(self.kappa, self.alpha)(self.laplacian, x, ACCURACY)

    def sample(self, count: int, rng: np.random.Generator) -> torch.Tensor:
        """Fields ``(N, d, count)`` drawn from the prior."""
        white = torch.from_numpy(rng.standard_normal((self.laplacian.num_points, self.laplacian.dim, count)))
        white = white * (self.variance / self.laplacian.mass).sqrt()[:, None, None]
        return Matern(self.kappa, self.alpha / 2)(self.laplacian, white, ACCURACY)


def conjugate_gradients(
    product: Callable[[torch.Tensor], torch.Tensor], target: torch.Tensor, *, tol: float, max_steps: int
) -> torch.Tensor:
    """Solve for each channel of ``(n, d, c)`` at once; residuals below ``tol`` relative to the target."""
    x, r = torch.zeros_like(target), target.clone()
    p, size = r.clone(), target.square().sum(dim=(0, 1)).clamp_min(1e-300)
    old = r.square().sum(dim=(0, 1))
    for _ in range(max_steps):
        if bool((old <= tol**2 * size).all()):
            return x
        image, active = product(p), old > tol**2 * size
        curvature = (p * image).sum(dim=(0, 1))
        if bool((active & ~(curvature > 0)).any()):  # rounding has made the matrix indefinite
            break
        step = torch.where(active, old / curvature.clamp_min(1e-300), 0.0)
        x, r = x + step * p, r - step * image
        new = r.square().sum(dim=(0, 1))
        p, old = r + torch.where(active, new / old.clamp_min(1e-300), 0.0) * p, new
    left = float((old / size).sqrt().max())
    raise ConvergenceError(
        f"conjugate gradients stopped after {max_steps} steps with a relative residual of {left:.2g}; "
        f"{tol:.2g} was asked for. Raise max_steps or tol, or give a larger noise_std."
    )


@dataclass(frozen=True, eq=False)
class SparsePosterior(AtNodes):
    """Mean ``(N, d)`` and covariances, ``spread (N, d, d)``, at all nodes; elsewhere carried from the nearest ones."""

    amplitude: float
    length: float

    def _covariance(self, frames: np.ndarray, nearest: np.ndarray, away: np.ndarray) -> np.ndarray:
        turn = frames.transpose(0, 2, 1) @ self.spaces.frames[nearest]
        blocks = turn @ self.spread[nearest] @ turn.transpose(0, 2, 1)
        return blocks + (self.amplitude**2 * away)[:, None, None] * np.eye(self.spaces.dim)
