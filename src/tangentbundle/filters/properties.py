"""The three properties of the paper: lowpass, Lipschitz, non-amplifying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..errors import InvalidInputError
from ..operators import LinearOperator

if TYPE_CHECKING:
    from .base import Filter

Interval = tuple[float, float]
"""Least and largest eigenvalue looked at."""

WIDE = (0.0, 1e8)
"""Eigenvalues looked at when nothing else is said."""


@dataclass(frozen=True)
class Properties:
    """What is known of a response, and on what ground (``basis``)."""

    lowpass: bool
    lipschitz: float
    gain: float
    basis: str

    def __str__(self) -> str:
        return (
            f"lowpass: {'yes' if self.lowpass else 'no'}, Lipschitz constant {self.lipschitz:.4g}, largest gain "
            f"{self.gain:.4g} ({'non-amplifying' if self.gain <= 1 + 1e-12 else 'amplifying'}); {self.basis}"
        )


def interval_of(on: Interval | LinearOperator | None) -> Interval:
    """The interval meant by ``on``."""
    if on is None:
        return WIDE
    if isinstance(on, LinearOperator):
        return on.spectral_interval
    low, high = on
    if not 0 <= low < high < np.inf:
        raise InvalidInputError(f"an interval of eigenvalues needs 0 <= low < high, got {on}.")
    return float(low), float(high)


def numeric_properties(filter: Filter, on: Interval | LinearOperator | None) -> Properties:
    """Measure a response on a fine grid, dense near zero.

    Lowpass is judged by the decay over the last decade of the interval: the response must fall at least as fast as
    one over lambda squared, or be negligible there.
    """
    low, high = interval_of(on)
    lam = torch.from_numpy(low + (high - low) * np.concatenate([[0.0], np.geomspace(1e-14, 1.0, 20_001)]))
    with torch.no_grad():
        signed = filter.evaluate(lam).cpu()
    h = signed.abs()
    if not bool(torch.isfinite(h[1:]).all()):
        raise InvalidInputError("the response is not finite on the interval; filters must be finite for lambda > 0.")
    finite = torch.isfinite(h)
    h, signed, lam = h[finite], signed[finite], lam[finite]
    slope = float(((signed[1:] - signed[:-1]) / (lam[1:] - lam[:-1])).abs().max())
    tail = lam >= 0.1 * high
    weighted = (h * lam.square())[tail]
    decays = bool(weighted[-1] <= 1.05 * weighted[0]) or bool(h[tail].max() <= 1e-12 * h.max())
    basis = f"measured on eigenvalues from {low:.4g} to {high:.4g}"
    return Properties(decays, slope, float(h.max()), basis)


def largest_on_unit_interval(coefficients: np.ndarray) -> float:
    r"""Exact maximum of :math:`|\sum_k c_k z^k|` over z in [0, 1], by the roots of the derivative.

    >>> largest_on_unit_interval(np.array([0.0, 4.0, -4.0]))        # 4 z (1 - z)
    1.0
    """
    polynomial = np.polynomial.Polynomial(coefficients)
    size = np.abs(coefficients).max()
    if size == 0.0:
        return 0.0
    # highest powers that rounding hides on [0, 1] would put the other roots beyond reach
    derivative = (polynomial / size).deriv().trim(1e-14)
    critical = derivative.roots()
    inside = np.real(critical[(np.abs(np.imag(critical)) < 1e-8) & (np.real(critical) > 0) & (np.real(critical) < 1)])
    return float(np.abs(polynomial(np.concatenate([[0.0, 1.0], inside]))).max())
