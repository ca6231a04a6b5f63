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
    """Half the width of a central interval, in standard deviations: the conformal quantile of standardised residuals.

    With too few residuals for that level, or none, the Gaussian one.

    >>> round(tail(0.9, None), 3), tail(0.5, np.array([0.1, -0.2, 0.3, -0.4, 0.5]))
    (1.645, 0.3)
    """
    sizes = np.sort(np.abs(np.ravel([] if residuals is None else residuals)))
    rank = int(np.ceil((len(sizes) + 1) * level))
    return float(sizes[rank - 1] if rank <= len(sizes) else norm.ppf((1 + level) / 2))
