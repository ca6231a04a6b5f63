"""Chebyshev coefficients of responses to a given accuracy, and what float32 can give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..errors import AccuracyWarning, ConvergenceError, NonFiniteError, warn
from ..operators import Generator, LinearOperator
from ..transforms import is_seen

if TYPE_CHECKING:
    from .base import Filter

MAX_NODES = 2**14
"""Largest number of nodes tried; a smooth response needs far fewer."""

MIN_TOLERANCE = {torch.float32: 1e-6, torch.float64: 0.0}
"""Smallest tolerance of an iteration; below it rounding is larger than what is left out."""

SHARES = np.concatenate([[0.0], np.geomspace(1e-16, 0.5, 128)])
"""Where expansions are checked: distances from the band's ends, as shares of its length."""


@dataclass(frozen=True)
class Band:
    """Eigenvalues of minus Delta on which an expansion runs: those of averages P from 1 - 2
    ``radius`` to 1."""

    generator: Generator
    radius: float = 1.0

    @property
    def middle(self) -> float:
        """The average P that Chebyshev polynomials have at zero."""
        return 1.0 - self.radius

    @property
    def top(self) -> float:
        """The largest eigenvalue."""
        return self.generator(2.0 * self.radius)

    def __call__(self, shares: np.ndarray) -> torch.Tensor:
        """Eigenvalues at shares of the band's length in P, from 0 to 1."""
        return torch.from_numpy(self.generator(2.0 * self.radius * shares))


def _evaluate(filters: Sequence[Filter], points: torch.Tensor) -> torch.Tensor:
    """Responses ``(k, nodes)``, on the device of the filters' parameters."""
    devices = {p.device for f in filters for p in f.parameters()} | {points.device}
    device = next((d for d in devices if d.type != "cpu"), points.device)
    return torch.stack([f.evaluate(points.to(device)) for f in filters])


def _samples(filters: Sequence[Filter], band: Band, nodes: int) -> torch.Tensor:
    """Responses ``(k, nodes)`` at the Chebyshev nodes of the band (z = 1 is its lower end)."""
    z = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    return _evaluate(filters, band((1.0 - z) / 2))


def _transform(samples: torch.Tensor, terms: int) -> torch.Tensor:
    """Coefficients ``(k, terms)`` from samples at Chebyshev nodes, by a fast cosine transform;
    differentiable."""
    nodes = samples.shape[1]
    turn = torch.polar(
        *(torch.from_numpy(a) for a in (np.ones(terms), -np.pi / (2 * nodes) * np.arange(terms)))
    )
    sums = (torch.fft.rfft(samples, n=2 * nodes)[:, :terms] * turn.to(samples.device)).real / nodes
    return torch.cat([sums[:, :1], 2 * sums[:, 1:]], dim=1)


def check_points(band: Band) -> torch.Tensor:
    """Eigenvalues at which expansions are compared with the responses, dense near both ends of the
    band."""
    return band(np.concatenate([SHARES, 1.0 - SHARES]))


def expand(filters: Sequence[Filter], band: Band, tol: float) -> torch.Tensor:
    """Coefficients ``(k, m)``, float64, whose expansions differ from the responses by at most
    ``tol`` times their maximum.

    The number of terms is the least for which the sum of the coefficients left out is below the
    tolerance. Differentiable in the filters' parameters.
    """
    angles = 2 * np.arcsin(np.sqrt(SHARES))
    angles = np.concatenate([angles, np.pi - angles])
    with torch.no_grad():
        checks = require_finite(_evaluate(filters, check_points(band)), band.top).cpu()
    nodes = 16
    while (nodes := 2 * nodes) <= MAX_NODES:
        with torch.no_grad():
            samples = require_finite(_samples(filters, band, nodes), band.top).cpu()
            coefficients = _transform(samples, nodes)
            size = (
                torch.cat([samples, checks], dim=1)
                .abs()
                .amax(dim=1, keepdim=True)
                .clamp_min(1e-300)
            )
            # rounding of the transform itself leaves noise of a few units in the last place
            tails = (coefficients.abs() / size).flip(1).cumsum(1).flip(1).amax(dim=0)
            floor = max(tol, 2e-15 * nodes)
            long = torch.nonzero(tails > floor)
            terms = int(long[-1]) + 1 if len(long) else 1
        if terms <= nodes // 2 or nodes == MAX_NODES:
            # what happens close to an end, like heat after a long time, can lie between coarse
            # nodes
            cosines = torch.from_numpy(np.cos(np.arange(terms)[:, None] * angles))
            errors = (coefficients[:, :terms] @ cosines - checks).abs() / size
            if float(errors.max()) <= 2 * floor:
                return fixed_degree(filters, band, terms, nodes)
    raise ConvergenceError(
        f"{MAX_NODES} Chebyshev terms do not follow this response to {tol:g}: it jumps, or "
        f"changes on a scale far below the operator's largest eigenvalue {band.top:.4g}. Use "
        "method=Exact(), a smoother response, or Chebyshev(degree=...) to accept what that degree "
        "gives."
    )


def require_finite(responses: torch.Tensor, largest: float) -> torch.Tensor:
    """Refuse NaN and infinity among responses at eigenvalues up to the largest."""
    if not bool(torch.isfinite(responses).all()):
        raise NonFiniteError(
            f"a response is not finite on the operator's eigenvalues, 0 to {largest:.4g}. Change "
            "the filter so that it is."
        )
    return responses


def fixed_degree(
    filters: Sequence[Filter], band: Band, terms: int, nodes: int | None = None
) -> torch.Tensor:
    """Coefficients ``(k, terms)`` whatever their accuracy; needs no look at their values."""
    nodes = max(2 * terms, 32) if nodes is None else nodes
    return _transform(_samples(filters, band, nodes), terms)


def check_precision(
    filters: Sequence[Filter], operator: LinearOperator, largest: float, most: float = 1e-3
) -> None:
    r"""Warn of a float32 operator whose rounding the responses amplify to more than a share of
    their largest value.

    Rounding P shifts the eigenvalues by about :math:`\epsilon\lambda_{max}/\sqrt{n d}`; responses
    from 0 to the ``largest`` eigenvalue are compared with those at shifted eigenvalues.
    """
    if operator.dtype != torch.float32 or not is_seen(operator.mass):
        return
    with torch.no_grad():
        lam = check_points(Band(Generator(2.0 / max(largest, 1e-300))))
        shift = torch.finfo(operator.dtype).eps * largest / operator.shape[0] ** 0.5
        before, after = (
            torch.stack([f.evaluate(at) for f in filters]) for at in (lam, lam + shift)
        )
        error = float(
            ((after - before).abs().amax(1) / before.abs().amax(1).clamp_min(1e-300)).max()
        )
    if error > most:
        warn(
            f"float32 knows these eigenvalues to about {shift:.2g}, over which the response "
            f"changes by {error:.2g} of its largest value. Use float64: "
            "operator.to(dtype=torch.float64).",
            AccuracyWarning,
        )
