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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import positive
from ..errors import InvalidInputError, UnitsError
from ..filters import Chebyshev, Filter, Heat, Spectral
from ..parallel import threads_by_size
from ..units import conversion, in_metres
from ..winds import WIND_PARTS
from . import RADIUS, radians
from .blocks import (
    CellComputation,
    Computation,
    compute_blocks,
    compute_in_cells,
    groups_with_same_data,
)
from .decomposition import decomposed
from .grid import Grid
from .gridfields import GridFields, with_attributes_of, with_history
from .operator import CellOptions, Cells
from .regrid import Kriging, Regridder
from .xarrays import rate_attrs, unit_of

if TYPE_CHECKING:
    import xarray

Length = str | float

LONGEST_BAND_END = "10000 km"
"""The first wavelength of ``spectrum`` by default."""

BANDS_PER_OCTAVE = 2
"""Of ``spectrum`` by default."""


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
    fields = GridFields.of(ds, vectors)
    scale = FilterScale.of(filter_scale, fields.grid)
    smoothing = Smoothing(response(scale.longest, taper=taper))
    options = CellOptions(scale.relative, no_normal_flow)
    components = compute_in_cells(fields, smoothing, options, keep_isolated=True)
    smoothed = {
        name: with_attributes_of(fields.ds[name], component)
        for name, component in zip(fields.names, components, strict=True)
    }
    scale_name = getattr(filter_scale, "name", filter_scale)
    call = f"smooth(filter_scale={scale_name!r}, taper={taper}, no_normal_flow={no_normal_flow})"
    return with_history(fields.ds.assign(smoothed), call)


@dataclass(frozen=True, eq=False)
class Smoothing(CellComputation):
    """A filter of the connection Laplacian of the cells."""

    filter: Filter
    sizes = (2,)

    def __call__(self, cells: Cells, signal: np.ndarray) -> list[np.ndarray]:
        laplacian = cells.laplacians[signal.dtype.char]
        return laplacian.evaluate([self.filter], signal, Chebyshev())


@dataclass(frozen=True, eq=False)
class FilterScale:
    """A filter scale: the longest one, and if it varies, its share of that at each point of the
    grid, ``(n,)``."""

    longest: Length
    relative: np.ndarray | None = None

    @classmethod
    def of(cls, scale: Any, grid: Grid) -> FilterScale:
        """The scale of a length, or of a variable of lengths on the grid."""
        if not hasattr(scale, "dims"):
            return cls(scale)
        angles = _angles_at_points(scale, grid)
        return cls(float(angles.max()) * RADIUS / 1e3, angles / angles.max())


def _angles_at_points(scale: xarray.DataArray, grid: Grid) -> np.ndarray:
    """A variable of lengths as angles in radians at the points of the grid, ``(n,)``."""
    size = in_metres(unit_of(scale))
    if size is None or size[1]:
        raise UnitsError(
            "a filter_scale that varies needs units of length, such as km; it has "
            f"{unit_of(scale)!r}."
        )
    if set(scale.dims) != set(grid.dims):
        raise InvalidInputError(f"filter_scale must lie along {grid.dims}, got {scale.dims}.")
    lengths = np.asarray(scale.transpose(*grid.dims).values, np.float64)
    cells = lengths * size[0] / RADIUS
    angles = grid.to_points(cells[..., None])[:, 0]
    if not (angles > 0).all():
        raise InvalidInputError("filter_scale must be positive everywhere, also on land.")
    return angles


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
    return _rate(ds, vectors, Divergence)


def vorticity(ds: xarray.Dataset, *, vectors: Sequence[str] = ()) -> xarray.DataArray:
    """The relative vorticity, in 1/s for speeds, counterclockwise positive; see ``divergence``."""
    return _rate(ds, vectors, Vorticity)


@threads_by_size
def _rate(
    ds: xarray.Dataset, vectors: Sequence[str], rate: type[Divergence] | type[Vorticity]
) -> xarray.DataArray:
    fields = GridFields.of(ds, vectors)
    fields.grid.warn_if_one_row()
    length, unit = _per_metre(fields.unit)
    variable = compute_in_cells(fields, rate(length / RADIUS))[0]
    attributes = {"long_name": f"{rate.name} of {', '.join(fields.names)}", "units": unit}
    attributes |= rate_attrs(rate.name, fields.ds[fields.names[0]])
    return variable.rename(rate.name).assign_attrs(attributes)


