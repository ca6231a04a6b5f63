"""A vector field as a file holds it, and what a reader is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..earth.xarrays import NETCDF_FILL
from ..errors import InvalidInputError, NonFiniteError, ShapeError, TooFewPointsError
from .spaces import Cloud, Globe


@dataclass(frozen=True)
class Request:
    """What to read: names of columns (guessed where not given), and what to do with unusable rows.

    Names may be patterns (``pc*``) and ranges (``pc1:pc50``). ``wind`` names speed and direction, ``select`` chooses
    values of dimensions such as ``{"level": 500}``. ``sigma`` names the column of standard errors.
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


@dataclass(frozen=True, eq=False)
class Field:
    """Vectors ``values (T, n, c)`` at the points of a space, in the components of the file; None if it has none.

    ``names`` are those of the components, ``std`` their standard deviations, ``times (T,)`` dates if the file has them,
    ``notes`` say what was guessed, and ``origin`` is the other content of the file, for writing a similar one. ``axes``
    are names and values of leading dimensions if there are others than time, such as levels: the T fields run through
    them, the last one fastest. ``wind`` names the columns of speed and direction that vectors were computed from.
    ``noise`` are known standard errors of the vectors, ``(n,)``.
    ``parts`` are other vectors, or numbers (c = 1), at the same points and times, to write next to these.
    """

    space: Cloud
    values: np.ndarray | None = None
    names: tuple[str, ...] = ()
    std: np.ndarray | None = None
    times: np.ndarray | None = None
    units: str = ""
    notes: tuple[str, ...] = ()
    origin: Any = None
    axes: tuple[tuple[str, np.ndarray], ...] = ()
    wind: tuple[str, ...] = ()
    noise: np.ndarray | None = None
    parts: Mapping[str, Field] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", self.space.vector_names)
        shape = (len(self.space), len(self.names))
        if self.values is not None and (self.values.ndim != 3 or self.values.shape[1:] != shape):
            raise ShapeError(
                f"expected vectors of shape (T, n, components) = (T, {shape[0]}, {shape[1]}), got {self.values.shape}."
            )

    def __len__(self) -> int:
        """Fields in time."""
        return 0 if self.values is None else len(self.values)

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
            day = self.times.astype("datetime64[D]")
            text += f", {len(self.times)} times from {day[0]} to {day[-1]}"
        elif len(self) > 1:
            text += f", {len(self)} fields"
        return text


def usable_rows(numbers: np.ndarray, request: Request, notes: list[str]) -> np.ndarray:
    """Rows without missing numbers ``(n, k)``; those with some are refused unless ``drop_missing``."""
    # NetCDF's fill value is missing in every format: other programs export it as a number
    good = np.all(np.isfinite(numbers) & (numbers != NETCDF_FILL), axis=1)
    bad = np.flatnonzero(~good)
    if len(bad) and not request.drop_missing:
        why = "".join(f" ({note})" for note in notes if "missing" in note)
        raise NonFiniteError(
            f"{len(bad)} of {len(good)} rows have missing or infinite numbers (first: row {bad[0] + 1}){why}. Fill "
            "them, or leave these rows out with drop_missing=True."
        )
    notes += [f"{len(bad)} of {len(good)} rows with missing numbers left out"] if len(bad) else []
    return np.flatnonzero(good)


def distinct_rows(space: Cloud, request: Request, notes: list[str]) -> np.ndarray:
    """The first row at each place; repeats are refused unless ``drop_duplicates``."""
    points = np.round(space.points, 9) if isinstance(space, Globe) else space.points  # to a centimetre on the Earth
    order = np.lexsort(points.T)  # stable: the first row of a place comes first
    later = np.sort(order[1:][np.all(points[order[1:]] == points[order[:-1]], axis=1)])
    if len(later) and not request.drop_duplicates:
        raise InvalidInputError(
            f"{len(later)} of {len(space)} points coincide with an earlier one (first: row {later[0] + 1}). Keep the "
            "first of each with drop_duplicates=True, or average them. Series in time are read from .nc, .zarr, .npz."
        )
    notes += [f"{len(later)} of {len(space)} points that coincide with an earlier one left out"] if len(later) else []
    return np.delete(np.arange(len(space)), later)


def check_count(n: int, request: Request) -> None:
    """Refuse files with too few points for any geometry (one is enough to predict at)."""
    least = 1 if request.only_points else 3
    if n < least:
        raise TooFewPointsError(f"a field needs at least {least} points, the file has {n}. Give more points.")
