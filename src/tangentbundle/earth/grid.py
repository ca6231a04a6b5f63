"""Where the vectors of a dataset are: a globe with axes, that is, the points of a ``Globe`` and the
cells of a dataset that they belong to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ..errors import InvalidInputError, ShapeError, SuspiciousDataWarning, warn
from ..extras import extra
from ..spaces import Globe
from .gaps import warn_of_gaps
from .healpix import find_healpix
from .volumes import (
    Volumes,
    merged_columns,
    regular_volumes,
    rounded_to_poles,
    voronoi_volumes,
)
from .xarrays import coordinate, degrees, unit_of

if TYPE_CHECKING:
    import xarray

    from ..bundle import TangentBundle

BATCH_SIZE = 32
"""Fields that are computed together: enough for the speed of products with matrices, few for
memory."""

ANGLES = ("angle_of_rotation_from_east_to_x", "angle", "anglet", "grid_angle", "gridrot")
"""Standard name and usual names of the angle from east to the first axis of a grid."""


@dataclass(frozen=True, eq=False)
class Grid:
    r"""The n places of a dataset on the unit sphere, and the way between its components and tangent
    coordinates there.

    Cells of one place are one point: rows at a pole, and a last column that repeats the first. The
    layouts are regular (1-D latitude and longitude along two dimensions), curvilinear (2-D latitude
    and longitude, with or without the angle of the grid's axes), unstructured or stations (both
    along one dimension), and HEALPix.

    Attributes:
        globe: the points, with their frames (at a pole, those of its first cell's longitude), units
            and bundle.
        dims, shape: dimensions of the cells in the dataset, and their sizes.
        cell: ``(cells,)`` the point of each cell; -1 for cells without coordinates.
        turns: ``(cells,)`` complex, :math:`e^{i\theta}`: from components in a cell's own axes to
            east and north at its point.
        axes: rows and columns of a regular grid, or None.

    >>> import xarray as xr
    >>> ds = xr.Dataset(coords={"lat": np.arange(90, -91, -30.0), "lon": np.arange(0, 360, 60.0)})
    >>> grid = Grid.of(ds)
    >>> grid  # each pole once
    Grid(regular, lat 7 x lon 6, 32 points)
    >>> north = np.stack([np.zeros(grid.shape), np.ones(grid.shape)], axis=-1)
    >>> at_points = grid.to_coordinates(north)  # (n, 2)
    >>> at_points.shape, grid.to_components(at_points).shape
    ((32, 2), (7, 6, 2))
    """

    globe: Globe
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    cell: np.ndarray
    turns: np.ndarray
    axes: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def of(
        cls, data: xarray.Dataset | xarray.DataArray, like: xarray.DataArray | None = None
    ) -> Grid:
        """The grid of a dataset, or of one of its variables ``like`` if there are several.

        Components are along the grid's axes if it has an angle and the standard name of ``like`` is
        not eastward.
        """
        xr = extra("xarray", "earth.Grid")
        ds = data
        if isinstance(data, xr.DataArray):
            ds = data.to_dataset(name="field")
        if not isinstance(ds, xr.Dataset):
            raise InvalidInputError(
                f"expected a dataset with latitude and longitude, got {type(data).__name__}."
            )
        healpix = find_healpix(ds)
        if healpix is not None:
            pixel_lat, pixel_lon = healpix.latlon()
            return cls.of_cells(pixel_lat, pixel_lon, (healpix.dim,), (len(healpix.pixels),))
        label = ""
        if like is not None:
            label = str(like.attrs.get("standard_name", ""))
        dims_of = ds if like is None else like
        lat = coordinate(ds, dims_of, "latitude")
        lon = coordinate(ds, dims_of, "longitude")
        _refuse_radians_without_unit(lat, lon)
        dims = tuple(str(dim) for dim in dict.fromkeys((*lat.dims, *lon.dims)))
        if lat.dims == lon.dims:
            turns = _turns_of_axes(ds, dims, label)
            return cls.of_cells(degrees(lat), degrees(lon), dims, lat.shape, turns)
        if lat.ndim != 1 or lon.ndim != 1:
            raise InvalidInputError(
                f"latitude and longitude must share dimensions, got {lat.dims} and {lon.dims}."
            )
        return cls.regular(degrees(lat), degrees(lon), dims)

    @classmethod
    def regular(
        cls, lat: np.ndarray, lon: np.ndarray, dims: tuple[str, ...] = ("lat", "lon")
    ) -> Grid:
        """The grid of rows ``lat`` and columns ``lon``, in degrees and any order."""
        shape = (len(lat), len(lon))
        if np.isfinite(lat).all() and np.isfinite(lon).all():
            lat = rounded_to_poles(lat)
            lon = merged_columns(lon)
        is_finite = np.isfinite(lat).all() and np.isfinite(lon).all()
        if not is_finite or len(np.unique(lat)) < len(lat):
            raise InvalidInputError(
                "rows and columns must be finite, and no latitude occur twice. Drop such rows."
            )
        lat_of_cells = np.repeat(lat, shape[1])
        lon_of_cells = np.tile(lon, shape[0])
        return cls.of_cells(lat_of_cells, lon_of_cells, dims, shape, axes=(lat, lon))

    @classmethod
    def scattered(cls, lat: np.ndarray, lon: np.ndarray) -> Grid:
        """The grid of points without order, in degrees."""
        return cls.of_cells(lat, lon, ("point",), lat.shape)

    @classmethod
    def of_cells(
        cls,
        lat: np.ndarray,
        lon: np.ndarray,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        turns_of_axes: np.ndarray | float = 1.0,
        axes: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Grid:
        """The grid of cells at ``lat`` and ``lon`` (cells,), in degrees; NaN for cells without a
        place.

        Cells of one place, to a centimetre on the Earth, become one point, that of the first.
        ``turns_of_axes``, complex, turn components along the axes of the cells to east and north.
        """
        has_place = np.flatnonzero(np.isfinite(lat) & np.isfinite(lon))
        cells = Globe(lat[has_place], lon[has_place])
        first, point = _first_of_each_place(cells.points)
        if not len(first):
            raise InvalidInputError("the dataset has no place with finite latitude and longitude.")
        chosen = has_place[first]
        point_of_cell = np.full(len(lat), -1)
        point_of_cell[has_place] = point
        turns = np.ones(len(lat), complex)
        turns[has_place] = _turns_between(cells.frames[first][point], cells.frames)
        turns[chosen] = 1.0  # to the last bit
        return cls(
            globe=Globe(lat[chosen], lon[chosen]),
            dims=dims,
            shape=tuple(shape),
            cell=point_of_cell,
            turns=turns * turns_of_axes,
            axes=axes,
        )

    def __repr__(self) -> str:
        if self.axes:
            layout = "regular"
        elif len(self.dims) > 1:
            layout = "curvilinear"
        else:
            layout = "unstructured"
        sizes = " x ".join(f"{d} {m}" for d, m in zip(self.dims, self.shape, strict=True))
        return f"Grid({layout}, {sizes}, {len(self)} points)"

    def __len__(self) -> int:
        return len(self.globe)

    @property
    def lat(self) -> np.ndarray:
        """Degrees, ``(n,)``."""
        return self.globe.lat

    @property
    def lon(self) -> np.ndarray:
        """Degrees, ``(n,)``."""
        return self.globe.lon

    @property
    def points(self) -> np.ndarray:
        """On the unit sphere, ``(n, 3)``."""
        return self.globe.points

    @property
    def frames(self) -> np.ndarray:
        """Unit vectors east and north, ``(n, 3, 2)``."""
        return self.globe.frames

    def bundle(self, **scale: Any) -> TangentBundle:
        """The tangent bundle of the points, as a cloud on the globe; ``scale`` are options such as
        ``neighbors``. The Laplacian of the cells is that of ``earth.smooth``."""
        return self.globe.bundle(**scale)

    @cached_property
    def token(self) -> str:
        """A digest of all that results depend on: grids with one token are alike.

        A regular grid has other cells than the same places as a list, so that its rows and columns
        count.
        """
        arrays = [self.lat, self.lon, self.cell, self.turns, np.array(self.shape)]
        digest = hashlib.sha256(b"scattered" if self.axes is None else b"regular")
        if self.axes is not None:
            arrays += self.axes
        for array in arrays:
            header = f"{array.dtype} {array.shape}"  # where one array ends and the next one begins
            digest.update(header.encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    @cached_property
    def volumes(self) -> Volumes:
        """Neighbouring points, weights and areas, as if there were no land."""
        if self.axes is None:
            return voronoi_volumes(self.points)
        return regular_volumes(*self.axes, self.cell.reshape(self.shape), len(self))

    @property
    def areas(self) -> np.ndarray:
        """Areas of the cells on the unit sphere, ``(n,)``; times ``earth.RADIUS**2`` in square
        metres.

        Warns of missing rows and columns, as ``warn_of_gaps`` does.
        """
        self.warn_of_gaps()
        return self.volumes.areas

    def warn_if_one_row(self) -> None:
        """Warn before derivatives if a regular grid has one row or one column only."""
        if self.axes is None:
            return
        for axis, values in zip(("latitude", "longitude"), self.axes, strict=True):
            if len(np.unique(values)) == 1:
                warn(
                    f"the grid has one {axis} only, {values[0]:g} degrees: derivatives across it "
                    "are unknown and count as zero, so that divergence and vorticity are not "
                    f"those of the field. Give at least two {axis}s.",
                    SuspiciousDataWarning,
                )

    def warn_of_gaps(self) -> None:
        """Warn if rows or columns of a regular grid are missing; each call warns, also if the cells
        are cached."""
        if self.axes is not None:
            warn_of_gaps(*self.axes)

    @cached_property
    def _gather(self) -> sparse.csr_array | None:
        """Means over the cells of each point; None if every cell is a point."""
        cells = np.flatnonzero(self.cell >= 0)
        if len(cells) == len(self) == len(self.cell):
            return None
        counts = np.bincount(self.cell[cells], minlength=len(self))
        data = 1.0 / counts[self.cell[cells]]
        return sparse.csr_array(
            (data, (self.cell[cells], cells)), shape=(len(self), len(self.cell))
        )

    def _check(
        self, array: np.ndarray, shape: tuple[int, ...], last: tuple[int, ...]
    ) -> np.ndarray:
        array = np.asarray(array)
        axes = len(shape) + 1
        if array.ndim < axes or array.shape[-axes:-1] != shape or array.shape[-1] not in last:
            sizes = ", ".join(map(str, (*shape, last[0])))
            raise ShapeError(
                f"expected an array of shape (..., {sizes}) for {self}, got {array.shape}."
            )
        if array.dtype.kind != "f":
            return array.astype(np.float64)
        return array

    def to_points(self, values: np.ndarray) -> np.ndarray:
        """Numbers in cells ``(..., *shape, c)`` to means at points ``(..., n, c)``; NaN stays
        NaN."""
        leading = values.shape[: values.ndim - 1 - len(self.shape)]
        flat = values.reshape(*leading, -1, values.shape[-1])
        if self._gather is None:
            return flat
        cells_first = np.moveaxis(flat, -2, 0)
        means = self._gather.astype(values.dtype) @ cells_first.reshape(len(cells_first), -1)
        return np.moveaxis(means.reshape(len(self), *cells_first.shape[1:]), 0, -2)

    def to_cells(self, values: np.ndarray) -> np.ndarray:
        """Numbers at points ``(..., n, c)`` to all cells ``(..., *shape, c)``; NaN in cells without
        coordinates."""
        cells = values
        if self._gather is not None:
            cells = np.where(self.cell[:, None] >= 0, values[..., self.cell, :], np.nan)
        return cells.reshape(*values.shape[:-2], *self.shape, values.shape[-1])

    def to_coordinates(self, components: np.ndarray) -> np.ndarray:
        """Components along the grid's axes ``(..., *shape, 2)`` to east and north at the points,
        ``(..., n, 2)``.

        Three components are ambient ones. Copies of one place are averaged as vectors; NaN stays
        NaN.
        """
        components = self._check(components, self.shape, (2, 3))
        if components.shape[-1] == 3:
            frames = self.frames.astype(components.dtype)
            return np.einsum("nxa,...nx->...na", frames, self.to_points(components))
        vectors = _as_complex(components) * self._turns(components)
        return self.to_points(vectors.view(components.dtype))

    def to_components(self, coordinates: np.ndarray, count: int = 2) -> np.ndarray:
        """East and north at the points ``(..., n, 2)`` to components in every cell's axes
        ``(..., *shape, 2)``.

        With ``count=3`` these are ambient components. Cells without coordinates are NaN.
        """
        coordinates = self._check(coordinates, (len(self),), (2,))
        if count == 3:
            frames = self.frames.astype(coordinates.dtype)
            return self.to_cells(np.einsum("nxa,...na->...nx", frames, coordinates))
        cells = self.to_cells(coordinates)
        vectors = _as_complex(cells) * self._turns(coordinates).conj()
        return vectors.view(cells.dtype)

    def warn_if_copies_differ(
        self, components: np.ndarray, coordinates: np.ndarray, largest: float = 0.5
    ) -> None:
        """Warn if components in cells of one place, such as a pole, differ strongly from their mean
        ``coordinates``."""
        has_place = self.cell >= 0
        cells_of_point = np.bincount(self.cell[has_place], minlength=len(self))
        is_copy = has_place & (cells_of_point > 1)[self.cell]
        count = components.shape[-1]
        means = self.to_components(coordinates, count).reshape(components.shape)
        differences = (components - means).reshape(-1, len(is_copy), count)[:, is_copy]
        if not np.isfinite(differences).any() or not np.isfinite(coordinates).any():
            return
        share = _typical_length(differences) / _typical_length(coordinates)
        if share > largest:
            warn(
                f"vectors of {is_copy.sum()} cells at common places, such as a pole, differ "
                f"from their mean there by {share:.0%} of the typical length. Check these rows, or "
                "leave them out.",
                SuspiciousDataWarning,
            )

    def _turns(self, like: np.ndarray) -> np.ndarray:
        return self.turns.reshape(*self.shape, 1).astype(np.result_type(like.dtype, np.complex64))


def _as_complex(vectors: np.ndarray) -> np.ndarray:
    """Arrays ``(..., 2)`` as complex numbers ``(..., 1)`` of the same precision."""
    return np.ascontiguousarray(vectors).view(np.result_type(vectors.dtype, np.complex64))


def _typical_length(vectors: np.ndarray) -> float:
    """The root mean square length of vectors ``(..., c)``; NaN does not count."""
    return np.sqrt(np.nanmean(np.square(vectors).sum(axis=-1)))


def _first_of_each_place(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of points ``(k, 3)``, the first one at each of n places, ``(n,)`` ascending, and the number
    of the place of each point, ``(k,)``."""
    rounded = np.round(points, 9) + 0.0  # no negative zeros
    _, first, place = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return np.sort(first), rank[place.ravel()]


def _turns_between(to: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Complex numbers ``(k,)`` that turn coordinates in frames ``start`` (k, 3, 2) to those in
    other frames at the same places: at a pole, frames differ."""
    east = np.einsum("nxa,nx->na", to, start[:, :, 0])
    return east @ np.array([1.0, 1j])


def _refuse_radians_without_unit(lat: xarray.DataArray, lon: xarray.DataArray) -> None:
    if unit_of(lat):
        return
    lat_fits = np.ptp(lat.values) > 2.5 and abs(lat).max() < 1.571
    if lat_fits and 5 < np.ptp(lon.values) < 6.284:
        raise InvalidInputError(
            f"{lat.name} and {lon.name} look like radians. Set their units: radian or degrees."
        )


def _turns_of_axes(ds: xarray.Dataset, dims: tuple[str, ...], label: str) -> np.ndarray | float:
    """Complex numbers that turn components along the axes of cells to east and north: from the
    angle of the axes, unless components with the standard name ``label`` are eastward."""
    angle = None if label.startswith("eastward") else find_angle(ds, dims)
    if angle is not None:
        return np.exp(1j * np.radians(degrees(angle)))
    if "x" in label.split("_") or label.startswith("grid_eastward"):
        raise InvalidInputError(
            f"{label} is along the axes of the grid, so that their angle from east is needed: "
            f"add a variable {ANGLES[1]!r} along {', '.join(dims)}, with units of degrees or "
            "radians."
        )
    return 1.0


def find_angle(ds: xarray.Dataset, dims: tuple[Any, ...]) -> xarray.DataArray | None:
    """The angle from east to the first axis of a grid along these dimensions, by its standard or
    usual name."""
    for name in ds.variables:
        if set(ds[name].dims) != set(dims):
            continue
        variable = ds[name].transpose(*dims)
        has_standard_name = variable.attrs.get("standard_name") == ANGLES[0]
        if has_standard_name or str(variable.name).lower() in ANGLES:
            return variable
    return None
