"""Interactive fields with plotly: turn, zoom, read values under the mouse, choose one of several layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..earth.maps import EqualAreaMap
from .fields import flat_or_space, shown_axes
from .maps import MIN_FILLED_POINTS, map_box, map_frame, raster
from .style import nice_number, with_unit
from .traces import (
    GREY,
    LIGHT,
    Layer,
    Surface,
    aligned,
    color_bar,
    curve,
    escaped,
    map_traces,
    plotly,
    reference_arrow,
    traces,
)
from .views import View

MAX_PIXELS, MAX_ALL_PIXELS = 90_000, 900_000
"""Most pixels of a filled map, and of all of them together."""

MAX_BUTTONS = 8
"""With more layers there is a slider instead."""


def interactive_field(
    points: np.ndarray,
    vectors: np.ndarray | None = None,
    *,
    faces: np.ndarray | None = None,
    label: str = "length",
    unit: str = "",
    up: str = "z",
) -> Any:
    """Arrows on a surface, in a cloud or in the plane, to turn and zoom, and streamlines; returns a plotly figure.

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
    points, vectors = np.asarray(points, dtype=float), None if vectors is None else np.asarray(vectors, dtype=float)
    layer = Layer("arrows", points, vectors, label=label, unit=unit)
    if vectors is None:
        return layered_field([layer], faces=faces, up=up)
    values = {with_unit(label, unit): layer.numbers}
    layer = dataclasses.replace(layer, values=values)
    return layered_field([layer, dataclasses.replace(layer, name="streamlines", streamlines=True)], faces=faces, up=up)


def layered_field(layers: Sequence[Layer], *, faces: np.ndarray | None = None, up: str = "z") -> Any:
    """Layers of arrows in space or in the plane, one shown at a time; returns a plotly figure.

    Large layers are thinned, spread evenly. ``faces`` are triangles of the first layer's points; they, or the surface
    that its points form, hide what is behind them.

    >>> import tangentbundle as tb
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(300, seed=0)
    >>> before, after = (Layer(n, points, a * torus.tangent_field(points)) for n, a in (("before", 1), ("after", 2)))
    >>> figure = layered_field([before, after])
    >>> [button.label for button in figure.layout.updatemenus[0].buttons]
    ['before', 'after']
    """
    axes, drawn = shown_axes(layers[0].points), []
    for layer in aligned(layers):
        points, vectors, names = flat_or_space(layer.points, layer.vectors, axes)
        drawn.append(dataclasses.replace(layer, points=points, vectors=vectors, color=layer.numbers))
    if len(names) < 3:
        low, high = (f(np.concatenate([layer.points for layer in drawn]), axis=0) for f in (np.min, np.max))
        ratio = float(np.clip((high - low)[0] / max((high - low)[1], 1e-300), 0.5, 2.0))
        axis = {"ticks": "outside", "showline": True, "zeroline": False}
        x, y = ({**axis, "title": {"text": name, "standoff": 18}} for name in names)
        return _layered(drawn, [], list(map(traces, drawn)), ratio, xaxis=x, yaxis={**y, "scaleanchor": "x"})
    view, surface = View(up=up), Surface.of(drawn[0].points, faces)
    body = [] if surface is None else [surface.trace(view)]
    bare, sides = bool(body) and layers[0].points.shape[1] == 3, np.ptp(drawn[0].points, axis=0)
    sides *= (2.6 if bare else 1.8) / (float(np.linalg.norm(sides)) or 1.0)
    size = {"aspectmode": "manual", "aspectratio": dict(zip("xyz", np.maximum(sides, 0.02), strict=True))}
    axis = {"showbackground": False, "showspikes": False, "visible": not bare, "nticks": 5}
    scene = {f"{a}axis": {**axis, "title": {"text": name}} for a, name in zip("xyz", names, strict=True)}
    eye, above = dict(zip("xyz", 2 * view.axes[2], strict=True)), {a: float(a == up) for a in "xyz"}
    camera = {"eye": eye, "up": above, "projection": {"type": "orthographic"}}
    groups = [traces(layer, surface) for layer in drawn]
    return _layered(drawn, body, groups, 1.35, scene={**size, "camera": camera, **scene})


