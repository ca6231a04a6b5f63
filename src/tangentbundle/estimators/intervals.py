"""Widths of intervals from standardised errors on held-out data, so that no tails are taken for granted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from ..errors import InvalidInputError


def share(level: Any) -> float:
    """The level of an interval, checked."""
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise InvalidInputError(f"level must be a share between 0 and 1, such as 0.9, got {level!r}.")
    return float(level)


def tail(level: float, residuals: np.ndarray | None) -> float:
    """Half the width of a central interval: the conformal quantile of standardised residuals, or the Gaussian one."""
    sizes = np.sort(np.abs(np.ravel([] if residuals is None else residuals)))
    rank = int(np.ceil((len(sizes) + 1) * level))
    return float(sizes[rank - 1] if rank <= len(sizes) else norm.ppf((1 + level) / 2))
