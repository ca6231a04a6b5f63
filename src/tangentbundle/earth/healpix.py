"""HEALPix: where its pixels are (Gorski et al., 2005)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InvalidInputError

if TYPE_CHECKING:
    import xarray

FACE_ROW, FACE_COLUMN = np.repeat([2, 3, 4], 4), np.tile([1, 3, 5, 7, 0, 2, 4, 6], 2)[:12]
"""Where the twelve faces are."""


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
    ring, place, length, shift = _nested(nside, pixels) if nested else _rings(nside, pixels)
    cap = np.minimum(ring, 4 * nside - ring)
    z = np.where(
        cap < nside,
        np.sign(2 * nside - ring) * (1 - cap**2 / (3 * nside**2)),
        (4 - 2 * ring / nside) / 3,
    )
    return np.degrees(np.arcsin(z)), (place + shift) * 360.0 / length


def _rings(nside: int, pixels: np.ndarray) -> tuple[np.ndarray, ...]:
    """Number of the ring from the north pole, place in it, its length, and where it begins, in
    places."""
    numbers = np.arange(1, 4 * nside)
    lengths = 4 * np.minimum(np.minimum(numbers, 4 * nside - numbers), nside)
    starts = np.append(0, np.cumsum(lengths))
    ring = np.searchsorted(starts, pixels, side="right")
    length = lengths[ring - 1]
    shift = np.where((length < 4 * nside) | ((ring - nside) % 2 == 0), 0.5, 0.0)
    return ring, pixels - starts[ring - 1], length, shift


def _nested(nside: int, pixels: np.ndarray) -> tuple[np.ndarray, ...]:
    face, within = np.divmod(pixels, nside**2)
    x, y = (
        sum(((within >> (2 * bit + k)) & 1) << bit for bit in range(max(nside.bit_length(), 1)))
        for k in (0, 1)
    )
    ring = FACE_ROW[face] * nside - x - y - 1
    cap = np.minimum(np.minimum(ring, 4 * nside - ring), nside)
    return ring, (FACE_COLUMN[face] * cap + x - y) / 2 % (4 * cap), 4 * cap, np.zeros(len(ring))


def find_healpix(ds: xarray.Dataset) -> tuple[int, np.ndarray, bool, str] | None:
    """Nside, pixels, whether they are nested, and the dimension, if a dataset says that it is
    HEALPix.

    It does by a variable with ``grid_mapping_name: healpix`` (``healpix_nside``, ``healpix_order``)
    or by ids of cells with ``grid_name: healpix`` (``level`` or ``nside``, ``indexing_scheme``).
    """
    for name, variable in ds.variables.items():
        said = {key.removeprefix("healpix_"): value for key, value in variable.attrs.items()}
        if "healpix" not in (said.get("grid_mapping_name"), said.get("grid_name")):
            continue
        level = said.get("level", said.get("refinement_level"))
        nside = (
            int(said["nside"]) if "nside" in said else 2 ** int(level if level is not None else -1)
        )
        if nside < 1 or nside & (nside - 1):
            raise InvalidInputError(
                f"HEALPix needs nside, a power of two; {name} has the attributes {variable.attrs}."
            )
        nested = str(said.get("order", said.get("indexing_scheme", "nested"))).startswith("nest")
        ids = next(
            (ds[k] for k in (name, "cell", "cell_ids") if k in ds.coords and ds[k].ndim == 1), None
        )
        full = [str(d) for d in ds.dims if ds.sizes[d] == 12 * nside**2]
        if ids is None and not full:
            raise InvalidInputError(
                f"no dimension has the {12 * nside**2} pixels of {name}. Give their ids as `cell`."
            )
        pixels = np.arange(12 * nside**2) if ids is None else np.asarray(ids.values, np.int64)
        if not ((pixels >= 0) & (pixels < 12 * nside**2)).all():
            raise InvalidInputError(
                f"ids of HEALPix cells of nside {nside} lie in [0, {12 * nside**2})."
            )
        return nside, pixels, nested, full[0] if ids is None else str(ids.dims[0])
    return None
