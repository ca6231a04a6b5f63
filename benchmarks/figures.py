"""Figures of the documentation: ``python -m benchmarks figures [NAME ...]`` writes
``docs/figures/<name>.png``."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
import xarray as xr
from matplotlib.collections import PolyCollection
from PIL import Image

import tangentbundle as tb
from harness.records import Row, load
from tangentbundle.calculus import NoFlow
from tangentbundle.datasets import wind_folder
from tangentbundle.errors import AmbiguousTransportWarning
from tangentbundle.operators import Generator, KernelMoments
from tangentbundle.plot import View
from tangentbundle.plot.style import LINES

from . import concept_figures, illustrations, paper_figures
from .decompositions import HalfTorus
from .meshes import genus_two, torus

FOLDER = Path(__file__).parents[1] / "docs" / "figures"


def fit(rows: list[Row]) -> tuple[float, float]:
    """Least-squares (A, B) of error = A eps + B / k, all points weighted alike.

    Fitted from 30 neighbours on: with fewer, the error falls faster than 1 / k.
    """
    table = np.array(
        [[row["eps"], 1 / row["neighbors"], row["error"]] for row in rows if row["neighbors"] >= 30]
    )
    (a, b), *_ = np.linalg.lstsq(table[:, :2] / table[:, 2:], np.ones(len(table)), rcond=None)
    return float(a), float(b)


def scale() -> None:
    """Eigenvalue error against the number of neighbours, with the two-error model and the automatic
    choice."""
    rows = load("scale")
    fig, axes = plt.subplots(1, 2, figsize=(12, 4.9), sharey=True, layout="constrained")
    for axis, d in zip(axes, (2, 3), strict=True):
        mine = [row for row in rows if row["d"] == d]
        a, b = fit(mine)
        sizes = sorted({row["n"] for row in mine})
        colors = plt.get_cmap("viridis")(np.linspace(0.0, 0.8, len(sizes)))
        for n, color in zip(sizes, colors, strict=True):
            curve = [row for row in mine if row["n"] == n]
            k, eps, error = (
                np.array([row[key] for row in curve]) for key in ("neighbors", "eps", "error")
            )
            axis.plot(
                k, 100 * error, "-", color=color, lw=1.8, label=f"n = {n:,}".replace(",", " ")
            )
            axis.plot(k, 100 * (a * eps + b / k), ":", color=color, lw=1.2)
            chosen = next(row for row in curve if row["chosen"])
            axis.plot(
                chosen["neighbors"],
                100 * chosen["error"],
                "o",
                color=color,
                ms=9,
                mec="k",
                mew=1.2,
                zorder=5,
            )
        k = np.array([12, 340])
        axis.plot(k, 100 * b / k, "--", color="0.55", lw=1, zorder=0)
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="neighbours of a point, k",
            title=f"fields on $S^{d}$",
        )
        ticks = [12, 20, 40, 80, 160, 320]
        axis.set_xticks(ticks, [str(t) for t in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.25)
        axis.text(
            0.03, 0.04, f"dotted: {a:.2f} ε + {b:.2f} / k", transform=axis.transAxes, color="0.3"
        )
        axis.text(
            150, 100 * b / 190, "roughness\n$\\propto 1/k$", color="0.35", ha="right", va="top"
        )
        last = max((row for row in mine if row["n"] == sizes[1]), key=lambda row: row["neighbors"])
        place = last["neighbors"], 118 * last["error"]
        axis.text(*place, "curvature\n$\\propto\\epsilon$", color="0.35", ha="right", va="bottom")
        axis.legend(loc="upper right", framealpha=0.9)
    axes[0].set_ylabel("mean relative error of the first three groups, %")
    axes[0].set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    fig.suptitle(
        "Circles: the automatic choice, 0.29 · 2$^d$ · n$^{2/(d+2)}$ neighbours, at most 160"
    )
    save(fig, "scale")


def orders() -> None:
    """Error of eigenvalues against eps for orders 1, 2 and 3, with the kernel's and the sample's
    constant."""
    sphere = tb.manifolds.Sphere(2)
    points, exact = sphere.sample(8000, seed=0), sphere.vector_spectrum(30)
    labels, found = np.unique(exact, return_inverse=True)[1], []
    for k in (20, 30, 45, 70, 110, 170, 260, 400):
        bundle = tb.TangentBundle.from_points(points, dim=2, neighbors=k)
        lap = bundle.laplacian(calibrate=KernelMoments(), terms=1)
        deficits = lap.scale * lap.spectrum(30, tol=1e-6)[0]
        errors = [bundle.eps]
        for scale in (lap.scale, bundle.laplacian().scale):
            for order in (1, 2, 3):
                relative = np.bincount(
                    labels, Generator(scale, order)(deficits) / exact - 1
                ) / np.bincount(labels)
                errors.append(100 * np.abs(relative).mean())
        found.append(errors)
    eps, *curves = np.array(found).T
    fig, axis = plt.subplots(figsize=(7, 4.4), layout="constrained")
    for order, color, kernel, sample in zip(
        (1, 2, 3), ("C3", "C0", "C2"), curves[:3], curves[3:], strict=True
    ):
        axis.plot(eps, kernel, ":", color=color, lw=1.6)
        axis.plot(eps, sample, "o-", color=color, ms=4, label=f"order {order}")
    axis.plot([], [], ":", color="0.4", label="constant of the kernel alone")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="$\\epsilon$",
        ylabel="error of the first three eigenvalues, %",
    )
    axis.set_title("Fields on $S^2$, 8 000 random points, 20 to 400 neighbours", fontsize=10)
    axis.grid(alpha=0.25, which="both")
    axis.legend()
    save(fig, "orders", dpi=110)


def response() -> None:
    """The paper's figure of lowpass filters, for three filters of this library."""
    points = tb.manifolds.Sphere(2).sample(3000, seed=0)
    laplacian = tb.TangentBundle.from_points(points).laplacian()
    fig, axes = plt.subplots(1, 3, figsize=(11.4, 3.8), layout="constrained")
    filters = {
        "heat, t = 0.15": tb.Heat(0.15),
        "FIR, h = (0, 0.7, 0.3)": tb.FIR([0.0, 0.7, 0.3], step=0.1),
        "band-pass, peak near 5": tb.Heat(0.14) - tb.Heat(0.28),
    }
    for axis, (name, filter) in zip(axes, filters.items(), strict=True):
        illustrations.response(filter, laplacian, axis)
        axis.set_title(f"{name}: {axis.get_title()}", fontsize=10)
    save(fig, "response", dpi=110)


