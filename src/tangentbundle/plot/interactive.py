"""Interactive fields with plotly: turn, zoom, read values under the mouse, choose one of several
layers."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array, points_array
from ..earth.maps import EqualAreaMap
from ..extras import extra
from ..units import readable_unit
from .layers import MAX_ARROWS, MAX_DOTS, Layer, aligned, arrow_heads, in_picture, shown_axes
from .maps import (
    LAND,
    MIN_FILLED_POINTS,
    SEA,
    map_box,
    map_frame,
    map_labels,
    placed_towns,
    raster,
)
from .style import BRIGHTEST, LENGTHS, LINES, nice_number, with_unit
from .surfaces import Surface
from .views import Box, View, box_around, spread_out, usual_up

INK = "#1c2530"
"""Letters."""
GREY = "#7a8794"
"""Lines of maps, and reference arrows."""
LIGHT = "#aebbc7"
"""Lines of filled maps."""

MAX_MAP_PIXELS = 40_000
"""Most pixels of a filled map."""
MAX_PIXELS = 400_000
"""Most pixels of all filled maps of a figure."""

DOT_SIZES = {2: (4.0, 2.5), 3: (2.6, 1.5)}
"""Sizes of few and of many dots, in the plane and in space."""

HEADER = 62
"""Pixels above a picture with buttons."""


def _escaped(text: str) -> str:
    """Text from a file, without markup."""
    return html.escape(text, quote=False)


def interactive_field(
    points: Array,
    vectors: Array | None = None,
    *,
    faces: np.ndarray | None = None,
    label: str = "length",
    unit: str = "",
    up: str | None = None,
) -> Any:
    """Arrows on a surface, in a cloud or in the plane, to turn and zoom, and streamlines; returns a
    plotly figure.

    The interactive counterpart of ``field``: in a notebook the last line of a cell shows it.

    Args:
        points: ``(n, D)``; for D > 3 the three principal axes are shown.
        vectors: ambient vectors ``(n, D)``, or None for points alone.
        faces: triangles ``(f, 3)`` of a mesh.
        label, unit: name and unit of the colour scale.
        up: the axis that points up, x, y or z; by default that along which a mesh seems to stand
            (``tangentbundle.upright``), and z for clouds.

    >>> import tangentbundle as tb
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(300, seed=0)
    >>> figure = tb.plot.interactive_field(points, torus.tangent_field(points))
    >>> [button.label for button in figure.layout.updatemenus[0].buttons]
    ['arrows', 'streamlines']
    """
    points = points_array(points)[0]
    if up is None:
        up = usual_up(points, faces)
    layers = [Layer("points", points)]
    if vectors is not None:
        layer = Layer("arrows", points, points_array(vectors, "vectors")[0], label=label, unit=unit)
        layers = dataclasses.replace(
            layer, values={with_unit(label, unit): layer.numbers}
        ).with_streamlines()
    return side_by_side([layers], faces=faces, up=up)[0]


def side_by_side(
    groups: Sequence[Sequence[Layer]],
    *,
    chart: EqualAreaMap | None = None,
    faces: np.ndarray | None = None,
    up: str = "z",
    names: Sequence[str] = (),
) -> list[Any]:
    """A plotly figure for each group of layers, one layer shown at a time, on the same axes and
    scales.

    Arrows are in space or in the plane, or on a map of the unit sphere. Large layers are thinned,
    spread evenly. ``faces`` are triangles of the first layer's points; they, or the surface that
    the points of the largest layer form, hide what is behind them. ``names`` are those of the axes,
    by default x, y, z.
    """
    layers = [layer for group in groups for layer in group]
    if chart is not None:
        panels = _maps(groups, aligned(layers), chart)
    elif shown_axes(layers[0].points).shape[1] == 2:
        panels = _planes(groups, *_in_picture(layers, names))
    else:
        panels = _spaces(groups, *_in_picture(layers, names), layers, faces, up)
    return panels


def _in_picture(
    layers: Sequence[Layer], own_names: Sequence[str]
) -> tuple[list[Layer], tuple[str, ...]]:
    """The layers along the axes that are shown, and the names of these: their ``own_names``, unless
    they are principal axes."""
    axes = shown_axes(layers[0].points)
    shown = []
    for layer in layers:
        points, vectors, names = in_picture(layer.points, layer.vectors, axes)
        shown.append(
            dataclasses.replace(layer, points=points, vectors=vectors, color=layer.numbers)
        )
    if len(own_names) == len(names) == layers[0].points.shape[1]:
        names = tuple(_escaped(name) for name in own_names)
    return aligned(shown), names


def _grouped(groups: Sequence[Sequence[Layer]], layers: Sequence[Layer]) -> list[list[Layer]]:
    """Layers in groups of the same sizes."""
    ends = np.cumsum([len(group) for group in groups])
    return [list(layers[end - len(group) : end]) for group, end in zip(groups, ends, strict=True)]


def _ends(layers: Sequence[Layer], chart: EqualAreaMap | None = None) -> Box:
    """The places ``(m, k)`` of all layers, and the ends ``(m, k)`` of their arrows."""
    pairs = [layer.ends(chart) for layer in layers]
    places = np.concatenate([places for places, _ in pairs])
    return places, np.concatenate([ends for _, ends in pairs])


def _ratio(box: Box) -> float:
    """Width of a box over its height."""
    width, height = (box[1] - box[0])[:2]
    return float(width / height)


def _planes(
    groups: Sequence[Sequence[Layer]], layers: Sequence[Layer], names: Sequence[str]
) -> list[Any]:
    """Figures with two axes."""
    box = box_around(*_ends(layers))
    left, bottom = box[0]
    right, top = box[1]
    axis = {"ticks": "outside", "showline": True, "zeroline": False}
    titles = [{"text": name, "standoff": 32} for name in names]
    x = {**axis, "title": titles[0], "range": [left, right]}
    y = {**axis, "title": titles[1], "range": [bottom, top], "scaleanchor": "x"}
    ratio = float(np.clip(_ratio(box), 0.5, 2.0))
    return [
        _figure(group, [], [_traces(layer) for layer in group], ratio, xaxis=x, yaxis=y)
        for group in _grouped(groups, layers)
    ]


def _spaces(
    groups: Sequence[Sequence[Layer]],
    layers: Sequence[Layer],
    names: Sequence[str],
    originals: Sequence[Layer],
    faces: np.ndarray | None,
    up: str,
) -> list[Any]:
    """Figures with three axes, or with a surface and without axes."""
    largest = layers[0]
    if faces is None:
        largest = max(layers, key=lambda layer: len(layer.points))
    surface = Surface.of(largest.points, faces, MAX_DOTS)
    is_bare = surface is not None and originals[0].points.shape[1] <= 3
    view = View(up=up)
    scene = _scene(names, box_around(*_ends(layers)), view, is_bare)
    body = []
    if surface is not None:
        body.append(_surface(surface, view))
    return [
        _figure(group, body, [_traces(layer, surface) for layer in group], 1.35, scene=scene)
        for group in _grouped(groups, layers)
    ]


def _scene(names: Sequence[str], box: Box, view: View, is_bare: bool) -> dict[str, Any]:
    """The axes of space and the camera; bare pictures are larger and have no axes."""
    sides = box[1] - box[0]
    size = 2.6 if is_bare else 1.8
    aspect = size / np.linalg.norm(sides) * sides
    scene: dict[str, Any] = {
        "aspectmode": "manual",
        "aspectratio": dict(zip("xyz", aspect, strict=True)),
    }
    for number, axis in enumerate("xyz"):
        scene[f"{axis}axis"] = {
            "showbackground": False,
            "showspikes": False,
            "zeroline": False,
            "visible": not is_bare,
            "title": {"text": names[number]},
            "range": [box[0][number], box[1][number]],
            "nticks": max(4, round(6 * sides[number] / sides.max())),
        }
    scene["camera"] = {
        "eye": dict(zip("xyz", 2 * view.axes[2], strict=True)),
        "up": {axis: float(axis == view.up) for axis in "xyz"},
        "projection": {"type": "orthographic"},
    }
    return scene


def _maps(
    groups: Sequence[Sequence[Layer]], layers: Sequence[Layer], chart: EqualAreaMap
) -> list[Any]:
    """Figures with coastlines and graticule."""
    box = map_box(chart, *_ends(layers, chart))
    towns = placed_towns(chart, box, np.concatenate(_ends(layers, chart)))
    return [_map(group, chart, box, towns) for group in _grouped(groups, layers)]


def _map(
    layers: list[Layer], chart: EqualAreaMap, box: Box, towns: list[tuple[str, np.ndarray]]
) -> Any:
    """Layers on a map; those with arrows have a reference arrow."""
    lower, upper = box
    pixels = min(MAX_MAP_PIXELS, MAX_PIXELS // len(layers))
    groups = []
    color = GREY
    for layer in layers:
        if layer.colored and len(layer.points) > MIN_FILLED_POINTS:
            traces = [_filled(layer, chart, box, pixels)]
            traces += _traces(layer, chart=chart, color="white")
            color = LIGHT
        else:
            traces = _traces(layer, chart=chart)
        if layer.vectors is not None and not layer.streamlines:
            traces += _reference_arrow(layer, lower, upper)
        groups.append(traces)
    axis = {"visible": False, "constrain": "domain"}
    x = {**axis, "range": [lower[0], upper[0]]}
    y = {**axis, "range": [lower[1], upper[1]], "scaleanchor": "x"}
    lines = _map_lines(chart, lower, upper, color)
    if color == GREY:
        lines += _town_names(towns)
    ground = _ground(chart, lower, upper)
    return _figure(layers, lines, groups, _ratio(box), xaxis=x, yaxis=y, shapes=ground)


def _plotly() -> Any:
    return extra("plotly.graph_objects", "Interactive figures", "plot")


def _colors(layer: Layer) -> list[str]:
    """The colour scale, from its beginning to its end."""
    brightest = BRIGHTEST if layer.palette == LENGTHS else 1.0
    sample = extra("plotly.colors", "Interactive figures", "plot").sample_colorscale
    return sample(layer.palette, np.linspace(0, brightest, 24).tolist())


def _curve(places: np.ndarray, **look: Any) -> Any:
    """A trace of places ``(k, 2 or 3)`` in the plane or in space, with gaps where they are NaN."""
    is_flat = places.shape[-1] == 2
    trace = _plotly().Scatter if is_flat else _plotly().Scatter3d
    coordinates = dict(zip("xyz", places.T.astype(np.float32), strict=False))
    return trace(coordinates, **{"mode": "lines", "hoverinfo": "skip", **look})


def _traces(
    layer: Layer, surface: Surface | None = None, chart: EqualAreaMap | None = None, color: str = ""
) -> list:
    """Dots, and arrows or streamlines, of a layer: above both sides of a surface, or on a map.

    On a filled map the lines have one ``color`` and the dots are invisible, but the mouse finds
    them.
    """
    dots = [_dots_of(layer, surface, chart, is_filled=bool(color))]
    if layer.vectors is None:
        return dots
    curves, numbers = layer.curves(chart)
    if surface is not None:
        curves = surface.both_sides(curves)
        numbers = np.tile(numbers, 2)
    if curves.shape[2] == 3:
        return [*dots, _lines_in_space(layer, curves, numbers)]
    return dots + _lines_in_plane(layer, curves, numbers, color)


def _dots_of(
    layer: Layer, surface: Surface | None, chart: EqualAreaMap | None, is_filled: bool
) -> Any:
    """The dots of a layer; invisible on a surface with arrows and on a filled map."""
    places = layer.points
    if chart is not None:
        places = chart.project(places)
    is_crowded = len(places) > MAX_ARROWS
    look: dict[str, Any] = {"size": DOT_SIZES[places.shape[1]][is_crowded]}
    if surface is not None and layer.vectors is not None:
        look = {"size": 9, "opacity": 0.001}
    shown = dataclasses.replace(layer, points=places, color=layer.numbers)
    if is_filled:
        shown = dataclasses.replace(shown, vectors=None, color=np.zeros(len(places)))
        look["opacity"] = 0
    return _dots(shown, **look)


def _lines_in_space(layer: Layer, curves: np.ndarray, numbers: np.ndarray) -> Any:
    """One trace of curves ``(m, k, 3)``, with a colour for each place."""
    line = {
        "width": 3.5,
        "color": np.repeat(numbers, curves.shape[1]).astype(np.float32),
        "colorscale": _colors(layer),
        "cmin": 0,
        "cmax": layer.top,
    }
    return _curve(curves.reshape(-1, 3), line=line)


def _lines_in_plane(layer: Layer, curves: np.ndarray, numbers: np.ndarray, color: str) -> list[Any]:
    """Curves ``(m, k, 2)``: in the plane, a trace has one colour."""
    colors = [color]
    if not color:
        colors = _colors(layer)[1::3]
    levels = np.clip(len(colors) * numbers / layer.top, 0, len(colors) - 1).astype(int)
    traces = []
    for level in np.unique(levels):
        places = curves[levels == level].reshape(-1, 2)
        traces.append(_curve(places, line={"color": colors[level], "width": 1.5}))
    return traces


def _dots(layer: Layer, **marker: Any) -> Any:
    """Markers with all values under the mouse, and with a colour scale if there is something to
    colour."""
    rows = np.sort(spread_out(layer.points, MAX_DOTS))
    marker = {"line": {"width": 0}, "color": LINES[4], **marker}
    hover: dict[str, Any] = {}
    if layer.values:
        columns = [values[rows] for values in layer.values.values()]
        lines = [
            f"{_escaped(name)} %{{customdata[{number}]:.4g}}"
            for number, name in enumerate(layer.values)
        ]
        hover = {
            "customdata": np.stack(columns, axis=1).astype(np.float32),
            "hovertemplate": f"{'<br>'.join(lines)}<extra>{_escaped(layer.name)}</extra>",
            "hoverinfo": None,
        }
    if layer.colored:
        numbers = layer.numbers[rows]
        marker |= {
            "color": numbers.astype(np.float32),
            "colorscale": _colors(layer),
            "cmin": layer.low,
            "cmax": layer.top,
            "colorbar": _color_bar(layer, numbers),
        }
    return _curve(layer.points[rows], mode="markers", marker=marker, **hover)


def _color_bar(layer: Layer, numbers: np.ndarray) -> dict[str, Any]:
    """A horizontal bar below the picture; its title has the range of the numbers, which may go
    beyond the colours."""
    smallest = float(np.nanmin(numbers))
    largest = float(np.nanmax(numbers))
    text = f"{with_unit(layer.label, layer.unit)} ({smallest:.3g} to {largest:.3g})"
    return {
        "orientation": "h",
        "x": 0.5,
        "y": 0,
        "yref": "container",
        "yanchor": "bottom",
        "title": {"text": _escaped(text), "side": "bottom"},
        "exponentformat": "power",
        **_open_end(layer, largest),
        "thickness": 10,
        "len": 0.8,
    }


def _open_end(layer: Layer, largest: float) -> dict[str, Any]:
    """Marks of a colour bar whose last colour stands for all numbers above, too."""
    if largest <= 1.005 * layer.top or layer.low < 0:
        return {}
    step = nice_number(layer.top / 3)
    values = [*np.arange(0, layer.top - 0.7 * step, step), layer.top]
    words = [f"{value:g}" for value in values[:-1]]
    return {"tickvals": values, "ticktext": [*words, f"≥ {layer.top:.3g}"]}


def _surface(surface: Surface, view: View) -> Any:
    """A surface in grey, lit from the first view."""
    corners = dict(zip("xyz", surface.points.T.astype(np.float32), strict=True))
    faces = dict(zip("ijk", surface.faces.T.astype(np.int32), strict=True))
    colors = {
        "colorscale": [[0, "#8d97a1"], [1, "#e6eaee"]],
        "cmin": 0,
        "cmax": 1,
        "showscale": False,
    }
    flat = {"ambient": 1.0, "diffuse": 0.0, "specular": 0.0, "fresnel": 0.0}
    light = surface.light(view).astype(np.float32)
    return _plotly().Mesh3d(
        **corners, **faces, intensity=light, **colors, lighting=flat, hoverinfo="skip"
    )


def _filled(layer: Layer, chart: EqualAreaMap, box: Box, pixels: int) -> Any:
    """Colours that fill the map."""
    image = raster(chart, layer.points, layer.numbers, box, pixels)
    corner = box[0]
    pixel = (box[1] - box[0]) / image.shape[::-1]
    return _plotly().Heatmap(
        z=image.astype(np.float32),
        x0=corner[0] + pixel[0] / 2,
        dx=pixel[0],
        y0=corner[1] + pixel[1] / 2,
        dy=pixel[1],
        zmin=layer.low,
        zmax=layer.top,
        colorscale=_colors(layer),
        colorbar=_color_bar(layer, layer.numbers),
        hoverinfo="skip",
        hoverongaps=False,
    )


def _map_lines(chart: EqualAreaMap, low: np.ndarray, high: np.ndarray, color: str) -> list[Any]:
    """Coastlines, the graticule, and the names of its lines."""
    dotted = {"color": color, "width": 0.4, "dash": "dot"}
    dashed = {"color": color, "width": 0.7, "dash": "dash"}
    frame = map_frame(chart, low, high)
    lines = [
        _curve(chart.coastline(), line={"color": color, "width": 1}, name="coastlines"),
        _curve(chart.borders(), line=dashed, name="graticule"),
        _curve(chart.graticule(), line=dotted, name="graticule"),
        _curve(frame, line={"color": GREY, "width": 0.8}),
    ]
    labels = map_labels(chart, low, high)
    dark = {"size": 11}
    parallels = [(text, place) for text, place, is_parallel in labels if is_parallel]
    if parallels:
        lines.append(_words(parallels, "middle left", dark))
    meridians = [(text, place) for text, place, is_parallel in labels if not is_parallel]
    if meridians:
        font = dark if color == GREY else {"size": 11, "color": "white"}
        position = "bottom center"
        if chart.radius is None:
            position = "top center"
        lines.append(_words(meridians, position, font))
    return lines


def _ground(chart: EqualAreaMap, low: np.ndarray, high: np.ndarray) -> list[dict[str, Any]]:
    """The sea and the land as shapes below all data; lakes run the other way, and are left out."""
    shapes = [_shape([map_frame(chart, low, high)], SEA)]
    polygons = chart.land()
    if polygons:
        shapes.append(_shape(polygons, LAND))
    return shapes


def _shape(outlines: Sequence[np.ndarray], color: str) -> dict[str, Any]:
    """Filled outlines ``(k, 2)`` as one shape of plotly."""
    paths = []
    for outline in outlines:
        places = [f"{x:.6g},{y:.6g}" for x, y in outline]
        paths.append(f"M{'L'.join(places)}Z")
    return {
        "type": "path",
        "path": "".join(paths),
        "fillcolor": color,
        "line": {"width": 0},
        "layer": "below",
    }


def _town_names(placed: list[tuple[str, np.ndarray]]) -> list[Any]:
    """Names of a few towns, and their places."""
    if not placed:
        return []
    return [
        _curve(
            np.stack([place for _, place in placed]),
            mode="markers+text",
            marker={"size": 3.5, "color": GREY},
            text=[f" {_escaped(name)}" for name, _ in placed],
            textposition="middle right",
            textfont={"size": 10, "color": "#4c5763"},
            name="degrees",
        )
    ]


def _words(labels: list[tuple[str, np.ndarray]], position: str, font: dict[str, Any]) -> Any:
    """Texts beside their places."""
    return _curve(
        np.stack([place for _, place in labels]),
        mode="text",
        text=[text for text, _ in labels],
        textposition=position,
        textfont=font,
        cliponaxis=False,
        name="degrees",
    )


def _reference_arrow(layer: Layer, low: np.ndarray, high: np.ndarray) -> list[Any]:
    """An arrow of a round length in the lower right corner, and its length as text."""
    value = nice_number(layer.longest)
    length = layer.arrow * value / layer.longest
    move = np.array([[length, 0.0]])
    margin = 0.02 * (high - low)[0]
    tip = np.array([[high[0] - margin, low[1] + 0.17 * length + margin]])
    arrow = np.concatenate([tip - move, arrow_heads(tip, move)[0]])
    text = f"{value:g} {readable_unit(layer.unit)}".strip()
    words = {"mode": "text", "text": [_escaped(text)], "textposition": "middle left"}
    return [
        _curve(arrow, line={"color": GREY, "width": 2}, name="reference"),
        _curve(tip - 1.25 * move, **words),
    ]


def _figure(
    layers: Sequence[Layer], shared: list[Any], groups: list[list[Any]], ratio: float, **layout: Any
) -> Any:
    """A figure of traces that are always shown and of those of each layer, with a button for each
    layer.

    ``layout.meta`` holds the ratio of width to height, and which traces each layer shows, for other
    pages' buttons.
    """
    owners: list[int | None] = [None] * len(shared)
    for number, group in enumerate(groups):
        owners += [number] * len(group)
    choices: list[dict[str, Any]] = [
        {"label": layer.name, "visible": [owner in (None, number) for owner in owners]}
        for number, layer in enumerate(layers)
    ]
    figure = _plotly().Figure([*shared, *(trace for group in groups for trace in group)])
    for trace, visible in zip(figure.data, choices[0]["visible"], strict=True):
        trace.visible = visible
    layout |= {
        "margin": _margin(layout, has_buttons=len(layers) > 1),
        "meta": {"ratio": ratio, "choices": choices},
        "template": "none",
        "font": {"color": INK},
        "height": 520,
        "showlegend": False,
    }
    if len(layers) > 1:
        layout["updatemenus"] = [_menu(choices)]
    return figure.update_layout(**layout)


def _margin(layout: dict[str, Any], has_buttons: bool) -> dict[str, int]:
    """Pixels around a picture: for buttons, a colour bar, and names of axes."""
    margin = {"l": 44, "r": 14, "t": 12, "b": 66}
    if "scene" in layout:
        margin |= {"l": 0, "r": 0}
    if "title" in layout.get("xaxis", {}):
        margin["b"] = 108
    if has_buttons:
        margin["t"] = HEADER
    return margin


def _menu(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """A button for each layer."""
    buttons = [
        {
            "label": _escaped(choice["label"]),
            "method": "restyle",
            "args": [{"visible": choice["visible"]}],
        }
        for choice in choices
    ]
    return {
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "type": "buttons",
        "direction": "right",
        "buttons": buttons,
    }
