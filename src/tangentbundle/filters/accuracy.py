"""What a tolerance means for single values: a warning where outputs lie below it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..arrays import Array, float_tensor
from ..errors import AccuracyWarning, warn
from ..operators import SquareOperator
from ..operators.methods import MAX_DENSE_SIZE, Method
from ..transforms import is_seen

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
    operator: SquareOperator,
    x: Array,
    y: Array,
    method: Method,
    errors: Sequence[float] | None,
) -> None:
    r"""Warn where many outputs y are smaller than the error that the tolerance allows.

    The root mean square of the error over the points of a bundle, weighted by the mass, is up to
    ``errors`` times that of the input x. Outputs that are exactly zero do not count: they are those
    of points that the recurrence does not reach. On GPUs, where a look at the values would mean
    waiting, and in transforms, nothing is done.
    """
    tol = method.relative_error
    if tol is None or errors is None:
        return
    signal, _ = float_tensor(x, "signal")
    output, _ = float_tensor(y, "output")
    if not (is_seen(operator.mass) and is_seen(signal) and is_seen(output)):
        return
    share = _share_below(operator, signal.detach(), output.detach(), errors)
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
    operator: SquareOperator, signal: torch.Tensor, output: torch.Tensor, errors: Sequence[float]
) -> float:
    """The largest share, over channels and bundles, of the points whose output lies below the
    error."""
    largest = 0.0
    masses = [part.mass.detach() for part in operator.parts]
    sizes = [len(mass) for mass in masses]
    signals = signal.split(sizes, dim=-3)
    outputs = output.split(sizes, dim=-3)
    for mass, error, before, after in zip(masses, errors, signals, outputs, strict=True):
        weights = mass.numpy()
        values = before.numpy()
        squares = np.einsum("n,...ndc,...ndc->...c", weights, values, values) / weights.sum()
        step = -(-len(weights) // MAX_POINTS_COMPARED)
        lengths = np.square(after.numpy()[..., ::step, :, :]).sum(axis=-2)
        bounds = np.square(error * np.sqrt(squares))
        below = (lengths > 0) & (lengths < bounds[..., None, :])
        if below.size == 0:
            continue
        most = int(below.sum(axis=-2).max())
        if most > FEW_POINTS:
            largest = max(largest, most / below.shape[-2])
    return largest
