"""Chebyshev coefficients of responses to a given accuracy, and what float32 can give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..errors import AccuracyWarning, ConvergenceError, NonFiniteError, warn
from ..transforms import is_seen
from .calibration import Generator
from .response import Response

if TYPE_CHECKING:
    from .base import SquareOperator

MAX_NODES = 2**14
"""Largest number of nodes tried; a smooth response needs far fewer."""

MIN_NODES = 32
"""Nodes that are tried first."""

MIN_TOLERANCE = {torch.float32: 1e-6, torch.float64: 0.0}
"""Smallest tolerance of an iteration; below it rounding is larger than what is left out."""

TRANSFORM_ROUNDING = 2e-15
"""Noise that rounding leaves in a coefficient, for each node of the transform."""

MAX_RESPONSE_CHANGE = 1e-3
"""Change of a response, as a share of its largest value, by which rounding in float32 may move it
without a warning."""

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
        """The eigenvalue at the far end, which is the largest."""
        return self.generator(2.0 * self.radius)

    def __call__(self, shares: np.ndarray) -> torch.Tensor:
        """Eigenvalues at shares of the band's length in P, from 0 to 1."""
        return torch.from_numpy(self.generator(2.0 * self.radius * shares))


def responses_at(filters: Sequence[Response], points: torch.Tensor) -> torch.Tensor:
    """Responses ``(k, nodes)``, on the device of the filters' parameters."""
    device = points.device
    for filter in filters:
        for parameter in filter.parameters():
            if parameter.device.type != "cpu":
                device = parameter.device
    nodes = points.to(device)
    return torch.stack([filter.evaluate(nodes) for filter in filters])


def responses_at_nodes(filters: Sequence[Response], band: Band, nodes: int) -> torch.Tensor:
    """Responses ``(k, nodes)`` at the Chebyshev nodes of the band (z = 1 is its lower end)."""
    z = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    return responses_at(filters, band((1.0 - z) / 2))


def cosine_transform(samples: torch.Tensor, count: int) -> torch.Tensor:
    """Coefficients ``(k, count)`` from samples at Chebyshev nodes, by a fast cosine transform;
    differentiable."""
    nodes = samples.shape[1]
    lengths = torch.from_numpy(np.ones(count))
    angles = torch.from_numpy(-np.pi / (2 * nodes) * np.arange(count))
    turn = torch.polar(lengths, angles).to(samples.device)
    sums = (torch.fft.rfft(samples, n=2 * nodes)[:, :count] * turn).real / nodes
    return torch.cat([sums[:, :1], 2 * sums[:, 1:]], dim=1)


def check_points(band: Band) -> torch.Tensor:
    """Eigenvalues at which expansions are compared with the responses, dense near both ends of the
    band."""
    return band(np.concatenate([SHARES, 1.0 - SHARES]))


def expand(filters: Sequence[Response], band: Band, tol: float) -> torch.Tensor:
    """Coefficients ``(k, m)``, float64, whose expansions differ from the responses by at most
    ``tol`` times their maximum.

    The number of coefficients is the least for which the sum of those left out is below the
    tolerance. Differentiable in the filters' parameters.
    """
    with torch.no_grad():
        checks = require_finite(responses_at(filters, check_points(band)), band.top).cpu()
    nodes = MIN_NODES
    while nodes <= MAX_NODES:
        count = _sufficient_count(filters, band, nodes, checks, tol)
        if count is not None:
            return fixed_length(filters, band, count, nodes)
        nodes *= 2
    raise ConvergenceError(
        f"{MAX_NODES} Chebyshev terms do not follow this response to {tol:g}: it jumps, or "
        f"changes on a scale far below the operator's largest eigenvalue {band.top:.4g}. Use "
        "method=Exact(), a smoother response, or Chebyshev(degree=...) to accept what that degree "
        "gives."
    )


@torch.no_grad()
def _sufficient_count(
    filters: Sequence[Response], band: Band, nodes: int, checks: torch.Tensor, tol: float
) -> int | None:
    """Coefficients that suffice for the tolerance; None if ``nodes`` do not follow the responses,
    whose values at ``check_points`` are ``checks``."""
    samples = require_finite(responses_at_nodes(filters, band, nodes), band.top).cpu()
    coefficients = cosine_transform(samples, nodes)
    largest = torch.cat([samples, checks], dim=1).abs().amax(dim=1, keepdim=True)
    largest = largest.clamp_min(1e-300)
    tails = (coefficients.abs() / largest).flip(1).cumsum(1).flip(1).amax(dim=0)
    floor = max(tol, TRANSFORM_ROUNDING * nodes)
    needed = torch.nonzero(tails > floor)
    count = 1
    if len(needed):
        count = int(needed[-1]) + 1
    if count > nodes // 2 and nodes < MAX_NODES:
        return None
    # what happens close to an end, like heat after a long time, can lie between coarse nodes
    angles = 2 * np.arcsin(np.sqrt(SHARES))
    angles = np.concatenate([angles, np.pi - angles])
    cosines = torch.from_numpy(np.cos(np.arange(count)[:, None] * angles))
    errors = (coefficients[:, :count] @ cosines - checks).abs() / largest
    if float(errors.max()) > 2 * floor:
        return None
    return count


def require_finite(responses: torch.Tensor, largest: float) -> torch.Tensor:
    """Refuse NaN and infinity among responses at eigenvalues up to the largest."""
    if not bool(torch.isfinite(responses).all()):
        raise NonFiniteError(
            f"a response is not finite on the operator's eigenvalues, 0 to {largest:.4g}. Change "
            "the filter so that it is."
        )
    return responses


def fixed_length(
    filters: Sequence[Response], band: Band, count: int, nodes: int | None = None
) -> torch.Tensor:
    """Coefficients ``(k, count)`` whatever their accuracy; needs no look at their values."""
    if nodes is None:
        nodes = max(2 * count, MIN_NODES)
    return cosine_transform(responses_at_nodes(filters, band, nodes), count)


def check_precision(filters: Sequence[Response], operator: SquareOperator, largest: float) -> None:
    r"""Warn of a float32 operator whose rounding the responses amplify to more than a share of
    their largest value.

    Rounding P shifts the eigenvalues by about :math:`\epsilon\lambda_{max}/\sqrt{n d}`; responses
    from 0 to the ``largest`` eigenvalue are compared with those at shifted eigenvalues.
    """
    if operator.dtype != torch.float32 or not is_seen(operator.mass):
        return
    with torch.no_grad():
        eigenvalues = check_points(Band(Generator(2.0 / max(largest, 1e-300))))
        shift = torch.finfo(operator.dtype).eps * largest / operator.shape[0] ** 0.5
        before = torch.stack([filter.evaluate(eigenvalues) for filter in filters])
        after = torch.stack([filter.evaluate(eigenvalues + shift) for filter in filters])
        sizes = before.abs().amax(1).clamp_min(1e-300)
        change = float(((after - before).abs().amax(1) / sizes).max())
    if change > MAX_RESPONSE_CHANGE:
        warn(
            f"float32 knows these eigenvalues to about {shift:.2g}, over which the response "
            f"changes by {change:.2g} of its largest value. Use float64: "
            "operator.to(dtype=torch.float64).",
            AccuracyWarning,
        )
