"""Workbooks of Excel and LibreOffice, read by calamine. They are not written: Excel opens .csv."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from ..errors import (
    DamagedFileError,
    InvalidInputError,
    MissingColumnsError,
    Note,
    OutputError,
    Remedy,
    TangentBundleError,
)
from ..layout import Head, Layout, Numerals, find_head
from . import workbook_process
from .columns import find_columns
from .field import Field, Request
from .tables import check_distinct, from_table
from .text_files import name_of_sign

MAX_MEMORY = 4 << 30
"""Most memory, in bytes, to read a workbook: the largest sheets need about half of it."""

Sheet = list[list[Any]]
"""Rows of cells: text, numbers, dates; empty cells are empty text."""


def read(path: Path, request: Request) -> Field:
    """A field from a sheet: the one that is named, or the only one with columns of points."""
    sheets = _sheets(path)
    name = _chosen(sheets, request, path)
    head, numerals = _described(sheets[name], request.layout)
    if head is None:
        raise MissingColumnsError(
            f"the sheet {name} of {path.name} has no row with names of columns."
            f"{_other_sheets(sheets, name)}"
        )
    check_distinct(head.names, path)
    columns = find_columns(head.names, request)
    notes = [_note(path, name, sheets, head, numerals)]
    table = _table(sheets[name][head.first_row :], head.names, columns.numeric)
    return from_table(table, path, columns, request, notes=notes, numerals=numerals)


def _sheets(path: Path) -> dict[str, Sheet]:
    """The sheets of a workbook that are not empty, read by a process of its own."""
    program = Path(workbook_process.__file__)
    limit = min(MAX_MEMORY, psutil.virtual_memory().available)
    command = [sys.executable, "-I", str(program), str(path.absolute()), str(limit)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise DamagedFileError(
            f"{path.name} is not a readable workbook ({''.join(reason[:1])[:200]})."
        )
    sheets = dict(json.loads(done.stdout, object_hook=workbook_process.decoded))
    if not sheets:
        raise DamagedFileError(f"{path.name} has no sheet with anything in it.")
    return sheets


def _chosen(sheets: dict[str, Sheet], request: Request, path: Path) -> str:
    """The name of the sheet to read."""
    wanted = request.layout.sheet
    if wanted:
        if wanted not in sheets:
            raise InvalidInputError(
                argument="sheet", expected=" or ".join(sheets), received=repr(wanted)
            )
        return wanted
    if len(sheets) == 1:
        return next(iter(sheets))
    usable = [name for name, rows in sheets.items() if _has_points(rows, request)]
    if len(usable) == 1:
        return usable[0]
    problem = "none of which has columns of points"
    if usable:
        problem = f"of which {', '.join(usable)} have columns of points"
    raise InvalidInputError(
        f"{path.name} has the sheets {', '.join(sheets)}, {problem}.",
        Remedy("Choose one with {sheet}.", sheet=next(iter(usable or sheets))),
    )


def _has_points(rows: Sheet, request: Request) -> bool:
    """Whether a sheet has columns that can be read."""
    head, _ = _described(rows, request.layout)
    if head is None:
        return False
    try:
        find_columns(head.names, request)
    except TangentBundleError:
        return False
    return True


def _described(rows: Sheet, layout: Layout) -> tuple[Head | None, Numerals]:
    """The names of a sheet, and how numbers are written that are text in it."""
    texts = [[_text(cell) for cell in row] for row in rows]
    width = max((_last_cell(row) for row in texts), default=0)
    texts = [row[: max(_last_cell(row), 1)] for row in texts]
    words = [cell for row in rows for cell in row if isinstance(cell, str)]
    numerals = Numerals.of(words, layout)
    head = find_head(texts, Numerals())
    if head is None:
        return None, numerals
    names = head.names + [""] * (width - len(head.names))
    return Head(_all_named(names), head.first_row, head.skipped, head.has_units), numerals


def _last_cell(row: Sequence[str]) -> int:
    """How many cells a row has up to the last that is not empty."""
    filled = [number for number, cell in enumerate(row) if cell.strip()]
    return max(filled, default=-1) + 1


def _all_named(names: Sequence[str]) -> list[str]:
    """Names, with numbers for columns that have none."""
    return [name or f"column {number}" for number, name in enumerate(names, start=1)]


def _text(cell: Any) -> str:
    """A cell as text."""
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    return str(cell)


def _note(path: Path, name: str, sheets: dict[str, Sheet], head: Head, numerals: Numerals) -> Note:
    """What was read of a workbook."""
    text = f"{path.name} read as: sheet {name}"
    if head.skipped:
        text += f", {head.skipped} lines above the names skipped"
    if head.has_units:
        text += ", units in the row below the names"
    if numerals.decimal == ",":
        text += ", decimal commas in numbers that are text"
    if numerals.thousands:
        text += f", digits of numbers that are text grouped by {name_of_sign(numerals.thousands)}"
    return Note(text + _other_sheets(sheets, name))


def _other_sheets(sheets: dict[str, Sheet], name: str) -> str:
    """The sheets that were not read."""
    others = [other for other in sheets if other != name]
    if not others:
        return ""
    return f" (other sheets: {', '.join(others)})"


def _table(rows: Sheet, names: Sequence[str], numeric: Sequence[str]) -> Any:
    """The Arrow table of rows of cells."""
    import pyarrow

    columns = {}
    for number, name in enumerate(names):
        cells = [row[number] if number < len(row) else "" for row in rows]
        columns[name] = _column(cells, pyarrow, is_numeric=name in numeric)
    return pyarrow.table(columns)


def _column(cells: Sequence[Any], pyarrow: Any, *, is_numeric: bool) -> Any:
    """A column of numbers or of dates, if all cells are, otherwise of text."""
    filled = [cell for cell in cells if not _is_empty(cell)]
    are_numbers = all(type(cell) in (int, float) for cell in filled)
    if are_numbers and (filled or is_numeric):
        numbers = [None if _is_empty(cell) else float(cell) for cell in cells]
        return pyarrow.array(numbers, pyarrow.float64())
    if filled and all(isinstance(cell, datetime) for cell in filled):
        return pyarrow.array(
            [None if _is_empty(cell) else cell for cell in cells],
            pyarrow.timestamp("us"),
        )
    return pyarrow.array([_as_text(cell) for cell in cells], pyarrow.string())


def _is_empty(cell: Any) -> bool:
    return isinstance(cell, str) and not cell.strip()


def _as_text(cell: Any) -> str:
    """A cell as in a table of text: whole numbers without a fraction."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, timedelta):
        minutes = int(cell.total_seconds()) // 60
        return f"{minutes // 60:02d}:{minutes % 60:02d}"
    return str(cell)


def check_output(field: Field, path: Path) -> None:
    """Refuse: workbooks are only read."""
    raise OutputError(f"{path.suffix} files are not written.", "Write .csv, which Excel opens.")


def write(field: Field, path: Path) -> None:
    """Refuse: workbooks are only read."""
    check_output(field, path)
