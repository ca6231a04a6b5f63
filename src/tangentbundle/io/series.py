"""Series in tables: one row for each time and place, in any order, gathered to fields over the same places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..errors import InvalidInputError
from .columns import assemble, with_errors
from .field import Field, Request, distinct_places
from .names import Columns


@dataclass(frozen=True, eq=False)
class Series:
    """Where a table has each time and place: row numbers ``(T, n)``; its column of times, and these ``(T,)``."""

    name: str
    times: np.ndarray
    rows: np.ndarray

    def labels(self, count: int) -> np.ndarray:
        """Times of a series without dates: its own, or as many more."""
        if count == len(self.rows):
            return self.times
        return self.times[-1] + (self.times[-1] - self.times[-2]) * np.arange(1, count + 1)


def from_series(
    column: Callable[[str], np.ndarray], times: np.ndarray | None, columns: Columns, request: Request
) -> tuple[Field, Series] | None:
    """The fields of a table by time; None if no place occurs at two times, as in a single field.

    Places that lack some of the times are refused, or left out with ``drop_missing``.
    """
    assert columns.time is not None
    if times is None or len(dates := np.unique(times)) < 2:
        return None
    coordinates = np.stack([column(name) for name in columns.points], axis=1)
    first, place = distinct_places(coordinates)
    if len(first) == len(coordinates):
        return None
    cell = np.searchsorted(dates, times) * len(first) + place
    if len(once := np.unique(cell, return_index=True)[1]) < len(cell):
        row = np.setdiff1d(np.arange(len(cell)), once)[0]
        raise InvalidInputError(
            f"row {row + 1} repeats the time and place of an earlier one; a series has each place once at each time. "
            f"Correct column {columns.time}, or delete one of the rows."
        )
    rows = np.full((len(dates), len(first)), -1)
    rows.flat[cell] = np.arange(len(cell))
    full: np.ndarray = np.all(rows >= 0, axis=0)
    notes = [f"times: column {columns.time}, {'in order' if dates.dtype.kind != 'M' else 'dates'}"]
    if not full.all():
        if not request.drop_missing:
            short = int(np.flatnonzero(~full)[0])
            raise InvalidInputError(
                f"{int((~full).sum())} of {len(full)} places lack some of the {len(dates)} times (first: that of row "
                f"{first[short] + 1}). Fill the gaps, or leave these places out with drop_missing=True."
            )
        notes.append(f"{int((~full).sum())} of {len(full)} places that lack some times left out")
        rows, first = rows[:, full], first[full]
    values = None
    if columns.vectors:
        values = np.stack([column(name) for name in columns.wind or columns.vectors], axis=-1)[rows]
    field, used = assemble(coordinates[first], values, columns, request)
    rows = rows if used is None else rows[:, used]
    field = with_errors(field, lambda name: column(name)[rows], columns)
    known = dates if dates.dtype.kind == "M" and values is not None else None
    return replace(field, times=known, notes=(*field.notes, *notes)), Series(columns.time, dates, rows)
