"""CSV and other text tables with the standard library: header, rows, numbers, dates, and what is wrong with them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import numpy as np

from ..errors import DamagedFileError, DTypeError, InvalidInputError, MissingColumnsError

MISSING = re.compile(r"(?:#?N/?A|#N/A N/A|n/a|NULL|null|-?NaN|-?nan|-?1\.#IND|-?1\.#QNAN)?")
"""A cell without a number, as Arrow has it."""

NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE)
"""What is a number in a table; Python's ``float`` also accepts 1_000."""


@dataclass(frozen=True)
class Header:
    """The line of names of a text, its separator, and the number of lines up to it and including it."""

    names: tuple[str, ...]
    separator: str
    lines: int


def read_header(path: Path) -> Header:
    """The first line that is not blank; separated by the commonest of comma, semicolon and tab, otherwise by blanks."""
    number, line = 1, ""
    try:
        with path.open(encoding="utf-8-sig") as text:
            while (line := text.readline(1 << 24)) and not line.strip():
                number += 1
        separator = max(",;\t", key=line.count)
        separator = separator if separator in line else " "
        cells = next(csv.reader([line.strip("\n")], delimiter=separator), []) if separator != " " else line.split()
    except (UnicodeDecodeError, csv.Error) as error:
        raise DamagedFileError(f"{path.name} does not begin with names in UTF-8 text ({error}). Convert it.") from error
    if "\0" in line:
        raise DamagedFileError(f"{path.name} is no text, whatever its name says. Give it the suffix of its format.")
    names = tuple(cell.strip() for cell in cells)
    if not names:
        raise DamagedFileError(f"{path.name} is empty. Give a table whose first line names its columns.")
    if all(NUMBER.fullmatch(name) for name in names):
        raise MissingColumnsError(
            f"the first line of {path.name} holds numbers, not names of columns: {line[:60]!r}. Add a line such as "
            "x,y,z,vx,vy,vz."
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidInputError(f"{path.name} has several columns called {twice[0]!r}. Rename them.")
    return Header(names, separator if len(names) > 1 else ",", number)


def read_rows(path: Path, header: Header) -> dict[str, np.ndarray]:
    """The columns of text below a header; lines without anything are skipped, lines of another length refused."""
    rows: list[list[str]] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = (" ".join(line.split()) + "\n" if header.separator == " " else line for line in file)
            for row in csv.reader(islice(lines, header.lines, None), delimiter=header.separator):
                if row and len(row) != len(header.names):
                    raise DamagedFileError(
                        f"row {len(rows) + 1} of {path.name} has {len(row)} fields, but there are {len(header.names)} "
                        f"columns: {header.separator.join(row)[:60]!r}. Correct or delete that line."
                    )
                rows += [row] if row else []
    except (UnicodeDecodeError, csv.Error) as error:
        raise DamagedFileError(f"{path.name} is no table of UTF-8 text ({error}). Convert it first.") from error
    columns = zip(*rows, strict=True) if rows else ((),) * len(header.names)
    return {name: np.array(cells, dtype=object) for name, cells in zip(header.names, columns, strict=True)}


def numbers(column: np.ndarray, name: str) -> np.ndarray:
    """A column as floats, missing ones as NaN; text that is no number is refused with its first row."""
    if column.dtype.kind in "fiu":
        return column if column.dtype == np.float32 else column.astype(np.float64)
    if column.dtype != object:
        raise DTypeError(f"column {name} holds {column.dtype}, not numbers. Name another with --points or --vectors.")
    cells = _stripped(column)
    bad = [k for k, cell in enumerate(cells) if not NUMBER.fullmatch(cell) and not MISSING.fullmatch(cell)]
    if bad:
        raise DTypeError(
            f"column {name} should hold numbers with a decimal point, but row {bad[0] + 1} has {cells[bad[0]][:30]!r} "
            f"({len(bad)} such rows). Correct them, or leave these cells empty and use --drop-missing."
        )
    return np.array([np.nan if MISSING.fullmatch(cell) else float(cell) for cell in cells])


def times(column: np.ndarray, name: str) -> np.ndarray | None:
    """Dates in UTC, or numbers that only tell the order, of each row; None if it is neither."""
    texts = _stripped(column) if column.dtype == object else []
    if missing := sum(bool(MISSING.fullmatch(text)) for text in texts) or int(np.sum(column != column)):
        raise InvalidInputError(f"column {name} lacks the time of {missing} rows. Fill it.")
    if not texts:
        return column if column.dtype.kind in "Mfiu" else None
    if all(map(NUMBER.fullmatch, texts)):
        return np.array(texts, dtype=float)
    try:
        dates = [datetime.fromisoformat(text) for text in texts]
    except ValueError:
        return None
    if len({date.tzinfo is None for date in dates}) > 1 or not all(1678 <= date.year < 2262 for date in dates):
        return None  # of several kinds, or beyond datetime64[ns]
    plain = [date.astimezone(UTC).replace(tzinfo=None) if date.tzinfo else date for date in dates]
    return np.array(plain, dtype="datetime64[ns]")


def _stripped(column: np.ndarray) -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in column]


def cells(column: np.ndarray) -> list:
    """What is written for a column: numbers and dates with as few digits as identify them, text as it is."""
    if column.dtype.kind == "M":
        there = column[~np.isnat(column)]
        unit = next(u for u in ("D", "m", "s", "ns") if (there.astype(f"datetime64[{u}]") == there).all())
        column = np.where(np.isnat(column), "", np.datetime_as_string(column.astype(f"datetime64[{unit}]")))
    return (column if column.dtype == object else column.astype(str)).tolist()
