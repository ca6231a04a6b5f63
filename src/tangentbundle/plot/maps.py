"""Maps of wind and numbers on the Earth, with matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import Array, float_tensor, host
from ..earth.maps import EqualAreaMap
from ..errors import ShapeError
from ..extras import extra
from ..geometry.known_frames import latlon_frames
from ..units import readable_unit
from . import style
from .fields import ARROW
from .views import Box, box_around, on_map, reach, spacing, spread_out, tips

MIN_FILLED_POINTS = 2500
"""With more points, colours fill the map and arrows are drawn on top in white."""

LAND = "#eae6dc"
SEA = "#f5f8fa"
"""Colours of maps below the data."""

MAX_MISSING = 300
"""Most places without a value that are drawn as rings; more are left out."""

MAX_TOWNS = 8
"""Most towns of a map."""

LETTER = (0.010, 0.017)
"""Width of a letter relative to the width and to the height of a map, whichever is larger."""

FILLED_PIXELS = 300_000
"""Pixels of the colours."""

RIM = 1.035
"""How far labels are from the middle of the globe, in units of its rim."""


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
    Many places fill the map with colour, few are arrows or dots; a few missing values (NaN) are
    rings. Maps of regions have borders and the larger towns.
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
    points, frames, _ = latlon_frames(lat, lon)
    values = host(float_tensor(values, "values")[0].detach())
    if values.shape not in ((len(points),), (len(points), 2)):
        raise ShapeError(
            f"expected {len(points)} numbers, or winds ({len(points)}, 2), got shape "
            f"{values.shape}."
        )
    axes = style.axes_or_new(axes, (8.4, 4.4))
    chart = projection or EqualAreaMap.fitting(lat, lon)
    shown = _shown(values, label, unit, top)
    plane = chart.project(points)
    wind = None
    if values.ndim == 2:
        ambient = np.einsum("nda,na->nd", frames, values)
        wind = _Arrows.of(chart, points, ambient, shown, arrows)
    box = map_box(chart, plane, None if wind is None else wind.ends)
    is_filled = int(shown.known.sum()) > MIN_FILLED_POINTS
    _empty_map(axes, chart, *box, coast="white" if is_filled and wind else "0.4")
    missing = plane[~shown.known]
    if len(missing) <= MAX_MISSING:
        axes.scatter(*missing.T, s=8, facecolors="none", edgecolors="0.55", linewidths=0.6)
    if not is_filled:
        occupied = plane if wind is None else np.concatenate([plane, wind.along()])
        _add_towns(axes, placed_towns(chart, box, occupied))
    drawn = None
    if is_filled:
        drawn = _fill(
            axes, chart, box, points[shown.known], shown.numbers[shown.known], **shown.colors
        )
    if wind is not None:
        quiver = wind.draw(axes, is_filled)
        wind.add_key(axes, quiver, (box[1] - box[0])[0])
        drawn = drawn or quiver
    if drawn is None:
        places = plane[shown.known]
        numbers = shown.numbers[shown.known]
        drawn = axes.scatter(*places.T, c=numbers, s=18, linewidths=0, **shown.colors)
    axes.set_title(title, fontsize=12)
    if colorbar:
        sizes = np.abs(shown.numbers[shown.known])
        style.add_color_bar(axes, drawn, sizes, style.with_unit(shown.label, shown.unit))
    return axes


@dataclass(frozen=True, eq=False)
class _Shown:
    """Numbers ``(n,)`` as colours, which of them are ``known``, and their names."""

    numbers: np.ndarray
    known: np.ndarray
    top: float
    colors: dict[str, Any]
    label: str
    unit: str


def _shown(values: np.ndarray, label: str | None, unit: str | None, top: float | None) -> _Shown:
    """Speeds of winds ``(n, 2)``, or numbers ``(n,)``; those of either sign with zero in the
    middle."""
    if values.ndim == 2:
        numbers = np.linalg.norm(values, axis=1)
        usual_label = "wind speed"
        usual_unit = "m/s"
    else:
        numbers = values
        usual_label = "value"
        usual_unit = ""
    known = np.isfinite(numbers)
    if top is None:
        top = style.top_of(np.abs(numbers))
    bottom = 0.0
    palette = style.ERRORS
    if values.ndim == 2:
        palette = style.length_colors()
    elif (numbers[known] < 0).any():
        bottom = -top
        palette = style.SIGNED
    return _Shown(
        numbers=numbers,
        known=known,
        top=top,
        colors={"cmap": palette, "clim": (bottom, top)},
        label=usual_label if label is None else label,
        unit=usual_unit if unit is None else unit,
    )


@dataclass(frozen=True, eq=False)
class _Arrows:
    """Winds at some places of a map: ``places`` and ``moves`` ``(m, 2)``, the ``ends`` of their
    arrows, and the ``length`` of that of the ``top`` speed."""

    chart: EqualAreaMap
    places: np.ndarray
    moves: np.ndarray
    ends: np.ndarray
    numbers: np.ndarray
    length: float
    shown: _Shown

    @classmethod
    def of(
        cls,
        chart: EqualAreaMap,
        points: np.ndarray,
        ambient: np.ndarray,
        shown: _Shown,
        count: int,
    ) -> _Arrows:
        """At most ``count`` of ambient winds ``(n, 3)`` at points ``(n, 3)``, spread evenly."""
        plane = chart.project(points)
        rows = np.flatnonzero(shown.known & np.isfinite(plane[:, 0]))
        rows = rows[spread_out(points[rows], count)]
        places = plane[rows]
        length = 1.3 * reach(places)
        moves = chart.project_vectors(points[rows], ambient[rows]) * (length / shown.top)
        ends = tips(places, moves, 2 * length)
        return cls(chart, places, moves, ends, shown.numbers[rows], length, shown)

    def along(self) -> np.ndarray:
        """Places along all arrows ``(k, 2)``."""
        shares = np.linspace(0, 1, 5)[:, None, None]
        return (self.places + shares * self.moves).reshape(-1, 2)

    def draw(self, axes: Any, is_filled: bool) -> Any:
        """Arrows in white on a filled map, otherwise in the colours of their speeds."""
        look: dict[str, Any] = {"array": self.numbers, **self.shown.colors}
        if is_filled:
            look = {"color": "white", "alpha": 0.9}
        begins = on_map(self.chart, self.places, self.moves)
        return axes.quiver(*begins.T, *self.moves.T, width=0.0028, **look, **ARROW)

    def add_key(self, axes: Any, quiver: Any, width: float) -> None:
        """An arrow of a round speed in the lower right corner of a map of this width."""
        speed = style.nice_number(self.shown.top)
        key = self.length * speed / self.shown.top
        axes.quiverkey(
            quiver,
            0.97 - key / width,
            0.03,
            key,
            f"{speed:g} {readable_unit(self.shown.unit)}".strip(),
            labelpos="W",
            color="0.25",
            fontproperties={"size": 9},
        )


def map_box(chart: EqualAreaMap, places: np.ndarray, ends: np.ndarray | None) -> Box:
    """Corners of what a map shows: the globe, or the region of places ``(n, 2)`` and the ends of
    their arrows."""
    if chart.radius is None:
        return box_around(chart.outline(), margin=0.02)
    return box_around(places, ends)


def map_frame(chart: EqualAreaMap, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The outline ``(k, 2)`` of a map: of the globe, or of the box between two corners."""
    if chart.radius is None:
        return chart.outline()
    return np.stack([low, [high[0], low[1]], high, [low[0], high[1]], low])


