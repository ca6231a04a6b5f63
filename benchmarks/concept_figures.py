"""One figure for each word of the page of concepts, from computed objects:
``python -m benchmarks figures concept_manifold`` draws one.

All have the size of a column of text. Points, planes and transports are those of the library; only
the stalks of the sheaf are placed by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tangentbundle as tb
from tangentbundle.plot.fields import ARROW
from tangentbundle.plot.style import LINES

from . import illustrations
from .paper_figures import VIEW, sphere, toward

SIZE = (4.6, 3.6)
"""Inches of a figure."""

BLUE, RED, TEAL, GREY = LINES[3], LINES[1], LINES[4], "0.55"
TORUS = tb.manifolds.Torus(1.0, 0.45)
TORUS_VIEW = tb.plot.View(elevation=42, azimuth=20)


def arrow(axes: Any, foot: np.ndarray, move: np.ndarray, color: Any, width: float = 0.009) -> None:
    """One arrow of a plane picture."""
    axes.quiver(*foot, *move, color=color, width=width, zorder=5, **ARROW)


def frames_of(axes: Any, title: str = "") -> None:
    """A plane picture without axes, equally scaled."""
    axes.set(aspect="equal", title=title)
    axes.set_axis_off()


def draw_sphere(axes: Any) -> None:
    """The shaded unit sphere."""
    tb.plot.field(tb.manifolds.Sphere(2).sample(4000, seed=0), view=VIEW, axes=axes)


def manifold() -> Any:
    """A torus, and the points of it that are known."""
    figure, axes = tb.plot.canvas(size=SIZE)
    tb.plot.field(
        TORUS.sample(250, seed=1),
        surface=TORUS.sample(20_000, seed=0),
        view=TORUS_VIEW,
        axes=axes[0, 0],
    )
    return figure


def tangent_space() -> Any:
    """Two points of a sphere with their tangent planes."""
    _, bundle = sphere()
    figure, axes = tb.plot.canvas(size=SIZE)
    rows = [toward(bundle.points, -0.5, 0.35), toward(bundle.points, 0.5, 0.05)]
    vectors = [bundle.frames[row] @ [0.7, 0.7] for row in rows]
    illustrations.tangent_planes(
        bundle, rows, vectors, 0.34, {"x_i": rows[0], "x_j": rows[1]}, VIEW, axes[0, 0]
    )
    return figure


def draw_frame(axes: Any, angle: float, vector: np.ndarray, title: str) -> None:
    """A tangent plane with a frame, turned by an angle, and a vector with its two components."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    side = 1.25
    axes.fill(*(side * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])).T, color=TEAL, alpha=0.18)
    components = turn.T @ vector
    for axis, component in enumerate(components):
        arrow(axes, np.zeros(2), turn[:, axis], BLUE, 0.012)
        name = f"$o_{axis + 1}$"
        axes.annotate(name, 1.12 * turn[:, axis], ha="center", va="center", color=BLUE)
        end = component * turn[:, axis]
        axes.plot(*np.stack([end, vector]).T, ":", color=RED, lw=1.5)
    arrow(axes, np.zeros(2), vector, RED, 0.016)
    axes.plot(0, 0, "o", color="black", ms=5, zorder=6)
    numbers = ", ".join(f"{component:.2f}" for component in components)
    axes.annotate(
        f"$f_i = ({numbers})$", (0, -1.1), ha="center", va="center", color=RED, fontsize=11
    )
    frames_of(axes, title)


VECTOR = np.array([0.4, 0.85])
"""The vector of the figures of frames and gauges."""


def frame() -> Any:
    """A tangent plane, the two vectors of a frame, and the coordinates of a vector in it."""
    figure, axes = tb.plot.canvas(size=SIZE)
    draw_frame(axes[0, 0], 0.15, VECTOR, "the tangent plane at $x_i$")
    return figure


def gauge() -> Any:
    """The same vector in two frames."""
    figure, axes = tb.plot.canvas(1, 2, (SIZE[0] / 1.6, SIZE[1]))
    draw_frame(axes[0, 0], 0.15, VECTOR, "one frame")
    draw_frame(axes[0, 1], 2.0, VECTOR, "another frame")
    return figure


def transport() -> Any:
    """A vector carried from point to point by the estimated connection."""
    points, bundle = sphere()
    figure, axes = tb.plot.canvas(size=SIZE)
    start, end = toward(points, -0.75, -0.3), toward(points, 0.7, 0.35)
    illustrations.transport(bundle, start, end, VIEW.axes[1], view=VIEW, axes=axes[0, 0])
    return figure


