r"""Denoising by filters of the connection Laplacian, without a dense matrix: for large clouds.

Among the responses :math:`h(\lambda) = 1/(1 + (\lambda/c)^p)` the one of least estimated risk is taken, by Stein's
unbiased estimate for noise of variance :math:`\sigma^2` in N coordinates,

.. math:: \mathrm{SURE} = \|x - Hx\|^2 - N\sigma^2 + 2\sigma^2\, \mathrm{tr}\, H,

or by generalised cross-validation. Traces are estimated with random signs. The noise's level comes from what high
frequencies hold: :math:`\|(I - P)^m x\|^2 / \mathrm{tr}\,(I - P)^{2m}`, least over m, P the average over neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch

from ..bundle import TangentBundle
from ..filters import Chebyshev, Filter, Spectral, apply_bank
from ..operators import ConnectionLaplacian
from .problem import AtNodes, Method, Problem, carry
from .tangents import TangentSpaces

POWERS = (1.0, 2.0, 4.0)
CUTS = 14
"""Cut-offs for each power, log-spaced from the largest eigenvalue down."""

DECADES = 4.0
GROUP = 7
"""Filters applied at once."""

ACCURACY = Chebyshev(tol=1e-4)


class Criterion(ABC):
    """An estimate of a filter's risk from its residual ``|x - Hx|^2``, trace, and the noise's variance."""

    @abstractmethod
    def __call__(self, residual: float, trace: float, size: int, variance: float) -> float: ...


@dataclass(frozen=True)
class SURE(Criterion):
    """Stein's unbiased risk estimate; needs the noise's level."""

    def __call__(self, residual: float, trace: float, size: int, variance: float) -> float:
        return residual - size * variance + 2 * variance * trace


@dataclass(frozen=True)
class GCV(Criterion):
    """Generalised cross-validation; needs no noise level, and oversmooths where noise is small."""

    def __call__(self, residual: float, trace: float, size: int, variance: float) -> float:
        free = 1.0 - trace / size
        return residual / free**2 if free > 1e-3 else np.inf  # the identity leaves nothing to judge by


def rational(cut: float, power: float) -> Filter:
    r""":math:`1/(1 + (\lambda/c)^p)`."""
    return Spectral(lambda lam: 1 / (1 + (lam / cut) ** power), f"rational({cut:.3g}, {power:g})")


def identity() -> Filter:
    return Spectral(torch.ones_like, "identity")


@dataclass(frozen=True)
class SpectralShrinkage(Method):
    r"""Method of ``FieldDenoiser``: the filter of least estimated risk; grows linearly with the number of points.

    Args:
        criterion: ``SURE()`` or ``GCV()``.
        neighbors: neighbours of the median point in the graph; default automatic.
        probes: random signs for traces and standard deviations.
        uneven: estimate a noise level of its own for every neighbourhood. Uneven levels, estimated or given, weigh
            the vectors in all averages: :math:`H(wx) / H_0 w` with :math:`w_i = 1/\sigma_i^2`, :math:`H_0` the same
            filter of functions.
    """

    criterion: Criterion = SURE()
    neighbors: int | None = None
    probes: int = 8
    uneven: bool = False

    def fit(self, problem: Problem) -> FilteredField:
        spaces = problem.spaces
        bundle = TangentBundle.from_frames(spaces.points, spaces.frames, neighbors=self.neighbors)
        lap = bundle.laplacian()
        x = torch.from_numpy(np.ascontiguousarray(problem.values))[:, :, None]
        signs = problem.rng.choice([-1.0, 1.0], size=(*problem.values.shape, self.probes))
        probes = torch.from_numpy(signs)
        variance = problem.noise
        if variance is None:
            variance = high_frequency_variance(lap, x, probes) * np.ones(len(x))
            if self.uneven:
                variance = local_variance(lap, x, probes, spaces)
        noise, weights = torch.from_numpy(variance)[:, None, None], _weights(variance)
        top = lap.spectral_interval[1]
        cuts = top * np.logspace(-DECADES, 0.5, CUTS)
        filters = [identity(), *(rational(float(c), p) for p in POWERS for c in cuts)]
        best: tuple[float, Filter, np.ndarray, np.ndarray] | None = None
        inputs = torch.cat([x, probes], dim=2)
        scalar = None if weights is None else bundle.scalar().laplacian()
        for a in range(0, len(filters), GROUP):
            group = filters[a : a + GROUP]
            outputs = apply_bank(group, lap, inputs if weights is None else weights * inputs, ACCURACY)
            if scalar is not None and weights is not None:
                sums = apply_bank(group, scalar, weights, ACCURACY)
                outputs = [o / s.clamp_min(0.1 * float(weights.min())) for o, s in zip(outputs, sums, strict=True)]
            for h, out in zip(group, outputs, strict=True):
                residual = float((x - out[:, :, :1]).square().sum())
                share = (probes * out[:, :, 1:]).mean(dim=2)  # the diagonal of H, estimated
                risk = self.criterion(
                    residual, float((share * noise[:, :, 0]).sum() / noise.mean()), x.numel(), float(noise.mean())
                )
                if best is None or risk < best[0]:
                    best = (risk, h, out[:, :, 0].numpy(), share.numpy())
        assert best is not None
        smooth = carry(spaces, best[3].mean(axis=1)[:, None, None] * np.ones((1, spaces.dim, 1)), *_self(spaces), 32)
        spread = variance * np.clip(np.abs(smooth[:, :, 0]).mean(axis=1), 1e-3, 1.0)
        return FilteredField(spaces, best[2], spread, float(np.sqrt(variance.mean())), best[1])


def _weights(variance: np.ndarray) -> torch.Tensor | None:
    """Inverse variances ``(n, 1, 1)`` of mean one, or None where they are all the same."""
    if np.ptp(variance) <= 1e-12 * float(variance.max()):
        return None
    weights = 1 / np.maximum(variance, 1e-4 * float(variance.mean()))
    return torch.from_numpy(weights / weights.mean())[:, None, None]


def _self(spaces: TangentSpaces) -> tuple[np.ndarray, np.ndarray]:
    return spaces.points, spaces.frames


def high_frequency_variance(lap: ConnectionLaplacian, x: torch.Tensor, probes: torch.Tensor) -> float:
    """The variance of white noise in ``x``, from the least of four high-pass filters' outputs."""
    signal, noise, found = x, probes, []
    for _ in range(4):
        signal, noise = (-lap.scale * (lap @ part) for part in (signal, noise))
        found.append(float(signal.square().sum() / noise.square().sum(dim=(0, 1)).mean()))
    return max(min(found), 1e-14)


def local_variance(
    lap: ConnectionLaplacian, x: torch.Tensor, probes: torch.Tensor, spaces: TangentSpaces, neighbors: int = 64
) -> np.ndarray:
    """The variance ``(n,)`` of white noise around every point, from what the highest frequencies hold there."""
    signal, noise = x, probes
    for _ in range(4):
        signal, noise = (-lap.scale * (lap @ part) for part in (signal, noise))
    energies = torch.stack([signal.square().mean(dim=(1, 2)), noise.square().mean(dim=(1, 2))], dim=1).numpy()
    index = spaces.tree.query(spaces.points, k=min(neighbors, len(spaces.points)))[1]
    around = np.stack([column[index].mean(axis=1) for column in energies.T], axis=1)
    return np.maximum(around[:, 0] / np.maximum(around[:, 1], 1e-300), 1e-14)


@dataclass(frozen=True, eq=False)
class FilteredField(AtNodes):
    """A filtered field; ``response`` is the filter chosen."""

    response: Filter