def map_labels(
    chart: EqualAreaMap, low: np.ndarray, high: np.ndarray
) -> list[tuple[str, np.ndarray, bool]]:
    """Names of the graticule's lines, their places, and whether they are parallels; these clear of
    the globe's rim."""
    labels = []
    is_globe = chart.radius is None
    for text, place, is_parallel in chart.labels(low, high):
        if is_globe and not is_parallel:
            continue  # it would lie on the data
        if is_globe:
            place = place * RIM
        labels.append((text, place, is_parallel))
    return labels


def raster(
    chart: EqualAreaMap, points: np.ndarray, values: np.ndarray, box: Box, pixels: int
) -> np.ndarray:
    """Values ``(n,)`` at points of the sphere as an image ``(rows, columns)`` of a box; NaN far
    from all points."""
    width, height = box[1] - box[0]
    columns = max(int(np.sqrt(pixels * width / height)), 2)
    rows = max(int(columns * height / width), 2)
    x = (np.arange(columns) + 0.5) / columns * width
    y = (np.arange(rows) + 0.5) / rows * height
    places = chart.unproject(box[0] + np.stack(np.meshgrid(x, y), axis=-1))
    inside = np.isfinite(places[..., 0])
    distances, neighbors = cKDTree(points).query(places[inside], 4)
    weights = 1 / (distances + 1e-9) ** 2
    mean = (weights * values[neighbors]).sum(axis=1) / weights.sum(axis=1)
    image = np.full((rows, columns), np.nan)
    image[inside] = np.where(distances[:, 0] < 2 * spacing(points), mean, np.nan)
    return image


