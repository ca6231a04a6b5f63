"""Results on disk, written range by range, each by one task, and put in place when all are there."""

from __future__ import annotations

import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InvalidInputError
from ..files import check_place
from .files import Range, extra


class Sink(ABC):
    """Rows to write, some of them at a time: each range by one task, again and again if need be."""

    @abstractmethod
    def create(self, names: Sequence[str], shape: tuple[int, ...], dtype: np.dtype, ranges: Sequence[Range]) -> None:
        """Make room, beside the final place."""

    @abstractmethod
    def write(self, number: int, rows: Range, values: dict[str, np.ndarray]) -> None:
        """Write the range of this number."""

    @abstractmethod
    def finish(self) -> None:
        """Put all in place."""


def _partial(path: str) -> Path:
    return Path(path).with_name(f".{Path(path).name}.partial")


def _put(path: str) -> None:
    """The folder of results to its place; an older one steps aside first and then goes."""
    target, old = Path(path), Path(path).with_name(f".{Path(path).name}.{uuid.uuid4().hex}")
    if target.exists():
        target.replace(old)
    _partial(path).replace(target)
    shutil.rmtree(old, ignore_errors=True)


@dataclass(frozen=True)
class ZarrSink(Sink):
    """A Zarr group with an array for each result."""

    path: str

    def create(self, names: Sequence[str], shape: tuple[int, ...], dtype: np.dtype, ranges: Sequence[Range]) -> None:
        zarr = extra("zarr")
        group = zarr.open_group(_partial(self.path), mode="w")
        size = max(stop - start for start, stop in ranges)
        for name in names:
            group.create_array(name, shape=shape, chunks=(size, *shape[1:]), dtype=dtype)

    def write(self, number: int, rows: Range, values: dict[str, np.ndarray]) -> None:
        group = extra("zarr").open_group(_partial(self.path), mode="r+")
        for name, array in values.items():
            group[name][rows[0] : rows[1]] = array

    def finish(self) -> None:
        _put(self.path)


@dataclass(frozen=True)
class ParquetSink(Sink):
    """A folder of Parquet files, one a range, with a column for each component and channel of each result."""

    path: str

    def create(self, names: Sequence[str], shape: tuple[int, ...], dtype: np.dtype, ranges: Sequence[Range]) -> None:
        shutil.rmtree(_partial(self.path), ignore_errors=True)
        _partial(self.path).mkdir(parents=True)

    def write(self, number: int, rows: Range, values: dict[str, np.ndarray]) -> None:
        arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
        columns = {}
        for name, array in values.items():
            for place in np.ndindex(array.shape[1:]):
                columns["_".join([name, *map(str, place)])] = np.ascontiguousarray(array[(slice(None), *place)])
        target = _partial(self.path) / f"rows-{number:06d}.parquet"
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        parquet.write_table(arrow.table(columns), beside)
        beside.replace(target)

    def finish(self) -> None:
        _put(self.path)


def sink_for(path: str | os.PathLike) -> Sink:
    """Where results go, by the suffix."""
    text, suffix = str(Path(path).expanduser().absolute()), Path(path).suffix.lower()
    kinds: dict[str, type] = {".zarr": ZarrSink, ".parquet": ParquetSink}
    if suffix not in kinds:
        raise InvalidInputError(f"results go to .zarr or .parquet, got {Path(path).name}. Change the suffix.")
    if not Path(text).is_dir():
        check_place(Path(text))
    return kinds[suffix](text)
