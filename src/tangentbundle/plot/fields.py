"""Vector fields on surfaces, in point clouds and in the plane, with matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, float_tensor, host
from ..errors import ShapeError
from .layers import in_picture
from .style import LINES, add_color_bar, axes_or_new, length_colors, top_of
from .surfaces import Surface
from .views import View, box_around, reach, spread_out, tips, usual_up

MAX_PLANE_DOTS = 4000
"""Dots below the arrows in the plane."""

ARROW = {
    "angles": "xy",
    "scale_units": "xy",
    "scale": 1,
    "headwidth": 3.6,
    "headlength": 4.4,
    "headaxislength": 4.0,
}


def field(
    points: Array,
    vectors: Array | None = None,
    *,
    faces: np.ndarray | None = None,
    surface: Array | None = None,
    color: np.ndarray | None = None,
    label: str = "length",
    top: float | None = None,
    arrows: int = 700,
    scale: float | None = None,
    view: View | None = None,
    title: str = "",
    colorbar: bool = True,
    axes: Any = None,
) -> Any:
    """Arrows on a surface, in a point cloud or in the plane; returns matplotlib axes.

    Surfaces in space, meshes and dense clouds alike, are shaded and hide what lies behind them.

    Args:
        points: ``(n, D)``; for D > 3 the three principal axes are shown.
        vectors: ambient vectors ``(n, D)``, or None for points alone.
        faces: triangles ``(f, 3)`` of a mesh.
        surface: more points ``(m, 3)`` of the surface, to shade it well where ``points`` are few.
        color: a number for each point ``(n,)``; by default the length of its vector.
        label, top: name and end of the colour scale.
        arrows: the largest number of arrows, spread evenly.
        scale: length of an arrow for a vector of length one; by default long arrows reach the next
            one.
        view: from where; by default from above, with the axis up along which a mesh seems to stand
            (``tangentbundle.upright``), and z for clouds.

    >>> import tangentbundle as tb
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(1000, seed=0)
    >>> axes = tb.plot.field(points, torus.tangent_field(points), title="a torus")
    >>> axes.get_title()
    'a torus'
    """
    points, vectors, names = in_picture(points, vectors)
    axes = axes_or_new(axes)
    if view is None:
        view = View(up=usual_up(points, faces))
    depth = None
    visible = np.ones(len(points), dtype=bool)
    body = _surface_of(points, surface, faces)
    if points.shape[1] == 2:
        dots = points[spread_out(points, MAX_PLANE_DOTS)]
        axes.scatter(*dots.T, s=4, color="0.8", linewidths=0, zorder=0)
        axes.set(xlabel=names[0], ylabel=names[1])
    elif body is not None:
        _draw_surface(axes, body, view)
        visible = body.visible(view, points)
    else:
        depth = _draw_cloud(axes, view.project(points))
    if vectors is not None:
        length = np.linalg.norm(vectors, axis=1)
        values = _colors(color, length)
        places = view.project(points)
        rows = _arrow_rows(points, places, length, visible, arrows)
        longest = reach(points[rows]) if scale is None else scale * top_of(length)
        moves = longest / top_of(length) * view.project(vectors[rows])
        ends = tips(places[rows], moves, 2 * longest)
        axes.update_datalim(np.stack(box_around(places[:, :2], ends[:, :2], margin=0.0)))
        drawn = axes.quiver(
            *places[rows, :2].T,
            *moves[:, :2].T,
            values[rows],
            width=0.0036,
            cmap=length_colors(),
            clim=(0, top_of(values) if top is None else top),
            alpha=None if depth is None else 0.3 + 0.7 * depth[rows],
            **ARROW,
        )
        if colorbar:
            add_color_bar(axes, drawn, values, label, shrink=0.7)
    elif surface is not None:
        _draw_points(axes, view.project(points), visible)
    axes.margins(0.04)
    axes.set(aspect="equal", title=title)
    return axes


def _surface_of(
    points: np.ndarray, surface: Array | None, faces: np.ndarray | None
) -> Surface | None:
    """The surface to shade in space, of more points if these are given; None in the plane."""
    if points.shape[1] == 2:
        return None
    if surface is not None:
        points = in_picture(surface, None)[0]
    return Surface.of(points, faces)


def _colors(color: np.ndarray | None, length: np.ndarray) -> np.ndarray:
    """A number for each arrow, by default its length."""
    if color is None:
        return length
    values = host(float_tensor(color, "color")[0].detach())
    if values.shape != length.shape:
        raise ShapeError(
            f"expected a color {length.shape}, a number for each point, got shape {values.shape}."
        )
    return values


def _draw_points(axes: Any, places: np.ndarray, visible: np.ndarray) -> None:
    """Dots on a surface, faint behind it."""
    look = {"color": LINES[1], "linewidths": 0, "zorder": 3}
    axes.scatter(*places[visible, :2].T, s=16, **look)
    axes.scatter(*places[~visible, :2].T, s=7, alpha=0.3, **look)


def _arrow_rows(
    points: np.ndarray, places: np.ndarray, length: np.ndarray, visible: np.ndarray, count: int
) -> np.ndarray:
    """Points that get arrows, near ones last: visible ones, spread evenly, whose vectors are not
    too short to draw."""
    is_long = (length > 1e-3 * top_of(length)) | (length.max() == 0)
    rows = np.flatnonzero(visible & is_long)
    share = len(rows) / max(visible.sum(), 1)
    rows = rows[spread_out(points[rows], max(round(count * share), 2))]
    return rows[np.argsort(places[rows, -1])]


def _draw_cloud(axes: Any, places: np.ndarray) -> np.ndarray:
    """Dots, fainter toward the back; returns the depth of each point, 0 at the back and 1 in
    front."""
    axes.set_axis_off()
    depth = 1 - (places[:, 2].max() - places[:, 2]) / (np.ptp(places[:, 2]) or 1.0)
    rows = spread_out(places, 6000)
    axes.scatter(
        *places[rows, :2].T, s=7, color="0.6", alpha=0.2 + 0.5 * depth[rows], linewidths=0, zorder=0
    )
    return depth


def _draw_surface(axes: Any, body: Surface, view: View) -> None:
    """Shaded triangles, near ones on top of far ones."""
    axes.set_axis_off()
    places = view.project(body.points)
    faces = body.faces[np.argsort(places[body.faces, 2].mean(axis=1))]
    look = {
        "cmap": "gray",
        "vmin": -1.6,
        "vmax": 1.08,
        "shading": "gouraud",
        "rasterized": True,
        "zorder": 0,
    }
    axes.tripcolor(*places[:, :2].T, faces, body.light(view), **look)
