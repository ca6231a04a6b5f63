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
from .series import Series, from_series


@dataclass(frozen=True, eq=False)
class TableFile:
    """The Arrow table that a field came from, its separator, and its rows by time and place."""

    table: Any
    separator: str = ","
    series: Series | None = None


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

    def column(name: str) -> np.ndarray:
        return text.numbers(origin.table[name], name)

    if columns.time is not None:
        times = text.times(origin.table[columns.time], columns.time)
        if found := from_series(column, times, columns, request):
            return replace(found[0], origin=replace(origin, series=found[1]))
    field, rows = from_columns(column, columns, request)
    return replace(field, origin=origin if rows is None else replace(origin, table=origin.table.take(rows)))


def to_table(field: Field) -> Any:
    """The Arrow table of a field: that of its file with new numbers, or a new one; several times below each other."""
    import pyarrow

    origin = field.origin if isinstance(field.origin, TableFile) else None
    series = origin.series if origin else None
    parts = [to_columns(field, k) for k in range(max(len(field), 1))]
    numbers = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if origin is None or len(parts) != (1 if series is None else len(series.rows)):
        axes = field.axes
        if not axes and (series is not None or len(parts) > 1):
            axes = ((series.name if series else "time", _labels(field, series)),)
        cells = np.meshgrid(*(axis for _, axis in axes), indexing="ij") if axes else ()
        head = {n: np.repeat(cell.ravel(), len(field.space)) for (n, _), cell in zip(axes, cells, strict=True)}
        return pyarrow.table({**head, **numbers})
    table = origin.table if series is None else origin.table.take(series.rows.ravel())
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in numbers.items():
        if name not in field.space.names:
            single = name in columns and columns[name].type == pyarrow.float32()
            columns[name] = column.astype(np.float32) if single else column
    table = pyarrow.table(columns)
    return table if series is None else table.take(np.argsort(series.rows.ravel()))  # in the order of the file


def _labels(field: Field, series: Series | None) -> np.ndarray:
    """Dates, or numbers that tell the order."""
    if field.times is not None:
        return field.times
    return np.arange(len(field)) if series is None else series.labels(len(field))


def after_rows(origin: Any) -> Any:
    """What a field came from, for the fields that follow its series."""
    if isinstance(origin, TableFile) and origin.series is not None:
        return replace(origin, series=replace(origin.series, rows=origin.series.rows[:0]))
    return origin


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
            writer.writerows(zip(*map(text.cells, table.columns), strict=True))


def write_parquet(field: Field, path: Path) -> None:
    """A Parquet file."""
    import pyarrow.parquet

    pyarrow.parquet.write_table(to_table(field), path)
