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
from .blocks import Computation, compute_blocks
from .grid import Grid, find_angle
from .gridfields import GridFields, with_attributes_of, with_history
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
        """Coordinates ``(t, m, 2)`` at the points ``rows`` of the source to means and standard
        deviations along the axes of cells, ``(t, *shape, 4)``."""
        estimator = self._new_estimator()
        noise = self._noise_at(rows, len(source))
        axes = _axes_of_cells(target)
        vectors = np.einsum("nda,tna->tnd", source.frames[rows], fields.astype(float))
        predictions = []
        for field in vectors:
            estimator.fit(source.points[rows], field, noise)
            mean, covariance = estimator.predict(target.points, return_cov=True)
            in_cells = target.to_cells(covariance.reshape(-1, 9)).reshape(*target.shape, 3, 3)
            variance = np.einsum("...da,...de,...ea->...a", axes, in_cells, axes)
            means = np.einsum("...da,...d->...a", axes, target.to_cells(mean))
            std = np.sqrt(np.maximum(variance, 0.0))
            predictions.append(np.concatenate([means, std], axis=-1))
        return np.stack(predictions)

    def _new_estimator(self) -> Any:
        """An estimator of its own for each block: blocks run side by side."""
        from sklearn.base import clone

        from ..estimators import FieldInterpolator
        from .covariances import Earth

        return clone(self.estimator or FieldInterpolator(manifold=Earth(), random_state=self.seed))

    def _noise_at(self, rows: np.ndarray, n: int) -> Any:
        """The standard errors at the points ``rows`` of n: a number, or one for each, or None."""
        shape = np.shape(self.noise_std)
        if shape not in ((), (n,)):
            raise ShapeError(
                argument="noise_std",
                expected=f"a number or one for each of {n} points of the source",
            )
        if not shape:
            return self.noise_std
        return np.asarray(self.noise_std, float)[rows]


