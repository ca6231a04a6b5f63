r"""The slow part of a series of fields: mean, cycle, how fast they drift, and what a recent window says of them.

A field is taken as climate plus anomaly, :math:`x_t = \mu_{t \bmod P} + a_t`, with a cycle of P steps. Training gives
:math:`\mu` with sampling variance :math:`v(T)`; a window of W recent steps gives its own mean with variance
:math:`v(W)`; in between the climate has drifted by a variance :math:`s\,\Delta` that grows with the time between.
The estimate of least variance weighs both,

.. math:: \hat\mu = \mu + g\,(\mu_W - \mu), \qquad g = \frac{s\Delta + v(T)}{s\Delta + v(T) + v(W)},

separately for the mean and for the departures of the cycle's phases from it. :math:`s` is the slope of the structure
function :math:`E|\mu_{B} - \mu_{B'}|^2 = 2 v + s\,\Delta` of means of blocks of the training series.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..datasets.timeline import regular
from ..errors import InvalidInputError, ShapeError

BLOCKS = 8
"""Blocks a training series is cut into to see its drift."""

CYCLES = 3
"""Fewest repetitions of a cycle in training to learn it."""


@dataclass(frozen=True)
class Clock:
    """Turns dates or step numbers into whole steps since the first time of training, and knows the cycle's length."""

    origin: np.datetime64 | int
    step: np.timedelta64 | int
    cycle: int

    @classmethod
    def of(cls, times: np.ndarray | None, count: int, cycle: int | None) -> tuple[Clock, np.ndarray]:
        """The clock of a training series of ``count`` fields, and their ticks ``(T,)``.

        >>> six_hourly = np.datetime64("2026-03-24T00") + 6 * np.arange(100) * np.timedelta64(1, "h")
        >>> Clock.of(six_hourly, 100, None)[0].cycle
        4
        """
        if times is None:
            return cls(0, 1, cycle or 1), np.arange(count)
        times = _checked(times, count)
        if times.dtype.kind == "M":
            line = regular(times)
            clock = cls(times[0], line.step, cycle or _natural(line.step, int(line.ticks[-1]) + 1))
            return clock, line.ticks
        return cls(int(times[0]), 1, cycle or 1), times - times[0]

    def ticks(self, times: np.ndarray, count: int) -> np.ndarray:
        """Steps since the first time of training ``(W,)``."""
        times = _checked(times, count)
        if (times.dtype.kind == "M") != isinstance(self.origin, np.datetime64):
            kind = "dates" if isinstance(self.origin, np.datetime64) else "step numbers"
            raise InvalidInputError(f"fit had {kind} as times, predict must have them too, got {times.dtype}.")
        if np.datetime_data(self.step)[0] == "M" if isinstance(self.step, np.timedelta64) else False:
            whole = (times.astype("datetime64[M]") - self.origin.astype("datetime64[M]")) / self.step  # type: ignore
        else:
            whole = (times - self.origin) / self.step
        ticks = np.rint(whole).astype(int)
        if np.abs(whole - ticks).max() > 0.02:
            raise InvalidInputError(f"times of predict do not lie on the clock of fit, whose step is {self.step}.")
        return ticks


def _checked(times, count: int) -> np.ndarray:
    times = np.asarray(times)
    if times.shape != (count,):
        raise ShapeError(f"times must have shape ({count},), one for each field, got {times.shape}.")
    if times.dtype.kind not in "Miu":
        raise InvalidInputError(f"times must be dates (datetime64) or whole step numbers, got {times.dtype}.")
    if times.dtype.kind == "M":
        regular(times)
        return times.astype("datetime64[s]")
    if (np.diff(times.astype(int)) <= 0).any():
        raise InvalidInputError("times must ascend without repeats. Sort them, drop repeats.")
    return times.astype(int)


def _natural(step: np.timedelta64, length: int) -> int:
    """Steps a day, or months a year, if the series is long enough to see them; otherwise one."""
    if np.datetime_data(step)[0] == "M":
        cycle = 12 // int(step.astype(int)) if 12 % int(step.astype(int)) == 0 else 1
    else:
        seconds = int(step.astype("timedelta64[s]").astype(int))
        cycle = 86400 // seconds if seconds and 86400 % seconds == 0 else 1
    return cycle if length >= CYCLES * cycle else 1


