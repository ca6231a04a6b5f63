"""From grids in latitude and longitude to points on the sphere: each pole once, exact areas, missing values."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidInputError, NonFiniteError, ShapeError
from ..geometry.known_frames import latlon_frames
from ..timeline import Times, fill_single_steps
from .volumes import latitude_bands, longitude_widths
from .wind import WindData


def from_grid(
    times: Times, lat: np.ndarray, lon: np.ndarray, wind: np.ndarray, provenance: str, pole_tolerance: float = 0.1
) -> WindData:
    """Wind ``(T, rows, columns, 2)``, east and north, on rows ``lat`` and columns ``lon`` in degrees and any order.

    A row at a pole holds many copies of *one* point, in frames that turn with longitude. It becomes one point at
    longitude 0 with the mean of the ambient vectors. If the copies differ from their mean by more than
    ``pole_tolerance`` times the typical speed, they are not the wind at a point, and the row is dropped.
    """
    lat, lon, wind = (np.asarray(a, np.float64) for a in (lat, lon, wind))
    if wind.shape != (shape := (len(times), len(lat), len(lon), 2)):
        raise ShapeError(f"the wind must have shape (T, rows, columns, 2) = {shape}, got {wind.shape}.")
    once = np.sort(np.unique(np.round(lon % 360, 6) % 360, return_index=True)[1])  # 0 and 360 are one longitude
    lon, components = lon[once], wind[:, :, once]
    area = np.outer(latitude_bands(lat), longitude_widths(lon))
    latitude, longitude = np.meshgrid(lat, lon, indexing="ij")
    keep = np.ones(area.shape, bool)
    typical = np.sqrt(np.nanmean(components**2) * 2) if np.isfinite(components).any() else 0.0
    for row in np.flatnonzero(np.abs(lat) > 90 - 1e-6):
        keep[row, 1:] = False
        _, frames, _ = latlon_frames(latitude[row], lon)
        vectors = np.einsum("nda,tna->tnd", frames, components[:, row])
        mean = vectors.mean(axis=1)
        name = "north" if lat[row] > 0 else "south"
        if np.sqrt(((vectors - mean[:, None]) ** 2).sum(-1).mean()) > pole_tolerance * typical:
            keep[row] = False
            provenance += f"; {name} pole dropped, as its {len(lon)} copies disagree"
            continue
        _, frame, _ = latlon_frames(lat[[row]], np.zeros(1))
        components[:, row, 0], longitude[row, 0], area[row, 0] = mean @ frame[0], 0.0, area[row].sum()
        provenance += f"; {name} pole as one point, the mean of {len(lon)} copies"
    return from_points(times, latitude[keep], longitude[keep], components[:, keep], area[keep], provenance)


def from_points(
    times: Times,
    lat: np.ndarray,
    lon: np.ndarray,
    components: np.ndarray,
    area: np.ndarray,
    provenance: str,
    filled: np.ndarray | None = None,
) -> WindData:
    """Wind ``(T, n, 2)`` at n points; NaN marks what is missing.

    A time without any value counts as missing, a point without any value is dropped, and other holes are refused. A
    single missing step is filled linearly in time and flagged; longer gaps stay.
    """
    order = np.argsort(times, kind="stable")
    times, components = times[order], components[order]
    filled_before = np.zeros(len(times), bool) if filled is None else filled[order]
    holes = np.isnan(components).any(axis=-1)
    observed, there = ~holes.all(axis=1), ~holes.all(axis=0)
    if not observed.any():
        raise NonFiniteError("the wind has no value at all: every time is missing. Check its fill value and variables.")
    if not there.all():
        provenance += f"; {int((~there).sum())} points without values dropped"
    times, filled_before, holes = times[observed], filled_before[observed], holes[observed][:, there]
    components, area = components[observed][:, there], area[there]
    if not np.isfinite(components).all():
        why = f" ({provenance})" if provenance else ""
        raise NonFiniteError(
            f"{int(holes.sum())} of {holes.size} values are missing, at {int(holes.any(axis=0).sum())} points and "
            f"{int(holes.any(axis=1).sum())} times{why}. Select complete ones, or interpolate in xarray first."
        )
    if len(area) == 0 or not (area > 0).all():
        raise InvalidInputError(f"every point must represent an area, but {int((area <= 0).sum())} have none.")
    times, components, filled = fill_single_steps(times, components)
    filled[~filled] = filled_before
    if filled.any():
        provenance += f"; {int(filled.sum())} of {len(times)} times filled in"
    return WindData(times, lat[there], lon[there], components, area / area.sum(), provenance, filled)
