"""A vector field as a file holds it, and what a reader is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InvalidInputError, Note, ShapeError
from ..layout import Layout
from ..spaces import Space
from .clocks import Clock


@dataclass(frozen=True)
class Request:
    """What to read: names of columns (guessed where not given), and what to do with unusable rows.

    Names may be patterns (``pc*``) and ranges (``pc1:pc50``). ``wind`` names speed and direction,
    ``select`` chooses values of dimensions such as ``{"level": 500}``. ``sigma`` names the column
    of standard errors. ``up`` is the axis that figures show as up: x, y or z, by default y for OBJ
    files and z for all others. ``layout`` says how tables are written, where that is not to be
    found out.
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
    layout: Layout = field(default_factory=Layout)


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
    file, from 0, where some of its rows were left out. ``observed`` ``(T, n)`` says which vectors
    of a series were measured, if some are missing: these are interpolated in time. ``clock`` is how
    a table writes its times. ``decimals`` of vectors are written to tables of text; None for all.
    """

    space: Space
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
    observed: np.ndarray | None = None
    clock: Clock | None = None
    decimals: int | None = None

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
        row = point if self.rows is None else self.rows[point]
        return int(row) + 1

    def measured(self, step: int) -> np.ndarray:
        """The points that have a measurement at one time, in order."""
        if self.observed is None:
            return np.arange(len(self.space))
        return np.flatnonzero(self.observed[step])

    @property
    def vectors(self) -> np.ndarray:
        """Ambient vectors ``(T, n, D)``."""
        if self.values is None:
            raise InvalidInputError("the file has points only: there are no vectors to work on.")
        return self.space.to_ambient(self.values)

    def with_vectors(self, vectors: np.ndarray, **changes: Any) -> Field:
        """The same file with other ambient vectors ``(T, n, D)``."""
        return replace(self, values=self.space.to_components(vectors), **changes)

    def __str__(self) -> str:
        text = str(self.space)
        if self.times is not None and len(self.times) > 1:
            first, last = self.ends(self.times)
            text += f", {len(self.times)} times from {first} to {last}".replace("T", " ")
        elif len(self) > 1:
            text += f", {len(self)} fields"
        return text

    @staticmethod
    def ends(times: np.ndarray) -> np.ndarray:
        """The first and the last time: days, or minutes within one day."""
        ends = times[[0, -1]]
        days = ends.astype("datetime64[D]")
        return ends.astype("datetime64[m]") if days[0] == days[1] else days
