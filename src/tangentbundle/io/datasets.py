"""NetCDF and Zarr through xarray: variables are found by their CF names, and grids stay grids, with
all attributes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..earth import xarrays
from ..errors import (
    NO_EXAMPLE,
    DamagedFileError,
    InvalidInputError,
    MissingColumnsError,
    NonFiniteError,
    Note,
    Remedy,
)
from ..extras import extra
from ..memory import require_memory
from .columns import find_columns, from_columns, real, with_errors
from .field import Field, Request, check_count, why_missing
from .names import listed, named, split_unit
from .spaces import Globe

if TYPE_CHECKING:
    from ..earth import Grid
    from ..earth.blocks import GridFields


@dataclass(frozen=True, eq=False)
class GridFile:
    """A field's dataset, its grid, the numbers ``(n,)`` of its points on the grid, and the
    dimension of its times."""

    ds: Any
    grid: Grid
    points: np.ndarray
    dimension: str | None = None

    def cells(self, field: Field) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Components and standard deviations in every cell's own axes, NaN where the field has no
        point.

        Poles are one point in many frames; where a cell's axes are turned, both components have the
        same deviation.
        """
        grid = self.grid

        def on_grid(numbers: np.ndarray) -> np.ndarray:
            every = np.full((len(numbers), len(grid), numbers.shape[-1]), np.nan)
            every[:, self.points] = numbers
            return every

        values = std = None
        if field.values is not None:
            values = (grid.to_components if len(field.names) > 1 else grid.to_cells)(
                on_grid(field.values)
            )
        if field.std is not None:
            std = grid.to_cells(on_grid(field.std))
            turned = (np.abs(grid.turns - 1) > 1e-6).reshape(*grid.shape, 1)
            std = np.where(turned, np.sqrt(np.mean(std**2, axis=-1, keepdims=True)), std)
        return values, std


def read_dataset(path: Path, request: Request) -> Field:
    """A field on the globe from eastward and northward variables, or on a cloud from variables
    along one dimension."""
    check_header(path, request)
    from ..earth.sources import open_dataset

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Failed to open Zarr store with consolidated"
            )  # read all the same
            with open_dataset(path) as ds:
                require_memory(
                    2.0 * ds.nbytes, f"reading {path.name}", "Choose some times or a region first."
                )
                ds = ds.load()
    except (InvalidInputError, DamagedFileError):
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DamagedFileError(
            f"{path.name} cannot be read ({' '.join(str(error).split())[:200]})."
        ) from error
    return from_dataset(ds, request)


def check_header(path: Path, request: Request, more: Sequence[str] = ()) -> None:
    """Check requested names against the header of a NetCDF file, before xarray is loaded; see
    ``check_names``."""
    if not path.is_file() or find_spec("netCDF4") is None:
        return
    import netCDF4

    try:
        with netCDF4.Dataset(path) as file:
            variables, dimensions = list(file.variables), list(file.dimensions)
    except OSError as error:
        text = (
            f"{path.name} cannot be opened: it is truncated, damaged or of another format "
            f"({error})."
        )
        raise DamagedFileError(text) from error
    check_names(variables, dimensions, request, more)


def check_names(
    variables: Sequence[str], dims: Sequence[str], request: Request, more: Sequence[str] = ()
) -> Request:
    """Return a request with names written out; raise if they or ``more`` variables, or dimensions,
    are not there."""
    if missing := [name for name in request.select if name not in dims]:
        raise MissingColumnsError(
            f"there is no dimension {missing[0]} to select; there are {listed(dims)}."
        )
    given = {option: getattr(request, option) for option in ("points", "latlon", "vectors", "wind")}
    named(more, variables, "variables")
    counts = {option: 2 for option in ("latlon", "wind") if given[option]}
    found: dict[str, Any] = {
        o: named(names, variables, o, counts.get(o)) for o, names in given.items()
    }
    if request.sigma:
        found["sigma"] = named([request.sigma], variables, "sigma", 1)[0]
    return replace(request, **found)


def from_dataset(ds: Any, request: Request) -> Field:
    """The field of an ``xarray.Dataset``."""
    from ..earth import Grid
    from ..earth.blocks import GridFields
    from ..earth.healpix import find_healpix

    notes: list[Note] = []
    request = check_names([*map(str, ds.variables)], [*map(str, ds.dims)], request)
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
    fields = None
    if names:
        kind = (
            "speed {} and direction {}, where it comes from".format(*wind)
            if wind
            else f"variables {listed(names)}"
        )
        guessed = "" if request.vectors or request.wind else ", found by name"
        notes.insert(0, Note(f"vectors: {kind}{guessed}"))
        fields = GridFields.of(ds, names, notes)
        notes.append(Note(f"units: {fields.unit or 'the file gives none'}"))
    grid = fields.grid if fields else Grid.of(ds)
    check_count(len(grid), request)
    places = tuple(map(str, angles)) or ("lat", "lon")
    notes.append(Note(f"points: {', '.join(places)}, in degrees"))
    if (merged := int((grid.cell >= 0).sum()) - len(grid)) > 0:
        notes.append(Note(f"{merged} cells at the place of another (poles) counted once"))
    globe = Globe(grid.lat, grid.lon, places)
    if fields is None:
        return Field(
            globe,
            notes=tuple(notes),
            origin=GridFile(ds.drop_vars(ds.data_vars), grid, np.arange(len(grid))),
        )
    return replace(_fields_at(globe, fields, request, notes), wind=wind)


