"""Large arrays on disk, read by ranges of rows; and small ones, written atomically."""

from __future__ import annotations

import hashlib
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from ..errors import DTypeError, InvalidInputError, MissingColumnsError, ShapeError, UnitsError
from .tasks import extra

Range = tuple[int, int]
"""First row and the row after the last."""


def save_array(path: Path, array: np.ndarray) -> None:
    """Write a ``.npy`` file under another name, then rename it: others see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    place = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with place.open("wb") as file:
            np.save(file, array)
        place.replace(path)
    finally:
        place.unlink(missing_ok=True)


def load_array(path: Path) -> np.ndarray:
    """A ``.npy`` file, memory-mapped."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


Opened = tuple[tuple[int, ...], np.dtype, Callable[[int, int], np.ndarray]]
"""Shape and dtype of an open file, and a function of ``start`` and ``stop`` that reads these rows."""


@dataclass(frozen=True)
class Source(ABC):
    """Rows on disk: points ``(n, D)`` or vectors ``(n, D)`` or ``(n, D, c)``."""

    path: str | os.PathLike

    def __post_init__(self) -> None:
        place = Path(self.path).expanduser().absolute()
        if not place.exists():
            raise InvalidInputError(f"there is no file {place}. Check the path.")
        object.__setattr__(self, "path", str(place))

    def __getstate__(self) -> dict:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # workers open the file themselves

    @abstractmethod
    def open(self) -> Opened: ...

    @cached_property
    def _opened(self) -> Opened:
        return self.open()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._opened[0]

    @property
    def dtype(self) -> np.dtype:
        return self._opened[1]

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows ``start`` to ``stop``."""
        return self._opened[2](start, stop)

    def check(self, name: str, dims: Sequence[int]) -> None:
        if len(self.shape) not in dims or 0 in self.shape[1:]:
            wanted = " or ".join({2: "(n, D)", 3: "(n, D, channels)"}[k] for k in dims)
            raise ShapeError(f"{name} must have shape {wanted}, got {self.shape} in {self.path}.")
        if self.dtype.kind not in "fiu" or self.dtype == np.float16 or self.dtype.itemsize > 8:
            raise DTypeError(f"{name} must hold numbers in float32 or float64, got {self.dtype} in {self.path}.")

    def digest(self) -> str:
        """Differs between files, and between states of a file that is changed."""
        place = Path(self.path)
        states = [file.stat() for file in ([place] if place.is_file() else place.rglob("*"))]
        newest, size = max(state.st_mtime_ns for state in states), sum(state.st_size for state in states)
        return hashlib.sha256(f"{self!r} {newest} {size}".encode()).hexdigest()[:12]


@dataclass(frozen=True)
class NpyArray(Source):
    """A ``.npy`` file."""

    def open(self) -> Opened:
        try:
            array = load_array(Path(self.path))
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{self.path} is no readable .npy file of numbers ({error}).") from error
        return array.shape, array.dtype, lambda start, stop: np.array(array[start:stop])


@dataclass(frozen=True)
class ZarrArray(Source):
    """An array of a Zarr group, or several one-dimensional ones side by side as columns."""

    names: str | Sequence[str]

    def open(self) -> Opened:
        try:
            group = extra("zarr").open_group(self.path, mode="r")
        except (OSError, ValueError, KeyError) as error:
            raise InvalidInputError(f"{self.path} is no readable Zarr group ({error}).") from error
        single = isinstance(self.names, str)
        names = [self.names] if single else self.names
        if missing := [name for name in names if name not in group]:
            raise MissingColumnsError(f"{self.path} has no array {missing[0]!r}; it has {sorted(group.array_keys())}.")
        arrays = [group[name] for name in names]
        if len({a.shape for a in arrays}) > 1 or (not single and arrays[0].ndim != 1):
            raise ShapeError(f"columns must be one-dimensional and equally long, got {[a.shape for a in arrays]}.")
        if any({"scale_factor", "add_offset", "missing_value"} & {*a.attrs} for a in arrays):
            raise InvalidInputError(f"arrays of {self.path} are packed (scale_factor). Write plain numbers first.")
        if len(units := {str(a.attrs["units"]) for a in arrays if "units" in a.attrs}) > 1:
            raise UnitsError(f"columns must have one unit, got {', '.join(sorted(units))}. Convert them first.")

        def read(start: int, stop: int) -> np.ndarray:
            parts = [a[start:stop] for a in arrays]
            for part, array in zip(parts, arrays, strict=True):
                if array.fill_value and part.dtype.kind == "f":
                    part[part == array.fill_value] = np.nan
            return parts[0] if single else np.stack(parts, axis=1)

        shape = arrays[0].shape if single else (*arrays[0].shape, len(arrays))
        return shape, np.result_type(*(a.dtype for a in arrays)), read


@dataclass(frozen=True)
class ParquetColumns(Source):
    """Columns of a Parquet file, or of a folder of them, side by side."""

    names: Sequence[str]

    def open(self) -> Opened:
        place, names = Path(self.path), list(self.names)
        files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        if not files:
            raise InvalidInputError(f"{self.path} is a folder without Parquet files.")
        try:
            data = extra("pyarrow.dataset").dataset([str(file) for file in files], format="parquet")
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{self.path} holds no readable Parquet file ({error}).") from error
        if missing := [name for name in names if name not in data.schema.names]:
            raise MissingColumnsError(f"{self.path} has no column {missing[0]!r}; it has {data.schema.names}.")
        groups = [group for file in data.get_fragments() for group in file.split_by_row_group()]

        def read(start: int, stop: int) -> np.ndarray:
            parts, end = [], 0
            for group in groups:
                begin, end = end, end + group.row_groups[0].num_rows
                if begin < stop and end > start:
                    table = group.to_table(columns=names)
                    columns = np.stack([table[name].to_numpy() for name in names], axis=1)
                    parts.append(columns[max(start - begin, 0) : stop - begin])
            return np.concatenate(parts)

        dtype = np.result_type(*(data.schema.field(name).type.to_pandas_dtype() for name in names))
        return (data.count_rows(), len(names)), dtype, read
