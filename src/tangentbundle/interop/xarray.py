"""An accessor for xarray: ``import tangentbundle.interop.xarray``, and every dataset has
``ds.tangentbundle``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from ..earth import fields
from ..extras import extra
from ..io import Field, Request, warn_if_suspicious
from ..io.datasets import from_dataset

if TYPE_CHECKING:
    import xarray
else:
    xarray = extra("xarray", "The accessor ds.tangentbundle")


def _method(function: Callable) -> Callable:
    """A function of a dataset as a method of the accessor."""
    return wraps(function)(
        lambda self, *arguments, **options: function(self._ds, *arguments, **options)
    )


@xarray.register_dataset_accessor("tangentbundle")
class DatasetAccessor:
    """Winds and currents of a dataset; the methods are the functions of ``tangentbundle.earth``.

    Components are found by their CF names; ``vectors=("u10", "v10")`` names them. Wind may also be
    given as speed and direction; results have components instead. A result is the dataset itself
    with new numbers in these variables: coordinates, units, attributes and all other variables
    stay. All levels, members and times are computed, each by itself, and lazily if the dataset has
    chunks.

    >>> import numpy as np, xarray as xr, tangentbundle.interop.xarray
    >>> lat, lon = np.arange(-80, 81, 20.0), np.arange(0, 360, 20.0)
    >>> u = np.cos(np.radians(lat))[:, None] * np.ones(len(lon))
    >>> ds = xr.Dataset(
    ...     {"u": (("lat", "lon"), u, {"units": "m s-1"}), "v": (("lat", "lon"), 0 * u)},
    ...     {"lat": lat, "lon": lon},
    ... )
    >>> smooth = ds.tangentbundle.smooth(filter_scale="10000 km")
    >>> smooth["u"].dims, smooth["u"].attrs["units"], round(float(smooth["u"].sel(lat=0).mean()), 2)
    (('lat', 'lon'), 'm s-1', 0.96)
    """

    def __init__(self, ds: xarray.Dataset) -> None:
        self._ds = ds

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(sorted(key for key in vars(type(self)) if not key.startswith("_")))
        raise AttributeError(
            f"there is no {name!r}, but {known}. Filter with smooth(filter_scale='500 km')."
        )

    smooth = _method(fields.smooth)
    denoise = _method(fields.denoise)
    interpolate_to = _method(fields.interpolate_to)
    decompose = _method(fields.decompose)
    divergence = _method(fields.divergence)
    vorticity = _method(fields.vorticity)
    spectrum = _method(fields.spectrum)

    def field(self, vectors: tuple[str, ...] = (), **request: Any) -> Field:
        """All points and vectors in memory, as ``tangentbundle.io`` has them; ``field.notes`` say
        what was guessed."""
        field = from_dataset(self._ds.compute(), Request(vectors=tuple(vectors), **request))
        warn_if_suspicious(field)
        return field