def _fields_at(globe: Globe, fields: GridFields, request: Request, notes: list[Note]) -> Field:
    """The fields of all times, and of all values of other dimensions such as levels."""
    ds, grid, east = fields.ds, fields.grid, fields.ds[fields.names[0]]
    along = [str(d) for d in east.dims if d not in grid.dims]
    components = np.stack(
        [ds[name].transpose(*along, *grid.dims).values for name in fields.names], axis=-1
    )
    components = xarrays.without_impossible(components.astype(float), fields.unit, notes)
    values = grid.to_coordinates(components).reshape(-1, len(grid), 2)
    grid.warn_if_copies_differ(components, values)
    dates = [d for d in along if ds[d].dtype.kind == "M"][:1]
    others = [d for d in along if d not in dates and east.sizes[d] > 1]
    dated = [np.ravel(c.values) for c in east.coords.values() if c.dtype.kind == "M"]
    times = dated[0] if dated else np.empty(0, "datetime64[ns]")
    there = np.isfinite(values).all(axis=-1)
    if dates and not others and not (filled := there.any(axis=1)).all() and filled.any():
        text = f"{int((~filled).sum())} of {len(filled)} times without values left out"
        notes.append(Note(text))
        ds, values, there, times = (
            ds.isel({dates[0]: filled}),
            values[filled],
            there[filled],
            times[filled],
        )
    points = _complete_points(there, request, notes)
    if others:
        text = f"{len(values)} fields along {listed(along)}, each by itself;"
        notes.append(Note(text, Remedy("{select} chooses one", select=NO_EXAMPLE)))
    field = Field(
        globe.select(points),
        values[:, points],
        fields.names,
        times=times if len(times) == len(values) and not others else None,
        units=fields.unit,
        notes=tuple(notes),
        origin=GridFile(ds, grid, points, dates[0] if dates else None),
        axes=tuple((d, ds[d].values) for d in along if d in (*dates, *others)) if others else (),
    )
    sigma = request.sigma or ("sigma" if "sigma" in ds else "")
    if not sigma:
        return field
    if {*ds[sigma].dims} != {*grid.dims}:
        raise InvalidInputError(
            f"{sigma} must have a standard error for each place, along {', '.join(grid.dims)}."
        )
    errors = grid.to_points(ds[sigma].transpose(*grid.dims).values[..., None].astype(float))[
        points, 0
    ]
    return with_errors(field, errors, sigma, xarrays.unit_of(ds[sigma]))


def _complete_points(there: np.ndarray, request: Request, notes: list[Note]) -> np.ndarray:
    """Numbers of points with values in all fields, of ``there (T, n)``: those without any are land,
    others holes."""
    points = np.flatnonzero(there.all(axis=0) if request.drop_missing else there.any(axis=0))
    holes = ~there[:, points] if len(points) else ~there
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
    if len(points) < there.shape[1]:
        left_out = there.shape[1] - len(points)
        notes.append(Note(f"{left_out} of {there.shape[1]} points with missing values left out"))
    return points


def _selected(ds: Any, select: Mapping[str, Any], notes: list[Note]) -> Any:
    """The dataset at chosen values of dimensions: numbers, names, or dates by their beginning."""
    for name, value in select.items():
        there: np.ndarray = ds[name].values
        wanted: Any = []
        with contextlib.suppress(ValueError):
            numeric = there.dtype.kind in "fiu"
            wanted = there == (float(value) if numeric else str(value))
            if not numeric and not np.any(wanted):
                wanted = [str(v).startswith(str(value)) for v in there]
        if not np.any(wanted):
            ends = " to ".join(str(v)[:16] for v in (there[0], there[-1]))
            raise InvalidInputError(
                f"{name} has no value {value}; it has {len(there)}, from {ends}."
            )
        ds = ds.isel({name: np.flatnonzero(wanted)})
        notes.append(Note(f"selected: {name} {value}"))
    return ds


def _names(ds: Any, request: Request) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """The dataset, its eastward and northward variables (as asked, or by name), and speed and
    direction, if used."""
    if request.only_points:
        return ds, (), ()
    if request.vectors:
        return ds, request.vectors, ()
    if request.wind:
        return xarrays.with_components(ds, request.wind)[0], xarrays.EAST_NORTH, request.wind
    with (
        contextlib.nullcontext()
        if request.needs_vectors
        else contextlib.suppress(MissingColumnsError)
    ):
        found = xarrays.find_vectors(ds)
        xarrays.warn_of_other_pairs(found[0], found[1])
        return found
    return ds, (), ()