def _draw_errors(numbers, errors, axes):
    """Errors {name: (errors, standard deviations)} against the number of points, with the slope of
    each line."""
    for number, (name, (mean, std)) in enumerate(errors.items()):
        slope = np.polyfit(np.log(numbers), np.log(mean), 1)[0]
        look = {"fmt": "o-", "ms": 4, "capsize": 2, "color": LINES[(4, 1, 2, 5, 0)[number % 5]]}
        axes.errorbar(numbers, mean, std, label=f"{name}: slope {slope:.2f}", **look)
    axes.set(xscale="log", yscale="log", xlabel="points", ylabel="error")
    axes.grid(alpha=0.25, which="both")
    axes.legend(frameon=False, fontsize=9)
    return axes


def convergence() -> None:
    """Error of a filtered eigenfield against n, with the fitted slope."""
    rows = load("convergence")
    errors = {}
    for key in dict.fromkeys((row["filter"], row["degree"]) for row in rows):
        mine = [row for row in rows if (row["filter"], row["degree"]) == key]
        name = f"{key[0]}, eigenvalue {mine[0]['eigenvalue']:g}"
        errors[name] = [row["error"] for row in mine], [row["std"] for row in mine]
    fig, axes = tb.plot.canvas(size=(7, 4.6))
    axis = _draw_errors([row["n"] for row in mine], errors, axes[0, 0])
    axis.set_ylabel("relative error against the continuous filter")
    axis.set_title(
        "A filter of a sampled eigenfield on $S^2$, automatic scale, estimated frames", fontsize=10
    )
    save(fig, "convergence", dpi=110)


