"""Maps of wind and numbers on the Earth, with matplotlib."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import Array, float_tensor, host
from ..earth.maps import EqualAreaMap
from ..errors import ShapeError
from ..extras import extra
from ..geometry.known_frames import latlon_frames
from ..io import Field, Globe
from ..winds import CURRENTS, EAST
from . import style
from .fields import ARROW
from .views import Box, box_around, on_map, reach, spacing, spread_out, tips

MIN_FILLED_POINTS = 2500
"""With more points, colours fill the map and arrows are drawn on top in white."""


def earth_map(
    lat: Array,
    lon: Array,
    values: Array,
    *,
    projection: EqualAreaMap | None = None,
    label: str | None = None,
    unit: str | None = None,
    top: float | None = None,
    arrows: int = 650,
    title: str = "",
    colorbar: bool = True,
    axes: Any = None,
) -> Any:
    """Wind (east, north) ``(n, 2)``, or a number ``(n,)``, at places in degrees ``(n,)``; returns
    matplotlib axes.

    Wind is coloured by speed; numbers of either sign get diverging colours with zero in the middle.
    Many places fill the map with colour, few are arrows or dots; missing values (NaN) are rings.
    The default projection shows the globe, or the region of the places. ``top`` is the end of the
    colour scale.

    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind().during(slice(0, 1))
    >>> axes = tb.plot.earth_map(wind.lat, wind.lon, wind.components[0], title="January 1982")
    >>> axes.get_title()
    'January 1982'
    >>> axes = tb.plot.earth_map(
    ...     wind.lat, wind.lon, wind.components[0, :, 0], label="eastward wind", unit="m/s"
    ... )
    """
    (points, frames, _), values = (
        latlon_frames(lat, lon),
        host(float_tensor(values, "values")[0].detach()),
    )
    if values.shape not in ((len(points),), (len(points), 2)):
        raise ShapeError(
            f"expected {len(points)} numbers, or winds ({len(points)}, 2), got shape "
            f"{values.shape}."
        )
    axes, chart = style.axes_or_new(axes, (8.4, 4.4)), projection or EqualAreaMap.fitting(lat, lon)
    is_wind = values.ndim == 2
    label = ("wind speed" if is_wind else "value") if label is None else label
    unit = ("m/s" if is_wind else "") if unit is None else unit
    numbers = np.linalg.norm(values, axis=1) if is_wind else values
    known = np.isfinite(numbers)
    top = style.top_of(np.abs(numbers)) if top is None else top
    signed = bool((numbers[known] < 0).any())
    palette = style.length_colors() if is_wind else style.SIGNED if signed else style.ERRORS
    colors = {"cmap": palette, "clim": (-top if signed else 0.0, top)}
    filled = known.sum() > MIN_FILLED_POINTS
    plane, ends = chart.project(points), None
    if is_wind:
        rows = np.flatnonzero(known & np.isfinite(plane[:, 0]))
        rows = rows[spread_out(points[rows], arrows)]
        moves = chart.project_vectors(
            points[rows], np.einsum("nda,na->nd", frames[rows], values[rows])
        )
        arrow, value = 1.3 * reach(plane[rows]), style.nice_number(top)
        moves *= arrow / top
        ends = tips(plane[rows], moves, 2 * arrow)
    low, high = map_box(chart, plane, ends)
    _empty_map(axes, chart, low, high, coast="white" if filled and is_wind else "0.4")
    axes.scatter(*plane[~known].T, s=8, facecolors="none", edgecolors="0.55", linewidths=0.6)
    drawn = (
        _fill(axes, chart, (low, high), points[known], numbers[known], **colors) if filled else None
    )
    if is_wind:
        look = {"color": "white", "alpha": 0.9} if filled else {"array": numbers[rows], **colors}
        quiver = axes.quiver(
            *on_map(chart, plane[rows], moves).T, *moves.T, width=0.0028, **look, **ARROW
        )
        text, key = f"{value:g} {style.readable_unit(unit)}".strip(), arrow * value / top
        look = {"labelpos": "W", "color": "0.25", "fontproperties": {"size": 9}}
        axes.quiverkey(quiver, 0.97 - key / (high - low)[0], 0.03, key, text, **look)
        drawn = drawn or quiver
    drawn = drawn or axes.scatter(*plane[known].T, c=numbers[known], s=18, linewidths=0, **colors)
    axes.set_title(title, fontsize=12)
    if colorbar:
        style.add_color_bar(axes, drawn, np.abs(numbers[known]), style.with_unit(label, unit))
    return axes


def quantity(field: Field) -> str:
    """What the length of a vector of a file is: the wind's speed, another speed on the globe, or a
    length."""
    if not isinstance(field.space, Globe):
        return "length"
    name = re.split(r"[\s(\[]", field.names[0].lower())[0]
    return "wind speed" if "wind" in name or name in {*EAST} - {*CURRENTS} else "speed"


def map_box(chart: EqualAreaMap, places: np.ndarray, ends: np.ndarray | None) -> Box:
    """Corners of what a map shows: the globe, or the region of places ``(n, 2)`` and the ends of
    their arrows."""
    return (
        box_around(chart.outline(), margin=0.02)
        if chart.radius is None
        else box_around(places, ends)
    )


def map_frame(chart: EqualAreaMap, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The outline ``(k, 2)`` of a map: of the globe, or of the box between two corners."""
    box = np.stack([low, [high[0], low[1]], high, [low[0], high[1]], low])
    return chart.outline() if chart.radius is None else box


