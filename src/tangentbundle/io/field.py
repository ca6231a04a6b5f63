"""A vector field as a file holds it, what a reader is asked for, and what it refuses or warns
of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..earth.xarrays import NETCDF_FILL
from ..errors import (
    InvalidInputError,
    MissingValuesNote,
    NonFiniteError,
    Note,
    Remedy,
    ShapeError,
    SuspiciousDataWarning,
    TooFewPointsError,
    warn,
)
from .series import series_column
from .spaces import Cloud, Globe

FEW_POINTS = 10
"""Below this, neither tangent spaces nor a noise level can be estimated: a plane's neighbourhood
has about so many."""
MARKER_RATIO = 100.0
"""How much larger than all others a repeated value must be to count as a marker of missing
values."""
MIN_MAJORITY_MARKER = 99.0
"""The smallest marker that is recognised where it is the most frequent value."""
DOMINANT_SHARE = 0.5
"""Share of the energy of all vectors that one row may have."""


@dataclass(frozen=True)
class Request:
    """What to read: names of columns (guessed where not given), and what to do with unusable rows.

    Names may be patterns (``pc*``) and ranges (``pc1:pc50``). ``wind`` names speed and direction,
    ``select`` chooses values of dimensions such as ``{"level": 500}``. ``sigma`` names the column
    of standard errors. ``up`` is the axis that figures show as up: x, y or z, by default y for OBJ
    files and z for all others.
    """

    points: tuple[str, ...] = ()
    latlon: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()
    wind: tuple[str, ...] = ()
    sigma: str = ""
    drop_missing: bool = False
    drop_duplicates: bool = False
    only_points: bool = False
    needs_vectors: bool = True
    select: Mapping[str, Any] = field(default_factory=dict)
    up: str = ""


@dataclass(frozen=True, eq=False)
class Field:
    """Vectors ``values (T, n, c)`` at the points of a space, in the components of the file; None if
    it has none.

    ``names`` are those of the components, ``std`` their standard deviations, ``times (T,)`` dates
    if the file has them, ``notes`` say what was guessed, and ``origin`` is the other content of the
    file, for writing a similar one. ``axes`` are names and values of leading dimensions if there
    are others than time, such as levels: the T fields run through them, the last one fastest.
    ``wind`` names the columns of speed and direction that vectors were computed from. ``noise`` are
    known standard errors of the vectors, ``(n,)``. ``parts`` are other vectors, or numbers (c = 1),
    at the same points and times, to write next to these. ``rows`` ``(n,)`` number the points in the
    file, from 0, where some of its rows were left out.
    """

    space: Cloud
    values: np.ndarray | None = None
    names: tuple[str, ...] = ()
    std: np.ndarray | None = None
    times: np.ndarray | None = None
    units: str = ""
    notes: tuple[Note, ...] = ()
    origin: Any = None
    axes: tuple[tuple[str, np.ndarray], ...] = ()
    wind: tuple[str, ...] = ()
    noise: np.ndarray | None = None
    parts: Mapping[str, Field] = field(default_factory=dict)
    rows: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", self.space.vector_names)
        shape = (len(self.space), len(self.names))
        if self.values is not None and (self.values.ndim != 3 or self.values.shape[1:] != shape):
            raise ShapeError(
                f"expected vectors of shape (T, n, components) = (T, {shape[0]}, {shape[1]}), got "
                f"{self.values.shape}."
            )

    def __len__(self) -> int:
        """Fields in time."""
        return 0 if self.values is None else len(self.values)

    def row_in_file(self, point: int) -> int:
        """The row of a point in its file, counted from 1 as messages do."""
        return int(point if self.rows is None else self.rows[point]) + 1

    @property
    def vectors(self) -> np.ndarray:
        """Ambient vectors ``(T, n, D)``."""
        if self.values is None:
            raise InvalidInputError("the file has points only: there are no vectors to work on.")
        return self.space.ambient(self.values)

    def with_vectors(self, vectors: np.ndarray, **changes: Any) -> Field:
        """The same file with other ambient vectors ``(T, n, D)``."""
        return replace(self, values=self.space.components(vectors), **changes)

    def __str__(self) -> str:
        text = str(self.space)
        if self.times is not None and len(self.times) > 1:
            ends = self.times[[0, -1]]
            days = ends.astype("datetime64[D]")
            shown = ends.astype("datetime64[m]") if days[0] == days[1] else days
            text += f", {len(self.times)} times from {shown[0]} to {shown[1]}"
        elif len(self) > 1:
            text += f", {len(self)} fields"
        return text


def usable_rows(numbers: np.ndarray, request: Request, notes: list[Note]) -> np.ndarray:
    """Rows of ``numbers`` ``(n, k)`` without missing ones; others are refused unless
    ``drop_missing``."""
    # NetCDF's fill value is missing in every format: other programs export it as a number
    good = np.all(np.isfinite(numbers) & (numbers != NETCDF_FILL), axis=1)
    bad = np.flatnonzero(~good)
    if len(bad) and not request.drop_missing:
        raise NonFiniteError(
            f"{len(bad)} of {len(good)} rows have missing or infinite numbers (first: row "
            f"{bad[0] + 1}){why_missing(notes)}.",
            Remedy("Fill them, or leave these rows out with {drop_missing}.", drop_missing=True),
        )
    if len(bad):
        notes.append(Note(f"{len(bad)} of {len(good)} rows with missing numbers left out"))
    return np.flatnonzero(good)


def distinct_rows(
    space: Cloud,
    request: Request,
    notes: list[Note],
    others: Mapping[str, np.ndarray] | None = None,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """The first row at each place; repeats are refused unless ``drop_duplicates``.

    ``others`` are further columns ``(n,)``: where one of them tells the rows of a place apart, they
    may be a series in time, or levels. ``rows`` ``(n,)`` are the numbers of the rows in the file.
    """
    points = (
        np.round(space.points, 9) if isinstance(space, Globe) else space.points
    )  # to a centimetre on the Earth
    order = np.lexsort(points.T)  # stable: the first row of a place comes first
    repeats = np.all(points[order[1:]] == points[order[:-1]], axis=1)
    later = np.sort(order[1:][repeats])
    if not len(later):
        return np.arange(len(space))
    series = series_column(others or {}, order[:-1][repeats], order[1:][repeats])
    count = f"{len(later)} of {len(space)}"
    first = int(later[0] if rows is None else rows[later[0]]) + 1
    if request.drop_duplicates:
        if series:
            warn_of_data(
                f"rows at one place are told apart by column {series}: {count} rows are left out, "
                "all but the first of each place.",
                f"Choose the rows of one value of {series} before, if that is not wanted.",
            )
        notes.append(Note(f"{count} points that coincide with an earlier one left out"))
        return np.delete(np.arange(len(space)), later)
    coincide = f"{count} points coincide with an earlier one (first: row {first})"
    if series:
        raise InvalidInputError(
            f"{coincide}, told apart by column {series}, and a table holds one field.",
            f"Choose the rows of one value of {series}, such as one time or level, or average over "
            "them. Series in time are read from .nc, .zarr, .npz.",
        )
    raise InvalidInputError(
        f"{coincide}.",
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


def why_missing(notes: list[Note]) -> str:
    """What made numbers missing that the file has, in brackets for a message."""
    return "".join(f" ({note})" for note in notes if isinstance(note, MissingValuesNote))


def warn_of_data(problem: str, remedy: Remedy | str = "") -> None:
    """Give a ``SuspiciousDataWarning``."""
    warn(problem, SuspiciousDataWarning, remedy=remedy)


def warn_if_suspicious(field: Field) -> None:
    """Look for transposed arrays, radians, markers of missing values, too few points, and rows that
    dominate."""
    n, dims = field.space.coordinates.shape
    if n < dims and n <= FEW_POINTS:
        warn_of_data(
            f"{n} points in R^{dims}: is the array transposed? Points have shape (n, D), a row "
            "for each."
        )
    elif n < FEW_POINTS and field.values is not None:
        warn_of_data(
            f"{n} points are too few to estimate tangent spaces and noise. Give at least "
            f"{FEW_POINTS}."
        )
    if isinstance(field.space, Globe) and np.abs(field.space.lat).max() < 1.6:
        warn_if_radians("longitude", field.space.lon)
    groups = {"coordinates": (field.space.names, field.space.coordinates)}
    groups |= {} if field.values is None else {"components": (field.names, field.values)}
    found = [
        _marker(name, a[..., k].ravel())
        for names, a in groups.values()
        for k, name in enumerate(names)
    ]
    if not any(found):  # one in each of many columns
        found = [_marker(f"all {kind}", a.ravel()) for kind, (_, a) in groups.items()]
    if texts := list(filter(None, found)):
        warn_of_data(
            f"{'; '.join(texts)}.",
            Remedy(
                "If they mark missing values, empty these cells and use {drop_missing}.",
                drop_missing=True,
            ),
        )
    if texts or field.values is None:
        return
    energy = np.square(field.values.astype(float)).sum(axis=(0, 2))
    row, total = int(energy.argmax()), float(energy.sum())
    if n >= FEW_POINTS and energy[row] > DOMINANT_SHARE * total > 0:
        warn_of_data(
            f"row {field.row_in_file(row)} has {energy[row] / total:.0%} of the energy of all {n} "
            "vectors, and determines the result. Check its units, or delete it."
        )


def warn_if_radians(name: str, angles: np.ndarray) -> None:
    """Warn of angles in degrees, all round the circle, none of which is larger than 2 pi."""
    largest = np.abs(np.nan_to_num(angles)).max()
    if 1 < largest < 2 * np.pi + 0.01 and angles.size >= FEW_POINTS:
        warn_of_data(
            f"the largest angle of {name} is {largest:.3g}: are they radians? Give degrees."
        )


def _marker(name: str, values: np.ndarray) -> str:
    """What looks like a marker: a value that occurs several times and is far larger than all
    others.

    Most values may be a marker only if it is as large as markers usually are: many columns are
    nearly constant.
    """
    size = np.abs(values)
    is_top = size == (top := size.max())
    others, count = size[~is_top], int(is_top.sum())
    limit = len(others) if top < MIN_MAJORITY_MARKER else len(size)
    if 2 <= count < limit and top > MARKER_RATIO * others.max() and np.median(others) > 0:
        return (
            f"{count} values of {name} are {values[is_top][0]:g}, all others at most "
            f"{others.max():.3g}"
        )
    return ""
