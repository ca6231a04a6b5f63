"""Vector fields on surfaces, in clouds and in the plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ShapeError
from .style import axes_or_new, canvas, length_colors, top_of
from .thinning import reach, spread_out
from .views import Patches, View

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
    view: View | None = None,
    title: str = "",
    colorbar: bool = True,
    axes: Any = None,
) -> Any:
    """Arrows on a surface, in a cloud or in the plane; returns matplotlib axes.

    Surfaces in space, meshes and dense clouds alike, are shaded and hide what lies behind them. At most ``arrows``
    points get one, spread evenly, or the points of these numbers; the longer ones are as long as points are apart.

    Args:
        points: ``(n, D)``; for D > 3 the three widest directions are shown.
        vectors: ambient vectors ``(n, D)``, or None for points alone.
        faces: triangles ``(f, 3)`` of a mesh.
        surface: more points ``(m, 3)`` of the surface, to shade it well where ``points`` are few.
        color: a number for each point ``(n,)``; by default the length of its vector.
        label, top: name and end of the scale of colours.
        scale: length of an arrow for a vector of length one; by default chosen.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> torus = tb.manifolds.Torus()
    >>> points = torus.sample(1000, seed=0)
    >>> axes = tb.plot.field(points, torus.tangent_field(points), title="a torus")
    >>> axes.get_title()
    'a torus'
    """
    points, vectors, names = flat_or_space(points, vectors)
    axes, view = axes_or_new(axes), view or View()
    seen = np.arange(len(points))
    if points.shape[1] == 2:
        places, moves, depth = points, vectors, None
        axes.scatter(*points[spread_out(points, 4000)].T, s=4, color="0.8", linewidths=0, zorder=0)
    else:
        cloud = points if surface is None else surface
        patches = Patches.of_cloud(cloud) if faces is None else Patches.of_mesh(points, faces)
        places = view.project(points)
        moves = None if vectors is None else view.project(vectors)
        if patches is None:
            depth = (places[:, 2] - places[:, 2].min()) / (np.ptp(places[:, 2]) or 1.0)
            rows = spread_out(points, 6000)
            axes.scatter(*places[rows, :2].T, s=7, color="0.6", alpha=0.2 + 0.5 * depth[rows], linewidths=0, zorder=0)
        else:
            shading, depth = patches.shade(view), None
            grey = np.dstack([0.6 + 0.37 * np.nan_to_num(shading.light)] * 3 + [np.isfinite(shading.light)])
            axes.imshow(grey, extent=shading.extent, origin="lower", interpolation="bilinear", zorder=0)
            seen = np.flatnonzero(shading.visible(points))
    if moves is not None and vectors is not None:
        shown = chosen(points, seen, arrows)
        length = np.linalg.norm(vectors, axis=1)
        long = length[shown] > 1e-3 * top_of(length)
        shown = shown[long] if long.any() else shown
        values = length if color is None else color
        if scale is None:
            scale = reach(points[shown]) / top_of(length)
        if depth is not None:
            shown = shown[np.argsort(depth[shown])]
        drawn = axes.quiver(
            *places[shown, :2].T,
            *(scale * moves[shown, :2].T),
            values[shown],
            cmap=length_colors(),
            clim=(0, top_of(values) if top is None else top),
            alpha=None if depth is None else 0.3 + 0.7 * depth[shown],
            width=0.0036,
            **ARROW,
        )
        if colorbar:
            axes.figure.colorbar(drawn, ax=axes, label=label, shrink=0.7)
    axes.set_aspect("equal")
    if points.shape[1] == 2:
        axes.set(xlabel=names[0], ylabel=names[1])
    else:
        axes.set_axis_off()
    axes.margins(0.04)
    axes.set_title(title)
    return axes


def fields(
    points: np.ndarray,
    panels: Mapping[str, np.ndarray],
    *,
    truth: np.ndarray | None = None,
    colors: Mapping[str, np.ndarray] | None = None,
    **options: Any,
) -> Any:
    """The same points in every panel, a field ``(n, D)`` each, drawn alike; returns the matplotlib figure.

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
    figure, axes = canvas(1, len(panels), (4.8, 4.0))
    colors = colors or {k: np.linalg.norm(v if truth is None else v - truth, axis=1) for k, v in panels.items()}
    lengths = np.concatenate([np.linalg.norm(v, axis=1) for v in panels.values()])
    shown = points[chosen(points, np.arange(len(points)), options.get("arrows", 700))]
    options = {
        "label": "length" if truth is None else "length of the error",
        "top": top_of(np.concatenate(list(colors.values()))),
        "scale": reach(shown) / top_of(lengths),
        **options,
    }
    for axis, (title, vectors) in zip(axes[0], panels.items(), strict=True):
        field(points, vectors, color=colors[title], title=title, colorbar=False, axes=axis, **options)
    figure.colorbar(axes[0, -1].collections[-1], ax=axes, label=options["label"], shrink=0.7)
    return figure


def chosen(points: np.ndarray, seen: np.ndarray, arrows: int | np.ndarray) -> np.ndarray:
    """Which of the points seen get arrows."""
    if isinstance(arrows, np.ndarray):
        return np.intersect1d(arrows, seen)
    return seen[spread_out(points[seen], arrows)]


def principal_axes(points: np.ndarray) -> np.ndarray | None:
    """The three widest directions ``(D, 3)`` of points in more than three dimensions."""
    if points.shape[1] <= 3:
        return None
    few = points[:: len(points) // 20_000 + 1]
    return np.linalg.svd(few - few.mean(axis=0), full_matrices=False)[2][:3].T


def flat_or_space(
    points: np.ndarray, vectors: np.ndarray | None, axes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Points and vectors in two or three dimensions, and names of the axes; more are seen along the widest ones."""
    points = np.asarray(points, dtype=float)
    vectors = None if vectors is None else np.asarray(vectors, dtype=float)
    if points.ndim != 2 or (vectors is not None and vectors.shape != points.shape):
        got = points.shape if vectors is None else (points.shape, vectors.shape)
        raise ShapeError(f"expected points (n, D) and ambient vectors (n, D), got {got}.")
    dim = points.shape[1]
    if dim == 1:
        points = np.hstack([points, np.zeros_like(points)])
        return points, None if vectors is None else np.hstack([vectors, np.zeros_like(vectors)]), ("x", "")
    if dim <= 3:
        return points, vectors, ("x", "y", "z")[:dim]
    axes = principal_axes(points) if axes is None else axes
    return points @ axes, None if vectors is None else vectors @ axes, tuple(f"principal axis {k}" for k in (1, 2, 3))
