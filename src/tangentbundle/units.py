"""Units of the components of a vector field: compared, and converted to one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .errors import (
    Note,
    UnitsError,
)

METRES = {
    "m": 1.0,
    "meter": 1.0,
    "metre": 1.0,
    "mm": 1e-3,
    "cm": 1e-2,
    "km": 1e3,
    "kilometer": 1e3,
    "kilometre": 1e3,
    "ft": 0.3048,
    "foot": 0.3048,
    "feet": 0.3048,
    "mi": 1609.344,
    "mile": 1609.344,
    "nmi": 1852.0,
    "nautical mile": 1852.0,
}
"""Lengths in m."""

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
"""Times in s."""

SPEEDS = {
    "kn": "nmi/h",
    "kt": "nmi/h",
    "kts": "nmi/h",
    "knot": "nmi/h",
    "mph": "mi/h",
    "kmh": "km/h",
    "kph": "km/h",
}
"""Speeds with names of their own."""

LENGTH = "|".join(METRES)
TIME = "|".join(SECONDS)
UNIT = re.compile(rf"(?P<length>{LENGTH})(?: ?/ ?(?P<per>{TIME})| ?(?P<inverse>{TIME}) ?-1)?")
"""A length, alone or by a time: ``km``, ``km/h``, ``km h -1``."""


SQUARE = re.compile(r"\b([ckm]?m|s)(?:\*\*|\^)?2\b")
"""The square of a length or a time in a unit: m2, m**2, s^2."""

QUOTIENT = re.compile(r"^(?:([\w²]+)[ .*]+)?([^\W\d]+?)\s*(?:\*\*|\^)?\{?(?:-1|⁻¹)\}?$")
"""A unit with a power of minus one: m s-1, s**-1."""


class Size(NamedTuple):
    """A length in m, or a speed in m/s."""

    value: float
    is_speed: bool


def in_metres(unit: str) -> Size | None:
    """The size of a length in m or of a speed in m/s, and whether it is a speed; None for other
    units.

    >>> in_metres("knots")
    Size(value=0.5144444444444445, is_speed=True)
    >>> in_metres("km h**-1").value, in_metres("K")
    (0.2777777777777778, None)
    """
    words = _in_plain_words(unit)
    match = UNIT.fullmatch(SPEEDS.get(words, words))
    if match is None:
        return None
    length = METRES[match["length"]]
    time = match["per"] or match["inverse"]
    if time is None:
        return Size(length, is_speed=False)
    return Size(length / SECONDS[time], is_speed=True)


def _in_plain_words(unit: str) -> str:
    """A unit in lower case, singular, with single spaces and without signs of powers."""
    words = re.sub(r"\*\*|[\^{}$]", "", unit.replace("⁻¹", "-1"))
    words = re.sub(r"[ ._*·]+", " ", words).strip()
    if not words.startswith("Mm"):  # a megametre is no millimetre
        words = words.lower().replace(" per ", "/")
    return re.sub(r"\b([a-z]{3,})s\b", r"\1", words)


def conversion(unit: str, to: str) -> float | None:
    """The factor from numbers in one unit to numbers in another; None if it is not known."""
    if unit == to:
        return 1.0
    size = in_metres(unit)
    wanted = in_metres(to)
    if size is None or wanted is None or size.is_speed != wanted.is_speed:
        return None
    return size.value / wanted.value


def common_unit(
    names: Sequence[str], units: Sequence[str], notes: list[Note]
) -> tuple[str, np.ndarray]:
    """The unit of the first component that has one, and the factors that convert all components to
    it."""
    unit = next((own for own in units if own), "")
    factors = []
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


def readable_unit(unit: str) -> str:
    """A unit with ``/`` for a power of minus one, and with ``²`` for squares of lengths and times.

    >>> [readable_unit(unit) for unit in ("m s-1", "s-1", "m2/s", "m**2 s^-1")]
    ['m/s', '1/s', 'm²/s', 'm²/s']
    """
    unit = SQUARE.sub(r"\1²", unit.strip())
    return QUOTIENT.sub(lambda match: f"{match[1] or 1}/{match[2]}", unit)
