"""Tables of text with a line of names, read by Arrow once it is known how they are written."""

from __future__ import annotations

import csv
import io
import math
import zlib
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np

from ..errors import DamagedFileError, MissingColumnsError, Note, OutputError, Remedy
from ..layout import Numerals
from ..winds import is_radian
from .columns import Columns, find_columns, to_columns
from .field import Field, Request
from .names import listed, unit_of
from .tables import MISSING, UNCERTAINTY, TableFile, check_distinct, from_table, to_tables
from .text_files import MAX_LINE, TextTable, examine, open_bytes, split_line

ALL_DECIMALS = 15
"""From these decimals on numbers are not rounded."""


def read(path: Path, request: Request) -> Field:
    """A field from text; columns of points and vectors become float64, all others text."""
    written = examine(path, request.layout)
    names = written.head.names
    _check_names(written, path)
    columns = find_columns(names, request)
    table = _read_table(path, written, columns)
    notes = []
    if written.remarks:
        notes.append(Note(f"{path.name} read as: {', '.join(written.remarks)}"))
    return from_table(table, path, columns, request, notes=notes, written=written)


def _check_names(written: TextTable, path: Path) -> None:
    """Refuse tables without names."""
    names = written.head.names
    if not names:
        raise DamagedFileError(
            f"{path.name} is empty. Give a table whose first line names its columns."
        )
    if all(written.numerals.as_float(name) is not None for name in names):
        line = written.separator.join(names)
        raise MissingColumnsError(
            f"the first line of {path.name} holds numbers, not names of columns: {line[:60]!r}. "
            "Add a line such as x,y,z,vx,vy,vz."
        )
    check_distinct(names, path)


def _read_table(path: Path, written: TextTable, columns: Columns) -> Any:
    """The Arrow table of a text file."""
    import pyarrow.csv as arrow

    try:
        with open_bytes(path) as file:
            return arrow.read_csv(
                _with_tabs(file, written),
                arrow.ReadOptions(
                    use_threads=False,
                    block_size=MAX_LINE,
                    skip_rows=written.head.first_row,
                    column_names=written.head.names,
                    encoding=_encoding(written),
                ),
                _parse_options(written),
                arrow.ConvertOptions(
                    column_types=_types(written, columns),
                    null_values=[*MISSING, *(word.upper() for word in MISSING), "NaN", "Null"],
                    decimal_point=written.numerals.decimal,
                ),
            )
    # of Arrow, all of these kinds, and of archives
    except (ValueError, OSError, LookupError, EOFError, zlib.error, BadZipFile) as error:
        raise _error(path, written, columns, error) from error


def _parse_options(written: TextTable) -> Any:
    """How Arrow separates cells; it skips comments."""
    import pyarrow.csv as arrow

    def is_comment(row: Any) -> str:
        if written.comment and row.text.lstrip().startswith(written.comment):
            return "skip"
        return "error"

    separator = written.separator
    if separator == " ":
        separator = "\t"
    return arrow.ParseOptions(
        delimiter=separator, newlines_in_values=True, invalid_row_handler=is_comment
    )


def _types(written: TextTable, columns: Columns) -> dict[str, Any]:
    """What Arrow takes columns for: numbers, or text to be read later."""
    import pyarrow

    names = written.head.names
    types = dict.fromkeys(names, pyarrow.string())
    for name in columns.numeric:
        may_be_words = name in columns.wind[1:] or (columns.on_globe and name in columns.points)
        if _is_plain(written, names.index(name), may_be_words):
            types[name] = pyarrow.float64()
    return types


def _error(path: Path, written: TextTable, columns: Columns, error: Exception) -> DamagedFileError:
    """What is wrong with a table that Arrow cannot read."""
    numerals = "a decimal point"
    if written.numerals.decimal == ",":
        numerals = "a decimal comma"
    return DamagedFileError(
        f"{path.name} is not a table of text with numbers in {listed(columns.numeric)} "
        f"({str(error)[:300]}).",
        Remedy(
            f"Correct that line; numbers have {numerals} (or set {{decimal}}). Leave missing ones "
            "empty and use {drop_missing}.",
            decimal=",",
            drop_missing=True,
        ),
    )


