r"""Denoising by filters of the connection Laplacian, without a dense matrix: for large clouds.

Among the responses :math:`h(\lambda) = 1/(1 + (\lambda/c)^p)` the one of least estimated risk is taken, by Stein's
unbiased estimate for noise of variances :math:`\sigma_i^2`,

.. math:: \mathrm{SURE} = \|x - Hx\|^2 - \mathrm{tr}\, N + 2\, \mathrm{tr}\, NH, \qquad
          \|x\|^2 = \sum_i m_i |x_i|^2, \quad N = \mathrm{diag}(\sigma_i^2),

in the mass, or by generalised cross-validation. All filters are judged by the moments
:math:`\langle x, T_m(\Delta)\, x\rangle` of the data and of random signs, from a single Chebyshev recurrence, and only
the best is applied. Where the noise is uneven, averages that weigh vectors by their precision,
:math:`H(wx) / H_0 w` with :math:`w_i = 1/\sigma_i^2` and :math:`H_0` the same filter of functions, are tried, too.
The noise's level comes from what high frequencies hold: :math:`\|(I - P)^m x\|^2 / \mathrm{tr}\,(I - P)^{2m}`, least
over m, P the average over neighbours; or, if that is less, from the marginal likelihood of a Gaussian process on a few
compact patches, since a field may have details finer than P resolves. For the same reason a graph of few neighbours
is tried beside the automatic one.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import torch
from numpy.polynomial.chebyshev import chebinterpolate

from ..bundle import TangentBundle
from ..console import progress
from ..errors import IsolatedPointsError
from ..geometry.scale import affordable_neighbors
from ..operators import ConnectionLaplacian
from .problem import AtNodes, Method, Problem
from .process import GaussianProcess
from .tangents import TangentSpaces

POWERS = (1.0, 2.0, 4.0)
CUTS = 14
"""Cut-offs for each power, log-spaced from the largest eigenvalue down."""

DECADES = 4.0
TERMS = 256
"""Of the recurrence: moments, and degrees of filters, are twice as many. Enough for the lowest cut-off."""

MANY = 100_000
"""Points from which single precision and fewer probes are enough."""

PATCH = 150
"""Points of a patch on which a Gaussian process judges the noise."""

LEAST_WEIGHT = 1e-3
"""Of a vector in averages by precision, relative to their mean."""


class Criterion(ABC):
    """An estimate of a filter's risk from its residual ``|x - Hx|^2``, trace, and the noise's variance."""

    @abstractmethod
    def __call__(self, residual: float, trace: float, size: float, variance: float) -> float: ...


@dataclass(frozen=True)
class SURE(Criterion):
    """Stein's unbiased risk estimate; needs the noise's level."""

    def __call__(self, residual: float, trace: float, size: float, variance: float) -> float:
        return residual - size * variance + 2 * variance * trace


@dataclass(frozen=True)
class GCV(Criterion):
    """Generalised cross-validation; needs no noise level, and oversmooths where noise is small."""

    def __call__(self, residual: float, trace: float, size: float, variance: float) -> float:
        free = 1.0 - trace / size
        return residual / free**2 if free > 1e-3 else np.inf  # the identity leaves nothing to judge by


@dataclass(frozen=True)
class Rational:
    r""":math:`1/(1 + (\lambda/c)^p)`; the identity for c = infinity."""

    cut: float
    power: float

    def __call__(self, lam: np.ndarray) -> np.ndarray:
        return 1 / (1 + (np.maximum(lam, 0.0) / self.cut) ** self.power)


@dataclass(frozen=True)
class SpectralShrinkage(Method):
    """Method of ``FieldDenoiser``: the filter of least estimated risk; grows linearly with the number of points.

    Args:
        criterion: ``SURE()`` or ``GCV()``.
        neighbors: neighbours of the median point in the graph; default: an automatic number or 8 (d + 1), whichever has
            the less risk, and 40 for very large clouds.
        probes: random signs for traces and standard deviations; default 8, and 2 from 100 000 points on.
        uneven: estimate a noise level of its own for every neighbourhood. Uneven levels, estimated or given, weigh
            the vectors by their precision.
    """

    criterion: Criterion = SURE()
    neighbors: int | None = None
    probes: int | None = None
    uneven: bool = False

    def fit(self, problem: Problem) -> FilteredField:
        problem.require_no_support(self)
        dtype, usual = (np.float64, 8) if len(problem.values) < MANY else (np.float32, 2)
        count = usual if self.probes is None else self.probes
        signs = problem.rng.choice(np.array([-1.0, 1.0], dtype), size=(*problem.values.shape, count))
        bundles = [(bundle, bundle.laplacian()) for bundle in self._bundles(problem, dtype)]
        variance = np.min([self._variance(problem, lap, signs) for _, lap in bundles], axis=0)
        if problem.noise is None and not self.uneven:
            theta = GaussianProcess(likelihood_size=PATCH).parameters(problem)[1]
            variance = np.minimum(variance, np.exp(2 * theta[-1]))
        return min((self._filtered(problem, *both, variance, signs) for both in bundles), key=lambda pair: pair[0])[1]

    def _bundles(self, problem: Problem, dtype: type) -> Iterator[TangentBundle]:
        points: np.ndarray = problem.spaces.points.astype(dtype)
        frames: np.ndarray = problem.spaces.frames.astype(dtype)
        n, usual = len(points), self.neighbors or affordable_neighbors(len(points))
        yield TangentBundle.from_frames(points, frames, neighbors=usual)
        if usual is None and n > (few := 8 * (frames.shape[2] + 1)):
            with contextlib.suppress(IsolatedPointsError):  # too uneven a cloud for so few
                yield TangentBundle.from_frames(points, frames, neighbors=few)

    def _filtered(
        self,
        problem: Problem,
        bundle: TangentBundle,
        lap: ConnectionLaplacian,
        variance: np.ndarray,
        probes: np.ndarray,
    ) -> tuple[float, FilteredField]:
        """The filter of least risk on a bundle, with its risk."""
        spaces = problem.spaces
        x = torch.from_numpy(problem.values.astype(probes.dtype))[:, :, None]
        signs = torch.from_numpy(probes)
        noise = torch.from_numpy(variance.astype(probes.dtype))[:, None, None]
        steps = Recurrence(lap)
        moments = steps.moments(torch.cat([x, noise.sqrt() * signs], dim=2))
        data, traces = moments[:, 0], moments[:, 1:].mean(axis=1)
        level = float(variance.mean())

        def risk(filter: Rational) -> float:
            residual = float(steps.coefficients(lambda lam: (1 - filter(lam)) ** 2) @ data)
            trace = float(steps.coefficients(filter) @ traces)
            return self.criterion(max(residual, 0.0), trace / level, float(traces[0]) / level, level)

        cuts = lap.spectral_interval[1] * np.logspace(-DECADES, 0.5, CUTS)
        best = min((Rational(float(c), p) for p in POWERS for c in (np.inf, *cuts)), key=risk)
        signals = torch.cat([x, signs], dim=2)
        answers = [(best, signals if best.cut == np.inf else steps.apply(best, signals))]
        if np.ptp(variance) > 1e-9 * level and best.cut < np.inf:
            weights, plain = _weights(variance).to(x.dtype), Recurrence(bundle.scalar().laplacian())
            for finer in (Rational(f * best.cut, best.power) for f in (1.0, 2.0, 4.0)):
                sums = plain.apply(finer, weights).clamp_min(0.1 * float(weights.min()))
                answers.append((finer, steps.apply(finer, weights * signals) / sums))

        def measured(answer: tuple[Rational, torch.Tensor]) -> float:
            mass = lap.mass[:, None] / lap.mass.mean()
            residual = float((mass * (x - answer[1][:, :, :1])[:, :, 0].square()).sum())
            trace = float((mass * noise[:, :, 0] * _diagonal(signs, answer[1])).sum())
            return self.criterion(residual, trace / level, float(traces[0]) / level, level)

        risks = [measured(answer) for answer in answers]
        best, out = answers[int(np.argmin(risks))]
        own = variance * out[:, :, 1:].square().mean(dim=(1, 2)).double().numpy()  # the noise that is left
        near = spaces.tree.query(spaces.points, k=min(32, len(own)))[1]
        spread = np.clip(own[near].mean(axis=1), 1e-3 * variance.min(), variance.max())
        return min(risks), FilteredField(spaces, out[:, :, 0].double().numpy(), spread, float(np.sqrt(level)), best)

    def _variance(self, problem: Problem, lap: ConnectionLaplacian, probes: np.ndarray) -> np.ndarray:
        x, signs = torch.from_numpy(problem.values.astype(probes.dtype))[:, :, None], torch.from_numpy(probes)
        if problem.noise is not None:
            return np.maximum(problem.noise, 1e-14)
        if self.uneven:
            return local_variance(lap, x, signs, problem.spaces)
        return np.full(len(x), high_frequency_variance(lap, x, signs))


def _diagonal(signs: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The diagonal ``(n, d)`` of a linear map, estimated from its outputs at random signs."""
    return (signs * out[:, :, 1:]).mean(dim=2)


