"""Figures of the two experiments with wind: maps equal in area, and errors against what makes the task hard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .base import Row
from .figures import blank, save_figure
from .interpolation import INTERPOLATIONS
from .reconstruction import Scene, reconstruct
from .wind import Sites

NETWORKS = ("#440154", "#b5367a", "#fb8861")
OTHERS = ("#0d3b66", "#2a788e", "#35a07b", "#7ad151", "#7f7f7f", "#bcbd22", "#9ecae1", "#393b79", "#000000", "#8c6d31")
STYLES = ("--", "-.", ":", (0, (5, 1)), (0, (1, 1)))


def reconstruction_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Both metrics against the masked share, and maps of one draw."""
    return [_metrics(rows, folder / "reconstruction_errors.png"), _maps(rows, folder / "reconstruction_map.png")]


def forecast_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Error against lead time for the largest n, one panel a horizon; bands are standard deviations over draws."""
    largest = max(row["n"] for row in rows)
    rows = [row for row in rows if row["n"] == largest]
    horizons, methods = sorted({r["horizon"] for r in rows}), list(dict.fromkeys(r["method"] for r in rows))
    figure, axes = blank(len(horizons), sharey=True, squeeze=False)
    for axis, horizon in zip(axes[0], horizons, strict=True):
        for number, method in enumerate(methods):
            curves = [r["by_lead"] for r in rows if (r["horizon"], r["method"]) == (horizon, method)]
            lead, middle, spread = np.arange(1, horizon + 1), np.mean(curves, axis=0), np.std(curves, axis=0)
            look = _look(number)
            axis.plot(lead, middle, **look, label=method)
            axis.fill_between(lead, middle - spread, middle + spread, color=look["color"], alpha=0.12, linewidth=0)
        axis.set(xlabel="steps after the last input", title=f"$T_f$ = {horizon}, n = {largest}")
        axis.grid(alpha=0.25)
    axes[0, 0].set(ylabel="mean squared error", ylim=(0, None))
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=8, frameon=False, fontsize=8
    )
    return [save_figure(figure, folder / "forecast_lead.png")]


def _look(number: int) -> dict[str, Any]:
    """Networks, which come first, in thick lines; the others thin and dashed."""
    if number < 3:
        return {"color": NETWORKS[number], "linestyle": "-", "lw": 2.2}
    return {"color": OTHERS[(number - 3) % len(OTHERS)], "linestyle": STYLES[number % 5], "lw": 1.4}


def _legend(figure: Any, axis: Any, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def _metrics(rows: Sequence[Row], path: Path) -> Path:
    """The error of a masked point tells methods apart; the sum over masked points divided by n falls for all."""
    largest = max(row["n"] for row in rows)
    rows = [row for row in rows if row["n"] == largest]
    methods, shares = list(dict.fromkeys(r["method"] for r in rows)), sorted({row["masked"] for row in rows})
    figure, axes = blank(2, size=4.6)
    titles = {"per_node": "error of a masked point", "paper_metric": "the paper's metric: sum over masked / n"}
    for axis, (score, title) in zip(axes, titles.items(), strict=True):
        for number, method in enumerate(methods):
            groups = [[r[score] for r in rows if (r["method"], r["masked"]) == (method, s)] for s in shares]
            axis.plot(shares, [np.mean(g) for g in groups], "o", ms=4, **_look(number), label=method)
        axis.set(xlabel="masked share", title=title, ylim=(0, None), xticks=shares)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel(f"squared error, n = {largest}")
    _legend(figure, axes[0], 4)
    return save_figure(figure, path)


def _maps(rows: Sequence[Row], path: Path) -> Path:
    """Truth, what was observed, two reconstructions and their errors, of one draw with half of the points masked."""
    from matplotlib.figure import Figure

    task = {"data": rows[0]["data"], "protocol": "paper", "masks": 1, "n": max(r["n"] for r in rows), "sampling": 0}
    scene = Scene(task, 0, shares=(0.5,))
    station, masked, sites = scene.stations()[0], scene.masks[0], scene.sites
    guesses = {
        "DD-TNN": reconstruct(sites.views("MLP")[0], [station], 0)[0],
        "inverse distance": INTERPOLATIONS["inverse distance"](station),
    }
    top = float(np.quantile(np.linalg.norm(scene.truth, axis=1), 0.98))
    figure = Figure(figsize=(14, 5.4), layout="constrained")
    panels = [figure.add_subplot(2, 3, k + 1, projection="mollweide") for k in range(6)]
    wind_map(panels[0], sites, scene.truth, top, "true wind")
    shown = wind_map(panels[3], sites, station.wind, top, f"observed: {(~masked).sum()} of {len(masked)} points")
    for column, (method, guess) in enumerate(guesses.items(), start=1):
        size = np.linalg.norm(guess - scene.truth, axis=1)
        wind_map(panels[column], sites, np.where(masked[:, None], guess, np.nan), top, f"{method}, at masked points")
        title = f"its error, {size[masked].mean():.1f} m/s on average"
        error = error_map(panels[column + 3], sites, size, masked, top, title)
    figure.colorbar(shown, ax=panels[:3], label="speed, m/s", shrink=0.8)
    figure.colorbar(error, ax=panels[3:], label="error, m/s", shrink=0.8)
    return save_figure(figure, path)


def wind_map(axis: Any, sites: Sites, wind: np.ndarray, top: float, title: str) -> Any:
    """Arrows (east, north) ``(n, 2)`` coloured by speed up to ``top`` m/s; rings where wind is NaN."""
    lon, lat = _places(sites)
    known = np.isfinite(wind[:, 0])
    axis.scatter(lon[~known], lat[~known], s=8, facecolors="none", edgecolors="0.75", linewidths=0.6)
    speed = np.linalg.norm(wind[known], axis=1)
    arrows = axis.quiver(
        lon[known], lat[known], *wind[known].T, speed, cmap="viridis", clim=(0, top), scale=16 * top, width=0.0035
    )
    _frame(axis, title)
    return arrows


def error_map(axis: Any, sites: Sites, size: np.ndarray, masked: np.ndarray, top: float, title: str) -> Any:
    """Dots at masked points, coloured by the length of the error."""
    lon, lat = _places(sites)
    axis.scatter(lon[~masked], lat[~masked], s=4, color="0.85", linewidths=0)
    dots = axis.scatter(lon[masked], lat[masked], c=size[masked], s=16, cmap="magma_r", vmin=0, vmax=top, linewidths=0)
    _frame(axis, title)
    return dots


def _places(sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    return np.radians((sites.lon + 180) % 360 - 180), np.radians(sites.lat)


def _frame(axis: Any, title: str) -> None:
    axis.grid(color="0.9", linewidth=0.5)
    axis.set(xticklabels=[], yticklabels=[])
    axis.set_title(title, fontsize=10)
