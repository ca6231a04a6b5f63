"""Parquet, read and written by Arrow."""

from __future__ import annotations

from pathlib import Path

from ..errors import DamagedFileError
from ..memory import require_memory
from .columns import find_columns
from .field import Field, Request
from .tables import check_distinct, from_table, to_tables

BYTES_PER_CELL = 16.0
"""Memory for a number while a table is read."""


def read(path: Path, request: Request) -> Field:
    """A field from a Parquet file."""
    import pyarrow.parquet

    try:
        known = pyarrow.parquet.read_metadata(path)
        require_memory(
            BYTES_PER_CELL * known.num_rows * known.num_columns,
            f"the table {path.name}",
            "Split it, or sample rows.",
        )
        table = pyarrow.parquet.read_table(path)
    except (ValueError, OSError, LookupError, RuntimeError, NotImplementedError) as error:
        raise DamagedFileError(
            f"{path.name} is not a readable Parquet file ({str(error).splitlines()[0]})."
        ) from error
    names = [name.strip() for name in table.column_names]
    check_distinct(names, path)
    table = table.rename_columns(names).replace_schema_metadata(table.schema.metadata)
    return from_table(table, path, find_columns(names, request), request)


def write(field: Field, path: Path) -> None:
    """A Parquet file."""
    import pyarrow.parquet

    pyarrow.parquet.write_table(to_tables(field), path)