def growth() -> None:
    """Seconds of a filter against edges and against time."""
    cpu, gpu = load("heat_growth"), [row for row in load("gpu") if row["what"] == "growth"]
    fig, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
    sizes = [row for row in cpu if row["what"] == "n"]
    for label, edges, seconds in (
        ("CPU, 2 cores", [row["edges"] for row in sizes], [row["seconds"] / 30 for row in sizes]),
        ("one H200", [row["edges"] for row in gpu], [row["ms"] / 1e3 for row in gpu]),
    ):
        edges, seconds = np.array(edges), np.array(seconds)
        (line,) = left.plot(edges, seconds, "o-", label=label)
        left.plot(edges, seconds[-1] * edges / edges[-1], ":", color=line.get_color())
    left.set(
        xscale="log",
        yscale="log",
        xlabel="directed edges",
        ylabel="seconds a step, 4 channels, float32",
    )
    left.set_title("dotted: linear growth", fontsize=10)
    times = [row for row in cpu if row["what"] == "t"]
    t, seconds = (np.array([row[name] for row in times]) for name in ("t", "seconds"))
    right.plot(t, seconds, "o-", color="C0", label="seconds, n = 40 000")
    right.plot(t, seconds[-1] * np.sqrt(t / t[-1]), ":", color="C0", label=r"$\propto \sqrt{t}$")
    right.set(
        xscale="log",
        yscale="log",
        xlabel="time t of Heat(t)",
        ylabel="seconds on a CPU, tol = 1e-6",
    )
    for axis in (left, right):
        axis.grid(alpha=0.25, which="both")
        axis.legend(frameon=False)
    save(fig, "growth", dpi=110)


def transfer() -> None:
    """The distance of a trained network's output to the dense-sampling answer, against the number
    of points."""
    rows = load("transfer")
    errors = [row["relative_difference"] for row in rows], [row["std"] for row in rows]
    fig, axes = tb.plot.canvas(size=(6.4, 4.2))
    axis = _draw_errors([row["n"] for row in rows], {"trained network": errors}, axes[0, 0])
    axis.set_ylabel("relative difference to 80 000 points")
    axis.set_title("Weights trained on 400 points of a torus, run unchanged on more", fontsize=10)
    save(fig, "transfer", dpi=110)


def limit() -> None:
    """The distance of a lowpass network on samples to its exact limit, against the number of
    points."""
    rows = load("limit")
    fig, axes = tb.plot.canvas(1, 2, size=(5.2, 4.2), sharey=True)
    for axis, surface in zip(axes.flat, ("sphere", "torus"), strict=True):
        lines = {}
        for bank in dict.fromkeys(row["filters"] for row in rows):
            group = [row for row in rows if (row["surface"], row["filters"]) == (surface, bank)]
            lines[bank] = [row["difference"] for row in group], [row["std"] for row in group]
        _draw_errors([row["n"] for row in group], lines, axis)
        axis.set(ylabel="", ylim=(2e-3, 0.6))
        axis.set_title(f"two layers on the {surface}", fontsize=10)
    axes[0, 0].set_ylabel("relative difference to the limit")
    save(fig, "limit", dpi=110)


def depth() -> None:
    """The loss curves of networks with 20 layers, and of one with two."""
    fig, axes = tb.plot.canvas(size=(6.4, 4.2))
    axis = axes[0, 0]
    for row, color in zip(load("depth"), LINES, strict=False):
        epochs = [int(key.removeprefix("loss_")) for key in row if key.startswith("loss_")]
        losses = [row[f"loss_{epoch}"] for epoch in epochs]
        axis.plot(epochs, losses, "o-", color=color, lw=1.8, ms=4, label=row["network"])
    axis.set(xscale="log", yscale="log", xlabel="epoch", ylabel="loss, relative to that of zero")
    axis.set_title("Training a nonlinear map of fields on a torus", fontsize=10)
    axis.legend(frameon=False, fontsize=9)
    save(fig, "depth", dpi=110)


def hero() -> None:
    """The demo's field on a torus: clean, noisy, filtered."""
    from examples.heat_flow import Problem, figure, report

    problem = Problem.make()
    tb.plot.save(figure(problem, report(problem)), FOLDER / "hero.png", dpi=150)


