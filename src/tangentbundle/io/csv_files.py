"""CSV: text with a line of names, separated by commas, semicolons or tabs; read by Arrow."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from ..errors import DamagedFileError, MissingColumnsError, Remedy
from .columns import NUMBER, find_columns
from .field import Field, Request
from .names import listed
from .tables import check_distinct, from_table, to_table

MAX_LINE = 1 << 24
"""Longest line, in characters: no table has a longer one."""

SEPARATORS = ",;\t"


@dataclass(frozen=True)
class Header:
    """The names of the columns, what separates them, and the number of their line."""

    names: list[str]
    separator: str
    line: int


def read(path: Path, request: Request) -> Field:
    """A field from text; columns of points and vectors become float64, all others text."""
    import pyarrow
    import pyarrow.csv as arrow

    header = read_header(path)
    columns = find_columns(header.names, request)
    types = dict.fromkeys(header.names, pyarrow.string())
    types |= dict.fromkeys(columns.numeric, pyarrow.float64())
    try:
        table = arrow.read_csv(
            str(path),
            arrow.ReadOptions(
                use_threads=False,
                block_size=MAX_LINE,
                skip_rows=header.line,
                column_names=header.names,
            ),
            arrow.ParseOptions(delimiter=header.separator, newlines_in_values=True),
            arrow.ConvertOptions(column_types=types),
        )
    except (ValueError, OSError, LookupError) as error:  # of Arrow, all of these kinds
        raise DamagedFileError(
            f"{path.name} is not a table of UTF-8 text with numbers in {listed(columns.numeric)} "
            f"({str(error)[:300]}).",
            Remedy(
                "Correct that line; numbers have a decimal point. Leave missing ones empty and use "
                "{drop_missing}.",
                drop_missing=True,
            ),
        ) from error
    return from_table(table, path, columns, request)


def read_header(path: Path) -> Header:
    """The first line that is not blank; its separator is the commonest of comma, semicolon and
    tab."""
    number = 1
    try:
        with path.open(encoding="utf-8-sig") as text:
            line = text.readline(MAX_LINE)
            while line and not line.strip():
                line = text.readline(MAX_LINE)
                number += 1
        separator = max(SEPARATORS, key=line.count)
        cells = next(csv.reader([line.strip("\n")], delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DamagedFileError(
            f"{path.name} does not begin with names in UTF-8 text ({error}). Convert it."
        ) from error
    if "\0" in line:
        raise DamagedFileError(
            f"{path.name} is not text, whatever its name says. Give it the suffix of its format."
        )
    names = [cell.strip() for cell in cells]
    if not names:
        raise DamagedFileError(
            f"{path.name} is empty. Give a table whose first line names its columns."
        )
    if all(NUMBER.fullmatch(name) for name in names):
        raise MissingColumnsError(
            f"the first line of {path.name} holds numbers, not names of columns: {line[:60]!r}. "
            "Add a line such as x,y,z,vx,vy,vz."
        )
    check_distinct(names, path)
    return Header(names, separator, number)


def write(field: Field, path: Path) -> None:
    """Text separated by commas, or by tabs in .tsv files. Arrow writes tables of numbers; it would
    quote all text."""
    import pyarrow.csv as arrow

    table = to_table(field)
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(table.column_names)
        if all(str(column.type) in ("float", "double") for column in table.columns):
            file.flush()
            options = arrow.WriteOptions(include_header=False, delimiter=separator)
            arrow.write_csv(table, file.buffer, options)
        else:
            columns = [column.to_pylist() for column in table.columns]
            writer.writerows(zip(*columns, strict=True))
