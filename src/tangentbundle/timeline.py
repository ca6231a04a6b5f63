"""Series in time: their step, their gaps, the windows a forecast learns from, and clocks that
continue them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .arrays import positive_integer
from .errors import InvalidInputError, ShapeError

SUBSECONDS = ("ms", "us", "ns", "ps", "fs", "as")
"""Units of dates that are finer than seconds, each a thousandth of the one before."""

MAX_JITTER = 0.01
"""Share of a step by which the differences of times on one clock may deviate from multiples of
it."""

Times = np.ndarray
"""``(T,)`` of dtype datetime64, ascending."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Times on a regular clock: time i is ``ticks[i]`` steps after the first. A step may be a
    number of months."""

    ticks: np.ndarray
    step: np.timedelta64
    ends: bool = False  # all times are on the last day of a month

    def after(self, times: Times, steps: int | np.ndarray = 1) -> Times:
        """The times some steps later; months without such a day have their last one."""
        if not _is_months(self.step):
            return times + steps * self.step
        start_month = times.astype("datetime64[M]")
        month = start_month + steps * self.step
        since_start = times - start_month.astype(times.dtype)
        same_day = month.astype(times.dtype) + since_start
        last_day = (month + 1).astype("datetime64[D]") - 1
        days_beyond = same_day.astype("datetime64[D]") - last_day
        if not self.ends:
            days_beyond = np.maximum(days_beyond, np.timedelta64(0, "D"))
        return same_day - days_beyond

    def segments(self) -> list[slice]:
        """Longest stretches without a gap."""
        cuts = np.flatnonzero(np.diff(self.ticks) > 1) + 1
        bounds = [0, *cuts.tolist(), len(self.ticks)]
        return [slice(start, stop) for start, stop in pairwise(bounds)]


def regular(times: Times) -> Timeline:
    """Find the step of a series that may have gaps: its commonest difference, in time or in
    calendar months.

    >>> hours = np.array([0, 6, 12, 24, 30])
    >>> times = np.datetime64("2026-01-01T00") + hours * np.timedelta64(1, "h")
    >>> line = regular(times)
    >>> line.ticks, line.step.astype("timedelta64[h]").item()
    (array([0, 1, 2, 4, 5]), datetime.timedelta(seconds=21600))
    >>> line.segments()
    [slice(0, 3, None), slice(3, 5, None)]
    """
    times = np.asarray(times)
    if times.dtype.kind != "M" or times.ndim != 1 or not len(times) or np.isnat(times).any():
        raise InvalidInputError(
            f"times must be a list of dates (datetime64, no NaT), got {times.dtype} of shape "
            f"{times.shape}. For other calendars, use xarray's convert_calendar('standard') first."
        )
    unit = _unit_of(times)
    if len(times) == 1:
        return Timeline(np.zeros(1, np.int64), np.timedelta64(0, "s"))
    gaps = np.diff(times.astype(f"datetime64[{unit}]")).astype(np.int64)
    if (gaps <= 0).any():
        first = int(np.argmax(gaps <= 0))
        raise InvalidInputError(
            f"times must ascend without repeats, but {times[first + 1]} follows {times[first]}. "
            "Sort, drop repeats."
        )
    ends = _are_ends_of_months(times)
    months = np.diff(times.astype("datetime64[M]")).astype(np.int64)
    for differences, unit_step in ((gaps, _duration(1, unit)), (months, np.timedelta64(1, "M"))):
        count = _commonest(differences)
        steps = _multiples(differences, count, slack=0.0)
        if steps is not None:
            return Timeline(_ticks_of(steps), _in_coarsest_unit(count * unit_step), ends)
    steps = _multiples(gaps, _mean_single_step(gaps), slack=MAX_JITTER)
    if steps is not None:
        return Timeline(_ticks_of(steps), _rounded_step(gaps, steps, unit), ends)
    shortest = _in_coarsest_unit(_duration(gaps.min(), unit))
    longest = _in_coarsest_unit(_duration(gaps.max(), unit))
    raise InvalidInputError(
        f"times must lie on a regular clock, gaps allowed; differences range from {shortest} to "
        f"{longest} and are no multiples of the commonest one. Resample the series first."
    )


def _are_ends_of_months(times: Times) -> bool:
    """Whether all times are on the last day of a month."""
    next_day = times.astype("datetime64[D]") + 1
    return bool((next_day == next_day.astype("datetime64[M]")).all())


def _ticks_of(steps: np.ndarray) -> np.ndarray:
    """Steps since the first time, from the steps between times."""
    return np.append(0, np.cumsum(steps))


def _unit_of(times: Times) -> str:
    """The unit in which differences of times are exact: seconds, or that of their dtype if it is
    finer."""
    unit, _ = np.datetime_data(times.dtype)
    if unit in SUBSECONDS:
        return unit
    return "s"


def _commonest(differences: np.ndarray) -> int:
    values, counts = np.unique(differences, return_counts=True)
    return int(values[counts.argmax()])


def _mean_single_step(gaps: np.ndarray) -> int:
    """The mean of those differences that are alike up to the jitter of both of their ends, where
    most are."""
    ordered = np.sort(gaps)
    uppers = np.searchsorted(ordered, ordered * (1 + 2 * MAX_JITTER), side="right")
    lower = int(np.argmax(uppers - np.arange(len(ordered))))
    return round(float(ordered[lower : uppers[lower]].mean()))


def _multiples(differences: np.ndarray, step: int, slack: float) -> np.ndarray | None:
    """How many steps each difference is; None if one is no multiple up to a share ``slack`` of the
    step."""
    if step < 1:
        return None
    steps = (differences + step // 2) // step  # integers: float64 would round nanoseconds
    if steps.min() < 1 or np.abs(differences - steps * step).max() > slack * step:
        return None
    return steps


def _duration(count: int, unit: str) -> np.timedelta64:
    duration: Any = np.asarray(count, np.int64).astype(f"timedelta64[{unit}]")[()]
    return duration


def _in_coarsest_unit(step: np.timedelta64) -> np.timedelta64:
    """The same duration in months or seconds, or in the coarsest finer unit that holds it."""
    unit, _ = np.datetime_data(step.dtype)
    units = ("s", *SUBSECONDS)
    while unit in SUBSECONDS:
        count = int(step.astype(np.int64))
        if count % 1000 != 0:
            break
        unit = units[units.index(unit) - 1]
        step = _duration(count // 1000, unit)
    return step


def _rounded_step(gaps: np.ndarray, steps: np.ndarray, unit: str) -> np.timedelta64:
    """The mean step of times with jitter, in the coarsest unit in which the whole series does not
    drift off."""
    per_second = _per_second(unit)
    total = int(steps.sum())
    mean = int(gaps.sum()) / total
    jitter = np.abs(gaps - steps * mean).max()
    for seconds in (86400, 3600, 60, 1):
        rounded = round(mean / per_second / seconds) * seconds * per_second
        if rounded and abs(rounded - mean) * total <= 2 * jitter:
            return _in_coarsest_unit(_duration(rounded, unit))
    for finer in SUBSECONDS[:3]:
        finer_per_second = _per_second(finer)
        rounded = round(mean / per_second * finer_per_second)
        deviation = abs(rounded / finer_per_second * per_second - mean)
        if rounded and deviation * total <= 2 * jitter:
            return _in_coarsest_unit(_duration(rounded, finer))
    return _duration(max(round(mean), 1), unit)


def _per_second(unit: str) -> int:
    """How many of a unit are a second."""
    if unit not in SUBSECONDS:
        return 1
    return 1000 ** (SUBSECONDS.index(unit) + 1)


def calendar_period(times: Times | None) -> int | None:
    """Steps of a day, or of a year for months, if the series spans at least three of them;
    otherwise None.

    >>> calendar_period(np.datetime64("2026-01-01T00") + 6 * np.arange(40) * np.timedelta64(1, "h"))
    4
    """
    if times is None:
        return None
    line = regular(times)
    if _is_months(line.step):
        cycle = _duration(12, "M")
    else:
        cycle = _duration(1, "D")
    if not line.step.astype(np.int64) or cycle % line.step:
        return None
    steps = int(cycle // line.step)
    max_steps = (line.ticks[-1] + 1) // 3
    if not 1 < steps <= max_steps:
        return None
    return steps


def _is_months(step: np.timedelta64) -> bool:
    """Whether a step is a number of months."""
    unit, _ = np.datetime_data(step)
    return unit == "M"


def fill_single_steps(times: Times, values: np.ndarray) -> tuple[Times, np.ndarray, np.ndarray]:
    """Fill each gap of exactly one step with the mean of its two neighbours; longer gaps stay.

    Returns times ``(T',)``, values ``(T', ...)`` and flags ``(T',)`` of what was filled.

    >>> days = np.array(
    ...     ["2026-01-01", "2026-01-02", "2026-01-04", "2026-01-05", "2026-01-08"], "datetime64[D]"
    ... )
    >>> times, values, filled = fill_single_steps(days, np.array([0.0, 1.0, 3.0, 4.0, 7.0]))
    >>> values, filled.nonzero()[0]
    (array([0., 1., 2., 3., 4., 7.]), array([2]))
    """
    line = regular(times)
    before = np.flatnonzero(np.diff(line.ticks) == 2)
    where = before + 1
    means = (values[before] + values[where]) / 2
    filled = np.insert(np.zeros(len(times), bool), where, True)
    all_times = np.insert(times, where, line.after(times[before]))
    all_values = np.insert(values, where, means, axis=0)
    return all_times, all_values, filled


@dataclass(frozen=True, eq=False)
class Windows:
    """m subsequences of 2 T_f steps without a gap.

    Attributes:
        inputs, targets: ``(m, T_f)`` numbers of times.
        scored: ``(m, T_f)``, false where the target was filled in.
    """

    inputs: np.ndarray
    targets: np.ndarray
    scored: np.ndarray

    def __len__(self) -> int:
        return len(self.inputs)

    @classmethod
    def of(cls, times: Times, filled: np.ndarray, horizon: int) -> Windows:
        """The ``N - 2 T_f`` subsequences of every segment of N steps, as the paper counts (it
        leaves out the last)."""
        length = positive_integer(horizon, "the horizon T_f")
        segments = regular(times).segments()
        starts = np.concatenate([np.arange(s.start, s.stop - 2 * length) for s in segments])
        if not len(starts):
            longest = max(s.stop - s.start for s in segments)
            raise InvalidInputError(
                f"a horizon of {length} steps needs more than {2 * length} without a gap, but the "
                f"longest stretch has {longest}. Use T_f <= {(longest - 1) // 2}."
            )
        inputs = starts[:, None] + np.arange(length)
        targets = inputs + length
        return cls(inputs=inputs, targets=targets, scored=~filled[targets])


@dataclass(frozen=True)
class Clock:
    """Turns dates or step numbers into steps since the first time of training."""

    origin: Any
    step: Any

    @classmethod
    def of(cls, times: Any, count: int) -> tuple[Clock, np.ndarray]:
        """The clock of a series of ``count`` fields, and their steps ``(T,)``."""
        if times is None:
            times = np.arange(count)
        else:
            times = _checked(times, count)
        if times.dtype.kind != "M":
            return cls(times[0], 1), times - times[0]
        line = regular(times)
        return cls(times[0], line.step), line.ticks

    def steps(self, times: Any, count: int) -> np.ndarray:
        """Steps ``(W,)`` of other times on this clock."""
        times = _checked(times, count)
        origin = self.origin
        if times.dtype.kind != origin.dtype.kind:
            kind = "dates" if origin.dtype.kind == "M" else "step numbers, or none"
            raise InvalidInputError(
                f"fit had {kind} as times; predict must have them too, got {times.dtype}."
            )
        if origin.dtype.kind == "M" and _is_months(self.step):
            times = times.astype("datetime64[M]")
            origin = origin.astype("datetime64[M]")
        exact = (times - origin) / self.step
        steps = np.rint(exact).astype(int)
        if np.abs(exact - steps).max() > 2 * MAX_JITTER:
            raise InvalidInputError(
                f"times of predict do not lie on the clock of fit, whose step is {self.step}."
            )
        return steps


def _checked(times: Any, count: int) -> np.ndarray:
    times = np.asarray(times)
    if times.shape != (count,):
        raise ShapeError(
            f"times must have shape ({count},), one for each field, got {times.shape}."
        )
    if times.dtype.kind == "M":
        regular(times)
        return times.astype(f"datetime64[{_unit_of(times)}]")
    if times.dtype.kind not in "iu":
        raise InvalidInputError(
            f"times must be dates (datetime64) or integer step numbers, got {times.dtype}."
        )
    if (np.diff(times.astype(int)) <= 0).any():
        raise InvalidInputError("times must ascend without repeats. Sort them, drop repeats.")
    return times.astype(int)
