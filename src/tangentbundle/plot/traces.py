"""Traces of plotly: dots, arrows, streamlines, surfaces and maps of a layer."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..earth.maps import EqualAreaMap
from ..extras import extra
from .streamlines import streamlines
from .style import BRIGHTEST, LENGTHS, LINES, SIGNED, nice_number, readable_unit, top_of, with_unit
from .views import LIGHT_FROM, Patches, View, extent, face_normals, reach, spread_out

MAX_DOTS, MAX_ARROWS = 2000, 400
"""Most points and most arrows of a layer."""

MAX_FACES = 60_000
"""Larger meshes are drawn as the surface between some of their points: the page would be slow."""

GREY, LIGHT = "#7a8794", "#aebbc7"
"""Lines of maps and reference arrows, readable on light and on dark pages; and those on filled maps."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One field of an interactive picture. Layers with the same ``label`` share a colour scale and a scale of arrows.

    Args:
        name: text of the button that shows the layer.
        points: ``(n, D)``.
        vectors: ambient vectors ``(n, D)``, coloured by length, or None.
        color: numbers ``(n,)`` that colour the points instead.
        label, unit: name of the colour scale, and its unit.
        palette: name of the colours.
        values: shown under the mouse, {name: numbers ``(n,)``}.
        streamlines: draw curves along the vectors instead of arrows.
        top, arrow: end of the colour scale, and length of the arrow of such a vector; from the data if zero.
    """

    name: str
    points: np.ndarray
    vectors: np.ndarray | None = None
    color: np.ndarray | None = None
    label: str = "length"
    unit: str = ""
    palette: str = LENGTHS
    values: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    streamlines: bool = False
    top: float = 0.0
    arrow: float = 0.0

    def thinned(self, most: int = MAX_DOTS) -> Layer:
        """The layer at no more than ``most`` of its points, spread evenly."""
        rows = np.sort(spread_out(self.points, most))
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
    def colored(self) -> bool:
        """Whether there is anything to show as colours."""
        return self.vectors is not None or bool(self.numbers.any())

    @property
    def low(self) -> float:
        """The beginning of the colour scale."""
        return -self.top if self.palette == SIGNED else 0.0

    @property
    def colors(self) -> list[str]:
        """The colour scale, from its beginning to its end."""
        brightest = BRIGHTEST if self.palette == LENGTHS else 1.0
        sample = extra("plotly.colors", "Interactive figures", "plot").sample_colorscale
        return sample(self.palette, np.linspace(0, brightest, 24).tolist())


def aligned(layers: Sequence[Layer]) -> list[Layer]:
    """Layers with their ``top`` and ``arrow`` filled in, equal for all layers of one label."""
    found = []
    for layer in layers:
        group = [other for other in layers if other.label == layer.label]
        top = layer.top or max(top_of(np.abs(other.numbers)) for other in group)
        long = min(1.6 * reach(other.points[spread_out(other.points, MAX_ARROWS)]) for other in group)
        found.append(dataclasses.replace(layer, top=top, arrow=layer.arrow or long))
    return found


def plotly() -> Any:
    return extra("plotly.graph_objects", "Interactive figures", "plot")


def escaped(text: Any) -> str:
    """Text that plotly shows as it is."""
    return html.escape(str(text), quote=False)


def curve(places: np.ndarray, **look: Any) -> Any:
    """A trace of places ``(k, 2 or 3)`` in the plane or in space, with gaps where they are NaN."""
    kind = plotly().Scatter if places.shape[-1] == 2 else plotly().Scatter3d
    look = {"mode": "lines", "hoverinfo": "skip", **look}
    return kind(dict(zip("xyz", places.T.astype(np.float32), strict=False)), **look)


def traces(layer: Layer, surface: Surface | None = None) -> list[Any]:
    """Dots, and arrows or streamlines, of a layer whose scales are known; above a ``surface`` on both of its sides."""
    hidden = surface is not None and layer.vectors is not None
    look = {"size": 9, "opacity": 0.001} if hidden else {"size": _dot_size(layer)}  # felt by the mouse all the same
    found = [dots(layer.thinned(), **look)]
    if layer.vectors is None:
        return found
    curves, numbers = _streamlines(layer) if layer.streamlines else _arrows(layer)
    if surface is not None:
        curves, numbers = surface.both_sides(curves), np.tile(numbers, 2)
    return [*found, *_colored(layer, curves, numbers)]


def map_traces(layer: Layer, chart: EqualAreaMap, color: str = "") -> list[Any]:
    """The same for points and vectors on the unit sphere, drawn on a map; arrows and curves in one ``color``."""
    flat = dataclasses.replace(layer, points=chart.project(layer.points), color=layer.numbers)
    held = dataclasses.replace(flat, vectors=None, color=np.zeros(len(flat.points))) if color else flat
    found = [dots(held.thinned(), size=_dot_size(flat), opacity=0 if color else 1)]
    if layer.vectors is None:
        return found
    if layer.streamlines:
        curves, numbers = _streamlines(layer)
        curves = chart.project(curves / np.linalg.norm(curves, axis=2, keepdims=True))
        jumps = np.linalg.norm(np.diff(curves, axis=1), axis=2) > 0.3  # from one edge of the map to the other
        curves[:, 1:][jumps] = np.nan
    else:
        moves = chart.project_vectors(layer.points, layer.vectors)
        curves, numbers = _arrows(dataclasses.replace(flat, vectors=moves))
    return [*found, *_colored(layer, curves, numbers, [color] if color else None)]


def _dot_size(layer: Layer) -> float:
    small = len(layer.points) > MAX_ARROWS
    return {2: 2.5 if small else 4.0, 3: 1.5 if small else 2.6}[layer.points.shape[1]]


def dots(layer: Layer, **marker: Any) -> Any:
    """Markers with all values under the mouse, and with a colour scale if there is something to colour."""
    values = "<br>".join(f"{escaped(name)} %{{customdata[{k}]:.4g}}" for k, name in enumerate(layer.values))
    marker = {"line": {"width": 0}, "color": LINES[4], **marker}
    if layer.colored:
        marker |= {"color": layer.numbers.astype(np.float32), "colorscale": layer.colors}
        marker |= {"cmin": layer.low, "cmax": layer.top, "colorbar": color_bar(layer)}
    return curve(
        layer.points,
        mode="markers",
        marker=marker,
        customdata=np.stack(list(layer.values.values()), axis=1).astype(np.float32) if values else None,
        hovertemplate=f"{values}<extra>{escaped(layer.name)}</extra>" if values else None,
        hoverinfo=None if values else "skip",
    )


def color_bar(layer: Layer, **ticks: Any) -> dict[str, Any]:
    """A horizontal bar below the picture; its title has the range of the numbers, which may go beyond the colours."""
    low, high = float(np.nanmin(layer.numbers)), float(np.nanmax(layer.numbers))
    text = f"{with_unit(layer.label, layer.unit)} ({low:.3g} to {high:.3g})"
    place = {"orientation": "h", "x": 0.5, "y": 0, "yref": "container", "yanchor": "bottom"}
    return {**place, "title": {"text": escaped(text), "side": "bottom"}, "thickness": 10, "len": 0.8, **ticks}


def reference_arrow(layer: Layer, corner: np.ndarray) -> list[Any]:
    """An arrow of a round length that ends at a corner ``(2,)``, and its length in words."""
    value = nice_number(layer.top)
    long = layer.arrow * value / layer.top
    move = np.array([[long, 0.0]])
    arrow = curve(_shape(corner - move, move)[0], fill="toself", fillcolor=GREY, line={"width": 0}, name="reference")
    text = f"{value:g} {readable_unit(layer.unit)}".strip()
    words = curve((corner - [1.25 * long, 0])[None], mode="text", text=[escaped(text)], textposition="middle left")
    return [arrow, words]


def _arrows(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Arrows as curves ``(m, k, D)`` that end with NaN, and their numbers ``(m,)``."""
    assert layer.vectors is not None
    rows = spread_out(layer.points, MAX_ARROWS)
    rows = rows[layer.numbers[rows] > 1e-3 * top_of(layer.numbers)]
    foot, move = layer.points[rows], layer.arrow / layer.top * layer.vectors[rows]
    if foot.shape[1] == 2:
        return _shape(foot, move), layer.numbers[rows]
    return np.concatenate([foot[:, None], _heads(layer, foot + move, move)], axis=1), layer.numbers[rows]


