"""HEALPix: where its pixels are (Gorski et al., 2005)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InvalidInputError

if TYPE_CHECKING:
    import xarray

FACE_ROW = np.repeat([2, 3, 4], 4)
FACE_COLUMN = np.array([1, 3, 5, 7, 0, 2, 4, 6, 1, 3, 5, 7])
"""Where the twelve faces are."""


class Rings(NamedTuple):
    """Of pixels: the number of the ring from the north pole, the place in it, its length, and where
    it begins, in places."""

    ring: np.ndarray
    place: np.ndarray
    length: np.ndarray
    shift: np.ndarray


class Healpix(NamedTuple):
    """Pixels of a dataset along a dimension."""

    nside: int
    pixels: np.ndarray
    nested: bool
    dim: str

    def latlon(self) -> tuple[np.ndarray, np.ndarray]:
        """Latitudes and longitudes, in degrees, of the centres of the pixels."""
        return healpix_latlon(self.nside, self.pixels, self.nested)


def healpix_latlon(
    nside: int, pixels: np.ndarray, nested: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes and longitudes, in degrees, of the centres of pixels.

    >>> [a.round(3).tolist() for a in healpix_latlon(1, np.arange(5))]
    [[41.81, 41.81, 41.81, 41.81, 0.0], [45.0, 135.0, 225.0, 315.0, 0.0]]
    >>> bool(
    ...     np.allclose(*(np.sort(healpix_latlon(4, np.arange(192), n)[0]) for n in (True, False)))
    ... )
    True
    """
    rings = _nested(nside, pixels) if nested else _rings(nside, pixels)
    ring_from_pole = np.minimum(rings.ring, 4 * nside - rings.ring)
    polar = np.sign(2 * nside - rings.ring) * (1 - ring_from_pole**2 / (3 * nside**2))
    equatorial = (4 - 2 * rings.ring / nside) / 3
    z = np.where(ring_from_pole < nside, polar, equatorial)
    return np.degrees(np.arcsin(z)), (rings.place + rings.shift) * 360.0 / rings.length


def _rings(nside: int, pixels: np.ndarray) -> Rings:
    """The rings of pixels that are numbered along them."""
    numbers = np.arange(1, 4 * nside)
    lengths = 4 * np.minimum(np.minimum(numbers, 4 * nside - numbers), nside)
    starts = np.append(0, np.cumsum(lengths))
    ring = np.searchsorted(starts, pixels, side="right")
    length = lengths[ring - 1]
    is_shifted = (length < 4 * nside) | ((ring - nside) % 2 == 0)
    return Rings(ring, pixels - starts[ring - 1], length, np.where(is_shifted, 0.5, 0.0))


def _nested(nside: int, pixels: np.ndarray) -> Rings:
    """The rings of pixels that are numbered within each face, by interleaved bits of x and y."""
    face, within = np.divmod(pixels, nside**2)
    x = _every_other_bit(within, nside)
    y = _every_other_bit(within >> 1, nside)
    ring = FACE_ROW[face] * nside - x - y - 1
    ring_from_pole = np.minimum(np.minimum(ring, 4 * nside - ring), nside)
    length = 4 * ring_from_pole
    place = (FACE_COLUMN[face] * ring_from_pole + x - y) / 2 % length
    return Rings(ring, place, length, np.zeros(len(ring)))


def _every_other_bit(numbers: np.ndarray, nside: int) -> np.ndarray:
    """The numbers made of the bits 0, 2, 4, ... of others."""
    result = np.zeros_like(numbers)
    for bit in range(max(nside.bit_length(), 1)):
        result |= ((numbers >> (2 * bit)) & 1) << bit
    return result


def find_healpix(ds: xarray.Dataset) -> Healpix | None:
    """The pixels of a dataset, if it says that it is HEALPix.

    It does by a variable with ``grid_mapping_name: healpix`` (``healpix_nside``, ``healpix_order``)
    or by ids of cells with ``grid_name: healpix`` (``level`` or ``nside``, ``indexing_scheme``).
    """
    for name, variable in ds.variables.items():
        options = {key.removeprefix("healpix_"): value for key, value in variable.attrs.items()}
        if "healpix" in (options.get("grid_mapping_name"), options.get("grid_name")):
            return _pixels_of(ds, str(name), options)
    return None


def _pixels_of(ds: xarray.Dataset, name: str, options: dict[str, Any]) -> Healpix:
    """The pixels that the attributes ``options`` of a variable describe."""
    nside = _nside(options)
    if nside < 1 or nside & (nside - 1):
        raise InvalidInputError(
            f"HEALPix needs nside, a power of two; {name} has the attributes {ds[name].attrs}."
        )
    count = 12 * nside**2
    scheme = str(options.get("order", options.get("indexing_scheme", "nested")))
    nested = scheme.startswith("nest")
    for key in (name, "cell", "cell_ids"):
        if key in ds.coords and ds[key].ndim == 1:
            pixels = np.asarray(ds[key].values, np.int64)
            if not ((pixels >= 0) & (pixels < count)).all():
                raise InvalidInputError(
                    f"ids of HEALPix cells of nside {nside} lie in [0, {count})."
                )
            return Healpix(nside, pixels, nested, str(ds[key].dims[0]))
    for dim, size in ds.sizes.items():
        if size == count:
            return Healpix(nside, np.arange(count), nested, str(dim))
    raise InvalidInputError(
        f"no dimension has the {count} pixels of {name}. Give their ids as `cell`."
    )


def _nside(options: dict[str, Any]) -> int:
    """Of attributes with nside or a level of refinement; 0 if they have neither."""
    if "nside" in options:
        return int(options["nside"])
    level = options.get("level", options.get("refinement_level"))
    return 0 if level is None else 2 ** int(level)
