"""Tables: CSV and Parquet, read and written by Arrow."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import (
    DamagedFileError,
    InvalidInputError,
    MissingColumnsError,
    Remedy,
)
from ..memory import require_memory
from .columns import (
    NUMBER,
    Columns,
    find_columns,
    from_columns,
    name_vectors,
    real,
    time_labels,
    to_columns,
)
from .field import Field, Request, warn_of_data
from .names import listed


def read_header(path: Path) -> tuple[list[str], str, int]:
    """Names in the first line that is not blank, their separator, and the number of that line.

    The separator is the commonest of comma, semicolon and tab.
    """
    number, line = 1, ""
    try:
        with path.open(encoding="utf-8-sig") as text:
            while (line := text.readline(1 << 24)) and not line.strip():
                number += 1
        separator = max(",;\t", key=line.count)
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
    return _distinct(names, path), separator, number


def _distinct(names: list[str], path: Path) -> list[str]:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidInputError(
            f"{path.name} has several columns called {twice[0]!r}. Rename them."
        )
    return names


def read_csv(path: Path, request: Request) -> Field:
    """A field from text with a line of names: separated by commas, semicolons or tabs.

    Columns of points and vectors become float64, all others text.
    """
    import pyarrow
    import pyarrow.csv as arrow

    names, separator, lines = read_header(path)
    columns = find_columns(names, request)
    types = {
        name: pyarrow.float64() if name in columns.numeric else pyarrow.string() for name in names
    }
    options = arrow.ReadOptions(
        use_threads=False, block_size=2**24, skip_rows=lines, column_names=names
    )  # a line fits
    parse = arrow.ParseOptions(delimiter=separator, newlines_in_values=True)
    try:
        table = arrow.read_csv(str(path), options, parse, arrow.ConvertOptions(column_types=types))
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
    return _from_table(table, path, columns, request)


def read_parquet(path: Path, request: Request) -> Field:
    """A field from a Parquet file."""
    import pyarrow.parquet

    try:
        known = pyarrow.parquet.read_metadata(path)
        require_memory(
            16.0 * known.num_rows * known.num_columns,
            f"the table {path.name}",
            "Split it, or sample rows.",
        )
        table = pyarrow.parquet.read_table(path)
        names = _distinct([name.strip() for name in table.column_names], path)
        table = table.rename_columns(names).replace_schema_metadata(table.schema.metadata)
    except (ValueError, OSError, LookupError, RuntimeError, NotImplementedError) as error:
        raise DamagedFileError(
            f"{path.name} is not a readable Parquet file ({str(error).splitlines()[0]})."
        ) from error
    return _from_table(table, path, find_columns(table.column_names, request), request)


def _from_table(table: Any, path: Path, columns: Columns, request: Request) -> Field:
    if not len(table):
        raise DamagedFileError(
            f"{path.name} has names of columns, but no rows. Give at least three points."
        )
    others = {
        name: table[name].to_numpy() for name in table.column_names if name not in columns.numeric
    }
    if not (columns.vectors or request.only_points):
        _warn_of_unused(others, columns)
    column = partial(_numbers, table)
    field, rows = from_columns(column, columns, request, others)
    return replace(field, origin=table if rows is None else table.take(rows))


def _numbers(table: Any, name: str) -> np.ndarray:
    return real(table[name].to_numpy(), name, table[name].type)


def _warn_of_unused(others: Mapping[str, np.ndarray], columns: Columns) -> None:
    """Warn of columns of numbers that may be the components of vectors under unknown names."""
    numeric = [
        name for name, a in others.items() if name not in time_labels(others) and _holds_numbers(a)
    ]
    if len(numeric) < 2:
        return
    warn_of_data(
        f"no columns of vectors are known among {listed(numeric)}: only the points are used.",
        name_vectors("If there are vectors, name them", columns.on_globe),
    )


def _holds_numbers(column: np.ndarray) -> bool:
    """Whether a column, of numbers or of text, has numbers that do not just number the rows."""
    values = list(column[:100])
    if column.dtype.kind not in "fiu":
        values = [value.strip() for value in values if isinstance(value, str) and value.strip()]
        if not all(NUMBER.fullmatch(value) for value in values):
            return False
        values = [float(value) for value in values]
    return bool(values) and (len({*values}) < len(values) or any(value % 1 for value in values))


def to_table(field: Field) -> Any:
    """The Arrow table of a field: that of its file with new numbers, or a new one."""
    import pyarrow

    table = field.origin if isinstance(field.origin, pyarrow.Table) else pyarrow.table({})
    columns: dict[str, Any] = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in to_columns(field).items():
        if name not in columns or name not in field.space.names:
            single = name in columns and columns[name].type == pyarrow.float32()
            columns[name] = column.astype(np.float32) if single else column
    return pyarrow.table(columns).replace_schema_metadata(
        table.schema.metadata
    )  # such as the index of pandas


def write_csv(field: Field, path: Path) -> None:
    """Text separated by commas, or by tabs in .tsv files. Arrow writes tables of numbers; it would
    quote all text."""
    import pyarrow.csv as arrow

    table, separator = to_table(field), "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(table.column_names)
        if all(str(column.type) in ("float", "double") for column in table.columns):
            file.flush()
            arrow.write_csv(
                table, file.buffer, arrow.WriteOptions(include_header=False, delimiter=separator)
            )
        else:
            writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))


def write_parquet(field: Field, path: Path) -> None:
    """A Parquet file."""
    import pyarrow.parquet

    pyarrow.parquet.write_table(to_table(field), path)
