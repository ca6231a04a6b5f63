"""Tables with a row for each place and time: series of fields, some of whose measurements may be
missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InvalidInputError, Note, Remedy
from .clocks import Clock, DatedRows
from .field import Field, Request

MIN_STATIONS = 3
"""Fewest measurements at a time of which a field can be made."""

SAME_STATION_SHARE = 0.01
"""Of the usual distance between neighbouring places: nearer ones may be one station."""

NO_ROW = -1
"""Where there is no row of a place at a time."""


@dataclass(frozen=True, eq=False)
class LongTable:
    """Where the measurements of a series are in its table.

    Args:
        clock: how its times are written.
        times: ``(T,)``.
        rows: the row of each time and place ``(T, n)``, ``NO_ROW`` where there is none.
    """

    clock: Clock
    times: np.ndarray
    rows: np.ndarray

    @property
    def first_rows(self) -> np.ndarray:
        """The first row of each place ``(n,)``."""
        rows = np.where(self.rows == NO_ROW, np.iinfo(self.rows.dtype).max, self.rows)
        return rows.min(axis=0)


def places_repeat(coordinates: np.ndarray, dates: DatedRows) -> bool:
    """Whether some places ``(n, k)`` come several times, at different times."""
    known = np.isfinite(coordinates).all(axis=1) & ~np.isnat(dates.times)
    places = len(np.unique(coordinates[known], axis=0))
    times = len(np.unique(dates.times[known]))
    return times > 1 and places < known.sum()


def series_of(rows_field: Field, dates: DatedRows, request: Request) -> tuple[Field, LongTable]:
    """The fields of all times of a table, from one field ``(1, rows, c)`` of all its rows.

    Measurements that are missing are interpolated in time, for computations that need all;
    ``Field.observed`` says which are there.
    """
    assert rows_field.rows is not None
    row_times = dates.times[rows_field.rows]
    dated = np.flatnonzero(~np.isnat(row_times))
    place_of, first = _numbered(rows_field.space.places[dated])
    times, time_of = np.unique(row_times[dated], return_inverse=True)
    n = len(first)
    cells, position = np.unique(time_of * n + place_of, return_index=True)
    _refuse_repeats(rows_field, dated, position, request)
    row_of_cell = np.full(len(times) * n, NO_ROW)
    row_of_cell[cells] = dated[position]
    rows = row_of_cell.reshape(len(times), n)
    enough = (rows != NO_ROW).sum(axis=1) >= MIN_STATIONS
    if not enough.any():
        raise InvalidInputError(
            f"the table has {len(times)} times, but none with measurements at {MIN_STATIONS} or "
            "more places.",
            "Round the times, so that measurements of one hour have one time.",
        )
    rows = rows[enough]
    times = times[enough]
    notes = [*rows_field.notes, *_notes(times, rows, dates, int((~enough).sum()))]
    values = None
    if rows_field.values is not None:
        values = _filled(rows_field.values[0], rows, times)
    noise = None
    if rows_field.noise is not None:
        noise = _mean_noise(rows_field.noise, rows)
    observed = rows != NO_ROW
    space = rows_field.space.select(dated[first])
    notes += _moved_stations(space.points, observed, rows_field.rows[dated[first]])
    field = replace(
        rows_field,
        space=space,
        values=values,
        times=times,
        observed=None if observed.all() else observed,
        rows=rows_field.rows[dated[first]],
        noise=noise,
        clock=dates.clock,
        notes=tuple(notes),
    )
    in_table = np.where(observed, rows_field.rows[rows], NO_ROW)
    return field, LongTable(dates.clock, times, in_table)


def _numbered(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of the place of each row ``(rows,)``, by first appearance, and the first row of
    each place."""
    _, first, inverse = np.unique(places, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[inverse.ravel()], first[order]


def _refuse_repeats(
    rows_field: Field, dated: np.ndarray, position: np.ndarray, request: Request
) -> None:
    """Refuse tables with several rows of one place and time, unless ``drop_duplicates``."""
    if len(position) == len(dated) or request.drop_duplicates:
        return
    later = np.setdiff1d(dated, dated[position])
    assert rows_field.rows is not None
    raise InvalidInputError(
        f"{len(later)} rows have the same place and time as an earlier one (first: row "
        f"{rows_field.rows[later[0]] + 1}), such as several levels.",
        Remedy(
            "Choose one level before, or keep the first of each with {drop_duplicates}.",
            drop_duplicates=True,
        ),
    )


def _notes(times: np.ndarray, rows: np.ndarray, dates: DatedRows, dropped: int) -> list[Note]:
    """What the table was taken for."""
    names = ", ".join(dates.clock.names)
    count = int((rows != NO_ROW).sum())
    text = f"series: {count} rows are {len(times)} times (column {names}) at {rows.shape[1]} places"
    if dates.is_day_first:
        text += "; dates are day, month, year"
    notes = [Note(text)]
    missing = rows.size - count
    if missing:
        notes.append(
            Note(
                f"{missing} of {rows.size} measurements are missing: they are left out where "
                "fields are estimated, and interpolated in time for forecasts and the like"
            )
        )
    if dropped:
        notes.append(Note(f"{dropped} times with fewer than {MIN_STATIONS} places left out"))
    return notes


def _moved_stations(points: np.ndarray, observed: np.ndarray, first_rows: np.ndarray) -> list[Note]:
    """A note on pairs of places ``(n, D)`` that are close and have no time in common.

    They may be one station whose coordinates are not the same in all rows. ``observed`` is
    ``(T, n)``, ``first_rows`` (n,) of the file.
    """
    from scipy.spatial import cKDTree  # mistakes are refused before it is loaded

    if len(points) <= MIN_STATIONS:
        return []
    distances, neighbors = cKDTree(points).query(points, 2)
    usual = np.median(distances[:, 1])
    for place in np.flatnonzero(distances[:, 1] < SAME_STATION_SHARE * usual):
        other = neighbors[place, 1]
        if (observed[:, place] & observed[:, other]).any():
            continue
        pair = sorted([int(first_rows[place]) + 1, int(first_rows[other]) + 1])
        return [
            Note(
                f"the places of rows {pair[0]} and {pair[1]} are close to each other and have no "
                "time in common: perhaps they are one station, whose coordinates differ between "
                "rows"
            )
        ]
    return []


def _filled(row_values: np.ndarray, rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Values ``(T, n, c)`` from those of rows; missing ones are interpolated in time."""
    values = row_values[rows]
    seconds = times.astype("datetime64[s]").astype(float)
    for place in np.flatnonzero((rows == NO_ROW).any(axis=0)):
        there = rows[:, place] != NO_ROW
        for component in range(values.shape[2]):
            series = values[there, place, component]
            values[:, place, component] = np.interp(seconds, seconds[there], series)
    return values


def _mean_noise(noise: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The root mean square ``(n,)`` of the standard errors of each place."""
    squares = np.where(rows == NO_ROW, 0.0, np.square(noise[rows]))
    return np.sqrt(squares.sum(axis=0) / (rows != NO_ROW).sum(axis=0))


# And back.


def same_series(field: Field, series: LongTable) -> bool:
    """Whether a field has the times and places of a table."""
    if field.times is None or len(field.space) != series.rows.shape[1]:
        return False
    return np.array_equal(field.times, series.times)


def constant_columns(table: Any, series: LongTable) -> list[str]:
    """The columns that say something of a place, such as its name: one value at all times."""
    names = []
    first = series.first_rows
    for name in table.column_names:
        if name in series.clock.names:
            continue
        cells = np.array(table[name].to_pylist(), dtype=object)
        at_first = np.broadcast_to(cells[first], series.rows.shape)
        there = series.rows != NO_ROW
        if (cells[series.rows[there]] == at_first[there]).all():
            names.append(name)
    return names
