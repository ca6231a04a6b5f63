"""Layers of interactive pictures, and the plotly traces that show them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..extras import extra
from .maps import DENSE
from .style import BRIGHTEST, LENGTHS, LINES, top_of
from .thinning import reach, spread_out

SHOWN, ARROWS = 3000, 900
"""Most points and most arrows of a layer."""

BODY = "#d3dae1"
LIGHT = {
    "lighting": {"ambient": 0.78, "diffuse": 0.42, "specular": 0.0, "fresnel": 0.0},
    "lightposition": {"x": 4e4, "y": -7e4, "z": 9e4},
}
"""Colour and light of surfaces under the arrows."""

STEPS = 8
"""Colours of arrows in the plane."""

INK = "#7a8794"
"""A grey that is seen on light and dark pages."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One field of a picture: points ``(n, D)``, ambient vectors ``(n, D)`` or None, and a number for the colour.

    ``values`` are shown under the mouse: {name: numbers ``(n,)``}. Without ``color`` it is the length of the vectors.
    Layers with the same ``label`` share a scale.
    """

    name: str
    points: np.ndarray
    vectors: np.ndarray | None = None
    color: np.ndarray | None = None
    label: str = "length"
    palette: str = LENGTHS
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def thinned(self, count: int = SHOWN) -> Layer:
        """At most so many of the points, spread evenly."""
        rows = np.sort(spread_out(self.points, count))
        if len(rows) == len(self.points):
            return self

        def some(array: np.ndarray | None) -> Any:
            return None if array is None else array[rows]

        values = {name: numbers[rows] for name, numbers in self.values.items()}
        return replace(
            self, points=self.points[rows], vectors=some(self.vectors), color=some(self.color), values=values
        )

    @property
    def shade(self) -> np.ndarray:
        """The number that is coloured."""
        if self.color is not None:
            return self.color
        return np.zeros(len(self.points)) if self.vectors is None else np.linalg.norm(self.vectors, axis=1)


def plain(words: Any) -> str:
    """Text that plotly shows as it is."""
    return html.escape(str(words), quote=False)


def colorscale_of(layer: Layer) -> list[list[Any]]:
    """A plotly scale of colours."""
    colormaps = extra("matplotlib", "Figures", "plot").colormaps
    shares = np.linspace(0, 1, 24)
    colors = colormaps[layer.palette](shares * (BRIGHTEST if layer.palette == LENGTHS else 1.0))
    return [
        [float(a), f"rgb({r},{g},{b})"]
        for a, (r, g, b) in zip(shares, np.round(255 * colors[:, :3]).astype(int), strict=True)
    ]


def _markers(layer: Layer, top: float, size: float) -> dict[str, Any]:
    """Dots with all values under the mouse."""
    names = list(layer.values)
    told = "<br>".join(f"{plain(name)} %{{customdata[{k}]:.4g}}" for k, name in enumerate(names))
    columns = np.stack([layer.values[name] for name in names], axis=1) if names else None
    bar = {"title": {"text": plain(layer.label), "side": "right"}, "thickness": 12, "len": 0.75}
    color = {
        "color": layer.shade.astype(np.float32),
        "colorscale": colorscale_of(layer),
        "cmin": 0,
        "cmax": top,
        "colorbar": bar,
    }
    if layer.vectors is None and not layer.shade.any():
        color = {"color": LINES[4]}
    extra_line = f"<extra>{plain(layer.name)}</extra>"
    return {
        "mode": "markers",
        "marker": {"size": size, "line": {"width": 0}, **color},
        "customdata": None if columns is None else columns.astype(np.float32),
        "hovertemplate": told + extra_line if names else None,
    }


def in_plane(go: Any, layer: Layer, top: float, over: bool = False) -> list[Any]:
    """Dots and arrows in the plane; ``over`` a filled map dots are invisible until the mouse finds them."""
    look = _markers(layer, top, 9 if over else 4)
    if over:
        look["marker"]["opacity"] = 0
    x, y = layer.points.T.astype(np.float32)
    traces = [go.Scatter(x=x, y=y, **look)]
    if layer.vectors is None:
        return traces
    rows = spread_out(layer.points, ARROWS)
    foot, length = layer.points[rows], top_of(np.linalg.norm(layer.vectors, axis=1))
    move = 1.3 * reach(foot) / length * layer.vectors[rows]
    across, tip = move @ np.array([[0.0, 1.0], [-1.0, 0.0]]), foot + move
    curves = np.stack([foot, tip, tip - 0.32 * move + 0.17 * across, tip, tip - 0.32 * move - 0.17 * across], axis=2)
    if over:
        levels, colors = np.zeros(len(rows), int), ["white"]
    else:  # lines have one colour each
        levels = np.clip(STEPS * layer.shade[rows] / top, 0, STEPS - 1).astype(int)
        scale = colorscale_of(layer)
        colors = [scale[round((k + 0.5) / STEPS * (len(scale) - 1))][1] for k in range(STEPS)]
    for k in np.unique(levels):
        x, y = polyline(list(curves[levels == k]))
        line = {"color": colors[k], "width": 1.2}
        traces.append(go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip"))
    return traces


def in_space(go: Any, layer: Layer, top: float, over: bool = False) -> list[Any]:
    """Dots, shafts and heads in space; white and almost without dots ``over`` a coloured globe."""
    x, y, z = layer.points.T.astype(np.float32)
    look = _markers(layer, top, 2.6)
    if over:
        look["marker"]["size"] = 1.2
    traces = [go.Scatter3d(x=x, y=y, z=z, **look)]
    if layer.vectors is None:
        return traces
    rows = spread_out(layer.points, ARROWS)
    lengths = np.linalg.norm(layer.vectors[rows], axis=1)
    rows = rows[lengths > 1e-3 * top_of(lengths)] if lengths.any() else rows[:0]
    foot, shade = layer.points[rows], layer.shade[rows]
    move = 1.2 * reach(foot) / top_of(lengths) * layer.vectors[rows]
    tip, scale = foot + move, [[0, "white"], [1, "white"]] if over else colorscale_of(layer)
    x, y, z = polyline(list(np.stack([foot, tip]).transpose(1, 2, 0)))
    color = {"color": np.repeat(shade, 3).astype(np.float32), "colorscale": scale, "cmin": 0, "cmax": top, "width": 3}
    traces.append(go.Scatter3d(x=x, y=y, z=z, mode="lines", line=color, hoverinfo="skip"))
    corners, faces, shades = _heads(tip, 0.42 * move, shade)
    head = {"intensity": shades, "colorscale": scale, "cmin": 0, "cmax": top, "showscale": False, "hoverinfo": "skip"}
    x, y, z = corners.T
    i, j, k = faces.T
    light = {"ambient": 0.85, "diffuse": 0.3, "specular": 0.0}
    return [*traces, go.Mesh3d(x=x, y=y, z=z, i=i, j=j, k=k, lighting=light, **head)]


def _heads(tip: np.ndarray, move: np.ndarray, shade: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slender pyramids with their tips where arrows end: corners ``(5 m, 3)``, triangles, and a number a corner."""
    m = len(tip)
    other = np.where(np.abs(move[:, :1]) < np.abs(move[:, 1:2]), [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    side = np.cross(move, other)
    length = np.linalg.norm(move, axis=1, keepdims=True)
    side *= 0.27 * length / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-300)
    up = np.cross(move, side) / np.maximum(length, 1e-300)
    base = tip - move
    corners = np.stack([tip, base + side, base + up, base - side, base - up], axis=1).reshape(-1, 3)
    pattern = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 1], [1, 2, 3], [1, 3, 4]])
    faces = (5 * np.arange(m)[:, None, None] + pattern).reshape(-1, 3)
    return corners.astype(np.float32), faces.astype(np.int32), np.repeat(shade, 5).astype(np.float32)