@dataclass(frozen=True)
class Divergence(CellComputation):
    """The divergence, times a factor."""

    factor: float
    name = "divergence"
    sizes = (1,)

    def __call__(self, cells: Cells, signal: np.ndarray) -> list[np.ndarray]:
        rates = cells.derivative @ as_complex(signal)
        return [self.factor * rates.real[:, None]]


@dataclass(frozen=True)
class Vorticity(CellComputation):
    """The vorticity, times a factor."""

    factor: float
    name = "vorticity"
    sizes = (1,)

    def __call__(self, cells: Cells, signal: np.ndarray) -> list[np.ndarray]:
        rates = cells.derivative @ as_complex(signal)
        return [self.factor * rates.imag[:, None]]


def as_complex(signal: np.ndarray) -> np.ndarray:
    """A signal ``(m, 2, c)`` as complex numbers ``(m, c)``, east + i north, in float64."""
    return signal[:, 0] + 1j * signal[:, 1].astype(float)


@threads_by_size
def decompose(
    ds: xarray.Dataset, *, vectors: Sequence[str] = (), tol: float = 5e-3
) -> xarray.Dataset:
    r"""The Helmholtz decomposition: divergent and rotational winds, what is left, and their
    potentials.

    .. math:: v = \nabla \phi + k \times \nabla \psi + r

    For components u, v the result has ``u_divergent``, ``v_divergent``, ``u_rotational``,
    ``v_rotational``, ``u_remainder``, ``v_remainder``, ``velocity_potential`` and
    ``streamfunction`` (m2/s for speeds, mean zero). The remainder holds what potentials on this
    grid do not resolve, and on seas the flow around islands and through open boundaries: at coasts
    :math:`\partial_n \phi = v_n` and :math:`\psi = 0`. A ``BoundaryWarning`` says where a region
    ends, since a uniform flow there counts as divergent. Potentials whose gradients on the grid are
    less than ``tol`` of their differences from cell to cell count as unresolved.
    """
    tol = positive(tol, "tol")
    fields = GridFields.of(ds, vectors)
    length, unit = _times_metre(fields.unit)
    variables = iter(compute_in_cells(fields, HelmholtzParts(tol, length * RADIUS)))
    result = fields.ds.drop_vars(fields.names)
    for part in HelmholtzParts.vectors:
        for name in fields.names:
            variable = next(variables)
            text = f"{part} part of {name}"
            variable = with_attributes_of(fields.ds[name], variable, long_name=text)
            variable.attrs.pop("standard_name", None)
            result[f"{name}_{part}"] = variable
    for name in HelmholtzParts.functions:
        text = name.replace("_", " ")
        result[name] = next(variables).assign_attrs(long_name=text, units=unit)
    return with_history(result, "decompose()")


@dataclass(frozen=True)
class HelmholtzParts(CellComputation):
    """The parts of a Helmholtz decomposition, and the potentials times a factor."""

    tol: float
    factor: float
    vectors = WIND_PARTS
    functions = ("velocity_potential", "streamfunction")
    sizes = (2, 2, 2, 1, 1)

    def __call__(self, cells: Cells, signal: np.ndarray) -> list[np.ndarray]:
        wind = as_complex(signal)
        decomposition = decomposed(cells, wind, self.tol)
        remainder = wind - decomposition.divergent - decomposition.rotational
        vectors = [
            np.stack([part.real, part.imag], axis=1)
            for part in (decomposition.divergent, decomposition.rotational, remainder)
        ]
        potentials = [
            self.factor * function[:, None]
            for function in (decomposition.velocity_potential, decomposition.streamfunction)
        ]
        return [*vectors, *potentials]


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
    areas = fields.grid.areas
    speed = conversion(fields.unit, "m/s")
    ends = _default_ends(areas) if wavelengths is None else _descending_angles(wavelengths)
    energies = Energies(
        grid=fields.grid,
        areas=areas,
        filters=[response(float(end) * RADIUS / 1e3) for end in ends],
        factor=(speed or 1.0) ** 2 / 2,
        dtype=fields.dtype,
    )
    result = compute_blocks(fields, energies)[0].rename("energy")
    edges = np.array([2 * ends[0], *ends, ends[-1] / 2]) * RADIUS / 1e3
    middles = np.sqrt(edges[1:] * edges[:-1])
    attributes = {"units": "km", "long_name": "wavelength"}
    result = result.assign_coords(wavelength=("wavelength", middles, attributes))
    if speed:
        unit = "m2 s-2"
    elif fields.unit:
        unit = f"({fields.unit})2"
    else:
        unit = ""
    return result.assign_attrs(long_name="kinetic energy in a band", units=unit)


