"""Names of columns and variables: units in brackets, patterns and ranges."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from ..errors import NO_EXAMPLE, InvalidInputError, MissingColumnsError, Remedy
from .vocabulary import implied_unit, key, unit_suffixes

NAME_AND_UNIT = re.compile(r"^(.*?)\s*[\[(]([^\])]*)[\])]$")
"""A name with its unit in brackets at the end: ``Vx [m/s]``."""

NUMBERS = re.compile(r"(\d+)")
"""The numbers in a name."""

MAX_LISTED = 12
"""Names in a message."""


def split_unit(name: str) -> tuple[str, str]:
    """A name without its unit in brackets, and the unit.

    >>> split_unit("Vx [m/s]"), split_unit("lat")
    (('Vx', 'm/s'), ('lat', ''))
    """
    match = NAME_AND_UNIT.match(name.strip())
    if match is None:
        return name.strip(), ""
    return match[1].strip(), match[2].strip()


def plain_name(name: str) -> str:
    """A name without its unit in brackets."""
    return split_unit(name)[0]


def unit_of(name: str) -> str:
    """The unit that a name says: in brackets, at its end, or by what it is; empty if none.

    >>> unit_of("u [m/s]"), unit_of("wind_speed_kmh"), unit_of("sknt"), unit_of("lat")
    ('m/s', 'km/h', 'kt', '')
    """
    plain, unit = split_unit(name)
    if unit:
        return unit
    ending = _unit_ending(plain)
    if ending:
        return unit_suffixes()[ending]
    return implied_unit(plain)


def name_key(name: str) -> str:
    """What a column is called, as names are compared: without unit, capitals and accents.

    >>> name_key("Wind Speed (kt)"), name_key("wind_dir_deg"), name_key("x_m")
    ('wind_speed', 'wind_dir', 'x')
    """
    plain = plain_name(name)
    ending = _unit_ending(plain)
    if ending:
        plain = plain[: -len(ending) - 1]
    return key(plain)


def _unit_ending(name: str) -> str:
    """The unit at the end of a name, after ``_`` or a space; empty if there is none."""
    for ending in unit_suffixes():
        if name.lower().endswith((f"_{ending}", f" {ending}")) and len(name) > len(ending) + 1:
            return ending
    return ""


def with_suffix(name: str, suffix: str) -> str:
    """A name with a suffix, which comes before the unit.

    >>> with_suffix("u [m/s]", "_std"), with_suffix("u", "_std")
    ('u_std [m/s]', 'u_std')
    """
    plain = plain_name(name)
    return name.replace(plain, plain + suffix, 1)


def natural(name: str) -> tuple[str, int]:
    """A name without its number, and the number: x2 sorts before x10."""
    prefix = name.rstrip("0123456789")
    return prefix, int(name[len(prefix) :] or 0)


def expanded(wanted: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Names with patterns (``pc*``, by number), ranges (``pc1:pc50``) and units, if left out,
    written out.

    >>> expanded(["pc*", "a1:a3"], ["pc10", "pc2", "a1 [m]", "a2", "a3"])
    ('pc2', 'pc10', 'a1 [m]', 'a2', 'a3')
    """
    columns: list[str] = []
    for name in wanted:
        start, colon, end = name.partition(":")
        if name in names:
            columns.append(name)
        elif colon and natural(start)[0] == natural(end)[0]:
            columns += _range(start, end, len(names))
        else:
            columns += sorted(fnmatch.filter(names, name), key=_by_numbers) or [name]
    with_units = {plain_name(name): name for name in reversed(names)}
    with_units |= {name: name for name in names}
    return tuple(with_units.get(name, name) for name in columns)


def _range(start: str, end: str, limit: int) -> list[str]:
    """The names from x1 to x50; of more than ``limit`` not all, but the last: one is missing in any
    case."""
    prefix, first = natural(start)
    last = natural(end)[1]
    numbers = list(range(first, min(last, first + limit) + 1))
    if last > first + limit:
        numbers.append(last)
    digits = len(start) - len(prefix)
    return [f"{prefix}{number:0{digits}}" for number in numbers]


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """A key that sorts the numbers in names by size: pc2_dot before pc10_dot."""
    pieces = NUMBERS.split(name)
    return [(int(piece), "") if piece.isdecimal() else (0, piece) for piece in pieces]


def named(
    wanted: Sequence[str], names: Sequence[str], option: str, count: int | None = None
) -> tuple[str, ...]:
    """The columns that an option names, all there and as many as needed."""
    if isinstance(wanted, str):
        raise InvalidInputError(
            argument=option,
            expected="a tuple of names, such as ('x', 'y', 'z')",
            received=repr(wanted),
        )
    columns = expanded(wanted, names)
    missing = [name for name in columns if name not in names]
    if missing:
        raise MissingColumnsError(
            f"the file has no column {listed(missing)}; it has {listed(names)}.",
            Remedy(f"Correct {{{option}}}.", **{option: NO_EXAMPLE}),
        )
    if wanted and not columns:
        raise InvalidInputError(
            f"names no column: {', '.join(wanted)} is an empty range.",
            "Write pc1:pc50.",
            argument=option,
        )
    if len(set(columns)) < len(columns):
        raise InvalidInputError(f"names a column twice: {listed(columns)}.", argument=option)
    if count is not None and len(columns) != count:
        raise InvalidInputError(
            f"expected {count} columns, got {len(columns)}: {listed(columns)}.",
            Remedy(
                f"Give {{{option}}} one for each coordinate, or two on the globe: latitude and "
                "longitude, east and north.",
                **{option: NO_EXAMPLE},
            ),
        )
    return columns


def listed(names: Sequence[str]) -> str:
    """Names for a message; of many, the first and the last."""
    shown = [str(name)[:40] for name in names]
    if len(shown) > MAX_LISTED:
        shown = [*shown[: MAX_LISTED - 2], "...", shown[-1]]
    return ", ".join(shown) or "none"
