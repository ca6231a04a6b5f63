"""Tables: CSV and Parquet. Arrow reads and writes them fast; CSV needs nothing but the standard library."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DamagedFileError, MissingExtraError
from ..extras import extra
from ..memory import require_memory
from . import text
from .columns import from_columns, to_columns
from .field import Field, Request
from .names import Columns, find_columns
from .series import Series, from_series

BLOCK = 2**24
"""Bytes of text in memory at once, besides the numbers made of it."""

WHAT = "Reading and writing Parquet"


@dataclass(frozen=True, eq=False)
class TableFile:
    """The rest of a table: all its columns (of NumPy or Arrow), its separator, and its rows by time and place."""

    columns: dict[str, Any]
    separator: str = ","
    series: Series | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def take(self, rows: np.ndarray) -> TableFile:
        """The same table with some of its rows."""
        return replace(self, columns={name: column.take(rows) for name, column in self.columns.items()})


def read_csv(path: Path, request: Request) -> Field:
    """A field from text with a line of names: separated by commas, semicolons, tabs or blanks."""
    header = text.read_header(path)
    columns = find_columns(header.names, request)
    table = _read_fast(path, header, (*columns.points, *columns.vectors)) or text.read_rows(path, header)
    field = _from_table(TableFile(table, header.separator), path, columns, request)
    if header.separator == ",":
        return field
    word = {";": "semicolons", "\t": "tabs", " ": "blanks"}[header.separator]
    return replace(field, notes=(f"fields are separated by {word}", *field.notes))


def _read_fast(path: Path, header: text.Header, numeric: Sequence[str]) -> dict[str, Any] | None:
    """The columns, read in blocks by Arrow: numbers where named, otherwise text. None if it is missing or objects."""
    try:
        pyarrow, arrow = extra("pyarrow", WHAT, "files"), extra("pyarrow.csv", WHAT, "files")
        types = {name: pyarrow.float64() if name in numeric else pyarrow.string() for name in header.names}
        source: Any = str(path)
        if header.separator == " ":  # runs of blanks separate: Arrow knows single ones
            with path.open(encoding="utf-8-sig") as file:
                source = pyarrow.BufferReader("\n".join(" ".join(line.split()) for line in file).encode())
        reader = arrow.open_csv(
            source,
            arrow.ReadOptions(column_names=list(header.names), skip_rows=header.lines, block_size=BLOCK),
            arrow.ParseOptions(delimiter=header.separator, newlines_in_values=True),
            arrow.ConvertOptions(column_types=types),
        )
        table = pyarrow.Table.from_batches(reader, reader.schema)
    except (MissingExtraError, ValueError, OSError, LookupError):  # of Arrow, all of these kinds
        return None
    return {name: table[name] for name in header.names}


def read_parquet(path: Path, request: Request) -> Field:
    """A field from a Parquet file."""
    parquet = extra("pyarrow.parquet", WHAT, "files")
    try:
        told = parquet.read_metadata(path)
        require_memory(16.0 * told.num_rows * told.num_columns, f"the table {path.name}", "Split it, or sample rows.")
        table = parquet.read_table(path)
        table = table.rename_columns([name.strip() for name in table.column_names])
    except (ValueError, OSError, LookupError, RuntimeError, NotImplementedError) as error:
        raise DamagedFileError(f"{path.name} is no readable Parquet file ({str(error).splitlines()[0]}).") from error
    origin = TableFile({name: table[name] for name in table.column_names})
    return _from_table(origin, path, find_columns(table.column_names, request), request)


def _from_table(origin: TableFile, path: Path, columns: Columns, request: Request) -> Field:
    if not len(origin):
        raise DamagedFileError(f"{path.name} has names of columns, but no rows. Give at least three points.")

    def column(name: str) -> np.ndarray:
        return text.numbers(_array(origin.columns[name]), name)

    if columns.time is not None:
        times = text.times(_array(origin.columns[columns.time]), columns.time)
        if found := from_series(column, times, columns, request):
            return replace(found[0], origin=replace(origin, series=found[1]))
    field, rows = from_columns(column, columns, request)
    return replace(field, origin=origin if rows is None else origin.take(rows))


def _array(column: Any) -> np.ndarray:
    """A column of NumPy or Arrow as an array; text as objects."""
    return column if isinstance(column, np.ndarray) else column.to_numpy()


def to_table(field: Field) -> dict[str, Any]:
    """The columns of a field: those of its file with new numbers, or new ones; several times below each other."""
    origin = field.origin if isinstance(field.origin, TableFile) else None
    series = origin.series if origin else None
    steps = max(len(field), 1)
    parts = [to_columns(field, k) for k in range(steps)]
    numbers = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if origin is None or steps != (1 if series is None else len(series.rows)):
        head = {}
        if series is not None or steps > 1:
            head[series.name if series else "time"] = np.repeat(_labels(field, series), len(field.space))
        return {**head, **numbers}
    columns, places = dict(origin.columns), set(field.space.names)
    for name, column in numbers.items():
        if name not in places:
            column = column if series is None else series.unfold(column, len(origin))
            single = str(getattr(columns.get(name), "type", "")) == "float"
            columns[name] = column.astype(np.float32) if single else column
    return columns if series is None else replace(origin, columns=columns).take(np.sort(series.rows.ravel())).columns


def _labels(field: Field, series: Series | None) -> np.ndarray:
    """Dates, or numbers that tell the order."""
    if field.times is not None:
        return field.times
    return np.arange(len(field)) if series is None else series.labels(len(field))


def after_rows(origin: Any) -> Any:
    """The rest of a file, for what comes after its series."""
    if isinstance(origin, TableFile) and origin.series is not None:
        return replace(origin, series=replace(origin.series, rows=origin.series.rows[:0]))
    return origin


def write_csv(field: Field, path: Path) -> None:
    """Text, with the separator of the file it came from; Arrow writes tables of numbers, if it is installed."""
    columns = to_table(field)
    separator = field.origin.separator if isinstance(field.origin, TableFile) else ","
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(columns)
        if find_spec("pyarrow") and all(_array(column).dtype.kind == "f" for column in columns.values()):
            file.flush()
            pyarrow, arrow = extra("pyarrow", WHAT), extra("pyarrow.csv", WHAT)
            options = arrow.WriteOptions(include_header=False, delimiter=separator)
            arrow.write_csv(pyarrow.table(columns), file.buffer, options)
        else:
            writer.writerows(zip(*map(_cells, columns.values()), strict=True))


def _cells(column: Any) -> list:
    numeric = str(getattr(column, "type", "timestamp")).startswith(("timestamp", "float", "double"))
    return text.cells(_array(column)) if numeric else column.to_pylist()


def write_parquet(field: Field, path: Path) -> None:
    """A Parquet file."""
    table = extra("pyarrow", WHAT, "files").table(to_table(field))
    extra("pyarrow.parquet", WHAT, "files").write_table(table, path)
