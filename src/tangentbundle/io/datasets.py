"""NetCDF and Zarr through xarray: variables found by their CF names, grids written back as grids, with their units."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..earth.xarrays import EAST_NORTH, coordinate, degrees, find_vectors, unit_of, with_components, without_fill
from ..errors import DamagedFileError, InvalidInputError, MissingColumnsError
from ..extras import extra
from ..memory import require_memory
from .columns import from_columns
from .field import Field, Request, check_count, distinct_places
from .names import expanded, find_columns, listed, split_unit
from .spaces import Globe, Space


@dataclass(frozen=True, eq=False)
class GridFile:
    """The rest of a dataset: cells ``lat``, ``lon`` along the dimensions ``places``, variables and their attributes."""

    ds: Any
    lat: Any
    lon: Any
    attributes: list[dict]
    dimension: str | None

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.lat.dims, *self.lon.dims)))

    def angles(self) -> tuple[np.ndarray, np.ndarray]:
        """Latitude and longitude of every cell in degrees, shaped along ``places``."""
        lat, lon = extra("xarray", "Grids").broadcast(*(a.drop_vars(list(a.coords)) for a in (self.lat, self.lon)))
        lat, lon = (a.transpose(*self.places) for a in (lat, lon))
        return degrees(lat).reshape(lat.shape), degrees(lon).reshape(lon.shape)

    def coordinates(self) -> dict[str, Any]:
        """All coordinates of the cells."""
        known = {str(name): c for name, c in self.ds.coords.items() if set(c.dims) <= {*self.places}}
        return known | {str(a.name): a.drop_vars(list(set(a.coords) - {a.name})) for a in (self.lat, self.lon)}

    def cells(self, field: Field) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Components and standard deviations in every cell's own frame, NaN where the file had no point.

        Poles are one point in many frames; where a cell's frame is turned, both components have the same deviation.
        """
        from scipy.spatial import cKDTree

        from ..geometry.known_frames import latlon_frames

        lat, lon = self.angles()
        points, frames, _ = latlon_frames(lat.ravel(), lon.ravel())
        distance, nearest = cKDTree(field.space.points).query(points)
        there, values, std = distance[:, None] < 1e-6, None, None
        if field.values is not None:
            turned = field.values[:, nearest]
            if len(field.names) > 1:
                turned = np.einsum("nda,tnd->tna", frames, field.vectors[:, nearest])
            values = np.where(there, turned, np.nan).reshape(-1, *lat.shape, len(field.names))
        if field.std is not None:
            apart = np.abs((lon.ravel() - field.space.coordinates[nearest, 1] + 180) % 360 - 180) > 1e-6
            both = np.sqrt(np.mean(field.std**2, axis=-1, keepdims=True))
            even = np.where(apart[:, None], both[:, nearest], field.std[:, nearest])
            std = np.where(there, even, np.nan).reshape(-1, *lat.shape, 2)
        return values, std


def read_dataset(path: Path, request: Request) -> Field:
    """A field on the globe from eastward and northward variables, or on a cloud from variables along one dimension."""
    if path.is_file() and find_spec("netCDF4") is not None:
        _check_header(path, request)
    from ..earth.sources import open_dataset

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Failed to open Zarr store with consolidated")  # read all the same
            with open_dataset(path) as ds:
                require_memory(2.0 * ds.nbytes, f"reading {path.name}", "Choose some times or a region first.")
                ds = ds.load()
    except (InvalidInputError, DamagedFileError):
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DamagedFileError(f"{path.name} cannot be read ({' '.join(str(error).split())[:200]}).") from error
    return from_dataset(ds, request)


def _check_header(path: Path, request: Request) -> None:
    """Refuse what the header of a NetCDF file suffices to refuse: xarray takes a while to load."""
    import netCDF4

    try:
        with netCDF4.Dataset(path) as file:
            variables, dimensions = list(file.variables), list(file.dimensions)
    except OSError as error:
        text = f"{path.name} cannot be opened: it is truncated, damaged or of another format ({error})."
        raise DamagedFileError(text) from error
    check_names(variables, dimensions, request)


def check_names(variables: Sequence[str], dimensions: Sequence[str], request: Request) -> None:
    """Refuse a request for variables or dimensions that are not there."""
    if missing := [name for name in request.select if name not in dimensions]:
        raise MissingColumnsError(f"there is no dimension {missing[0]} to select; there are {listed(dimensions)}.")
    for option in ("latlon", "vectors", "wind"):
        asked = expanded(getattr(request, option), variables)
        if missing := [name for name in asked if name not in variables]:
            text = f"there is no variable {listed(missing)}; the file has {listed(variables)}. Correct {option}=."
            raise MissingColumnsError(text)
        if asked and option != "vectors" and len(asked) != 2:
            raise MissingColumnsError(f"{option}= takes two variables, got {listed(asked)}.")


