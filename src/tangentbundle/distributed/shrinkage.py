r"""The choice of a denoising filter from moments alone.

One recurrence on the data x and on random signs z gives the moments :math:`\mu_m = \langle x, T_m(P) x \rangle` and
:math:`\langle z, T_m(P) z \rangle` in the mass inner product, in which P is self-adjoint. With them

.. math:: \|x - Hx\|^2 = \langle x, (1 - \hat h)^2(-\Delta)\, x \rangle, \quad
          \mathrm{tr}(MH) = E \langle z, H z \rangle

are sums over the Chebyshev coefficients of :math:`(1 - \hat h)^2` and :math:`\hat h`: any number of filters is judged
without applying them. The family, Stein's risk estimate and the noise level from what high frequencies hold are those
of ``estimators.SpectralShrinkage``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..estimators.spectral import SURE, Criterion
from ..filters import Filter, Spectral
from ..filters.expansion import expand, fixed_order
from ..filters.properties import Interval

POWERS = (1.0, 2.0, 4.0)
CUTS = np.logspace(-4.0, 0.5, 14)
"""Cut-offs for each power, as shares of the largest eigenvalue."""

ACCURACY = 1e-4
"""Of the responses that are judged."""


@dataclass(frozen=True)
class Shrinkage:
    """The filter chosen, and the standard deviation of the noise in each coordinate."""

    response: Filter
    noise: float


def candidates(top: float) -> list[Filter]:
    r"""The identity, and responses :math:`1/(1 + (\lambda/c)^p)` with cut-offs c up to above the largest eigenvalue."""
    identity = Spectral(torch.ones_like, "identity")
    return [identity, *(rational(top * float(share), power) for power in POWERS for share in CUTS)]


def rational(cut: float, power: float) -> Filter:
    return Spectral(lambda lam: 1 / (1 + (lam / cut) ** power), f"rational({cut:.3g}, {power:g})")


def terms_needed(filters: Sequence[Filter], interval: Interval) -> int:
    """Terms of a recurrence whose moments judge these filters: half those of the sharpest, as moments double."""
    return expand([*filters, *map(_residual, filters)], interval, ACCURACY).shape[1] // 2 + 2


def _residual(h: Filter) -> Filter:
    return Spectral(lambda lam: torch.square(1.0 - h.evaluate(lam)), f"residual of {h}")


def _highpass(power: int, top: float) -> Filter:
    return Spectral(lambda lam: (lam / top) ** (2 * power), f"highpass {power}")


def choose(
    filters: Sequence[Filter],
    interval: Interval,
    signal: np.ndarray,
    probes: np.ndarray,
    *,
    criterion: Criterion | None = None,
    noise: float | None = None,
) -> Shrinkage:
    """The filter of least estimated risk from moments ``(m,)`` of the signal and of the probes (their mean).

    ``noise`` is the known standard deviation, otherwise it is estimated.
    """
    criterion = SURE() if criterion is None else criterion
    total = float(probes[0])  # the mass of all coordinates

    def energy(h: Filter, moments: np.ndarray) -> float:
        return float(fixed_order([h], interval, len(moments)).numpy()[0] @ moments)

    if noise is None:
        high = [_highpass(m, interval[1]) for m in (1, 2, 3, 4)]
        variance = max(min(energy(h, signal) / energy(h, probes) for h in high), 1e-14 * signal[0] / total)
    else:
        variance = noise**2
    risks = []
    for h in filters:
        residual = max(energy(_residual(h), signal), 0.0)
        risks.append(criterion(residual, energy(h, probes), total, variance))
    return Shrinkage(filters[int(np.argmin(risks))], float(np.sqrt(variance)))