def front() -> None:
    """The picture of the first page: wind at stations, everywhere, and how sure it is."""
    wind = tb.datasets.load_wind()
    at = wind.sample(120, rng=3)
    few = wind.at(at)
    model = tb.FieldInterpolator(manifold=tb.earth.Earth())
    predicted, std = model.fit(few.points, few.ambient[0]).predict(wind.points, return_std=True)
    east_north = np.einsum("nda,nd->na", wind.frames, predicted)
    look = {"top": 10.0, "arrows": 260, "colorbar": False}
    maps = tb.plot.earth_map
    title = f"measured at {len(few.points)} stations"
    spread = np.linalg.norm(std, axis=1)
    uncertain = {"label": "standard deviation", "unit": "m/s", "title": "and how uncertain it is"}
    for name, shape, size in (("front", (1, 3), (4.4, 2.2)), ("front_narrow", (3, 1), (4.6, 2.3))):
        figure, axes = tb.plot.canvas(*shape, size)
        first, second, third = axes.ravel()
        maps(few.lat, few.lon, few.components[0], title=title, axes=first, **look)
        maps(wind.lat, wind.lon, east_north, title="estimated everywhere", axes=second, **look)
        maps(wind.lat, wind.lon, spread, axes=third, **uncertain)
        tb.plot.save(figure, FOLDER / f"{name}.png", dpi=110)


def estimators() -> None:
    """A noisy field on a torus, its estimate, the truth, and the scores of the candidates."""
    import tangentbundle as tb

    torus = tb.manifolds.Torus()
    points = torus.sample(400, seed=0)
    truth = torus.tangent_field(points)
    noisy = truth + 0.3 * np.random.default_rng(0).standard_normal(truth.shape)
    denoiser = tb.FieldDenoiser().fit(points, noisy)
    drawing, panels = tb.plot.canvas(2, 2, size=(4.6, 3.0))
    panels = panels.ravel()
    for axes, (name, vectors) in zip(
        panels,
        {"noisy": noisy, "FieldDenoiser": denoiser.predict(points), "true": truth}.items(),
        strict=False,
    ):
        error = np.linalg.norm(vectors - truth) / np.linalg.norm(truth)
        title = name if name == "true" else f"{name}, {error:.0%} error"
        arrows = {
            "surface": torus.sample(4000, seed=1),
            "top": 1.6,
            "scale": 0.05,
            "colorbar": False,
        }
        tb.plot.field(points, vectors, title=title, axes=axes, **arrows)
    _draw_weights(panels[3], denoiser)
    tb.plot.save(drawing, FOLDER / "estimators.png", dpi=150)


def _draw_weights(axes, denoiser) -> None:
    """Weights of the models, the greatest first."""
    names = [model.name for model in denoiser.models_]
    axes.barh(names, denoiser.weights_, color="#2a788e", height=0.6)
    axes.set(xlabel="weight", title="stacked models", xlim=(0, 1))
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.25)


