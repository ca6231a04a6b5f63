r"""What is done with gridded winds and currents: xarray in, xarray out, lazily where the data are,
lengths in km.

A field is smoothed by a function of the connection Laplacian. Wavelengths are those of its
eigenvalues on a sphere of radius R, :math:`2\pi R / \sqrt\lambda`; fields of spherical harmonics of
degree l have :math:`\lambda = l(l + 1) - 1`. With :math:`\lambda_c = (2\pi R / L)^2` for a
``filter_scale`` L, the gain is :math:`2^{-\lambda / \lambda_c}` (heat flow, a Gaussian), or with
``taper`` :math:`1 / (1 + (\lambda / \lambda_c)^4)`. Both damp the wavelength L by half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..arrays import positive
from ..errors import InvalidInputError, UnitsError
from ..filters import Chebyshev, Filter, Heat, Spectral
from ..filters.banks import apply_bank
from ..parallel import threads_by_size
from ..units import conversion, in_metres
from . import RADIUS, radians
from .blocks import GridFields, described, like
from .decomposition import decomposed
from .operator import Cells
from .regrid import Kriging, Regridder
from .xarrays import rate_attrs, unit_of

if TYPE_CHECKING:
    import xarray

Length = str | float


def response(filter_scale: Length, *, taper: bool = False) -> Filter:
    """The filter, on the unit sphere, that damps the wavelength ``filter_scale`` (``"500 km"``) by
    half.

    >>> # once around the Earth
    >>> response("40030.17 km").response(np.array([0.0, 1.0, 2.0])).round(4).tolist()
    [1.0, 0.5, 0.25]
    """
    angle = positive(radians(filter_scale), "filter_scale")
    if angle > 2 * np.pi * (1 + 1e-9):
        raise UnitsError(
            f"filter_scale must be at most {2 * np.pi * RADIUS / 1e3:.0f} km, once "
            f"around the Earth, got {angle * RADIUS / 1e3:.6g} km. Numbers are km; write lengths "
            "in other units as text, such as "
            f'"{angle * RADIUS / 1e3:.6g} m".'
        )
    cut = (2 * np.pi / angle) ** 2
    if taper:
        return Spectral(lambda lam: 1 / (1 + (lam / cut) ** 4), f"taper at {filter_scale}")
    return Heat(float(np.log(2)) / cut)


@threads_by_size
def smooth(
    ds: xarray.Dataset,
    filter_scale: Length | xarray.DataArray,
    *,
    taper: bool = False,
    no_normal_flow: bool = False,
    vectors: Sequence[str] = (),
) -> xarray.Dataset:
    """Smooth winds or currents: the amplitude at the wavelength ``filter_scale`` is halved, shorter
    ones are removed.

    Args:
        filter_scale: a length such as ``"500 km"`` (numbers are km), or a variable along the grid's
            dimensions with units of length, for a scale that changes from place to place.
        taper: a sharper cutoff instead of the Gaussian gain (see ``response``).
        no_normal_flow: nothing flows across coasts. By default the boundary is natural (no flux),
            so that a field that is parallel up to the coast stays so. The edges of a region are
            natural in both cases.
        vectors: names of the components, by default found by standard and usual names.

    Cells where a component is NaN are land: they stay NaN, and nothing passes through them. Cells
    without a neighbour that has data keep their values. Other variables, coordinates, attributes
    and chunks are those of the dataset; smoothed components are written as floats, also where the
    dataset was packed.

    >>> import xarray as xr
    >>> lat, lon = np.arange(90, -91, -5.0), np.arange(0, 360, 5.0)
    >>> u = np.cos(np.radians(lat))[:, None] * np.ones(len(lon))
    >>> ds = xr.Dataset(
    ...     {"u": (("lat", "lon"), u, {"units": "m s-1"}), "v": (("lat", "lon"), 0 * u)},
    ...     {"lat": lat, "lon": lon},
    ... )
    >>> out = smooth(ds, "2000 km")  # rotation about the axis has the eigenvalue 1
    >>> round(float(out["u"].sel(lat=0).mean()), 3), out["u"].attrs["units"]
    (0.998, 'm s-1')
    """
    fields, longest = GridFields.of(ds, vectors), cast(Length, filter_scale)
    options: dict[str, Any] = {"no_normal_flow": no_normal_flow}
    if hasattr(filter_scale, "dims"):
        local = _local_scale(filter_scale, fields)
        longest, options["relative_scale"] = float(local.max()) * RADIUS / 1e3, local / local.max()
    filters = [response(longest, taper=taper)]

    def compute(cells: Cells, x: np.ndarray) -> list[np.ndarray]:
        return apply_bank(filters, cells.laplacians[x.dtype.char], x, Chebyshev())

    smoothed = zip(fields.names, fields.apply(compute, [2], keep=True, **options), strict=True)
    new = {name: like(a, fields.ds[name]) for name, a in smoothed}
    named = getattr(filter_scale, "name", filter_scale)
    call = f"smooth(filter_scale={named!r}, taper={taper}, no_normal_flow={no_normal_flow})"
    return described(fields.ds.assign(new), call)


def divergence(ds: xarray.Dataset, *, vectors: Sequence[str] = ()) -> xarray.DataArray:
    """The horizontal divergence, in 1/s for speeds, by finite volumes; exact for linear fields,
    also at coasts.

    >>> import xarray as xr
    >>> lat, lon = np.arange(90, -91, -2.0), np.arange(0, 360, 2.0)
    >>> v = np.cos(np.radians(lat))[:, None] * np.ones(len(lon))  # the gradient of R sin(latitude)
    >>> ds = xr.Dataset(
    ...     {"u": (("lat", "lon"), 0 * v, {"units": "m s-1"}), "v": (("lat", "lon"), v)},
    ...     {"lat": lat, "lon": lon},
    ... )
    >>> found = divergence(ds)
    >>> (
    ...     found.attrs["units"],
    ...     bool(abs(found * RADIUS + 2 * np.sin(np.radians(found.lat))).max() < 2e-3),
    ... )
    ('s-1', True)
    """
    return _derivative(ds, vectors, "divergence")


def vorticity(ds: xarray.Dataset, *, vectors: Sequence[str] = ()) -> xarray.DataArray:
    """The relative vorticity, in 1/s for speeds, counterclockwise positive; see ``divergence``."""
    return _derivative(ds, vectors, "vorticity")


@threads_by_size
def decompose(
    ds: xarray.Dataset, *, vectors: Sequence[str] = (), tol: float = 5e-3
) -> xarray.Dataset:
    r"""The Helmholtz decomposition: divergent and rotational winds, what is left, and their
    potentials.

    .. math:: v = \nabla \phi + k \times \nabla \psi + r

    For components u, v the result has ``u_divergent``, ``v_divergent``, ``u_rotational``,
    ``v_rotational``, ``u_remainder``, ``v_remainder``, ``velocity_potential`` and
    ``stream_function`` (m2/s for speeds, mean zero). The remainder holds what potentials on this
    grid do not resolve, and on seas the flow around islands and through open boundaries: at coasts
    :math:`\partial_n \phi = v_n` and :math:`\psi = 0`. A ``BoundaryWarning`` says where a region
    ends, since a uniform flow there counts as divergent. Potentials whose gradients on the grid are
    less than ``tol`` of their differences from cell to cell count as unresolved.
    """
    tol, fields = positive(tol, "tol"), GridFields.of(ds, vectors)
    names, (length, unit) = fields.names, _per_metre(fields.unit, -1)

    def compute(cells: Cells, x: np.ndarray) -> Sequence[np.ndarray]:
        v = x[:, 0] + 1j * x[:, 1].astype(float)
        divergent, rotational, *potentials = decomposed(cells, v, tol)
        parts = (
            np.stack([z.real, z.imag], axis=1)
            for z in (divergent, rotational, v - divergent - rotational)
        )
        return [*parts, *(length * RADIUS * function[:, None] for function in potentials)]

    found = iter(fields.apply(compute, [2, 2, 2, 1, 1]))
    result = fields.ds.drop_vars(names)
    for part in ("divergent", "rotational", "remainder"):
        for name in names:
            result[f"{name}_{part}"] = like(
                next(found), fields.ds[name], long_name=f"{part} part of {name}"
            )
            result[f"{name}_{part}"].attrs.pop("standard_name", None)
    for name in ("velocity_potential", "stream_function"):
        result[name] = next(found).assign_attrs(long_name=name.replace("_", " "), units=unit)
    return described(result, "decompose()")


@threads_by_size
def spectrum(
    ds: xarray.Dataset, wavelengths: Sequence[Length] | None = None, *, vectors: Sequence[str] = ()
) -> xarray.DataArray:
    r"""Kinetic energy by wavelength: the mean of :math:`|v|^2 / 2` over the area, in bands between
    ``wavelengths``.

    The energy of a band is what the Gaussian gains at its two ends (see ``response``) let through,
    less one another: bands overlap by about an octave. They sum to the energy of the field: the
    first holds all that is longer, the last all that is shorter. Missing data cut the region, as in
    ``smooth``. By default ``wavelengths`` are two an octave from 10 000 km to two cells.

    Returns: a variable with the dimension ``wavelength`` (km, the geometric middle of a band) in
    place of the grid's.
    """
    fields = GridFields.of(ds, vectors)
    areas, known = fields.grid.areas, conversion(fields.unit, "m/s")
    if wavelengths is None:
        octaves = np.log2(radians("10000 km") / np.sqrt(4 * areas.mean()))
        ends = radians("10000 km") * 2.0 ** (-0.5 * np.arange(max(2, int(2 * octaves) + 1)))
    else:
        ends = np.sort([radians(length) for length in wavelengths])[::-1]
        if not len(ends):
            raise InvalidInputError("wavelengths must have at least one length, such as 1000 km.")
    filters = [response(float(end) * RADIUS / 1e3) for end in ends]

    def energies(batch: np.ndarray) -> list[np.ndarray]:
        found = np.full((len(batch), len(ends) + 1), np.nan, fields.dtype)
        for rows, cells, x in fields.groups(batch):
            passed = [*apply_bank(filters, cells.laplacians[x.dtype.char], x, Chebyshev()), x]
            weights = areas[cells.index] / areas[cells.index].sum() * (known or 1.0) ** 2 / 2
            longer = [np.einsum("n,ndc,ndc->c", weights, x, y) for y in passed]
            found[rows] = np.diff(longer, axis=0, prepend=0.0).T
        return [found]

    edges = np.array([2 * ends[0], *ends, ends[-1] / 2]) * RADIUS / 1e3
    result = fields.lazily(energies, 1, {"wavelength": len(ends) + 1})[0].rename("energy")
    coordinate = (
        "wavelength",
        np.sqrt(edges[1:] * edges[:-1]),
        {"units": "km", "long_name": "wavelength"},
    )
    units = "m2 s-2" if known else f"({fields.unit})2" if fields.unit else ""
    return result.assign_coords(wavelength=coordinate).assign_attrs(
        long_name="kinetic energy in a band", units=units
    )


@threads_by_size
def interpolate_to(
    ds: xarray.Dataset,
    target: xarray.Dataset,
    method: str | Kriging = "linear",
    *,
    beyond: Length | None = None,
    vectors: Sequence[str] = (),
) -> xarray.Dataset:
    """The fields at the places of another dataset, grid or stations. ``Regridder`` does it, and can
    be used again."""
    return Regridder(ds, target, method, beyond=beyond, vectors=vectors)(ds)


@threads_by_size
def denoise(
    ds: xarray.Dataset,
    *,
    noise: float | None = None,
    std: bool = False,
    vectors: Sequence[str] = (),
    seed: int = 0,
) -> xarray.Dataset:
    """The fields without noise, each by itself, by a Gaussian process with covariances of planetary
    winds.

    ``noise`` is its standard deviation in the unit of the components, estimated if not given; with
    ``std`` the result has standard deviations ``u_std`` and ``v_std``, too; ``seed`` is that of the
    estimator's random choices.
    """
    from ..estimators import FieldDenoiser
    from .covariances import Earth

    fields = GridFields.of(ds, vectors)
    model = FieldDenoiser(manifold=Earth(), random_state=seed)
    found = Regridder(fields.ds, fields.ds, Kriging(noise, model), vectors=fields.names)(fields.ds)
    names = [*fields.names, *(f"{name}_std" for name in fields.names if std)]
    first, second = (fields.ds[name] for name in fields.names)
    there = (abs(first) <= fields.limit) & (abs(second) <= fields.limit)
    new = {
        name: like(found[name].where(there).transpose(*first.dims), found[name]) for name in names
    }
    return described(fields.ds.assign(new), f"denoise(noise={noise})")


@threads_by_size
def _derivative(ds: xarray.Dataset, vectors: Sequence[str], name: str) -> xarray.DataArray:
    fields = GridFields.of(ds, vectors)
    fields.grid.warn_if_one_row()
    length, unit = _per_metre(fields.unit, 1)

    def compute(cells: Cells, x: np.ndarray) -> list[np.ndarray]:
        rates = cells.derivative @ (x[:, 0] + 1j * x[:, 1].astype(float))
        return [length / RADIUS * (rates.real if name == "divergence" else rates.imag)[:, None]]

    attrs = {"long_name": f"{name} of {', '.join(fields.names)}", "units": unit}
    attrs |= rate_attrs(name, fields.ds[fields.names[0]])
    return fields.apply(compute, [1])[0].rename(name).assign_attrs(attrs)


def _per_metre(unit: str, power: int) -> tuple[float, str]:
    """The factor to metres of a length or speed, and the unit over (power 1) or times (-1) a
    metre."""
    size = in_metres(unit)
    if size is None:
        return 1.0, f"{unit} m{'-1' if power == 1 else ''}".strip()
    time = " s-1" if size[1] else ""
    return size[0], ("s-1" if size[1] else "1") if power == 1 else f"m2{time}"


def _local_scale(scale: Any, fields: GridFields) -> np.ndarray:
    """A variable of lengths as angles at the points of the grid."""
    size = in_metres(unit_of(scale))
    if size is None or size[1]:
        raise UnitsError(
            "a filter_scale that varies needs units of length, such as km; it has "
            f"{unit_of(scale)!r}."
        )
    if {*scale.dims} != {*fields.grid.dims}:
        raise InvalidInputError(
            f"filter_scale must lie along {fields.grid.dims}, got {scale.dims}."
        )
    values = np.asarray(scale.transpose(*fields.grid.dims).values, np.float64) * size[0] / RADIUS
    local = fields.grid.to_points(values[..., None])[:, 0]
    if not (local > 0).all():
        raise InvalidInputError("filter_scale must be positive everywhere, also on land.")
    return local
