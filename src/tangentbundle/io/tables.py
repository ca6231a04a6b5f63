"""Fields from Arrow tables, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DamagedFileError, InvalidInputError, Note
from ..layout import NUMBER, Numerals
from .checks import warn_of_data
from .clocks import Clock, DatedRows, find_dates
from .columns import (
    Columns,
    distinct_field,
    field_of_rows,
    name_vectors,
    real,
    time_labels,
    to_columns,
    warn_of_other_vectors,
)
from .degrees import degrees_of
from .field import Field, Request
from .long_tables import (
    NO_ROW,
    LongTable,
    constant_columns,
    places_repeat,
    same_series,
    series_of,
)
from .names import listed
from .vocabulary import Compass

if TYPE_CHECKING:
    from .text_files import TextTable

UNCERTAINTY = "_uncertainty"
"""The end of the names of standard deviations in tables."""

SAMPLE = 100
"""Rows that say what a column holds."""


@dataclass(frozen=True, eq=False)
class TableFile:
    """The other content of a table that a field came from.

    Args:
        table: an Arrow table with the rows in use.
        written: how a text file was written.
        series: where the times and places of a series are.
    """

    table: Any
    written: TextTable | None = None
    series: LongTable | None = None

    @property
    def column_names(self) -> list[str]:
        return self.table.column_names


def check_distinct(names: list[str], path: Path) -> None:
    """Refuse a table with two columns of one name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidInputError(
            f"{path.name} has several columns called {repeated[0]!r}. Rename them."
        )


def from_table(
    table: Any,
    path: Path,
    columns: Columns,
    request: Request,
    *,
    notes: Sequence[Note] = (),
    written: TextTable | None = None,
    numerals: Numerals | None = None,
) -> Field:
    """The field of an Arrow table, with the columns of points and vectors."""
    if not len(table):
        raise DamagedFileError(
            f"{path.name} has names of columns, but no rows. Give at least three points."
        )
    if written is not None:
        numerals = written.numerals
    whole = _Reader(table, columns, numerals or Numerals())
    filled = whole.filled_rows()
    if not len(filled):
        raise DamagedFileError(f"{path.name} has only empty rows. Give at least three points.")
    reader = whole.at(filled)
    if not (columns.vectors or request.only_points):
        _warn_of_unused(reader.others(), columns)
    dates = None
    used: tuple[str, ...] = ()
    if not request.only_points:
        dates = find_dates(reader.others())
    elif _is_series(reader):
        request = replace(request, drop_duplicates=True)
    if dates is not None and places_repeat(reader.coordinates(), dates):
        field, series = _series(reader, dates, request)
        used = dates.clock.names
        origin = TableFile(reader.table, written, series)
    else:
        field = _one_field(reader, request)
        origin = TableFile(_rows_of(reader.table, field), written)
    assert field.rows is not None
    said = [*notes, *field.notes, *whole.notes(len(filled), used)]
    return replace(field, rows=filled[field.rows], origin=origin, notes=tuple(said))


def _is_series(reader: _Reader) -> bool:
    """Whether places repeat at other times, as in a table of stations whose places are wanted."""
    dates = find_dates(reader.others())
    return dates is not None and places_repeat(reader.coordinates(), dates)


def _rows_of(table: Any, field: Field) -> Any:
    """The rows of a table that a field uses."""
    assert field.rows is not None
    if len(field.rows) == len(table):
        return table
    return table.take(field.rows)


def _one_field(reader: _Reader, request: Request) -> Field:
    """The field of a table with one row for each place."""
    field = field_of_rows(reader.column, reader.columns, request)
    field = distinct_field(field, request, reader.others())
    warn_of_other_vectors(reader.columns, request, reader.others())
    return field


def _series(reader: _Reader, dates: DatedRows, request: Request) -> tuple[Field, LongTable]:
    """The fields of a table with a row for each place and time; rows without numbers are missing
    measurements."""
    usable = replace(request, drop_missing=True)
    rows_field = field_of_rows(reader.column, reader.columns, usable)
    warn_of_other_vectors(reader.columns, request, reader.others())
    return series_of(rows_field, dates, request)


