"""Large arrays on disk, read by ranges of rows; and small ones that are whole or not there."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .. import extras
from ..errors import DTypeError, InvalidInputError, MissingColumnsError, ShapeError, UnitsError

Range = tuple[int, int]
"""First row and the row after the last."""

extra = partial(extras.extra, purpose="Filtering large clouds", group="cluster")
"""Import a package of the extra ``cluster``."""


def save_array(path: Path, array: np.ndarray) -> None:
    """Write a ``.npy`` file beside its place, then put it there: others see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    place = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with place.open("wb") as file:
            np.save(file, array)
        place.replace(path)
    finally:
        place.unlink(missing_ok=True)


def load_array(path: Path) -> np.ndarray:
    """A ``.npy`` file, mapped: only what is looked at is read."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


class Source(ABC):
    """Rows on disk: points ``(n, D)`` or vectors ``(n, D)`` or ``(n, D, c)``."""

    path: str

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def dtype(self) -> np.dtype: ...

    @abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows ``start`` to ``stop``."""

    @property
    def unit(self) -> int:
        """Rows that are read together."""
        return 1

    def ranges(self, size: int) -> list[Range]:
        """Consecutive ranges of about ``size`` rows, equal but for the last, cut between small units."""
        unit = self.unit if self.unit <= size else 1
        length, rows = unit * max(1, size // unit), self.shape[0]
        return [(a, min(a + length, rows)) for a in range(0, rows, length)]

    def check(self, name: str, dims: Sequence[int]) -> None:
        if len(self.shape) not in dims or 0 in self.shape[1:]:
            wanted = " or ".join({2: "(n, D)", 3: "(n, D, channels)"}[k] for k in dims)
            raise ShapeError(f"{name} must have shape {wanted}, got {self.shape} in {self.path}.")
        if self.dtype.kind not in "fiu" or self.dtype == np.float16 or self.dtype.itemsize > 8:
            raise DTypeError(f"{name} must hold numbers in float32 or float64, got {self.dtype} in {self.path}.")


@dataclass(frozen=True)
class NpyArray(Source):
    """A ``.npy`` file."""

    path: str

    @cached_property
    def _array(self) -> np.ndarray:
        try:
            return load_array(Path(self.path))
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{self.path} is no readable .npy file of numbers ({error}).") from error

    def __getstate__(self) -> dict:
        return {"path": self.path}

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        return self._array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.array(self._array[start:stop])


@dataclass(frozen=True)
class ZarrArray(Source):
    """An array of a Zarr group, or several one-dimensional ones side by side as columns."""

    path: str
    names: str | tuple[str, ...]

    @cached_property
    def _arrays(self) -> list[Any]:
        zarr = extra("zarr")
        try:
            group = zarr.open_group(self.path, mode="r")
        except (OSError, ValueError, KeyError) as error:
            raise InvalidInputError(f"{self.path} is no readable Zarr group ({error}).") from error
        names = [self.names] if isinstance(self.names, str) else list(self.names)
        missing = [name for name in names if name not in group]
        if missing:
            raise MissingColumnsError(f"{self.path} has no array {missing[0]!r}; it has {sorted(group.array_keys())}.")
        arrays = [group[name] for name in names]
        if len({a.shape for a in arrays}) > 1 or (not isinstance(self.names, str) and arrays[0].ndim != 1):
            raise ShapeError(f"columns must be one-dimensional and equally long, got {[a.shape for a in arrays]}.")
        if any({"scale_factor", "add_offset", "missing_value"} & {*a.attrs} for a in arrays):
            raise InvalidInputError(f"arrays of {self.path} are packed (scale_factor). Write plain numbers first.")
        if len(units := {str(a.attrs["units"]) for a in arrays if "units" in a.attrs}) > 1:
            raise UnitsError(f"columns must have one unit, got {', '.join(sorted(units))}. Convert them first.")
        return arrays

    def __getstate__(self) -> dict:
        return {"path": self.path, "names": self.names}

    @property
    def exists(self) -> bool:
        try:
            return bool(self._arrays)
        except MissingColumnsError:
            return False

    @property
    def shape(self) -> tuple[int, ...]:
        first = self._arrays[0].shape
        return first if isinstance(self.names, str) else (*first, len(self.names))

    @property
    def dtype(self) -> np.dtype:
        return np.result_type(*(a.dtype for a in self._arrays))

    @property
    def unit(self) -> int:
        return self._arrays[0].chunks[0]

    def read(self, start: int, stop: int) -> np.ndarray:
        parts = [a[start:stop] for a in self._arrays]
        for part, fill in zip(parts, (a.fill_value for a in self._arrays), strict=True):
            if fill and part.dtype.kind == "f":
                part[part == fill] = np.nan
        return parts[0] if isinstance(self.names, str) else np.stack(parts, axis=1)


@dataclass(frozen=True)
class ParquetColumns(Source):
    """Columns of a Parquet file, or of a folder of them, side by side; ``channels`` columns make one component."""

    path: str
    names: tuple[str, ...]
    channels: int | None = None

    @cached_property
    def _groups(self) -> list[tuple[Path, int, int]]:
        """File, number and rows of each group of rows."""
        parquet, place = extra("pyarrow.parquet"), Path(self.path)
        files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        try:
            known = [parquet.ParquetFile(file).metadata for file in files]
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{self.path} holds no readable Parquet file ({error}).") from error
        if not known:
            raise InvalidInputError(f"{self.path} is a folder without Parquet files.")
        missing = [name for name in self.names if name not in known[0].schema.names]
        if missing:
            raise MissingColumnsError(f"{self.path} has no column {missing[0]!r}; it has {known[0].schema.names}.")
        return [
            (file, group, meta.row_group(group).num_rows)
            for file, meta in zip(files, known, strict=True)
            for group in range(meta.num_row_groups)
        ]

    def __getstate__(self) -> dict:
        return {"path": self.path, "names": self.names, "channels": self.channels}

    @property
    def shape(self) -> tuple[int, ...]:
        rows = sum(group[2] for group in self._groups)
        return (
            (rows, len(self.names))
            if self.channels is None
            else (rows, len(self.names) // self.channels, self.channels)
        )

    @cached_property
    def dtype(self) -> np.dtype:
        schema = extra("pyarrow.parquet").read_schema(self._groups[0][0])
        return np.result_type(*(schema.field(name).type.to_pandas_dtype() for name in self.names))

    def read(self, start: int, stop: int) -> np.ndarray:
        parquet, parts = extra("pyarrow.parquet"), []
        borders = [0, *np.cumsum([group[2] for group in self._groups]).tolist()]
        for (file, group, _), (a, b) in zip(self._groups, pairwise(borders), strict=True):
            if a < stop and b > start:
                table = parquet.ParquetFile(file).read_row_group(group, columns=list(self.names))
                columns = [table.column(name).to_numpy() for name in self.names]
                parts.append(np.stack(columns, axis=1)[max(start - a, 0) : stop - a])
        rows = np.concatenate(parts)
        return rows.reshape(len(rows), *self.shape[1:])
