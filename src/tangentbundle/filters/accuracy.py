"""What a tolerance means for single values: a warning where outputs lie below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..errors import AccuracyWarning, warn
from ..operators import SquareOperator
from ..operators.methods import MAX_DENSE_SIZE, Method
from ..transforms import is_seen

if TYPE_CHECKING:
    from .base import Filter

MAX_SHARE_BELOW_TOLERANCE = 0.01
"""Share of the points whose outputs may lie below the tolerance without a warning: fields pass
through zero."""

FEW_POINTS = 3
"""So many outputs of a small cloud do not count: a field may pass through zero there."""

FEASIBLE_TOLERANCE = 1e-12
"""The smallest tolerance that is advised: long expansions add up rounding."""

MAX_POINTS_COMPARED = 10_000
"""Points of large outputs that are looked at, at equal distances."""


def warn_below_tolerance(
    filter: Filter,
    operator: SquareOperator,
    signal: torch.Tensor,
    output: torch.Tensor,
    method: Method,
) -> None:
    r"""Warn where many outputs are smaller than the error that the tolerance allows.

    The root mean square of the error over the points, weighted by the mass, is up to
    :math:`\text{tol} \cdot \max|\hat h| \cdot \|x\|`. For ``Exact`` it is the rounding of float64
    instead of tol, and the largest response is that at an eigenvalue. Outputs that are exactly zero
    do not count: they are those of points that the recurrence does not reach. On GPUs, where a look
    at the values would mean waiting, and in transforms, nothing is done.
    """
    tol = operator.relative_error(method)
    if tol is None:
        return
    if not (is_seen(operator.mass) and is_seen(signal) and is_seen(output)):
        return
    gains = _largest_gains(filter, operator, method)
    share = _share_below(operator, signal.detach(), output.detach(), tol, gains)
    if share > MAX_SHARE_BELOW_TOLERANCE:
        warn(
            f"{share:.0%} of the outputs are smaller than the error of {method}, up to {tol:g} of "
            "the input: they have no correct digit, and their directions mean nothing. "
            f"{_remedy(operator, tol)}",
            AccuracyWarning,
        )


def _remedy(operator: SquareOperator, tol: float) -> str:
    """What makes smaller outputs right: other methods while they are better, else larger
    outputs."""
    if tol <= FEASIBLE_TOLERANCE:
        return (
            "No method is more precise in float64: leave these outputs out, or use a filter that "
            "reaches farther, such as a longer time of Heat."
        )
    if max(operator.sizes) * operator.rank <= MAX_DENSE_SIZE:
        return "Use method=Exact(), which computes in float64, or leave these outputs out."
    smaller = f"method=Chebyshev({FEASIBLE_TOLERANCE:g})"
    if operator.dtype == torch.float64:
        return f"Use a smaller tolerance, such as {smaller}, or leave these outputs out."
    return (
        f"Use {smaller} with the operator, operator.to(dtype=torch.float64), and the signal in "
        "float64, or leave these outputs out."
    )


def _share_below(
    operator: SquareOperator,
    signal: torch.Tensor,
    output: torch.Tensor,
    tol: float,
    gains: Sequence[float],
) -> float:
    """The largest share, over channels and bundles, of the points whose output lies below the
    error."""
    largest = 0.0
    masses = operator.mass.detach().split(operator.sizes)
    signals = operator.split(signal)
    outputs = operator.split(output)
    for mass, gain, before, after in zip(masses, gains, signals, outputs, strict=True):
        weights = mass.numpy()
        values = before.numpy()
        squares = np.einsum("n,...ndc,...ndc->...c", weights, values, values) / weights.sum()
        errors = np.square(tol * gain * np.sqrt(squares))
        step = -(-len(weights) // MAX_POINTS_COMPARED)
        lengths = np.square(after.numpy()[..., ::step, :, :]).sum(axis=-2)
        below = (lengths > 0) & (lengths < errors[..., None, :])
        if below.size == 0:
            continue
        most = int(below.sum(axis=-2).max())
        if most > FEW_POINTS:
            largest = max(largest, most / below.shape[-2])
    return largest


def _largest_gains(filter: Filter, operator: SquareOperator, method: Method) -> list[float]:
    """The largest response on each bundle."""
    gains = []
    with torch.no_grad():
        for part in operator.parts:
            responses = filter.evaluate(method.eigenvalues_for_gain(part))
            gains.append(float(responses.abs().max()))
    return gains