def _axes_of_cells(grid: Grid) -> np.ndarray:
    """The unit vectors ``(*shape, 3, 2)`` along the axes of each cell."""
    coordinates = grid.frames.swapaxes(0, 1)  # of the three unit vectors of space
    return np.moveaxis(grid.to_components(coordinates), 0, -2)


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
        self._limit = np.inf
        if beyond is not None:
            self._limit = radians(beyond) * RADIUS / 1000
        self._method = method
        self._set_grids(source, target, vectors)
        self.weights: Any = None
        self._rows = np.flatnonzero(self._with_data(source))
        if not len(self._rows):
            raise NonFiniteError(
                "no point of the source has data. Check its variables and fill values."
            )
        if isinstance(method, Kriging):
            tree = cKDTree(self.source.points[self._rows])
            nearest = self._rows[tree.query(self.target.points)[1]]
            self.distance = self._distance_to(nearest)
        else:
            self._set_weights(refuse_outside=beyond is None)

    def _set_weights(self, refuse_outside: bool) -> None:
        """Weights in the triangles of the points with data, and distances to these."""
        places = self.target.points
        triangles = Triangulation(self.source.points[self._rows])
        corners, shares, inside = triangles.locate(places)
        nearest_is_land = ~np.isin(cKDTree(self.source.points).query(places)[1], self._rows)
        inside &= ~nearest_is_land
        corners[~inside] = triangles.tree.query(places[~inside])[1][:, None]
        shares[~inside] = (1.0, 0.0, 0.0)
        numbers = self._rows[corners]
        self.distance = np.where(inside, 0.0, self._distance_to(numbers[:, 0]))
        if refuse_outside and not inside.all():
            raise OutsideSourceError(
                f"{(~inside).sum()} of {len(places)} places lie outside of the source, up to "
                f"{self.distance.max():.0f} km from its data. "
                'Use beyond="100 km" to take the nearest vector up to that distance, and NaN '
                "further away; beyond=0 gives NaN in all of them."
            )
        carried = shares * transports(self.target.frames[:, None], self.source.frames[numbers])
        row_starts = np.arange(0, numbers.size + 1, 3)
        self.weights = sparse.csr_array(
            (carried.ravel(), numbers.ravel(), row_starts), shape=(len(places), len(self.source))
        )
        self.weights.eliminate_zeros()  # they would keep NaN

    def _distance_to(self, numbers: np.ndarray) -> np.ndarray:
        """Kilometres ``(m,)`` from each place of the target to a point of the source."""
        return central_angles(self.source.points[numbers], self.target.points) * RADIUS / 1000

    def _set_grids(
        self, source: xarray.Dataset | Grid, target: xarray.Dataset, vectors: Sequence[str] = ()
    ) -> None:
        self._vectors = vectors
        if isinstance(source, Grid):
            self.source = source
        else:
            self.source = GridFields.of(source, vectors).grid
        self.target = Grid.of(target)
        self._angle = None
        if not self.target.axes:
            self._angle = find_angle(target, self.target.dims)
        self._coords = {
            str(name): coordinate.variable
            for name, coordinate in target.coords.items()
            if coordinate.dims and set(coordinate.dims) <= set(self.target.dims)
        }
        if self._angle is not None:
            self._coords[str(self._angle.name)] = self._angle.variable

    def _with_data(self, source: xarray.Dataset | Grid) -> np.ndarray:
        """Which points of the source have a value in its first field."""
        if isinstance(source, Grid):
            return np.ones(len(source), bool)
        fields = GridFields.of(source, self._vectors)
        dims = self.source.dims
        first_field = []
        for component in fields.arrays():
            start = {dim: 0 for dim in component.dims if dim not in dims}
            first_field.append(component.isel(start).transpose(*dims).values[None])
        return np.isfinite(fields.reader.read(first_field)[0]).all(axis=-1)

    def __repr__(self) -> str:
        return f"Regridder({self.source} to {self.target})"

    def __call__(self, ds: xarray.Dataset, vectors: tuple[str, ...] = ()) -> xarray.Dataset:
        """The vectors of a dataset on the grid of the target, lazily if they are; ``vectors`` names
        its components.

        Variables on the grid of the source are left out, others stay. Where a value is missing that
        the first field of the source had, places around it are missing.
        """
        fields = GridFields.of(ds, vectors or self._vectors)
        self._check(fields)
        regridding = Regridding(self, fields.names, fields.dtype)
        variables = compute_blocks(fields, regridding, resized=self.source.dims)
        new = {}
        for name, variable in zip(regridding.names, variables, strict=True):
            original = fields.ds[name.removesuffix("_std")]
            new[name] = with_attributes_of(original, variable)
            self._set_name(
                new[name],
                original,
                is_std=name not in fields.names,
                is_ambient=len(fields.names) == 3,
            )
        on_source = [name for name in ds.variables if set(ds[name].dims) & set(self.source.dims)]
        result = ds.drop_vars(on_source).assign(new).assign_coords(self._coords)
        return with_history(result, f"regrid to {self.target}")

    def _check(self, fields: GridFields) -> None:
        """Refuse fields that the weights are not made for."""
        if fields.grid != self.source:
            raise ShapeError(
                f"the field is on {fields.grid}, not on the grid of the source, {self.source}."
            )
        if self.weights is None and len(fields.names) == 3:
            raise InvalidInputError(
                "kriging takes components east and north, not three ambient ones."
            )
        leading = set(fields.ds[fields.names[0]].dims) - set(self.source.dims)
        clash = leading & set(self.target.dims)
        if clash:
            raise ShapeError(
                f"{', '.join(map(str, clash))} is a dimension of the field and of the target. "
                "Rename one."
            )

    def _set_name(
        self, variable: xarray.DataArray, original: xarray.DataArray, is_std: bool, is_ambient: bool
    ) -> None:
        """The long or the standard name of a result, whose axes may be other ones than those of the
        original."""
        name = str(variable.attrs.pop("standard_name", ""))
        if is_std:
            variable.attrs["long_name"] = f"standard deviation of {original.name}"
            return
        if not is_ambient:
            name = standard_name(name, along_axes=self._angle is not None)
        if name:
            variable.attrs["standard_name"] = name

    def to_cells(self, coordinates: np.ndarray, count: int) -> np.ndarray:
        """Tangent coordinates ``(t, n, 2)`` to ``count`` components in the cells of the target,
        followed by their standard deviations with ``Kriging``."""
        is_far = self.distance > self._limit
        if isinstance(self._method, Kriging):
            predictions = self._method.predict(
                self.source, self._rows, self.target, coordinates[:, self._rows]
            )
            return np.where(self.target.to_cells(is_far[:, None]), np.nan, predictions)
        vectors = np.ascontiguousarray((coordinates[..., 0] + 1j * coordinates[..., 1]).T)
        carried = (self.weights.astype(vectors.dtype, copy=False) @ vectors).T
        carried[:, is_far] = np.nan
        at_points = np.stack([carried.real, carried.imag], axis=-1)
        return self.target.to_components(at_points, count)

    def save(self, path: str | os.PathLike) -> None:
        """Write the weights to a safetensors file, atomically."""
        if self.weights is None:
            raise InvalidInputError("kriging has no weights to save: it is fitted to every field.")
        tensors = {
            "indices": torch.tensor(self.weights.indices),
            "indptr": torch.tensor(self.weights.indptr),
            "data": torch.tensor(self.weights.data.view(float)),
            "distance": torch.tensor(self.distance),
        }
        notes = [self.source.token, self.target.token, float(self._limit)]
        write_tensors(path, KIND, tensors, notes)

    @classmethod
    def load(
        cls, path: str | os.PathLike, source: xarray.Dataset | Grid, target: xarray.Dataset
    ) -> Regridder:
        """Read the weights that ``save`` wrote, for the same two grids."""
        tensors, notes = read_tensors(path, KIND)
        regridder = cls.__new__(cls)
        regridder._method = "linear"
        regridder._set_grids(source, target)
        *tokens, regridder._limit = notes
        if tokens != [regridder.source.token, regridder.target.token]:
            raise ShapeError(
                f"the weights in {path} belong to other grids than {regridder.source} and "
                f"{regridder.target}."
            )
        try:
            arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
            regridder.distance = arrays["distance"]
            regridder.weights = sparse.csr_array(
                (arrays["data"].view(complex), arrays["indices"], arrays["indptr"]),
                shape=(len(regridder.target), len(regridder.source)),
            )
        except (KeyError, ValueError) as error:
            raise DamagedFileError(f"{path} holds no weights ({error!r:.200}).") from error
        return regridder


@dataclass(frozen=True, eq=False)
class Regridding(Computation):
    """Fields with the components ``components`` in the cells of the target of a regridder."""

    regridder: Regridder
    components: tuple[str, ...]
    dtype: np.dtype

    @property
    def names(self) -> list[str]:
        """Of the results: the components, and with ``Kriging`` their standard deviations."""
        names = list(self.components)
        if self.regridder.weights is None:
            names += [f"{name}_std" for name in self.components]
        return names

    @property
    def sizes(self) -> dict[str, int]:
        target = self.regridder.target
        return dict(zip(target.dims, target.shape, strict=True))

    @property
    def count(self) -> int:
        return len(self.names)

    def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
        cells = self.regridder.to_cells(batch, len(self.components))
        cells = cells.astype(self.dtype, copy=False)
        return [cells[..., k] for k in range(cells.shape[-1])]