def chessboard(side: int = 12) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features ``(n, 6)``, two of which tell the colour with noise, edges and colours 0 and 1 of a
    chessboard."""
    node = torch.arange(side**2).reshape(side, side)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    edges = torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in pairs], 1)
    y = (node // side + node % side).flatten() % 2
    x = torch.randn(side**2, 6, generator=torch.Generator().manual_seed(0))
    x[:, :2] += (2.0 * y - 1)[:, None]
    return x, edges, y


def sheaves() -> None:
    """A signal whose sign differs between neighbours: heat flow on the graph and on a sheaf learned
    from half of it."""
    x, edges, y = chessboard()
    signal, labelled = (
        x[:, None, :1],
        torch.rand(len(y), generator=torch.Generator().manual_seed(1)) < 0.5,
    )
    learner = tb.nn.SheafLearner(1, tb.nn.General(), in_channels=6)

    def heat(sheaf: tb.Sheaf) -> torch.Tensor:
        laplacian = sheaf.laplacian(tb.operators.ScalarDegrees())
        return tb.Heat(2.0)(laplacian, signal, method=tb.Chebyshev(1e-4))[:, 0, 0]

    adam = torch.optim.Adam(learner.parameters(), lr=0.02, weight_decay=1e-3)
    for _ in range(150):
        adam.zero_grad()
        torch.nn.functional.softplus(-4 * heat(learner(x, edges)) * (2 * y - 1))[
            labelled
        ].mean().backward()
        adam.step()
    learned = learner(x, edges)
    turns = learned.maps.detach()[:, :, 0, 0].prod(1)
    plain = tb.Sheaf.from_edges(edges, torch.ones(edges.shape[1], 1, 1))
    panels = {
        "a noisy signal": (signal[:, 0, 0], torch.ones_like(turns)),
        "heat flow on the graph": (heat(plain), torch.ones_like(turns)),
        "heat flow on a learned sheaf": (heat(learned).detach(), turns),
    }
    places = np.stack(np.divmod(np.arange(len(y)), 12), 1)[:, ::-1] + np.random.default_rng(
        2
    ).uniform(-0.22, 0.22, (144, 2))
    fig, all_axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
    for axes, (title, (values, signs)) in zip(all_axes, panels.items(), strict=True):
        for (a, b), sign in zip(edges.T.tolist(), signs, strict=True):
            color, width = ("#c4483a", 1.6) if sign < 0 else ("0.7", 1.2)
            axes.plot(*places[[a, b]].T, "-", color=color, lw=width, zorder=1)
        axes.scatter(
            *places.T, c=values, cmap="PuOr", vmin=-1.5, vmax=1.5, s=95, edgecolors="0.25", zorder=2
        )
        right = float(((values > 0) == (y == 1))[~labelled].float().mean())
        axes.set_title(f"{title}: {right:.0%} right")
        axes.set_axis_off()
        axes.set_aspect("equal")
    save(fig, "sheaves")


def bowl_with_a_wall(rings: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Half a sphere, and half a disc across it: along their common arc edges have three
    triangles."""
    along = np.linspace(-1, 1, 2 * rings + 1)
    around = np.linspace(-np.pi, 0, 2 * rings + 1)
    x = np.sin(along * np.pi / 2)
    radius = np.sqrt(1 - x**2)
    sphere = np.stack(
        [
            np.repeat(x[:, None], len(around), axis=1),
            radius[:, None] * np.cos(around),
            radius[:, None] * np.sin(around),
        ],
        axis=-1,
    )
    shares = np.linspace(0, 1, rings + 1)[:-1]
    disc = np.stack(
        [
            np.zeros((rings, len(around))),
            shares[:, None] * np.cos(around),
            shares[:, None] * np.sin(around),
        ],
        axis=-1,
    )
    width = len(around)
    rows, columns = (index.ravel() for index in np.mgrid[: 3 * rings, : width - 1])
    here = rows * width + columns
    upper = here + width
    is_sphere = rows < 2 * rings
    is_last = rows == 3 * rings - 1
    start = np.where(is_sphere, here, here + width)
    end = np.where(is_sphere, upper, upper + width)
    end = np.where(is_last, rings * width + columns, end)  # the arc, which the sphere has, too
    faces = np.concatenate(
        [
            np.stack([start, end, end + 1], axis=1),
            np.stack([start, end + 1, start + 1], axis=1),
        ]
    )
    vertices = np.concatenate([sphere.reshape(-1, 3), disc.reshape(-1, 3)])
    merged = tb.meshes.merge_vertices(vertices, faces)
    return np.asarray(merged.vertices), merged.faces


def _draw_values(axes, points, faces, values, view) -> None:
    """A mesh with colours for values at its vertices, the farthest triangles first."""
    places = view.project(points)
    corners = places[faces]
    sides = points[faces[:, 1:]] - points[faces[:, :1]]
    normals = np.cross(sides[:, 0], sides[:, 1])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    light = 0.55 + 0.45 * np.abs(normals @ view.axes.T @ [0.15, 0.42, 0.9])
    colors = plt.get_cmap("magma")(0.2 + 0.75 * values[faces].mean(axis=1))
    colors[:, :3] *= light[:, None]
    order = np.argsort(corners[:, :, 2].mean(axis=1))
    axes.add_collection(
        PolyCollection(
            corners[order, :, :2], facecolors=colors[order], edgecolors="face", linewidths=0.3
        )
    )


