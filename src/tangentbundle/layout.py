"""How a table is laid out: what separates its cells, how its numbers are written, where its names
are.

``Layout`` is what the user says; what is left empty is found from the first rows of the file. A
table of text is a list of rows of cells here, so that text files and spreadsheets share it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .units import in_metres

SPACES = "\u0020\u00a0\u202f\u2009"
"""Spaces that group the digits of numbers."""

GROUPING = (",", ".", "'", "’", *SPACES)
"""Signs between groups of three digits."""

NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)
"""What is a number in a table; Python's ``float`` also accepts 1_000."""

NUMERAL = re.compile(rf"[+-]?\d[\d.,'’{SPACES}]*(?:[eE][+-]?\d+)?")
"""A number in any way of writing."""

FRACTION = {sign: re.compile(rf"[+-]?\d*\{sign}\d+(?:[eE][+-]?\d+)?") for sign in ".,"}
"""A number with a decimal sign, and no other sign."""

GROUPED = {
    sign: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:{re.escape(sign)}\d{{3}})+") for sign in GROUPING
}
"""A whole number in groups of three digits; 0.125 is none."""

UNITS: tuple[str, ...] = (
    "deg",
    "degree",
    "degrees",
    "grad",
    "rad",
    "°c",
    "c",
    "k",
    "hpa",
    "pa",
    "%",
    "mm",
    "utc",
)
UNITS += ("degrees_north", "degrees_east", "°n", "°e", "°", "-", "kt", "kts", "bft", "1", "mbar")
"""Units of columns beside lengths and speeds, in lower case."""


@dataclass(frozen=True)
class Layout:
    """How a table is written; what is empty is found out.

    Args:
        encoding: of text, such as ``cp1252`` or ``utf-16``.
        separator: the sign between cells; ``"tab"`` and ``"space"`` are words for these.
        decimal: the decimal sign, ``"."`` or ``","``.
        thousands: the sign between groups of three digits.
        comment: the sign that lines begin with that are no rows.
        sheet: the name of a sheet of a workbook.
    """

    encoding: str = ""
    separator: str = ""
    decimal: str = ""
    thousands: str = ""
    comment: str = ""
    sheet: str = ""


