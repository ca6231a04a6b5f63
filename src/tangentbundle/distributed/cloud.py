"""A cloud in partitions along a space-filling curve, and their files."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import DamagedFileError


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


def load_array(path: Path, mode: Literal["r", "c"] = "r") -> np.ndarray:
    """A ``.npy`` file, memory-mapped: read-only, or copied where it is written."""
    try:
        return np.load(path, mmap_mode=mode, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DamagedFileError(f"{path} is missing or damaged ({error}). Delete its folder and start anew.") from error


@dataclass(frozen=True)
class PartitionedCloud:
    """Points along the curve, in files of a folder. Partition p has those from ``offsets[p]`` to ``offsets[p + 1]``."""

    folder: Path
    offsets: np.ndarray = field(repr=False)

    @classmethod
    def write(cls, folder: Path, points: np.ndarray, partition: int) -> PartitionedCloud:
        """Write sorted points for workers to read; partitions have about that size, and none is empty."""
        n, parts = len(points), max(1, round(len(points) / partition))
        if not (folder / "points.npy").exists():
            save_array(folder / "points.npy", points)
        return cls(folder, n * np.arange(parts + 1) // parts)

    def __reduce__(self) -> tuple:
        return PartitionedCloud, (self.folder, self.offsets)  # workers map the files themselves

    @property
    def num_parts(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def points(self) -> np.ndarray:
        return np.asarray(load_array(self.folder / "points.npy", "c"))

    def rows(self, p: int) -> slice:
        """The points of a partition."""
        return slice(*self.offsets[p : p + 2].tolist())

    def part(self, name: str, p: int) -> Path:
        """The file of a partition."""
        return self.folder / name / f"{p:06d}.npy"

    def joined(self, name: str) -> np.ndarray:
        """The rows of all partitions."""
        return np.concatenate([load_array(self.part(name, p)) for p in range(self.num_parts)])

    def gather(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Rows of sorted numbers, from the files of all partitions they are in."""
        ends = itertools.pairwise(np.searchsorted(numbers, self.offsets))
        owned = [(p, numbers[a:b] - self.offsets[p]) for p, (a, b) in enumerate(ends) if b > a]
        return np.concatenate([load_array(self.part(name, p))[own] for p, own in owned])