def _heads(layer: Layer, tip: np.ndarray, move: np.ndarray) -> np.ndarray:
    """Curves through the tips of arrows and both ends of their heads, ``(m, 5, D)``, that end with NaN."""
    if tip.shape[1] == 2:
        side = move[:, ::-1] * [-1, 1]
    else:
        side = np.cross(move, tip - move - layer.points.mean(axis=0))  # along a round surface
        long, wide = (np.linalg.norm(array, axis=1, keepdims=True) for array in (move, side))
        side *= long / np.maximum(wide, 1e-300)
    left, right = (tip - 0.34 * move + sign * 0.17 * side for sign in (1, -1))
    return np.stack([tip, left, tip, right, np.full_like(tip, np.nan)], axis=1)


def _shape(foot: np.ndarray, move: np.ndarray) -> np.ndarray:
    """Outlines of arrows in the plane, ``(m, 8, 2)``, that end with NaN."""
    along = np.array([0, 0.62, 0.62, 1, 0.62, 0.62, 0, np.nan])
    aside = np.array([0.035, 0.035, 0.16, 0, -0.16, -0.035, -0.035, np.nan])
    side = move[:, ::-1] * [-1, 1]
    return foot[:, None] + along[:, None] * move[:, None] + aside[:, None] * side[:, None]


