"""Lengths on the Earth, such as "500 km", as angles on the unit sphere."""

from __future__ import annotations

import re
from numbers import Real

from ..errors import UnitsError
from ..units import in_metres
from . import RADIUS


def radians(length: str | float) -> float:
    """A length with its unit, or a number of kilometres, as an angle in radians.

    >>> round(radians("6371.0088 km"), 12), radians("500 km") == radians(500)
    (1.0, True)
    """
    text = f"{length} km" if isinstance(length, Real) else str(length)
    found = re.fullmatch(r"\s*((?:\d*\.?\d+|\d+\.)(?:e[+-]?\d+)?)\s*([a-zA-Z ]+?)\s*", text)
    size = None if found is None else in_metres(found[2])
    if found is None or size is None or size[1]:
        raise UnitsError(f'expected a length such as "500 km" or "60 nmi", got {length!r}.')
    return float(found[1]) * size[0] / RADIUS