def soups() -> None:
    """Heat on a mesh that is no surface, and vectors on the surfaces that it is cut into."""
    vertices, faces = bowl_with_a_wall()
    view = tb.plot.View(elevation=48, azimuth=-50)
    laplacian = tb.TangentBundle.scalar_from_mesh(vertices, faces).laplacian()
    start = np.argmin(np.linalg.norm(vertices - [-0.55, 0.0, -0.83], axis=1))
    heat = np.zeros((len(vertices), 1, 1))
    heat[start] = 1.0
    warmth = tb.Heat(0.12)(laplacian, heat)[:, 0, 0]
    cut = tb.meshes.cut_sheets(vertices, faces)
    bundle = tb.TangentBundle.from_mesh(cut)
    noise = np.random.default_rng(1).normal(size=cut.vertices.shape)
    field = tb.Heat(0.03)(bundle.laplacian(), bundle.to_coordinates(noise))
    arrows = bundle.to_ambient(field)
    fig, axes = plt.subplots(1, 2, figsize=(10, 3.9), layout="constrained")
    _draw_values(axes[0], vertices, faces, (warmth / warmth.max()) ** 0.5, view)
    axes[0].set(aspect="equal", title="heat, on the mesh with three triangles at an edge")
    axes[0].autoscale()
    apart = cut.vertices + 0.25 * _sheet_shifts(bundle)
    tb.plot.field(
        apart, arrows, faces=cut.faces, view=view, arrows=500, colorbar=False, axes=axes[1]
    )
    axes[1].set_title("smooth fields, on the three surfaces it is cut into")
    for axis in axes:
        axis.set_axis_off()
    save(fig, "soups")


def _sheet_shifts(bundle: tb.TangentBundle) -> np.ndarray:
    """Shifts ``(n, 3)`` that draw the surfaces of a mesh apart, along x."""
    labels = bundle.graph.components.numpy()
    points = np.asarray(bundle.points)
    middles = np.array([points[labels == label, 0].mean() for label in range(labels.max() + 1)])
    shifts = np.zeros_like(points)
    shifts[:, 0] = np.where(np.abs(middles) > 0.05, np.sign(middles), 0.0)[labels]
    return shifts


def _gfs() -> xr.Dataset:
    """The GFS analysis of 1 degree, from the folder of TANGENTBUNDLE_WIND."""
    return xr.open_dataset(wind_folder() / "gfs_10m_1deg_20160430T06.nc").isel(time=0).load()


def _wind_panel(
    ds: xr.Dataset, names: tuple[str, str], title: str, axes, top: float = 20.0
) -> None:
    grid = tb.earth.Grid.of(ds)
    wind = grid.to_coordinates(np.stack([ds[n].values for n in names], axis=-1))
    tb.plot.earth_map(grid.lat, grid.lon, wind, title=title, axes=axes, top=top)


def smooth() -> None:
    """A wind analysis before and after smoothing, and the gains of both responses with the
    benchmark's values."""
    ds = _gfs()
    fig = plt.figure(figsize=(13.2, 6.6), layout="constrained")
    panels = fig.subplot_mosaic([["wind", "gain"], ["smooth", "gain"]], width_ratios=[1.5, 1])
    _wind_panel(ds, ("u10", "v10"), "10 m wind, GFS analysis of 1 degree", panels["wind"])
    made = tb.earth.smooth(ds, "2000 km")
    _wind_panel(made, ("u10", "v10"), 'smooth(filter_scale="2000 km")', panels["smooth"])
    axis, ratio = panels["gain"], np.geomspace(0.25, 8, 300)
    cut = (2 * np.pi * tb.earth.RADIUS / 2e6) ** 2
    for taper, name in ((False, "Gaussian"), (True, "taper=True")):
        gain = tb.earth.response("2000 km", taper=taper).response(cut / ratio**2)
        axis.semilogx(ratio, gain, label=name, color="#2a788e" if taper else "#440154")
    rows = [row for row in load("earth") if row["what"].startswith("gain, 1 degrees")]
    half = next(row for row in rows if abs(row["exact"] - 0.5) < 1e-9)["degree"]
    places = [
        np.sqrt((half * (half + 1) - 1) / (row["degree"] * (row["degree"] + 1) - 1)) for row in rows
    ]
    axis.plot(
        *zip(
            *[(r, row["found"]) for r, row in zip(places, rows, strict=True) if r < 8], strict=True
        ),
        "o",
        label="spherical harmonics, measured",
        color="#440154",
    )
    axis.axhline(0.5, color="0.7", lw=0.8)
    axis.axvline(1.0, color="0.7", lw=0.8)
    axis.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
    axis.set(xlabel="wavelength / filter_scale", ylabel="gain", title="what passes")
    axis.minorticks_off()
    axis.legend()
    save(fig, "smooth", dpi=100)


