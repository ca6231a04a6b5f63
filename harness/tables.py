"""Tables of text: for the terminal, for pages in Markdown, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table of text: title, column names, rows and notes.

    >>> print(Table("Errors", ["method", "error"], [["mean", "0.5"]]).text())
    Errors
    <BLANKLINE>
    method  error
    ------  -----
    mean    0.5
    """

    title: str
    header: list[str]
    body: list[list[str]]
    notes: str = ""

    def markdown(self) -> str:
        """A heading, the table, and the notes."""
        lines = [f"## {self.title}", ""]
        lines += ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        lines += ["| " + " | ".join(row) + " |" for row in self.body]
        lines += ["", self.notes]
        return "\n".join(lines).rstrip() + "\n"

    def text(self) -> str:
        """Aligned columns, for a terminal."""
        columns = zip(self.header, *self.body, strict=True)
        widths = [max(len(cell) for cell in column) for column in columns]
        rule = ["-" * width for width in widths]
        lines = [self.title, ""]
        for row in (self.header, rule, *self.body):
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append("  ".join(cells).rstrip())
        lines += ["", self.notes]
        return "\n".join(lines).rstrip()

    def csv(self) -> str:
        """Comma-separated values, without title and notes."""
        text = io.StringIO()
        csv.writer(text).writerows([self.header, *self.body])
        return text.getvalue()


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as an aligned table, one column for each key, numbers to the right.

    >>> print_rows([{"n": 100, "error": 0.123456}, {"n": 1000}])
       n   error
     100  0.1235
    1000
    """
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = [keys]
    for row in rows:
        lines.append([as_text(row.get(key, "")) for key in keys])
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip())


def as_text(value: Any) -> str:
    """A value of a row: numbers with four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
