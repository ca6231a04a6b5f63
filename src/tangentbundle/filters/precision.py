"""What float32 can give: the smallest tolerance, and responses too steep for eigenvalues that are rounded."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

from ..arrays import is_batched, is_seen
from ..errors import InvalidInputError, PrecisionWarning
from ..operators import LinearOperator
from .base import Filter
from .expansion import check_points

MIN_TOLERANCE = {torch.float32: 1e-6, torch.float64: 0.0}
"""Smallest tolerance of an iteration; below it rounding is larger than what is left out."""

MAX_ROUNDING_ERROR = 1e-3
"""Rounding error of a filter, relative to its largest gain, above which there is a warning."""


def require_tolerance(tol: float, operator: LinearOperator) -> float:
    """Refuse a tolerance that the operator's precision cannot reach."""
    if tol < MIN_TOLERANCE[operator.dtype]:
        raise InvalidInputError(
            f"tol={tol:g} is below what float32 can give, {MIN_TOLERANCE[operator.dtype]:g}. Use a larger tol, or "
            "float64: operator.to(dtype=torch.float64)."
        )
    return tol


def check_precision(filters: Sequence[Filter], operator: LinearOperator, largest: float) -> None:
    r"""Warn of a float32 operator whose rounding the responses amplify.

    Rounding P shifts the eigenvalues by about :math:`\epsilon\lambda_{max}/\sqrt{n d}`; responses from 0 to
    the ``largest`` eigenvalue are compared with those at shifted eigenvalues.
    """
    if operator.dtype != torch.float32 or not is_seen(operator.mass):
        return
    with torch.no_grad():
        lam = check_points((0.0, max(largest, 1e-300)))
        shift = torch.finfo(operator.dtype).eps * largest / operator.shape[0] ** 0.5
        before, after = (torch.stack([f.evaluate(at) for f in filters]) for at in (lam, lam + shift))
        if is_batched(before) or before.device.type != "cpu":
            return
        error = float(((after - before).abs().amax(1) / before.abs().amax(1).clamp_min(1e-300)).max())
    if error > MAX_ROUNDING_ERROR:
        warnings.warn(
            f"float32 knows these eigenvalues to about {shift:.2g}, over which the response changes by {error:.2g} of "
            "its largest value. Use float64: operator.to(dtype=torch.float64).",
            PrecisionWarning,
            stacklevel=2,
        )
