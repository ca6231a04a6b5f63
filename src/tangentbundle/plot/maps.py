"""Maps of wind and numbers on the Earth, the globe from afar, and fields read from files."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..earth.maps import EqualAreaMap
from ..extras import extra
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
    axes.scatter(*plane[~known].T, s=8, facecolors="none", edgecolors="0.55", linewidths=0.6)
    on_map = np.flatnonzero(known & np.isfinite(plane[:, 0]))
    shown = on_map[spread_out(points[on_map], arrows)]
    moves = chart.project_vectors(points[shown], np.einsum("nda,na->nd", frames[shown], wind[shown]))
    moves *= 1.3 * reach(plane[shown]) / top
    colors = {"cmap": length_colors(), "clim": (0, top)}
    drawn = _fill(axes, chart, points[known], speed[known], **colors)
    look = {"color": "white", "alpha": 0.9} if drawn else {"array": speed[shown], **colors}
    quiver = axes.quiver(*plane[shown].T, *moves.T, width=0.0028, **look, **ARROW)
    return _finished(axes, drawn or quiver, title, label, colorbar)


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

    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind()
    >>> axes = tb.plot.value_map(wind.lat, wind.lon, wind.components[0, :, 0], signed=True, label="eastward wind, m/s")
    """
    axes, chart = axes_or_new(axes, (8.4, 4.4)), projection or EqualAreaMap.fitting(lat, lon)
    points, known = latlon_frames(lat, lon)[0], np.isfinite(values)
    top = top_of(np.abs(values)) if top is None else top
    plane = _empty_map(axes, chart, points)
    axes.scatter(*plane[~known].T, s=4, color="0.8", linewidths=0)
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
    sphere = Sphere(2).sample(20_000, seed=0)
    options = {"label": "speed", "arrows": 350, "surface": sphere, "view": View(*center), **options}
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
    figure.colorbar(axes[0, 1].collections[-1], ax=axes, label=f"component, {unit}", shrink=0.8)
    return figure


def file_field(field: Field, *, number: int = 0, axes: Any = None) -> Any:
    """One of the fields of a file: a map for the globe, a surface or a cloud otherwise; returns matplotlib axes.

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
        wind = np.full((len(space.lat), 2), np.nan) if field.values is None else field.values[number]
        colorbar, label = field.values is not None, f"speed{unit}"
        return wind_map(space.lat, space.lon, wind, label=label, title=str(field), colorbar=colorbar, axes=axes)
    faces = space.faces if isinstance(space, Mesh) else None
    vectors = None if field.values is None else field.vectors[number]
    return draw(space.points, vectors, faces=faces, label=f"length{unit}", title=str(field), axes=axes)


def _fill(axes: Any, chart: EqualAreaMap, points: np.ndarray, values: np.ndarray, **colors: Any) -> Any:
    """Colours between points that are near each other, if there are enough of them."""
    plane = chart.project(points)
    plane, values = plane[np.isfinite(plane[:, 0])], values[np.isfinite(plane[:, 0])]
    if len(plane) <= MIN_FILLED_POINTS:
        return None
    if chart.radius is None:  # copies beyond the left and right edge, so that colours reach it
        width = np.stack([2 * np.sqrt(np.maximum(8 - 4 * plane[:, 1] ** 2, 0)), np.zeros(len(plane))], axis=1)
        plane, values = np.concatenate([plane, plane - width, plane + width]), np.tile(values, 3)
    triangles = extra("matplotlib.tri", "Figures", "plot").Triangulation(*plane.T)
    corners = plane[triangles.triangles]
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    triangles.set_mask(sides > 6 * spacing(plane))
    drawn = axes.tripcolor(triangles, values, shading="gouraud", rasterized=True, zorder=0.5, **colors)
    drawn.set_clip_path(*axes.fill(*chart.outline().T, color="none"))
    return drawn


def _empty_map(axes: Any, chart: EqualAreaMap, points: np.ndarray) -> np.ndarray:
    """Draw the graticule, and the outline of a globe or the box around points; returns their places ``(n, 2)``."""
    plane, edge, world = chart.project(points), chart.outline(), chart.radius is None
    axes.plot(*chart.graticule().T, color="0.5", alpha=0.35, linewidth=0.5, zorder=0.8 if world else 0.2)
    if world:
        axes.fill(*edge.T, facecolor="0.965", zorder=0)
        axes.plot(*edge.T, color="0.55", linewidth=0.8, zorder=3)
    low, high = (f(edge if world else plane, axis=0) for f in (np.nanmin, np.nanmax))
    margin = (0.02 if world else 0.06) * (high - low).max()
    axes.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin), aspect="equal")
    axes.set_axis_off()
    return plane


def _finished(axes: Any, drawn: Any, title: str, label: str, colorbar: bool) -> Any:
    axes.set_title(title, fontsize=11)
    if colorbar:
        axes.figure.colorbar(drawn, ax=axes, label=label, shrink=0.75)
    return axes
