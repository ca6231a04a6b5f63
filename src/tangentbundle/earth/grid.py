"""Where the vectors of a dataset are: latitudes and longitudes in any layout, as points of the unit
sphere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ..errors import InvalidInputError, ShapeError, SuspiciousDataWarning, warn
from ..extras import extra
from ..geometry.known_frames import latlon_frames
from .gaps import warn_of_gaps
from .healpix import find_healpix, healpix_latlon
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
        lat, lon: ``(n,)`` degrees.
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

    lat: np.ndarray
    lon: np.ndarray
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
        ds = data.to_dataset(name="field") if isinstance(data, xr.DataArray) else data
        if not isinstance(ds, xr.Dataset):
            raise InvalidInputError(
                f"expected a dataset with latitude and longitude, got {type(data).__name__}."
            )
        if (found := find_healpix(ds)) is not None:
            nside, pixels, nested, dim = found
            latitude, longitude = healpix_latlon(nside, pixels, nested)
            return cls._merged(latitude, longitude, (dim,), (len(pixels),))
        lat, lon = (
            coordinate(ds, ds if like is None else like, name) for name in ("latitude", "longitude")
        )
        dims = tuple(str(d) for d in dict.fromkeys((*lat.dims, *lon.dims)))
        if (
            not unit_of(lat)
            and np.ptp(lat.values) > 2.5
            and abs(lat).max() < 1.571
            and 5 < np.ptp(lon.values) < 6.284
        ):
            raise InvalidInputError(
                f"{lat.name} and {lon.name} look like radians. Set their units: radian or degrees."
            )
        if lat.dims != lon.dims:
            if lat.ndim != 1 or lon.ndim != 1:
                raise InvalidInputError(
                    f"latitude and longitude must share dimensions, got {lat.dims} and {lon.dims}."
                )
            return cls.regular(degrees(lat), degrees(lon), dims)
        said = "" if like is None else str(like.attrs.get("standard_name", ""))
        angle = None if said.startswith("eastward") else find_angle(ds, dims)
        if angle is None and ("x" in said.split("_") or said.startswith("grid_eastward")):
            raise InvalidInputError(
                f"{said} is along the axes of the grid, so that their angle from east is needed: "
                f"add a variable {ANGLES[1]!r} along {', '.join(dims)}, with units of degrees or "
                "radians."
            )
        turns = 1.0 if angle is None else np.exp(1j * np.radians(degrees(angle)))
        return cls._merged(degrees(lat), degrees(lon), dims, lat.shape, turns)

    @classmethod
    def regular(
        cls, lat: np.ndarray, lon: np.ndarray, dims: tuple[str, ...] = ("lat", "lon")
    ) -> Grid:
        """The grid of rows ``lat`` and columns ``lon``, in degrees and any order."""
        shape = len(lat), len(lon)
        if np.isfinite(lat).all() and np.isfinite(lon).all():
            lat, lon = rounded_to_poles(lat), merged_columns(lon)
        if (
            not np.isfinite(lat).all()
            or not np.isfinite(lon).all()
            or len(np.unique(lat)) < len(lat)
        ):
            raise InvalidInputError(
                "rows and columns must be finite, and no latitude occur twice. Drop such rows."
            )
        return cls._merged(
            np.repeat(lat, shape[1]), np.tile(lon, shape[0]), dims, shape, axes=(lat, lon)
        )

    @classmethod
    def scattered(cls, lat: np.ndarray, lon: np.ndarray) -> Grid:
        """The grid of points without order, in degrees."""
        return cls._merged(lat, lon, ("point",), lat.shape)

    @classmethod
    def _merged(
        cls,
        lat: np.ndarray,
        lon: np.ndarray,
        dims: tuple,
        shape: tuple,
        angles: Any = 1.0,
        axes: Any = None,
    ) -> Grid:
        """Cells of one place, to a centimetre on the Earth, become one point, that of the first."""
        there = np.flatnonzero(np.isfinite(lat) & np.isfinite(lon))
        points, frames, _ = latlon_frames(lat[there], lon[there])
        _, first, place = np.unique(
            np.round(points, 9) + 0.0, axis=0, return_index=True, return_inverse=True
        )
        if not len(first):
            raise InvalidInputError("the dataset has no place with finite latitude and longitude.")
        place, first = (
            np.argsort(np.argsort(first))[place.ravel()],
            np.sort(first),
        )  # in the order of the cells
        cell, turns = np.full(len(lat), -1), np.ones(len(lat), complex)
        cell[there], chosen = place, there[first]
        east = np.einsum(
            "nxa,nx->na", frames[first][place], frames[:, :, 0]
        )  # at a pole, frames differ
        turns[there] = east @ np.array([1.0, 1j])
        turns[chosen] = 1.0  # to the last bit
        return cls(lat[chosen], lon[chosen], dims, tuple(shape), cell, turns * angles, axes)

    def __repr__(self) -> str:
        kind = "regular" if self.axes else "curvilinear" if len(self.dims) > 1 else "unstructured"
        sizes = " x ".join(f"{d} {m}" for d, m in zip(self.dims, self.shape, strict=True))
        return f"Grid({kind}, {sizes}, {len(self)} points)"

    def __len__(self) -> int:
        return len(self.lat)

    @cached_property
    def token(self) -> str:
        """A digest of all that results depend on: grids with one token are alike.

        A regular grid has other cells than the same places as a list, so that its rows and columns
        count.
        """
        parts = [self.lat, self.lon, self.cell, self.turns, np.array(self.shape)]
        parts += [] if self.axes is None else list(self.axes)
        digest = hashlib.sha256(b"regular" if self.axes else b"scattered")
        for part in parts:
            digest.update(
                f"{part.dtype} {part.shape}".encode()
            )  # where one array ends and the next one begins
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    @cached_property
    def points(self) -> np.ndarray:
        """On the unit sphere, ``(n, 3)``."""
        return latlon_frames(self.lat, self.lon)[0]

    @cached_property
    def frames(self) -> np.ndarray:
        """Unit vectors east and north, ``(n, 3, 2)``; at a pole, those of its first cell's
        longitude."""
        return latlon_frames(self.lat, self.lon)[1]

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
        k = len(shape) + 1
        if array.ndim < k or array.shape[-k:-1] != shape or array.shape[-1] not in last:
            sizes = ", ".join(map(str, (*shape, last[0])))
            raise ShapeError(
                f"expected an array of shape (..., {sizes}) for {self}, got {array.shape}."
            )
        return array if array.dtype.kind == "f" else array.astype(np.float64)

    def to_points(self, values: np.ndarray) -> np.ndarray:
        """Numbers in cells ``(..., *shape, c)`` to means at points ``(..., n, c)``; NaN stays
        NaN."""
        flat = values.reshape(
            *values.shape[: values.ndim - 1 - len(self.shape)], -1, values.shape[-1]
        )
        if self._gather is None:
            return flat
        columns = np.moveaxis(flat, -2, 0)
        means = self._gather.astype(values.dtype) @ columns.reshape(len(columns), -1)
        return np.moveaxis(means.reshape(len(self), *columns.shape[1:]), 0, -2)

    def to_cells(self, values: np.ndarray) -> np.ndarray:
        """Numbers at points ``(..., n, c)`` to all cells ``(..., *shape, c)``; NaN in cells without
        coordinates."""
        cells = (
            values
            if self._gather is None
            else np.where(self.cell[:, None] >= 0, values[..., self.cell, :], np.nan)
        )
        return cells.reshape(*values.shape[:-2], *self.shape, values.shape[-1])

    def to_coordinates(self, components: np.ndarray) -> np.ndarray:
        """Components along the grid's axes ``(..., *shape, 2)`` to east and north at the points,
        ``(..., n, 2)``.

        Three components are ambient ones. Copies of one place are averaged as vectors; NaN stays
        NaN.
        """
        given = self._check(components, self.shape, (2, 3))
        if given.shape[-1] == 3:
            return np.einsum(
                "nxa,...nx->...na", self.frames.astype(given.dtype), self.to_points(given)
            )
        turned = np.ascontiguousarray(given).view(
            np.result_type(given.dtype, np.complex64)
        ) * self._turns(given)
        return self.to_points(turned.view(given.dtype))

    def to_components(self, coordinates: np.ndarray, count: int = 2) -> np.ndarray:
        """East and north at the points ``(..., n, 2)`` to components in every cell's axes
        ``(..., *shape, 2)``.

        With ``count=3`` these are ambient components. Cells without coordinates are NaN.
        """
        given = self._check(coordinates, (len(self),), (2,))
        if count == 3:
            return self.to_cells(
                np.einsum("nxa,...na->...nx", self.frames.astype(given.dtype), given)
            )
        cells = np.ascontiguousarray(self.to_cells(given))
        return (
            cells.view(np.result_type(cells.dtype, np.complex64)) * self._turns(given).conj()
        ).view(cells.dtype)

    def warn_if_copies_differ(
        self, components: np.ndarray, coordinates: np.ndarray, largest: float = 0.5
    ) -> None:
        """Warn if components in cells of one place, such as a pole, differ strongly from their mean
        ``coordinates``."""
        copies = (self.cell >= 0) & (
            np.bincount(self.cell[self.cell >= 0], minlength=len(self)) > 1
        )[self.cell]
        means = self.to_components(coordinates, components.shape[-1]).reshape(components.shape)
        off = (components - means).reshape(-1, len(copies), components.shape[-1])[:, copies]
        sizes = [
            np.sqrt(np.nanmean(np.square(x).sum(axis=-1)))
            for x in (off, coordinates)
            if np.isfinite(x).any()
        ]
        if len(sizes) == 2 and sizes[0] > largest * sizes[1]:
            text = (
                f"vectors of {copies.sum()} cells at common places, such as a pole, differ "
                "from their mean there by "
            )
            text += (
                f"{sizes[0] / sizes[1]:.0%} of the typical length. Check these rows, or leave "
                "them out."
            )
            warn(text, SuspiciousDataWarning)

    def _turns(self, like: np.ndarray) -> np.ndarray:
        return self.turns.reshape(*self.shape, 1).astype(np.result_type(like.dtype, np.complex64))


def find_angle(ds: xarray.Dataset, dims: tuple[Any, ...]) -> xarray.DataArray | None:
    """The angle from east to the first axis of a grid along these dimensions, by its standard or
    usual name."""
    here = (ds[name].transpose(*dims) for name in ds.variables if {*ds[name].dims} == {*dims})
    return next(
        (
            a
            for a in here
            if a.attrs.get("standard_name") == ANGLES[0] or str(a.name).lower() in ANGLES
        ),
        None,
    )
