"""Wind on the sphere: components, ambient vectors, samples of points, windows of time; read from
datasets and grids."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from ..errors import InvalidInputError, NonFiniteError, Note, ShapeError
from ..extras import extra
from ..spaces import Globe
from ..timeline import Times, Windows, fill_single_steps
from ..units import conversion
from ..winds import without_impossible
from .grid import Grid
from .gridfields import GridFields

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
        times = len(self.times)
        n = len(self.lat)
        shapes = {"components": (times, n, 2), "lon": (n,), "area": (n,), "filled": (times,)}
        for name, shape in shapes.items():
            actual = getattr(self, name).shape
            if actual != shape:
                raise ShapeError(
                    f"{name} must have shape {shape} for {times} times and {n} latitudes, got "
                    f"{actual}."
                )

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        period = ""
        if len(self):
            first, last = self.times[[0, -1]].astype("datetime64[D]")
            period = f" from {first} to {last}"
        return (
            f"WindData({len(self)} times{period}, {int(self.filled.sum())} filled, "
            f"{len(self.lat)} points)"
        )

    @cached_property
    def globe(self) -> Globe:
        """The points."""
        return Globe(self.lat, self.lon)

    @property
    def points(self) -> np.ndarray:
        return self.globe.points

    @property
    def frames(self) -> np.ndarray:
        return self.globe.frames

    @cached_property
    def ambient(self) -> np.ndarray:
        return self.globe.to_ambient(self.components)

    def at(self, indices: Index) -> WindData:
        """The wind at a subset of the points. Their areas are rescaled to sum to one."""
        area = self.area[indices]
        return replace(
            self,
            lat=self.lat[indices],
            lon=self.lon[indices],
            components=self.components[:, indices],
            area=area / area.sum(),
        )

    def during(self, times: Index) -> WindData:
        """The wind at a subset of the times: a slice, numbers or a mask."""
        return replace(
            self,
            times=self.times[times],
            components=self.components[times],
            filled=self.filled[times].copy(),
        )

    def sample(self, n: float, rng: int | np.random.Generator | None = None) -> np.ndarray:
        """Draw points independently; returns their ascending numbers. n is the *expected* count, as
        in the paper.

        The probability is proportional to the area, so that samples of a grid are even on the
        sphere.
        """
        draws = np.random.default_rng(rng).random(len(self.area))
        return np.flatnonzero(draws < inclusion(self.area, n))

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
        variables = {}
        for k, (name, direction) in enumerate((("u", "eastward"), ("v", "northward"))):
            attributes = {"standard_name": f"{direction}_wind", "units": "m s-1"}
            variables[name] = (("time", "point"), self.components[..., k], attributes)
        coords: dict[str, Any] = {"time": ("time", self.times.astype("datetime64[ns]"))}
        columns = self.globe.coordinates.T
        for name, column, attributes in zip(
            self.globe.names, columns, self.globe.attributes, strict=True
        ):
            coords[name] = ("point", column, attributes)
        return extra("xarray", "WindData.dataset").Dataset(
            variables, coords, attrs={"Conventions": "CF-1.8", "source": self.provenance}
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
    names = (u, v) if u or v else ()
    fields = GridFields.of(ds, names, notes, one_of_many=True)
    notes.insert(0, Note(provenance or _title(ds)))
    grid = fields.grid
    factor, unit = _speed_unit(fields.unit, notes)
    arrays = [_with_time(fields.ds[name], grid.dims) for name in fields.names]
    time = next(dim for dim in arrays[0].dims if dim not in grid.dims)
    values = [array.transpose(time, *grid.dims).values for array in arrays]
    cells = without_impossible(factor * np.stack(values, axis=-1), unit, notes)
    components = grid.to_coordinates(cells)
    copies = int((grid.cell >= 0).sum()) - len(grid)
    if copies:
        grid.warn_if_copies_differ(cells, components)
        text = f"{copies} cells at the place of another, such as a pole: the mean of their vectors"
        notes.append(Note(text))
    return from_points(
        times=arrays[0][time].values,
        lat=grid.lat,
        lon=grid.lon,
        components=components,
        area=np.ones(len(grid)) if grid.axes is None else grid.areas,
        provenance="; ".join(note.text() for note in notes),
    )


def _title(ds: xarray.Dataset) -> str:
    """What a dataset says of itself."""
    titles = [str(ds.attrs[key]) for key in ("title", "source") if ds.attrs.get(key)]
    return "; ".join(titles) or "an xarray dataset"


def _speed_unit(unit: str, notes: list[Note]) -> tuple[float, str]:
    """The factor to m/s and that unit, if the unit is one of speed; otherwise one and the unit."""
    factor = conversion(unit, "m/s")
    if not unit or factor is None:
        return 1.0, unit
    if factor != 1.0:
        notes.append(Note(f"converted from {unit} to m/s"))
    return factor, "m/s"


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
    times = times[order]
    components = components[order]
    is_missing = np.isnan(components).any(axis=-1)
    has_wind = ~is_missing.all(axis=1)  # (T,)
    is_observed = ~is_missing.all(axis=0)  # (n,)
    if not has_wind.any():
        raise NonFiniteError(
            "the wind has no value at all: every time is missing. Check its fill value and "
            "variables."
        )
    if not is_observed.all():
        provenance += f"; {int((~is_observed).sum())} points without values dropped"
    times = times[has_wind]
    components = components[has_wind][:, is_observed]
    is_missing = is_missing[has_wind][:, is_observed]
    area = area[is_observed]
    if not np.isfinite(components).all():
        raise NonFiniteError(
            f"{int(is_missing.sum())} of {is_missing.size} values are missing, at "
            f"{int(is_missing.any(axis=0).sum())} points and {int(is_missing.any(axis=1).sum())} "
            f"times ({provenance}). Select complete ones, or interpolate them in xarray."
        )
    times, components, filled = fill_single_steps(times, components)
    if filled.any():
        provenance += f"; {int(filled.sum())} of {len(times)} times filled in"
    return WindData(
        times=times,
        lat=lat[is_observed],
        lon=lon[is_observed],
        components=components,
        area=area / area.sum(),
        provenance=provenance,
        filled=filled,
    )


def _with_time(wind: xarray.DataArray, places: tuple) -> xarray.DataArray:
    """The wind with one dimension of dates besides its places; others must have length one."""
    dates = [
        name
        for name, coordinate in wind.coords.items()
        if coordinate.dtype.kind == "M"
        and coordinate.ndim <= 1
        and not set(coordinate.dims) & set(places)
    ]
    along = [name for name in dates if wind.coords[name].dims == (name,)][:1]
    others = [dim for dim in wind.dims if dim not in (*places, *along)]
    for dim in others:
        if wind.sizes[dim] > 1:
            raise InvalidInputError(
                f"expected time, latitude and longitude only, but the wind has {wind.sizes[dim]} "
                f"values along {dim!r}. Choose one, for example ds.isel({dim}=0); dates of "
                "other calendars need convert_calendar first."
            )
    if not dates:
        raise InvalidInputError(
            "the wind has no date. Give it one: ds.expand_dims(time=[np.datetime64('2026-01-01', "
            "'ns')])."
        )
    wind = wind.squeeze(others)
    if along:
        return wind
    if "valid_time" in dates:
        return wind.expand_dims("valid_time")
    return wind.expand_dims(dates[0])
