"""Figures of the experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .base import Row


def save_figure(figure: Any, path: Path) -> Path:
    """Write a figure and close it."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def blank(columns: int, size: float = 4.2, **options: Any) -> tuple[Any, Any]:
    """A figure with a row of axes, drawn without a display."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(1, columns, figsize=(size * columns, size), layout="constrained", **options)


def torus_figures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Clean, noisy and denoised fields of one draw; errors of all methods against the noise."""
    from ..datasets import torus_field
    from ..estimators import FieldDenoiser
    from .torus import FIELDS

    sample = torus_field(250, FIELDS["tangent"], seed=0)
    noisy = sample.noisy(0.3, seed=1).vectors
    clean = FieldDenoiser(dim=2).fit(sample.points, noisy).predict(sample.points)
    figure, axes = blank(3, subplot_kw={"projection": "3d"})
    for axis, (title, field) in zip(
        axes,
        {"clean": sample.vectors, "noisy, tau = 0.3": noisy, "denoised by FieldDenoiser": clean}.items(),
        strict=True,
    ):
        length = np.linalg.norm(field - sample.vectors, axis=1)
        arrows = axis.quiver(*sample.points.T, *(0.05 * field.T), array=length, cmap="viridis", lw=0.9)
        arrows.set_clim(0, 0.8)
        axis.set(title=title, box_aspect=(1, 1, 0.3), xlim=(-0.4, 0.4), ylim=(-0.4, 0.4), zlim=(-0.12, 0.12))
        axis.set_axis_off()
        axis.view_init(55, -60)
    figure.colorbar(arrows, ax=axes, label="length of the error", shrink=0.7)
    paths = [save_figure(figure, folder / "torus_fields.png")]

    methods = list(dict.fromkeys(row["method"] for row in rows))
    sizes = sorted({row["n"] for row in rows})
    figure, axes = blank(len(sizes), sharey=True, squeeze=False)
    for axis, n in zip(axes[0], sizes, strict=True):
        for number, method in enumerate(methods):
            mine = [row for row in rows if row["n"] == n and row["method"] == method]
            taus = sorted({row["tau"] for row in mine})
            means = [np.mean([row["mse"] for row in mine if row["tau"] == tau]) for tau in taus]
            style = {"color": f"C{number % 10}", "ls": "-" if number < 10 else "--"}
            axis.plot(taus, means, marker="o", ms=4, label=method, **style)
        axis.set(xscale="log", yscale="log", xlabel="noise tau", title=f"n = {n}")
        axis.grid(alpha=0.25, which="both")
    axes[0][0].set_ylabel("mean squared error")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    return [*paths, save_figure(figure, folder / "torus_errors.png")]
