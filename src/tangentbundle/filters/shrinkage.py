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

from ..operators import ConnectionLaplacian
from ..operators.moments import chebyshev_moments
from ..operators.product import sort_rows
from ..operators.storage import along_curve
from .base import Filter
from .chebyshev import band_of
from .expansion import expand, fixed_degree
from .responses import Parametric, Spectral


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
    cuts = top * np.logspace(-4.0, 0.5, 20)
    return [Rational(np.inf, 1.0), *(Rational(float(c), p) for p in (1.0, 2.0, 4.0) for c in cuts)]


def laplacian_moments(operator: ConnectionLaplacian, x: torch.Tensor, terms: int) -> np.ndarray:
    """Moments ``(2 terms - 1, c)`` of every channel of a signal ``(n, d, c)``, on the band of the
    operator."""
    indptr, cols, values, order, mass = operator.curve
    matrix, band = along_curve(indptr, cols, values, order), band_of(operator)
    weights = (mass / mass.mean()).index_select(0, order)
    return chebyshev_moments(matrix, weights, sort_rows(x, order), terms, band.middle, band.radius)


def least_risk(
    operator: ConnectionLaplacian,
    x: torch.Tensor,
    signs: torch.Tensor,
    variances: torch.Tensor | None = None,
) -> tuple[Filter, float]:
    r"""The low-pass filter of least estimated risk for a noisy signal ``(n, d, c)``, and the
    variance of the noise.

    ``signs`` (n, d, probes) are random signs. ``variances`` (n,) are those of the noise where they
    are known; the second answer is then one. Otherwise the noise is white, and its variance the
    least ratio of :math:`\langle x, \lambda^{2m} x \rangle` for data and random signs over m = 1,
    ..., 4: an upper bound where the field itself reaches the highest frequencies.
    """
    band, channels = band_of(operator), x.shape[2]
    family = rational_family(band.top)
    residuals = [Spectral(lambda lam, h=h: torch.square(1.0 - h.evaluate(lam))) for h in family]  # type: ignore[misc]
    terms = expand([*family, *residuals], band, 1e-2).shape[1] // 2 + 2
    noise = signs if variances is None else variances.to(x).sqrt()[:, None, None] * signs
    moments = laplacian_moments(operator, torch.cat([x, noise], dim=2), terms)
    data, probes = moments[:, :channels].mean(axis=1), moments[:, channels:].mean(axis=1)

    def energies(filters: Sequence[Filter], moments: np.ndarray) -> np.ndarray:
        """Inner products of a signal with itself after each filter, from its moments."""
        return fixed_degree(filters, band, len(moments)).numpy() @ moments

    variance = 1.0
    if variances is None:
        high = [Spectral(lambda lam, m=m: (lam / band.top) ** m) for m in (2, 4, 6, 8)]  # type: ignore[misc]
        variance = max(
            float((energies(high, data) / energies(high, probes)).min()),
            1e-14 * float(data[0] / probes[0]),
        )
    risks = energies(residuals, data).clip(min=0.0) + 2 * variance * energies(family, probes)
    return family[int(np.argmin(risks))], variance
