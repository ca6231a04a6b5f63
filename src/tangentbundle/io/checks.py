"""Rows that cannot be used, and data that are probably not what was meant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..errors import (
    InvalidInputError,
    MissingValuesNote,
    NonFiniteError,
    Note,
    Remedy,
    SuspiciousDataWarning,
    TooFewPointsError,
    warn,
)
from ..spaces import Globe, Space
from ..winds import NETCDF_FILL
from .field import Field, Request
from .series import series_column

FEW_POINTS = 10
"""Below this, neither tangent spaces nor a noise level can be estimated: a plane's neighbourhood
has about so many."""
MAX_ROWS = 10
"""Rows that a note lists."""
MARKER_RATIO = 100.0
"""How much larger than all others a repeated value must be to count as a marker of missing
values."""
NINES_RATIO = 3.0
"""The same for a value that is written with nines alone, such as -99, 99.9 or 9999."""
MIN_MAJORITY_MARKER = 99.0
"""The smallest marker that is recognised where it is the most frequent value."""
DOMINANT_SHARE = 0.5
"""Share of the energy of all vectors that one row may have."""
MAX_RADIAN_LATITUDE = 1.6
"""Latitudes all below this may be radians."""


# Rows that are refused or left out.


def usable_rows(numbers: np.ndarray, request: Request, notes: list[Note]) -> np.ndarray:
    """Rows of ``numbers`` ``(n, k)`` without missing ones; others are refused unless
    ``drop_missing``."""
    # NetCDF's fill value is missing in every format: other programs export it as a number
    usable = np.all(np.isfinite(numbers) & (numbers != NETCDF_FILL), axis=1)
    missing = np.flatnonzero(~usable)
    if len(missing) and not request.drop_missing:
        raise NonFiniteError(
            f"{len(missing)} of {len(usable)} rows have missing or infinite numbers (first: row "
            f"{missing[0] + 1}){why_missing(notes)}.",
            Remedy("Fill them, or leave these rows out with {drop_missing}.", drop_missing=True),
        )
    if len(missing):
        text = f"{len(missing)} of {len(usable)} rows with missing numbers left out"
        notes.append(Note(f"{text}: {_row_numbers(missing)}"))
    return np.flatnonzero(usable)


def _row_numbers(rows: np.ndarray) -> str:
    """The numbers of rows, counted from 1; of many, the first."""
    shown = ", ".join(str(row + 1) for row in rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        shown += ", ..."
    if len(rows) == 1:
        return f"row {shown}"
    return f"rows {shown}"


def why_missing(notes: list[Note]) -> str:
    """What made numbers missing that the file has, in brackets for a message."""
    return "".join(f" ({note})" for note in notes if isinstance(note, MissingValuesNote))


def distinct_rows(
    space: Space,
    request: Request,
    notes: list[Note],
    others: Mapping[str, np.ndarray] | None = None,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """The first row at each place; repeats are refused unless ``drop_duplicates``.

    ``others`` are further columns ``(n,)``: where one of them tells the rows of a place apart, they
    may be a series in time, or levels. ``rows`` ``(n,)`` are the numbers of the rows in the file.
    """
    places = space.places
    order = np.lexsort(places.T)  # stable: the first row of a place comes first
    repeats = np.all(places[order[1:]] == places[order[:-1]], axis=1)
    later = np.sort(order[1:][repeats])
    if not len(later):
        return np.arange(len(space))
    series = series_column(others or {}, order[:-1][repeats], order[1:][repeats])
    count = f"{len(later)} of {len(space)}"
    if not request.drop_duplicates:
        numbers = np.arange(len(space)) if rows is None else rows
        raise _duplicates_error(f"{count} points", int(numbers[later[0]]) + 1, series)
    if series and not request.only_points:
        warn_of_data(
            f"rows at one place are told apart by column {series}: {count} rows are left out, "
            "all but the first of each place.",
            f"Choose the rows of one value of {series} before, if that is not wanted.",
        )
    in_file = later
    if rows is not None:
        in_file = rows[later]
    text = f"{count} points that coincide with an earlier one left out"
    notes.append(Note(f"{text}: {_row_numbers(in_file)}"))
    return np.delete(np.arange(len(space)), later)


def _duplicates_error(points: str, first: int, series: str | None) -> InvalidInputError:
    """The error for points at one place, which may be a series."""
    problem = f"{points} coincide with an earlier one (first: row {first})"
    if series:
        return InvalidInputError(
            f"{problem}, told apart by column {series}, and a table holds one field.",
            f"Choose the rows of one value of {series}, such as one time or level, or average over "
            "them. A series needs times such as 2020-01-31 12:00, all written alike.",
        )
    return InvalidInputError(
        f"{problem}.",
        Remedy(
            "Keep the first of each with {drop_duplicates}, or average them. Series in time are "
            "read from .nc, .zarr, .npz.",
            drop_duplicates=True,
        ),
    )


def check_count(n: int, request: Request) -> None:
    """Refuse files with too few points for any geometry (one is enough to predict at)."""
    least = 1 if request.only_points else 3
    if n < least:
        raise TooFewPointsError(
            f"a field needs at least {least} points, the file has {n}.", "Give more points."
        )


# Data that are probably not what was meant.


def warn_of_data(problem: str, remedy: Remedy | str = "") -> None:
    """Give a ``SuspiciousDataWarning``."""
    warn(problem, SuspiciousDataWarning, remedy=remedy)


def warn_if_suspicious(field: Field) -> None:
    """Look for transposed arrays, radians, markers of missing values, too few points, and rows that
    dominate."""
    _warn_if_few(field)
    if isinstance(field.space, Globe) and np.abs(field.space.lat).max() < MAX_RADIAN_LATITUDE:
        warn_if_radians("longitude", field.space.lon)
    markers = _markers(field)
    if markers:
        warn_of_data(
            f"{'; '.join(markers)}.",
            Remedy(
                "If they mark missing values, empty these cells and use {drop_missing}.",
                drop_missing=True,
            ),
        )
    elif field.values is not None:
        _warn_if_dominated(field, field.values)


def _warn_if_few(field: Field) -> None:
    """Warn of arrays that may be transposed, and of few points."""
    n, dims = field.space.coordinates.shape
    if n < dims and n <= FEW_POINTS:
        warn_of_data(
            f"{n} points in R^{dims}: is the array transposed? Points have shape (n, D), a row "
            "for each."
        )
    elif n < FEW_POINTS and field.values is not None:
        warn_of_data(
            f"{n} points are too few to estimate tangent spaces and noise.",
            f"Give at least {FEW_POINTS}.",
        )


def _warn_if_dominated(field: Field, values: np.ndarray) -> None:
    """Warn of a row with most of the energy of all vectors ``(T, n, c)``."""
    n = len(field.space)
    energy = np.square(values.astype(float)).sum(axis=(0, 2))
    row = int(energy.argmax())
    total = float(energy.sum())
    if n >= FEW_POINTS and energy[row] > DOMINANT_SHARE * total > 0:
        warn_of_data(
            f"row {field.row_in_file(row)} has {energy[row] / total:.0%} of the energy of all {n} "
            "vectors, and determines the result.",
            "Check its units, or delete it.",
        )


def warn_if_radians(name: str, angles: np.ndarray) -> None:
    """Warn of angles in degrees, all round the circle, none of which is larger than 2 pi."""
    largest = np.abs(np.nan_to_num(angles)).max()
    if 1 < largest < 2 * np.pi + 0.01 and angles.size >= FEW_POINTS:
        warn_of_data(
            f"the largest angle of {name} is {largest:.3g}: are they radians?", "Give degrees."
        )


def _markers(field: Field) -> list[str]:
    """What looks like markers of missing values, in the columns of a field, or in all of one
    kind."""
    arrays = {"coordinates": (field.space.names, field.space.coordinates)}
    if field.values is not None:
        arrays["components"] = (field.names, field.values)
        if field.wind:
            arrays["speeds"] = (field.wind[:1], _speeds(field.values)[..., None])
    markers = []
    for names, array in arrays.values():
        for column, name in enumerate(names):
            markers.append(_marker(name, array[..., column].ravel()))
    if not any(markers):  # one in each of many columns
        markers = [_marker(f"all {kind}", array.ravel()) for kind, (_, array) in arrays.items()]
    return [marker for marker in markers if marker]


def _speeds(values: np.ndarray) -> np.ndarray:
    """Speeds ``(T, n)`` of components ``(T, n, 2)``, without the rounding that tells equal ones
    apart."""
    speeds = np.linalg.norm(values, axis=-1)
    top = speeds.max()
    if not 0 < top < np.inf:
        return speeds
    return np.round(speeds / top, 12) * top


def _is_of_nines(value: float) -> bool:
    """Whether a number is written with two or more nines and nothing else."""
    digits = f"{abs(value):.6g}".replace(".", "")
    return len(digits) >= 2 and set(digits) == {"9"}


def _marker(name: str, values: np.ndarray) -> str:
    """What looks like a marker: a value that occurs several times and is far larger than all
    others.

    Most values may be a marker only if it is as large as markers usually are: many columns are
    nearly constant.
    """
    size = np.abs(values)
    top = size.max()
    is_top = size == top
    others = size[~is_top]
    count = int(is_top.sum())
    limit = len(size)
    if top < MIN_MAJORITY_MARKER:
        limit = len(others)
    if not 2 <= count < limit:
        return ""
    ratio = MARKER_RATIO
    if _is_of_nines(top):
        ratio = NINES_RATIO
    if top <= ratio * others.max() or np.median(others) <= 0:
        return ""
    return (
        f"{count} values of {name} are {values[is_top][0]:g}, all others at most {others.max():.3g}"
    )
