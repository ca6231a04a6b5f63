"""``Regridder``: vector fields from one grid of the Earth to another, by weights that are computed once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse

from ..errors import DamagedFileError, InvalidInputError, MissingColumnsError, OutsideSourceError, ShapeError
from ..extras import extra
from ..files import read_tensors, write_tensors
from . import RADIUS
from .grid import Grid
from .lengths import radians
from .regridding import Linear, RegridMethod, Stencil, Weights
from .triangles import Triangulation, central_angles
from .xarrays import find_vectors

if TYPE_CHECKING:
    import xarray

KIND = "tangentbundle.regridder"
GRID = ("lat", "lon", "cell", "turns", "given_areas")
"""Arrays of a grid that are saved, where it has them."""


class Regridder:
    r"""Takes vector fields from the grid of one dataset to that of another.

    Tangent vectors are carried along great circles and then combined, so that nothing special happens at the poles, at
    the date line or on rotated grids. The weights are a sparse matrix :math:`W (2m \times 2n)` of tangent coordinates,
    computed once and applied to every time, lazily where the data are. No method is conservative.

    Args:
        source, target: datasets with latitude and longitude in any layout, or ``Grid`` objects.
        method: ``Linear()`` (error of second order in the distance of cells), ``Quadratic()`` (third order), or
            ``Kriging()``, which fits every time anew and also returns standard deviations.
        valid: ``(n,)`` which points of the source have values. Default: those where the first field of the source is
            not missing, if it has vectors.
        beyond: how far, such as ``"100 km"``, places outside of the source (beyond its edge, on its land) may lie from
            the nearest point with values, whose vector they get; those further away are NaN. By default places outside
            are refused; 0 makes them all NaN. With ``Kriging``, which tells by standard deviations, none are refused.

    Attributes:
        weights: the matrix W, a SciPy CSR array, for points with values.
        distance: ``(m,)`` km from the nearest point with values for places outside of the source, 0 inside.

    >>> import xarray as xr
    >>> def grid(step):
    ...     return xr.Dataset(coords={"lat": np.arange(90, -91, -step), "lon": np.arange(0, 360, step)})
    >>> coarse = grid(5.0)
    >>> v = np.sin(np.radians(coarse.lon)) + 0 * coarse.lat               # rotation about an axis in the equator
    >>> wind = coarse.assign(u=-np.cos(np.radians(coarse.lon)) * np.sin(np.radians(coarse.lat)), v=v)
    >>> regridder = Regridder(wind, grid(2.5))
    >>> fine = regridder(wind)
    >>> dict(fine.sizes), bool(abs(fine.v - np.sin(np.radians(fine.lon))).max() < 2e-3)
    ({'lat': 73, 'lon': 144}, True)
    """

    def __init__(
        self,
        source: xarray.Dataset | Grid,
        target: xarray.Dataset | Grid,
        method: RegridMethod | None = None,
        *,
        valid: Any = None,
        beyond: str | float | None = None,
    ):
        method = method or Linear()
        if not isinstance(method, RegridMethod):
            raise InvalidInputError(f"method must be an object such as Linear() or Kriging(), got {method!r}.")
        self.source, self.target = _source_grid(source), Grid.of(target)
        self._coords = {} if isinstance(target, Grid) else _own_coordinates(target, self.target)
        self.rows = np.flatnonzero(_valid(self.source, source) if valid is None else _checked(valid, self.source))
        limit = None if beyond is None else radians(beyond)
        stencil, distance = self._stencil(method.extrapolates, limit)
        far = np.zeros(len(distance), bool) if limit is None else distance > limit
        self.distance, self._missing = distance * RADIUS / 1000, np.flatnonzero(far)
        self._rule = method.rule(stencil)

    def _stencil(self, extrapolates: bool, limit: float | None) -> tuple[Stencil, np.ndarray]:
        """Triangles around the places, and distances in radians of those that are outside."""
        places, points = self.target.points, self.source.points[self.rows]
        triangles = Triangulation(points)
        corners, weights, inside = triangles.locate(places)
        on_land = ~np.isin(Triangulation(self.source.points).tree.query(places)[1], self.rows)
        inside &= ~on_land
        nearest = triangles.tree.query(places[~inside])[1]
        corners[~inside], weights[~inside] = nearest[:, None], (1.0, 0.0, 0.0)
        distance = np.zeros(len(places))
        distance[~inside] = central_angles(places[~inside], points[nearest])
        if limit is None and not extrapolates and not inside.all():
            raise OutsideSourceError(
                f"{int((~inside).sum())} of {len(places)} places lie outside of the source, by up to "
                f'{distance.max() * RADIUS / 1000:.0f} km. Give beyond="100 km" to take the nearest vector up to that '
                "distance and NaN further away, or beyond=0 for NaN in all of them."
            )
        return Stencil(
            points, self.source.frames[self.rows], self.rows, self.target, corners, weights, inside
        ), distance

    @property
    def weights(self) -> sparse.csr_array:
        if not isinstance(self._rule, Weights):
            raise InvalidInputError("kriging has no fixed weights: it is fitted to every field. Use Linear().")
        return self._rule.matrix

    def __repr__(self) -> str:
        return f"Regridder({self.source} to {self.target})"

    def __call__(self, ds: xarray.Dataset, vectors: tuple[str, str] | None = None) -> xarray.Dataset:
        """The vectors of a dataset on the target's grid, lazily if they are; ``vectors`` names its two variables.

        Variables without the source's dimensions are kept, others are left out. Cells that are missing in one field
        only are missing where they are needed.
        """
        xr = extra("xarray", "Regridder")
        ds, names = (ds, vectors) if vectors else find_vectors(ds)
        if Grid.of(ds, ds[names[0]]) != self.source:
            raise ShapeError(
                f"the field is not on the grid of the source, {self.source}. Make a Regridder for its grid."
            )
        whole = [ds[name].chunk(dict.fromkeys(self.source.dims, -1)) if ds[name].chunks else ds[name] for name in names]
        keys = [*names] + [f"{name}_std" for name in names] * (not isinstance(self._rule, Weights))
        found = xr.apply_ufunc(
            lambda *components: tuple(np.moveaxis(self.regrid(np.stack(components, axis=-1)), -1, 0)),
            *whole,
            input_core_dims=[self.source.dims] * 2,
            output_core_dims=[self.target.dims] * len(keys),
            exclude_dims={*self.source.dims},
            dask="parallelized",
            output_dtypes=[np.result_type(*whole)] * len(keys),
            dask_gufunc_kwargs={"output_sizes": dict(zip(self.target.dims, self.target.shape, strict=True))},
            keep_attrs=True,
        )
        new = dict(zip(keys, found, strict=True))
        for name in keys[2:]:
            new[name].attrs["long_name"] = f"standard deviation of {name.removesuffix('_std')}"
            new[name].attrs.pop("standard_name", None)
        kept = ds.drop_vars([k for k in ds.variables if {*ds[k].dims} & {*self.source.dims}])
        return kept.assign(new).assign_coords(self._coords or _coordinates(self.target))

    def regrid(self, components: np.ndarray) -> np.ndarray:
        """Components ``(..., *source.shape, 2)`` to ``(..., *target.shape, 2)``, or 4 with standard deviations."""
        coordinates = self.source.to_coordinates(components)
        lead = coordinates.shape[:-2]
        flat = coordinates.reshape(-1, *coordinates.shape[-2:])[:, self.rows]
        found = self._rule(flat).reshape(*lead, len(self.target), -1)
        found[..., self._missing, :] = np.nan
        mean = self.target.to_components(found[..., :2])
        if found.shape[-1] == 2:
            return mean
        size, spin = self.target.to_cells(found[..., 2:3]), self.target.to_cells(found[..., 3:])
        turned = (spin[..., 0] + 1j * spin[..., 1]) * self.target.turns.reshape(self.target.shape).conj() ** 2
        variances = size + np.stack([turned.real, -turned.real], axis=-1)
        return np.concatenate([mean, np.sqrt(np.maximum(variances, 0.0))], axis=-1)

    def save(self, path: str | os.PathLike) -> None:
        """Write the weights and both grids to one safetensors file, atomically."""
        matrix, notes = self.weights, {}
        arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "rows": self.rows}
        arrays |= {"distance": self.distance, "missing": self._missing}
        for name, grid in (("source", self.source), ("target", self.target)):
            arrays |= {f"{name}.{key}": getattr(grid, key) for key in GRID if getattr(grid, key) is not None}
            arrays |= {f"{name}.axis{k}": axis for k, axis in enumerate(grid.axes or ())}
            notes[name] = {"dims": grid.dims, "shape": grid.shape}
        write_tensors(path, KIND, {key: torch.tensor(_real(a)) for key, a in arrays.items()}, notes)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Regridder:
        """Read what ``save`` wrote; the target then has latitudes and longitudes as its only coordinates."""
        tensors, notes = read_tensors(path, KIND)
        arrays, new = {key: t.numpy() for key, t in tensors.items()}, cls.__new__(cls)
        try:
            new.source, new.target = (_loaded(arrays, name, notes[name]) for name in ("source", "target"))
            new.rows, new.distance, new._missing = (arrays[key] for key in ("rows", "distance", "missing"))
            shape = 2 * len(new.target), 2 * len(new.rows)
            matrix = sparse.csr_array(tuple(arrays[key] for key in ("data", "indices", "indptr")), shape=shape)
            matrix.check_format()
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise DamagedFileError(f"{path} describes no regridder ({error!r:.200}).") from error
        new._rule, new._coords = Weights(matrix), {}
        return new


def _real(array: np.ndarray) -> np.ndarray:
    return array.view(float) if array.dtype == complex else array


def _loaded(arrays: dict[str, np.ndarray], name: str, notes: dict[str, Any]) -> Grid:
    parts: dict[str, Any] = {key: arrays.get(f"{name}.{key}") for key in GRID}
    parts["turns"] = parts["turns"].view(complex)
    axes = [arrays[key] for key in (f"{name}.axis0", f"{name}.axis1") if key in arrays]
    return Grid(**parts, dims=tuple(notes["dims"]), shape=tuple(notes["shape"]), axes=tuple(axes) or None)


def _vectors(ds: Any) -> tuple[Any, tuple[str, ...]]:
    """A dataset with its two components, and their names; none if there are not two."""
    try:
        return find_vectors(ds)
    except MissingColumnsError:
        return ds, ()


def _source_grid(source: Any) -> Grid:
    if isinstance(source, Grid):
        return source
    ds, names = _vectors(source)
    return Grid.of(ds, ds[names[0]] if names else None)


def _valid(grid: Grid, source: Any) -> np.ndarray:
    """Which points have a value in the first field of a dataset; all, if it has no vectors."""
    ds, names = (source, ()) if isinstance(source, Grid) else _vectors(source)
    if not names:
        return np.ones(len(grid), bool)
    first = ds[list(names)].isel({d: 0 for d in ds[names[0]].dims if d not in grid.dims})
    values = np.stack([first[name].transpose(*grid.dims).values for name in names], axis=-1)
    return np.isfinite(grid.to_coordinates(values)).all(axis=-1)


def _checked(valid: Any, grid: Grid) -> np.ndarray:
    found = np.asarray(valid)
    if found.shape != (len(grid),) or found.dtype != bool:
        raise ShapeError(f"valid must be {len(grid)} booleans, one for each point of {grid}, got {found.shape}.")
    return found


def _own_coordinates(ds: Any, grid: Grid) -> dict[str, Any]:
    return {str(name): c.variable for name, c in ds.coords.items() if c.dims and {*c.dims} <= {*grid.dims}}


def _coordinates(grid: Grid) -> dict[str, Any]:
    """Latitudes and longitudes for a dataset."""
    names = [{"standard_name": f"{n}itude", "units": f"degrees_{d}"} for n, d in (("lat", "north"), ("long", "east"))]
    if grid.axes is not None:
        return {d: (d, axis, attrs) for d, axis, attrs in zip(grid.dims, grid.axes, names, strict=True)}
    cells = grid.to_cells(np.stack([grid.lat, grid.lon], axis=-1))
    return {n: (grid.dims, cells[..., k], names[k]) for k, n in enumerate(("lat", "lon"))}
