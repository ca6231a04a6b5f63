"""Interactive fields with plotly: turn, zoom, read values under the mouse, choose one of several layers."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..earth.maps import EqualAreaMap
from ..extras import extra
from ..manifolds import Sphere
from .fields import arrow_scale, flat_or_space, shown_axes
from .maps import MIN_FILLED_POINTS
from .style import BRIGHTEST, LENGTHS, LINES, top_of
from .views import View, spread_out

MAX_DOTS, MAX_ARROWS = 3000, 900
"""Most points and most arrows of a layer."""

MAX_FACES = 60_000
"""Larger meshes are not drawn below their arrows: the page would be slow."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One field of an interactive picture. Layers with the same ``label`` share a colour scale.

    Args:
        name: text of the button that shows the layer.
        points: ``(n, D)``.
        vectors: ambient vectors ``(n, D)``, coloured by length, or None.
        color: numbers ``(n,)`` that colour the points instead.
        label: name of the colour scale.
        palette: name of the colours.
        values: shown under the mouse, {name: numbers ``(n,)``}.
    """

    name: str
    points: np.ndarray
    vectors: np.ndarray | None = None
    color: np.ndarray | None = None
    label: str = "length"
    palette: str = LENGTHS
    values: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def thinned(self) -> Layer:
        """The layer at no more than ``MAX_DOTS`` of its points, spread evenly."""
        rows = np.sort(spread_out(self.points, MAX_DOTS))
        parts = {name: getattr(self, name) for name in ("points", "vectors", "color")}
        parts = {name: None if part is None else part[rows] for name, part in parts.items()}
        return dataclasses.replace(self, **parts, values={name: numbers[rows] for name, numbers in self.values.items()})

    @property
    def numbers(self) -> np.ndarray:
        """The numbers that are shown as colours, ``(n,)``."""
        if self.color is not None:
            return self.color
        return np.zeros(len(self.points)) if self.vectors is None else np.linalg.norm(self.vectors, axis=1)

    @property
    def colors(self) -> list[str]:
        """The colour scale, from zero to the end."""
        brightest = BRIGHTEST if self.palette == LENGTHS else 1.0
        sample = extra("plotly.colors", "Interactive figures", "plot").sample_colorscale
        return sample(self.palette, np.linspace(0, brightest, 24).tolist())


def interactive_field(layers: Sequence[Layer], *, faces: np.ndarray | None = None, height: int = 560) -> Any:
    """Layers of arrows in space or in the plane, one shown at a time; returns a plotly figure.

    Large layers are thinned, spread evenly. ``faces`` are triangles of the first layer's points; they, and the unit
    sphere if all points lie on it, hide what is behind them.

    >>> import tangentbundle as tb
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(300, seed=0)
    >>> before, after = (Layer(n, points, a * torus.tangent_field(points)) for n, a in (("before", 1), ("after", 2)))
    >>> figure = interactive_field([before, after])
    >>> [button.label for button in figure.layout.updatemenus[0].buttons]
    ['before', 'after']
    """
    axes, drawn = shown_axes(layers[0].points), []
    for layer in layers:
        points, vectors, names = flat_or_space(layer.points, layer.vectors, axes)
        drawn.append(dataclasses.replace(layer, points=points, vectors=vectors, color=layer.numbers))
    traces = [_traces(layer.thinned(), _top(layers, layer)) for layer in drawn]
    if len(names) < 3:
        return _layered(layers, [], traces, height, xaxis_title=names[0], yaxis={"scaleanchor": "x", "title": names[1]})
    globe = all(np.allclose(np.linalg.norm(layer.points, axis=1), 1.0, atol=1e-6) for layer in drawn)
    body, towards = [], View().axes[2]
    if globe:
        body, centre = [_body(0.99 * Sphere(2).sample(4000, seed=0))], drawn[0].points.mean(axis=0)
        towards = centre / np.linalg.norm(centre) if np.linalg.norm(centre) > 0.3 else towards
    elif faces is not None and len(faces) <= MAX_FACES:
        body = [_body(drawn[0].points, faces)]
    axis = {"showbackground": False, "showspikes": False, "visible": not body}
    scene = {f"{a}axis": {**axis, "title": {"text": name}} for a, name in zip("xyz", names, strict=True)}
    camera = {"eye": dict(zip("xyz", (1.5 if body else 1.8) * towards, strict=True))}
    return _layered(layers, body, traces, height, scene={"aspectmode": "data", "camera": camera, **scene})


def interactive_map(layers: Sequence[Layer], chart: EqualAreaMap, *, height: int = 470) -> Any:
    """Layers of points of the unit sphere, on a map; returns a plotly figure.

    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind()
    >>> vectors = np.einsum("nda,na->nd", wind.frames, wind.components[0])
    >>> figure = interactive_map([Layer("wind", wind.points, vectors)], tb.plot.EqualAreaMap())
    >>> figure.data[0].type
    'scatter'
    """
    look = {"mode": "lines", "line": {"color": "#7a8794", "width": 0.5}, "hoverinfo": "skip"}
    lines, traces = _curve(np.vstack([chart.graticule(), chart.outline()]), **look), []
    for layer in layers:
        shown = layer.thinned()
        moves = None if shown.vectors is None else chart.project_vectors(shown.points, shown.vectors)
        flat = dataclasses.replace(shown, points=chart.project(shown.points), vectors=moves, color=shown.numbers)
        traces.append(_traces(flat, _top(layers, layer), filled=len(layer.points) > MIN_FILLED_POINTS))
    yaxis = {"scaleanchor": "x", "visible": False}
    return _layered(layers, [lines], traces, height, xaxis_visible=False, yaxis=yaxis)


def _escaped(text: Any) -> str:
    """Text that plotly shows as it is."""
    return html.escape(str(text), quote=False)


def _plotly() -> Any:
    return extra("plotly.graph_objects", "Interactive figures", "plot")


def _top(layers: Sequence[Layer], layer: Layer) -> float:
    """The end of the colour scale: the same for all layers of one label."""
    return top_of(np.concatenate([other.numbers for other in layers if other.label == layer.label]))


def _dots(layer: Layer, top: float, **marker: Any) -> dict[str, Any]:
    """Markers with all values under the mouse."""
    values = "<br>".join(f"{_escaped(name)} %{{customdata[{k}]:.4g}}" for k, name in enumerate(layer.values))
    marker |= {"line": {"width": 0}, "color": LINES[4]}
    if layer.vectors is not None or layer.numbers.any():
        bar = {"title": {"text": _escaped(layer.label), "side": "right"}, "thickness": 12, "len": 0.75}
        marker |= {"color": layer.numbers.astype(np.float32), "colorscale": layer.colors}
        marker |= {"cmin": 0, "cmax": top, "colorbar": bar}
    return {
        "mode": "markers",
        "marker": marker,
        "customdata": np.stack(list(layer.values.values()), axis=1).astype(np.float32) if values else None,
        "hovertemplate": f"{values}<extra>{_escaped(layer.name)}</extra>" if values else None,
    }


def _curve(places: np.ndarray, **look: Any) -> Any:
    """A trace of places ``(k, 2 or 3)`` in the plane or in space, with gaps where they are NaN."""
    kind = _plotly().Scatter if places.shape[-1] == 2 else _plotly().Scatter3d
    return kind(dict(zip("xyz", places.T.astype(np.float32), strict=False)), **look)


def _traces(layer: Layer, top: float, filled: bool = False) -> list[Any]:
    """Dots and arrows of a layer; if ``filled``, dots are squares that touch each other and arrows are white."""
    n, dim = layer.points.shape
    size = {2: 13 if filled else 4, 3: 2.6 if n <= MAX_ARROWS else 1.5}[dim]
    traces = [_curve(layer.points, **_dots(layer, top, size=size, symbol="square" if filled else "circle"))]
    if layer.vectors is None:
        return traces
    arrows, numbers = _arrows(layer)
    look = {"mode": "lines", "hoverinfo": "skip"}
    if dim == 3:
        line = {"color": np.repeat(numbers, 6).astype(np.float32), "colorscale": layer.colors, "cmin": 0, "cmax": top}
        return [*traces, _curve(arrows.reshape(-1, 3), line={"width": 3, **line}, **look)]
    colors = ["white"] if filled else layer.colors[1::3]  # a line in the plane has one colour
    levels = np.clip(len(colors) * numbers / top, 0, len(colors) - 1).astype(int)
    for k in np.unique(levels):
        traces.append(_curve(arrows[levels == k].reshape(-1, 2), line={"color": colors[k], "width": 1.2}, **look))
    return traces


def _arrows(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Arrows as curves ``(m, 6, D)`` that end with NaN, and their numbers ``(m,)``."""
    assert layer.vectors is not None
    rows = spread_out(layer.points, MAX_ARROWS)
    rows = rows[layer.numbers[rows] > 1e-3 * top_of(layer.numbers)]
    foot = layer.points[rows]
    move = 1.3 * arrow_scale(foot, layer.vectors) * layer.vectors[rows]
    if foot.shape[1] == 2:
        side = move[:, ::-1] * [-1, 1]
    else:  # along a round surface
        side = np.cross(move, foot - layer.points.mean(axis=0))
        long, wide = (np.linalg.norm(array, axis=1, keepdims=True) for array in (move, side))
        side *= long / np.maximum(wide, 1e-300)
    tip, back, gap = foot + move, -0.32 * move, np.full_like(foot, np.nan)
    arrows = [foot, tip, tip + back + 0.17 * side, tip, tip + back - 0.17 * side, gap]
    return np.stack(arrows, axis=1), layer.numbers[rows]


