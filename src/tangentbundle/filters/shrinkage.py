r"""Choice of a denoising filter by its estimated risk, from Chebyshev moments: no candidate is
applied.

A signal x with noise n of known covariance is filtered by :math:`H = \hat h(-\Delta)`. Stein's
unbiased estimate of the risk :math:`E\,\|Hx - (x - n)\|^2`, in the mass inner product in which
:math:`\Delta` is self-adjoint, is

.. math:: \langle x, (1 - \hat h)^2(-\Delta)\, x \rangle - E \langle n, n \rangle
          + 2\, E \langle n, \hat h(-\Delta)\, n \rangle .

All three terms are sums over Chebyshev coefficients of the responses times the moments
:math:`\langle x, T_m x \rangle` and :math:`E \langle n, T_m n \rangle`, which one recurrence on the
data and on random probes gives, on the device of the operator. Probes of uneven noise are random
signs times its standard deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..operators import Laplacian
from ..operators.expansion import Band, expand, fixed_length
from ..operators.moments import chebyshev_moments
from ..operators.product import sort_rows
from .base import Filter
from .responses import Parametric, Spectral

RISK_TOLERANCE = 1e-2
"""Accuracy of the responses in estimated risks, which are noisier."""

MIN_VARIANCE = 1e-14
"""Least variance of the noise, as a share of that of the data: rounding of sums."""


@dataclass(eq=False)
class Rational(Parametric):
    r"""The low-pass response :math:`1/(1 + (\lambda/c)^p)`; the identity for an infinite cut-off
    c."""

    cutoff: float
    power: float

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return 1.0 / (1.0 + (lam / self.cutoff) ** self.power)


def rational_family(top: float) -> list[Filter]:
    """The identity, and for three powers 20 cut-offs from four decades below to half a decade above
    ``top``."""
    family: list[Filter] = [Rational(np.inf, 1.0)]
    for power in (1.0, 2.0, 4.0):
        for cutoff in top * np.logspace(-4.0, 0.5, 20):
            family.append(Rational(float(cutoff), power))
    return family


def laplacian_moments(operator: Laplacian, x: torch.Tensor, terms: int) -> np.ndarray:
    """Moments ``(2 terms - 1, c)`` of every channel of a signal ``(n, d, c)``, on the band of the
    operator."""
    order = operator.stored.curve_order
    matrix = operator.stored.along_curve()
    weights = (operator.mass / operator.mass.mean()).index_select(0, order)
    band = operator.band
    return chebyshev_moments(matrix, weights, sort_rows(x, order), terms, band.middle, band.radius)


def least_risk(
    operator: Laplacian,
    x: torch.Tensor,
    signs: torch.Tensor,
    variances: torch.Tensor | None = None,
) -> tuple[Filter, float]:
    r"""The low-pass filter of least estimated risk for a noisy signal ``(n, d, c)``, and the
    variance of the noise.

    ``signs`` (n, d, probes) are random signs. ``variances`` (n,) are those of the noise where they
    are known; the second answer is then one. Otherwise the noise is white, and its variance is
    estimated (``_noise_variance``).
    """
    band = operator.band
    family = rational_family(band.top)
    residuals = [squared_residual(filter) for filter in family]
    terms = expand([*family, *residuals], band, RISK_TOLERANCE).shape[1] // 2 + 2
    noise = signs
    if variances is not None:
        noise = variances.to(x).sqrt()[:, None, None] * signs
    moments = laplacian_moments(operator, torch.cat([x, noise], dim=2), terms)
    channels = x.shape[2]
    data = moments[:, :channels].mean(axis=1)
    probes = moments[:, channels:].mean(axis=1)
    variance = 1.0
    if variances is None:
        variance = _noise_variance(band, data, probes)
    losses = _energies(residuals, band, data).clip(min=0.0)
    risks = losses + 2 * variance * _energies(family, band, probes)
    return family[int(np.argmin(risks))], variance


def squared_residual(filter: Filter) -> Filter:
    r"""The filter with the response :math:`(1 - \hat h)^2`."""
    return Spectral(lambda lam: torch.square(1.0 - filter.evaluate(lam)))


def relative_power(exponent: int, top: float) -> Filter:
    r"""The filter with the response :math:`(\lambda/\lambda_{max})^p`."""
    return Spectral(lambda lam: (lam / top) ** exponent)


def _noise_variance(band: Band, data: np.ndarray, probes: np.ndarray) -> float:
    r"""The variance of white noise, from moments of data and of random signs: the least ratio of
    :math:`\langle x, \lambda^{2m} x \rangle` over m = 1, ..., 4.

    It is an upper bound where the field itself reaches the highest frequencies.
    """
    powers = [relative_power(exponent, band.top) for exponent in (2, 4, 6, 8)]
    ratios = _energies(powers, band, data) / _energies(powers, band, probes)
    return max(float(ratios.min()), MIN_VARIANCE * float(data[0] / probes[0]))


def _energies(filters: Sequence[Filter], band: Band, moments: np.ndarray) -> np.ndarray:
    """Inner products of a signal with itself after each filter, from its moments."""
    return fixed_length(filters, band, len(moments)).numpy() @ moments
