"""Figures of the experiments, from their rows and from one draw of their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import plot
from ..datasets import torus_field
from ..manifolds import ClassicalKleinBottle, KleinBottle, Manifold, Torus
from .base import Row
from .baselines import denoised, field_estimators
from .interpolation import INTERPOLATIONS, estimators
from .reconstruction import Scene, reconstruct
from .torus import FIELDS
from .wind import source_of


def draw_figures(name: str, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the figures of an experiment into a folder; returns their files."""
    return FIGURES[name](rows, folder) if name in FIGURES else []


def torus_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Clean, noisy and denoised fields of one draw; errors of all methods against the noise."""
    sample = torus_field(400, FIELDS["tangent"], seed=0)
    noisy = sample.noisy(0.3, seed=1).vectors
    clean = denoised(field_estimators()["FieldDenoiser"], sample.points, noisy[None])[0]
    panels = {"clean": sample.vectors, "noisy, tau = 0.3": noisy, "denoised by FieldDenoiser": clean}
    surface = torus_field(40_000, FIELDS["tangent"], seed=0).points
    figure = plot.fields(sample.points, panels, truth=sample.vectors, surface=surface, view=plot.View(50, -60))
    paths = [plot.save(figure, folder / "torus_fields.png")]

    rows, heavy = _emphasised(rows)
    sizes = sorted({row["n"] for row in rows})
    figure, axes = plot.canvas(1, len(sizes), (4.2, 4.2), sharey=True)
    for axis, n in zip(axes[0], sizes, strict=True):
        plot.curves(_by([row for row in rows if row["n"] == n], "tau", "mse"), heavy=heavy, axes=axis)
        axis.set(xscale="log", yscale="log", xlabel="noise tau", title=f"n = {n}")
    axes[0, 0].set_ylabel("mean squared error")
    plot.legend_below(figure, axes[0, 0])
    return [*paths, plot.save(figure, folder / "torus_errors.png")]


def reconstruction_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Both metrics against the masked share, and maps of one draw."""
    rows, heavy = _emphasised(rows)
    largest = max(row["n"] for row in rows)
    figure, axes = plot.canvas(1, 2, (4.6, 4.6))
    titles = {"per_node": "error of a masked point", "paper_metric": "the paper's metric: sum over masked / n"}
    for axis, (score, title) in zip(axes[0], titles.items(), strict=True):
        methods = _by([row for row in rows if row["n"] == largest], "masked", score)
        plot.curves(methods, heavy=heavy, axes=axis)
        axis.set(xlabel="masked share", title=title, ylim=(0, None), xticks=sorted({row["masked"] for row in rows}))
    axes[0, 0].set_ylabel(f"squared error, n = {largest}")
    plot.legend_below(figure, axes[0, 0])
    paths = [plot.save(figure, folder / "reconstruction_errors.png")]
    best = any(row["method"].startswith("FieldInterpolator") for row in rows)
    return [*paths, _reconstruction_map(rows[0]["data"], largest, best, folder / "reconstruction_map.png")]


def _reconstruction_map(data: str, n: int, best: bool, path: Path) -> Path:
    """Truth, observations, two reconstructions and their errors, of one draw with half of the points masked.

    The reconstructions are the library's, or the paper's and a simple one.
    """
    scene = Scene({"data": data, "masks": 1, "n": n, "sampling": 0}, 0, shares=(0.5,))
    station, masked, sites = scene.stations()[0], scene.masks[0], scene.sites
    if best:
        methods = estimators(source_of(data).past)
        guesses = {name: methods[name](station) for name in ("FieldInterpolator", "FieldInterpolator, history")}
    else:
        network = reconstruct(sites.views("MLP")[0], [station], scene.truth, 0)[0][0]
        guesses = {"DD-TNN": network, "inverse distance": INTERPOLATIONS["inverse distance"](station)}
    top = float(np.quantile(np.linalg.norm(scene.truth, axis=1), 0.98))
    same: dict[str, Any] = {"top": top, "colorbar": False}
    figure, axes = plot.canvas(2, 3, (4.7, 2.7))
    plot.earth_map(sites.lat, sites.lon, scene.truth, title="true wind", axes=axes[0, 0], **same)
    observed = f"observed: {(~masked).sum()} of {len(masked)} points"
    plot.earth_map(sites.lat, sites.lon, station.wind, title=observed, axes=axes[1, 0], **same)
    for column, (method, guess) in enumerate(guesses.items(), start=1):
        size = np.linalg.norm(guess - scene.truth, axis=1)
        there = np.where(masked[:, None], guess, np.nan)
        words = f"its error, {size[masked].mean():.1f} m/s on average"
        plot.earth_map(sites.lat, sites.lon, there, title=f"{method}, at masked points", axes=axes[0, column], **same)
        plot.earth_map(sites.lat, sites.lon, np.where(masked, size, np.nan), title=words, axes=axes[1, column], **same)
    figure.colorbar(axes[0, 0].collections[-1], ax=axes[0], label="speed, m/s", shrink=0.8)
    figure.colorbar(axes[1, 1].collections[-1], ax=axes[1], label="error, m/s", shrink=0.8)
    return plot.save(figure, path)