class _Reader:
    """The columns of an Arrow table as arrays: numbers in any way of writing, and directions in
    words."""

    def __init__(self, table: Any, columns: Columns, numerals: Numerals) -> None:
        self.table = table
        self.columns = columns
        self.numerals = numerals
        self._others: dict[str, np.ndarray] | None = None

    def filled_rows(self) -> np.ndarray:
        """The rows of which some cell is not empty."""
        filled = np.zeros(len(self.table), bool)
        for name in self.table.column_names:
            column = self.table[name]
            if is_text(column):
                cells = column.to_pylist()
                filled |= np.array([bool(cell) and not cell.isspace() for cell in cells], bool)
            elif column.null_count:
                filled |= np.array(column.is_valid().to_pylist(), bool)
            else:
                filled[:] = True
            if filled.all():
                break
        return np.flatnonzero(filled)

    def others(self) -> dict[str, np.ndarray]:
        """The columns that are neither points nor vectors."""
        if self._others is None:
            self._others = {
                name: as_array(self.table[name])
                for name in self.table.column_names
                if name not in self.columns.numeric
            }
        return self._others

    def at(self, filled: np.ndarray) -> _Reader:
        """Those rows of the table."""
        if len(filled) == len(self.table):
            return self
        return _Reader(self.table.take(filled), self.columns, self.numerals)

    def notes(self, filled: int, used: Sequence[str]) -> list[Note]:
        """What is left out of the table: empty rows, and columns, but for the ``used`` ones."""
        notes = []
        empty = len(self.table) - filled
        if empty:
            notes.append(Note(f"{empty} empty rows left out"))
        numeric = self.columns.numeric
        unused = [name for name in self.table.column_names if name and name not in numeric]
        unused = [name for name in unused if name not in used]
        if unused:
            notes.append(Note(f"columns not used: {listed(unused)}"))
        return notes

    def coordinates(self) -> np.ndarray:
        """The points ``(n, k)``."""
        return np.stack([self.column(name) for name in self.columns.points], axis=1)

    def column(self, name: str) -> np.ndarray:
        """The numbers of a column ``(n,)``; NaN where a cell is empty."""
        cells = self.table[name]
        if not is_text(cells):
            return real(as_array(cells), name, cells.type)
        texts = [cell or "" for cell in cells.to_pylist()]
        if name in self.columns.wind[1:]:
            compass = Compass.of(texts, self.table.column_names)
            numbers = [self._direction(text, compass) for text in texts]
        elif self.columns.on_globe and name in self.columns.points:
            sides = "NS" if name == self.columns.points[0] else "EW"
            numbers = [self._degrees(text, sides) for text in texts]
        else:
            numbers = [self._number(text) for text in texts]
        for row, number in enumerate(numbers):
            if number is None:
                raise DamagedFileError(
                    f"column {name} holds {texts[row]!r} in row {row + 1}, which is not a number. "
                    "Correct that cell."
                )
        return np.array(numbers, dtype=np.float64)

    def _number(self, text: str) -> float | None:
        """The number that a text is; NaN if it is empty, None if it is none."""
        bare = text.strip().lower()
        if bare in MISSING:
            return np.nan
        return self.numerals.as_float(text)

    def _degrees(self, text: str, sides: str) -> float | None:
        """A latitude or longitude, with or without minutes and one of two sides of the globe."""
        number = self._number(text)
        if number is not None:
            return number
        return degrees_of(text, self.numerals, sides)

    def _direction(self, text: str, compass: Compass) -> float | None:
        """A direction in degrees, from a number or a point of the compass."""
        number = self._number(text)
        if number is not None:
            return number
        return compass.degrees(text)


def is_text(column: Any) -> bool:
    """Whether a column of Arrow holds text."""
    return str(column.type) in ("string", "large_string")


def as_array(column: Any) -> np.ndarray:
    """A column of Arrow as an array; that of Arrow loads pandas."""
    if is_text(column):
        return np.array(column.to_pylist(), dtype=object)
    if str(column.type) in ("float", "double") and len(column):
        return np.from_dlpack(column.combine_chunks().fill_null(np.nan))
    return column.to_numpy()


