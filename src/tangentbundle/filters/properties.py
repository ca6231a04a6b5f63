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
    """The interval meant by ``on``; a wide one if nothing is said."""
    if on is None:
        return 0.0, 1e8
    if isinstance(on, LinearOperator):
        return on.spectral_interval
    low, high = on
    if not 0 <= low < high < np.inf:
        raise InvalidInputError(f"an interval of eigenvalues needs 0 <= low < high, got {on}.")
    return float(low), float(high)


def exact_on(on: Interval | LinearOperator | None) -> str:
    """The ground of properties in closed form."""
    return "exact" if on is None else "exact on eigenvalues from {:.4g} to {:.4g}".format(*interval_of(on))


def numeric_properties(filter: Filter, on: Interval | LinearOperator | None) -> Properties:
    """Measure a response on nodes that are dense near both ends of the interval.

    Lowpass is judged by the decay over the last decade of the interval: the response must fall at least as fast as
    one over lambda squared, or be negligible there. The Lipschitz constant is the largest derivative, found by
    automatic differentiation and refined around its largest values; it is infinite where the response jumps.
    """
    low, high = interval_of(on)
    near = np.geomspace(1e-14, 1.0, 10_001)
    shares = np.concatenate([[0.0], near, 1.0 - near, np.linspace(0.0, 1.0, 2_001)])
    lam = torch.from_numpy(np.unique(np.clip(low + (high - low) * shares, low, high)))
    with torch.no_grad():
        h = filter.evaluate(lam).cpu().abs()
    if not bool(torch.isfinite(h[1:]).all()):
        raise InvalidInputError("the response is not finite on the interval; filters must be finite for lambda > 0.")
    unbounded = bool(torch.isinf(h[0]))
    h, lam = h[torch.isfinite(h)], lam[torch.isfinite(h)]
    tail = lam >= 0.1 * high
    weighted = (h * lam.square())[tail]
    decays = bool(weighted[-1] <= 1.05 * weighted[0]) or bool(h[tail].max() <= 1e-12 * h.max())
    slope, gain = (np.inf, np.inf) if unbounded else (_largest_slope(filter, lam, float(h.max())), float(h.max()))
    return Properties(decays, slope, gain, f"measured on eigenvalues from {low:.4g} to {high:.4g}")


def _differentiate(filter: Filter, lam: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The response and its derivative; zero where automatic differentiation finds none."""
    h, slope = torch.empty_like(lam), torch.zeros_like(lam)
    for rows in torch.arange(lam.numel()).split(1024):  # an impulse response holds a row of quadrature for each node
        with torch.inference_mode(False), torch.enable_grad():
            nodes = lam.view(-1)[rows].requires_grad_()
            values = filter.evaluate(nodes)
            if values.requires_grad:
                (found,) = torch.autograd.grad(values.sum(), nodes, allow_unused=True)
                slope.view(-1)[rows] = 0.0 if found is None else found.nan_to_num(0.0, np.inf, -np.inf)
        h.view(-1)[rows] = values.detach().cpu()
    return h, slope


def _largest_slope(filter: Filter, lam: torch.Tensor, gain: float) -> float:
    """The largest derivative or difference quotient, by zooming ten times into the steepest cells between nodes.

    A cell at the limit of precision over which the response changes though its derivative does not show it holds a
    jump. Changes below 1e-10 of the largest gain, or those that rounding of lambda makes, do not count.
    """
    best, windows = 0.0, lam[None]
    for _ in range(10):
        h, slope = _differentiate(filter, windows)
        left, right = windows[:, :-1].reshape(-1), windows[:, 1:].reshape(-1)
        start, end = slope[:, :-1].reshape(-1), slope[:, 1:].reshape(-1)
        width, change = right - left, h.diff().reshape(-1)
        steep = torch.maximum(start.abs(), end.abs())
        best = max(best, float(steep.max()))
        rounding = 1e-10 * gain + 1e-15 * best * right
        unexplained, quotient = (
            torch.where(width > 0, (rise.abs() - rounding).clamp_min(0.0) / width, 0.0)
            for rise in (change - width * (start + end) / 2, change)
        )
        if bool(((unexplained > 10 * steep) & (width <= 1e-13 * right)).any()):
            return np.inf
        best = max(best, float(quotient.max()))
        count = min(8, len(left))
        cells = torch.cat([steep.topk(count).indices, unexplained.topk(count).indices])
        shares = torch.linspace(0.0, 1.0, 65, dtype=lam.dtype)
        windows = torch.lerp(left[cells, None], right[cells, None], shares)
    return best


def largest_on(coefficients: np.ndarray, interval: Interval) -> float:
    r"""Exact maximum of :math:`|\sum_k c_k z^k|` over an interval, by the roots of the derivative."""
    low, high = interval
    polynomial = np.polynomial.Polynomial(coefficients)(np.polynomial.Polynomial([low, high - low]))  # on [0, 1]
    size = np.abs(polynomial.coef).max()
    if size == 0.0:
        return 0.0
    # highest powers that rounding hides on [0, 1] would put the other roots beyond reach
    critical = (polynomial / size).deriv().trim(1e-14).roots()
    inside = np.real(critical[(np.abs(np.imag(critical)) < 1e-8) & (np.real(critical) > 0) & (np.real(critical) < 1)])
    return float(np.abs(polynomial(np.concatenate([[0.0, 1.0], inside]))).max())