def _default_ends(areas: np.ndarray) -> np.ndarray:
    """Wavelengths, as angles, from ``LONGEST_BAND_END`` down to two cells."""
    longest = radians(LONGEST_BAND_END)
    octaves = np.log2(longest / np.sqrt(4 * areas.mean()))
    count = max(2, int(BANDS_PER_OCTAVE * octaves) + 1)
    return longest * 2.0 ** (-np.arange(count) / BANDS_PER_OCTAVE)


def _descending_angles(wavelengths: Sequence[Length]) -> np.ndarray:
    if not len(wavelengths):
        raise InvalidInputError("wavelengths must have at least one length, such as 1000 km.")
    return np.sort([radians(length) for length in wavelengths])[::-1]


@dataclass(frozen=True, eq=False)
class Energies(Computation):
    """Energies of fields in the bands between the scales of filters, the longest first.

    ``areas`` (n,) are the weights of the mean; energies are multiplied by ``factor``.
    """

    grid: Grid
    areas: np.ndarray
    filters: list[Filter]
    factor: float
    dtype: np.dtype
    count = 1

    @property
    def sizes(self) -> dict[str, int]:
        return {"wavelength": len(self.filters) + 1}

    def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
        energies = np.full((len(batch), len(self.filters) + 1), np.nan, self.dtype)
        for group in groups_with_same_data(self.grid, batch):
            energies[group.rows] = self._in_cells(group.cells, group.signal)
        return [energies]

    def _in_cells(self, cells: Cells, signal: np.ndarray) -> np.ndarray:
        """Energies ``(c, bands)`` of a signal ``(m, 2, c)``."""
        laplacian = cells.laplacians[signal.dtype.char]
        longer = laplacian.evaluate(self.filters, signal, Chebyshev())
        areas = self.areas[cells.index]
        weights = areas / areas.sum() * self.factor
        cumulative = [
            np.einsum("n,ndc,ndc->c", weights, signal, smooth) for smooth in (*longer, signal)
        ]
        return np.diff(cumulative, axis=0, prepend=0.0).T


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
    kriging = Kriging(noise, FieldDenoiser(manifold=Earth(), random_state=seed))
    regridder = Regridder(fields.ds, fields.ds, kriging, vectors=fields.names)
    denoised = regridder(fields.ds)
    names = list(fields.names)
    if std:
        names += [f"{name}_std" for name in fields.names]
    first = fields.ds[fields.names[0]]
    second = fields.ds[fields.names[1]]
    has_data = np.hypot(first, second) <= fields.limit
    variables = {}
    for name in names:
        variable = denoised[name].where(has_data).transpose(*first.dims)
        variables[name] = with_attributes_of(denoised[name], variable)
    return with_history(fields.ds.assign(variables), f"denoise(noise={noise})")


def _per_metre(unit: str) -> tuple[float, str]:
    """The factor that turns numbers in a unit into m or m/s, and the unit of their derivatives."""
    size = in_metres(unit)
    if size is None:
        return 1.0, f"{unit} m-1".strip()
    factor, is_speed = size
    return factor, "s-1" if is_speed else "1"


def _times_metre(unit: str) -> tuple[float, str]:
    """The factor that turns numbers in a unit into m or m/s, and the unit of their potentials."""
    size = in_metres(unit)
    if size is None:
        return 1.0, f"{unit} m".strip()
    factor, is_speed = size
    return factor, "m2 s-1" if is_speed else "m2"
