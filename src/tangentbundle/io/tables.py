"""Tables: CSV and Parquet, through pandas, with Arrow's fast reader and writer."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.extras import extra
from ..errors import DamagedFileError, DTypeError, InvalidInputError, MissingColumnsError
from .columns import from_columns, to_columns
from .field import Field, Request
from .names import find_columns

SEPARATORS = ",;\t"


def read_csv(path: Path, request: Request) -> Field:
    """A field from text with a line of names: separated by commas, semicolons, tabs or blanks."""
    pandas = extra("pandas", "Reading CSV", "files")
    separator = _separator(path)
    options: dict[str, Any] = {"sep": separator, "engine": "pyarrow"}
    if separator == " ":
        options = {"sep": r"\s+", "engine": "c"}
    else:
        extra("pyarrow", "Reading CSV", "files")
    try:
        frame = pandas.read_csv(path, **options)
    except (ValueError, OSError, OverflowError, LookupError) as error:  # of pandas and Arrow, all of these kinds
        line = " ".join(str(error).split())[:200]
        raise DamagedFileError(
            f"{path.name} is no table with as many fields in every line ({line}). Correct or delete that line."
        ) from error
    frame.attrs["separator"] = separator
    field = _from_frame(frame, path, request)
    if separator == ",":
        return field
    word = {";": "semicolons", "\t": "tabs", " ": "blanks"}[separator]
    return replace(field, notes=(f"fields are separated by {word}", *field.notes))


def read_parquet(path: Path, request: Request) -> Field:
    """A field from a Parquet file."""
    pandas = extra("pandas", "Reading Parquet", "files")
    extra("pyarrow", "Reading Parquet", "files")
    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError, LookupError, RuntimeError, NotImplementedError) as error:
        raise DamagedFileError(f"{path.name} is no readable Parquet file ({str(error).splitlines()[0]}).") from error
    return _from_frame(frame.reset_index(drop=True), path, request)


def _separator(path: Path) -> str:
    """From the line of names: the commonest of comma, semicolon and tab, otherwise blanks."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if not start.strip():
        raise DamagedFileError(f"{path.name} is empty. Give a table whose first line names its columns.")
    if b"\0" in start:
        raise DamagedFileError(f"{path.name} is no text, whatever its name says. Give it the suffix of its format.")
    try:
        header = start.splitlines()[0].decode("utf-8-sig")
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
    if twice := [cell for number, cell in enumerate(cells) if cell in cells[:number]]:
        raise InvalidInputError(f"{path.name} has several columns called {twice[0]!r}. Rename them.")
    return best if len(cells) > 1 else ","


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _from_frame(frame: Any, path: Path, request: Request) -> Field:
    frame.columns = [str(name).strip() for name in frame.columns]
    columns = find_columns(list(frame.columns), request)
    if not len(frame):
        raise DamagedFileError(f"{path.name} has names of columns, but no rows. Give at least three points.")
    field, rows = from_columns(lambda name: _numbers(frame[name], name), columns, request)
    return replace(field, origin=frame if rows is None else frame.iloc[rows])


def _numbers(column: Any, name: str) -> np.ndarray:
    """A column as floats; text is refused with its first row."""
    import pandas

    kind = getattr(column.dtype, "kind", "O")
    if kind in "fiu" and isinstance(column.dtype, np.dtype):
        return column.to_numpy(np.float32 if column.dtype == np.float32 else np.float64)
    if kind in "Mmc" or kind == "b":
        raise DTypeError(f"column {name} holds {column.dtype}, not numbers. Name another with --points or --vectors.")
    numbers = pandas.to_numeric(column, errors="coerce")
    bad = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
    if len(bad):
        text = str(column.iloc[bad[0]])[:30]
        raise DTypeError(
            f"column {name} should hold numbers with a decimal point, but row {bad[0] + 1} has {text!r} ({len(bad)} "
            "such rows). Correct them, or leave these cells empty and use --drop-missing."
        )
    return numbers.to_numpy(np.float64, na_value=np.nan)


def to_frame(field: Field) -> Any:
    """The table of a field: that of its file with new numbers, or a new one; several times below each other."""
    pandas = extra("pandas", "Writing tables", "files")
    if len(field) > 1:
        steps = np.arange(len(field)) if field.times is None else field.times
        parts = [pandas.DataFrame({"time": step, **to_columns(field, k)}) for k, step in enumerate(steps)]
        return pandas.concat(parts, ignore_index=True)
    table = to_columns(field)
    if not isinstance(field.origin, pandas.DataFrame):
        return pandas.DataFrame(table)
    frame = field.origin.reset_index(drop=True)
    points = set(field.space.names)
    for name, numbers in table.items():
        if name not in points:
            kept = frame[name].dtype if name in frame and frame[name].dtype == np.float32 else numbers.dtype
            frame[name] = numbers.astype(kept)
    return frame


def write_csv(field: Field, path: Path) -> None:
    """Text, with the separator of the file it came from."""
    pyarrow = extra("pyarrow", "Writing CSV", "files")
    arrow = extra("pyarrow.csv", "Writing CSV", "files")
    frame = to_frame(field)
    separator = frame.attrs.get("separator", ",")
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    with path.open("wb") as file:
        file.write((separator.join(_quoted(name, separator) for name in frame.columns) + "\n").encode())
        arrow.write_csv(table, file, arrow.WriteOptions(include_header=False, delimiter=separator))


def _quoted(name: str, separator: str) -> str:
    special = any(mark in name for mark in (separator, '"', "\n"))
    return '"' + name.replace('"', '""') + '"' if special else name


def write_parquet(field: Field, path: Path) -> None:
    """A Parquet file."""
    extra("pyarrow", "Writing Parquet", "files")
    to_frame(field).to_parquet(path, engine="pyarrow", index=False)
