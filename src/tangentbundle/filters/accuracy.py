"""What a tolerance means for single values: a warning where outputs lie below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ..arrays import Array, float_tensor, half_precision
from ..errors import AccuracyWarning, warn
from ..operators import LinearOperator, Semigroup
from ..transforms import is_seen
from .banks import Chebyshev, Method, resolve_method

if TYPE_CHECKING:
    from .base import Filter

MAX_SHARE_BELOW_TOLERANCE = 0.01
"""Share of the points whose outputs may lie below the tolerance without a warning: fields pass
through zero."""

FEW_POINTS = 3
"""So many outputs of a small cloud do not count: a field may pass through zero there."""

MAX_POINTS_COMPARED = 10_000
"""Points of large outputs that are looked at, at equal distances."""


def warn_below_tolerance(
    filter: Filter, operator: LinearOperator, x: Array, y: Array, method: Method | None
) -> None:
    r"""Warn where many outputs are smaller than the error that the tolerance allows.

    The root mean square of the error over the points, weighted by the mass, is up to
    :math:`\text{tol} \cdot \max|\hat h| \cdot \|x\|`. Outputs that are exactly zero do not count:
    they are those of points that the recurrence does not reach. On GPUs, where a look at the values
    would mean waiting, and in transforms, nothing is done.
    """
    method = resolve_method(operator, method)
    if (
        isinstance(operator, Semigroup)
        or not isinstance(method, Chebyshev)
        or method.degree is not None
    ):
        return
    if not is_seen(operator.mass) or half_precision(x) is not None:
        return
    signal, _ = float_tensor(x, "signal")
    output, _ = float_tensor(y, "output")
    if not is_seen(signal) or not is_seen(output):
        return
    share = _share_below(filter, operator, signal.detach(), output.detach(), method.tol)
    if share > MAX_SHARE_BELOW_TOLERANCE:
        precise = (
            "" if operator.dtype == torch.float64 else " and the operator and signal in float64"
        )
        warn(
            f"{share:.0%} of the outputs are smaller than the error that tol={method.tol:g} "
            "allows, which is relative to the input: they have no correct digit, and their "
            "directions mean nothing. Use a smaller tolerance, such as "
            f"method=Chebyshev(1e-12){precise}, or leave these outputs out.",
            AccuracyWarning,
        )


def _share_below(
    filter: Filter, operator: LinearOperator, signal: torch.Tensor, output: torch.Tensor, tol: float
) -> float:
    """The largest share, over channels and bundles, of the points whose output lies below the
    error."""
    largest = 0.0
    masses = operator.mass.detach().split(operator.sizes)
    for mass, before, after in zip(
        masses, operator.split(signal), operator.split(output), strict=True
    ):
        weights = mass.numpy()
        sizes = (
            np.einsum("n,...ndc,...ndc->...c", weights, before.numpy(), before.numpy())
            / weights.sum()
        )
        step = -(-len(weights) // MAX_POINTS_COMPARED)
        squares = np.square(after.numpy()[..., ::step, :, :]).sum(axis=-2)
        error = tol * _largest_gain(filter, operator) * np.sqrt(sizes)
        below = (squares > 0) & (squares < np.square(error)[..., None, :])
        if below.size:
            most = int(below.sum(axis=-2).max())
            if most > FEW_POINTS:
                largest = max(largest, most / below.shape[-2])
    return largest


def _largest_gain(filter: Filter, operator: LinearOperator) -> float:
    """The largest response, among a few eigenvalues of every size."""
    top = operator.spectral_interval[1]
    nodes = torch.from_numpy(np.concatenate([[0.0], np.geomspace(1e-6 * top, top, 40)]))
    with torch.no_grad():
        return float(filter.evaluate(nodes).abs().max())
