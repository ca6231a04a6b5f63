"""Wind on the sphere: components, ambient vectors, samples of points, windows of time; read from
datasets and grids."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from ..errors import (
    InvalidInputError,
    NonFiniteError,
    Note,
    ShapeError,
)
from ..extras import extra
from ..geometry.known_frames import latlon_frames
from ..timeline import Times, Windows, fill_single_steps
from ..units import conversion
from ..winds import without_impossible
from .blocks import GridFields
from .grid import Grid

if TYPE_CHECKING:
    import xarray

Index = slice | np.ndarray | list[int]


@dataclass(frozen=True, eq=False, repr=False)
class WindData:
    """Wind at n points of the unit sphere and T times.

    Attributes:
        times: ``(T,)`` ascending dates.
        lat, lon: ``(n,)`` degrees.
        components: ``(T, n, 2)`` eastward and northward wind.
        area: ``(n,)`` share of the sphere that each point represents; sums to one.
        provenance: where the data came from and how they were processed.
        filled: ``(T,)`` true where an analysis was missing and was filled in: do not score these.
        points: ``(n, 3)`` on the unit sphere.
        frames: ``(n, 3, 2)`` unit vectors east and north; at a pole, those of its longitude.
        ambient: ``(T, n, 3)`` the wind as tangent vectors of R^3, frames times components.

    >>> from tangentbundle.datasets import load_wind
    >>> data = load_wind()  # the series inside the package
    >>> data
    WindData(132 times from 1982-01-16 to 1992-12-17, 0 filled, 2520 points)
    >>> subset = data.at(data.sample(200, rng=0))  # about 200 points, evenly over the sphere
    >>> subset.windows(20).inputs.shape  # m = 132 - 2 * 20 subsequences
    (92, 20)
    """

    times: Times
    lat: np.ndarray
    lon: np.ndarray
    components: np.ndarray
    area: np.ndarray
    provenance: str
    filled: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        if not self.filled.size:
            object.__setattr__(self, "filled", np.zeros(len(self.times), bool))
        steps, n = len(self.times), len(self.lat)
        for name, shape in {
            "components": (steps, n, 2),
            "lon": (n,),
            "area": (n,),
            "filled": (steps,),
        }.items():
            if (given := getattr(self, name).shape) != shape:
                raise ShapeError(
                    f"{name} must have shape {shape} for {steps} times and {n} latitudes, got "
                    f"{given}."
                )

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        days = self.times[[0, -1]].astype("datetime64[D]") if len(self) else ()
        period = " from {} to {}".format(*days) if len(self) else ""
        return (
            f"WindData({len(self)} times{period}, {int(self.filled.sum())} filled, "
            f"{len(self.lat)} points)"
        )

    @cached_property
    def points(self) -> np.ndarray:
        return latlon_frames(self.lat, self.lon)[0]

    @cached_property
    def frames(self) -> np.ndarray:
        return latlon_frames(self.lat, self.lon)[1]

    @cached_property
    def ambient(self) -> np.ndarray:
        return np.einsum("nda,tna->tnd", self.frames, self.components)

    def at(self, indices: Index) -> WindData:
        """The wind at a subset of the points. Their areas are rescaled to sum to one."""
        lat, lon, area = self.lat[indices], self.lon[indices], self.area[indices]
        return replace(
            self, lat=lat, lon=lon, components=self.components[:, indices], area=area / area.sum()
        )

    def during(self, times: Index) -> WindData:
        """The wind at a subset of the times: a slice, numbers or a mask."""
        filled = self.filled[times].copy()
        return replace(
            self, times=self.times[times], components=self.components[times], filled=filled
        )

    def sample(self, n: float, rng: int | np.random.Generator | None = None) -> np.ndarray:
        """Draw points independently; returns their ascending numbers. n is the *expected* count, as
        in the paper.

        The probability is proportional to the area, so that samples of a grid are even on the
        sphere.
        """
        return np.flatnonzero(
            np.random.default_rng(rng).random(len(self.area)) < inclusion(self.area, n)
        )

    def windows(self, horizon: int) -> Windows:
        """Subsequences of twice the horizon T_f for forecasting: T_f inputs, then T_f targets, none
        across a gap.

        >>> from tangentbundle.datasets import load_wind
        >>> data = load_wind()
        >>> w = data.windows(12)
        >>> (
        ...     data.components[w.inputs[0]].shape,
        ...     data.components[w.targets[0]].shape,
        ...     bool(w.scored.all()),
        ... )
        ((12, 2520, 2), (12, 2520, 2), True)
        """
        return Windows.of(self.times, self.filled, horizon)

    @property
    def dataset(self) -> xarray.Dataset:
        """A CF dataset with dimensions (time, point), which ``load_wind`` reads back."""
        u, v = self.components[..., 0], self.components[..., 1]
        return extra("xarray", "WindData.dataset").Dataset(
            {
                "u": (("time", "point"), u, {"standard_name": "eastward_wind", "units": "m s-1"}),
                "v": (("time", "point"), v, {"standard_name": "northward_wind", "units": "m s-1"}),
            },
            coords={
                "time": ("time", self.times.astype("datetime64[ns]")),
                "lat": ("point", self.lat, {"standard_name": "latitude", "units": "degrees_north"}),
                "lon": ("point", self.lon, {"standard_name": "longitude", "units": "degrees_east"}),
            },
            attrs={"Conventions": "CF-1.8", "source": self.provenance},
        )


def inclusion(weights: np.ndarray, n: float) -> np.ndarray:
    """Probabilities proportional to the weights, at most one, whose sum is n.

    >>> inclusion(np.array([1.0, 1.0, 2.0, 4.0]), 2)
    array([0.25, 0.25, 0.5 , 1.  ])
    """
    if not 0 < n <= len(weights):
        raise InvalidInputError(
            f"the expected count must lie between 0 and the {len(weights)} points, got {n!r}."
        )
    scale = brentq(lambda s: np.minimum(1, s * weights).sum() - n, 0, 2 / weights.min())
    return np.minimum(1, scale * weights)


def from_xarray(ds: xarray.Dataset, provenance: str, u: str, v: str) -> WindData:
    """The wind of a dataset, in m/s if it has units of speed; ``u`` and ``v`` name its
    variables."""
    notes: list[Note] = []
    fields = GridFields.of(ds, (u, v) if u or v else (), notes, one_of_many=True)
    titles = [str(ds.attrs[key]) for key in ("title", "source") if ds.attrs.get(key)]
    notes.insert(0, Note(provenance or "; ".join(titles) or "an xarray dataset"))
    grid, own, factor = fields.grid, fields.unit, 1.0
    if own and (known := conversion(own, "m/s")):
        if known != 1.0:
            notes.append(Note(f"converted from {own} to m/s"))
        own, factor = "m/s", known
    arrays = [_with_time(fields.ds[name], grid.dims) for name in fields.names]
    time = next(d for d in arrays[0].dims if d not in grid.dims)
    components = factor * np.stack([a.transpose(time, *grid.dims).values for a in arrays], axis=-1)
    cells = without_impossible(components, own, notes)
    components = grid.to_coordinates(cells)
    if copies := int((grid.cell >= 0).sum()) - len(grid):
        grid.warn_if_copies_differ(cells, components)
        text = f"{copies} cells at the place of another, such as a pole: the mean of their vectors"
        notes.append(Note(text))
    area = np.ones(len(grid)) if grid.axes is None else grid.areas
    history = "; ".join(note.text() for note in notes)
    return from_points(arrays[0][time].values, grid.lat, grid.lon, components, area, history)


def from_grid(
    times: Times, lat: np.ndarray, lon: np.ndarray, wind: np.ndarray, provenance: str
) -> WindData:
    """Wind ``(T, rows, columns, 2)``, east and north, on rows ``lat`` and columns ``lon`` in
    degrees and any order.

    A row at a pole holds many copies of one point, in frames that turn with longitude: their
    vectors are averaged.
    """
    grid = Grid.regular(np.asarray(lat, np.float64), np.asarray(lon, np.float64))
    components = grid.to_coordinates(np.asarray(wind, np.float64))
    return from_points(times, grid.lat, grid.lon, components, grid.areas, provenance)


def from_points(
    times: Times,
    lat: np.ndarray,
    lon: np.ndarray,
    components: np.ndarray,
    area: np.ndarray,
    provenance: str,
) -> WindData:
    """Wind ``(T, n, 2)`` at n points; NaN marks what is missing.

    A time without any value counts as missing, a point without any value is dropped, and other
    holes are refused. A single missing step is filled linearly in time and flagged; longer gaps
    stay.
    """
    order = np.argsort(times, kind="stable")
    times, components = times[order], components[order]
    holes = np.isnan(components).any(axis=-1)
    observed, there = ~holes.all(axis=1), ~holes.all(axis=0)
    if not observed.any():
        raise NonFiniteError(
            "the wind has no value at all: every time is missing. Check its fill value and "
            "variables."
        )
    if not there.all():
        provenance += f"; {int((~there).sum())} points without values dropped"
    times, holes = times[observed], holes[observed][:, there]
    components, area = components[observed][:, there], area[there]
    if not np.isfinite(components).all():
        raise NonFiniteError(
            f"{int(holes.sum())} of {holes.size} values are missing, at "
            f"{int(holes.any(axis=0).sum())} points and {int(holes.any(axis=1).sum())} times "
            f"({provenance}). Select complete ones, or interpolate them in xarray."
        )
    times, components, filled = fill_single_steps(times, components)
    if filled.any():
        provenance += f"; {int(filled.sum())} of {len(times)} times filled in"
    return WindData(
        times, lat[there], lon[there], components, area / area.sum(), provenance, filled
    )


def _with_time(wind: xarray.DataArray, places: tuple) -> xarray.DataArray:
    """The wind with one dimension of dates besides its places; others must have length one."""
    dates = [
        k
        for k, c in wind.coords.items()
        if c.dtype.kind == "M" and c.ndim <= 1 and not {*c.dims} & {*places}
    ]
    along = [key for key in dates if wind.coords[key].dims == (key,)][:1]
    others = [d for d in wind.dims if d not in (*places, *along)]
    if long := [d for d in others if wind.sizes[d] > 1]:
        raise InvalidInputError(
            f"expected time, latitude and longitude only, but the wind has {wind.sizes[long[0]]} "
            f"values along {long[0]!r}. Choose one, for example ds.isel({long[0]}=0); dates of "
            "other calendars need convert_calendar first."
        )
    if not dates:
        raise InvalidInputError(
            "the wind has no date. Give it one: ds.expand_dims(time=[np.datetime64('2026-01-01', "
            "'ns')])."
        )
    wind = wind.squeeze(others)
    return wind if along else wind.expand_dims("valid_time" if "valid_time" in dates else dates[0])