def map_labels(
    chart: EqualAreaMap, low: np.ndarray, high: np.ndarray
) -> list[tuple[str, np.ndarray, bool]]:
    """Names of the graticule's lines, their places, and whether they are parallels; these clear of
    the globe's rim."""
    away = 1.035 if chart.radius is None else 1.0
    return [
        (text, place * (away if parallel else 1), parallel)
        for text, place, parallel in chart.labels(low, high)
    ]


def raster(
    chart: EqualAreaMap, points: np.ndarray, values: np.ndarray, box: Box, pixels: int
) -> np.ndarray:
    """Values ``(n,)`` at points of the sphere as an image ``(rows, columns)`` of a box; NaN far
    from all points."""
    low, (wide, tall) = box[0], box[1] - box[0]
    columns = max(int(np.sqrt(pixels * wide / tall)), 2)
    rows = max(int(columns * tall / wide), 2)
    x, y = ((np.arange(k) + 0.5) / k * side for k, side in ((columns, wide), (rows, tall)))
    places = chart.unproject(low + np.stack(np.meshgrid(x, y), axis=-1))
    inside, image = np.isfinite(places[..., 0]), np.full((rows, columns), np.nan)
    distance, near = cKDTree(points).query(places[inside], 4)
    weight = 1 / (distance + 1e-9) ** 2
    mean = (weight * values[near]).sum(axis=1) / weight.sum(axis=1)
    image[inside] = np.where(distance[:, 0] < 2 * spacing(points), mean, np.nan)
    return image


def _fill(
    axes: Any, chart: EqualAreaMap, box: Box, points: np.ndarray, values: np.ndarray, **colors: Any
) -> Any:
    """Colours between points that are near each other."""
    image = raster(chart, points, values, box, 300_000)
    place = {
        "extent": np.stack(box, axis=1).ravel(),
        "origin": "lower",
        "interpolation": "bilinear",
    }
    drawn = axes.imshow(image, zorder=0.5, **colors, **place)
    drawn.set_clip_path(*axes.fill(*chart.outline().T, color="none"))
    return drawn


def _empty_map(
    axes: Any, chart: EqualAreaMap, low: np.ndarray, high: np.ndarray, coast: str
) -> None:
    """Draw coastlines and the labelled graticule of a box."""
    world = chart.radius is None
    axes.plot(*chart.graticule().T, color="0.5", alpha=0.35, linewidth=0.5, zorder=0.8)
    axes.plot(*chart.coastline().T, color=coast, linewidth=0.7, alpha=0.8, zorder=0.9)
    frame = map_frame(chart, low, high)
    axes.plot(*frame.T, color="0.55", linewidth=0.8, zorder=3 if world else 2, clip_on=world)
    if world:
        axes.fill(*frame.T, facecolor="0.965", zorder=0)
    halo = [
        extra("matplotlib.patheffects", "Figures", "plot").withStroke(
            linewidth=1.6, foreground="white"
        )
    ]
    for text, place, parallel in map_labels(chart, low, high):
        left = {"xytext": (-3, 0), "ha": "right", "va": "center"}
        below = {
            "xytext": (0, 2 if world else -3),
            "ha": "center",
            "va": "bottom" if world else "top",
        }
        look = {
            "fontsize": 7,
            "color": "0.3",
            "textcoords": "offset points",
            "annotation_clip": False,
        }
        axes.annotate(text, place, path_effects=halo, **look, **(left if parallel else below))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()
