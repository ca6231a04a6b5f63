"""Rows and columns that are missing from a regular grid: steps far wider than those beside them.

A missing column is often not meant: a file was joined from parts, or cells without data were
dropped. In a stretched grid a wide step has a neighbour that is about as wide, and a region has one
wide step, round the Earth from its last column to its first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import SuspiciousDataWarning, warn

GAP_RATIO = 1.5
"""Steps this many times as wide as both steps beside them are gaps: where a row or column is
missing, the step is twice as wide."""

MAX_SEAM_STEPS = 3.5
"""A grid round the Earth that lacks one or two columns at its seam has a step there of two or three
times the others; wider ones end a region."""

MAX_SEAM_DEGREES = 10.0
"""Narrower steps at the seam are gaps in a global grid, however fine it is: regions are seldom
chosen to leave out so little."""

MIN_REGION_DEGREES = 180.0
"""A wider step ends a region, wherever its columns begin: most of the circle has no data."""

MAX_LISTED = 3
"""Gaps that a warning lists."""


class Gaps(NamedTuple):
    """Gaps of an axis: ``starts`` and ``ends`` in degrees."""

    starts: np.ndarray
    ends: np.ndarray


def column_steps(ring: np.ndarray) -> np.ndarray:
    """From each sorted longitude to the next, and from the last one round to the first."""
    return np.diff(ring, append=ring[0] + 360)


def untouching(steps: np.ndarray) -> np.ndarray:
    """Which steps between sorted longitudes are gaps, where no cells touch.

    A gap is more than ``GAP_RATIO`` times as wide as the wider one of the steps beside it. In a
    stretched grid a wide step has a neighbour that is about as wide. Of two longitudes, the wider
    way round is the gap.
    """
    if len(steps) == 1:
        return np.ones(1, bool)
    if len(steps) == 2:
        first_is_wider = steps[0] > steps[1]
        return np.array([first_is_wider, not first_is_wider])
    beside = np.maximum(np.roll(steps, 1), np.roll(steps, -1))
    return (steps > GAP_RATIO * beside) | (steps > MIN_REGION_DEGREES)


def _isolated_pairs(steps: np.ndarray) -> np.ndarray:
    """Which steps are one of two alike wide ones in a row, with narrow ones before and after: the
    second and the fourth of five columns are missing. ``steps`` (k,) go round."""
    following = np.roll(steps, -1)
    narrower = np.minimum(steps, following)
    are_alike = np.maximum(steps, following) <= GAP_RATIO * narrower
    beside = np.maximum(np.roll(steps, 1), np.roll(steps, -2))
    first = are_alike & (narrower > GAP_RATIO * beside)
    return first | np.roll(first, 1)


def column_gaps(lon: np.ndarray) -> Gaps:
    """Gaps between longitudes (degrees, in the order of the file), besides the one step that leads
    round the Earth from the end of a region to its beginning.

    That step ends a region if the file's columns begin and end there and it is wide, or if it is
    wider than half of the circle.

    >>> column_gaps(np.delete(np.arange(0.0, 360.0), [20, 21, 22]))
    Gaps(starts=array([19.]), ends=array([23.]))
    >>> column_gaps(np.arange(20.0, 60.0)).starts
    array([], dtype=float64)
    """
    places, first = np.unique(np.round(lon % 360, 6) % 360, return_index=True)
    if len(places) < 3:
        return Gaps(np.empty(0), np.empty(0))
    steps = column_steps(places)
    is_gap = untouching(steps)
    if len(steps) > 4:
        is_gap |= _isolated_pairs(steps)
    widest = int(np.argmax(steps))
    if is_gap[widest] and _ends_region(widest, steps, first):
        is_gap[widest] = False
    starts = places[is_gap]
    return Gaps(starts, (starts + steps[is_gap]) % 360)


def _ends_region(widest: int, steps: np.ndarray, place_in_file: np.ndarray) -> bool:
    """Whether the widest step leads from the end of a region round to its beginning."""
    following = (widest + 1) % len(steps)
    beside = max(steps[widest - 1], steps[following])
    if steps[widest] > MIN_REGION_DEGREES:
        return True
    if steps[widest] < max(MAX_SEAM_DEGREES, MAX_SEAM_STEPS * beside):
        return False
    apart_in_file = abs(int(place_in_file[widest]) - int(place_in_file[following]))
    return apart_in_file != 1


def row_gaps(lat: np.ndarray) -> Gaps:
    """Gaps between latitudes (degrees, any order).

    The step from a row at a pole has one neighbour only, and counts if the next two are alike.

    >>> row_gaps(np.delete(np.linspace(-90.0, 90.0, 37), [10, 11]))
    Gaps(starts=array([-45.]), ends=array([-30.]))
    """
    places = np.sort(lat)
    steps = np.diff(places)
    is_gap = np.zeros(len(steps), bool)
    if len(steps) >= 3:
        is_gap[1:-1] = untouching(steps)[1:-1]
        for end, next_step, second_step in ((0, 1, 2), (-1, -2, -3)):
            is_at_pole = abs(places[end]) > 90 - 1e-6
            is_regular = abs(steps[next_step] - steps[second_step]) < 0.1 * steps[next_step]
            is_wide = steps[end] > GAP_RATIO * steps[next_step]
            is_gap[end] = is_at_pole and is_regular and is_wide
    if len(steps) > 4:
        is_gap[1:-1] |= _isolated_pairs(np.append(steps, np.inf))[1:-2]
    return Gaps(places[:-1][is_gap], places[1:][is_gap])


def warn_of_gaps(lat: np.ndarray, lon: np.ndarray) -> None:
    """Warn if rows or columns of a regular grid are missing, and say between which degrees."""
    columns = column_gaps(lon)
    rows = row_gaps(lat)
    if len(columns.starts):
        _warn(
            f"longitudes have gaps, {_listed(columns)} degrees east, more than {GAP_RATIO:g} times "
            "as wide as the steps beside them: cells there do not touch, and nothing passes "
            "across. If columns are missing, add them (NaN is land). If the region ends there, "
            "order its columns from west to east."
        )
    if len(rows.starts):
        _warn(
            f"latitudes have gaps, {_listed(rows)} degrees north, more than {GAP_RATIO:g} times as "
            "wide as the steps beside them: rows on their two sides count as neighbours, and "
            "results are inaccurate there. If rows are missing, add them (NaN is land)."
        )


def _listed(gaps: Gaps) -> str:
    places = zip(gaps.starts[:MAX_LISTED], gaps.ends[:MAX_LISTED], strict=True)
    shown = [f"{start:g} to {end:g}" for start, end in places]
    if len(gaps.starts) > MAX_LISTED:
        shown.append("...")
    return ", ".join(shown)


def _warn(text: str) -> None:
    warn(text, SuspiciousDataWarning)