def regrid() -> None:
    """Wind around the North Pole on 2.5 degrees and on a grid with another pole, and errors by
    wavelength."""
    from .regrid import rotated

    ds = xr.open_dataset(wind_folder() / "gfs_10m_2p5deg_6h_blockA.nc").isel(time=0).load()
    fine = tb.earth.Regridder(ds, rotated(1.0))(ds)
    fig, axes = tb.plot.canvas(1, 3, size=(4.6, 4.4))
    chart = tb.earth.maps.EqualAreaMap(90.0, 0.0, 30.0)
    panels = {"10 m wind, GFS, 2.5 degrees": ds, "on a grid of 1 degree with another pole": fine}
    for axis, (title, data) in zip(axes[0], panels.items(), strict=False):
        grid = tb.earth.Grid.of(data)
        wind = grid.to_coordinates(np.stack([data.u10.values, data.v10.values], axis=-1))
        tb.plot.earth_map(
            grid.lat, grid.lon, wind, projection=chart, title=title, top=15.0, axes=axis
        )
    rows, axis = load("regrid_harmonics"), axes[0, 2]
    for name, color in (("components, bilinear", "0.6"), ("Regridder", "#2a788e")):
        wavelengths = [row["wavelength km"] for row in rows]
        axis.loglog(
            wavelengths, [row[f"{name} %"] for row in rows], "o-", ms=4, label=name, color=color
        )
    axis.set(xlabel="wavelength, km", ylabel="error, %", title="from 2.5 degrees to 1 degree")
    axis.set_xticks([2000, 5000, 10_000, 20_000], ["2 000", "5 000", "10 000", "20 000"])
    axis.minorticks_off()
    axis.grid(alpha=0.25)
    axis.legend()
    tb.plot.save(fig, FOLDER / "regrid.png", dpi=100)


def decompose() -> None:
    """A wind analysis and its rotational and divergent parts."""
    ds = _gfs()
    parts = tb.earth.decompose(ds)
    fig, axes = tb.plot.canvas(3, 1, (8, 4))
    _wind_panel(ds, ("u10", "v10"), "10 m wind, GFS analysis of 1 degree", axes[0, 0])
    _wind_panel(parts, ("u10_rotational", "v10_rotational"), "rotational part", axes[1, 0])
    _wind_panel(parts, ("u10_divergent", "v10_divergent"), "divergent part", axes[2, 0], top=10.0)
    tb.plot.save(fig, FOLDER / "decompose.png", dpi=90)