def from_dataset(ds: Any, request: Request) -> Field:
    """The field of an ``xarray.Dataset``."""
    notes: list[str] = []
    check_names([*map(str, ds.variables)], [*map(str, ds.dims)], request)
    ds = _selected(ds, request.select, notes)
    for name, standard in zip(request.latlon, ("latitude", "longitude"), strict=False):
        ds = ds.set_coords(name)
        ds[name].attrs["standard_name"] = standard
    try:
        lat, lon = (coordinate(ds, ds, name) for name in ("latitude", "longitude"))
    except InvalidInputError:
        return _from_variables(ds, request)
    ds = ds.set_coords([lat.name, lon.name])
    if request.only_points:
        return _cells(ds, lat, lon, request)
    ds, names, wind = _names(ds, request)
    return _winds(ds, names, wind, request, notes) if names else _cells(ds, lat, lon, request)


def _winds(ds: Any, names: tuple[str, ...], wind: tuple[str, ...], request: Request, notes: list[str]) -> Field:
    """The fields of all times, and of all values of other dimensions such as levels, of which time is the last."""
    from ..earth.grid import ANGLES, find_variable
    from ..earth.wind import from_xarray

    east = ds[names[0]]
    lat, lon = (coordinate(ds, east, name) for name in ("latitude", "longitude"))
    eastward = str(east.attrs.get("standard_name", "")).startswith("eastward")
    if lat.dims == lon.dims and not eastward and find_variable(ds, lat.dims, ANGLES) is not None:
        raise InvalidInputError(
            f"{east.name} is along the axes of a grid with an angle. Use the functions of tangentbundle.earth, such as "
            "interpolate_to, or `filter --scale`; or give it the standard_name of an eastward variable."
        )
    along = [str(d) for d in east.dims if d not in {*lat.dims, *lon.dims}]
    dates = [d for d in along if ds[d].dtype.kind == "M"][:1]
    others = [d for d in along if d not in dates and east.sizes[d] > 1]
    dated = any(c.dtype.kind == "M" for c in east.coords.values())
    series = ds if dated else ds.expand_dims({"undated": [np.datetime64("2000-01-01", "ns")]})
    parts = []
    for index in np.ndindex(*(east.sizes[d] for d in others)):
        data = from_xarray(series.isel(dict(zip(others, index, strict=True))), "", *names)
        parts.append(data.during(~data.filled))
    data = parts[0]
    if any(len(p.lat) != len(data.lat) or not np.array_equal(p.times, data.times) for p in parts):
        raise InvalidInputError(f"values of {listed(others)} lack different points or times. Choose one with select=.")
    check_count(len(data.lat), request)
    units = unit_of(east) or unit_of(ds[names[1]])
    source = f"speed {wind[0]} and direction {wind[1]}, where it comes from" if wind else f"variables {listed(names)}"
    notes = [f"vectors: {source}" + ", found by name" * (not (request.vectors or request.wind)), *notes]
    notes.append(f"units: {units}" if units else "units: the file gives none")
    notes.append(f"points: {lat.name}, {lon.name}, in degrees")
    notes += [note.strip() for note in data.provenance.split(";") if note.strip()]
    if others:
        notes.append(f"{len(parts)} values of {listed(others)}, each by itself; select= chooses one")
    attributes = [{**ds[name].attrs, **({"units": units} if units else {})} for name in names]
    origin = GridFile(ds, lat, lon, attributes, dates[0] if dates else None)
    axes = [(d, ds[d].values) for d in others] + [(d, data.times) for d in dates]
    return Field(
        Globe(data.lat, data.lon, (str(lat.name), str(lon.name))),
        np.concatenate([part.components for part in parts]),
        names,
        times=data.times if dated and not others else None,
        units=units,
        notes=tuple(notes),
        origin=origin,
        axes=tuple(axes) if others else (),
        wind=wind,
    )


def _selected(ds: Any, select: Mapping[str, Any], notes: list[str]) -> Any:
    """The dataset at chosen values of dimensions: numbers, dates or names."""
    for name, value in select.items():
        there = ds[name].values
        with contextlib.suppress(ValueError, TypeError):
            value = float(value) if there.dtype.kind in "fiu" else str(value)
        wanted = slice(value, value) if there.dtype.kind == "M" else [value]  # a day has many times
        try:
            ds = ds.assign_coords({name: ds[name]}).sel({name: wanted})
        except (KeyError, ValueError):
            ds = ds.isel({name: []})
        if not ds.sizes[name]:
            ends = " to ".join(str(v)[:16] for v in (there[0], there[-1]))
            raise InvalidInputError(f"{name} has no value {value}; it has {len(there)}, from {ends}.")
        notes.append(f"selected: {name} {value}")
    return ds