def forecast_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Error against lead time for the largest n, one panel a horizon; bands are standard deviations over draws."""
    rows, heavy = _emphasised(rows)
    largest = max(row["n"] for row in rows)
    rows = [row for row in rows if row["n"] == largest]
    horizons, methods = sorted({r["horizon"] for r in rows}), list(dict.fromkeys(r["method"] for r in rows))
    figure, axes = plot.canvas(1, len(horizons), (4.2, 4.2), sharey=True)
    for axis, horizon in zip(axes[0], horizons, strict=True):
        runs = {m: [r["by_lead"] for r in rows if (r["horizon"], r["method"]) == (horizon, m)] for m in methods}
        lead = range(1, horizon + 1)
        drawn = {m: (lead, list(zip(*group, strict=True))) for m, group in runs.items() if group}
        plot.curves(drawn, heavy=heavy, band=True, axes=axis)
        axis.set(xlabel="steps after the last input", title=f"$T_f$ = {horizon}, n = {largest}", ylim=(0, None))
    axes[0, 0].set(ylabel="mean squared error")
    plot.legend_below(figure, axes[0, 0], columns=3 * len(horizons))
    return [plot.save(figure, folder / "forecast_lead.png")]


def classification_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """The surfaces, with a cloud of each; accuracies of every method and reading, a panel for each activation."""
    bottles = {"Klein bottle, figure-8": KleinBottle(3), "Klein bottle, classical": ClassicalKleinBottle()}
    paths = [plot.save(draw_surfaces({"torus": Torus(), **bottles}), folder / "classification_surfaces.png")]
    panels: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        name = f"{row['method']}, {row['reading']}"
        panels.setdefault(row["activation"], {}).setdefault(name, []).append(row["accuracy"])
    lines = max(len(groups) for groups in panels.values())
    figure, axes = plot.canvas(1, len(panels), (6.0, 0.9 + 0.36 * lines))
    for axis, (activation, groups) in zip(axes[0], panels.items(), strict=True):
        means, spreads = ([float(f(scores)) for scores in groups.values()] for f in (np.mean, np.std))
        axis.barh(list(groups), means, xerr=spreads, height=0.62, color="#2a788e", ecolor="0.3")
        axis.invert_yaxis()
        label = "no network" if activation == "-" else activation
        axis.set(xlim=(0, 1.02), xlabel="accuracy on test clouds", title=label)
    return [*paths, plot.save(figure, folder / "classification_accuracy.png")]


def draw_surfaces(panels: Mapping[str, Manifold]) -> Any:
    """Surfaces in space, and a cloud of 100 points on each; returns the figure."""
    figure, axes = plot.canvas(1, len(panels), (4.6, 3.8))
    for axis, (title, manifold) in zip(axes[0], panels.items(), strict=True):
        cloud, dense = np.asarray(manifold.sample(100, seed=1)), np.asarray(manifold.sample(60_000, seed=0))
        plot.field(cloud, surface=dense, view=plot.View(38, -50), axes=axis, title=title)
    return figure


FIGURES: dict[str, Callable[[Sequence[Row], Path], list[Path]]] = {
    "torus": torus_figures,
    "reconstruction": reconstruction_figures,
    "forecast": forecast_figures,
    "classification": classification_figures,
}


def _emphasised(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """Rows with the methods to draw heavily first, and their number: the library's estimators, or the networks."""
    own = {row["method"] for row in rows if row["method"].startswith("Field")}
    own = own or {row["method"] for row in rows if row.get("parameters")}
    return sorted(rows, key=lambda row: row["method"] not in own), len(own)


def _by(rows: Sequence[Row], key: str, score: str) -> dict[str, tuple[list[float], list[list[float]]]]:
    """Scores of every method, grouped by a key of the rows: what ``plot.curves`` draws."""
    groups: dict[str, dict[float, list[float]]] = {}
    for row in sorted(rows, key=lambda row: row[key]):
        groups.setdefault(row["method"], {}).setdefault(row[key], []).append(row[score])
    order = dict.fromkeys(row["method"] for row in rows)
    return {method: (list(groups[method]), list(groups[method].values())) for method in order}
