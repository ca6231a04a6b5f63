"""What a tolerance means for single values: a warning where outputs lie below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..arrays import Array, float_tensor, half_precision
from ..errors import AccuracyWarning, warn
from ..operators import Joined, LinearOperator, Semigroup
from ..operators.base import MAX_DENSE_SIZE
from ..transforms import is_seen
from .banks import Chebyshev, Exact, Method, in_double, resolve_method

if TYPE_CHECKING:
    from .base import Filter

MAX_SHARE_BELOW_TOLERANCE = 0.01
"""Share of the points whose outputs may lie below the tolerance without a warning: fields pass
through zero."""

FEW_POINTS = 3
"""So many outputs of a small cloud do not count: a field may pass through zero there."""

FLOAT64_ERROR = 4e-15
"""Error of ``Exact`` and of the most exact expansions relative to the input: some twenty roundings
of float64, which is the most that was seen for vectors at single points."""

FEASIBLE_TOLERANCE = 1e-12
"""The smallest tolerance that is advised: long expansions add up rounding."""

MAX_POINTS_COMPARED = 10_000
"""Points of large outputs that are looked at, at equal distances."""


def warn_below_tolerance(
    filter: Filter, operator: LinearOperator, x: Array, y: Array, method: Method | None
) -> None:
    r"""Warn where many outputs are smaller than the error that the tolerance allows.

    The root mean square of the error over the points, weighted by the mass, is up to
    :math:`\text{tol} \cdot \max|\hat h| \cdot \|x\|`. For ``Exact`` it is the rounding of float64
    instead of tol, and the largest response is that at an eigenvalue. Outputs that are exactly zero
    do not count: they are those of points that the recurrence does not reach. On GPUs, where a look
    at the values would mean waiting, and in transforms, nothing is done.
    """
    method = resolve_method(operator, method)
    tol = error_allowed(method)
    if isinstance(operator, Semigroup) or tol is None:
        return
    if not is_seen(operator.mass) or half_precision(x) is not None:
        return
    signal, _ = float_tensor(x, "signal")
    output, _ = float_tensor(y, "output")
    if not is_seen(signal) or not is_seen(output):
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


def error_allowed(method: Method) -> float | None:
    """The error of a method relative to the input; None for methods that promise none."""
    if isinstance(method, Exact):
        return FLOAT64_ERROR
    if isinstance(method, Chebyshev) and method.degree is None:
        return max(method.tol, FLOAT64_ERROR)
    return None


def _remedy(operator: LinearOperator, tol: float) -> str:
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
    operator: LinearOperator,
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
        sizes = (
            np.einsum("n,...ndc,...ndc->...c", weights, before.numpy(), before.numpy())
            / weights.sum()
        )
        step = -(-len(weights) // MAX_POINTS_COMPARED)
        squares = np.square(after.numpy()[..., ::step, :, :]).sum(axis=-2)
        error = tol * gain * np.sqrt(sizes)
        below = (squares > 0) & (squares < np.square(error)[..., None, :])
        if below.size:
            most = int(below.sum(axis=-2).max())
            if most > FEW_POINTS:
                largest = max(largest, most / below.shape[-2])
    return largest


def _largest_gains(filter: Filter, operator: LinearOperator, method: Method) -> list[float]:
    """The largest response on each bundle: among its eigenvalues where they are known, which may
    all be far from zero, otherwise among a few of every size."""
    if isinstance(method, Exact):
        parts = operator.parts if isinstance(operator, Joined) else [operator]
        nodes = [in_double(part).eigenbasis[0] for part in parts]
    else:
        top = operator.spectral_interval[1]
        sizes = np.concatenate([[0.0], np.geomspace(1e-6 * top, top, 40)])
        nodes = [torch.from_numpy(sizes)] * len(operator.sizes)
    with torch.no_grad():
        return [float(filter.evaluate(eigenvalues).abs().max()) for eigenvalues in nodes]
