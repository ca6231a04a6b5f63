"""Columns that say when rows were measured: dates in the ways that people write them.

A ``Clock`` knows the columns and how they are written, so that later times can be written alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from .names import name_key
from .series import are_dates
from .vocabulary import names_of

DAYS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y.%m.%d")
HOURS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", "T%H:%MZ", "T%H:%M:%SZ", ", %H:%M")
TOGETHER = ("%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y%m%d", "%Y%m%dT%H%M", "%Y%m%d:%H%M")
DATE_FORMATS = (*TOGETHER, *(day + hour for day in DAYS for hour in HOURS))
"""How dates are written; of several that fit, the first."""

CLOCK_FORMATS = ("%H:%M", "%H:%M:%S", "%H%M", "%H")
"""How times of day are written."""

CALENDAR = {"year": "%Y", "month": "%m", "day": "%d", "hour": "%H", "minute": "%M"}
"""Columns of a date in several columns, and their formats."""

DAY_OR_MONTH = ("%d/%m/%Y", "%d-%m-%Y")
"""Formats in which day and month may have changed places."""

DIGITS = {"%Y%m%d%H": 10, "%Y%m%d%H%M": 12, "%Y%m%d%H%M%S": 14, "%Y%m%d": 8}
"""How long dates without signs are: Python reads shorter ones, too."""

WHOLE = re.compile(r"\d+(?:\.0+)?")


@dataclass(frozen=True)
class Clock:
    """The columns of a table that say when a row was measured.

    Args:
        names: of the columns.
        formats: how each is written, as for ``strftime``; empty for columns of dates.
        is_padded: whether numbers have leading zeros.

    >>> times = np.array(["2026-01-31T06:00"], "datetime64[s]")
    >>> Clock(("Datum", "Uhrzeit"), ("%d.%m.%Y", "%H:%M")).columns(times)
    {'Datum': ['31.01.2026'], 'Uhrzeit': ['06:00']}
    """

    names: tuple[str, ...] = ("time",)
    formats: tuple[str, ...] = ("%Y-%m-%dT%H:%M:%S",)
    is_padded: bool = True

    def columns(self, times: np.ndarray) -> dict[str, list | np.ndarray]:
        """The columns of times ``(n,)``."""
        dates = times.astype("datetime64[s]").tolist()
        columns: dict[str, list | np.ndarray] = {}
        for name, date_format in zip(self.names, self.formats, strict=True):
            if not date_format:
                columns[name] = times.astype("datetime64[us]")
                continue
            texts = [date.strftime(date_format) for date in dates]
            if not self.is_padded:
                texts = [text.lstrip("0") or "0" for text in texts]
            columns[name] = texts
        return columns


@dataclass(frozen=True, eq=False)
class DatedRows:
    """The clock of a table, and the time of each row ``(n,)``, NaT where it has none."""

    clock: Clock
    times: np.ndarray

    @property
    def is_day_first(self) -> bool:
        """Whether day and month could have changed places."""
        return any(self.clock.formats[0].startswith(day) for day in DAY_OR_MONTH)


def find_dates(columns: Mapping[str, np.ndarray]) -> DatedRows | None:
    """The times of rows, from the columns ``(n,)`` of a table; None if it has none.

    >>> table = {"Datum": np.array(["31.01.2026", "01.02.2026"]), "Stunde": np.array(["6", "18"])}
    >>> find_dates(table).times.tolist()[1].isoformat()
    '2026-02-01T18:00:00'
    """
    keys = {name_key(name): name for name in reversed([*columns])}
    for name, column in columns.items():
        if column.dtype.kind == "M":
            return DatedRows(Clock((name,), ("",)), column.astype("datetime64[s]"))
    named = [keys[name] for name in names_of("date") if name in keys]
    others = [name for name, column in columns.items() if are_dates(column)]
    for name in dict.fromkeys([*named, *others]):
        dates = _dates_in(name, columns, keys)
        if dates is not None:
            return dates
    return _calendar(columns, keys)


def _dates_in(
    name: str, columns: Mapping[str, np.ndarray], keys: Mapping[str, str]
) -> DatedRows | None:
    """The times of rows from a column of dates, and one of times of day if there is one."""
    texts = _texts(columns[name])
    date_format = _format_of(texts, DATE_FORMATS)
    if not date_format:
        return None
    if "%H" not in date_format:
        for clock_name in names_of("clock"):
            if clock_name not in keys or keys[clock_name] == name:
                continue
            clock = keys[clock_name]
            hours = _texts(columns[clock])
            clock_format = _format_of(hours, CLOCK_FORMATS)
            if clock_format:
                both = [f"{day} {hour}" for day, hour in zip(texts, hours, strict=True)]
                times = _parsed(both, f"{date_format} {clock_format}")
                return DatedRows(Clock((name, clock), (date_format, clock_format)), times)
    return DatedRows(Clock((name,), (date_format,)), _parsed(texts, date_format))


def _calendar(columns: Mapping[str, np.ndarray], keys: Mapping[str, str]) -> DatedRows | None:
    """The times of rows from columns of years, months, days and hours."""
    names = []
    for part in CALENDAR:
        known = [keys[name] for name in names_of(part) if name in keys]
        if not known:
            break
        names.append(known[0])
    if len(names) < 3:
        return None
    formats = tuple(CALENDAR.values())[: len(names)]
    texts = [_texts(columns[name]) for name in names]
    joined = [" ".join(cells) for cells in zip(*texts, strict=True)]
    date_format = _format_of(joined, (" ".join(formats),))
    if not date_format:
        return None
    is_padded = not any(len(text) == 1 for text in texts[1])
    return DatedRows(Clock(tuple(names), formats, is_padded), _parsed(joined, date_format))


def _texts(column: np.ndarray) -> list[str]:
    """The cells of a column as text, whole numbers without a fraction."""
    texts = ["" if cell is None else str(cell).strip() for cell in column.tolist()]
    return [text.partition(".")[0] if WHOLE.fullmatch(text) else text for text in texts]


def _format_of(texts: Sequence[str], formats: Sequence[str]) -> str:
    """The first format in which all texts are dates; empty if there is none."""
    distinct = {text for text in texts if text}
    if not distinct:
        return ""
    for date_format in formats:
        length = DIGITS.get(date_format)
        if length is not None and any(len(text) != length for text in distinct):
            continue
        if all(_date(text, date_format) is not None for text in distinct):
            return date_format
    return ""


def _date(text: str, date_format: str) -> datetime | None:
    """The date that a text is in a format; None if it is none."""
    try:
        return datetime.strptime(text, date_format).replace(tzinfo=UTC)
    except ValueError:
        return None


def _parsed(texts: Sequence[str], date_format: str) -> np.ndarray:
    """Times ``(n,)``; NaT for what is no date."""
    dates = {text: _date(text, date_format) for text in set(texts)}
    seconds = {
        text: np.datetime64("NaT") if date is None else np.datetime64(date.replace(tzinfo=None))
        for text, date in dates.items()
    }
    return np.array([seconds[text] for text in texts], "datetime64[s]")
