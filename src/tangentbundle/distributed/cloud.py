"""A cloud in partitions along the curve: what lies near a partition, and near a sample of points."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from ..geometry.search import sample_rows
from .exchange import Curve, Exchange
from .files import Source, load_array, save_array
from .tasks import run_all

BLOCK = 2048
"""Consecutive points on the curve that share a box; what is near is found by boxes first."""


def boxes_of(points: np.ndarray) -> np.ndarray:
    """Boxes ``(b, 2, D)``, low and high corners, of blocks of consecutive points."""
    starts = np.arange(0, len(points), BLOCK)
    if not len(starts):
        return np.empty((0, 2, points.shape[1]))
    return np.stack([np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)], axis=1)


def gaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The least distance of each of ``boxes`` (b, 2, D) from ``others`` (m, 2, D), ``(b,)``."""
    least = np.full(len(boxes), np.inf)
    for low, high in others:
        apart = np.maximum(np.maximum(boxes[:, 0] - high, low - boxes[:, 1]), 0.0)
        np.minimum(least, np.square(apart).sum(axis=1), out=least)
    return np.sqrt(least)


@dataclass(frozen=True)
class Cloud(Exchange):
    """Points in the order of the curve; their numbers count along it."""

    @classmethod
    def sort(cls, folder: Path, points: Source, partition: int) -> Cloud:
        """Sort the points of a file into partitions of about equal size."""
        ranges, parts = points.ranges(partition), max(1, round(points.shape[0] / partition))
        cloud = cls.of(folder, points, ranges, Curve.around(points, ranges), parts)
        if not (folder / "boxes.npy").exists():
            found = run_all(_boxes_of_part, [(cloud, p) for p in range(cloud.num_parts)])
            save_array(folder / "boxes.npy", np.concatenate(found))
        return cloud

    @cached_property
    def boxes(self) -> np.ndarray:
        """Boxes ``(b, 2, D)`` of the blocks of all partitions, in order."""
        return np.array(load_array(self.folder / "boxes.npy"))

    @property
    def ambient_dim(self) -> int:
        return self.boxes.shape[2]

    @cached_property
    def blocks(self) -> np.ndarray:
        """First and last point of each block, ``(b, 2)``."""
        spans = []
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            starts = np.arange(start, stop, BLOCK)
            spans.append(np.stack([starts, np.minimum(starts + BLOCK, stop)], axis=1))
        return np.concatenate(spans)

    def own(self, p: int) -> np.ndarray:
        """Numbers of the points of a partition."""
        return np.arange(self.offsets[p], self.offsets[p + 1])

    def parts_of(self, numbers: np.ndarray) -> list[tuple[int, slice]]:
        """Partitions of sorted numbers, each with the slice of those in it."""
        ends = np.searchsorted(numbers, self.offsets)
        return [(p, slice(a, b)) for p, (a, b) in enumerate(itertools.pairwise(ends)) if b > a]

    def gather(self, name: str, numbers: np.ndarray, folder: Path | None = None, axis: int = 0) -> np.ndarray:
        """Rows of sorted numbers, from ``part(name, p)`` or ``folder/name-p.npy``."""
        out: np.ndarray | None = None
        before = (slice(None),) * axis
        for p, span in self.parts_of(numbers):
            place = self.part(name, p) if folder is None else folder / f"{name}-{p:06d}.npy"
            rows, stored = numbers[span] - self.offsets[p], load_array(place)
            if out is None:
                out = np.empty((*stored.shape[:axis], len(numbers), *stored.shape[axis + 1 :]), stored.dtype)
            consecutive = len(rows) == rows[-1] - rows[0] + 1
            out[(*before, span)] = stored[(*before, slice(rows[0], rows[-1] + 1) if consecutive else rows)]
        assert out is not None
        return out

    def near(self, boxes: np.ndarray, reach: float) -> np.ndarray:
        """Sorted numbers of all points in blocks within ``reach`` of boxes; a few lie further."""
        chosen = self.blocks[gaps(self.boxes, boxes) <= reach]
        return np.concatenate([np.arange(a, b) for a, b in chosen]) if len(chosen) else np.empty(0, np.int64)

    def surrounded(self, p: int, reach: float) -> Surrounded:
        """A partition with every point within ``reach`` of it."""
        points = np.array(load_array(self.part("points", p)))
        own, numbers = self.own(p), self.near(boxes_of(points), reach)
        others = np.setdiff1d(numbers, own, assume_unique=True)
        if not len(others):
            return Surrounded(own, points, np.zeros(len(own)), slice(0, len(own)))
        found = self.gather("points", others)
        away, _ = cKDTree(points, balanced_tree=False, compact_nodes=False).query(
            found, distance_upper_bound=np.nextafter(reach, np.inf)
        )
        close = np.isfinite(away)
        numbers = np.concatenate([own, others[close]])
        order = np.argsort(numbers)
        first = int(np.searchsorted(others[close], own[0]))
        return Surrounded(
            numbers[order],
            np.concatenate([points, found[close]])[order],
            np.concatenate([np.zeros(len(own)), away[close]])[order],
            slice(first, first + len(own)),
        )

    def sampled_nearest(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of ``sample_rows``, and distances and numbers ``(m, k)`` of their nearest other points."""
        rows = sample_rows(self.rows)
        sample = self.gather("points", rows)
        if k + 1 < len(rows):
            bounds = cKDTree(sample).query(sample, k=k + 1)[0][:, -1] * (1 + 1e-9)
        else:
            bounds = np.full(len(rows), np.inf)
        distances, numbers = np.full((len(rows), k + 1), np.inf), np.full((len(rows), k + 1), -1, np.int64)
        parts = range(self.num_parts)
        for close, *found in run_all(_nearest_in_part, [(self, p, sample, bounds, k + 1) for p in parts]):
            both = [
                np.concatenate([old[close], new], axis=1) for old, new in zip((distances, numbers), found, strict=True)
            ]
            order = np.argsort(both[0], axis=1, kind="stable")[:, : k + 1]
            distances[close], numbers[close] = (np.take_along_axis(a, order, axis=1) for a in both)
        itself = numbers == rows[:, None]
        itself[~itself.any(axis=1), -1] = True  # among exact duplicates the point may be absent
        return rows, distances[~itself].reshape(-1, k), numbers[~itself].reshape(-1, k)


@dataclass(frozen=True)
class Surrounded:
    """A partition and its halo in the order of the curve: numbers, points, distances from the partition (zero inside),
    and where the partition is.
    """

    numbers: np.ndarray
    points: np.ndarray = field(repr=False)
    away: np.ndarray = field(repr=False)
    inside: slice


def _boxes_of_part(cloud: Cloud, p: int) -> np.ndarray:
    return boxes_of(load_array(cloud.part("points", p)))


def _nearest_in_part(
    cloud: Cloud, p: int, sample: np.ndarray, bounds: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which points of the sample a partition can be near to, and distances and numbers ``(m, k)`` of its nearest."""
    points = np.array(load_array(cloud.part("points", p)))
    tree = cKDTree(points, balanced_tree=False, compact_nodes=False)
    distances, rows = tree.query(sample, k=np.arange(1, k + 1), distance_upper_bound=np.nextafter(bounds.max(), np.inf))
    close = np.flatnonzero(distances[:, 0] <= bounds)
    numbers = np.where(np.isfinite(distances[close]), rows[close] + cloud.offsets[p], -1)
    return close, distances[close], numbers
