"""Illustrations of the theory: a tangent space, parallel transport, diffusion, responses of
filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from matplotlib.collections import LineCollection
from scipy.sparse.csgraph import dijkstra

from tangentbundle import Heat, TangentBundle
from tangentbundle.directions import DirectionField
from tangentbundle.errors import InvalidInputError
from tangentbundle.filters import Filter
from tangentbundle.operators import Laplacian
from tangentbundle.plot import View, canvas, field
from tangentbundle.plot.fields import ARROW
from tangentbundle.plot.style import LINES
from tangentbundle.plot.surfaces import Surface
from tangentbundle.plot.views import spacing, spread_out


def tangent_space(
    bundle: TangentBundle,
    point: int,
    vector: np.ndarray | None = None,
    *,
    view: View | None = None,
    axes: Any = None,
) -> Any:
    """A point of a surface, the plane of its frame, and a tangent vector ``(3,)`` in it; returns
    axes.

    The plane is as wide as the neighbourhoods of the bundle; without a vector the frame's first one
    is drawn.
    """
    frame = _frames(bundle)[point]
    vector = frame[:, 0] if vector is None else frame @ (frame.T @ np.asarray(vector, dtype=float))
    return tangent_planes(
        bundle, [point], [vector], 1.6 * bundle.eps**0.5, {"x": point}, view or View(), axes
    )


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
    r"""A vector carried along the edges of the graph, by the connection of the bundle; returns
    axes.

    The path is the shortest one, and the vector at its next point is :math:`O_{ji} v_i`.
    """
    frames, path, view = _frames(bundle), shortest_path(bundle, start, end), view or View()
    coordinates = frames[start].T @ (
        frames[start][:, 0] if vector is None else np.asarray(vector, dtype=float)
    )
    carried = [frames[start] @ coordinates]
    for before, here in pairwise(path):
        coordinates = transport_block(bundle, here, before) @ coordinates
        carried.append(frames[here] @ coordinates)
    shown = np.unique(np.linspace(0, len(path) - 1, planes).round().astype(int))
    rows, vectors, names = (
        [path[k] for k in shown],
        [carried[k] for k in shown],
        {"i": start, "j": end},
    )
    axes = tangent_planes(bundle, rows, vectors, 0.6 * bundle.eps**0.5, names, view, axes)
    axes.plot(
        *view.project(np.asarray(bundle.points)[path])[:, :2].T,
        "-",
        color=LINES[3],
        lw=1.2,
        zorder=2,
    )
    return axes


def diffusion(
    bundle: TangentBundle,
    vectors: np.ndarray,
    times: Sequence[float] = (0.0, 0.01, 0.05, 0.2),
    **options: Any,
) -> Any:
    r"""A field ``(n, 3)`` spread by heat flow, :math:`e^{t \Delta} f`, at several times; returns
    the figure.

    Arrows show directions; colours are lengths relative to the longest vector at that time.
    """
    _frames(bundle)
    points = np.asarray(bundle.points, dtype=float)
    options = {"arrows": 300, "scale": 1.6 * spacing(points[spread_out(points, 600)]), **options}
    lap, f = bundle.laplacian(), bundle.to_coordinates(vectors)
    figure, axes = canvas(1, len(times), (3.8, 3.2))
    for axis, t in zip(axes[0], times, strict=True):
        flowed = np.asarray(bundle.to_ambient(Heat(t)(lap, f)), dtype=float)
        length = np.linalg.norm(flowed, axis=1)
        relative = length / (length.max() or 1.0)
        directions = (
            np.where(relative > 0.02, 1 / np.maximum(length, 1e-300), 0.0)[:, None] * flowed
        )
        label, bar = "length, of the longest", t == times[-1]
        look = {
            "color": relative,
            "top": 1.0,
            "label": label,
            "title": f"$t = {t:g}$",
            "colorbar": bar,
            **options,
        }
        field(points, directions, axes=axis, **look)
    return figure


def response(filter: Filter, operator: Laplacian, axes: Any, eigenvalues: int = 40) -> Any:
    r"""The response of a filter, with stems at the smallest ``eigenvalues`` of an operator; returns
    axes.

    The dashed line is :math:`\lambda^{-2}`, the decay that the paper asks of lowpass filters. The
    title has the paper's three properties; a filter with that decay is called bandpass if its
    response is not largest at zero.
    """
    lam = np.asarray(
        torch.as_tensor(operator.spectrum(min(eigenvalues, operator.shape[0]))[0]).cpu(),
        dtype=float,
    )
    line = np.linspace(0.0, 1.05 * lam[-1], 600)[1:]
    with torch.no_grad():
        at_line, at_lam = (np.asarray(filter.response(values)) for values in (line, lam))
    peak, found = float(np.abs([*at_line, *at_lam]).max()), filter.properties()
    axes.plot(line, line**-2.0, "--", color=LINES[2], lw=1.5, label=r"$\lambda^{-2}$")
    axes.plot(line, at_line, color=LINES[4], lw=1.6, label=r"response $\hat h(\lambda)$")
    axes.vlines(lam, 0, at_lam, color=LINES[4], lw=1, alpha=0.4)
    axes.plot(lam, at_lam, "o", color=LINES[4], ms=4, label=f"first {len(lam)} eigenvalues")
    axes.axhline(0.0, color="0.6", lw=0.8)
    axes.set(xlabel="eigenvalue of $-\\Delta$", ylabel="response", xlim=(0.0, line[-1]))
    axes.set_ylim(min(0.0, 1.1 * at_line.min()), 1.1 * max(peak, 1e-12))
    kind = "lowpass" if abs(at_line[0]) > 0.999 * np.abs(at_line).max() else "bandpass"
    kind = kind if found.lowpass else "without decay $\\lambda^{-2}$"
    axes.set_title(
        f"{kind}\nLipschitz constant {found.lipschitz:.3g}, largest gain {found.gain:.3g}",
        fontsize=10,
    )
    axes.legend(frameon=False)
    return axes


def _frames(bundle: TangentBundle) -> np.ndarray:
    if bundle.ambient_dim != 3 or bundle.rank != 2:
        got = f"d = {bundle.rank}, D = {bundle.ambient_dim}"
        raise InvalidInputError(f"this picture needs a surface in space (d = 2, D = 3), got {got}.")
    return np.asarray(bundle.frames, dtype=float)


def shortest_path(bundle: TangentBundle, start: int, end: int) -> list[int]:
    """The shortest path in the graph, over squared lengths: many short steps."""
    graph = bundle.graph.to_scipy()
    graph.data = graph.data**2
    before = dijkstra(graph, directed=False, indices=start, return_predecessors=True)[1]
    path = [end]
    while path[-1] != start:
        if before[path[-1]] < 0:
            raise InvalidInputError(
                f"points {start} and {end} lie in different components: no path joins them."
            )
        path.append(int(before[path[-1]]))
    return path[::-1]


def transport_block(bundle: TangentBundle, i: int, j: int) -> np.ndarray:
    """The transport from j to its neighbour i, ``(d, d)``."""
    place = bundle.cloud.curve_order.argsort()
    graph = bundle.sorted_graph
    edge = ((graph.rows == place[i]) & (graph.indices == place[j])).nonzero().flatten()
    return bundle.connection.blocks(edge)[0].numpy()


def tangent_planes(
    bundle: TangentBundle,
    rows: Sequence[int],
    vectors: Sequence[np.ndarray],
    size: float,
    names: Mapping[str, int],
    view: View,
    axes: Any,
) -> Any:
    """The surface with squares of half side ``size`` in the tangent planes of points, a vector in
    each, and names."""
    points, frames = np.asarray(bundle.points, dtype=float), np.asarray(bundle.frames, dtype=float)
    axes = field(points, view=view, axes=axes)
    for row in rows:
        corners = (
            points[row] + size * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) @ frames[row].T
        )
        axes.fill(
            *view.project(corners)[:, :2].T,
            facecolor=LINES[4],
            edgecolor=LINES[3],
            alpha=0.35,
            zorder=2.5,
        )
    feet, units = (
        points[rows],
        np.array([size * vector / (np.linalg.norm(vector) or 1.0) for vector in vectors]),
    )
    x, y = view.project(feet)[:, :2].T
    axes.quiver(x, y, *view.project(units)[:, :2].T, color=LINES[1], width=0.007, zorder=3, **ARROW)
    axes.plot(x, y, "o", ms=4, color="black", zorder=4)
    for name, row in names.items():
        place = view.project(points[row])[:2]
        axes.annotate(f"${name}$", place, (-9, -11), textcoords="offset points", fontsize=12)
    return axes


def directions(
    direction_field: DirectionField,
    *,
    faces: np.ndarray | None = None,
    count: int = 260,
    length: float = 0.1,
    view: View | None = None,
    title: str = "",
    axes: Any = None,
) -> Any:
    """Curves along the directions of a field on a surface in space, and its singular points, red
    where the index is positive and blue where it is negative; returns axes.

    ``length`` is that of a curve, in units of the size of the surface.
    """
    points = np.asarray(direction_field.bundle.points)
    view = view or View()
    axes = field(points, faces=faces, view=view, title=title, axes=axes)
    surface = Surface.of(points, faces)
    starts = points[spread_out(points, count)]
    steps = 16
    step = length * float(np.ptp(points, axis=0).max()) / (2 * steps)
    branches = (direction_field.order + 1) // 2
    curves = np.concatenate(
        [
            direction_field.streamlines(starts, branch=branch, steps=steps, step=step)
            for branch in range(branches)
        ]
    )
    is_visible = surface.visible(view, curves[:, steps])
    lines = view.project(curves[is_visible])[..., :2]
    axes.add_collection(LineCollection(list(lines), colors=LINES[3], linewidths=0.8, zorder=2))
    singular = direction_field.singularities()
    is_visible = surface.visible(view, singular.positions)
    places = view.project(singular.positions[is_visible])
    colors = np.where(singular.index[is_visible] > 0, "#d62728", "#1f77ff")
    axes.scatter(*places[:, :2].T, c=colors, s=28, zorder=3, edgecolors="white", linewidths=0.6)
    return axes
