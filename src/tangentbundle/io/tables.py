"""Fields from Arrow tables, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DamagedFileError, InvalidInputError
from .checks import warn_of_data
from .columns import (
    NUMBER,
    Columns,
    from_columns,
    name_vectors,
    real,
    time_labels,
    to_columns,
)
from .field import Field, Request
from .names import listed

SAMPLE = 100
"""Rows that say what a column holds."""


def check_distinct(names: list[str], path: Path) -> None:
    """Refuse a table with two columns of one name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidInputError(
            f"{path.name} has several columns called {repeated[0]!r}. Rename them."
        )


def from_table(table: Any, path: Path, columns: Columns, request: Request) -> Field:
    """The field of an Arrow table, with the columns of points and vectors."""
    if not len(table):
        raise DamagedFileError(
            f"{path.name} has names of columns, but no rows. Give at least three points."
        )
    others = {
        name: table[name].to_numpy() for name in table.column_names if name not in columns.numeric
    }
    if not (columns.vectors or request.only_points):
        _warn_of_unused(others, columns)

    def column(name: str) -> np.ndarray:
        return real(table[name].to_numpy(), name, table[name].type)

    field, rows = from_columns(column, columns, request, others)
    if rows is not None:
        table = table.take(rows)
    return replace(field, origin=table)


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
        name_vectors("If there are vectors, name them", columns.on_globe),
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


def to_table(field: Field) -> Any:
    """The Arrow table of a field: that of its file with new numbers, or a new one."""
    import pyarrow

    table = field.origin if isinstance(field.origin, pyarrow.Table) else pyarrow.table({})
    columns: dict[str, Any] = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in to_columns(field).items():
        if name in columns and name in field.space.names:
            continue
        if name in columns and columns[name].type == pyarrow.float32():
            column = column.astype(np.float32)
        columns[name] = column
    metadata = table.schema.metadata  # such as the index of pandas
    return pyarrow.table(columns).replace_schema_metadata(metadata)
