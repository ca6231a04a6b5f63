"""Rows of files to partitions along a space-filling curve, and back: an external sort.

A range of a file's rows is sorted by place on the curve and written as a run; a partition takes its slice of every run
and merges them. Going back, a partition undoes its merge, and a range takes its slices and undoes its sort. No task
holds more than one range or one partition.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from ..arrays import finite, float_tensor, points_array
from ..earth.xarrays import NETCDF_FILL
from ..errors import InvalidInputError, NonFiniteError, TooFewPointsError
from ..geometry.ordering import curve_codes, principal_axes
from .files import Range, Source, load_array, save_array
from .results import Output, new_output
from .tasks import run_all


@dataclass(frozen=True)
class Curve:
    """The Hilbert curve through a cube around the cloud; for D > 3 through its three principal axes."""

    low: np.ndarray
    extent: float
    center: np.ndarray | None = None
    axes: np.ndarray | None = None

    def codes(self, points: np.ndarray) -> np.ndarray:
        """Places of points ``(n, D)`` on the curve; those outside of the cube are moved to its side."""
        if self.axes is not None:
            points = (points - self.center) @ self.axes
        return curve_codes(np.clip(points, self.low, self.low + 1.000000001 * self.extent), self.low, self.extent)

    @classmethod
    def around(cls, source: Source, ranges: Sequence[Range]) -> Curve:
        rows = source.shape[0]
        stride = max(1, rows // max(4000, 4 * source.shape[1]))
        lows, highs, sums, samples = zip(*run_all(_survey, [(source, part, stride) for part in ranges]), strict=True)
        low, high = np.min(lows, axis=0), np.max(highs, axis=0)
        extent = float((high - low).max())
        if rows < 3 or extent == 0:
            raise TooFewPointsError(f"{source.path} holds {rows} points in a box of width {extent:g}: no manifold.")
        if extent < 1e-140:
            raise InvalidInputError(f"the cloud is {extent:.2g} wide, so its squared distances underflow. Rescale it.")
        if source.shape[1] <= 3:
            return cls(low, extent)
        center = sum(sums) / rows
        axes = principal_axes(np.concatenate(samples) - center)[:, :3]
        half = np.abs(axes).T @ np.maximum(high - center, center - low)
        return cls(-half, float(2 * half.max()), center, axes)


def _survey(source: Source, part: Range, stride: int) -> tuple[np.ndarray, ...]:
    """Box, sum and every ``stride``-th row of a range; refuses what is no cloud."""
    points = read_points(source, part)
    return points.min(axis=0), points.max(axis=0), points.sum(axis=0), points[-part[0] % stride :: stride]


def read_points(source: Source, part: Range) -> np.ndarray:
    """Rows of a file as float64 points ``(m, D)``."""
    return points_array(read_finite(source, part, "points"), "points")[0]


def read_finite(source: Source, part: Range, name: str) -> np.ndarray:
    """Rows of a file in float32 or float64; missing values are refused."""
    rows = float_tensor(source.read(*part), name)[0]
    try:
        return finite(rows.masked_fill(rows == NETCDF_FILL, np.nan), name).numpy()
    except NonFiniteError as error:
        raise NonFiniteError(f"rows {part[0]} to {part[1]} of {source.path}: {error}") from error


@dataclass(frozen=True)
class Exchange:
    """Where every row of a file is on the curve. ``folder`` holds the sorts, ``splits`` cut the curve.

    Row k of partition p is point ``offsets[p] + k`` on the curve; points at one place stay in the order of the file.
    """

    folder: Path
    ranges: tuple[Range, ...]
    curve: Curve = field(repr=False)
    splits: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, folder: Path, source: Source, ranges: Sequence[Range], curve: Curve, parts: int | np.ndarray) -> Self:
        """Sort the points of a file; ``parts`` is a number of partitions, or the splits of another exchange."""
        stride = max(1, source.shape[0] // 200_000)  # enough places to cut the curve into equal parts
        calls = [(folder, source, number, part, curve, stride) for number, part in enumerate(ranges)]
        sampled = np.sort(np.concatenate(run_all(_sort_range, calls)))
        if not isinstance(parts, np.ndarray):
            parts = np.unique(sampled[len(sampled) * np.arange(1, parts) // parts])
        exchange = cls(folder, tuple(ranges), curve, parts)
        if not (folder / "cuts.npy").exists():
            inside = [
                [0, *np.searchsorted(load_array(exchange.run("codes", k)), parts), b - a]
                for k, (a, b) in enumerate(ranges)
            ]
            save_array(folder / "cuts.npy", np.array(inside, dtype=np.int64))
        run_all(_merge_part, [(exchange, p) for p in range(exchange.num_parts)])
        exchange.bring("points", source)
        return exchange

    @property
    def num_parts(self) -> int:
        return len(self.splits) + 1

    @cached_property
    def cuts(self) -> np.ndarray:
        """Where the runs ``(ranges, parts + 1)`` are cut."""
        return np.array(load_array(self.folder / "cuts.npy"))

    @cached_property
    def offsets(self) -> np.ndarray:
        """Points before each partition ``(parts + 1,)``."""
        return np.concatenate([[0], np.cumsum(np.diff(self.cuts, axis=1).sum(axis=0))])

    @property
    def rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def rows_at_once(self) -> int:
        """Rows of the largest range."""
        return max(stop - start for start, stop in self.ranges)

    def __getstate__(self) -> dict:
        return {name: self.__dict__[name] for name in ("folder", "ranges", "curve", "splits")}

    def run(self, name: str, number: int) -> Path:
        """The file of a sorted range."""
        return self.folder / name / f"range-{number:06d}.npy"

    def part(self, name: str, p: int) -> Path:
        """The file of rows of a partition."""
        return self.folder / f"part-{p:06d}" / f"{name}.npy"

    def bring(self, name: str, source: Source) -> None:
        """Rows of a file to ``part(name, p)``, in the order of the curve."""
        if source.shape[0] != self.rows:
            raise InvalidInputError(f"there are {self.rows} points, but {source.shape[0]} rows in {source.path}.")
        if all(self.part(name, p).exists() for p in range(self.num_parts)):
            return
        run_all(_sort_rows, [(self, name, source, number) for number in range(len(self.ranges))])
        run_all(_take_part, [(self, name, p) for p in range(self.num_parts)])
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def unmerge(self, values: np.ndarray, p: int) -> np.ndarray:
        """Rows of a partition, with those of each range together again."""
        out = np.empty_like(values)
        out[load_array(self.part("merge", p))] = values
        return out

    def write(
        self, folder: Path, names: Sequence[str], columns: tuple[int, ...], out: str | os.PathLike, overwrite: bool
    ) -> None:
        """Unmerged rows ``folder/name-p.npy`` of all partitions to an output, in the order of the file."""
        dtype = load_array(folder / f"{names[0]}-{0:06d}.npy").dtype
        with new_output(out, names, (self.rows, *columns), dtype, self.rows_at_once, overwrite=overwrite) as output:
            run_all(self.give, [(number, names, folder, output) for number in range(len(self.ranges))])

    def give(self, number: int, names: Sequence[str], folder: Path, output: Output) -> None:
        """Write the rows of one range."""
        counts, values = np.diff(self.cuts, axis=1), {}
        starts = counts[:number].sum(axis=0)  # rows of earlier ranges in each partition
        for name in names:
            parts = [load_array(folder / f"{name}-{p:06d}.npy") for p in range(self.num_parts)]
            ordered = [rows[a : a + n] for rows, a, n in zip(parts, starts, counts[number], strict=True)]
            values[name] = np.empty_like(np.concatenate(ordered))
            values[name][load_array(self.run("order", number))] = np.concatenate(ordered)
        output.write(self.ranges[number][0], values)


def _sort_range(folder: Path, source: Source, number: int, part: Range, curve: Curve, stride: int) -> np.ndarray:
    """Sort one range along the curve; returns every ``stride``-th place."""
    order_file, codes_file = (folder / name / f"range-{number:06d}.npy" for name in ("order", "codes"))
    if not (order_file.exists() and codes_file.exists()):
        codes = curve.codes(read_points(source, part))
        order = np.argsort(codes, kind="stable")
        save_array(order_file, order.astype(np.int32))
        save_array(codes_file, codes[order])
    return np.array(load_array(codes_file)[::stride])


def _slices(exchange: Exchange, name: str, p: int) -> np.ndarray:
    """The rows of a partition, those of each range together."""
    cuts = exchange.cuts[:, p : p + 2]
    return np.concatenate([load_array(exchange.run(name, k))[a:b] for k, (a, b) in enumerate(cuts)])


def _merge_part(exchange: Exchange, p: int) -> None:
    """How the slices of all runs are merged into one partition."""
    if not exchange.part("merge", p).exists():
        order = np.argsort(_slices(exchange, "codes", p), kind="stable")
        save_array(exchange.part("merge", p), order.astype(np.int32 if len(order) < 2**31 else np.int64))


def _sort_rows(exchange: Exchange, name: str, source: Source, number: int) -> None:
    place = exchange.run(name, number)
    if not place.exists():
        rows = read_finite(source, exchange.ranges[number], name.partition("-")[0])
        save_array(place, rows[load_array(exchange.run("order", number))])


def _take_part(exchange: Exchange, name: str, p: int) -> None:
    if not exchange.part(name, p).exists():
        save_array(exchange.part(name, p), _slices(exchange, name, p)[load_array(exchange.part("merge", p))])