def _from_variables(ds: Any, request: Request) -> Field:
    """Points and vectors as variables along one dimension."""
    flat = {str(n): ds[n] for n in ds.variables if ds[n].ndim == 1 and ds[n].dtype.kind in "fiu"}
    columns = find_columns(list(flat), request)
    sizes = {flat[n].dims for n in columns.numeric}
    if len(sizes) > 1:
        raise InvalidInputError(
            f"points and vectors must lie along one dimension, got {sorted(map(str, sizes))}."
        )
    units = {n: unit or xarrays.unit_of(flat[n]) for n, unit in columns.units.items()}
    notes = [*columns.notes]
    numbers = {n: real(xarrays.without_fill(flat[n], notes).values, n) for n in columns.numeric}
    columns = replace(columns, units=units, notes=tuple(notes))
    along = {name: ds[name].values for name in map(str, ds.variables) if {ds[name].dims} == sizes}
    field, rows = from_columns(numbers.__getitem__, columns, request, along)
    ds = ds if rows is None else ds.isel({sizes.pop()[0]: rows})
    return field if field.values is None else replace(field, origin=ds)


def to_dataset(field: Field) -> Any:
    """A CF dataset: that of its file with new vectors in the same form, or a new one along a
    dimension ``point``."""
    xr = extra("xarray", "Writing datasets")
    grid = field.origin if isinstance(field.origin, GridFile) else None
    origin = (
        grid.ds if grid else field.origin if isinstance(field.origin, xr.Dataset) else xr.Dataset()
    )
    first, like = field.space.names[0], origin.get(field.names[0], xr.DataArray())
    places = grid.grid.dims if grid else origin[first].dims if first in origin else ("point",)
    coords = {str(name): c for name, c in origin.coords.items() if {*c.dims} <= {*places}}
    if grid is None:
        given = zip(
            field.space.names, field.space.coordinates.T, field.space.attributes, strict=True
        )
        coords |= {split_unit(name)[0]: (places, column, attrs) for name, column, attrs in given}
    lead: dict[str, int] = {"step": len(field)} if len(field) > 1 else {}
    if field.axes:
        lead = {name: len(axis) for name, axis in field.axes}
        coords |= {
            name: ((name,), axis, origin[name].attrs if name in origin else {})
            for name, axis in field.axes
        }
    elif field.times is not None and (grid is None or grid.dimension is not None or len(field) > 1):
        lead = {(grid and grid.dimension) or "time": len(field)}
        attrs = grid.ds[grid.dimension].attrs if grid and grid.dimension else {}
        coords |= {name: ((name,), field.times.astype("datetime64[ns]"), attrs) for name in lead}
    lead |= {d: 1 for d in like.dims if like.sizes[d] == 1 and d not in (*lead, *places)}
    coords |= {d: origin[d] for d in lead if d not in coords and d in origin.coords}
    new, dims = {}, (*lead, *places)
    order = sorted(dims, key=lambda d: like.dims.index(d) if d in like.dims else -1)

    def add(name: str, numbers: np.ndarray, unit: str, **attrs: str) -> None:
        known = (
            {key: a for key, a in origin[name].attrs.items() if key != "units"}
            if name in origin
            else {}
        )
        attrs |= known | ({"units": unit} if unit else {})
        new[name] = xr.Variable(
            dims, numbers.reshape(*lead.values(), *numbers.shape[1:]), attrs
        ).transpose(*order)

    for one in (field, *field.parts.values()):
        values, std = grid.cells(one) if grid else (one.values, one.std)
        if values is None:
            break
        for k, name in enumerate(split_unit(name)[0] for name in one.names):
            if not one.wind:
                add(name, values[..., k], one.units, **xarrays.rate_attrs(name, like))
            if std is not None:
                add(
                    f"{name}_std", std[..., k], one.units, long_name=f"standard deviation of {name}"
                )
        if one.wind:
            (speed, _), (direction, turn) = map(split_unit, one.wind)
            turn = turn or xarrays.unit_of(origin.get(direction, xr.DataArray())) or "degree"
            lengths, angles = xarrays.speed_direction(values.T, turn)
            add(speed, lengths.T, one.units, standard_name=xarrays.SPEED[0])
            add(direction, angles.T, turn, standard_name=xarrays.DIRECTION[0])
    ds = xr.Dataset(new, coords, attrs={"Conventions": "CF-1.8", **origin.attrs})
    rest = origin.drop_dims(
        [d for d in origin.dims if d in ds.dims and not ds[d].variable.equals(origin[d].variable)]
    )
    written = {*ds.variables, *field.names}
    rest = rest.drop_vars(
        [name for name in rest.variables if {name, split_unit(str(name))[0]} & written]
    )
    return ds.assign(rest.data_vars).assign_coords(rest.coords).drop_encoding()  # of other formats


def write_dataset(field: Field, path: Path) -> None:
    """A NetCDF file or a Zarr folder."""
    if path.suffix.lower() == ".zarr":
        extra("zarr", "Writing Zarr", "files")
        to_dataset(field).to_zarr(path, mode="w", zarr_format=2, consolidated=True)
    else:
        extra("netCDF4", "Writing NetCDF")
        to_dataset(field).to_netcdf(path, engine="netcdf4")