def _weights(variance: np.ndarray) -> torch.Tensor:
    """Precisions ``(n, 1, 1)`` of mean one."""
    weights = 1 / np.maximum(variance, LEAST_WEIGHT * float(variance.mean()))
    return torch.from_numpy(weights / weights.mean())[:, None, None].clamp_min(LEAST_WEIGHT)


@dataclass(frozen=True, eq=False)
class Recurrence:
    """Chebyshev polynomials of a Laplacian, to a fixed degree."""

    laplacian: ConnectionLaplacian

    @property
    def top(self) -> float:
        return self.laplacian.spectral_interval[1]

    def terms(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        """``T_0 x, T_1 x, ...``, of ``-2 Delta / top - 1``."""
        factor = -2 / self.top
        before, now = x, factor * (self.laplacian @ x) - x
        yield before
        while True:
            yield now
            after = self.laplacian @ now
            after.mul_(2 * factor).sub_(now, alpha=2).sub_(before)
            before, now = now, after

    def moments(self, x: torch.Tensor) -> np.ndarray:
        """``<x, T_m x>`` in the mass for m below twice ``TERMS``, for each channel ``(2 TERMS, c)``.

        By ``2 T_a T_b = T_{a+b} + T_{|a-b|}``, from half as many products.
        """
        mass = (self.laplacian.mass / self.laplacian.mass.mean())[:, None, None]
        found: list[np.ndarray] = []
        with progress(TERMS, "products") as show:
            for now, after in pairwise(islice(self.terms(x), TERMS + 1)):
                weighed = mass * now
                found += [(weighed * other).sum(dim=(0, 1)).double().numpy() for other in (now, after)]
                show(len(found) // 2, "Choosing a filter")
        return 2 * np.array(found) - np.tile(found[:2], (TERMS, 1))

    def coefficients(self, response: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Of a response of eigenvalues ``lambda >= 0``."""
        return chebinterpolate(lambda t: response(0.5 * self.top * (t + 1)), 2 * TERMS - 1)

    def apply(self, response: Callable[[np.ndarray], np.ndarray], x: torch.Tensor) -> torch.Tensor:
        """``h(-Delta) x``; terms that no longer count are left out."""
        found = self.coefficients(response)
        found = found[: int(np.flatnonzero(np.abs(found) > 1e-5).max(initial=0)) + 1]
        out = torch.zeros_like(x)
        for c, term in zip(found, self.terms(x), strict=False):
            out += float(c) * term
        return out


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
    """A filtered field; ``response`` is that of the filter chosen."""

    response: Rational
