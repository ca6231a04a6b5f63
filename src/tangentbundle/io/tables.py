"""Tables: CSV and Parquet, read and written by Arrow."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DamagedFileError
from ..memory import require_memory
from . import text
from .columns import from_columns, to_columns
from .field import Field, Request
from .names import Columns, find_columns


@dataclass(frozen=True, eq=False)
class TableFile:
    """The Arrow table that a field came from, and its separator."""

    table: Any
    separator: str = ","


def read_csv(path: Path, request: Request) -> Field:
    """A field from text with a line of names: separated by commas, semicolons, tabs or blanks."""
    header = text.read_header(path)
    columns = find_columns(header.names, request)
    table = text.read_rows(path, header, columns.numeric)
    field = _from_table(TableFile(table, header.separator), path, columns, request)
    if header.separator == ",":
        return field
    word = {";": "semicolons", "\t": "tabs", " ": "blanks"}[header.separator]
    return replace(field, notes=(f"fields are separated by {word}", *field.notes))


def read_parquet(path: Path, request: Request) -> Field:
    """A field from a Parquet file."""
    import pyarrow.parquet

    try:
        known = pyarrow.parquet.read_metadata(path)
        require_memory(16.0 * known.num_rows * known.num_columns, f"the table {path.name}", "Split it, or sample rows.")
        table = pyarrow.parquet.read_table(path)
        table = table.rename_columns([name.strip() for name in table.column_names])
    except (ValueError, OSError, LookupError, RuntimeError, NotImplementedError) as error:
        raise DamagedFileError(f"{path.name} is no readable Parquet file ({str(error).splitlines()[0]}).") from error
    return _from_table(TableFile(table), path, find_columns(table.column_names, request), request)


def _from_table(origin: TableFile, path: Path, columns: Columns, request: Request) -> Field:
    if not len(origin.table):
        raise DamagedFileError(f"{path.name} has names of columns, but no rows. Give at least three points.")
    field, rows = from_columns(lambda name: text.numbers(origin.table[name], name), columns, request)
    return replace(field, origin=origin if rows is None else replace(origin, table=origin.table.take(rows)))


def to_table(field: Field) -> Any:
    """The Arrow table of a field: that of its file with new numbers, or a new one."""
    import pyarrow

    if not isinstance(field.origin, TableFile):
        return pyarrow.table(to_columns(field))
    table = field.origin.table
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in to_columns(field).items():
        if name not in field.space.names:
            single = name in columns and columns[name].type == pyarrow.float32()
            columns[name] = column.astype(np.float32) if single else column
    return pyarrow.table(columns)


def write_csv(field: Field, path: Path) -> None:
    """Text, with the separator of the file it came from. Arrow writes tables of numbers; it would quote all text."""
    import pyarrow.csv as arrow

    table = to_table(field)
    separator = field.origin.separator if isinstance(field.origin, TableFile) else ","
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(table.column_names)
        if all(str(column.type) in ("float", "double") for column in table.columns):
            file.flush()
            arrow.write_csv(table, file.buffer, arrow.WriteOptions(include_header=False, delimiter=separator))
        else:
            writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))


def write_parquet(field: Field, path: Path) -> None:
    """A Parquet file."""
    import pyarrow.parquet

    pyarrow.parquet.write_table(to_table(field), path)
