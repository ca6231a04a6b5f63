"""Tables: CSV and Parquet, through Arrow; text is read block by block."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.extras import extra
from ..errors import DamagedFileError, DTypeError, InvalidInputError, MissingColumnsError
from ..memory import require_memory
from .columns import from_columns, to_columns
from .field import Field, Request
from .names import Columns, find_columns
from .series import Series, from_series

SEPARATORS = ",;\t"

BLOCK = 2**24
"""Bytes of text in memory at once, besides the numbers made of it."""

WHAT = "Reading and writing tables"


@dataclass(frozen=True, eq=False)
class TableFile:
    """The rest of a table: all its columns (an Arrow table), how its text is separated, its rows by time and place."""

    table: Any
    separator: str = ","
    series: Series | None = None


@dataclass(frozen=True)
class Header:
    """The line of names of a text, its separator, and the lines up to and with it."""

    names: tuple[str, ...]
    separator: str
    lines: int


def read_csv(path: Path, request: Request) -> Field:
    """A field from text with a line of names: separated by commas, semicolons, tabs or blanks."""
    header = _header(path)
    columns = find_columns(header.names, request)
    try:
        table = _stream(path, header, (*columns.points, *columns.vectors))
    except (ValueError, OSError, LookupError) as error:  # of Arrow, all of these kinds
        text = " ".join(str(error).split())[:200]
        if "conversion error" in text:
            _refuse_text(path, header, columns)
        if "UTF8" in text:
            raise DamagedFileError(f"{path.name} is no UTF-8 text ({text}). Convert it first.") from error
        raise DamagedFileError(
            f"{path.name} is no table with as many fields in every line ({text}). Correct or delete that line."
        ) from error
    field = _from_table(TableFile(table, header.separator), path, columns, request)
    if header.separator == ",":
        return field
    word = {";": "semicolons", "\t": "tabs", " ": "blanks"}[header.separator]
    return replace(field, notes=(f"fields are separated by {word}", *field.notes))


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
    return _from_table(TableFile(table), path, find_columns(table.column_names, request), request)


def _header(path: Path) -> Header:
    """The first line that is not blank; separated by the commonest of comma, semicolon and tab, otherwise by blanks."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if not start.strip():
        raise DamagedFileError(f"{path.name} is empty. Give a table whose first line names its columns.")
    if b"\0" in start:
        raise DamagedFileError(f"{path.name} is no text, whatever its name says. Give it the suffix of its format.")
    lines = start.splitlines()
    number = next(k for k, line in enumerate(lines) if line.strip())
    try:
        header = lines[number].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"{path.name} is no UTF-8 text ({error.reason}). Convert it first.") from error
    best = max(SEPARATORS, key=header.count)
    if header.count(best):
        cells = [cell.strip() for cell in next(csv.reader([header], delimiter=best))]
    else:
        best, cells = " ", header.split()
    if cells and all(_is_number(cell) for cell in cells):
        raise MissingColumnsError(
            f"the first line of {path.name} holds numbers, not names of columns: {header[:60]!r}. Add a line such as "
            "x,y,z,vx,vy,vz."
        )
    if twice := [cell for k, cell in enumerate(cells) if cell in cells[:k]]:
        raise InvalidInputError(f"{path.name} has several columns called {twice[0]!r}. Rename them.")
    return Header(tuple(cells), best if len(cells) > 1 else ",", number + 1)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _stream(path: Path, header: Header, numeric: Sequence[str]) -> Any:
    """The table, read in blocks: numbers in the columns named, the text itself in all others."""
    pyarrow, arrow = extra("pyarrow", WHAT, "files"), extra("pyarrow.csv", WHAT, "files")
    types = {name: pyarrow.float64() if name in numeric else pyarrow.string() for name in header.names}
    source: Any = str(path)
    if header.separator == " ":  # runs of blanks separate: Arrow knows single ones
        text = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", path.read_bytes())
        source = pyarrow.BufferReader(re.sub(rb"[ \t]+", b" ", text))
    reader = arrow.open_csv(
        source,
        arrow.ReadOptions(column_names=list(header.names), skip_rows=header.lines, block_size=BLOCK),
        arrow.ParseOptions(delimiter=header.separator),
        arrow.ConvertOptions(column_types=types, strings_can_be_null=True),
    )
    return pyarrow.Table.from_batches(reader, reader.schema)


def _refuse_text(path: Path, header: Header, columns: Columns) -> None:
    """Say which of the columns of numbers holds text, and where first."""
    try:
        table = _stream(path, header, ())
    except ValueError as error:
        raise DamagedFileError(f"{path.name} is no UTF-8 text ({error}). Convert it first.") from error
    for name in (*columns.points, *columns.vectors):
        _numbers(table[name], name)


def _from_table(origin: TableFile, path: Path, columns: Columns, request: Request) -> Field:
    if not len(origin.table):
        raise DamagedFileError(f"{path.name} has names of columns, but no rows. Give at least three points.")

    def column(name: str) -> np.ndarray:
        return _numbers(origin.table[name], name)

    if columns.time is not None:
        found = from_series(column, _times(origin.table[columns.time], columns.time), columns, request)
        if found is not None:
            field, series = found
            return replace(field, origin=replace(origin, series=series))
    field, rows = from_columns(column, columns, request)
    return replace(field, origin=origin if rows is None else replace(origin, table=origin.table.take(rows)))