def great_circle(start: np.ndarray, end: np.ndarray, count: int = 60) -> np.ndarray:
    """Points of the shortest path between two points of the unit sphere."""
    share = np.linspace(0, 1, count)[:, None]
    angle = np.arccos(start @ end)
    return (np.sin((1 - share) * angle) * start + np.sin(share * angle) * end) / np.sin(angle)


def holonomy() -> Any:
    """A vector carried around a triangle of a sphere comes back turned."""
    manifold = tb.manifolds.Sphere(2)
    figure, axes = tb.plot.canvas(size=SIZE)
    axis = axes[0, 0]
    draw_sphere(axis)
    place = VIEW.axes.T
    right, up = place[:, 0], place[:, 1]
    toward_viewer = place @ [0, 0, 1.0]
    corners = [
        (toward_viewer + 0.95 * up) / np.linalg.norm(toward_viewer + 0.95 * up),
        (toward_viewer - 0.95 * right - 0.55 * up),
        (toward_viewer + 0.95 * right - 0.55 * up),
    ]
    corners = [corner / np.linalg.norm(corner) for corner in corners]
    first = corners[0]
    vector = corners[1] - (corners[1] @ first) * first
    start = 0.42 * vector / np.linalg.norm(vector)
    carried = start
    for begin, end in ((0, 1), (1, 2), (2, 0)):
        path = great_circle(corners[begin], corners[end])
        axis.plot(*VIEW.project(path)[:, :2].T, color=BLUE, lw=1.6, zorder=3)
        for k in range(len(path) - 1):
            if k % 20 == 0:
                foot = VIEW.project(path[k])[:2]
                arrow(axis, foot, VIEW.project(carried)[:2], GREY if k or begin else RED)
            step = manifold.transport(path[k : k + 1], path[k + 1 : k + 2])[0]
            carried = step @ carried
    arrow(axis, VIEW.project(first)[:2], VIEW.project(carried)[:2], LINES[2], 0.011)
    angle = np.degrees(np.arccos(start @ carried / (start @ start)))
    axis.set_title(f"around the triangle: turned by {angle:.0f} degrees")
    return figure


def connection_laplacian() -> Any:
    """Neighbours' vectors, carried to one point, and their mean."""
    manifold = tb.manifolds.Sphere(2)
    points = manifold.sample(700, seed=0)
    bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=14)
    row = toward(points, 0.1, 0.1)
    frame = bundle.frames[row]
    rough = 0.9 * np.random.default_rng(2).standard_normal(points.shape)
    signal = bundle.to_coordinates(manifold.gradient_field(points, 2) + rough)[..., 0]
    signal = 0.75 * signal / np.linalg.norm(signal, axis=1).mean()
    near = bundle.graph.to_scipy()[[row]].nonzero()[1]
    blocks = {j: illustrations.transport_block(bundle, row, j) for j in near}
    carried = {j: blocks[j] @ signal[j] for j in near}
    mean = np.mean(list(carried.values()), axis=0)
    figure, axes = tb.plot.canvas(size=SIZE)
    axis = axes[0, 0]
    scale = 1 / bundle.eps**0.5
    for j in near:
        foot = scale * frame.T @ (points[j] - points[row])
        axis.plot(*np.stack([foot, np.zeros(2)]).T, color="0.85", lw=1, zorder=0)
        arrow(axis, foot, 0.5 * carried[j], GREY)
    arrow(axis, np.zeros(2), signal[row], RED, 0.012)
    arrow(axis, np.zeros(2), mean, BLUE, 0.012)
    axis.plot(*np.stack([signal[row], mean]).T, color=TEAL, lw=2, ls="--", zorder=4)
    axis.plot(0, 0, "o", color="black", ms=5, zorder=6)
    lines = {
        "vector at $x_i$": RED,
        "mean of the neighbours, carried to $x_i$": BLUE,
        "their difference": TEAL,
    }
    for label, color in lines.items():
        axis.plot([], [], color=color, lw=2.5, label=label)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), frameon=False, fontsize=9)
    frames_of(axis)
    axis.set(xlim=(-1.15, 1.15), ylim=(-1.05, 1.05))
    return figure


