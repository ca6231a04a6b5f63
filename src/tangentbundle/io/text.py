"""CSV and other text tables with the standard library: header, rows, numbers, dates, and what is wrong with them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from ..errors import DamagedFileError, DTypeError, InvalidInputError, MissingColumnsError

SEPARATORS = ",;\t"

MAX_HEADER = 2**24
"""Characters of the line of names."""

MISSING = {"", "NA", "N/A", "n/a", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "#N/A", "#N/A N/A", "#NA"}
MISSING |= {"1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
"""Cells without a number, those of Arrow."""

NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE)
"""What is a number in a table; Python's ``float`` also accepts 1_000."""

DATE = re.compile(r"\d{4}-\d\d(?:-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?)?)?", re.ASCII)


@dataclass(frozen=True)
class Header:
    """The line of names of a text, its separator, and the number of lines up to it and including it."""

    names: tuple[str, ...]
    separator: str
    lines: int


def read_header(path: Path) -> Header:
    """The first line that is not blank; separated by the commonest of comma, semicolon and tab, otherwise by blanks."""
    with path.open("rb") as file:
        if b"\0" in file.read(1 << 16):
            raise DamagedFileError(f"{path.name} is no text, whatever its name says. Give it the suffix of its format.")
    number, line = 1, ""
    try:
        with path.open(encoding="utf-8-sig") as text:
            while (line := text.readline(MAX_HEADER)) and not line.strip():
                number += 1
        separator = max(SEPARATORS, key=line.count)
        separator = separator if separator in line else " "
        cells = next(csv.reader([line.strip("\n")], delimiter=separator), []) if separator != " " else line.split()
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"{path.name} is no UTF-8 text ({error.reason}). Convert it first.") from error
    except csv.Error as error:
        raise DamagedFileError(f"the first line of {path.name} holds no names of columns ({error}).") from error
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


def single_blanks(lines: Iterable[str]) -> Iterable[str]:
    """Lines with one blank between their fields."""
    return (" ".join(line.split()) + "\n" for line in lines)


def read_rows(path: Path, header: Header) -> dict[str, np.ndarray]:
    """The columns of text below a header; lines without anything are skipped, lines of another length refused."""
    rows: list[list[str]] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = islice(file, header.lines, None)
            for row in csv.reader(
                single_blanks(lines) if header.separator == " " else lines, delimiter=header.separator
            ):
                if row and len(row) != len(header.names):
                    raise DamagedFileError(
                        f"row {len(rows) + 1} of {path.name} has {len(row)} fields, but there are {len(header.names)} "
                        f"columns: {header.separator.join(row)[:60]!r}. Correct or delete that line."
                    )
                rows += [row] if row else []
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"{path.name} is no UTF-8 text ({error.reason}). Convert it first.") from error
    except csv.Error as error:
        raise DamagedFileError(f"row {len(rows) + 1} of {path.name} cannot be read ({error}). Correct it.") from error
    columns = zip(*rows, strict=True) if rows else ((),) * len(header.names)
    return {name: np.array(cells, dtype=object) for name, cells in zip(header.names, columns, strict=True)}


def numbers(text: np.ndarray, name: str) -> np.ndarray:
    """A column of text as floats, missing ones as NaN; what is no number is refused with its first row."""
    cells = ["" if cell is None else cell.strip() for cell in text]
    bad = [k for k, cell in enumerate(cells) if not NUMBER.fullmatch(cell) and cell not in MISSING]
    if bad:
        raise DTypeError(
            f"column {name} should hold numbers with a decimal point, but row {bad[0] + 1} has {cells[bad[0]][:30]!r} "
            f"({len(bad)} such rows). Correct them, or leave these cells empty and use --drop-missing."
        )
    return np.array([np.nan if cell in MISSING else float(cell) for cell in cells])


def times(text: np.ndarray, name: str) -> np.ndarray | None:
    """Dates in UTC, or numbers that only tell the order, of each row; None if it is neither."""
    cells = ["" if cell is None else cell.strip() for cell in text]
    if missing := sum(cell in MISSING for cell in cells):
        raise InvalidInputError(f"column {name} lacks the time of {missing} rows. Fill it.")
    try:
        if all(map(NUMBER.fullmatch, cells)):
            return np.array(cells, dtype=float)
        if all(map(DATE.fullmatch, cells)):
            return np.array(cells, dtype="datetime64[ns]")
        dates = [datetime.fromisoformat(cell) for cell in cells]
    except ValueError:
        return None
    if len({date.tzinfo is None for date in dates}) > 1:
        return None
    plain = [date.astimezone(UTC).replace(tzinfo=None) if date.tzinfo else date for date in dates]
    return np.array(plain, dtype="datetime64[ns]")


def write_rows(columns: Mapping[str, Iterable], file: TextIO, separator: str) -> None:
    """Names and rows, quoted where they must be."""
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