def geodesics() -> None:
    """A source on a torus: distances, a vector that is carried to all points, and the logarithm as
    a grid of polar coordinates."""
    vertices, faces = torus(320, 120)
    bundle = tb.TangentBundle.from_mesh(vertices, faces)
    view = tb.plot.View(elevation=50.0, azimuth=-60.0)
    right, _, toward_viewer = view.project(vertices).T
    source = int(np.argmax(toward_viewer - np.abs(right + 1.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmbiguousTransportWarning)
        distance = bundle.distance(source)
        arrows = bundle.transport(source, bundle.frames[source, :, 0])
        logarithm = bundle.log_map(source)
    bands = np.floor(distance / 0.3) % 2
    angles = np.arctan2(logarithm[:, 1], logarithm[:, 0])
    sectors = np.floor(angles / (np.pi / 8)) % 2
    figure, axes = tb.plot.canvas(1, 3, (4.4, 3.4))
    _draw_mesh(axes[0, 0], view, vertices, faces, 0.25 + distance / distance.max() - 0.25 * bands)
    _draw_mesh(axes[0, 2], view, vertices, faces, 0.3 + 0.5 * ((bands + sectors) % 2))
    look = {"colorbar": False, "arrows": 350, "view": view, "axes": axes[0, 1]}
    tb.plot.field(vertices, arrows, faces=faces, color=distance, **look)
    titles = ("distance", "transport", "log_map: distance and direction")
    for panel, title in zip(axes[0], titles, strict=True):
        panel.scatter(
            *view.project(vertices)[source, :2], s=60, color="white", ec="black", zorder=9
        )
        panel.set(aspect="equal", title=title)
        panel.set_axis_off()
    tb.plot.save(figure, FOLDER / "geodesics.png", dpi=100)


def _draw_mesh(
    axes: Any, view: tb.plot.View, vertices: np.ndarray, faces: np.ndarray, color: np.ndarray
) -> None:
    """Triangles, those in front last, in the mean colours of their corners."""
    places = view.project(vertices)[faces]
    order = np.argsort(places[:, :, 2].mean(axis=1))
    polygons = PolyCollection(places[order, :, :2], cmap="viridis", linewidths=0.3, rasterized=True)
    polygons.set(array=np.clip(color[faces[order]].mean(axis=1), 0.0, 1.0), edgecolor="face")
    polygons.set_clim(0.0, 1.0)
    axes.add_collection(polygons)
    axes.autoscale_view()


def directions() -> None:
    """Smoothest crosses on a sphere and on a torus, of clouds, and lines along the curvature of a
    mesh with two handles."""
    fig, axes = tb.plot.canvas(1, 3, (4.4, 4.2))
    sphere = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(4000, seed=0), dim=2)
    illustrations.directions(
        tb.smoothest_field(sphere, order=4),
        count=500,
        title="a cloud: smoothest crosses\n8 points of index 1/4",
        axes=axes[0, 0],
    )
    torus = tb.TangentBundle.from_points(tb.manifolds.Torus(1.0, 0.4).sample(5000, seed=0), dim=2)
    illustrations.directions(
        tb.smoothest_field(torus, order=4, alignment=tb.directions.Curvature()),
        count=600,
        view=View(50, -60),
        title="a cloud: crosses along the curvature\nno singular points",
        axes=axes[0, 1],
    )
    vertices, faces = genus_two(0.05)
    plate = tb.TangentBundle.from_mesh(vertices, faces)
    illustrations.directions(
        tb.smoothest_field(plate, order=2),
        faces=faces,
        count=700,
        view=View(60, -70),
        title="a mesh: smoothest lines\n4 points of index -1/2, two of them in front",
        axes=axes[0, 2],
    )
    tb.plot.save(fig, FOLDER / "directions.png", dpi=100)


def boundary() -> None:
    """A field on half a torus and its three parts."""
    domain = HalfTorus()
    points = domain.sample(6000)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    parts = domain.parts(points, NoFlow())
    found = tb.helmholtz(bundle, bundle.to_coordinates(sum(parts)))
    panels = {
        "a field": sum(parts),
        "gradient: all that flows out": bundle.to_ambient(found.gradient),
        "rotational: stays inside": bundle.to_ambient(found.rotational),
        "harmonic: runs around the tube": bundle.to_ambient(found.remainder),
    }
    fig, axes = tb.plot.canvas(1, 4, (3.6, 3.0))
    for panel, (title, vectors) in zip(axes[0], panels.items(), strict=True):
        tb.plot.field(
            points,
            vectors,
            view=View(35, 70),
            title=title,
            arrows=260,
            top=2.0,
            colorbar=False,
            axes=panel,
        )
    tb.plot.save(fig, FOLDER / "boundary.png", dpi=100)


def save(fig: plt.Figure, name: str, dpi: int = 150) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    fig.savefig(FOLDER / f"{name}.png", dpi=dpi)
    plt.close(fig)


def save_paper_figure(name: str) -> None:
    """Draw and write a figure of the paper."""
    tb.plot.save(paper_figures.FIGURES[name](), FOLDER / f"{name}.png", dpi=80)


def save_concept(name: str) -> None:
    """Draw and write a figure of the page of concepts, with at most 256 colours."""
    path = FOLDER / f"{name}.png"
    tb.plot.save(concept_figures.FIGURES[name](), path, dpi=120)
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


FIGURES: dict[str, Callable[[], None]] = {
    "scale": scale,
    "orders": orders,
    "response": response,
    "convergence": convergence,
    "growth": growth,
    "transfer": transfer,
    "limit": limit,
    "depth": depth,
    "hero": hero,
    "front": front,
    "estimators": estimators,
    "sheaves": sheaves,
    "smooth": smooth,
    "regrid": regrid,
    "decompose": decompose,
    "geodesics": geodesics,
    "soups": soups,
    "directions": directions,
    "boundary": boundary,
}
for paper_figure in paper_figures.FIGURES:
    FIGURES[paper_figure] = partial(save_paper_figure, paper_figure)
for concept in concept_figures.FIGURES:
    FIGURES[concept] = partial(save_concept, concept)


def main(arguments: Sequence[str]) -> None:
    """Draw the figures of these names, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks figures", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(FIGURES)}; default: all"
    )
    names = parser.parse_args(arguments).names or list(FIGURES)
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        parser.error(f"no figure named {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    for name in names:
        FIGURES[name]()
        print(f"Wrote docs/figures/{name}.png")
