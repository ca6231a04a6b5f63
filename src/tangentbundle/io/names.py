"""Names of columns and variables: units in brackets, patterns and ranges."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from ..errors import (
    NO_EXAMPLE,
    InvalidInputError,
    MissingColumnsError,
    Remedy,
)


def split_unit(name: str) -> tuple[str, str]:
    """A name without its unit in brackets, and the unit.

    >>> split_unit("Vx [m/s]"), split_unit("lat")
    (('Vx', 'm/s'), ('lat', ''))
    """
    match = re.match(r"^(.*?)\s*[\[(]([^\])]*)[\])]$", name.strip())
    return (match[1].strip(), match[2].strip()) if match else (name.strip(), "")


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
    found: list[str] = []
    for name in wanted:
        start, colon, end = name.partition(":")
        (prefix, low), (other, high) = natural(start), natural(end)
        if name in names:
            found.append(name)
        elif colon and other == prefix:
            numbers = [*range(low, min(high, low + len(names)) + 1)]
            numbers += [high] * (high > low + len(names))  # one of so many names is missing
            found += [f"{prefix}{k:0{len(start) - len(prefix)}}" for k in numbers]
        else:
            found += sorted(fnmatch.filter(names, name), key=_by_numbers) or [name]
    plain = {split_unit(name)[0]: name for name in reversed(names)}
    return tuple(name if name in names else plain.get(name, name) for name in found)


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """A key that sorts the numbers in names by size: pc2_dot before pc10_dot."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def named(
    wanted: Sequence[str], names: Sequence[str], option: str, count: int | None = None
) -> tuple[str, ...]:
    """The columns asked for, all there and as many as needed."""
    if isinstance(wanted, str):
        raise InvalidInputError(
            argument=option,
            expected="a tuple of names, such as ('x', 'y', 'z')",
            received=repr(wanted),
        )
    found = expanded(wanted, names)
    if missing := [name for name in found if name not in names]:
        raise MissingColumnsError(
            f"the file has no column {listed(missing)}; it has {listed(names)}.",
            Remedy(f"Correct {{{option}}}.", **{option: NO_EXAMPLE}),
        )
    if wanted and not found:
        raise InvalidInputError(
            f"names no column: {', '.join(wanted)} is an empty range.",
            "Write pc1:pc50.",
            argument=option,
        )
    if len(set(found)) < len(found):
        raise InvalidInputError(f"names a column twice: {listed(found)}.", argument=option)
    if count is not None and len(found) != count:
        raise InvalidInputError(
            f"expected {count} columns, got {len(found)}: {listed(found)}.",
            Remedy(
                f"Give {{{option}}} one for each coordinate, or two on the globe: latitude and "
                "longitude, east and north.",
                **{option: NO_EXAMPLE},
            ),
        )
    return found


def listed(names: Sequence[str]) -> str:
    """Names for a message; of many, the first and the last."""
    shown = [str(name)[:40] for name in names]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:10], "...", shown[-1]]) or "none"
