"""Rows of files to partitions along a space-filling curve, and back: an external sort.

A range of a file's rows is sorted by place on the curve and written as a run; a partition takes its slice of every run
and merges them. Going back, a partition undoes its merge, and a range takes its slices and undoes its sort. No task
holds more than one range or one partition.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ..arrays import finite, float_tensor, points_array
from ..earth.xarrays import NETCDF_FILL
from ..errors import InvalidInputError, NonFiniteError, TooFewPointsError
from ..geometry.ordering import curve_codes, principal_axes
from .engine import run_all
from .files import Range, Source, load_array, save_array
from .results import Sink

SAMPLE = 200_000
"""Places on the curve that are looked at to cut it into equal parts."""


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
        found = run_all(_survey, [(source, part, stride) for part in ranges])
        low, high = np.min([f[0] for f in found], axis=0), np.max([f[1] for f in found], axis=0)
        extent = float((high - low).max())
        if rows < 3 or extent == 0:
            raise TooFewPointsError(f"{source.path} holds {rows} points in a box of width {extent:g}: no manifold.")
        if extent < 1e-140:
            raise InvalidInputError(f"the cloud is {extent:.2g} wide, so its squared distances underflow. Rescale it.")
        if source.shape[1] <= 3:
            return cls(low, extent)
        center = sum(f[2] for f in found) / rows
        axes = principal_axes(np.concatenate([f[3] for f in found]) - center)[:, :3]
        half = np.abs(axes).T @ np.maximum(high - center, center - low)
        return cls(-half, float(2 * half.max()), center, axes)


def _survey(source: Source, part: Range, stride: int) -> tuple[np.ndarray, ...]:
    """Box, sum and every ``stride``-th row of a range; refuses what is no cloud."""
    points = read_points(source, part)
    return points.min(axis=0), points.max(axis=0), points.sum(axis=0), points[-part[0] % stride :: stride]


def read_points(source: Source, part: Range) -> np.ndarray:
    """Rows of a file as float64 points ``(m, D)``."""
    try:
        return points_array(source.read(*part), "points")[0]
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
    def of(
        cls, folder: Path, source: Source, ranges: Sequence[Range], curve: Curve, parts: int | np.ndarray
    ) -> Exchange:
        """Sort the rows of a file; ``parts`` is a number of partitions, or the splits of another exchange."""
        stride = max(1, source.shape[0] // SAMPLE)
        calls = [(folder, source, number, part, curve, stride) for number, part in enumerate(ranges)]
        sampled = np.sort(np.concatenate(run_all(_sort_range, calls)))
        splits = (
            parts if isinstance(parts, np.ndarray) else np.unique(sampled[len(sampled) * np.arange(1, parts) // parts])
        )
        made = cls(folder, tuple(ranges), curve, splits)
        if not (folder / "cuts.npy").exists():
            inside = [
                [0, *np.searchsorted(load_array(made._run("codes", k)), splits), b - a]
                for k, (a, b) in enumerate(ranges)
            ]
            save_array(folder / "cuts.npy", np.array(inside, dtype=np.int64))
        run_all(_merge_part, [(made, p) for p in range(made.num_parts)])
        return made

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

    def __getstate__(self) -> dict:
        return {name: self.__dict__[name] for name in ("folder", "ranges", "curve", "splits")}

    def _run(self, name: str, number: int) -> Path:
        return self.folder / name / f"range-{number:06d}.npy"

    def part(self, name: str, p: int) -> Path:
        """The file of some rows of a partition."""
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

    def pieces(self, p: int) -> list[slice]:
        """The slices of a partition's unmerged rows that belong to each range."""
        ends = np.concatenate([[0], np.cumsum(np.diff(self.cuts, axis=1)[:, p])])
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    def unmerge(self, values: np.ndarray, p: int) -> np.ndarray:
        """Rows of a partition, with those of each range together again."""
        out = np.empty_like(values)
        out[load_array(self.part("merge", p))] = values
        return out

    def give(self, number: int, names: Sequence[str], folder: Path, sink: Sink) -> None:
        """Rows of a range from ``folder/name-p.npy``, unmerged, to a file."""
        values = {}
        for name in names:
            parts = [load_array(folder / f"{name}-{p:06d}.npy")[self.pieces(p)[number]] for p in range(self.num_parts)]
            sorted_rows = np.concatenate(parts)
            values[name] = np.empty_like(sorted_rows)
            values[name][load_array(self._run("order", number))] = sorted_rows
        sink.write(number, self.ranges[number], values)


def _sort_range(folder: Path, source: Source, number: int, part: Range, curve: Curve, stride: int) -> np.ndarray:
    """Sort one range along the curve; returns some of its places."""
    order_file, codes_file = (folder / name / f"range-{number:06d}.npy" for name in ("order", "codes"))
    if not (order_file.exists() and codes_file.exists()):
        codes = curve.codes(read_points(source, part))
        order = np.argsort(codes, kind="stable")
        save_array(order_file, order.astype(np.int32))
        save_array(codes_file, codes[order])
    return np.array(load_array(codes_file)[::stride])


def _merge_part(exchange: Exchange, p: int) -> None:
    """How the slices of all runs are merged into one partition."""
    if not exchange.part("merge", p).exists():
        cuts = exchange.cuts
        slices = [load_array(exchange._run("codes", k))[a:b] for k, (a, b) in enumerate(cuts[:, p : p + 2])]
        order = np.argsort(np.concatenate(slices), kind="stable")
        save_array(exchange.part("merge", p), order.astype(np.int32 if len(order) < 2**31 else np.int64))


def _sort_rows(exchange: Exchange, name: str, source: Source, number: int) -> None:
    place = exchange._run(name, number)
    if not place.exists():
        start, stop = exchange.ranges[number]
        kind = name.partition("-")[0]
        rows = float_tensor(source.read(start, stop), kind)[0]
        rows = rows.masked_fill(rows == NETCDF_FILL, np.nan)
        try:
            finite(rows, kind)
        except NonFiniteError as error:
            raise NonFiniteError(f"rows {start} to {stop} of {source.path}: {error}") from error
        save_array(place, rows.numpy()[load_array(exchange._run("order", number))])


def _take_part(exchange: Exchange, name: str, p: int) -> None:
    if not exchange.part(name, p).exists():
        cuts = exchange.cuts[:, p : p + 2]
        slices = [load_array(exchange._run(name, k))[a:b] for k, (a, b) in enumerate(cuts)]
        save_array(exchange.part(name, p), np.concatenate(slices)[load_array(exchange.part("merge", p))])