def _streamlines(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Curves with heads ``(m, k, D)`` that end with NaN, and the vector lengths in their middle ``(m,)``."""
    assert layer.vectors is not None
    curves = streamlines(layer.points, layer.vectors)
    middle = curves.shape[1] // 2
    numbers = layer.numbers[cKDTree(layer.points).query(curves[:, middle])[1]]
    last = middle + np.isfinite(curves[:, middle + 1 :, 0]).sum(axis=1)
    every = np.arange(len(curves))
    tip = curves[every, last]
    move = tip - np.where(np.isfinite(curves[every, last - 1]), curves[every, last - 1], tip)
    size = np.linalg.norm(move, axis=1, keepdims=True)
    heads = _heads(layer, tip, layer.arrow * move / np.maximum(size, 1e-300))
    return np.concatenate([curves, np.full_like(tip, np.nan)[:, None], heads], axis=1), numbers


def _colored(layer: Layer, curves: np.ndarray, numbers: np.ndarray, colors: list[str] | None = None) -> list[Any]:
    """Curves ``(m, k, D)`` in the colours of numbers ``(m,)``; in the plane a trace for each of a few colours."""
    if curves.shape[2] == 3:
        each = np.repeat(numbers, curves.shape[1]).astype(np.float32)
        line = {"width": 3.5, "color": each, "colorscale": layer.colors, "cmin": 0, "cmax": layer.top}
        return [curve(curves.reshape(-1, 3), line=line)]
    colors, found = colors or layer.colors[1::3], []
    levels = np.clip(len(colors) * numbers / layer.top, 0, len(colors) - 1).astype(int)
    for level in np.unique(levels):
        look: dict[str, Any] = {"line": {"color": colors[level], "width": 1.4}}
        if not layer.streamlines:
            look = {"fill": "toself", "fillcolor": colors[level], "line": {"color": colors[level], "width": 0.3}}
        found.append(curve(curves[levels == level].reshape(-1, 2), **look))
    return found


@dataclass(frozen=True, eq=False)
class Surface:
    """A surface below the arrows: corners ``(m, 3)``, triangles ``(f, 3)``, unit normals of either sign ``(m, 3)``."""

    points: np.ndarray
    faces: np.ndarray
    normals: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, faces: np.ndarray | None) -> Surface | None:
        """Of a mesh, or of a cloud that looks like a surface; otherwise None."""
        if faces is not None and len(faces) <= MAX_FACES:
            normals, across = np.zeros_like(points), face_normals(points, faces)
            for k in range(3):
                np.add.at(normals, faces[:, k], across)
            size = np.linalg.norm(normals, axis=1, keepdims=True)
            return cls(points, faces, normals / np.maximum(size, 1e-300))
        patches = Patches.of_cloud(points[spread_out(points, MAX_DOTS)], coarsest=0.16)
        return None if patches is None else cls(patches.centres, patches.faces(), patches.normals)

    def trace(self, view: View) -> Any:
        """The surface in grey, lit from the first view."""
        light = np.abs(self.normals @ (view.axes.T @ LIGHT_FROM))
        corners = dict(zip("xyz", self.points.T.astype(np.float32), strict=True))
        faces = dict(zip("ijk", self.faces.T.astype(np.int32), strict=True))
        colors = {"colorscale": [[0, "#8d97a1"], [1, "#e6eaee"]], "cmin": 0, "cmax": 1, "showscale": False}
        flat = {"ambient": 1.0, "diffuse": 0.0, "specular": 0.0, "fresnel": 0.0}
        return plotly().Mesh3d(
            **corners, **faces, intensity=light.astype(np.float32), **colors, lighting=flat, hoverinfo="skip"
        )

    def both_sides(self, curves: np.ndarray) -> np.ndarray:
        """Curves ``(m, k, 3)`` lifted off the surface, once to each side ``(2 m, k, 3)``."""
        rows = cKDTree(self.points).query(np.nan_to_num(curves.reshape(-1, 3)))[1]
        normals = self.normals[rows].reshape(curves.shape)
        turns = np.where((normals[:, 1:] * normals[:, :-1]).sum(axis=2) < 0, -1.0, 1.0)  # a curve stays on its side
        normals[:, 1:] *= np.cumprod(turns, axis=1)[..., None]
        lift = 0.015 * extent(self.points) * normals
        return np.concatenate([curves + lift, curves - lift])
