"""An accessor for xarray: ``import tangentbundle.interop.xarray``, and every dataset has ``ds.tangentbundle``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..bundle import TangentBundle
from ..errors import InvalidInputError
from ..extras import extra
from ..filters import Filter
from ..io import Field, Request
from ..io.actions import assumed, filtered, forecasted, known, past, predicted
from ..io.datasets import GridFile, from_dataset, to_dataset
from ..io.guards import warn_if_suspicious
from ..timeline import calendar_period

if TYPE_CHECKING:
    import xarray
else:
    xarray = extra("xarray", "The accessor ds.tangentbundle")


@xarray.register_dataset_accessor("tangentbundle")
class DatasetAccessor:
    """Vector fields of a dataset: eastward and northward variables on the globe, or x, y, z, vx, vy, vz at points.

    Variables are found by their CF names; ``vectors=("u10", "v10")`` names them. Wind may also be given as speed and
    direction; results are then components. A result is the dataset itself with new numbers in these variables:
    coordinates, units, attributes and all other variables stay. All levels, members and times are computed, each by
    itself. Without latitude and longitude, points and vectors lie along one dimension.

    >>> import numpy as np, xarray as xr, tangentbundle as tb, tangentbundle.interop.xarray
    >>> lat, lon = np.arange(-80, 81, 20.0), np.arange(0, 360, 20.0)
    >>> u = np.cos(np.radians(lat))[:, None] * np.ones(len(lon))
    >>> ds = xr.Dataset({"u": (("lat", "lon"), u, {"units": "m s-1"}), "v": (("lat", "lon"), 0 * u)},
    ...                 {"lat": lat, "lon": lon})
    >>> smooth = ds.tangentbundle.filter(tb.Heat(0.1))                   # a rotation: its eigenvalue is 1
    >>> smooth["u"].dims, smooth["u"].attrs["units"], round(float(smooth["u"].sel(lat=0).mean()), 1)
    (('lat', 'lon'), 'm s-1', 0.9)
    """

    def __init__(self, ds: xarray.Dataset) -> None:
        self._ds = ds

    def field(self, vectors: tuple[str, ...] = (), **request: Any) -> Field:
        """Points and vectors as ``tangentbundle.io`` has them; ``field.notes`` say what was guessed."""
        field = from_dataset(self._ds.load(), Request(vectors=tuple(vectors), **request))
        warn_if_suspicious(field)
        return field

    def bundle(self, **scale: Any) -> TangentBundle:
        """The tangent bundle of the places; ``scale`` are options such as ``neighbors``."""
        return self.field(needs_vectors=False).space.bundle(**scale)

    def filter(self, response: Filter, *, vectors: tuple[str, ...] = (), **scale: Any) -> xarray.Dataset:
        """The fields of every time after a filter, such as ``Heat(0.01)``; on the globe the Earth's radius is one."""
        if not isinstance(response, Filter):
            raise InvalidInputError(f"response must be a filter such as tb.Heat(0.01), got {response!r}.")
        field = self.field(vectors)
        return self._with(filtered(field, field.space.bundle(**scale), response)[0])

    def denoise(
        self, *, noise: float | None = None, std: bool = False, vectors: tuple[str, ...] = (), seed: int = 0
    ) -> xarray.Dataset:
        """The fields of every time without noise, its level estimated unless given; with ``std`` also ``u_std``."""
        from ..estimators import FieldDenoiser

        field = self.field(vectors)
        result, _ = predicted(FieldDenoiser(**assumed(field), random_state=seed), field, field, noise=noise, std=std)
        return self._with(result)

    def interpolate(
        self,
        at: xarray.Dataset,
        *,
        history: xarray.Dataset | None = None,
        noise: float | None = None,
        std: bool = False,
        vectors: tuple[str, ...] = (),
        seed: int = 0,
    ) -> xarray.Dataset:
        """The fields of every time at the places of another dataset, grid or stations; with ``std`` also ``u_std``.

        Covariances are learned from the past fields of ``history``, at any places.
        """
        from ..estimators import FieldInterpolator

        if not isinstance(at, xarray.Dataset):
            raise InvalidInputError(f"at must be a dataset with coordinates of the places, got {type(at).__name__}.")
        field, places = self.field(vectors), from_dataset(at.load(), Request(only_points=True, needs_vectors=False))
        learned = {} if history is None else past(field, from_dataset(history.load(), Request()))
        estimator = FieldInterpolator(**assumed(field), **learned, random_state=seed)
        result = to_dataset(predicted(estimator, field, places, noise=noise, std=std)[0])
        time = field.origin.dimension if isinstance(field.origin, GridFile) else None
        if time is not None and time not in result.dims and field.times is not None:
            result = result.expand_dims({time: field.times})
        return self._described(result, field)

    def forecast(
        self, horizon: int, *, std: bool = False, vectors: tuple[str, ...] = (), seed: int = 0
    ) -> xarray.Dataset:
        """The next ``horizon`` fields of a series in time."""
        from ..forecast import FieldForecaster

        field = self.field(vectors)
        estimator = FieldForecaster(**known(field), period=calendar_period(field.times), random_state=seed)
        result = to_dataset(forecasted(field, estimator, horizon))
        return self._described(result if std else result[list(field.names)], field)

    def _with(self, result: Field) -> xarray.Dataset:
        """This dataset with other vectors."""
        like = self._ds[(result.wind or result.names)[0]]
        ds = to_dataset(result)
        if not isinstance(result.origin, GridFile):
            ds = ds.rename(point=like.dims[-1])
        new: dict[str, Any] = {}
        for name, variable in ds.data_vars.items():
            if dict(variable.sizes) == dict(like.sizes):  # times may have been left out
                variable = variable.transpose(*like.dims)
            if name in self._ds:
                variable.attrs = {**self._ds[name].attrs, **variable.attrs}
            new[str(name)] = variable.drop_vars([c for c in variable.coords if c not in variable.dims])
        return self._ds.assign(new)

    def _described(self, result: xarray.Dataset, field: Field) -> xarray.Dataset:
        """New fields elsewhere or later, with what this dataset says of itself and of its vectors."""
        for name in field.names:
            if name in result and name in self._ds:
                result[name].attrs = {**self._ds[name].attrs, **result[name].attrs}
        result.attrs = {**result.attrs, **self._ds.attrs}
        return result