def _numbers(column: Any, name: str) -> np.ndarray:
    """A column as floats, missing ones as NaN; text is refused with its first row."""
    import pyarrow
    import pyarrow.compute as compute

    kind = column.type
    if pyarrow.types.is_float32(kind):
        return column.to_numpy()
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        text = np.array(column.to_pylist(), dtype=object)
        bad = [k for k, cell in enumerate(text) if cell is not None and cell.strip() and not _is_number(cell)]
        if bad:
            raise DTypeError(
                f"column {name} should hold numbers with a decimal point, but row {bad[0] + 1} has "
                f"{text[bad[0]][:30]!r} ({len(bad)} such rows). Correct them, or leave these cells empty and use "
                "--drop-missing."
            )
        return np.array([float(cell) if cell and cell.strip() else np.nan for cell in text])
    number = pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind)
    if not number and not pyarrow.types.is_null(kind):
        raise DTypeError(f"column {name} holds {kind}, not numbers. Name another with --points or --vectors.")
    return compute.cast(column, pyarrow.float64(), safe=False).to_numpy()


def _times(column: Any, name: str) -> np.ndarray | None:
    """Dates, or numbers that only tell the order, of each row; None if it is neither."""
    import pyarrow
    import pyarrow.compute as compute

    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        for kind in (pyarrow.timestamp("ns"), pyarrow.timestamp("ns", "UTC"), pyarrow.float64()):
            try:
                column = compute.cast(column, kind)
                break
            except ValueError:
                continue
    if column.null_count:
        raise InvalidInputError(f"column {name} lacks the time of {column.null_count} rows. Fill it.")
    if pyarrow.types.is_timestamp(column.type) or pyarrow.types.is_date(column.type):
        return compute.cast(column, pyarrow.timestamp("ns")).to_numpy()
    if pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type):
        return column.to_numpy()
    return None


def to_table(field: Field) -> Any:
    """The Arrow table of a field: that of its file with new numbers, or a new one; several times below each other."""
    pyarrow = extra("pyarrow", WHAT, "files")
    origin = field.origin if isinstance(field.origin, TableFile) else None
    series = origin.series if origin else None
    steps = max(len(field), 1)
    parts = [to_columns(field, k) for k in range(steps)]
    numbers = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if origin is None or steps != (1 if series is None else len(series.rows)):
        head = {}
        if series is not None or steps > 1:
            head[series.name if series else "time"] = np.repeat(_labels(field, series), len(field.space))
        return pyarrow.table({**head, **numbers})
    table, places = origin.table, set(field.space.names)
    for name, column in numbers.items():
        if name in places:
            continue
        if series is not None:
            column = series.unfold(column, len(table))
        kept = table.schema.field(name).type if name in table.column_names else None
        made = pyarrow.array(column.astype(np.float32) if kept == pyarrow.float32() else column)
        if kept is None:
            table = table.append_column(name, made)
        else:
            table = table.set_column(table.column_names.index(name), name, made)
    return table if series is None else table.take(np.sort(series.rows.ravel()))


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
    arrow = extra("pyarrow.csv", WHAT, "files")
    table = _dates_as_text(to_table(field))
    separator = field.origin.separator if isinstance(field.origin, TableFile) else ","
    quoting = "needed" if _has_special(table, separator) else "none"
    options = arrow.WriteOptions(include_header=False, delimiter=separator, quoting_style=quoting)
    with path.open("wb") as file:
        file.write((separator.join(_quoted(name, separator) for name in table.column_names) + "\n").encode())
        arrow.write_csv(table, file, options)


def _dates_as_text(table: Any) -> Any:
    import pyarrow

    for k, kind in enumerate(table.schema.types):
        if pyarrow.types.is_timestamp(kind):
            dates = table.column(k).to_numpy()
            there = dates[~np.isnat(dates)]
            unit = next(u for u in ("D", "m", "s", "ns") if (there.astype(f"datetime64[{u}]") == there).all())
            text = np.datetime_as_string(dates.astype(f"datetime64[{unit}]"))
            table = table.set_column(k, table.column_names[k], pyarrow.array(text, mask=np.isnat(dates)))
    return table


def _has_special(table: Any, separator: str) -> bool:
    """Whether some text holds what separates or quotes fields."""
    import pyarrow
    import pyarrow.compute as compute

    text = [c for c in table.columns if pyarrow.types.is_string(c.type) or pyarrow.types.is_large_string(c.type)]
    return any(compute.any(compute.match_substring_regex(c, f'[{separator},"\\r\\n]')).as_py() for c in text)


def _quoted(name: str, separator: str) -> str:
    special = any(mark in name for mark in (separator, '"', "\n"))
    return '"' + name.replace('"', '""') + '"' if special else name


def write_parquet(field: Field, path: Path) -> None:
    """A Parquet file."""
    extra("pyarrow.parquet", WHAT, "files").write_table(to_table(field), path)
