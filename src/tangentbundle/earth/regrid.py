r"""``Regridder``: vector fields from one grid of the Earth to another, by weights that are computed once.

A place t lies in the triangle of :math:`s_1, s_2, s_3` with weights :math:`w_k`, and :math:`P_k` carries vectors from
:math:`s_k` to t along a great circle. With the covariant derivative :math:`\nabla v` and the way :math:`y_k` to t,

.. math:: v(t) = \sum_k w_k P_k v_k + O(h^2)
               = \sum_k w_k P_k \left(v_k + \tfrac12 \nabla_{y_k} v_k\right) + O(h^3).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.spatial import cKDTree

from ..bundle import TangentBundle
from ..calculus import Derivatives
from ..errors import DamagedFileError, InvalidInputError, OutsideSourceError, ShapeError
from ..extras import extra
from ..files import read_tensors, write_tensors
from ..manifolds import Sphere
from . import RADIUS
from .blocks import GridFields, described, like
from .grid import Grid
from .lengths import radians
from .triangles import Triangulation, central_angles, great_circle_rotations

if TYPE_CHECKING:
    import xarray

KIND = "tangentbundle.regridder"


class Stencil(NamedTuple):
    """Where vectors come from: ``points (n, 3)`` and ``frames``, numbered ``rows`` in the grid of the source.

    ``corners (m, 3)`` are the points around each place of the ``target``, ``turns (m, 3, 2, 2)`` the transport from
    there, times the weights, and ``ways (m, 3, 2)`` lead from there to the place. Outside of the source all corners are
    the nearest point, and ways are zero.
    """

    points: np.ndarray
    frames: np.ndarray
    rows: np.ndarray
    target: Grid
    corners: np.ndarray
    turns: np.ndarray
    ways: np.ndarray

    def matrix(self, blocks: np.ndarray) -> sparse.csr_array:
        """The matrix ``(m p, n q)`` with the blocks ``(m, 3, p, q)`` of the corners."""
        m, _, p, q = blocks.shape
        parts = blocks.reshape(-1, p, q), self.corners.ravel(), np.arange(0, 3 * m + 1, 3)
        return sparse.csr_array(sparse.bsr_array(parts, shape=(m * p, len(self.points) * q)))


@dataclass(frozen=True)
class Linear:
    """Vectors of a triangle's corners, carried to a place inside and weighted linearly. Lengths never grow.

    The error is of second order in the distance of the points.
    """

    def weights(self, stencil: Stencil) -> sparse.csr_array:
        return stencil.matrix(stencil.turns)


@dataclass(frozen=True)
class Quadratic:
    """``Linear`` with covariant derivatives at the corners, from polynomials fitted to the nearest points.

    The error is of third order in the distance of the points: choose it for smooth fields without noise.
    """

    def weights(self, stencil: Stencil) -> sparse.csr_array:
        steps = np.einsum("mkac,mkb->mkacb", stencil.turns, stencil.ways / 2).reshape(len(stencil.ways), 3, 2, 4)
        derivative = Derivatives(TangentBundle.from_frames(stencil.points, stencil.frames)).jacobian().to_scipy()
        return sparse.csr_array(stencil.matrix(stencil.turns) + stencil.matrix(steps) @ derivative)


@dataclass(frozen=True)
class Kriging:
    """A Gaussian process fitted to the field of each time, which takes seconds, with standard deviations.

    For stations, noisy data and gaps. ``noise_std`` are known standard errors of the components, a number or one for
    each point of the source; by default one level is estimated. ``estimator`` is another ``FieldInterpolator`` than
    that with covariances of planetary winds.
    """

    noise_std: Any = None
    estimator: Any = None

    def predict(self, stencil: Stencil, fields: np.ndarray) -> np.ndarray:
        """Tangent coordinates ``(T, n, 2)`` to means, and sum, difference and product of covariances ``(T, m, 5)``."""
        from ..estimators import FieldInterpolator, helmholtz
        from .covariances import planetary

        default = {"manifold": Sphere(2), "covariance": [planetary(), helmholtz()], "random_state": 0}
        estimator, found = self.estimator or FieldInterpolator(**default), []
        noise, target = self.noise_std, stencil.target
        noise = np.asarray(noise, float)[stencil.rows] if np.ndim(noise) else noise
        for vectors in np.einsum("nda,tna->tnd", stencil.frames, fields.astype(float)):
            mean, spread = estimator.fit(stencil.points, vectors, noise).predict(target.points, return_cov=True)
            (xx, xy), (_, yy) = np.einsum("mda,mde,meb->abm", target.frames, spread, target.frames)
            parts = (xx + yy) / 2, (xx - yy) / 2, xy
            found.append(np.column_stack([np.einsum("mda,md->ma", target.frames, mean), *parts]))
        return np.stack(found)


class Regridder:
    r"""Takes vector fields from the grid of one dataset to that of another, with weights that are computed once.

    Tangent vectors are carried along great circles and then combined: poles, the date line and rotated grids are like
    any other place. The weights are a sparse matrix :math:`(2m \times 2n)` of tangent coordinates, applied to all times
    at once, lazily where the data are. No method is conservative.

    Args:
        source: a dataset with a vector field; points without a value in its first field are land. Or a ``Grid``.
        target: a dataset with latitude and longitude in any layout.
        method: ``Linear()``, ``Quadratic()`` or ``Kriging()``.
        beyond: places outside of the source, behind its edge or on its land, get the vector of the nearest point with
            a value if that is at most so far, such as ``"100 km"``, and NaN otherwise. By default they are refused.
            ``Kriging`` refuses none, as its standard deviations grow there.

    Attributes:
        weights: the SciPy CSR array, whose columns are the points with values; None of ``Kriging``.
        distance: ``(m,)`` km to the nearest point with a value, of places outside of the source; 0 inside.

    >>> import xarray as xr
    >>> def grid(step):
    ...     return xr.Dataset(coords={"lat": np.arange(90, -91, -step), "lon": np.arange(0, 360, step)})
    >>> lat, lon = (np.radians(grid(5.0)[name]) for name in ("lat", "lon"))
    >>> wind = xr.Dataset({"u": -np.cos(lon) * np.sin(lat), "v": np.sin(lon) + 0 * lat})   # a rotation over the poles
    >>> fine = Regridder(wind.assign_coords(grid(5.0).coords), grid(2.5))(wind.assign_coords(grid(5.0).coords))
    >>> dict(fine.sizes), bool(abs(fine.v - np.sin(np.radians(fine.lon))).max() < 2e-3)
    ({'lat': 73, 'lon': 144}, True)
    """

    def __init__(
        self,
        source: xarray.Dataset | Grid,
        target: xarray.Dataset,
        method: Linear | Quadratic | Kriging | None = None,
        *,
        beyond: str | float | None = None,
    ):
        method = method or Linear()
        if not isinstance(method, (Linear, Quadratic, Kriging)):
            raise InvalidInputError(f"method must be Linear(), Quadratic() or Kriging(), got {method!r}.")
        self.source, there = _data_points(source)
        self.target, self._coords = Grid.of(target), _coordinates(target)
        limit = None if beyond is None else radians(beyond)
        self.rows = np.flatnonzero(there)
        stencil, angles = self._stencil(refuse=limit is None and not isinstance(method, Kriging))
        self.distance = angles * RADIUS / 1000
        self._missing = np.flatnonzero(angles > (np.inf if limit is None else limit))
        self.weights = None if isinstance(method, Kriging) else method.weights(stencil)
        self._predict: Callable = lambda fields: method.predict(stencil, fields)  # type: ignore[union-attr]

    def _stencil(self, refuse: bool) -> tuple[Stencil, np.ndarray]:
        """Triangles around the places, and distances in radians of those that are outside."""
        points, frames, places = self.source.points[self.rows], self.source.frames[self.rows], self.target.points
        triangles = Triangulation(points)
        corners, weights, inside = triangles.locate(places)
        inside &= np.isin(cKDTree(self.source.points).query(places)[1], self.rows)  # not on land
        corners[~inside], weights[~inside] = triangles.tree.query(places[~inside])[1][:, None], (1.0, 0.0, 0.0)
        angles = central_angles(points[corners], places[:, None])
        distance = np.where(inside, 0.0, angles[:, 0])
        if refuse and not inside.all():
            raise OutsideSourceError(
                f"{(~inside).sum()} of {len(places)} places lie outside of the source, up to "
                f'{distance.max() * RADIUS / 1000:.0f} km from its data. Use beyond="100 km" to take the nearest '
                "vector up to that distance, and NaN further away; beyond=0 gives NaN in all of them."
            )
        turns = weights[..., None, None] * great_circle_rotations(self.target.frames[:, None], frames[corners])
        flat = np.einsum("mkda,mkd->mka", frames[corners], places[:, None] - points[corners])
        ways = flat * (inside[:, None] * angles / np.maximum(np.linalg.norm(flat, axis=-1), 1e-300))[..., None]
        return Stencil(points, frames, self.rows, self.target, corners, turns, ways), distance

    def __repr__(self) -> str:
        return f"Regridder({self.source} to {self.target})"

    def __call__(self, ds: xarray.Dataset, vectors: tuple[str, ...] = ()) -> xarray.Dataset:
        """The vectors of a dataset on the grid of the target, lazily if they are; ``vectors`` names its components.

        Variables on the grid of the source are left out, others stay. Where a value is missing that the first field of
        the source had, places around it are missing.
        """
        fields = GridFields.of(ds, vectors)
        if fields.grid != self.source:
            raise ShapeError(f"the field is on {fields.grid}, not on the grid of the source, {self.source}.")
        if self.weights is None and len(fields.names) == 3:
            raise InvalidInputError("kriging takes two components, east and north, not three ambient ones.")
        names = [*fields.names, *(f"{name}_std" for name in fields.names if self.weights is None)]

        def block(*parts: np.ndarray) -> tuple[np.ndarray, ...]:
            lead = parts[0].shape[: parts[0].ndim - len(self.source.dims)]
            cells = np.concatenate([self._cells(batch, len(parts)) for batch in fields._batches(parts)])
            return tuple(np.moveaxis(cells.reshape(*lead, *cells.shape[1:]).astype(fields.dtype, copy=False), -1, 0))

        found = extra("xarray", "Regridder").apply_ufunc(
            block,
            *fields.arrays(),
            input_core_dims=[self.source.dims] * len(fields.names),
            output_core_dims=[self.target.dims] * len(names),
            exclude_dims={*self.source.dims},
            dask="parallelized",
            output_dtypes=[fields.dtype] * len(names),
            dask_gufunc_kwargs={"output_sizes": dict(zip(self.target.dims, self.target.shape, strict=True))},
        )
        new = {
            name: like(a.astype(fields.dtype), fields.ds[name.removesuffix("_std")])
            for name, a in zip(names, found, strict=True)
        }
        kept = ds.drop_vars([name for name in ds.variables if {*ds[name].dims} & {*self.source.dims}])
        return described(kept.assign(new).assign_coords(self._coords), f"regrid to {self.target}")

    def _cells(self, coordinates: np.ndarray, count: int) -> np.ndarray:
        """Tangent coordinates ``(t, n, 2)`` to ``count`` components in the cells, and their standard deviations."""
        fields, target = coordinates[:, self.rows], self.target
        if self.weights is None:
            found = self._predict(fields)
        else:
            columns = np.ascontiguousarray(fields.reshape(len(fields), -1).T)
            found = (self.weights.astype(fields.dtype, copy=False) @ columns).T.reshape(len(fields), -1, 2)
        found[:, self._missing] = np.nan
        mean = target.to_components(found[..., :2], count)
        if self.weights is not None:
            return mean
        half, real, imaginary = np.moveaxis(target.to_cells(found[..., 2:]), -1, 0)
        turned = ((real + 1j * imaginary) * target.turns.reshape(target.shape).conj() ** 2).real
        return np.concatenate([mean, np.sqrt(np.maximum(np.stack([half + turned, half - turned], -1), 0.0))], axis=-1)

    def save(self, path: str | os.PathLike) -> None:
        """Write the weights to a safetensors file, atomically."""
        if self.weights is None:
            raise InvalidInputError("kriging has no weights to save: it is fitted to every field. Use Linear().")
        arrays = {key: getattr(self.weights, key) for key in ("data", "indices", "indptr")}
        arrays |= {"rows": self.rows, "distance": self.distance, "missing": self._missing}
        notes = {"source": self.source.token, "target": self.target.token}
        write_tensors(path, KIND, {key: torch.tensor(a) for key, a in arrays.items()}, notes)

    @classmethod
    def load(cls, path: str | os.PathLike, source: xarray.Dataset | Grid, target: xarray.Dataset) -> Regridder:
        """Read the weights that ``save`` wrote, for the same two grids."""
        tensors, notes = read_tensors(path, KIND)
        new = cls.__new__(cls)
        new.source = source if isinstance(source, Grid) else GridFields.of(source).grid
        new.target, new._coords = Grid.of(target), _coordinates(target)
        if notes != {"source": new.source.token, "target": new.target.token}:
            raise ShapeError(f"the weights in {path} belong to other grids than {new.source} and {new.target}.")
        try:
            data, indices, indptr, new.rows, new.distance, new._missing = (
                tensors[key].numpy() for key in ("data", "indices", "indptr", "rows", "distance", "missing")
            )
            new.weights = sparse.csr_array((data, indices, indptr), shape=(2 * len(new.target), 2 * len(new.rows)))
        except (KeyError, ValueError) as error:
            raise DamagedFileError(f"{path} holds no weights ({error!r:.200}).") from error
        return new


def _data_points(source: Any) -> tuple[Grid, np.ndarray]:
    """The grid of a dataset, and which of its points have a value in the first field."""
    if isinstance(source, Grid):
        return source, np.ones(len(source), bool)
    fields = GridFields.of(source)
    first = [a.isel({d: 0 for d in a.dims if d not in fields.grid.dims}) for a in fields.arrays()]
    coordinates = next(fields._batches([a.transpose(*fields.grid.dims).values for a in first]))
    return fields.grid, np.isfinite(coordinates[0]).all(axis=-1)


def _coordinates(ds: Any) -> dict[str, Any]:
    """The coordinates of the cells of a dataset."""
    dims = Grid.of(ds).dims
    return {str(name): c.variable for name, c in ds.coords.items() if c.dims and {*c.dims} <= {*dims}}
