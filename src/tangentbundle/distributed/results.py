"""Results on disk, written by many tasks, each a range of rows, and renamed into place when all are there."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from ..errors import InvalidInputError
from ..files import Recognizer, check_place, is_zarr, replacing
from .tasks import extra


def _is_parquet_folder(path: Path) -> bool:
    return path.is_dir() and all(file.suffix == ".parquet" for file in path.iterdir())


def _recognizer(path: Path) -> Recognizer:
    kinds: dict[str, Recognizer] = {".zarr": is_zarr, ".parquet": _is_parquet_folder}
    if path.suffix.lower() not in kinds:
        raise InvalidInputError(f"results go to .zarr or .parquet, got {path.name}. Change the suffix.")
    return kinds[path.suffix.lower()]


def check_output(path: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Refuse, before any work, an output of an unknown format, or one that cannot or must not be written."""
    place = Path(path).expanduser()
    check_place(place, _recognizer(place), overwrite=overwrite)


@contextlib.contextmanager
def new_output(
    path: str | os.PathLike,
    names: Iterable[str],
    shape: tuple[int, ...],
    dtype: np.dtype | type,
    rows: int,
    *,
    overwrite: bool = False,
) -> Iterator[Path]:
    """A Zarr group with an array for each name, written ``rows`` at a time, or a folder with Parquet files for ranges
    of rows; it becomes ``path`` if the block succeeds.
    """
    target = Path(path).expanduser()
    with replacing(target, _recognizer(target), overwrite=overwrite) as place:
        if target.suffix.lower() == ".zarr":
            group = extra("zarr").open_group(place, mode="w")
            for name in names:
                group.create_array(name, shape=shape, chunks=(rows, *shape[1:]), dtype=dtype)
        else:
            place.mkdir()
        yield place


def write_rows(place: Path, start: int, values: Mapping[str, np.ndarray]) -> None:
    """Write consecutive rows from ``start`` of all results of a new output; may be repeated."""
    if place.suffix.lower() == ".zarr":
        group = extra("zarr").open_group(place, mode="r+")
        for name, rows in values.items():
            group[name][start : start + len(rows)] = rows
        return
    columns = {
        "_".join([name, *map(str, index)]): np.ascontiguousarray(rows[(slice(None), *index)])
        for name, rows in values.items()
        for index in np.ndindex(rows.shape[1:])
    }
    target = place / f"rows-{start:012d}.parquet"
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    extra("pyarrow.parquet").write_table(extra("pyarrow").table(columns), partial)
    partial.replace(target)