def _body(points: np.ndarray, faces: np.ndarray | None = None) -> Any:
    """A grey surface that hides what is behind it: a mesh, or without faces the convex hull."""
    x, y, z = points.T.astype(np.float32)
    shape = {"alphahull": 0} if faces is None else dict(zip("ijk", faces.T.astype(np.int32), strict=True))
    light = {"ambient": 0.78, "diffuse": 0.42, "specular": 0.0, "fresnel": 0.0}
    look = {"color": "#d3dae1", "lighting": light, "lightposition": {"x": 4e4, "y": -7e4, "z": 9e4}}
    return _plotly().Mesh3d(x=x, y=y, z=z, hoverinfo="skip", **shape, **look)


def _layered(layers: Sequence[Layer], shared: list[Any], traces: list[list[Any]], height: int, **layout: Any) -> Any:
    """A figure of traces that are always shown and of those of each layer, with a menu of layers."""
    owners = [None] * len(shared) + [k for k, group in enumerate(traces) for _ in group]
    visible = [[owner in (None, k) for owner in owners] for k in range(len(layers))]
    figure = _plotly().Figure([*shared, *(trace for group in traces for trace in group)])
    for trace, shown in zip(figure.data, visible[0], strict=True):
        trace.visible = shown
    margin = {"l": 0, "r": 0, "t": 10, "b": 0}
    figure.update_layout(template="none", height=height, showlegend=False, margin=margin, **layout)
    buttons = [
        {"label": _escaped(layer.name), "method": "restyle", "args": [{"visible": rows}]}
        for layer, rows in zip(layers, visible, strict=True)
    ]
    if len(buttons) > 1:
        menu = {"type": "buttons", "direction": "right", "x": 0, "y": 1.08, "xanchor": "left", "buttons": buttons}
        figure.update_layout(updatemenus=[menu])
    return figure
