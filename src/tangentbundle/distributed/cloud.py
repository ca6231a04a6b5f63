"""A cloud in partitions along a space-filling curve: files of partitions, and which points are near one."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree

from ..errors import DamagedFileError
from ..geometry.search import without_self

BLOCK = 256
"""Consecutive points on the curve that share a box; what is near is found by boxes."""

SLACK = 1 + 1e-9
"""Factor on radii, so that a distance at the rim counts as inside however it was rounded."""


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


def boxes_of(points: np.ndarray) -> np.ndarray:
    """Boxes ``(b, 2, D)``, low and high corners, of blocks of consecutive points."""
    starts = np.arange(0, len(points), BLOCK)
    return np.stack([np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)], axis=1)


def gaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The least distance of each of ``boxes`` (b, 2, D) from ``others`` (m, 2, D), ``(b,)``."""
    least = np.full(len(boxes), np.inf)
    for low, high in others:
        apart = np.maximum(np.maximum(boxes[:, 0] - high, low - boxes[:, 1]), 0.0)
        np.minimum(least, np.square(apart).sum(axis=1), out=least)
    return np.sqrt(least)


@dataclass(frozen=True)
class PartitionedCloud:
    """Points along the curve, in files of a folder. Partition p has those from ``offsets[p]`` to ``offsets[p + 1]``."""

    folder: Path
    offsets: np.ndarray = field(repr=False)

    @classmethod
    def write(cls, folder: Path, points: np.ndarray, partition: int) -> PartitionedCloud:
        """Write sorted points for workers to read; partitions have about that size, and none is empty."""
        n, parts = len(points), max(1, round(len(points) / partition))
        if not (folder / "boxes.npy").exists():
            save_array(folder / "points.npy", points)
            save_array(folder / "boxes.npy", boxes_of(points))
        return cls(folder, n * np.arange(parts + 1) // parts)

    def __reduce__(self) -> tuple:
        return PartitionedCloud, (self.folder, self.offsets)  # workers map the files themselves

    @property
    def num_parts(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def points(self) -> np.ndarray:
        return load_array(self.folder / "points.npy")

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

    def near(self, p: int, reach: float) -> np.ndarray:
        """Sorted numbers of the points of a partition and of all within ``reach`` of it; a few are further away."""
        boxes, own = load_array(self.folder / "boxes.npy"), boxes_of(self.points[self.rows(p)])
        around = np.stack([own[:, 0].min(axis=0), own[:, 1].max(axis=0)])[None]
        blocks = np.flatnonzero(gaps(boxes, around) <= reach)
        blocks = blocks[gaps(boxes[blocks], own) <= reach]
        numbers = (BLOCK * blocks[:, None] + np.arange(BLOCK)).ravel()
        return numbers[numbers < len(self.points)]

    def nearest_others(self, rows: np.ndarray, k: int, near: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
        """Distances and numbers ``(m, k)`` of the nearest other points of some points.

        ``near`` has all points within ``reach`` of them. Where these are not enough, all of the cloud is searched.
        """
        numbers = near
        while True:
            distances, index = cKDTree(self.points[numbers]).query(self.points[rows], min(k + 1, len(numbers)))
            if index.shape[1] == k + 1 and (len(numbers) == len(self.points) or distances.max() <= reach):
                return without_self(rows, distances, numbers[index])
            numbers = np.arange(len(self.points))