@dataclass(frozen=True)
class Numerals:
    """How numbers are written: their decimal sign, and the sign between groups of digits, or
    none.

    >>> Numerals(",", ".").as_float("1.234,5"), Numerals().as_float("a")
    (1234.5, None)
    """

    decimal: str = "."
    thousands: str = ""

    @classmethod
    def of(cls, cells: Iterable[str], layout: Layout) -> Numerals:
        """How the numbers among these cells are written.

        >>> Numerals.of(["1.234,5", "12,25"], Layout())
        Numerals(decimal=',', thousands='.')
        >>> Numerals.of(["1,000", "0.5"], Layout())
        Numerals(decimal='.', thousands=',')
        >>> Numerals.of(["48,125", "7,250"], Layout())
        Numerals(decimal=',', thousands='')
        """
        numerals = [cell.strip() for cell in cells]
        numerals = [cell for cell in numerals if NUMERAL.fullmatch(cell)]
        decimal = layout.decimal or _decimal_sign(numerals)
        thousands = layout.thousands or _thousands_sign(numerals, decimal)
        return cls(decimal, thousands)

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as in programs."""
        return self.decimal == "." and not self.thousands

    def plain(self, text: str) -> str:
        """The text of a number as programs write it."""
        text = text.strip()
        if self.thousands:
            text = text.replace(self.thousands, "")
        if self.thousands in SPACES:
            for space in SPACES:
                text = text.replace(space, "")
        return text.replace(self.decimal, ".")

    def as_float(self, text: str) -> float | None:
        """The number that a text is; None if it is none, as is one whose groups have not three
        digits.

        >>> Numerals(".", ",").as_float("1,500.5"), Numerals(".", ",").as_float("1,5")
        (1500.5, None)
        """
        plain = self.plain(text)
        if self._is_well_grouped(text) and NUMBER.fullmatch(plain):
            return float(plain)
        return None

    def _is_well_grouped(self, text: str) -> bool:
        """Whether signs between digits are where they belong, or there are none."""
        if not self.thousands:
            return True
        signs = SPACES if self.thousands in SPACES else self.thousands
        whole, _, fraction = text.strip().partition(self.decimal)
        if any(sign in fraction for sign in signs):
            return False
        used = [sign for sign in signs if sign in whole]
        return not used or (len(used) == 1 and GROUPED[used[0]].fullmatch(whole) is not None)


def _decimal_sign(numerals: Sequence[str]) -> str:
    """The sign before the fractions of these numbers; a point if nothing says otherwise."""
    certain: Counter[str] = Counter()
    possible: Counter[str] = Counter()
    for numeral in numerals:
        last = max(numeral.rfind("."), numeral.rfind(","))
        if last < 0:
            continue
        sign = numeral[last]
        rest = numeral[:last]
        if any(mark in rest for mark in GROUPING) and numeral.count(sign) == 1:
            certain[sign] += 1
        elif FRACTION[sign].fullmatch(numeral) and GROUPED[sign].fullmatch(numeral):
            possible[sign] += 1
        elif FRACTION[sign].fullmatch(numeral):
            certain[sign] += 1
    if certain:
        return max(certain, key=lambda sign: (certain[sign], sign == "."))
    return max(possible, key=lambda sign: (possible[sign], sign == "."), default=".")


def _thousands_sign(numerals: Sequence[str], decimal: str) -> str:
    """The sign between groups of three digits; empty if there is none."""
    signs: Counter[str] = Counter()
    for numeral in numerals:
        whole = numeral.partition(decimal)[0]
        for sign in GROUPING:
            if sign != decimal and GROUPED[sign].fullmatch(whole):
                signs[sign] += 1
    return max(signs, key=lambda sign: signs[sign], default="")


@dataclass(frozen=True)
class Head:
    """Where a table begins.

    Args:
        names: of the columns; with their units in brackets if a row below has them.
        first_row: the number of the first row of data among the rows.
        skipped: rows above the names.
        has_units: whether units are in a row below the names.
    """

    names: list[str]
    first_row: int
    skipped: int = 0
    has_units: bool = False


def find_head(rows: Sequence[Sequence[str]], numerals: Numerals) -> Head | None:
    """The names of a table, from its first rows of cells; None if there are none.

    Titles above the names are shorter than the rows of the table.

    >>> rows = [["Report"], ["lat", "lon", "u"], ["", "", "m/s"], ["50", "7", "1.5"]]
    >>> find_head(rows, Numerals())
    Head(names=['lat', 'lon', 'u [m/s]'], first_row=3, skipped=1, has_units=True)
    """
    width = usual_width(rows)
    for number, row in enumerate(rows):
        cells = [cell.strip() for cell in row]
        numbers = [numerals.as_float(cell) is not None for cell in cells]
        if not any(cells):
            continue
        is_wide = _width(cells) >= 2 and width - 1 <= len(cells)
        if not is_wide and width >= 2:
            continue
        if sum(numbers) >= 2 or all(numbers):
            return None
        has_units = number + 1 < len(rows) and _are_units(rows[number + 1])
        if has_units:
            cells = _with_units(cells, rows[number + 1])
        first_row = number + 1 + has_units
        skipped = sum(1 for above in rows[:number] if any(cell.strip() for cell in above))
        return Head(cells, first_row, skipped, has_units)
    return None


def usual_width(rows: Sequence[Sequence[str]]) -> int:
    """The commonest number of cells in a row, of several the largest."""
    widths = Counter(len(row) for row in rows if _width(row))
    return max(widths, key=lambda width: (widths[width], width), default=0)


def _width(row: Sequence[str]) -> int:
    """How many cells of a row are not empty."""
    return sum(1 for cell in row if cell.strip())


def _are_units(row: Sequence[str]) -> bool:
    """Whether the cells of a row are units."""
    cells = [cell.strip() for cell in row if cell.strip()]
    return bool(cells) and all(_is_unit(cell) for cell in cells)


def _is_unit(cell: str) -> bool:
    bare = cell.strip("[]()")
    return bare.lower() in UNITS or in_metres(bare) is not None


def _with_units(names: Sequence[str], units: Sequence[str]) -> list[str]:
    """Names with the units of a row below them."""
    labelled = []
    for number, name in enumerate(names):
        unit = ""
        if number < len(units):
            unit = units[number].strip().strip("[]()")
        if unit and unit not in ("-", "1"):
            name = f"{name} [{unit}]"
        labelled.append(name)
    return labelled
