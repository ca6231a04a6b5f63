"""NetCDF and Zarr read by xarray: variables are found by their CF names."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..earth import xarrays
from ..errors import DamagedFileError, InvalidInputError, MissingColumnsError, NonFiniteError
from ..memory import require_memory
from ..units import common_unit
from .columns import from_columns, real, with_errors
from .field import Field, Request, check_count
from .grids import GridFile
from .names import expanded, find_columns, listed, named
from .spaces import Globe


def read_dataset(path: Path, request: Request) -> Field:
    """A field on the globe from eastward and northward variables, or on a cloud from variables along one dimension."""
    check_header(path, request)
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


def check_header(path: Path, request: Request, more: Sequence[str] = ()) -> None:
    """Refuse what the header of a NetCDF file suffices to refuse: xarray takes a while to load. See ``check_names``."""
    if not path.is_file() or find_spec("netCDF4") is None:
        return
    import netCDF4

    try:
        with netCDF4.Dataset(path) as file:
            variables, dimensions = list(file.variables), list(file.dimensions)
    except OSError as error:
        text = f"{path.name} cannot be opened: it is truncated, damaged or of another format ({error})."
        raise DamagedFileError(text) from error
    check_names(variables, dimensions, request, more)


def check_names(
    variables: Sequence[str], dimensions: Sequence[str], request: Request, more: Sequence[str] = ()
) -> None:
    """Refuse a request for variables or dimensions that are not there; ``more`` are variables to read besides."""
    if missing := [name for name in request.select if name not in dimensions]:
        raise MissingColumnsError(f"there is no dimension {missing[0]} to select; there are {listed(dimensions)}.")
    given = {option: getattr(request, option) for option in ("points", "latlon", "vectors", "wind")}
    given |= {"sigma": [request.sigma] if request.sigma else [], "variables": more}
    for option, names in given.items():
        named(names, variables, option, 2 if names and option in ("latlon", "wind") else None)


def from_dataset(ds: Any, request: Request) -> Field:
    """The field of an ``xarray.Dataset``."""
    from ..earth import Grid
    from ..earth.blocks import GridFields
    from ..earth.healpix import find_healpix

    notes: list[str] = []
    check_names([*map(str, ds.variables)], [*map(str, ds.dims)], request)
    ds = _selected(ds, request.select, notes)
    for name, standard in zip(request.latlon, ("latitude", "longitude"), strict=False):
        ds = ds.set_coords(name)
        ds[name].attrs["standard_name"] = standard
    angles: list[Any] = []
    with contextlib.suppress(InvalidInputError):
        angles = [xarrays.coordinate(ds, ds, name).name for name in ("latitude", "longitude")]
    if request.points or not (angles or find_healpix(ds)):
        return _from_variables(ds, request)
    ds, names, wind = _names(ds.set_coords(angles), request)
    if names:
        source = (
            f"speed {wind[0]} and direction {wind[1]}, where it comes from" if wind else f"variables {listed(names)}"
        )
        notes.insert(0, f"vectors: {source}" + ", found by name" * (not (request.vectors or request.wind)))
        units = common_unit(names, [xarrays.unit_of(ds[name]) for name in names], notes)[0]
        notes.append(f"units: {units}" if units else "units: the file gives none")
        fields = GridFields.of(ds, names)
    ds, grid = (fields.ds, fields.grid) if names else (ds, Grid.of(ds))
    check_count(len(grid), request)
    places = tuple(map(str, angles)) or ("lat", "lon")
    notes.append(f"points: {', '.join(places)}, in degrees")
    if (merged := int((grid.cell >= 0).sum()) - len(grid)) > 0:
        notes.append(f"{merged} cells at the place of another (poles) counted once")
    field = Field(Globe(grid.lat, grid.lon, places), origin=GridFile(ds, grid, np.arange(len(grid))), wind=wind)
    return _with_winds(field, names, units, request, notes) if names else replace(field, notes=tuple(notes))


def _with_winds(field: Field, names: tuple[str, ...], units: str, request: Request, notes: list[str]) -> Field:
    """The fields of all times, and of all values of other dimensions such as levels."""
    ds, grid, east = field.origin.ds, field.origin.grid, field.origin.ds[names[0]]
    along = [str(d) for d in east.dims if d not in grid.dims]
    components = np.stack([ds[name].transpose(*along, *grid.dims).values for name in names], axis=-1)
    components = xarrays.without_impossible(components.astype(float), units, notes)
    values = grid.to_coordinates(components).reshape(-1, len(grid), 2)
    dates = [d for d in along if ds[d].dtype.kind == "M"][:1]
    others = [d for d in along if d not in dates and east.sizes[d] > 1]
    dated = [np.ravel(c.values) for c in east.coords.values() if c.dtype.kind == "M"]
    times = dated[0] if dated else np.empty(0, "datetime64[ns]")
    there = np.isfinite(values).all(axis=-1)
    if dates and not others and not (seen := there.any(axis=1)).all() and seen.any():
        notes.append(f"{int((~seen).sum())} of {len(seen)} times without values left out")
        values, there, times = values[seen], there[seen], times[seen]
    points = _complete_points(there, request, notes)
    if others:
        notes.append(f"{len(values)} fields along {listed(along)}, each by itself; select= chooses one")
    field = replace(
        field,
        space=field.space.select(points),
        values=values[:, points],
        names=names,
        times=times if len(times) == len(values) and not others else None,
        units=units,
        notes=tuple(notes),
        origin=GridFile(ds, grid, points, dates[0] if dates else None),
        axes=tuple((d, ds[d].values) for d in along if d in (*dates, *others)) if others else (),
    )
    sigma = request.sigma or ("sigma" if "sigma" in ds else "")
    if not sigma:
        return field
    if {*ds[sigma].dims} != {*grid.dims}:
        raise InvalidInputError(f"{sigma} must have a standard error for each place, along {', '.join(grid.dims)}.")
    errors = grid.to_points(ds[sigma].transpose(*grid.dims).values[..., None].astype(float))[points, 0]
    return with_errors(field, errors, sigma, xarrays.unit_of(ds[sigma]))


def _complete_points(there: np.ndarray, request: Request, notes: list[str]) -> np.ndarray:
    """Numbers of points with values in all fields, of ``there (T, n)``: those without any are land, others holes."""
    points = np.flatnonzero(there.all(axis=0) if request.drop_missing else there.any(axis=0))
    holes = ~there[:, points] if len(points) else ~there
    if holes.any():
        why = "".join(f" ({note})" for note in notes if "missing" in note)
        raise NonFiniteError(
            f"{int(holes.sum())} of {holes.size} vectors are missing{why}. Leave out incomplete places with "
            "drop_missing=True, choose with select=, or interpolate in xarray first."
        )
    if len(points) < there.shape[1]:
        notes.append(f"{there.shape[1] - len(points)} of {there.shape[1]} points with missing values left out")
    return points


def _selected(ds: Any, select: Mapping[str, Any], notes: list[str]) -> Any:
    """The dataset at chosen values of dimensions: numbers, names, or dates by their beginning."""
    for name, value in select.items():
        there: np.ndarray = ds[name].values
        wanted: Any = []
        with contextlib.suppress(ValueError):
            numeric = there.dtype.kind in "fiu"
            wanted = there == float(value) if numeric else [str(v).startswith(str(value)) for v in there]
        if not np.any(wanted):
            ends = " to ".join(str(v)[:16] for v in (there[0], there[-1]))
            raise InvalidInputError(f"{name} has no value {value}; it has {len(there)}, from {ends}.")
        ds = ds.isel({name: np.flatnonzero(wanted)})
        notes.append(f"selected: {name} {value}")
    return ds


def _names(ds: Any, request: Request) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """The dataset, its eastward and northward variables (as asked, or by name), and speed and direction, if used."""
    if request.only_points:
        return ds, (), ()
    if request.vectors:
        return ds, expanded(request.vectors, [*map(str, ds.variables)]), ()
    if request.wind:
        return xarrays.with_components(ds, request.wind)[0], xarrays.EAST_NORTH, request.wind
    with contextlib.nullcontext() if request.needs_vectors else contextlib.suppress(MissingColumnsError):
        found, names = xarrays.find_vectors(ds)
        return found, names, () if found is ds else xarrays.with_components(ds)[1]
    return ds, (), ()


def _from_variables(ds: Any, request: Request) -> Field:
    """Points and vectors as variables along one dimension."""
    flat = {str(n): ds[n] for n in ds.variables if ds[n].ndim == 1 and ds[n].dtype.kind in "fiu"}
    columns = find_columns(list(flat), request)
    sizes = {flat[n].dims for n in columns.numeric}
    if len(sizes) > 1:
        raise InvalidInputError(f"points and vectors must lie along one dimension, got {sorted(map(str, sizes))}.")
    given = columns.wind[:1] * 2 or columns.vectors
    units = tuple(said or xarrays.unit_of(flat[n]) for n, said in zip(given, columns.units, strict=True))
    errors = columns.sigma_unit or (xarrays.unit_of(flat[columns.sigma]) if columns.sigma else "")
    notes = [*columns.notes]
    numbers = {n: real(xarrays.without_fill(flat[n], notes).values, n) for n in columns.numeric}
    columns = replace(columns, units=units, notes=tuple(notes), sigma_unit=errors)
    field, rows = from_columns(numbers.__getitem__, columns, request)
    return replace(field, origin=ds if rows is None else None)
