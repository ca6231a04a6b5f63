"""Latitudes and longitudes as people write them: 48.14, 48,14° N, 48°08'24"N, 11 34 E."""

from __future__ import annotations

import re

from ..layout import Numerals

ANGLE = re.compile(
    r"""(?P<start>[NSEW])?\s*
    (?P<degrees>[+-]?\d+(?:[.,]\d+)?)\s*[°ºd]?\s*
    (?:(?P<minutes>\d+(?:[.,]\d+)?)\s*['′’m]?\s*)?
    (?:(?P<seconds>\d+(?:[.,]\d+)?)\s*(?:["″”s]|'')?\s*)?
    (?P<end>[NSEW])?""",
    re.VERBOSE | re.IGNORECASE,
)
"""Degrees, minutes and seconds, with the side of the equator or of Greenwich before or after."""


def degrees_of(text: str, numerals: Numerals, sides: str = "NSEW") -> float | None:
    """The degrees that a text is; None if it is none, or on another side than one of ``sides``.

    >>> degrees_of("11°30'W", Numerals()), degrees_of("48,25 N", Numerals(","))
    (-11.5, 48.25)
    >>> degrees_of("north", Numerals()) is None, degrees_of("11 75 W", Numerals()) is None
    (True, True)
    """
    match = ANGLE.fullmatch(text.strip())
    if match is None:
        return None
    total = 0.0
    for part, unit in (("degrees", 1.0), ("minutes", 60.0), ("seconds", 3600.0)):
        if match[part] is None:
            continue
        number = numerals.as_float(match[part].lstrip("+-"))
        if number is None:
            return None
        if part != "degrees" and number >= 60:
            return None
        total += number / unit
    side = (match["start"] or match["end"] or "").upper()
    if side and side not in sides:
        return None
    if side in ("S", "W") or match["degrees"].startswith("-"):
        return -total
    return total