def mesh_body(go: Any, points: np.ndarray, faces: np.ndarray) -> Any:
    """A mesh that hides what lies behind it."""
    x, y, z = points.T.astype(np.float32)
    i, j, k = faces.T.astype(np.int32)
    return go.Mesh3d(x=x, y=y, z=z, i=i, j=j, k=k, color=BODY, hoverinfo="skip", **LIGHT)


def globe_body(go: Any, layer: Layer, top: float) -> Any:
    """The unit sphere, in the colours of a layer of many points and grey under few."""
    dense = len(layer.points) > DENSE
    rows, columns = (91, 181) if dense else (37, 73)
    a, b = np.meshgrid(np.linspace(0, np.pi, rows), np.linspace(0, 2 * np.pi, columns), indexing="ij")
    places = np.stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)], axis=-1)
    shade = np.zeros(a.shape)
    if dense:
        shade = layer.shade[cKDTree(layer.points).query(places)[1]]
    x, y, z = 0.995 * np.moveaxis(places, -1, 0).astype(np.float32)
    color = {"surfacecolor": shade.astype(np.float32), "cmin": 0, "cmax": top, "showscale": False}
    scale = colorscale_of(layer) if dense else [[0, BODY], [1, BODY]]
    still = {axis: {"highlight": False} for axis in "xyz"}
    return go.Surface(x=x, y=y, z=z, colorscale=scale, contours=still, hoverinfo="skip", **color, **LIGHT)


def polyline(curves: Sequence[np.ndarray]) -> np.ndarray:
    """Curves ``(dims, k)`` one after the other, with gaps of NaN between them."""
    gap = np.full((len(curves[0]) if len(curves) else 2, 1), np.nan)
    parts = [part for curve in curves for part in (curve, gap)]
    return np.concatenate(parts, axis=1).astype(np.float32) if parts else np.empty((2, 0), np.float32)
