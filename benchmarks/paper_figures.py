"""The paper's figures from real results, one function for each: they are drawn by
``python -m benchmarks figures``.

The wind is GFS where its files are,
otherwise the series inside the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tangentbundle as tb
from experiments.wind import available, source_of

from . import illustrations

VIEW = tb.plot.View(28, 40)
RED, BLUE = "#ff6666", "#6666ff"


def sphere(n: int = 4000) -> tuple[np.ndarray, tb.TangentBundle]:
    points = tb.manifolds.Sphere(2).sample(n, seed=0)
    return points, tb.TangentBundle.from_points(points, dim=2)


def toward(points: np.ndarray, right: float, up: float) -> int:
    """The point of the sphere that is seen so far to the right and up."""
    place = VIEW.axes.T @ [right, up, (1 - right**2 - up**2) ** 0.5]
    return int((points @ place).argmax())


def tangent_vector() -> Any:
    """A point, its tangent space, and a vector in it."""
    points, bundle = sphere()
    figure, axes = tb.plot.canvas(size=(4.4, 4.2))
    illustrations.tangent_space(
        bundle, toward(points, 0.2, 0.25), VIEW.axes[0], view=VIEW, axes=axes[0, 0]
    )
    return figure


def diffusion() -> Any:
    """Two vectors smeared out by heat flow on the bundle."""
    points, bundle = sphere()
    start = np.zeros_like(points)
    for right, up, way in ((-0.6, -0.1, VIEW.axes[1]), (0.5, 0.2, VIEW.axes[0])):
        k = toward(points, right, up)
        start[k] = bundle.frames[k] @ (bundle.frames[k].T @ way)
    return illustrations.diffusion(bundle, start, (0.0, 0.02, 0.1, 0.5), view=VIEW)


def signal() -> Any:
    """A field on the sphere: a signal of the tangent bundle."""
    manifold = tb.manifolds.Sphere(2)
    points = manifold.sample(6000, seed=0)
    figure, axes = tb.plot.canvas(size=(5.2, 4.2))
    tb.plot.field(points, manifold.gradient_field(points, 3), view=VIEW, axes=axes[0, 0])
    return figure


def response() -> Any:
    """A lowpass, non-amplifying, Lipschitz filter at the eigenvalues of the sphere's bundle."""
    figure, axes = tb.plot.canvas(size=(7.0, 4.2))
    illustrations.response(tb.Heat(0.15), sphere()[1].laplacian(), axes[0, 0])
    return figure


def printed_response() -> Any:
    r"""The filter of the paper's figure as printed: impulse response t^2/6, response 1/(3
    lambda^3), bound lambda^-2.

    The eigenvalues are those of the figure: 0.75, then logarithms of 3 to 9. The impulse response
    does not decay, so it is cut at a time after which nothing is left of it at these eigenvalues.
    """
    lam = np.array([0.75, *np.log(np.arange(3, 10))])
    line = np.linspace(0.68, 2.25, 400)
    filter = tb.ImpulseResponse(lambda t: t**2 / 6, horizon=80.0)
    figure, axes = tb.plot.canvas(size=(7.0, 3.6))
    axis = axes[0, 0]
    axis.plot(line, line**-2, ":", color=RED, lw=2, label=r"$\lambda^{-2}$")
    axis.plot(lam, lam**-2, "o", color=RED, ms=8)
    axis.plot(
        line,
        filter.response(line),
        ":",
        color=BLUE,
        lw=2,
        label=r"$\hat h(\lambda) = \lambda^{-3} / 3$",
    )
    axis.stem(lam, filter.response(lam), linefmt=BLUE, markerfmt="o", basefmt=" ")
    names = [rf"$\lambda_{k}$" for k in range(1, 9)]
    axis.set(xlim=(0.68, 2.25), ylim=(0, 1), xticks=lam, xticklabels=names)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return figure


def transport() -> Any:
    """A vector carried from i to j by the connection that was estimated from the points."""
    points, bundle = sphere()
    figure, axes = tb.plot.canvas(size=(4.4, 4.2))
    ends = toward(points, -0.75, -0.3), toward(points, 0.7, 0.35)
    illustrations.transport(bundle, *ends, VIEW.axes[1], view=VIEW, axes=axes[0, 0])
    return figure


def wind() -> Any:
    """Zonal and meridional wind."""
    data = source_of(available()).field
    figure, axes = tb.plot.canvas(1, 2, (6.2, 3.4))
    for axis, values, title in zip(
        axes[0], data.components[0].T, ("zonal wind", "meridional wind"), strict=True
    ):
        look = {
            "top": 20.0,
            "label": "component",
            "unit": "m/s",
            "colorbar": title == "meridional wind",
        }
        tb.plot.earth_map(data.lat, data.lon, values, title=title, axes=axis, **look)
    return figure


def wind_map() -> Any:
    """The same wind as arrows, with its speed."""
    data = source_of(available()).field
    figure, axes = tb.plot.canvas(size=(8.4, 4.2))
    tb.plot.earth_map(data.lat, data.lon, data.components[0], axes=axes[0, 0])
    return figure


def surfaces() -> Any:
    """The torus and the immersed Klein bottle, with a cloud of 100 points each."""
    panels = {"torus": tb.manifolds.Torus(), "Klein bottle, immersed": tb.manifolds.KleinBottle(3)}
    figure, axes = tb.plot.canvas(1, len(panels), (4.6, 3.8))
    for axis, (title, manifold) in zip(axes[0], panels.items(), strict=True):
        cloud, dense = (
            np.asarray(manifold.sample(100, seed=1)),
            np.asarray(manifold.sample(60_000, seed=0)),
        )
        tb.plot.field(cloud, surface=dense, view=tb.plot.View(38, -50), axes=axis, title=title)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "paper_tangent_vector": tangent_vector,
    "paper_diffusion": diffusion,
    "paper_signal": signal,
    "paper_response": response,
    "paper_printed_response": printed_response,
    "paper_transport": transport,
    "paper_wind": wind,
    "paper_wind_map": wind_map,
    "paper_surfaces": surfaces,
}
"""In the order of the paper."""