def draw_square(axes: Any, middle: np.ndarray, size: float, color: str, alpha: float) -> None:
    """A small plane: the stalk of a node or of an edge."""
    corners = np.array([[-1, -0.6], [0.6, -0.6], [1, 0.6], [-0.6, 0.6]])
    axes.fill(*(middle + size * corners).T, facecolor=color, edgecolor=color, alpha=alpha, zorder=3)


def sheaf() -> Any:
    """Two nodes and an edge, the vector space of each, and the maps between them."""
    figure, axes = tb.plot.canvas(size=SIZE)
    axis = axes[0, 0]
    nodes = np.array([[0.0, 0.0], [3.0, 0.0]])
    middle = nodes.mean(axis=0)
    axis.plot(*nodes.T, "-", color=GREY, lw=2)
    axis.plot(*nodes.T, "o", color="black", ms=8)
    names = {"i": nodes[0], "j": nodes[1]}
    lift = np.array([0.0, 0.95])
    for name, node in names.items():
        draw_square(axis, node + lift, 0.55, TEAL, 0.3)
        axis.plot(*np.stack([node, node + 0.7 * lift]).T, ":", color=GREY)
        axis.annotate(f"node ${name}$", node - [0, 0.3], ha="center", fontsize=11)
        label = rf"stalk of ${name}$"
        axis.annotate(label, node + lift + [0, 0.5], ha="center", color=TEAL, fontsize=10)
        vector = np.array([0.3, 0.2]) if name == "i" else np.array([0.3, -0.1])
        arrow(axis, node + lift, vector, RED, 0.011)
    edge = middle + np.array([0, 2.1])
    draw_square(axis, edge, 0.55, BLUE, 0.25)
    axis.annotate(
        "stalk of the edge", edge + np.array([0, 0.5]), ha="center", color=BLUE, fontsize=10
    )
    arrow(axis, edge, np.array([0.25, 0.25]), RED, 0.011)
    arrow(axis, edge, np.array([0.33, -0.02]), LINES[2], 0.011)
    axis.plot(*np.stack([middle, edge - [0, 0.4]]).T, ":", color=GREY)
    for node, side, name in ((nodes[0], 1, "i"), (nodes[1], -1, "j")):
        begin = node + lift + [0.45 * side, 0.4]
        end = edge - [0.7 * side, 0.25]
        axis.annotate("", end, begin, arrowprops={"arrowstyle": "->", "color": "black", "lw": 1.4})
        place = (begin + end) / 2 + [-0.35 * side, 0.12]
        axis.annotate(rf"$F_{{{name}e}}$", place, ha="center", fontsize=12)
    axis.annotate("edge $e$", middle - [0, 0.3], ha="center", fontsize=11)
    frames_of(axis)
    axis.set(xlim=(-0.8, 3.8), ylim=(-0.45, 2.85))
    return figure


def torus_signal() -> tuple[np.ndarray, np.ndarray]:
    """Points of a torus and a tangent field."""
    points = TORUS.sample(3000, seed=0)
    return points, TORUS.tangent_field(points)


def signal() -> Any:
    """A vector at each point."""
    points, vectors = torus_signal()
    figure, axes = tb.plot.canvas(size=SIZE)
    tb.plot.field(
        points, vectors, view=TORUS_VIEW, arrows=350, scale=0.16, colorbar=False, axes=axes[0, 0]
    )
    return figure


def filter() -> Any:
    """A noisy signal and the same after a lowpass filter."""
    points, vectors = torus_signal()
    noisy = vectors + 0.6 * np.random.default_rng(0).standard_normal(vectors.shape)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    coordinates = bundle.to_coordinates(noisy)
    smooth = bundle.to_ambient(tb.Heat(0.03)(bundle.laplacian(), coordinates))
    look = {"view": TORUS_VIEW, "arrows": 300, "scale": 0.16, "top": 1.6, "colorbar": False}
    panels = {"signal $f$": bundle.to_ambient(coordinates), "filtered $h * f$": smooth}
    figure, axes = tb.plot.canvas(2, 1, (SIZE[0], 2.5))
    for axis, (title, field) in zip(axes[:, 0], panels.items(), strict=True):
        tb.plot.field(points, field, title=title, axes=axis, **look)
    return figure


