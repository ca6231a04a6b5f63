"""Fields to turn, zoom and read off with the mouse, with plotly: in space and on maps, layers to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..extras import extra
from .fields import flat_or_space, principal_axes
from .histograms import Histogram
from .layers import INK, Layer, colorscale_of, globe_body, in_plane, in_space, mesh_body, plain, polyline
from .maps import DENSE, raster
from .projections import Projection
from .style import LINES, top_of

FACES = 60_000
"""Most triangles of a mesh that is drawn under its arrows."""


def interactive_field(layers: Sequence[Layer], *, faces: np.ndarray | None = None, height: int = 560) -> Any:
    """Layers of arrows in space or in the plane, one shown at a time; returns a plotly figure.

    Large layers are thinned to ``SHOWN`` points and ``ARROWS`` arrows, spread evenly. ``faces`` are triangles of the
    first layer's points. On the unit sphere what lies behind is hidden.

    >>> import tangentbundle as tb
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(300, seed=0)
    >>> before, after = (Layer(n, points, a * torus.tangent_field(points)) for n, a in (("before", 1), ("after", 2)))
    >>> figure = interactive_field([before, after])
    >>> [button.label for button in figure.layout.updatemenus[0].buttons]
    ['before', 'after']
    """
    go = extra("plotly.graph_objects", "Interactive figures", "plot")
    figure, owners = go.Figure(), []
    axes = principal_axes(layers[0].points)
    flat = [flat_or_space(layer.points, layer.vectors, axes) for layer in layers]
    space = flat[0][0].shape[1] == 3
    globe = space and all(np.allclose(np.linalg.norm(p, axis=1), 1.0, atol=1e-6) for p, _, _ in flat)
    solid = globe or (space and faces is not None and len(faces) <= FACES)
    if faces is not None and solid and not globe:
        figure.add_trace(mesh_body(go, flat[0][0], faces))
        owners.append(-1)
    for number, (layer, (points, vectors, _)) in enumerate(zip(layers, flat, strict=True)):
        whole, top = replace(layer, points=points, vectors=vectors, color=layer.shade), _same_scale(layers, layer)
        over = globe and len(points) > DENSE
        traces = [globe_body(go, whole, top)] if globe else []
        traces += in_space(go, whole.thinned(), top, over) if space else in_plane(go, whole.thinned(), top)
        figure.add_traces(traces)
        owners += [number] * len(traces)
    names = flat[0][2]
    if space:
        axis = {"showbackground": False, "showspikes": False, "visible": not solid}
        titles = {f"{a}axis": {**axis, "title": {"text": n}} for a, n in zip("xyz", names, strict=True)}
        figure.update_layout(scene={"aspectmode": "data", "camera": {"eye": _eye(flat[0][0], globe)}, **titles})
    else:
        figure.update_layout(yaxis={"scaleanchor": "x", "title": names[1]}, xaxis={"title": names[0]})
    return _finished(figure, layers, owners, height)


def interactive_map(layers: Sequence[Layer], chart: Projection, *, height: int = 470) -> Any:
    """Layers on a map of the globe; points are on the unit sphere. Returns a plotly figure.

    >>> import tangentbundle as tb
    >>> wind = tb.datasets.load_wind()
    >>> vectors = np.einsum("nda,na->nd", wind.frames, wind.components[0])
    >>> figure = interactive_map([Layer("wind", wind.points, vectors)], tb.plot.Mollweide())
    >>> figure.data[0].type
    'scatter'
    """
    go = extra("plotly.graph_objects", "Interactive figures", "plot")
    figure, owners = go.Figure(), []
    lines = [chart.outline(), *chart.graticule()]
    x, y = polyline([line.T for line in lines])
    figure.add_trace(go.Scatter(x=x, y=y, mode="lines", line={"color": INK, "width": 0.5}, hoverinfo="skip"))
    owners.append(-1)
    for number, layer in enumerate(layers):
        top = _same_scale(layers, layer)
        if len(layer.points) > DENSE:
            picture, (left, right, low, high) = raster(chart, layer.points, layer.shade, 400)
            rows, columns = picture.shape
            place = {"x0": left + (right - left) / columns / 2, "dx": (right - left) / columns}
            place |= {"y0": low + (high - low) / rows / 2, "dy": (high - low) / rows}
            color = {"colorscale": colorscale_of(layer), "zmin": 0, "zmax": top, "showscale": False}
            figure.add_trace(go.Heatmap(z=picture.astype(np.float32), hoverinfo="skip", **place, **color))
            owners.append(number)
        shown = layer.thinned()
        plane = chart.project(shown.points)
        moves = None if shown.vectors is None else chart.turn(shown.points, shown.vectors)
        on_map = replace(shown, points=plane, vectors=moves, color=shown.shade)
        for trace in in_plane(go, on_map, top, over=len(layer.points) > DENSE):
            figure.add_trace(trace)
            owners.append(number)
    hidden = {"visible": False}
    figure.update_layout(xaxis=hidden, yaxis={"scaleanchor": "x", **hidden})
    return _finished(figure, layers, owners, height)


def interactive_spectrum(values: np.ndarray, sizes: Sequence[int], *, height: int = 320) -> Any:
    """Eigenvalues, with the sizes of groups of (nearly) equal ones; returns a plotly figure."""
    go = extra("plotly.graph_objects", "Interactive figures", "plot")
    figure, start = go.Figure(), 0
    for number, size in enumerate(sizes):
        group, color = np.arange(start, start + size), LINES[(1, 4)[number % 2]]
        told = "number %{x}<br>eigenvalue %{y:.5g}" + f"<extra>{size} of about this size</extra>"
        figure.add_trace(go.Bar(x=group + 1, y=values[group], width=0.55, marker={"color": color}, hovertemplate=told))
        if size > 1:
            top = float(values[group].max())
            figure.add_annotation(x=float(group.mean()) + 1, y=top, text=f"{size}×", showarrow=False, yshift=12)
        start += size
    figure.update_layout(xaxis={"title": "number"}, yaxis={"title": "eigenvalue of −Δ", "rangemode": "tozero"})
    return _finished(figure, [], [], height)


def interactive_histograms(found: Sequence[Histogram], *, height: int = 280) -> Any:
    """Histograms side by side; returns a plotly figure."""
    go = extra("plotly.graph_objects", "Interactive figures", "plot")
    figure, gap = go.Figure(), 0.08
    width = (1 - gap * (len(found) - 1)) / len(found)
    for k, one in enumerate(found):
        tail, told = "" if k == 0 else str(k + 1), "%{x:.4g}: %{y} points<extra></extra>"
        bar = {"width": 0.92 * one.width, "marker": {"color": LINES[4]}, "hovertemplate": told}
        figure.add_trace(go.Bar(x=one.middles, y=one.counts, xaxis=f"x{tail}", yaxis=f"y{tail}", **bar))
        ends = [k * (width + gap), k * (width + gap) + width]
        ticks = {"tickvals": one.middles} if len(one.counts) < 8 else {}
        axes = {f"xaxis{tail}": {"domain": ends, "title": plain(one.label), "anchor": f"y{tail}", **ticks}}
        figure.update_layout({**axes, f"yaxis{tail}": {"anchor": f"x{tail}", "rangemode": "tozero"}})
    return _finished(figure, [], [], height)


def interactive_curves(
    lines: dict[str, tuple[np.ndarray, np.ndarray]], x: str, y: str, *, marked: Sequence[str] = (), height: int = 320
) -> Any:
    """Lines {name: (numbers, numbers)}, those ``marked`` as dots; returns a plotly figure."""
    go = extra("plotly.graph_objects", "Interactive figures", "plot")
    figure = go.Figure()
    for number, (name, (across, up)) in enumerate(lines.items()):
        color = LINES[(4, 1, 2, 5)[number % 4]]
        mode = "markers" if name in marked else "lines"
        look = {"marker": {"color": color, "size": 7}, "line": {"color": color, "width": 2}}
        figure.add_trace(go.Scatter(x=across, y=up, name=plain(name), mode=mode, **look))
    figure.update_layout(xaxis={"title": x}, yaxis={"title": y, "rangemode": "tozero"})
    _finished(figure, [], [], height)
    return figure.update_layout(showlegend=len(lines) > 1, legend={"orientation": "h", "y": 1.12})


def _finished(figure: Any, layers: Sequence[Layer], owners: Sequence[int], height: int) -> Any:
    """Margins, and the menu of layers: traces without an owner always show."""
    figure.update_layout(template="none", height=height, showlegend=False, margin={"l": 50, "r": 10, "t": 20, "b": 44})
    if layers:
        figure.update_layout(margin={"l": 0, "r": 0, "t": 10, "b": 0})
    for trace, owner in zip(figure.data, owners, strict=False):
        trace.visible = owner in (-1, 0)
    if len(layers) > 1:
        buttons = [
            {
                "label": plain(layer.name),
                "method": "restyle",
                "args": [{"visible": [owner in (-1, number) for owner in owners]}],
            }
            for number, layer in enumerate(layers)
        ]
        menu = {"type": "buttons", "direction": "right", "x": 0, "y": 1.08, "xanchor": "left", "buttons": buttons}
        figure.update_layout(updatemenus=[menu])
    return figure


def _eye(points: np.ndarray, globe: bool) -> dict[str, float]:
    """Where to look from: nearer to flat things, and to the side of the globe where points are."""
    sides = np.ptp(points, axis=0)
    a, b = np.radians(35), np.radians(-60)
    way, middle = np.array([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)]), points.mean(axis=0)
    if globe:
        sides, way = np.ones(3), middle / np.linalg.norm(middle) if np.linalg.norm(middle) > 0.3 else way
    distance = 1.55 * (sides.max() / (np.prod(np.maximum(sides, 0.3 * sides.max())) ** (1 / 3) or 1.0)) ** 0.5
    return {axis: float(distance * part) for axis, part in zip("xyz", way, strict=True)}


def _same_scale(layers: Sequence[Layer], layer: Layer) -> float:
    """The end of the scale of colours: the same for all layers that show the same."""
    return top_of(np.concatenate([other.shade for other in layers if other.label == layer.label]))
