"""Standard deviations and intervals made to agree with the errors of left-out vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtri

from ..errors import InvalidInputError

ONE_SIGMA = 0.6827
"""The share of normal errors within one standard deviation."""

CALIBRATION_RANGE = 1 / 3, 3.0
"""Standard deviations are corrected by such factors at most: left-out errors of measurements say
little about a field that is known much better than these."""


def calibration(errors: np.ndarray, variances: np.ndarray, dim: int) -> float:
    """By which to multiply standard deviations so that 68 % of vectors lie as near to their
    predictions as those of a normal distribution of ``dim`` components do.

    Errors and variances of vectors are ``(m, D)``. It does not depend on the choice of axes.
    """
    sizes = np.sqrt(np.square(errors).sum(axis=1) / variances.sum(axis=1))
    expected = np.sqrt(2 * gammaincinv(dim / 2, ONE_SIGMA) / dim)
    least, most = CALIBRATION_RANGE
    return float(np.clip(np.quantile(sizes, ONE_SIGMA) / expected, least, most))


def share(level: Any) -> float:
    """The level of an interval, checked."""
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise InvalidInputError(
            f"level must be a share between 0 and 1, such as 0.9, got {level!r}."
        )
    return float(level)


def tail(level: float, residuals: np.ndarray) -> float:
    """Half the width of a central interval: the conformal quantile of standardised residuals, or
    the Gaussian one."""
    sizes = np.sort(np.abs(np.ravel(residuals)))
    rank = int(np.ceil((len(sizes) + 1) * level))
    if rank > len(sizes):
        return float(ndtri((1 + level) / 2))
    return float(sizes[rank - 1])
