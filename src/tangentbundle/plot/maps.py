"""Maps of wind and numbers on the Earth, the globe from afar, and fields read from files."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..earth.maps import EqualAreaMap
from ..geometry.known_frames import latlon_frames
from ..io import Field, Globe, Mesh
from ..manifolds import Sphere
from .fields import ARROW
from .fields import field as draw
from .style import ERRORS, SIGNED, axes_or_new, canvas, length_colors, top_of
from .views import View, reach, spacing, spread_out

MIN_FILLED_POINTS = 2500
"""With more points, colours fill the map and arrows are drawn on top in white."""


def wind_map(
    lat: np.ndarray,
    lon: np.ndarray,
    wind: np.ndarray,
    *,
    projection: EqualAreaMap | None = None,
    label: str = "speed",
    top: float | None = None,
    arrows: int = 650,
    title: str = "",
    colorbar: bool = True,
    axes: Any = None,
) -> Any:
    """Wind (east, north) ``(n, 2)`` at places in degrees ``(n,)``, coloured by speed; returns matplotlib axes.

    Many places fill the map with colour, few are arrows alone; places whose wind is NaN become rings. By default the
    map shows the globe, or a part of it if all places lie there. ``top`` is the end of the colour scale.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind().during(slice(0, 1))
    >>> axes = tb.plot.wind_map(wind.lat, wind.lon, wind.components[0], label="speed, m/s", title="January 1982")
    >>> axes.get_title()
    'January 1982'
    """
    axes, chart = axes_or_new(axes, (8.4, 4.4)), projection or EqualAreaMap.fitting(lat, lon)
    points, frames, _ = latlon_frames(lat, lon)
    known, speed = np.isfinite(wind).all(axis=1), np.linalg.norm(wind, axis=1)
    top = top_of(speed) if top is None else top
    plane = _empty_map(axes, chart, points)
    axes.scatter(*plane[~known].T, s=8, facecolors="none", edgecolors="0.7", linewidths=0.6)
    seen = np.flatnonzero(known & np.isfinite(plane[:, 0]))
    shown = seen[spread_out(points[seen], arrows)]
    moves = chart.project_vectors(points[shown], np.einsum("nda,na->nd", frames[shown], wind[shown]))
    moves *= 1.3 * reach(plane[shown]) / top
    colors = {"cmap": length_colors(), "clim": (0, top)}
    drawn = _fill(axes, chart, points[known], speed[known], **colors)
    look = {"color": "white", "alpha": 0.9} if drawn else {"array": speed[shown], **colors}
    width = 0.0026 if len(shown) > 150 else 0.0035
    arrows_drawn = axes.quiver(*plane[shown].T, *moves.T, width=width, **look, **ARROW)
    return _finished(axes, drawn or arrows_drawn, title, label, colorbar)


def value_map(
    lat: np.ndarray,
    lon: np.ndarray,
    values: np.ndarray,
    *,
    projection: EqualAreaMap | None = None,
    label: str = "",
    top: float | None = None,
    signed: bool = False,
    title: str = "",
    colorbar: bool = True,
    axes: Any = None,
) -> Any:
    """A number at every place, ``(n,)``: a component, an error, a standard deviation; small dots where it is NaN.

    ``signed`` numbers get diverging colours, with zero in the middle. Returns matplotlib axes.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind()
    >>> axes = tb.plot.value_map(wind.lat, wind.lon, wind.components[0, :, 0], signed=True, label="eastward wind, m/s")
    """
    axes, chart = axes_or_new(axes, (8.4, 4.4)), projection or EqualAreaMap.fitting(lat, lon)
    points, known = latlon_frames(lat, lon)[0], np.isfinite(values)
    top = top_of(np.abs(values)) if top is None else top
    plane = _empty_map(axes, chart, points)
    dots = {"s": 4, "color": "0.8"} if known.any() else {"s": 10, "color": "0.45"}
    axes.scatter(*plane[~known].T, linewidths=0, **dots)
    colors = {"cmap": SIGNED if signed else ERRORS, "clim": (-top if signed else 0.0, top)}
    drawn = _fill(axes, chart, points[known], values[known], **colors) or axes.scatter(
        *plane[known].T, c=values[known], s=18, linewidths=0, **colors
    )
    return _finished(axes, drawn, title, label, colorbar)


def globe(
    lat: np.ndarray, lon: np.ndarray, wind: np.ndarray, *, center: tuple[float, float] = (25, -30), **options: Any
) -> Any:
    """Wind on the globe as seen from above a place ``center`` in degrees; options are those of ``field``."""
    points, frames, _ = latlon_frames(lat, lon)
    known = np.isfinite(wind).all(axis=1)
    vectors = np.einsum("nda,na->nd", frames[known], wind[known])
    options = {"label": "speed", "surface": Sphere(2).sample(20_000, seed=0), "view": View(*center), **options}
    return draw(points[known], vectors, **options)


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


def file_field(field: Field, *, number: int = 0, axes: Any = None) -> Any:
    """One of the fields of a file: a map for the globe, a surface or a cloud otherwise; returns matplotlib axes.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> from tangentbundle.io import Cloud, Field
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(500, seed=0)
    >>> axes = tb.plot.file_field(Field(Cloud(points, ("x", "y", "z")), torus.tangent_field(points)[None]))
    >>> axes.get_title()
    '500 points in R^3'
    """
    space, unit = field.space, f", {field.units}" if field.units else ""
    if isinstance(space, Globe):
        if field.values is None:
            unknown = space.lat * float("nan")
            return value_map(space.lat, space.lon, unknown, title=str(field), colorbar=False, axes=axes)
        return wind_map(space.lat, space.lon, field.values[number], label=f"speed{unit}", title=str(field), axes=axes)
    faces = space.faces if isinstance(space, Mesh) else None
    vectors = None if field.values is None else field.vectors[number]
    return draw(space.points, vectors, faces=faces, label=f"length{unit}", title=str(field), axes=axes)


def raster(chart: EqualAreaMap, points: np.ndarray, values: np.ndarray, width: int = 720) -> tuple[np.ndarray, tuple]:
    """Values of the nearest points in every pixel of a map, NaN far from all; and left, right, bottom, top."""
    right, top = chart.half_sides
    height = max(int(width * top / right), 2)
    x, y = (side * ((2 * np.arange(count) + 1) / count - 1) for side, count in ((right, width), (top, height)))
    places = chart.inverse(np.stack(np.meshgrid(x, y), axis=-1))
    inside = np.isfinite(places[..., 0])
    distance, nearest = cKDTree(points).query(places[inside])
    picture = np.full(inside.shape, np.nan)
    picture[inside] = np.where(distance < 3 * spacing(points, 4), values[nearest], np.nan)
    return picture, (-right, right, -top, top)


def _fill(axes: Any, chart: EqualAreaMap, points: np.ndarray, values: np.ndarray, **colors: Any) -> Any:
    """An image of the values, if there are enough of them."""
    if len(points) <= MIN_FILLED_POINTS:
        return None
    picture, extent = raster(chart, points, values)
    return axes.imshow(picture, extent=extent, origin="lower", zorder=0.5, **colors)


def _empty_map(axes: Any, chart: EqualAreaMap, points: np.ndarray) -> np.ndarray:
    """Draw the graticule, and the outline of a globe or the box around points; returns their places ``(n, 2)``."""
    plane, world = chart.project(points), chart.radius is None
    for line in chart.graticule():
        axes.plot(*line.T, color="0.5", alpha=0.35, linewidth=0.5, zorder=0.8 if world else 0.2)
    axes.set_aspect("equal")
    axes.set_axis_off()
    if world:
        axes.fill(*chart.outline().T, color="0.965", linewidth=0, zorder=0)
        axes.plot(*chart.outline().T, color="0.55", linewidth=0.8, zorder=3)
        axes.margins(0.01)
    else:
        low, high = np.nanmin(plane, axis=0), np.nanmax(plane, axis=0)
        margin = 0.06 * (high - low).max()
        axes.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin))
    return plane


def _finished(axes: Any, drawn: Any, title: str, label: str, colorbar: bool) -> Any:
    axes.set_title(title, fontsize=11)
    if colorbar:
        axes.figure.colorbar(drawn, ax=axes, label=label, shrink=0.75)
    return axes
