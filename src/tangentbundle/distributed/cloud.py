"""A cloud in partitions along a space-filling curve: rows of files to the partitions and back, and what is near what.

A range of a file's rows is sorted by place on the curve and written as a run; a partition takes its slice of every run.
No task holds more than one range or one partition. The order of all points along the curve is found at once, by the
process that calls; it needs 24 bytes a point.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import finite, float_tensor, points_array
from ..earth.xarrays import NETCDF_FILL
from ..errors import InvalidInputError, NonFiniteError, TooFewPointsError
from ..geometry.frames import LocalPCA, pca_of_nearest
from ..geometry.ordering import curve_codes, principal_axes
from ..geometry.search import without_self
from .files import Range, Source, load_array, save_array
from .results import new_output, write_rows
from .tasks import run_all

BLOCK = 2048
"""Consecutive points on the curve that share a box; what is near is found by boxes first."""

SLACK = 1 + 1e-9
"""Factor on radii, so that a distance at the rim counts as inside however it was rounded."""


def numbers_along_curve(source: Source, ranges: Sequence[Range]) -> np.ndarray:
    """The number of each row along a Hilbert curve; for D > 3 through the three principal axes of the cloud."""
    (rows, dims), axes = source.shape, None
    if dims > 3:
        stride = max(1, rows // max(4000, 4 * dims))
        sample = np.concatenate(run_all(_sample, [(source, part, stride) for part in ranges]))
        axes = principal_axes(sample - sample.mean(axis=0))[:, :3]
    lows, highs = zip(*run_all(_box, [(source, part, axes) for part in ranges]), strict=True)
    low = np.min(lows, axis=0)
    extent = float((np.max(highs, axis=0) - low).max())
    if rows < 3 or extent == 0:
        raise TooFewPointsError(f"{source.path} holds {rows} points in a box of width {extent:g}: no manifold.")
    if extent < 1e-140:
        raise InvalidInputError(f"the cloud is {extent:.2g} wide, so its squared distances underflow. Rescale it.")
    codes = np.concatenate(run_all(_codes, [(source, part, axes, low, extent) for part in ranges]))
    numbers = np.empty(rows, np.int64)
    numbers[np.argsort(codes, kind="stable")] = np.arange(rows)
    return numbers


def _sample(source: Source, part: Range, stride: int) -> np.ndarray:
    return _projected(source, part, None)[-part[0] % stride :: stride]


def _box(source: Source, part: Range, axes: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    points = _projected(source, part, axes)
    return points.min(axis=0), points.max(axis=0)


def _codes(source: Source, part: Range, axes: np.ndarray | None, low: np.ndarray, extent: float) -> np.ndarray:
    return curve_codes(_projected(source, part, axes), low, extent)


def _projected(source: Source, part: Range, axes: np.ndarray | None) -> np.ndarray:
    points = points_array(read_finite(source, part, "points"), "points")[0]
    return points if axes is None else points @ axes


def read_finite(source: Source, part: Range, name: str) -> np.ndarray:
    """Rows of a file in float32 or float64; missing values are refused."""
    rows = float_tensor(source.read(*part), name)[0]
    try:
        return finite(rows.masked_fill(rows == NETCDF_FILL, np.nan), name).numpy()
    except NonFiniteError as error:
        raise NonFiniteError(f"rows {part[0]} to {part[1]} of {source.path}: {error}") from error


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
class Cloud:
    """Points of a file in partitions of equal size. Their numbers count along the curve, from ``offsets[p]`` in
    partition p; points at one place stay in the order of the file.

    ``part("numbers", k)`` are the numbers of the rows of range k.
    """

    folder: Path
    ranges: tuple[Range, ...]
    offsets: np.ndarray = field(repr=False)

    @classmethod
    def sort(cls, folder: Path, points: Source, partition: int) -> Cloud:
        """Sort the points of a file into partitions of about that size."""
        rows = points.shape[0]
        parts = max(1, round(rows / partition))
        ranges = [(a, min(a + partition, rows)) for a in range(0, rows, partition)]
        cloud = cls(folder, tuple(ranges), rows * np.arange(parts + 1) // parts)
        if not cloud.part("numbers", len(ranges) - 1).exists():
            numbers = numbers_along_curve(points, ranges)
            for k, (a, b) in enumerate(ranges):
                save_array(cloud.part("numbers", k), numbers[a:b])
        cloud.bring("points", points)
        if not (folder / "boxes.npy").exists():
            save_array(folder / "boxes.npy", np.concatenate(run_all(cloud.boxes_in, [(p,) for p in range(parts)])))
        return cloud

    def __getstate__(self) -> dict:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # workers read the rest themselves

    @property
    def num_parts(self) -> int:
        return len(self.offsets) - 1

    @property
    def rows(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def boxes(self) -> np.ndarray:
        """Boxes ``(b, 2, D)`` of the blocks of all partitions, in order."""
        return np.array(load_array(self.folder / "boxes.npy"))

    @cached_property
    def blocks(self) -> np.ndarray:
        """First and last point of each block, ``(b, 2)``."""
        starts = [np.arange(a, b, BLOCK) for a, b in itertools.pairwise(self.offsets)]
        ends = [np.minimum(s + BLOCK, b) for s, b in zip(starts, self.offsets[1:], strict=True)]
        return np.stack([np.concatenate(starts), np.concatenate(ends)], axis=1)

    def part(self, name: str, p: int) -> Path:
        """The file of a partition, or of a range."""
        return self.folder / name / f"{p:06d}.npy"

    def boxes_in(self, p: int) -> np.ndarray:
        return boxes_of(load_array(self.part("points", p)))

    # Rows of files to partitions, and back.

    def bring(self, name: str, source: Source) -> None:
        """Rows of a file to ``part(name, p)``, in the order of the curve."""
        if not all(self.part(name, p).exists() for p in range(self.num_parts)):
            run_all(self.sort_range, [(name, source, k) for k in range(len(self.ranges))])
            run_all(self.take_part, [(name, p) for p in range(self.num_parts)])
            shutil.rmtree(self.folder / f"runs-{name}", ignore_errors=True)

    def sort_range(self, name: str, source: Source, k: int) -> None:
        """The run of a range."""
        rows = read_finite(source, self.ranges[k], name.partition("-")[0])
        save_array(self.part(f"runs-{name}", k), rows[np.argsort(load_array(self.part("numbers", k)))])

    def take_part(self, name: str, p: int) -> None:
        """The slices of all runs in one partition."""
        first, last = self.offsets[p : p + 2]
        runs = [load_array(self.part(f"runs-{name}", k)) for k in range(len(self.ranges))]
        out = np.empty((last - first, *runs[0].shape[1:]), runs[0].dtype)
        for k, run in enumerate(runs):
            numbers = np.sort(load_array(self.part("numbers", k)))
            inside = slice(*np.searchsorted(numbers, (first, last)))
            out[numbers[inside] - first] = run[inside]
        save_array(self.part(name, p), out)

    def write(
        self, results: Mapping[str, str], shape: tuple[int, ...], dtype: type, out: str | os.PathLike, overwrite: bool
    ) -> None:
        """Results, by name ``part(..., p)``, each row of that shape, to an output in the order of the file."""
        at_once = max(stop - start for start, stop in self.ranges)
        with new_output(out, results, (self.rows, *shape), dtype, at_once, overwrite=overwrite) as place:
            run_all(self.write_range, [(results, k, place) for k in range(len(self.ranges))])

    def write_range(self, results: Mapping[str, str], k: int, place: Path) -> None:
        numbers = load_array(self.part("numbers", k))
        order, values = np.argsort(numbers), {}
        for name, files in results.items():
            rows = self.gather(files, numbers[order])
            values[name] = np.empty_like(rows)
            values[name][order] = rows
        write_rows(place, self.ranges[k][0], values)

    # What is near what.

    def inside(self, p: int, numbers: np.ndarray) -> slice:
        """Where the points of a partition are among sorted numbers that contain them."""
        return slice(*np.searchsorted(numbers, self.offsets[p : p + 2]).tolist())

    def parts_of(self, numbers: np.ndarray) -> list[tuple[int, slice]]:
        """Partitions of sorted numbers, each with the slice of those in it."""
        ends = np.searchsorted(numbers, self.offsets)
        return [(p, slice(a, b)) for p, (a, b) in enumerate(itertools.pairwise(ends)) if b > a]

    def gather(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Rows of sorted numbers, from ``part(name, p)``."""
        rows = []
        for p, span in self.parts_of(numbers):
            own, stored = numbers[span] - self.offsets[p], load_array(self.part(name, p))
            consecutive = len(own) == own[-1] - own[0] + 1
            rows.append(stored[own[0] : own[-1] + 1] if consecutive else stored[own])
        return np.concatenate(rows)

    def near(self, boxes: np.ndarray, reach: float) -> np.ndarray:
        """Sorted numbers of all points in blocks within ``reach`` of boxes; a few lie further."""
        chosen = self.blocks[gaps(self.boxes, boxes) <= reach]
        return np.concatenate([np.arange(a, b) for a, b in chosen])

    def surrounded(self, p: int, reach: float) -> tuple[np.ndarray, np.ndarray]:
        """Sorted numbers and points of a partition and of every point within ``reach`` of it."""
        own = load_array(self.part("points", p))
        numbers = self.near(boxes_of(own), reach)
        points, inside = self.gather("points", numbers), self.inside(p, numbers)
        close, outside = np.ones(len(numbers), bool), np.r_[0 : inside.start, inside.stop : len(numbers)]
        tree = cKDTree(own, balanced_tree=False, compact_nodes=False)
        close[outside] = np.isfinite(tree.query(points[outside], distance_upper_bound=np.nextafter(reach, np.inf))[0])
        return numbers[close], points[close]

    def nearest(self, points: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and numbers ``(m, k)`` of the points of the cloud that are nearest to others, ``(m, D)``."""
        boxes, k = boxes_of(points), min(k, self.rows)
        away = gaps(self.boxes, boxes)
        order = np.argsort(away)
        enough = np.searchsorted(np.cumsum(np.diff(self.blocks, axis=1)[order, 0]), k)
        reach = float(away[order[enough]])
        while True:  # the nearest of some points bound how far the nearest of all can be
            numbers = self.near(boxes, reach)
            tree = cKDTree(self.gather("points", numbers), balanced_tree=False, compact_nodes=False)
            distances, index = tree.query(points, k=np.arange(1, k + 1))
            if distances.max() <= reach or tree.n == self.rows:
                return distances, numbers[index]
            reach = float(distances.max()) * SLACK

    def nearest_others(self, numbers: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and numbers ``(m, k)`` of the nearest other points of some points, by sorted numbers."""
        return without_self(numbers, *self.nearest(self.gather("points", numbers), k + 1))

    def nearest_pca(self, centers: np.ndarray, distances: np.ndarray, numbers: np.ndarray, axes: int) -> LocalPCA:
        """Local PCA at centers ``(m, D)`` of as many neighbours of each, ``(m, k)``."""
        known, index = np.unique(numbers, return_inverse=True)
        points = self.gather("points", known)
        return pca_of_nearest(points, distances, index.reshape(numbers.shape), centers, axes=axes)