def response() -> Any:
    """What two filters do to each frequency of the sphere."""
    eigenvalues = np.asarray(sphere()[1].laplacian().spectrum(40)[0])
    line = np.linspace(0, 1.05 * eigenvalues[-1], 400)
    filters = {"lowpass: Heat(0.15)": (tb.Heat(0.15), BLUE)}
    filters["bandpass: Heat(0.1) - Heat(0.3)"] = (tb.Heat(0.1) - tb.Heat(0.3), RED)
    figure, axes = tb.plot.canvas(size=SIZE)
    axis = axes[0, 0]
    for label, (shown, color) in filters.items():
        axis.plot(line, shown.response(line), color=color, label=label)
        axis.vlines(eigenvalues, 0, shown.response(eigenvalues), color=color, alpha=0.3, lw=1)
        axis.plot(eigenvalues, shown.response(eigenvalues), "o", color=color, ms=3.5)
    axis.set(xlabel=r"frequency $\lambda$ (slow to fast)", ylabel=r"factor $\hat h(\lambda)$")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def tap() -> Any:
    """One vector after none, one, two and three steps of heat flow."""
    points, bundle = sphere(1000)
    row = toward(points, 0.0, 0.1)
    start = np.zeros_like(points)
    start[row] = bundle.frames[row] @ (bundle.frames[row].T @ VIEW.axes[0])
    lap = bundle.laplacian()
    coordinates = bundle.to_coordinates(start)
    reference = tb.manifolds.Sphere(2).sample(4000, seed=0)
    figure, axes = tb.plot.canvas(2, 2, (SIZE[0] / 2, SIZE[1] / 2))
    for k, axis in enumerate(axes.ravel()):
        shown = np.asarray(bundle.to_ambient(tb.Heat(0.03 * k)(lap, coordinates, tb.Exact())))
        length = np.linalg.norm(shown, axis=1)
        shown = shown / length.max()
        weak = length < 0.03 * length.max()
        shown[weak] = 0.0
        tb.plot.field(
            points,
            shown,
            surface=reference,
            color=length / length.max(),
            top=1.0,
            view=VIEW,
            arrows=260,
            scale=0.3,
            colorbar=False,
            axes=axis,
        )
        axis.set_title(
            rf"$k = {k}$:  $h_{k}\, e^{{{k} T_s \Delta}} f$" if k else "$k = 0$:  $h_0 f$"
        )
        axis.title.set_fontsize(10)
    return figure


def readout() -> Any:
    """A field becomes four numbers, the same in any frames."""
    points = torch.from_numpy(TORUS.sample(1500, seed=0))
    bundle = tb.TangentBundle.from_points(points, dim=2)
    turns = torch.from_numpy(tb.testing.random_orthogonal(len(points), 2, seed=1))
    turned = tb.TangentBundle.from_frames(points, bundle.frames @ turns, eps=bundle.eps)
    field = torch.from_numpy(TORUS.tangent_field(points.numpy()))
    readout = tb.nn.InvariantReadout(8, out_channels=4)
    torch.manual_seed(0)
    net = tb.nn.TNN([1, 8], step=0.03, output=tb.nn.NormTanh(), readout=readout, seed=0).double()
    values = {}
    with torch.no_grad():
        for name, view in {"estimated frames": bundle, "turned frames": turned}.items():
            values[name] = net(view.to_coordinates(field), view.laplacian()).numpy().ravel()
    figure, axes = tb.plot.canvas(1, 2, (SIZE[0] / 1.7, SIZE[1] / 1.25), width_ratios=(1.25, 1))
    look = {"view": TORUS_VIEW, "arrows": 160, "scale": 0.16, "colorbar": False}
    tb.plot.field(points.numpy(), field.numpy(), title="a field", axes=axes[0, 0], **look)
    axis = axes[0, 1]
    for shift, (name, numbers) in zip((-0.2, 0.2), values.items(), strict=True):
        color = BLUE if shift < 0 else LINES[2]
        axis.bar(np.arange(4) + shift, numbers, width=0.36, color=color, label=name)
    axis.axhline(0, color="0.4", lw=0.8)
    axis.set(title="four numbers", xticks=range(4), xticklabels=["1", "2", "3", "4"], yticks=[])
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.08))
    return figure


WORDS: tuple[Callable[[], Any], ...] = (
    manifold,
    tangent_space,
    frame,
    gauge,
    transport,
    holonomy,
    connection_laplacian,
    sheaf,
    signal,
    filter,
    response,
    tap,
    readout,
)
"""In the order of the page."""

FIGURES = {f"concept_{word.__name__}": word for word in WORDS}
