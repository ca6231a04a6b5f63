r"""Choice of a denoising filter by its estimated risk, from Chebyshev moments: no candidate is applied.

A signal x with noise n of known covariance is filtered by :math:`H = \hat h(-\Delta)`. Stein's unbiased estimate of
the risk :math:`E\,\|Hx - (x - n)\|^2`, in the mass inner product in which :math:`\Delta` is self-adjoint, is

.. math:: \langle x, (1 - \hat h)^2(-\Delta)\, x \rangle - E \langle n, n \rangle
          + 2\, E \langle n, \hat h(-\Delta)\, n \rangle .

All three terms are sums over Chebyshev coefficients of the responses times the moments
:math:`\langle x, T_m x \rangle` and :math:`E \langle n, T_m n \rangle`, which one recurrence on the data and on random
probes gives; ``least_risk`` does so in memory, on the device of the operator. Probes of uneven noise are random signs
times its standard deviations.
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
from .expansion import Band, expand, fixed_order
from .responses import Parametric, Spectral


@dataclass(eq=False)
class Rational(Parametric):
    r"""The low-pass response :math:`1/(1 + (\lambda/c)^p)`; the identity for an infinite cut-off c."""

    cutoff: float
    power: float

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        return 1.0 / (1.0 + (lam / self.cutoff) ** self.power)


def rational_family(
    top: float, powers: Sequence[float] = (1.0, 2.0, 4.0), cutoffs: int = 20, decades: float = 4.0
) -> list[Filter]:
    """The identity, and for each power log-spaced cut-offs from ``decades`` below to half a decade above ``top``."""
    cuts = top * np.logspace(-decades, 0.5, cutoffs)
    return [Rational(np.inf, 1.0), *(Rational(float(c), p) for p in powers for c in cuts)]


def _residual(h: Filter) -> Filter:
    r"""The response :math:`(1 - \hat h)^2`."""
    return Spectral(lambda lam: torch.square(1.0 - h.evaluate(lam)))


def _highpass(power: int, top: float) -> Filter:
    return Spectral(lambda lam: (lam / top) ** power)


def moment_terms(family: Sequence[Filter], band: Band, tol: float = 1e-4) -> int:
    """Terms of the recurrence whose moments, twice as many, give the risks of a family to a relative ``tol``."""
    return expand([*family, *map(_residual, family)], band, tol).shape[1] // 2 + 2


def laplacian_moments(operator: ConnectionLaplacian, x: torch.Tensor, terms: int) -> np.ndarray:
    """Moments ``(2 terms - 1, c)`` of every channel of a signal ``(n, d, c)``, on the band of the operator."""
    indptr, cols, values, order, mass = operator.curve
    matrix, band = along_curve(indptr, cols, values, order), band_of(operator)
    weights = (mass / mass.mean()).index_select(0, order)
    return chebyshev_moments(matrix, weights, sort_rows(x, order), terms, band.middle, band.radius)


def _energies(filters: Sequence[Filter], band: Band, moments: np.ndarray) -> np.ndarray:
    r"""Inner products :math:`\langle x, \hat h(-\Delta)\, x \rangle` ``(k,)`` of k filters, from moments ``(m,)``."""
    return fixed_order(filters, band, len(moments)).numpy() @ moments


def white_noise_variance(band: Band, data: np.ndarray, probes: np.ndarray) -> float:
    r"""The variance of white noise in each coordinate, from the highest frequencies of the data.

    The least ratio of :math:`\langle x, \lambda^{2m} x \rangle` for data and random signs over m = 1, ..., 4; an upper
    bound where the field itself reaches the highest frequencies. ``data`` and ``probes`` are moments ``(m,)``, means
    over the channels of each. At least 1e-14 of the data's variance.
    """
    high = [_highpass(2 * m, band.top) for m in (1, 2, 3, 4)]
    ratios = _energies(high, band, data) / _energies(high, band, probes)
    return max(float(ratios.min()), 1e-14 * float(data[0] / probes[0]))


def best_response(family: Sequence[Filter], band: Band, data: np.ndarray, noise: np.ndarray) -> tuple[Filter, float]:
    """The response of least estimated risk, and that risk.

    ``data`` are moments ``(m,)`` of the signal, the mean over channels, and ``noise`` the expected moments of the
    noise: its variance times the mean moments of random signs, or those of random signs times standard deviations.
    """
    residuals = _energies([_residual(h) for h in family], band, data).clip(min=0.0)
    risks = residuals - noise[0] + 2 * _energies(family, band, noise)
    best = int(np.argmin(risks))
    return family[best], float(risks[best])


def least_risk(
    operator: ConnectionLaplacian, x: torch.Tensor, signs: torch.Tensor, variances: torch.Tensor | None = None
) -> tuple[Filter, float]:
    """The low-pass filter of least estimated risk for a noisy signal ``(n, d, c)``, and the variance of the noise.

    ``signs`` (n, d, probes) are random signs. ``variances`` (n,) are those of the noise where they are known; the
    second answer is then one.

    >>> import tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(2000, seed=0)).laplacian()
    >>> rng = np.random.default_rng(0)
    >>> field, noise = (torch.from_numpy(rng.standard_normal((2000, 2, 1))) for _ in range(2))
    >>> noisy = 3.0 * tb.Heat(0.3)(lap, field) + 0.1 * noise
    >>> filter, variance = least_risk(lap, noisy, torch.from_numpy(rng.choice([-1.0, 1.0], size=(2000, 2, 8))))
    >>> 0.09 < variance**0.5 < 0.11
    True
    """
    band, channels = band_of(operator), x.shape[2]
    family = rational_family(band.top)
    noise = signs if variances is None else variances.to(x).sqrt()[:, None, None] * signs
    moments = laplacian_moments(operator, torch.cat([x, noise], dim=2), moment_terms(family, band, tol=1e-2))
    data, probes = moments[:, :channels].mean(axis=1), moments[:, channels:].mean(axis=1)
    variance = white_noise_variance(band, data, probes) if variances is None else 1.0
    return best_response(family, band, data, variance * probes)[0], variance
