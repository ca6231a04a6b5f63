"""Fields from xarray datasets: variables are found by their CF names, and grids stay grids."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..earth import xarrays
from ..errors import (
    NO_EXAMPLE,
    InvalidInputError,
    MissingColumnsError,
    NonFiniteError,
    Note,
    Remedy,
)
from ..extras import extra
from ..winds import DIRECTION, EAST_NORTH, SPEED, speed_direction, without_impossible
from .checks import check_count, why_missing
from .columns import find_columns, from_columns, real, with_errors
from .field import Field, Request
from .grid_files import GridFile
from .names import listed, named, plain_name, split_unit
from .spaces import Globe

if TYPE_CHECKING:
    from ..earth.gridfields import GridFields

NAMED_OPTIONS = {"points": None, "latlon": 2, "vectors": None, "wind": 2}
"""Options that name variables, and how many of them; None for any number."""


# Reading.


def check_names(
    variables: Sequence[str], dims: Sequence[str], request: Request, others: Sequence[str] = ()
) -> Request:
    """Return a request with names written out; raise if they or ``others``, or dimensions, are not
    there."""
    missing = [name for name in request.select if name not in dims]
    if missing:
        raise MissingColumnsError(
            f"there is no dimension {missing[0]} to select; there are {listed(dims)}."
        )
    named(others, variables, "variables")
    names: dict[str, Any] = {}
    for option, count in NAMED_OPTIONS.items():
        wanted = getattr(request, option)
        if wanted:
            names[option] = named(wanted, variables, option, count)
    if request.sigma:
        names["sigma"] = named([request.sigma], variables, "sigma", 1)[0]
    return replace(request, **names)


def from_dataset(ds: Any, request: Request) -> Field:
    """The field of an ``xarray.Dataset``."""
    from ..earth.healpix import find_healpix  # loads torch

    notes: list[Note] = []
    request = check_names([*map(str, ds.variables)], [*map(str, ds.dims)], request)
    ds = _selected(ds, request.select, notes)
    for name, standard in zip(request.latlon, ("latitude", "longitude"), strict=False):
        ds = ds.set_coords(name)
        ds[name].attrs["standard_name"] = standard
    angles: list[str] = []
    with contextlib.suppress(InvalidInputError):
        angles = [str(xarrays.coordinate(ds, ds, name).name) for name in ("latitude", "longitude")]
    if request.points or not (angles or find_healpix(ds)):
        return _from_variables(ds, request)
    return _from_grid(ds.set_coords(angles), tuple(angles) or ("lat", "lon"), request, notes)


def _from_grid(ds: Any, places: tuple[str, ...], request: Request, notes: list[Note]) -> Field:
    """The field of a dataset with latitude and longitude, or none if only points are wanted."""
    from ..earth import Grid
    from ..earth.gridfields import GridFields

    ds, names, wind = _find_components(ds, request)
    fields = None
    if names:
        text = f"vectors: variables {listed(names)}"
        if wind:
            text = f"vectors: speed {wind[0]} and direction {wind[1]}, where it comes from"
        if not (request.vectors or request.wind):
            text += ", found by name"
        notes.insert(0, Note(text))
        fields = GridFields.of(ds, names, notes)
        notes.append(Note(f"units: {fields.unit or 'the file gives none'}"))
    grid = fields.grid if fields else Grid.of(ds)
    check_count(len(grid), request)
    notes.append(Note(f"points: {', '.join(places)}, in degrees"))
    merged = int((grid.cell >= 0).sum()) - len(grid)
    if merged > 0:
        notes.append(Note(f"{merged} cells at the place of another (poles) counted once"))
    globe = Globe(grid.lat, grid.lon, places)
    if fields is None:
        origin = GridFile(ds.drop_vars(ds.data_vars), grid, np.arange(len(grid)))
        return Field(globe, notes=tuple(notes), origin=origin)
    return replace(_fields_at(globe, fields, request, notes), wind=wind)


@dataclass(frozen=True, eq=False)
class _GridValues:
    """The fields ``values (T, n, 2)`` of a grid, along the dimensions ``along``; the dimension of
    dates if there is one, the ``others`` with several values, and dates ``(T,)``, or fewer if
    there are not as many."""

    ds: Any
    values: np.ndarray
    along: list[str]
    date: str | None
    others: list[str]
    times: np.ndarray

    def at(self, filled: np.ndarray) -> _GridValues:
        """Those at the times ``filled`` (T,)."""
        return replace(
            self,
            ds=self.ds.isel({self.date: filled}),
            values=self.values[filled],
            times=self.times[filled],
        )


def _fields_at(globe: Globe, fields: GridFields, request: Request, notes: list[Note]) -> Field:
    """The fields of all times, and of all values of other dimensions such as levels."""
    grid = fields.grid
    read = _without_empty_times(_grid_values(fields, notes), notes)
    has_vector = np.isfinite(read.values).all(axis=-1)
    points = _complete_points(has_vector, request, notes)
    axes: tuple[tuple[str, np.ndarray], ...] = ()
    times = None
    if len(read.times) == len(read.values) and not read.others:
        times = read.times
    if read.others:
        text = f"{len(read.values)} fields along {listed(read.along)}, each by itself;"
        notes.append(Note(text, Remedy("{select} chooses one", select=NO_EXAMPLE)))
        shown = [name for name in read.along if name == read.date or name in read.others]
        axes = tuple((name, read.ds[name].values) for name in shown)
    field = Field(
        space=globe.select(points),
        values=read.values[:, points],
        names=fields.names,
        times=times,
        units=fields.unit,
        notes=tuple(notes),
        origin=GridFile(read.ds, grid, points, read.date),
        axes=axes,
    )
    sigma = request.sigma or "sigma"
    if sigma not in read.ds:
        return field
    variable = read.ds[sigma]
    if {*variable.dims} != {*grid.dims}:
        raise InvalidInputError(
            f"{sigma} must have a standard error for each place, along {', '.join(grid.dims)}."
        )
    errors = variable.transpose(*grid.dims).values[..., None].astype(float)
    at_points = grid.to_points(errors)[points, 0]
    return with_errors(field, at_points, sigma, xarrays.unit_of(variable))


def _grid_values(fields: GridFields, notes: list[Note]) -> _GridValues:
    """The vectors of all points of a grid, and the dimensions that they run through."""
    grid = fields.grid
    ds = fields.ds
    east = ds[fields.names[0]]
    along = [str(name) for name in east.dims if name not in grid.dims]
    variables = [ds[name].transpose(*along, *grid.dims).values for name in fields.names]
    components = np.stack(variables, axis=-1).astype(float)
    components = without_impossible(components, fields.unit, notes)
    values = grid.to_coordinates(components).reshape(-1, len(grid), 2)
    grid.warn_if_copies_differ(components, values)
    dates = [name for name in along if ds[name].dtype.kind == "M"]
    date = dates[0] if dates else None
    others = [name for name in along if name != date and east.sizes[name] > 1]
    times = np.empty(0, "datetime64[ns]")
    dated = [coordinate for coordinate in east.coords.values() if coordinate.dtype.kind == "M"]
    if dated:
        times = np.ravel(dated[0].values)
    return _GridValues(ds, values, along, date, others, times)


def _without_empty_times(read: _GridValues, notes: list[Note]) -> _GridValues:
    """The fields without those at times that have no values at all."""
    filled = np.isfinite(read.values).all(axis=-1).any(axis=1)
    if read.date is None or read.others or filled.all() or not filled.any():
        return read
    text = f"{int((~filled).sum())} of {len(filled)} times without values left out"
    notes.append(Note(text))
    return read.at(filled)


def _complete_points(has_vector: np.ndarray, request: Request, notes: list[Note]) -> np.ndarray:
    """Numbers of points with values in all fields, of ``has_vector (T, n)``: those without any are
    land, others holes."""
    if request.drop_missing:
        points = np.flatnonzero(has_vector.all(axis=0))
    else:
        points = np.flatnonzero(has_vector.any(axis=0))
    holes = ~has_vector
    if len(points):
        holes = ~has_vector[:, points]
    if holes.any():
        raise NonFiniteError(
            f"{int(holes.sum())} of {holes.size} vectors are missing{why_missing(notes)}.",
            Remedy(
                "Leave out incomplete places with {drop_missing}, choose with {select}, or "
                "interpolate in xarray first.",
                drop_missing=True,
                select=NO_EXAMPLE,
            ),
        )
    n = has_vector.shape[1]
    if len(points) < n:
        notes.append(Note(f"{n - len(points)} of {n} points with missing values left out"))
    return points


def _selected(ds: Any, select: Mapping[str, Any], notes: list[Note]) -> Any:
    """The dataset at chosen values of dimensions: numbers, names, or dates by their beginning."""
    for name, value in select.items():
        axis: np.ndarray = ds[name].values
        chosen = _positions(axis, value)
        if not len(chosen):
            ends = " to ".join(str(end)[:16] for end in (axis[0], axis[-1]))
            raise InvalidInputError(
                f"{name} has no value {value}; it has {len(axis)}, from {ends}."
            )
        ds = ds.isel({name: chosen})
        notes.append(Note(f"selected: {name} {value}"))
    return ds


def _positions(axis: np.ndarray, value: Any) -> np.ndarray:
    """Where a value is on an axis."""
    if axis.dtype.kind in "fiu":
        try:
            return np.flatnonzero(axis == float(value))
        except ValueError:
            return np.empty(0, int)
    exact = np.empty(0, int)
    with contextlib.suppress(ValueError):  # of NumPy, for text that is no date
        exact = np.flatnonzero(axis == str(value))
    if len(exact):
        return exact
    return np.flatnonzero([str(text).startswith(str(value)) for text in axis])


def _find_components(ds: Any, request: Request) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """The dataset, its eastward and northward variables (as requested, or by name), and speed and
    direction, if used."""
    if request.only_points:
        return ds, (), ()
    if request.vectors:
        return ds, request.vectors, ()
    if request.wind:
        return xarrays.with_components(ds, request.wind)[0], EAST_NORTH, request.wind
    try:
        with_components, names, wind = xarrays.find_vectors(ds)
    except MissingColumnsError:
        if request.needs_vectors:
            raise
        return ds, (), ()
    xarrays.warn_of_other_pairs(with_components, names)
    return with_components, names, wind


def _from_variables(ds: Any, request: Request) -> Field:
    """Points and vectors as variables along one dimension."""
    flat = {
        str(name): ds[name]
        for name in ds.variables
        if ds[name].ndim == 1 and ds[name].dtype.kind in "fiu"
    }
    columns = find_columns(list(flat), request)
    dims = {flat[name].dims for name in columns.numeric}
    if len(dims) > 1:
        raise InvalidInputError(
            f"points and vectors must lie along one dimension, got {sorted(map(str, dims))}."
        )
    notes = [*columns.notes]
    units = {}
    for name, unit in columns.units.items():
        units[name] = unit or xarrays.unit_of(flat[name])
    numbers = {}
    for name in columns.numeric:
        numbers[name] = real(xarrays.without_fill(flat[name], notes).values, name)
    columns = replace(columns, units=units, notes=tuple(notes))
    others = {str(name): ds[name].values for name in ds.variables if {ds[name].dims} == dims}
    field, rows = from_columns(numbers.__getitem__, columns, request, others)
    if field.values is None:
        return field
    if rows is not None:
        ds = ds.isel({dims.pop()[0]: rows})
    return replace(field, origin=ds)


# Writing.


def to_dataset(field: Field) -> Any:
    """A CF dataset: that of its file with new vectors in the same form, or a new one along a
    dimension ``point``."""
    form = _form(field)
    variables: dict[str, Any] = {}
    for part in (field, *field.parts.values()):
        variables |= form.variables_of(part)
    xr = extra("xarray", "Writing datasets")
    attrs = {"Conventions": "CF-1.8", **form.origin.attrs}
    ds = xr.Dataset(variables, form.coords, attrs=attrs)
    changed = [
        name
        for name in form.origin.dims
        if name in ds.dims and not ds[name].variable.equals(form.origin[name].variable)
    ]
    rest = form.origin.drop_dims(changed)
    written = {*ds.variables, *field.names}
    replaced = [name for name in rest.variables if {name, plain_name(str(name))} & written]
    rest = rest.drop_vars(replaced)
    # encodings are those of other formats
    return ds.assign(rest.data_vars).assign_coords(rest.coords).drop_encoding()


@dataclass(frozen=True, eq=False)
class _Form:
    """How a field becomes variables of a dataset.

    Attributes:
        origin: the dataset of its file, or an empty one.
        grid: what places it on a grid, if it is on one.
        like: the variable of its first component in the origin, or an empty one.
        coords: coordinates of the new dataset.
        lead: dimensions before those of the places, with their sizes.
        places: dimensions of the places.
    """

    origin: Any
    grid: GridFile | None
    like: Any
    coords: dict[str, Any]
    lead: dict[str, int]
    places: tuple[str, ...]

    def variables_of(self, field: Field) -> dict[str, Any]:
        """Components and standard deviations of a field, or speed and direction, by name."""
        values = field.values
        std = field.std
        if self.grid is not None:
            values, std = self.grid.cells(field)
        if values is None:
            return {}
        variables = {}
        for number, name_and_unit in enumerate(field.names):
            name = plain_name(name_and_unit)
            if not field.wind:
                attrs = xarrays.rate_attrs(name, self.like)
                numbers = values[..., number]
                variables[name] = self._variable(name, numbers, field.units, attrs)
            if std is not None:
                name_of_std = f"{name}_std"
                attrs = {"long_name": f"standard deviation of {name}"}
                numbers = std[..., number]
                variables[name_of_std] = self._variable(name_of_std, numbers, field.units, attrs)
        if field.wind:
            variables |= self._speed_and_direction(field, values)
        return variables

    def _speed_and_direction(self, field: Field, values: np.ndarray) -> dict[str, Any]:
        """Variables of the speed and direction of components ``(T, n, 2)``."""
        speed_name = plain_name(field.wind[0])
        direction_name, turn = split_unit(field.wind[1])
        if not turn and direction_name in self.origin:
            turn = xarrays.unit_of(self.origin[direction_name])
        turn = turn or "degree"
        speed, direction = speed_direction(values.T, turn)
        return {
            speed_name: self._variable(
                speed_name, speed.T, field.units, {"standard_name": SPEED[0]}
            ),
            direction_name: self._variable(
                direction_name, direction.T, turn, {"standard_name": DIRECTION[0]}
            ),
        }

    def _variable(self, name: str, numbers: np.ndarray, unit: str, attrs: dict[str, str]) -> Any:
        """A variable with the attributes of the one of its name in the origin."""
        xr = extra("xarray", "Writing datasets")
        if name in self.origin:
            known = self.origin[name].attrs
            attrs = attrs | {key: value for key, value in known.items() if key != "units"}
        if unit:
            attrs = attrs | {"units": unit}
        dims = (*self.lead, *self.places)
        shaped = numbers.reshape(*self.lead.values(), *numbers.shape[1:])
        return xr.Variable(dims, shaped, attrs).transpose(*self._order(dims))

    def _order(self, dims: tuple[str, ...]) -> list[str]:
        """Dimensions in the order of the file; new ones first."""
        order = list(self.like.dims)
        return sorted(dims, key=lambda name: order.index(name) if name in order else -1)


def _form(field: Field) -> _Form:
    """The form of a field: that of its file."""
    xr = extra("xarray", "Writing datasets")
    grid = field.origin if isinstance(field.origin, GridFile) else None
    origin = xr.Dataset()
    if grid is not None:
        origin = grid.ds
    elif isinstance(field.origin, xr.Dataset):
        origin = field.origin
    like = origin.get(field.names[0], xr.DataArray())
    places = _place_dims(field, grid, origin)
    coords = {
        str(name): variable
        for name, variable in origin.coords.items()
        if {*variable.dims} <= {*places}
    }
    if grid is None:
        space = field.space
        columns = zip(space.names, space.coordinates.T, space.attributes, strict=True)
        for name, column, attrs in columns:
            coords[plain_name(name)] = (places, column, attrs)
    lead, lead_coords = _leading_dims(field, grid, origin)
    coords |= lead_coords
    for name in like.dims:
        if like.sizes[name] == 1 and name not in lead and name not in places:
            lead[name] = 1
    for name in lead:
        if name not in coords and name in origin.coords:
            coords[name] = origin[name]
    return _Form(origin, grid, like, coords, lead, places)


def _place_dims(field: Field, grid: GridFile | None, origin: Any) -> tuple[str, ...]:
    """The dimensions of the places."""
    if grid is not None:
        return grid.grid.dims
    first = field.space.names[0]
    return origin[first].dims if first in origin else ("point",)


def _leading_dims(
    field: Field, grid: GridFile | None, origin: Any
) -> tuple[dict[str, int], dict[str, Any]]:
    """The dimensions that fields run through, with their sizes, and their coordinates."""
    if field.axes:
        sizes = {}
        coords = {}
        for name, axis in field.axes:
            sizes[name] = len(axis)
            coords[name] = ((name,), axis, _attrs(origin, name))
        return sizes, coords
    dimension = None if grid is None else grid.dimension
    has_axis = grid is None or dimension is not None or len(field) > 1
    if field.times is not None and has_axis:
        name = dimension or "time"
        times = field.times.astype("datetime64[ns]")
        return {name: len(field)}, {name: ((name,), times, _attrs(origin, dimension))}
    if len(field) > 1:
        return {"step": len(field)}, {}
    return {}, {}


def _attrs(ds: Any, name: str | None) -> dict[str, Any]:
    """The attributes of a variable; empty if there is none."""
    return ds[name].attrs if name in ds else {}
