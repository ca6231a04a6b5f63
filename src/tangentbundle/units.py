"""Units of the components of a vector field: compared, and converted to one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .errors import (
    Note,
    UnitsError,
)

METRES = {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "km": 1e3, "ft": 0.3048, "mi": 1609.344, "nmi": 1852.0}
METRES |= {
    "meter": 1.0,
    "metre": 1.0,
    "kilometer": 1e3,
    "kilometre": 1e3,
    "foot": 0.3048,
    "feet": 0.3048,
}
METRES |= {"mile": 1609.344, "nautical mile": 1852.0}
SECONDS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hr": 3600,
    "hour": 3600,
    "day": 86400,
}
SPEEDS = {
    "kn": "nmi/h",
    "kt": "nmi/h",
    "kts": "nmi/h",
    "knot": "nmi/h",
    "mph": "mi/h",
    "kmh": "km/h",
    "kph": "km/h",
}


def in_metres(unit: str) -> tuple[float, bool] | None:
    """The size of a length in m or of a speed in m/s, and whether it is a speed; None for other
    units.

    >>> in_metres("km h**-1"), in_metres("knots"), in_metres("K")
    ((0.2777777777777778, True), (0.5144444444444445, True), None)
    """
    words = re.sub(r"[ ._*·]+", " ", re.sub(r"\*\*|[\^{}$]", "", unit.replace("⁻¹", "-1"))).strip()
    words = (
        words if words.startswith("Mm") else words.lower().replace(" per ", "/")
    )  # a megametre is no millimetre
    words = re.sub(r"\b([a-z]{3,})s\b", r"\1", words)  # knots, meters
    length, time = "|".join(METRES), "|".join(SECONDS)
    found = re.fullmatch(rf"({length})(?: ?/ ?({time})| ?({time}) ?-1)?", SPEEDS.get(words, words))
    if found is None:
        return None
    per = found[2] or found[3]
    return METRES[found[1]] / (SECONDS[per] if per else 1.0), per is not None


def conversion(unit: str, to: str) -> float | None:
    """The factor from numbers in one unit to numbers in another; None if it is not known."""
    if unit == to:
        return 1.0
    sizes = in_metres(unit), in_metres(to)
    return (
        sizes[0][0] / sizes[1][0] if sizes[0] and sizes[1] and sizes[0][1] == sizes[1][1] else None
    )


def common_unit(
    names: Sequence[str], units: Sequence[str], notes: list[Note]
) -> tuple[str, np.ndarray]:
    """The unit of the first component that has one, and the factors that convert all components to
    it."""
    unit, factors = next(filter(None, units), ""), []
    for name, own in zip(names, units, strict=True):
        factor = conversion(own or unit, unit)
        if factor is None:
            raise UnitsError(
                f"the components must have one unit, but {names[0]} is in {unit!r} and {name} in "
                f"{own!r}. Only speeds and lengths are converted: convert one of them, or correct "
                "its unit."
            )
        if factor != 1.0:
            notes.append(Note(f"{name} converted from {own} to {unit}"))
        elif unit and not own:
            notes.append(Note(f"{name} has no unit: {unit} assumed"))
        factors.append(factor)
    return unit, np.array(factors)