def _fill(
    axes: Any, chart: EqualAreaMap, box: Box, points: np.ndarray, values: np.ndarray, **colors: Any
) -> Any:
    """Colours between points that are near each other."""
    drawn = axes.imshow(
        raster(chart, points, values, box, FILLED_PIXELS),
        zorder=0.5,
        extent=np.stack(box, axis=1).ravel(),
        origin="lower",
        interpolation="bilinear",
        **colors,
    )
    drawn.set_clip_path(*axes.fill(*chart.outline().T, color="none"))
    return drawn


def _empty_map(
    axes: Any, chart: EqualAreaMap, low: np.ndarray, high: np.ndarray, coast: str
) -> None:
    """Draw land, coastlines, borders and the labelled graticule of a box."""
    is_globe = chart.radius is None
    frame = map_frame(chart, low, high)
    axes.fill(*frame.T, facecolor=SEA, zorder=0)
    _fill_land(axes, chart)
    axes.plot(*chart.graticule().T, color="0.5", alpha=0.35, linewidth=0.5, zorder=0.8)
    axes.plot(*chart.coastline().T, color=coast, linewidth=0.6, alpha=0.9, zorder=0.9)
    axes.plot(*chart.borders().T, color=coast, linewidth=0.5, alpha=0.6, dashes=(4, 2), zorder=0.9)
    above = 3 if is_globe else 2
    axes.plot(*frame.T, color="0.55", linewidth=0.8, zorder=above, clip_on=is_globe)
    _add_labels(axes, chart, low, high)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()


def _fill_land(axes: Any, chart: EqualAreaMap) -> None:
    """Land in its colour; lakes stay as the sea."""
    polygons = chart.land()
    if not polygons:
        return
    paths = extra("matplotlib.path", "Figures", "plot")
    patches = extra("matplotlib.patches", "Figures", "plot")
    outline = paths.Path.make_compound_path(
        *(paths.Path(polygon, closed=True) for polygon in polygons)
    )
    axes.add_patch(patches.PathPatch(outline, facecolor=LAND, linewidth=0, zorder=0.2))


def placed_towns(
    chart: EqualAreaMap, box: Box, occupied: np.ndarray
) -> list[tuple[str, np.ndarray]]:
    """A few large towns of a box whose names do not lie on the places and arrows ``(k, 2)`` of
    data, nor on each other; names are to the right of the places."""
    low, high = box
    letter = float(np.max((high - low) * LETTER))
    height = 2.2 * letter
    taken = occupied[np.isfinite(occupied).all(axis=1)]
    placed: list[tuple[str, np.ndarray]] = []
    for name, place in chart.towns(low, high):
        corner = place + np.array([0.5 * letter, -height / 2])
        end = corner + np.array([letter * (len(name) + 1), height])
        is_on_data = ((taken > corner) & (taken < end)).all(axis=1).any()
        if is_on_data or end[0] > high[0]:
            continue
        placed.append((name, place))
        x = np.linspace(corner[0] - 3 * letter, end[0], 4 * len(name))
        y = np.linspace(corner[1] - height, end[1] + height, 7)
        taken = np.concatenate([taken, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)])
        if len(placed) == MAX_TOWNS:
            break
    return placed


def _add_towns(axes: Any, towns: list[tuple[str, np.ndarray]]) -> None:
    """Dots and names of towns."""
    effects = extra("matplotlib.patheffects", "Figures", "plot")
    for name, place in towns:
        axes.plot(*place, marker="o", markersize=2.2, color="0.35", zorder=1.5)
        axes.annotate(
            name,
            place,
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color="0.25",
            path_effects=[effects.withStroke(linewidth=1.6, foreground="white")],
            zorder=1.5,
        )


def _add_labels(axes: Any, chart: EqualAreaMap, low: np.ndarray, high: np.ndarray) -> None:
    """The names of the graticule's lines: parallels on the left, meridians below, or above the rim
    of the globe."""
    effects = extra("matplotlib.patheffects", "Figures", "plot")
    look = {
        "path_effects": [effects.withStroke(linewidth=1.6, foreground="white")],
        "fontsize": 7,
        "color": "0.3",
        "textcoords": "offset points",
        "annotation_clip": False,
    }
    left = {"xytext": (-3, 0), "ha": "right", "va": "center"}
    below: dict[str, Any] = {"xytext": (0, -3), "ha": "center", "va": "top"}
    if chart.radius is None:
        below = {"xytext": (0, 2), "ha": "center", "va": "bottom"}
    for text, place, is_parallel in map_labels(chart, low, high):
        position = left if is_parallel else below
        axes.annotate(text, place, **look, **position)
