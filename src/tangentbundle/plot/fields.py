"""Vector fields on surfaces, in point clouds and in the plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..errors import ShapeError
from ..extras import extra
from .streamlines import streamlines as follow
from .style import LINES, add_color_bar, axes_or_new, canvas, length_colors, top_of
from .views import Patches, View, reach, spread_out

ARROW = {"angles": "xy", "scale_units": "xy", "scale": 1, "headwidth": 3.6, "headlength": 4.4, "headaxislength": 4.0}


def field(
    points: np.ndarray,
    vectors: np.ndarray | None = None,
    *,
    faces: np.ndarray | None = None,
    surface: np.ndarray | None = None,
    color: np.ndarray | None = None,
    label: str = "length",
    top: float | None = None,
    arrows: int | np.ndarray = 700,
    scale: float | None = None,
    streamlines: bool = False,
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
        arrows: the largest number of arrows, spread evenly, or the rows of the points that get one.
        scale: length of an arrow for a vector of length one; by default long arrows reach the next one.
        streamlines: draw curves along the vectors instead of arrows.

    >>> import tangentbundle as tb
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(1000, seed=0)
    >>> axes = tb.plot.field(points, torus.tangent_field(points), title="a torus")
    >>> axes.get_title()
    'a torus'
    """
    points, vectors, names = flat_or_space(points, vectors)
    axes, view = axes_or_new(axes), view or View()
    seen, opacity = np.ones(len(points), dtype=bool), None
    if points.shape[1] == 2:
        axes.scatter(*points[spread_out(points, 4000)].T, s=4, color="0.8", linewidths=0, zorder=0)
        axes.set(xlabel=names[0], ylabel=names[1])
    elif (patches := Patches.of(points if surface is None else surface, faces)) is not None:
        seen = _draw_surface(axes, patches, view, points)
    else:
        opacity = _draw_cloud(axes, view.project(points))
    if vectors is not None:
        values = np.linalg.norm(vectors, axis=1) if color is None else color
        look: dict[str, Any] = {"cmap": length_colors(), "clim": (0, top_of(values) if top is None else top)}
        if streamlines:
            drawn = _draw_streamlines(axes, points, vectors, values, seen, view, **look)
        else:
            rows = _with_arrows(points, vectors, np.flatnonzero(seen), arrows)
            drawn = _draw_arrows(axes, points, vectors, values, rows, view, scale, opacity, **look)
        if colorbar:
            add_color_bar(axes, drawn, values, label, shrink=0.7)
    elif surface is not None:
        for rows, dot in ((seen, {"s": 16}), (~seen, {"s": 7, "alpha": 0.3})):  # faint behind the surface
            axes.scatter(*view.project(points)[rows, :2].T, color=LINES[1], linewidths=0, zorder=3, **dot)
    axes.margins(0.04)
    axes.set(aspect="equal", title=title)
    return axes


def fields(
    points: np.ndarray,
    panels: Mapping[str, np.ndarray],
    *,
    truth: np.ndarray | None = None,
    colors: Mapping[str, np.ndarray] | None = None,
    **options: Any,
) -> Any:
    """Several fields ``(n, D)`` at the same points, a panel each, on one scale; returns the matplotlib figure.

    Colours are the lengths of errors if the ``truth`` is given, ``colors`` {panel: numbers ``(n,)``} if they are, and
    the lengths of the vectors otherwise. Other options are those of ``field``.

    >>> import tangentbundle as tb
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(500, seed=0)
    >>> clean = torus.tangent_field(points)
    >>> figure = tb.plot.fields(points, {"clean": clean, "twice": 2 * clean}, truth=clean)
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['clean', 'twice']
    """
    figure, axes = canvas(1, len(panels), (3.8, 3.2))
    colors = colors or {k: np.linalg.norm(v if truth is None else v - truth, axis=1) for k, v in panels.items()}
    arrows = options.get("arrows", 700)
    shown = arrows if isinstance(arrows, np.ndarray) else spread_out(points, arrows)
    options = {
        "label": "length" if truth is None else "length of the error",
        "top": top_of(np.concatenate(list(colors.values()))),
        "scale": arrow_scale(points[shown], np.concatenate(list(panels.values()))),
        **options,
    }
    for axis, (title, vectors) in zip(axes[0], panels.items(), strict=True):
        field(points, vectors, color=colors[title], title=title, colorbar=False, axes=axis, **options)
    add_color_bar(axes, axes[0, -1].collections[-1], np.concatenate(list(colors.values())), options["label"], 0.7)
    return figure