def layered_map(layers: Sequence[Layer], chart: EqualAreaMap) -> Any:
    """Layers of points of the unit sphere, on a map with coastlines and graticule; returns a plotly figure.

    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind()
    >>> vectors = np.einsum("nda,na->nd", wind.frames, wind.components[0])
    >>> figure = layered_map([Layer("wind", wind.points, vectors)], tb.plot.EqualAreaMap())
    >>> figure.data[0].name
    'coastlines'
    """
    layers = aligned(layers)
    low, high = map_box(chart, np.concatenate([layer.points for layer in layers]))
    pixels = min(MAX_PIXELS, MAX_ALL_PIXELS // len(layers))
    groups = []
    for layer in layers:
        if layer.colored and len(layer.points) > MIN_FILLED_POINTS:
            groups.append([_filled(layer, chart, low, high, pixels), *map_traces(layer, chart, "white")])
        else:
            groups.append(map_traces(layer, chart))
    corner = np.array([high[0], low[1]]) + 0.02 * (high - low)[0] * np.array([-1, 1])
    arrows = [layer for layer in layers if layer.vectors is not None]
    color = LIGHT if any(trace.type == "heatmap" for group in groups for trace in group) else GREY
    shared = [*_map_lines(chart, low, high, color), *(reference_arrow(arrows[0], corner) if arrows else [])]
    x, y = ({"visible": False, "range": [low[k], high[k]], "constrain": "domain"} for k in (0, 1))
    ratio = float(np.divide(*(high - low)))
    return _layered(layers, shared, groups, ratio, xaxis=x, yaxis={**y, "scaleanchor": "x"})


def _filled(layer: Layer, chart: EqualAreaMap, low: np.ndarray, high: np.ndarray, pixels: int) -> Any:
    """Colours that fill the map."""
    image = raster(chart, layer.points, layer.numbers, low, high, pixels)
    wide, step = layer.top - layer.low, nice_number((layer.top - layer.low) / 3)
    shares = np.clip((image - layer.low) / wide, 0, 1)
    levels = np.where(np.isnan(image), 0, 1 + 254 * shares)  # bytes are small; 0 is nothing
    ticks = step * np.arange(np.ceil(layer.low / step), layer.top * 1.001 // step + 1)
    bar = color_bar(layer, tickvals=1 + 254 * (ticks - layer.low) / wide, ticktext=[f"{tick:.3g}" for tick in ticks])
    colors = [[0, "rgba(0,0,0,0)"], *([(1 + 254 * k / 23) / 255, color] for k, color in enumerate(layer.colors))]
    rows, columns = image.shape
    dx, dy = (high - low) / (columns, rows)
    grid = {"x0": low[0] + dx / 2, "dx": dx, "y0": low[1] + dy / 2, "dy": dy, "zmin": 0, "zmax": 255}
    look = {"colorscale": colors, "colorbar": bar, "hoverinfo": "skip"}
    return plotly().Heatmap(z=levels.round().astype(np.uint8), **grid, **look)


def _map_lines(chart: EqualAreaMap, low: np.ndarray, high: np.ndarray, color: str) -> list[Any]:
    """Coastlines, the graticule, and the names of its lines."""
    coast, room = chart.coastline(), 0.05 * (high - low)
    near = np.isnan(coast[:, 0]) | ((coast > low - room) & (coast < high + room)).all(axis=1)
    coast = np.where(near[:, None], coast, np.nan)
    coast = coast[~np.isnan(coast[:, 0]) | ~np.isnan(np.roll(coast[:, 0], 1))]  # one gap is enough
    found = [
        curve(coast, line={"color": color, "width": 1}, name="coastlines"),
        curve(chart.graticule(), line={"color": color, "width": 0.4, "dash": "dot"}, name="graticule"),
        curve(map_frame(chart, low, high), line={"color": GREY, "width": 0.8}),
    ]
    names, below = chart.labels(low, high), "top center" if chart.radius is None else "bottom center"
    for parallel, position in ((True, "middle left"), (False, below)):
        chosen = [(text, place) for text, place, is_parallel in names if is_parallel == parallel]
        if chosen:
            texts, places = zip(*chosen, strict=True)
            font = {"size": 11} if parallel or color == GREY else {"size": 11, "color": color, "shadow": "auto"}
            look = {"textposition": position, "textfont": font, "cliponaxis": False, "name": "degrees"}
            found.append(curve(np.stack(places), mode="text", text=list(texts), **look))
    return found


def _layered(layers: Sequence[Layer], shared: list[Any], groups: list[list[Any]], ratio: float, **layout: Any) -> Any:
    """A figure of traces that are always shown and of those of each layer, with buttons or a slider for layers.

    ``layout.meta`` holds the ratio of width to height, and which traces each layer shows, for other pages' buttons.
    """
    owners = [None] * len(shared) + [k for k, group in enumerate(groups) for _ in group]
    shown = [[owner in (None, k) for owner in owners] for k in range(len(layers))]
    choices = [{"label": layer.name, "visible": visible} for layer, visible in zip(layers, shown, strict=True)]
    figure = plotly().Figure([*shared, *(trace for group in groups for trace in group)])
    for trace, visible in zip(figure.data, shown[0], strict=True):
        trace.visible = visible
    flat, menu = "scene" not in layout, {"x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
    above, below = 12 if len(layers) == 1 else 62, 100 if "title" in layout.get("xaxis", {}) else 66
    margin = {"l": 44 if flat else 0, "r": 14 if flat else 0, "t": above, "b": below}
    steps = [{"label": escaped(c["label"]), "method": "restyle", "args": [{"visible": c["visible"]}]} for c in choices]
    if len(steps) > MAX_BUTTONS:
        layout |= {"sliders": [{**menu, "steps": steps}]}
    elif len(steps) > 1:
        layout |= {"updatemenus": [{**menu, "type": "buttons", "direction": "right", "buttons": steps}]}
    meta = {"ratio": ratio, "choices": choices}
    return figure.update_layout(template="none", height=520, showlegend=False, margin=margin, meta=meta, **layout)
