"""Results on disk, written range by range, each by one task, and put in place when all are there."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InvalidInputError
from ..files import Recognizer, check_place, is_zarr, put
from .files import Range, extra


@dataclass(frozen=True)
class Sink(ABC):
    """Rows to write, some of them at a time: each range by one task, again and again if need be."""

    path: str

    @property
    def partial(self) -> Path:
        """Where results are until all are there."""
        return Path(self.path).with_name(f".{Path(self.path).name}.partial")

    @contextlib.contextmanager
    def open(
        self, names: Sequence[str], shape: tuple[int, ...], dtype: np.dtype, ranges: Sequence[Range]
    ) -> Iterator[None]:
        """Create the output; it is put in place if the block succeeds, and removed if not."""
        try:
            self.create(names, shape, dtype, ranges)
            yield
            put(self.partial, Path(self.path))
        finally:
            shutil.rmtree(self.partial, ignore_errors=True)

    @abstractmethod
    def create(self, names: Sequence[str], shape: tuple[int, ...], dtype: np.dtype, ranges: Sequence[Range]) -> None:
        """Make room in ``partial``."""

    @abstractmethod
    def write(self, number: int, rows: Range, values: dict[str, np.ndarray]) -> None:
        """Write the range of this number."""


@dataclass(frozen=True)
class ZarrSink(Sink):
    """A Zarr group with an array for each result; a range is a chunk."""

    def create(self, names: Sequence[str], shape: tuple[int, ...], dtype: np.dtype, ranges: Sequence[Range]) -> None:
        group = extra("zarr").open_group(self.partial, mode="w")
        size = max(stop - start for start, stop in ranges)
        for name in names:
            group.create_array(name, shape=shape, chunks=(size, *shape[1:]), dtype=dtype)

    def write(self, number: int, rows: Range, values: dict[str, np.ndarray]) -> None:
        group = extra("zarr").open_group(self.partial, mode="r+")
        for name, array in values.items():
            group[name][rows[0] : rows[1]] = array


@dataclass(frozen=True)
class ParquetSink(Sink):
    """A folder of Parquet files, one a range, with a column for each component and channel of each result."""

    def create(self, names: Sequence[str], shape: tuple[int, ...], dtype: np.dtype, ranges: Sequence[Range]) -> None:
        shutil.rmtree(self.partial, ignore_errors=True)
        self.partial.mkdir()

    def write(self, number: int, rows: Range, values: dict[str, np.ndarray]) -> None:
        arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
        columns = {}
        for name, array in values.items():
            for place in np.ndindex(array.shape[1:]):
                columns["_".join([name, *map(str, place)])] = np.ascontiguousarray(array[(slice(None), *place)])
        target = self.partial / f"rows-{number:06d}.parquet"
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        parquet.write_table(arrow.table(columns), beside)
        beside.replace(target)


def is_parquet_folder(path: Path) -> bool:
    """Whether a folder holds Parquet files and nothing else."""
    return path.is_dir() and all(file.suffix == ".parquet" for file in path.iterdir())


def sink_for(path: str | os.PathLike, *, overwrite: bool = False) -> Sink:
    """Where results go, by the suffix; an existing output is replaced with ``overwrite``, all else is refused."""
    place, suffix = Path(path).expanduser(), Path(path).suffix.lower()
    kinds: dict[str, tuple[type[Sink], Recognizer]]
    kinds = {".zarr": (ZarrSink, is_zarr), ".parquet": (ParquetSink, is_parquet_folder)}
    if suffix not in kinds:
        raise InvalidInputError(f"results go to .zarr or .parquet, got {place.name}. Change the suffix.")
    kind, recognize = kinds[suffix]
    return kind(str(check_place(place, recognize, overwrite=overwrite)))