def arrow_scale(points: np.ndarray, vectors: np.ndarray) -> float:
    """The factor that makes long vectors at points ``(n, D)`` reach to the neighbours."""
    return reach(points) / top_of(np.linalg.norm(vectors, axis=1))


def _draw_arrows(
    axes: Any,
    points: np.ndarray,
    vectors: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    view: View,
    scale: float | None,
    opacity: np.ndarray | None,
    **look: Any,
) -> Any:
    """Arrows at some rows of the points, near ones on top of far ones, with the colours of the values."""
    places, moves = view.project(points), view.project(vectors)
    rows = rows[np.argsort(places[rows, -1])]
    scale = arrow_scale(points[rows], vectors) if scale is None else scale
    look |= {"alpha": None if opacity is None else opacity[rows], "width": 0.0036, **ARROW}
    return axes.quiver(*places[rows, :2].T, *(scale * moves[rows, :2].T), values[rows], **look)


def _draw_streamlines(
    axes: Any, points: np.ndarray, vectors: np.ndarray, values: np.ndarray, visible: np.ndarray, view: View, **look: Any
) -> Any:
    """Curves along the vectors, with the colours of the values; those behind a surface are left out."""
    curves = follow(points, vectors)
    known = np.isfinite(curves[..., 0])
    near = cKDTree(points).query(np.where(known[..., None], curves, 0.0))[1]
    known &= visible[near]
    places = view.project(curves)[..., :2]
    pieces = np.stack([places[:, :-1], places[:, 1:]], axis=2)[known[:, :-1] & known[:, 1:]]
    lines = extra("matplotlib.collections", "Figures", "plot").LineCollection
    return axes.add_collection(lines(pieces, array=values[near][:, :-1][known[:, :-1] & known[:, 1:]], **look))


def _draw_cloud(axes: Any, places: np.ndarray) -> np.ndarray:
    """Dots, fainter toward the back; returns the opacity of each point."""
    axes.set_axis_off()
    depth = (places[:, 2] - places[:, 2].min()) / (np.ptp(places[:, 2]) or 1.0)
    rows = spread_out(places, 6000)
    axes.scatter(*places[rows, :2].T, s=7, color="0.6", alpha=0.2 + 0.5 * depth[rows], linewidths=0, zorder=0)
    return 0.3 + 0.7 * depth


def _draw_surface(axes: Any, patches: Patches, view: View, points: np.ndarray) -> np.ndarray:
    """A shaded surface; returns which points lie on its visible side."""
    axes.set_axis_off()
    light, extent, seen = patches.shade(view, points)
    grey = np.dstack([0.6 + 0.37 * np.nan_to_num(light)] * 3 + [np.isfinite(light)])
    axes.imshow(grey, extent=extent, origin="lower", interpolation="bilinear", zorder=0)
    return seen


def _with_arrows(points: np.ndarray, vectors: np.ndarray, visible: np.ndarray, arrows: int | np.ndarray) -> np.ndarray:
    """Rows of the points that get arrows: visible, spread evenly, and not of vectors too short to draw."""
    chosen = isinstance(arrows, np.ndarray)
    shown = np.intersect1d(arrows, visible) if chosen else visible[spread_out(points[visible], int(arrows))]
    length = np.linalg.norm(vectors, axis=1)
    long = length[shown] > 1e-3 * top_of(length)
    return shown[long] if long.any() else shown


def flat_or_space(
    points: np.ndarray, vectors: np.ndarray | None, axes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Points and vectors in two or three dimensions, along ``axes`` ``(D, 2 or 3)``, and the names of these."""
    points = np.asarray(points, dtype=float)
    vectors = None if vectors is None else np.asarray(vectors, dtype=float)
    if points.ndim != 2 or (vectors is not None and vectors.shape != points.shape):
        got = points.shape if vectors is None else (points.shape, vectors.shape)
        raise ShapeError(f"expected points (n, D) and ambient vectors (n, D), got {got}.")
    axes = shown_axes(points) if axes is None else axes
    names = ("x", "y", "z") if points.shape[1] <= 3 else ("principal axis 1", "principal axis 2", "principal axis 3")
    return points @ axes, None if vectors is None else vectors @ axes, names[: axes.shape[1]]


def shown_axes(points: np.ndarray) -> np.ndarray:
    """Directions ``(D, 2 or 3)`` to draw points ``(n, D)`` along: the axes, or the three widest directions."""
    if points.shape[1] <= 3:
        return np.eye(points.shape[1], max(points.shape[1], 2))
    subset = points[:: len(points) // 20_000 + 1]
    return np.linalg.svd(subset - subset.mean(axis=0), full_matrices=False)[2][:3].T