def _encoding(written: TextTable) -> str:
    """The encoding for Arrow, which knows the mark of UTF-8."""
    if written.encoding == "utf-8-sig" or written.separator == " ":
        return "utf8"
    if written.encoding == "utf-8":
        return "utf8"
    return written.encoding


def _with_tabs(file: IO[bytes], written: TextTable) -> IO[bytes]:
    """The file itself, or a copy with tabs where cells are separated by spaces."""
    if written.separator != " ":
        return file
    content = io.BytesIO()
    lines = io.TextIOWrapper(file, encoding=written.encoding)
    for line in lines:
        content.write(("\t".join(split_line(line, " ")) + "\n").encode())
    lines.detach()
    content.seek(0)
    return content


def _is_plain(written: TextTable, column: int, may_be_words: bool) -> bool:
    """Whether Arrow reads the numbers of a column: not in groups of digits, and neither points of
    the compass nor degrees with minutes or sides."""
    numerals = Numerals(written.numerals.decimal)
    if written.numerals.thousands:
        return False
    if not may_be_words:
        return True
    cells = [row[column].strip() for row in written.sample if column < len(row)]
    cells = [cell for cell in cells if cell.lower() not in MISSING]
    return all(numerals.as_float(cell) is not None for cell in cells)


def check_output(field: Field, path: Path) -> None:
    """Refuse archives."""
    if path.suffix.lower() in (".gz", ".zip"):
        raise OutputError(f"{path.suffix} files are not written.", "Write .csv.")


def write(field: Field, path: Path) -> None:
    """Text as in the file that a field came from; by default separated by commas, or by tabs in
    .tsv files. Arrow writes tables of numbers; it would quote all text."""
    import pyarrow.csv as arrow

    separator = ","
    decimal = "."
    encoding = "utf-8"
    origin = field.origin
    if isinstance(origin, TableFile) and origin.written is not None:
        separator = origin.written.separator
        decimal = origin.written.numerals.decimal
        encoding = origin.written.encoding
    if path.suffix.lower() == ".tsv" or separator == " ":
        separator = "\t"
    if path.suffix.lower() == ".csv" and separator == "\t":
        separator = ","
    with path.open("w", encoding=encoding, newline="", errors="replace") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        table = _rounded(to_tables(field), field)
        writer.writerow(table.column_names)
        are_numbers = all(str(column.type) in ("float", "double") for column in table.columns)
        if are_numbers and decimal == "." and encoding == "utf-8":
            file.flush()
            options = arrow.WriteOptions(include_header=False, delimiter=separator)
            arrow.write_csv(table, file.buffer, options)
            return
        columns = [_texts(column, decimal) for column in table.columns]
        writer.writerows(zip(*columns, strict=True))


def _rounded(table: Any, field: Field) -> Any:
    """A table with the vectors of a field in its decimals; directions have at least one, in radians
    two more, and parts of a field six digits."""
    if field.decimals is None or field.decimals >= ALL_DECIMALS:
        return table
    import pyarrow

    decimals = dict.fromkeys(to_columns(replace(field, parts={}), uncertainty=UNCERTAINTY), 0)
    decimals = {name: field.decimals for name in decimals if name not in field.space.names}
    if field.wind:
        direction = field.wind[1]
        decimals[direction] = max(field.decimals, 1)
        if is_radian(unit_of(direction)):
            decimals[direction] = field.decimals + 2
    for part in field.parts.values():
        for name in to_columns(part, uncertainty=UNCERTAINTY):
            if name not in field.space.names:
                decimals[name] = decimals_of(float(np.abs(table[name].to_numpy()).max()), 6)
    for name, count in decimals.items():
        values = np.round(table[name].to_numpy().astype(float), count) + 0.0  # no -0
        table = table.set_column(table.column_names.index(name), name, pyarrow.array(values))
    return table


def decimals_of(size: float, digits: int) -> int:
    """The decimals with which a number of this size has some significant digits.

    >>> decimals_of(0.2237, 2), decimals_of(12.0, 6), decimals_of(1234.0, 2)
    (2, 4, 0)
    """
    if not size:
        return digits
    return max(0, digits - 1 - math.floor(math.log10(size)))


def _texts(column: Any, decimal: str) -> list[Any]:
    """The cells of a column, with a decimal sign."""
    cells = column.to_pylist()
    if decimal == "." or str(column.type) not in ("float", "double"):
        return cells
    return [str(cell).replace(".", decimal) for cell in cells]
