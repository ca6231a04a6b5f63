"""Wind and other fields on the globe: maps, and the globe from afar."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..geometry.known_frames import latlon_frames
from .fields import ARROW
from .projections import Mollweide, Orthographic, Projection, fitting
from .style import ERRORS, SIGNED, axes_or_new, canvas, length_colors, top_of
from .thinning import reach, spacing, spread_out

DENSE = 2500
"""Above so many places colours fill the map, and arrows are drawn on top in one colour."""


def wind_map(
    lat: np.ndarray,
    lon: np.ndarray,
    wind: np.ndarray,
    *,
    projection: Projection | None = None,
    label: str = "speed",
    top: float | None = None,
    arrows: int = 650,
    title: str = "",
    colorbar: bool = True,
    axes: Any = None,
) -> Any:
    """Wind (east, north) ``(n, 2)`` at places in degrees ``(n,)``, coloured by speed; returns matplotlib axes.

    Many places fill the map with colour, few are arrows alone; places whose wind is NaN become rings. By default the
    map is that of the whole globe (Mollweide, equal in area), or of a part of it if all places lie there.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind().during(slice(0, 1))
    >>> axes = tb.plot.wind_map(wind.lat, wind.lon, wind.components[0], label="speed, m/s", title="January 1982")
    >>> axes.get_title()
    'January 1982'
    """
    axes, chart = axes_or_new(axes, (8.4, 4.4)), projection or fitting(lat, lon)
    known = np.isfinite(wind).all(axis=1)
    points, frames = latlon_frames(lat, lon)[:2]
    speed = np.linalg.norm(wind, axis=1)
    top = top_of(speed) if top is None else top
    _paper(axes, chart, points)
    axes.scatter(*chart.project(points[~known]).T, s=8, facecolors="none", edgecolors="0.7", linewidths=0.6)
    dense = known.sum() > DENSE
    if dense:
        drawn = _fill(axes, chart, points[known], speed[known], length_colors(), 0, top)
    seen = np.flatnonzero(known & np.isfinite(chart.project(points)[:, 0]))
    shown = seen[spread_out(points[seen], arrows)]
    plane = chart.project(points[shown])
    moves = chart.turn(points[shown], np.einsum("nda,na->nd", frames[shown], wind[shown]))
    moves *= 1.3 * reach(plane) / top
    style = {"width": 0.0026 if len(shown) > 150 else 0.0035, **ARROW}
    if dense:
        axes.quiver(*plane.T, *moves.T, color="white", alpha=0.9, **style)
    else:
        drawn = axes.quiver(*plane.T, *moves.T, speed[shown], cmap=length_colors(), clim=(0, top), **style)
    axes.set_title(title, fontsize=11)
    if colorbar:
        axes.figure.colorbar(drawn, ax=axes, label=label, shrink=0.75)
    return axes


def value_map(
    lat: np.ndarray,
    lon: np.ndarray,
    values: np.ndarray,
    *,
    projection: Projection | None = None,
    label: str = "",
    top: float | None = None,
    signed: bool = False,
    title: str = "",
    colorbar: bool = True,
    axes: Any = None,
) -> Any:
    """A number at every place, ``(n,)``: a component, an error, a standard deviation; small dots where it is NaN.

    ``signed`` numbers have colours that part at zero. Returns matplotlib axes.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind()
    >>> axes = tb.plot.value_map(wind.lat, wind.lon, wind.components[0, :, 0], signed=True, label="eastward wind, m/s")
    """
    axes, chart = axes_or_new(axes, (8.4, 4.4)), projection or fitting(lat, lon)
    known = np.isfinite(values)
    points = latlon_frames(lat, lon)[0]
    top = top_of(np.abs(values)) if top is None else top
    colors, low = (SIGNED, -top) if signed else (ERRORS, 0.0)
    _paper(axes, chart, points)
    dots = {"s": 4, "color": "0.8"} if known.any() else {"s": 10, "color": "0.45"}
    axes.scatter(*chart.project(points[~known]).T, linewidths=0, **dots)
    if known.sum() > DENSE:
        drawn = _fill(axes, chart, points[known], values[known], colors, low, top)
    else:
        plane = chart.project(points[known])
        drawn = axes.scatter(*plane.T, c=values[known], s=18, cmap=colors, vmin=low, vmax=top, linewidths=0)
    axes.set_title(title, fontsize=11)
    if colorbar:
        axes.figure.colorbar(drawn, ax=axes, label=label, shrink=0.75)
    return axes


def globe(
    lat: np.ndarray, lon: np.ndarray, wind: np.ndarray, *, center: tuple[float, float] = (25, -30), **options: Any
) -> Any:
    """Wind on the globe as seen from above a place ``center`` in degrees; options are those of ``wind_map``."""
    return wind_map(lat, lon, wind, projection=Orthographic(*center), **options)


def wind_components(lat: np.ndarray, lon: np.ndarray, wind: np.ndarray, *, unit: str = "m/s") -> Any:
    """Zonal (eastward) and meridional (northward) wind, two maps on one scale; returns the matplotlib figure.

    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind()
    >>> figure = tb.plot.wind_components(wind.lat, wind.lon, wind.components[0])
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['zonal wind', 'meridional wind']
    """
    figure, axes = canvas(1, 2, (6.2, 3.4))
    top = top_of(np.abs(wind))
    for axis, values, title in zip(axes[0], wind.T, ("zonal wind", "meridional wind"), strict=True):
        value_map(lat, lon, values, signed=True, top=top, title=title, colorbar=False, axes=axis)
    drawn = (axes[0, 1].images or axes[0, 1].collections)[-1]
    figure.colorbar(drawn, ax=axes, label=f"component, {unit}", shrink=0.8)
    return figure


def raster(chart: Projection, points: np.ndarray, values: np.ndarray, width: int = 720) -> tuple[np.ndarray, tuple]:
    """Values of the nearest points in every pixel of a map, NaN far from all; and left, right, bottom, top."""
    (left, bottom), (right, top) = chart.outline().min(axis=0), chart.outline().max(axis=0)
    height = max(int(width * (top - bottom) / (right - left)), 2)
    x, y = (
        low + (np.arange(k) + 0.5) * (high - low) / k for low, high, k in ((left, right, width), (bottom, top, height))
    )
    places = chart.inverse(np.stack(np.meshgrid(x, y), axis=-1))
    inside = np.isfinite(places[..., 0])
    distance, nearest = cKDTree(points).query(places[inside])
    picture = np.full(inside.shape, np.nan)
    picture[inside] = np.where(distance < 3 * spacing(points, 4), values[nearest], np.nan)
    return picture, (left, right, bottom, top)


def _fill(
    axes: Any, chart: Projection, points: np.ndarray, values: np.ndarray, colors: Any, low: float, top: float
) -> Any:
    picture, extent = raster(chart, points, values)
    return axes.imshow(picture, extent=extent, origin="lower", cmap=colors, vmin=low, vmax=top, zorder=0.5)


def _paper(axes: Any, chart: Projection, points: np.ndarray) -> None:
    """The empty map; of a part of the globe, only where points are."""
    whole = isinstance(chart, Mollweide | Orthographic)
    for line in chart.graticule():
        axes.plot(*line.T, color="0.5", alpha=0.35, linewidth=0.5, zorder=0.8 if whole else 0.2)
    axes.set_aspect("equal")
    axes.set_axis_off()
    if whole:
        edge = chart.outline()
        axes.fill(*edge.T, color="0.965", linewidth=0, zorder=0)
        axes.plot(*edge.T, color="0.55", linewidth=0.8, zorder=3)
        axes.margins(0.01)
    else:
        low, high = np.nanquantile(plane := chart.project(points), [0, 1], axis=0)
        room = 0.06 * np.ptp(plane, axis=0).max()
        axes.set(xlim=(low[0] - room, high[0] + room), ylim=(low[1] - room, high[1] + room))