def _names(ds: Any, request: Request) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """The dataset, its eastward and northward variables (as asked, or by name), and speed and direction, if used."""
    if request.vectors:
        if len(request.vectors) != 2:
            raise MissingColumnsError(f"expected two variables, east and north, got {listed(request.vectors)}.")
        return ds, request.vectors, ()
    if request.wind:
        return with_components(ds, request.wind)[0], EAST_NORTH, request.wind
    with contextlib.nullcontext() if request.needs_vectors else contextlib.suppress(MissingColumnsError):
        found, names = find_vectors(ds)
        return found, names, () if found is ds else with_components(ds)[1]
    return ds, (), ()


def _cells(ds: Any, lat: Any, lon: Any, request: Request) -> Field:
    """The cells of a grid, each place once, without vectors."""
    from ..geometry.known_frames import latlon_frames

    origin = GridFile(ds, lat, lon, [{}, {}], None)
    latitude, longitude = (angle.ravel() for angle in origin.angles())
    check_count(len(latitude), request)
    places = np.round(latlon_frames(latitude, longitude)[0], 9)
    first = distinct_places(places)[0]
    notes = [f"points: {lat.name}, {lon.name}, in degrees"]
    if len(first) < len(latitude):
        notes.append(f"{len(latitude) - len(first)} cells at the place of another (poles) counted once")
    globe = Globe(latitude[first], longitude[first], (str(lat.name), str(lon.name)))
    return Field(globe, notes=tuple(notes), origin=origin)


def _from_variables(ds: Any, request: Request) -> Field:
    """Points and vectors as variables along one dimension."""
    flat = {str(n): ds[n] for n in ds.variables if ds[n].ndim == 1 and ds[n].dtype.kind in "fiu"}
    columns = find_columns(list(flat), request)
    sizes = {flat[n].dims for n in columns.numeric}
    if len(sizes) > 1:
        raise InvalidInputError(f"points and vectors must lie along one dimension, got {sorted(map(str, sizes))}.")
    given = columns.wind[:1] * 2 or columns.vectors
    units = tuple(said or unit_of(flat[n]) for n, said in zip(given, columns.units, strict=True))
    notes = [*columns.notes]
    numbers = {n: without_fill(flat[n], notes).values for n in columns.numeric}
    field, rows = from_columns(numbers.__getitem__, replace(columns, units=units, notes=tuple(notes)), request)
    return replace(field, origin=ds if rows is None else None)


def to_dataset(field: Field) -> Any:
    """A CF dataset: on the grid of its file where it came from one, otherwise along a dimension ``point``."""
    grid = field.origin if isinstance(field.origin, GridFile) else None
    coords = _points_along(field.space) if grid is None else grid.coordinates()
    values, std = (field.values, field.std) if grid is None else grid.cells(field)
    places: tuple[str, ...] = ("point",) if grid is None else grid.places
    lead: tuple[str, ...] = ("step",) if len(field) > 1 else ()
    if field.axes:
        lead, shape = tuple(name for name, _ in field.axes), [len(axis) for _, axis in field.axes]
        coords |= {name: ((name,), axis) for name, axis in field.axes}
        values, std = (None if a is None else a.reshape(*shape, *a.shape[1:]) for a in (values, std))
    elif field.times is not None and (grid is None or grid.dimension is not None or len(field) > 1):
        lead = ((grid and grid.dimension) or "time",)
        coords[lead[0]] = (lead, field.times.astype("datetime64[ns]"))
    units, variables = {"units": field.units} if field.units else {}, {}
    for k, name in enumerate(split_unit(name)[0] for name in field.names):
        label = {"long_name": f"standard deviation of {name}"}
        for key, numbers, attrs in ((name, values, grid.attributes[k] if grid else {}), (f"{name}_std", std, label)):
            if numbers is not None:
                numbers = numbers[..., k] if lead else numbers[0, ..., k]
                variables[key] = ((*lead, *places), numbers, units | attrs)
    base = dict(grid.ds.attrs) if grid else {}
    ds = extra("xarray", "Writing datasets").Dataset(variables, coords, attrs={"Conventions": "CF-1.8", **base})
    ds = ds.assign({name: array for part in field.parts.values() for name, array in to_dataset(part).items()})
    return ds.drop_encoding()  # how the file of the coordinates was packed does not fit other formats


def _points_along(space: Space) -> dict[str, Any]:
    """Coordinates along a dimension ``point``."""
    said: list[dict] = [{} for _ in space.names]
    if isinstance(space, Globe):
        angles = (("latitude", "degrees_north"), ("longitude", "degrees_east"))
        said = [{"standard_name": name, "units": unit} for name, unit in angles]
    columns = zip(space.names, space.coordinates.T, said, strict=True)
    return {split_unit(name)[0]: ("point", column, attributes) for name, column, attributes in columns}


def write_netcdf(field: Field, path: Path) -> None:
    """A NetCDF file."""
    extra("netCDF4", "Writing NetCDF")
    to_dataset(field).to_netcdf(path, engine="netcdf4")


def write_zarr(field: Field, path: Path) -> None:
    """A Zarr folder."""
    extra("zarr", "Writing Zarr", "files")
    to_dataset(field).to_zarr(path, mode="w", zarr_format=2, consolidated=True)
