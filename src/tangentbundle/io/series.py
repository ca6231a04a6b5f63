"""Columns that tell rows at one place apart: times, levels and the like."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping

import numpy as np

DATE = re.compile(r"\d{4}[-/.]?\d{2}[-/.]?\d{2}([T ].*)?$|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}")
"""How text begins that is a date: 2026-01-31, 20260131, 31.1.2026."""


def series_column(
    columns: Mapping[str, np.ndarray], before: np.ndarray, after: np.ndarray
) -> str | None:
    """The column ``(n,)`` that tells rows of one place apart, ``before`` and ``after`` in pairs;
    None if there is none.

    Of several it is one that differs in all pairs, then one of dates, then that of the fewest
    values, as times and levels have few.

    >>> columns = {"speed": np.array([3.1, 2.2, 3.7]), "level": np.array([850, 850, 500])}
    >>> series_column(columns, np.array([0]), np.array([2]))
    'level'
    """
    differences = {
        name: _differ(column[before], column[after])
        for name, column in columns.items()
        if all(isinstance(value, Hashable) for value in column.tolist())
    }
    candidates = [name for name, differs in differences.items() if differs.any()]

    def preference(name: str) -> tuple[bool, bool, int]:
        column = columns[name]
        return not differences[name].all(), not are_dates(column), len({*column.tolist()})

    return min(candidates, key=preference, default=None)


def _differ(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Where two columns differ and no value is missing."""
    return (first != second) & _is_there(first) & _is_there(second)


def _is_there(column: np.ndarray) -> np.ndarray:
    """Where a column of any type has a value."""
    if column.dtype.kind == "O":
        return np.array(
            [value is not None and value == value and value != "" for value in column], bool
        )
    return column == column


def numbers_the_rows(column: np.ndarray) -> bool:
    """Whether a column of numbers, or of their text, counts the rows: 0, 1, 2 or 7, 8, 9.

    >>> numbers_the_rows(np.array(["7", "8", "9"])), numbers_the_rows(np.array([0, 6, 12]))
    (True, False)
    """
    if column.dtype.kind == "M":
        return False
    try:
        numbers = column.astype(float)
    except (TypeError, ValueError):
        return False
    return bool(np.all(np.diff(numbers) == 1))


def are_dates(array: np.ndarray) -> bool:
    """Whether an array holds dates, or text that begins with dates."""
    if array.dtype.kind not in "OUT":
        return array.dtype.kind == "M"
    texts = [str(value) for value in array[:20] if value is not None and str(value).strip()]
    return bool(texts) and all(DATE.match(text.strip()) for text in texts)
