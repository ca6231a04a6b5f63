r"""``Regridder``: vector fields from one grid of the Earth to another, by weights that are computed
once.

A place t lies in the triangle of :math:`s_1, s_2, s_3` with weights :math:`w_k`, and :math:`P_k`
carries vectors from :math:`s_k` to t along a great circle. Then
:math:`v(t) = \sum_k w_k P_k v_k + O(h^2)`, and lengths never grow.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from scipy.spatial import cKDTree

from ..errors import (
    DamagedFileError,
    InvalidInputError,
    NonFiniteError,
    OutsideSourceError,
    ShapeError,
)
from ..files import read_tensors, write_tensors
from . import RADIUS, radians
from .blocks import GridFields, described, like
from .grid import Grid, find_angle
from .triangles import Triangulation, central_angles, transports
from .xarrays import standard_name

if TYPE_CHECKING:
    import xarray

KIND = "tangentbundle.regridder"


@dataclass(frozen=True)
class Kriging:
    """A Gaussian process fitted to the field of each time, which takes seconds, with standard
    deviations.

    For stations, noisy data and gaps. ``noise_std`` are known standard errors of the components, a
    number or one for each point of the source; by default one level is estimated. ``estimator`` is
    another ``FieldInterpolator`` than that with covariances of planetary winds, for which ``seed``
    is that of random choices.
    """

    noise_std: Any = None
    estimator: Any = None
    seed: int = 0

    def predict(
        self, source: Grid, rows: np.ndarray, target: Grid, fields: np.ndarray
    ) -> np.ndarray:
        """Coordinates ``(t, n, 2)`` to means and standard deviations along the axes of cells,
        ``(t, *shape, 4)``."""
        from sklearn.base import clone

        from ..estimators import FieldInterpolator
        from .covariances import Earth

        # blocks run side by side
        estimator = clone(self.estimator or FieldInterpolator(manifold=Earth()))
        if np.shape(self.noise_std) not in ((), (len(source),)):
            raise ShapeError(
                f"noise_std must be a number or one for each of {len(source)} points of the source."
            )
        noise = (
            np.asarray(self.noise_std, float)[rows] if np.ndim(self.noise_std) else self.noise_std
        )
        axes, found = (
            np.moveaxis(target.to_components(target.frames.swapaxes(0, 1)), 0, -2),
            [],
        )  # of each cell
        for vectors in np.einsum("nda,tna->tnd", source.frames[rows], fields.astype(float)):
            mean, spread = estimator.fit(source.points[rows], vectors, noise).predict(
                target.points, return_cov=True
            )
            spread = target.to_cells(spread.reshape(-1, 9)).reshape(*target.shape, 3, 3)
            variance = np.einsum("...da,...de,...ea->...a", axes, spread, axes)
            means = np.einsum("...da,...d->...a", axes, target.to_cells(mean))
            found.append(np.concatenate([means, np.sqrt(np.maximum(variance, 0.0))], axis=-1))
        return np.stack(found)


class Regridder:
    r"""Takes vector fields from the grid of one dataset to that of another, with weights that are
    computed once.

    Tangent vectors are carried along great circles and then combined: poles, the date line and
    rotated grids are like any other place. The weights are a sparse matrix :math:`(m \times n)` for
    vectors as complex numbers, east + i north, applied to all times at once, lazily where the data
    are. Results are eastward and northward, or, if the target has the angle of its axes, along
    these, and named so. No method is conservative.

    Args:
        source: a dataset with a vector field; points without a value in its first field are land.
            Or a ``Grid``.
        target: a dataset with latitude and longitude in any layout.
        method: ``"linear"`` in the triangles of the source, whose error is of second order in the
            distance of the points, or ``Kriging()``.
        beyond: places outside of the source, behind its edge or on its land, get the vector of the
            nearest point with a value if that is at most so far, such as ``"100 km"``, and NaN
            otherwise. By default they are refused. With ``Kriging``, whose standard deviations grow
            there, only places further from all data are NaN.
        vectors: names of the components, by default found by standard and usual names.

    Attributes:
        weights: the SciPy CSR array; None of ``Kriging``.
        distance: ``(m,)`` km to the nearest point with a value; 0 in the triangles of the source.

    >>> import xarray as xr
    >>> def grid(step):
    ...     return xr.Dataset(
    ...         coords={"lat": np.arange(90, -91, -step), "lon": np.arange(0, 360, step)}
    ...     )
    >>> lat, lon = (np.radians(grid(5.0)[name]) for name in ("lat", "lon"))
    >>> # a rotation over the poles
    >>> wind = grid(5.0).assign(u=-np.cos(lon) * np.sin(lat), v=np.sin(lon) + 0 * lat)
    >>> fine = Regridder(wind, grid(2.5))(wind)
    >>> dict(fine.sizes), bool(abs(fine.v - np.sin(np.radians(fine.lon))).max() < 2e-3)
    ({'lat': 73, 'lon': 144}, True)
    """

    def __init__(
        self,
        source: xarray.Dataset | Grid,
        target: xarray.Dataset,
        method: str | Kriging = "linear",
        *,
        beyond: str | float | None = None,
        vectors: Sequence[str] = (),
    ):
        if method != "linear" and not isinstance(method, Kriging):
            raise InvalidInputError(f"method must be 'linear' or Kriging(), got {method!r}.")
        self._method, self._limit = (
            method,
            np.inf if beyond is None else radians(beyond) * RADIUS / 1000,
        )
        self._set_grids(source, target, vectors)
        self.weights: Any = None
        self._rows = np.flatnonzero(self._with_data(source))
        if not len(self._rows):
            raise NonFiniteError(
                "no point of the source has data. Check its variables and fill values."
            )
        points, places = self.source.points[self._rows], self.target.points
        if isinstance(method, Kriging):
            self.distance = (
                central_angles(points[cKDTree(points).query(places)[1]], places) * RADIUS / 1000
            )
            return
        triangles = Triangulation(points)
        corners, shares, inside = triangles.locate(places)
        inside &= np.isin(cKDTree(self.source.points).query(places)[1], self._rows)  # not on land
        corners[~inside], shares[~inside] = (
            triangles.tree.query(places[~inside])[1][:, None],
            (1.0, 0.0, 0.0),
        )
        self.distance = (
            np.where(inside, 0.0, central_angles(points[corners[:, 0]], places)) * RADIUS / 1000
        )
        if beyond is None and not inside.all():
            raise OutsideSourceError(
                f"{(~inside).sum()} of {len(places)} places lie outside of the source, up to "
                f"{self.distance.max():.0f} km from its data. "
                'Use beyond="100 km" to take the nearest vector up to that distance, and NaN '
                "further away; beyond=0 gives NaN in all of them."
            )
        numbers, starts = self._rows[corners], np.arange(0, corners.size + 1, 3)
        carried = shares * transports(self.target.frames[:, None], self.source.frames[numbers])
        shape = len(places), len(self.source)
        self.weights = sparse.csr_array((carried.ravel(), numbers.ravel(), starts), shape=shape)
        self.weights.eliminate_zeros()  # they would keep NaN

    def _set_grids(
        self, source: xarray.Dataset | Grid, target: xarray.Dataset, vectors: Sequence[str] = ()
    ) -> None:
        self._vectors = vectors
        self.source = source if isinstance(source, Grid) else GridFields.of(source, vectors).grid
        self.target = Grid.of(target)
        self._angle = None if self.target.axes else find_angle(target, self.target.dims)
        own = {str(name): c.variable for name, c in target.coords.items() if c.dims}
        self._coords = {name: c for name, c in own.items() if {*c.dims} <= {*self.target.dims}}
        if self._angle is not None:
            self._coords[str(self._angle.name)] = self._angle.variable

    def _with_data(self, source: xarray.Dataset | Grid) -> np.ndarray:
        """Which points of the source have a value in its first field."""
        if isinstance(source, Grid):
            return np.ones(len(source), bool)
        fields, dims = GridFields.of(source, self._vectors), self.source.dims
        first = (
            a.isel({d: 0 for d in a.dims if d not in dims}).transpose(*dims)
            for a in fields.arrays()
        )
        return np.isfinite(next(fields.batches([a.values for a in first]))[0]).all(axis=-1)

    def __repr__(self) -> str:
        return f"Regridder({self.source} to {self.target})"

    def __call__(self, ds: xarray.Dataset, vectors: tuple[str, ...] = ()) -> xarray.Dataset:
        """The vectors of a dataset on the grid of the target, lazily if they are; ``vectors`` names
        its components.

        Variables on the grid of the source are left out, others stay. Where a value is missing that
        the first field of the source had, places around it are missing.
        """
        fields = GridFields.of(ds, vectors or self._vectors)
        if fields.grid != self.source:
            raise ShapeError(
                f"the field is on {fields.grid}, not on the grid of the source, {self.source}."
            )
        if self.weights is None and len(fields.names) == 3:
            raise InvalidInputError(
                "kriging takes components east and north, not three ambient ones."
            )
        if clash := {*fields.ds[fields.names[0]].dims} - {*self.source.dims} & {*self.target.dims}:
            raise ShapeError(
                f"{', '.join(map(str, clash))} is a dimension of the field and of the target. "
                "Rename one."
            )
        count = len(fields.names)
        names = [*fields.names, *(f"{name}_std" for name in fields.names if self.weights is None)]

        def one(batch: np.ndarray) -> np.ndarray:
            return np.moveaxis(self._cells(batch, count).astype(fields.dtype, copy=False), -1, 0)

        sizes = dict(zip(self.target.dims, self.target.shape, strict=True))
        new = dict(
            zip(names, fields.lazily(one, len(names), sizes, exclude=self.source.dims), strict=True)
        )
        for name, variable in new.items():
            original = fields.ds[name.removesuffix("_std")]
            attrs = like(variable, original).attrs
            known = str(attrs.pop("standard_name", ""))
            if name not in fields.names:
                attrs["long_name"] = f"standard deviation of {original.name}"
            elif known := known if count == 3 else standard_name(known, self._angle is not None):
                attrs["standard_name"] = known
        others = ds.drop_vars(
            [name for name in ds.variables if {*ds[name].dims} & {*self.source.dims}]
        )
        return described(others.assign(new).assign_coords(self._coords), f"regrid to {self.target}")

    def _cells(self, coordinates: np.ndarray, count: int) -> np.ndarray:
        """Tangent coordinates ``(t, n, 2)`` to ``count`` components in the cells, and their
        standard deviations."""
        far = self.distance > self._limit
        if isinstance(self._method, Kriging):
            found = self._method.predict(
                self.source, self._rows, self.target, coordinates[:, self._rows]
            )
            return np.where(self.target.to_cells(far[:, None]), np.nan, found)
        vectors = np.ascontiguousarray((coordinates[..., 0] + 1j * coordinates[..., 1]).T)
        found = (self.weights.astype(vectors.dtype, copy=False) @ vectors).T
        found[:, far] = np.nan
        return self.target.to_components(np.stack([found.real, found.imag], axis=-1), count)

    def save(self, path: str | os.PathLike) -> None:
        """Write the weights to a safetensors file, atomically."""
        if self.weights is None:
            raise InvalidInputError("kriging has no weights to save: it is fitted to every field.")
        arrays = {key: getattr(self.weights, key) for key in ("indices", "indptr")}
        arrays |= {"data": self.weights.data.view(float), "distance": self.distance}
        tensors = {key: torch.tensor(a) for key, a in arrays.items()}
        write_tensors(
            path, KIND, tensors, [self.source.token, self.target.token, float(self._limit)]
        )

    @classmethod
    def load(
        cls, path: str | os.PathLike, source: xarray.Dataset | Grid, target: xarray.Dataset
    ) -> Regridder:
        """Read the weights that ``save`` wrote, for the same two grids."""
        new, (tensors, notes) = cls.__new__(cls), read_tensors(path, KIND)
        new._method = "linear"
        new._set_grids(source, target)
        *tokens, new._limit = notes
        if tokens != [new.source.token, new.target.token]:
            raise ShapeError(
                f"the weights in {path} belong to other grids than {new.source} and {new.target}."
            )
        try:
            data, *places, new.distance = (
                tensors[key].numpy() for key in ("data", "indices", "indptr", "distance")
            )
            new.weights = sparse.csr_array(
                (data.view(complex), *places), shape=(len(new.target), len(new.source))
            )
        except (KeyError, ValueError) as error:
            raise DamagedFileError(f"{path} holds no weights ({error!r:.200}).") from error
        return new
