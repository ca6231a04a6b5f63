"""Interactive fields with plotly: turn, zoom, read values under the mouse, choose one of several
layers."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..arrays import Array, points_array
from ..earth.maps import EqualAreaMap
from ..extras import extra
from .layers import MAX_ARROWS, MAX_DOTS, Layer, aligned, arrow_heads, in_picture, shown_axes
from .maps import MIN_FILLED_POINTS, map_box, map_frame, map_labels, raster
from .style import BRIGHTEST, LENGTHS, LINES, nice_number, readable_unit, with_unit
from .surfaces import Surface
from .views import Box, View, box_around, spread_out

_escaped = partial(html.escape, quote=False)
INK, GREY, LIGHT = "#1c2530", "#7a8794", "#aebbc7"
"""Letters; lines of maps and reference arrows; lines of filled maps."""


def interactive_field(
    points: Array,
    vectors: Array | None = None,
    *,
    faces: np.ndarray | None = None,
    label: str = "length",
    unit: str = "",
    up: str = "z",
) -> Any:
    """Arrows on a surface, in a cloud or in the plane, to turn and zoom, and streamlines; returns a
    plotly figure.

    The interactive counterpart of ``field``: in a notebook the last line of a cell shows it.

    Args:
        points: ``(n, D)``; for D > 3 the three principal axes are shown.
        vectors: ambient vectors ``(n, D)``, or None for points alone.
        faces: triangles ``(f, 3)`` of a mesh.
        label, unit: name and unit of the colour scale.
        up: the axis that points up, x, y or z.

    >>> import tangentbundle as tb
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(300, seed=0)
    >>> figure = tb.plot.interactive_field(points, torus.tangent_field(points))
    >>> [button.label for button in figure.layout.updatemenus[0].buttons]
    ['arrows', 'streamlines']
    """
    points = points_array(points)[0]
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
) -> list[Any]:
    """A plotly figure for each group of layers, one layer shown at a time, on the same axes and
    scales.

    Arrows are in space or in the plane, or on a map of the unit sphere. Large layers are thinned,
    spread evenly. ``faces`` are triangles of the first layer's points; they, or the surface that
    the points of the largest layer form, hide what is behind them.
    """
    layers = [layer for group in groups for layer in group]
    draw: Callable[[list[Layer]], Any]
    if chart is None:
        axes, wide = shown_axes(layers[0].points), layers[0].points.shape[1] > 3
        for k, layer in enumerate(layers):
            points, vectors, names = in_picture(layer.points, layer.vectors, axes)
            layers[k] = dataclasses.replace(
                layer, points=points, vectors=vectors, color=layer.numbers
            )
    layers = aligned(layers)
    places, ends = map(np.concatenate, zip(*(layer.ends(chart) for layer in layers), strict=True))
    box = box_around(places, ends) if chart is None else map_box(chart, places, ends)
    if chart is not None:
        draw = partial(_map, chart=chart, box=box)
    elif len(names) < 3:
        draw = partial(_plane, names=names, box=box)
    else:
        largest = (
            layers[0] if faces is not None else max(layers, key=lambda layer: len(layer.points))
        )
        surface = Surface.of(largest.points, faces, MAX_DOTS)
        draw = partial(
            _space,
            names=names,
            box=box,
            surface=surface,
            up=up,
            bare=surface is not None and not wide,
        )
    rest = iter(layers)
    return [draw([next(rest) for _ in group]) for group in groups]


def _plane(layers: list[Layer], names: Sequence[str], box: Box) -> Any:
    """Layers with two axes."""
    axis = {"ticks": "outside", "showline": True, "zeroline": False}
    x, y = (
        {**axis, "title": {"text": name, "standoff": 32}, "range": [low, high]}
        for name, low, high in zip(names, *box, strict=True)
    )
    ratio = float(np.clip(np.divide(*(box[1] - box[0])), 0.5, 2.0))
    return _figure(
        layers, [], list(map(_traces, layers)), ratio, xaxis=x, yaxis={**y, "scaleanchor": "x"}
    )


def _space(
    layers: list[Layer],
    names: Sequence[str],
    box: Box,
    surface: Surface | None,
    up: str,
    bare: bool,
) -> Any:
    """Layers with three axes, or with a surface and without axes."""
    view, sides = View(up=up), box[1] - box[0]
    aspect = (2.6 if bare else 1.8) / np.linalg.norm(sides) * sides
    scene: dict[str, Any] = {
        "aspectmode": "manual",
        "aspectratio": dict(zip("xyz", aspect, strict=True)),
    }
    for a, name, low, high in zip("xyz", names, *box, strict=True):
        look = {
            "showbackground": False,
            "showspikes": False,
            "zeroline": False,
            "visible": not bare,
        }
        ticks = max(4, round(6 * (high - low) / sides.max()))
        scene[f"{a}axis"] = {**look, "title": {"text": name}, "range": [low, high], "nticks": ticks}
    eye, above = dict(zip("xyz", 2 * view.axes[2], strict=True)), {a: float(a == up) for a in "xyz"}
    scene["camera"] = {"eye": eye, "up": above, "projection": {"type": "orthographic"}}
    body = [] if surface is None else [_surface(surface, view)]
    return _figure(layers, body, [_traces(layer, surface) for layer in layers], 1.35, scene=scene)


def _map(layers: list[Layer], chart: EqualAreaMap, box: Box) -> Any:
    """Layers with coastlines and graticule; those with arrows have a reference arrow."""
    pixels, groups, color = (
        min(40_000, 400_000 // len(layers)),
        [],
        GREY,
    )  # at most of one map, and of all
    for layer in layers:
        if layer.colored and len(layer.points) > MIN_FILLED_POINTS:
            groups.append(
                [_filled(layer, chart, box, pixels), *_traces(layer, chart=chart, color="white")]
            )
            color = LIGHT
        else:
            groups.append(_traces(layer, chart=chart))
        if layer.vectors is not None and not layer.streamlines:
            groups[-1] += _reference_arrow(layer, *box)
    x, y = (
        {"visible": False, "range": [*side], "constrain": "domain"}
        for side in zip(*box, strict=True)
    )
    ratio, lines = float(np.divide(*(box[1] - box[0]))), _map_lines(chart, *box, color)
    return _figure(layers, lines, groups, ratio, xaxis=x, yaxis={**y, "scaleanchor": "x"})


def _plotly() -> Any:
    return extra("plotly.graph_objects", "Interactive figures", "plot")


def _colors(layer: Layer) -> list[str]:
    """The colour scale, from its beginning to its end."""
    brightest = BRIGHTEST if layer.palette == LENGTHS else 1.0
    sample = extra("plotly.colors", "Interactive figures", "plot").sample_colorscale
    return sample(layer.palette, np.linspace(0, brightest, 24).tolist())


def _curve(places: np.ndarray, **look: Any) -> Any:
    """A trace of places ``(k, 2 or 3)`` in the plane or in space, with gaps where they are NaN."""
    kind = _plotly().Scatter if places.shape[-1] == 2 else _plotly().Scatter3d
    coordinates = dict(zip("xyz", places.T.astype(np.float32), strict=False))
    return kind(coordinates, **{"mode": "lines", "hoverinfo": "skip", **look})


def _traces(
    layer: Layer, surface: Surface | None = None, chart: EqualAreaMap | None = None, color: str = ""
) -> list:
    """Dots, and arrows or streamlines, of a layer: above both sides of a surface, or on a map.

    On a filled map the lines have one ``color`` and the dots are invisible, but the mouse finds
    them.
    """
    places = layer.points if chart is None else chart.project(layer.points)
    flat, dim = dataclasses.replace(layer, points=places, color=layer.numbers), places.shape[1]
    sizes = {2: (4.0, 2.5), 3: (2.6, 1.5)}[dim]
    look: dict[str, Any] = {"size": sizes[len(places) > MAX_ARROWS]}
    if surface is not None and layer.vectors is not None:
        look = {"size": 9, "opacity": 0.001}
    if color:
        flat, look["opacity"] = (
            dataclasses.replace(flat, vectors=None, color=np.zeros(len(places))),
            0,
        )
    found = [_dots(flat, **look)]
    if layer.vectors is None:
        return found
    curves, numbers = layer.curves(chart)
    if surface is not None:
        curves, numbers = surface.both_sides(curves), np.tile(numbers, 2)
    if dim == 3:
        each = np.repeat(numbers, curves.shape[1]).astype(np.float32)
        line = {
            "width": 3.5,
            "color": each,
            "colorscale": _colors(layer),
            "cmin": 0,
            "cmax": layer.top,
        }
        return [*found, _curve(curves.reshape(-1, 3), line=line)]
    colors = [color] if color else _colors(layer)[1::3]  # in the plane, a trace has one colour
    levels = np.clip(len(colors) * numbers / layer.top, 0, len(colors) - 1).astype(int)
    for level in np.unique(levels):
        found.append(
            _curve(
                curves[levels == level].reshape(-1, 2), line={"color": colors[level], "width": 1.5}
            )
        )
    return found


def _dots(layer: Layer, **marker: Any) -> Any:
    """Markers with all values under the mouse, and with a colour scale if there is something to
    colour."""
    rows = np.sort(spread_out(layer.points, MAX_DOTS))
    marker, hover = {"line": {"width": 0}, "color": LINES[4], **marker}, dict[str, Any]()
    if layer.values:
        numbers = np.stack([*layer.values.values()], axis=1)[rows].astype(np.float32)
        text = "<br>".join(
            f"{_escaped(name)} %{{customdata[{k}]:.4g}}" for k, name in enumerate(layer.values)
        )
        text += f"<extra>{_escaped(layer.name)}</extra>"
        hover = {"customdata": numbers, "hovertemplate": text, "hoverinfo": None}
    if layer.colored:
        marker |= {"color": layer.numbers[rows].astype(np.float32), "colorscale": _colors(layer)}
        marker |= {
            "cmin": layer.low,
            "cmax": layer.top,
            "colorbar": _color_bar(layer, layer.numbers[rows]),
        }
    return _curve(layer.points[rows], mode="markers", marker=marker, **hover)


def _color_bar(layer: Layer, numbers: np.ndarray) -> dict[str, Any]:
    """A horizontal bar below the picture; its title has the range of the numbers, which may go
    beyond the colours."""
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    text = f"{with_unit(layer.label, layer.unit)} ({low:.3g} to {high:.3g})"
    place = {"orientation": "h", "x": 0.5, "y": 0, "yref": "container", "yanchor": "bottom"}
    place |= {"title": {"text": _escaped(text), "side": "bottom"}, "exponentformat": "power"}
    return {**place, "thickness": 10, "len": 0.8}


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
    (x, y), (dx, dy) = box[0], (box[1] - box[0]) / image.shape[::-1]
    grid = {
        "x0": x + dx / 2,
        "dx": dx,
        "y0": y + dy / 2,
        "dy": dy,
        "zmin": layer.low,
        "zmax": layer.top,
    }
    look = {"colorscale": _colors(layer), "colorbar": _color_bar(layer, layer.numbers)}
    return _plotly().Heatmap(
        z=image.astype(np.float32), hoverinfo="skip", hoverongaps=False, **grid, **look
    )


def _map_lines(chart: EqualAreaMap, low: np.ndarray, high: np.ndarray, color: str) -> list[Any]:
    """Coastlines, the graticule, and the names of its lines."""
    found = [
        _curve(chart.coastline(), line={"color": color, "width": 1}, name="coastlines"),
        _curve(
            chart.graticule(), line={"color": color, "width": 0.4, "dash": "dot"}, name="graticule"
        ),
        _curve(map_frame(chart, low, high), line={"color": GREY, "width": 0.8}),
    ]
    names, below = (
        map_labels(chart, low, high),
        "top center" if chart.radius is None else "bottom center",
    )
    for parallel, position in ((True, "middle left"), (False, below)):
        chosen = [(text, place) for text, place, is_parallel in names if is_parallel == parallel]
        if chosen:
            texts, places = zip(*chosen, strict=True)
            font = {"size": 11} if parallel or color == GREY else {"size": 11, "color": "white"}
            look = {
                "textposition": position,
                "textfont": font,
                "cliponaxis": False,
                "name": "degrees",
            }
            found.append(_curve(np.stack(places), mode="text", text=list(texts), **look))
    return found


def _reference_arrow(layer: Layer, low: np.ndarray, high: np.ndarray) -> list[Any]:
    """An arrow of a round length in the lower right corner, and its length as text."""
    value = nice_number(layer.longest)
    move = np.array([[layer.arrow * value / layer.longest, 0.0]])
    tip = np.array([[high[0], low[1] + 0.17 * move[0, 0]]]) + 0.02 * (high - low)[0] * np.array(
        [-1, 1]
    )
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
    owners = [None] * len(shared) + [k for k, group in enumerate(groups) for _ in group]
    choices: list[Any] = [
        {"label": layer.name, "visible": [owner in (None, k) for owner in owners]}
        for k, layer in enumerate(layers)
    ]
    figure = _plotly().Figure([*shared, *(trace for group in groups for trace in group)])
    for trace, visible in zip(figure.data, choices[0]["visible"], strict=True):
        trace.visible = visible
    above, below = 12 if len(layers) == 1 else 62, 108 if "title" in layout.get("xaxis", {}) else 66
    left, right = (0, 0) if "scene" in layout else (44, 14)
    if len(layers) > 1:
        menu = {
            "x": 0,
            "y": 1,
            "xanchor": "left",
            "yanchor": "bottom",
            "type": "buttons",
            "direction": "right",
        }
        shows = [(_escaped(c["label"]), [{"visible": c["visible"]}]) for c in choices]
        buttons = [{"label": label, "method": "restyle", "args": show} for label, show in shows]
        layout |= {"updatemenus": [{**menu, "buttons": buttons}]}
    layout |= {
        "margin": {"l": left, "r": right, "t": above, "b": below},
        "meta": {"ratio": ratio, "choices": choices},
    }
    layout |= {"template": "none", "font": {"color": INK}, "height": 520, "showlegend": False}
    return figure.update_layout(**layout)
