"""Whole steps of a regular clock, from dates or step numbers, and the length of the natural cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInputError, ShapeError
from ..timeline import regular

CYCLES = 3
"""Fewest repetitions of a cycle in training to learn it."""


@dataclass(frozen=True)
class Clock:
    """Turns dates or step numbers into whole steps since the first time of training; ``cycle`` in steps.

    >>> six_hourly = np.datetime64("2026-03-24T00") + 6 * np.arange(100) * np.timedelta64(1, "h")
    >>> clock, ticks = Clock.of(six_hourly, 100)
    >>> clock.cycle, clock.ticks(np.array(["2026-07-01T06", "2026-07-01T12"], "datetime64[h]"), 2)
    (4, array([397, 398]))
    """

    origin: Any
    step: Any
    cycle: int

    @classmethod
    def of(cls, times: np.ndarray | None, count: int, cycle: int | None = None) -> tuple[Clock, np.ndarray]:
        """The clock of a training series of ``count`` fields, and their ticks ``(T,)``."""
        if times is None:
            return cls(0, 1, cycle or 1), np.arange(count)
        times = _checked(times, count)
        if times.dtype.kind != "M":
            return cls(int(times[0]), 1, cycle or 1), times - times[0]
        line = regular(times)
        return cls(times[0], line.step, cycle or _natural(line.step, int(line.ticks[-1]) + 1)), line.ticks

    def ticks(self, times: np.ndarray, count: int) -> np.ndarray:
        """Steps since the first time of training ``(W,)``."""
        times = _checked(times, count)
        dates = isinstance(self.origin, np.datetime64)
        if (times.dtype.kind == "M") != dates:
            kind = "dates" if dates else "step numbers, or none"
            raise InvalidInputError(f"fit had {kind} as times; predict must have them too, got {times.dtype}.")
        if dates and np.datetime_data(self.step)[0] == "M":
            steps = (times.astype("datetime64[M]") - self.origin.astype("datetime64[M]")) / self.step
        else:
            steps = (times - self.origin) / self.step
        ticks = np.rint(steps).astype(int)
        if np.abs(steps - ticks).max() > 0.02:
            raise InvalidInputError(f"times of predict do not lie on the clock of fit, whose step is {self.step}.")
        return ticks


def _checked(times, count: int) -> np.ndarray:
    times = np.asarray(times)
    if times.shape != (count,):
        raise ShapeError(f"times must have shape ({count},), one for each field, got {times.shape}.")
    if times.dtype.kind == "M":
        if count > 1:
            regular(times)
        return times.astype("datetime64[s]")
    if times.dtype.kind not in "iu":
        raise InvalidInputError(f"times must be dates (datetime64) or whole step numbers, got {times.dtype}.")
    if (np.diff(times.astype(int)) <= 0).any():
        raise InvalidInputError("times must ascend without repeats. Sort them, drop repeats.")
    return times.astype(int)


def _natural(step: np.timedelta64, length: int) -> int:
    """Steps a day, or months a year, if the series is long enough to see them; otherwise one."""
    months = np.datetime_data(step)[0] == "M"
    whole, part = (12, step.astype(int)) if months else (86400, step.astype("timedelta64[s]").astype(int))
    cycle = int(whole // part) if part and whole % part == 0 else 1
    return cycle if length >= CYCLES * cycle else 1
