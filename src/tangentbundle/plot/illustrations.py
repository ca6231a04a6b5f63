"""Illustrations of the theory: a tangent space, parallel transport, diffusion, surfaces and their point clouds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import dijkstra

from ..errors import InvalidInputError
from ..filters import Heat
from .fields import ARROW, field, fields
from .style import LINES, canvas
from .views import View, spacing, spread_out

if TYPE_CHECKING:
    from ..bundle import TangentBundle
    from ..manifolds import Manifold


def tangent_space(
    bundle: TangentBundle, point: int, vector: np.ndarray | None = None, *, view: View | None = None, axes: Any = None
) -> Any:
    """A point of a surface, the plane of its frame, and a tangent vector ``(3,)`` in it; returns axes.

    The plane is as wide as the neighbourhoods of the bundle; without a vector the frame's first one is drawn.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(2000, seed=0))
    >>> axes = tb.plot.tangent_space(bundle, 0, view=tb.plot.View(30, 40))
    """
    points, frames, view = _surface(bundle), np.asarray(bundle.frames), view or View()
    axes = field(points, view=view, axes=axes)
    basis, size = frames[point], 1.6 * bundle.eps**0.5
    vector = basis[:, 0] if vector is None else basis @ (basis.T @ np.asarray(vector, dtype=float))
    vector = 0.8 * size * vector / (np.linalg.norm(vector) or 1.0)
    _plane(axes, view, points[point], basis, size)
    _arrow(axes, view, points[point], vector, LINES[1], "$v$")
    axes.annotate("$x$", view.project(points[point])[:2], (-9, -11), textcoords="offset points", fontsize=12)
    return axes


def transport(
    bundle: TangentBundle,
    start: int,
    end: int,
    vector: np.ndarray | None = None,
    *,
    view: View | None = None,
    planes: int = 5,
    axes: Any = None,
) -> Any:
    r"""A vector carried along the edges of the graph, by the connection of the bundle; returns axes.

    The path is the shortest one, and the vector at its next point is :math:`O_{ji} v_i`.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(1500, seed=0))
    >>> axes = tb.plot.transport(bundle, 0, 800)
    """
    points, frames, view = _surface(bundle), np.asarray(bundle.frames), view or View()
    path = _path(bundle, start, end)
    first = frames[start][:, 0] if vector is None else np.asarray(vector, dtype=float)
    coordinates, carried = frames[start].T @ first, []
    for number, here in enumerate(path):
        if number:
            coordinates = _block(bundle, here, path[number - 1]) @ coordinates
        carried.append(frames[here] @ coordinates)
    axes = field(points, view=view, axes=axes)
    axes.plot(*view.project(points[path])[:, :2].T, "-", color=LINES[3], lw=1.2, zorder=2)
    size = 0.5 * bundle.eps**0.5
    for k in np.unique(np.linspace(0, len(path) - 1, planes).round().astype(int)):
        here = points[path[k]]
        _plane(axes, view, here, frames[path[k]], size)
        _arrow(axes, view, here, 1.5 * size * carried[k] / np.linalg.norm(carried[k]), LINES[1], "")
    for name, point, move in (("$i$", start, (-10, -10)), ("$j$", end, (6, 6))):
        axes.annotate(name, view.project(points[point])[:2], move, textcoords="offset points", fontsize=12)
    return axes


def diffusion(
    bundle: TangentBundle, vectors: np.ndarray, times: Sequence[float] = (0.0, 0.01, 0.05, 0.2), **options: Any
) -> Any:
    r"""A field ``(n, 3)`` spread by heat flow, :math:`e^{t \Delta} f`, at several times; returns the figure.

    Arrows show directions of all vectors above a fiftieth of the longest; colours are relative to the longest of each
    time.

    >>> import tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(1500, seed=0))
    >>> impulse = np.zeros((1500, 3))
    >>> impulse[0] = bundle.frames[0, :, 0]
    >>> figure = tb.plot.diffusion(bundle, impulse, (0.0, 0.1))
    """
    points, size = _surface(bundle), np.linalg.norm(vectors, axis=1)
    sources = np.argsort(-size)[: min(int((size > 0).sum()), 20)]
    lap, f, panels, colors = bundle.laplacian(), bundle.to_coordinates(vectors), {}, {}
    for t in times:
        flowed = np.asarray(bundle.to_ambient(Heat(t)(lap, f)), dtype=float)
        length = np.linalg.norm(flowed, axis=1)
        relative = length / (length.max() or 1.0)
        title = f"$t = {t:g}$"
        panels[title] = np.where(relative > 0.02, 1 / np.maximum(length, 1e-300), 0.0)[:, None] * flowed
        colors[title] = relative
    options = {
        "arrows": np.union1d(spread_out(points, 600), sources),
        "scale": 1.6 * spacing(points[spread_out(points, 600)]),
        **options,
    }
    return fields(points, panels, colors=colors, top=1.0, label="length, of the longest", **options)


def surfaces(panels: Mapping[str, Manifold], points: int = 100, *, seed: int = 0, view: View | None = None) -> Any:
    """Surfaces in space, and a random cloud of ``points`` on each; returns the figure.

    >>> import tangentbundle as tb
    >>> shapes = {"torus": tb.manifolds.Torus(), "Klein bottle": tb.manifolds.KleinBottle(3)}
    >>> figure = tb.plot.surfaces(shapes)
    >>> [axes.get_title() for axes in figure.axes]
    ['torus', 'Klein bottle']
    """
    figure, axes = canvas(1, len(panels), (4.6, 3.8))
    for axis, (title, manifold) in zip(axes[0], panels.items(), strict=True):
        cloud, dense = np.asarray(manifold.sample(points, seed=seed + 1)), manifold.sample(60_000, seed=seed)
        field(cloud, surface=np.asarray(dense), view=view or View(38, -50), axes=axis, title=title)
    return figure


def _surface(bundle: TangentBundle) -> np.ndarray:
    if bundle.ambient_dim != 3 or bundle.rank != 2:
        raise InvalidInputError(
            f"this picture needs a surface in space (d = 2, D = 3), got d = {bundle.rank}, D = {bundle.ambient_dim}."
        )
    return np.asarray(bundle.points, dtype=float)


def _path(bundle: TangentBundle, start: int, end: int) -> list[int]:
    """The shortest path in the graph, over squared lengths: many short steps."""
    graph = bundle.graph.to_scipy()
    graph.data = graph.data**2
    before = dijkstra(graph, directed=False, indices=start, return_predecessors=True)[1]
    path = [end]
    while path[-1] != start:
        if before[path[-1]] < 0:
            raise InvalidInputError(f"points {start} and {end} lie in different components: no path joins them.")
        path.append(int(before[path[-1]]))
    return path[::-1]


def _block(bundle: TangentBundle, i: int, j: int) -> np.ndarray:
    """The transport from j to its neighbour i, ``(d, d)``."""
    place, graph = np.argsort(bundle.order), bundle.sorted_graph
    start, stop = graph.indptr[place[i]], graph.indptr[place[i] + 1]
    edge = start + np.flatnonzero(graph.indices[start:stop] == place[j])
    return np.asarray(bundle.connection.blocks(edge))[0]


def _plane(axes: Any, view: View, point: np.ndarray, basis: np.ndarray, size: float) -> None:
    corners = point + size * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) @ basis.T
    axes.fill(*view.project(corners)[:, :2].T, facecolor=LINES[4], edgecolor=LINES[3], alpha=0.35, lw=1, zorder=2.5)


def _arrow(axes: Any, view: View, point: np.ndarray, vector: np.ndarray, color: str, name: str) -> None:
    foot, move = view.project(point)[:2], view.project(vector)[:2]
    axes.quiver(*foot, *move, color=color, width=0.007, zorder=3, **ARROW)
    axes.plot(*foot, "o", ms=4, color="black", zorder=4)
    if name:
        axes.annotate(name, foot + move, (5, 2), textcoords="offset points", color=color, fontsize=12)
