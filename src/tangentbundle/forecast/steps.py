"""Times of fields as steps of a regular clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInputError, ShapeError
from ..timeline import regular


@dataclass(frozen=True)
class Clock:
    """Turns dates or step numbers into steps since the first time of training."""

    origin: Any
    step: Any

    @classmethod
    def of(cls, times: Any, count: int) -> tuple[Clock, np.ndarray]:
        """The clock of a series of ``count`` fields, and their steps ``(T,)``."""
        times = np.arange(count) if times is None else _checked(times, count)
        if times.dtype.kind != "M":
            return cls(times[0], 1), times - times[0]
        line = regular(times)
        return cls(times[0], line.step), line.ticks

    def steps(self, times: Any, count: int) -> np.ndarray:
        """Steps ``(W,)`` of other times on this clock."""
        times, origin = _checked(times, count), self.origin
        if times.dtype.kind != origin.dtype.kind:
            kind = "dates" if origin.dtype.kind == "M" else "step numbers, or none"
            raise InvalidInputError(f"fit had {kind} as times; predict must have them too, got {times.dtype}.")
        if origin.dtype.kind == "M" and np.datetime_data(self.step)[0] == "M":
            times, origin = times.astype("datetime64[M]"), origin.astype("datetime64[M]")
        exact = (times - origin) / self.step
        steps = np.rint(exact).astype(int)
        if np.abs(exact - steps).max() > 0.02:
            raise InvalidInputError(f"times of predict do not lie on the clock of fit, whose step is {self.step}.")
        return steps


def _checked(times: Any, count: int) -> np.ndarray:
    times = np.asarray(times)
    if times.shape != (count,):
        raise ShapeError(f"times must have shape ({count},), one for each field, got {times.shape}.")
    if times.dtype.kind == "M":
        regular(times)
        return times.astype("datetime64[s]")
    if times.dtype.kind not in "iu":
        raise InvalidInputError(f"times must be dates (datetime64) or integer step numbers, got {times.dtype}.")
    if (np.diff(times.astype(int)) <= 0).any():
        raise InvalidInputError("times must ascend without repeats. Sort them, drop repeats.")
    return times.astype(int)