@dataclass(frozen=True, eq=False)
class Climate:
    """Mean ``(n, d)`` and cycle ``(P, n, d)`` (departures from it) of a training series centred at tick ``middle``.

    ``variances`` and ``slopes`` are those of the mean of one step and the drift for one step, for mean and cycle.
    """

    mean: np.ndarray = field(repr=False)
    cycle: np.ndarray = field(repr=False)
    middle: float
    length: int
    noise: tuple[np.ndarray, np.ndarray] = field(repr=False)
    slopes: tuple[float, float]

    @classmethod
    def of(cls, values: np.ndarray, ticks: np.ndarray, period: int) -> Climate:
        """From fields ``(T, n, d)`` at ticks ``(T,)``."""
        mean, cycle = _phases(values, ticks, period)
        size = max(len(values) // BLOCKS, period)
        pieces = [slice(a, a + size) for a in range(0, len(values) - size + 1, max(size // 2, 1))]
        parts = [_phases(values[s], ticks[s], period) for s in pieces]
        centres = np.array([ticks[s].mean() for s in pieces])
        slopes = tuple(_drift(np.stack([p[k] for p in parts]), centres, size) for k in (0, 1))
        lengths = np.unique(np.maximum(1, np.geomspace(1, max(len(values) // 4, 1), 12).astype(int)))
        rest = values - mean - cycle[ticks % period]
        sums = np.concatenate([np.zeros_like(rest[:1]), rest.cumsum(axis=0)])
        errors = [np.square((sums[w:] - sums[:-w]) / w).sum(-1).mean() / (1 - w / len(values)) for w in lengths]
        return cls(mean, cycle, float(ticks.mean()), len(values), (lengths, np.array(errors)), (slopes[0], slopes[1]))

    @property
    def period(self) -> int:
        return len(self.cycle)

    def sampling(self, length: int) -> float:
        """The variance of the mean of so many successive anomalies."""
        lengths, errors = self.noise
        if length <= lengths[-1]:
            return float(np.interp(length, lengths, errors))
        return float(errors[-1] * lengths[-1] / length)

    def gains(self, length: int, gap: float) -> tuple[float, float]:
        """The weights of a window of so many steps, this long after training, for mean and cycle."""
        gains = []
        for slope, share in zip(self.slopes, (1, max(self.period - 1, 1)), strict=True):
            known = slope * gap + share * self.sampling(self.length)
            gains.append(known / max(known + share * self.sampling(length), 1e-300))
        return gains[0], gains[1] if self.period > 1 and length >= 2 * self.period else 0.0

    def updated(self, recent: np.ndarray, ticks: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean and cycle now, from a window ``(W, n, d)``, and the variance of that mean's error."""
        to_mean, to_cycle = self.gains(len(recent), gap)
        if to_cycle > 0:
            mean, cycle = _phases(recent, ticks, self.period)
        else:
            mean, cycle = (recent - self.cycle[ticks % self.period]).mean(axis=0), self.cycle
        error = to_mean * self.sampling(len(recent))
        return self.mean + to_mean * (mean - self.mean), self.cycle + to_cycle * (cycle - self.cycle), error


def _phases(values: np.ndarray, ticks: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean ``(n, d)`` over the phases of a cycle, and each phase's departure from it ``(P, n, d)``."""
    if period == 1:
        mean = values.mean(axis=0)
        return mean, np.zeros_like(mean)[None]
    phases = np.stack([values[ticks % period == p].mean(axis=0) for p in range(period)])
    mean = phases.mean(axis=0)
    return mean, phases - mean


def _drift(parts: np.ndarray, centres: np.ndarray, size: int) -> float:
    """The slope of the structure function of blocks' statistics ``(B, ..., d)`` with time, at least 0."""
    first, second = np.triu_indices(len(parts), 1)
    apart = centres[second] - centres[first]
    far = apart >= 1.5 * size
    if far.sum() < 3:
        return 0.0
    shape = parts.shape[-2:]
    squares = np.square(parts[second[far]] - parts[first[far]]).reshape(far.sum(), -1, *shape).sum((1, 3)).mean(1)
    return max(float(np.polyfit(apart[far], squares, 1)[0]), 0.0)