MISSING: tuple[str, ...] = (
    "",
    "na",
    "n/a",
    "nan",
    "null",
    "-",
    "--",
    "#n/a",
    "none",
    "///",
    "1.#ind",
    "#nv",
    "m",
)
MISSING += ("mq", "x", "nil")
"""How empty cells are written, in lower case."""


def _warn_of_unused(others: Mapping[str, np.ndarray], columns: Columns) -> None:
    """Warn of columns of numbers that may be the components of vectors under unknown names."""
    labels = time_labels(others)
    numeric = [
        name for name, column in others.items() if name not in labels and _holds_numbers(column)
    ]
    if len(numeric) < 2:
        return
    warn_of_data(
        f"no columns of vectors are known among {listed(numeric)}: only the points are used.",
        name_vectors("If there are vectors, name them", numeric, columns.on_globe),
    )


def _holds_numbers(column: np.ndarray) -> bool:
    """Whether a column, of numbers or of text, has numbers that do not just number the rows."""
    values = list(column[:SAMPLE])
    if column.dtype.kind not in "fiu":
        values = [value.strip() for value in values if isinstance(value, str) and value.strip()]
        if not all(NUMBER.fullmatch(value) for value in values):
            return False
        values = [float(value) for value in values]
    if not values:
        return False
    has_repeats = len({*values}) < len(values)
    return has_repeats or any(value % 1 for value in values)


# And back.


def to_tables(field: Field) -> Any:
    """The Arrow table of a field: that of its file with new numbers, or a new one; with a row for
    each place and time if there are several times."""
    import pyarrow

    origin = field.origin
    if not isinstance(origin, TableFile):
        origin = TableFile(pyarrow.table({}))
    if origin.series is not None and same_series(field, origin.series):
        return _same_rows(field, origin.table, origin.series)
    if len(field) > 1 or origin.series is not None:
        return _new_rows(field, origin)
    return _with_numbers(
        origin.table, to_columns(field, uncertainty=UNCERTAINTY), field.space.names
    )


def _with_numbers(table: Any, numbers: Mapping[str, Any], points: Sequence[str]) -> Any:
    """A table with columns of numbers, in place of those of the same name; points stay."""
    import pyarrow

    columns: dict[str, Any] = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in numbers.items():
        if name in columns and name in points:
            continue
        if name in columns and columns[name].type == pyarrow.float32():
            column = column.astype(np.float32)
        columns[name] = column
    metadata = table.schema.metadata  # such as the index of pandas
    return pyarrow.table(columns).replace_schema_metadata(metadata)


def _same_rows(field: Field, table: Any, series: LongTable) -> Any:
    """The table of a series with new numbers in its rows."""
    times, places = np.nonzero(series.rows != NO_ROW)
    rows = series.rows[times, places]
    order = np.argsort(rows)
    steps = [to_columns(field, step, uncertainty=UNCERTAINTY) for step in range(len(field))]
    numbers = {}
    for name in steps[0]:
        values = np.stack([columns[name] for columns in steps])
        numbers[name] = values[times, places][order]
    return _with_numbers(table.take(rows[order]), numbers, field.space.names)


def _new_rows(field: Field, origin: TableFile) -> Any:
    """A table with a row for each time of a field and each of its places."""
    import pyarrow

    clock = field.clock or Clock()
    places = origin.table
    if origin.series is not None:
        clock = origin.series.clock
        names = constant_columns(origin.table, origin.series)
        places = origin.table.take(origin.series.first_rows).select(names)
    assert field.times is not None
    tables = []
    for step, time in enumerate(field.times):
        numbers = to_columns(field, step, uncertainty=UNCERTAINTY)
        at_time = _with_numbers(places, numbers, field.space.names)
        dates = clock.columns(np.repeat(time, len(field.space)))
        columns = {name: pyarrow.array(cells) for name, cells in dates.items()}
        columns |= dict(zip(at_time.column_names, at_time.columns, strict=True))
        tables.append(pyarrow.table(columns))
    return pyarrow.concat_tables(tables)
