"""Tables: CSV and Parquet. Arrow reads and writes them fast; CSV needs nothing but the standard library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.extras import extra
from ..errors import DamagedFileError, DTypeError, InvalidInputError, MissingExtraError
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
    """The rest of a table: all its columns (of NumPy or Arrow), its separator or schema, its rows by time and place."""

    columns: dict[str, Any]
    separator: str = ","
    schema: Any = None
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
                source = pyarrow.BufferReader("".join(text.single_blanks(file)).encode())
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
    columns = find_columns(table.column_names, request)
    origin = TableFile({name: table[name] for name in table.column_names}, schema=table.schema)
    return _from_table(origin, path, columns, request)


def _from_table(origin: TableFile, path: Path, columns: Columns, request: Request) -> Field:
    if not len(origin):
        raise DamagedFileError(f"{path.name} has names of columns, but no rows. Give at least three points.")

    def column(name: str) -> np.ndarray:
        return _numbers(origin.columns[name], name)

    if columns.time is not None:
        found = from_series(column, _times(origin.columns[columns.time], columns.time), columns, request)
        if found is not None:
            field, series = found
            return replace(field, origin=replace(origin, series=series))
    field, rows = from_columns(column, columns, request)
    return replace(field, origin=origin if rows is None else origin.take(rows))


def _as_text(column: Any) -> np.ndarray | None:
    """A column of text as strings; None for other columns."""
    if isinstance(column, np.ndarray):
        return column if column.dtype == object else None
    return np.array(column.to_pylist(), dtype=object) if str(column.type) in ("string", "large_string") else None


def _numbers(column: Any, name: str) -> np.ndarray:
    """A column as floats, missing ones as NaN."""
    if (cells := _as_text(column)) is not None:
        return text.numbers(cells, name)
    import pyarrow
    import pyarrow.compute as compute

    kind = column.type
    if pyarrow.types.is_float32(kind):
        return column.to_numpy()
    number = pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind)
    if not number and not pyarrow.types.is_null(kind):
        raise DTypeError(f"column {name} holds {kind}, not numbers. Name another with --points or --vectors.")
    return compute.cast(column, pyarrow.float64(), safe=False).to_numpy()


def _times(column: Any, name: str) -> np.ndarray | None:
    """Dates, or numbers that only tell the order, of each row; None if it is neither."""
    if (cells := _as_text(column)) is not None:
        return text.times(cells, name)
    if column.null_count:
        raise InvalidInputError(f"column {name} lacks the time of {column.null_count} rows. Fill it.")
    dates = column.to_numpy()
    return dates.astype("datetime64[ns]") if dates.dtype.kind == "M" else dates if dates.dtype.kind in "fiu" else None


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
    for name in numbers.keys() - places:
        column = numbers[name] if series is None else series.unfold(numbers[name], len(origin))
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
        return replace(origin, series=origin.series.after())
    return origin


def write_csv(field: Field, path: Path) -> None:
    """Text, with the separator of the file it came from."""
    columns = {name: _dates_as_text(column) for name, column in to_table(field).items()}
    separator = field.origin.separator if isinstance(field.origin, TableFile) else ","
    with path.open("w", encoding="utf-8", newline="") as file:
        try:
            table = extra("pyarrow", WHAT, "files").table(columns)
            special = any(_has_special(column, separator) for column in table.columns)
        except MissingExtraError:
            special = True
        if special:
            text.write_rows({name: _cells(column) for name, column in columns.items()}, file, separator)
            return
        text.write_rows(dict.fromkeys(columns, ()), file, separator)
        file.flush()
        arrow = extra("pyarrow.csv", WHAT, "files")
        options = arrow.WriteOptions(include_header=False, delimiter=separator, quoting_style="none")
        arrow.write_csv(table, file.buffer, options)


def _cells(column: Any) -> list:
    """What is written for a column: numbers with as few digits as identify them, text as it is."""
    if not isinstance(column, np.ndarray):
        return column.to_pylist()
    return (column if column.dtype == object else column.astype(str)).tolist()


def _dates_as_text(column: Any) -> Any:
    """Dates, as text that has no more digits than they need; other columns stay."""
    dates = column.to_numpy() if str(getattr(column, "type", "")).startswith("timestamp") else column
    if getattr(dates, "dtype", np.dtype(object)).kind != "M":
        return column
    there = dates[~np.isnat(dates)]
    unit = next(u for u in ("D", "m", "s", "ns") if (there.astype(f"datetime64[{u}]") == there).all())
    cells = np.datetime_as_string(dates.astype(f"datetime64[{unit}]")).astype(object)
    return np.where(np.isnat(dates), None, cells)


def _has_special(column: Any, separator: str) -> bool:
    """Whether some text holds what separates or quotes fields."""
    import pyarrow.compute as compute

    text = str(column.type) in ("string", "large_string")
    return text and bool(compute.any(compute.match_substring_regex(column, f'[{separator},"\\r\\n]')).as_py())


def write_parquet(field: Field, path: Path) -> None:
    """A Parquet file, with the schema of the one it came from."""
    pyarrow, known = extra("pyarrow", WHAT, "files"), getattr(field.origin, "schema", None)
    table = pyarrow.table(to_table(field))
    if known is not None:
        schema = table.schema.with_metadata(known.metadata)
        for k, made in enumerate(table.schema):
            if made.name in known.names and known.field(made.name).type == made.type:
                schema = schema.set(k, known.field(made.name))
        table = table.cast(schema)
    extra("pyarrow.parquet", WHAT, "files").write_table(table, path)
