"""Figures of filters and networks, written to docs/figures by ``python -m benchmarks.filter_figures``."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import tangentbundle as tb

from .figures import FOLDER
from .harness import load


def response() -> plt.Figure:
    """The paper's figure of lowpass filters, for three filters of this library."""
    points = tb.manifolds.Sphere(2).sample(3000, seed=0)
    laplacian = tb.TangentBundle.from_points(points).laplacian()
    fig, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    filters = {
        "heat, t = 0.15": tb.Heat(0.15),
        "FIR, h = (0, 0.7, 0.3)": tb.FIR([0.0, 0.7, 0.3], step=0.1),
        "wavelet, peak at 5": tb.Wavelet(0.2),
    }
    for axis, (name, filter) in zip(axes, filters.items(), strict=True):
        tb.plot.response(filter, laplacian, axes=axis)
        axis.set_title(f"{name}\n{axis.get_title()}", fontsize=9)
    return fig


def convergence() -> plt.Figure:
    """Error of a filtered eigenfield against n, with the fitted slope."""
    rows = load("convergence")
    errors = {}
    for key in dict.fromkeys((row["filter"], row["degree"]) for row in rows):
        mine = [row for row in rows if (row["filter"], row["degree"]) == key]
        name = f"{key[0]}, eigenvalue {mine[0]['eigenvalue']:g}"
        errors[name] = [row["error"] for row in mine], [row["std"] for row in mine]
    fig, axes = tb.plot.canvas(size=(7, 4.6))
    axis = tb.plot.convergence([row["n"] for row in mine], errors, axes=axes[0, 0])
    axis.set_ylabel("relative error against the continuous filter")
    axis.set_title("A filter of a sampled eigenfield on $S^2$, automatic scale, estimated frames", fontsize=10)
    return fig


def growth() -> plt.Figure:
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
    left.set(xscale="log", yscale="log", xlabel="directed edges", ylabel="seconds a step, 4 channels, float32")
    left.set_title("dotted: linear growth", fontsize=10)
    times = [row for row in cpu if row["what"] == "t"]
    t, seconds = (np.array([row[name] for row in times]) for name in ("t", "seconds"))
    right.plot(t, seconds, "o-", color="C0", label="seconds, n = 40 000")
    right.plot(t, seconds[-1] * np.sqrt(t / t[-1]), ":", color="C0", label=r"$\propto \sqrt{t}$")
    right.set(xscale="log", yscale="log", xlabel="time t of Heat(t)", ylabel="seconds on a CPU, tol = 1e-6")
    for axis in (left, right):
        axis.grid(alpha=0.25, which="both")
        axis.legend(frameon=False)
    return fig


def transfer() -> plt.Figure:
    """The distance of a trained network's output to the dense-sampling answer, against the number of points."""
    rows = load("transfer")
    told = [row["relative_difference"] for row in rows], [row["std"] for row in rows]
    fig, axes = tb.plot.canvas(size=(6.4, 4.2))
    axis = tb.plot.convergence([row["n"] for row in rows], {"trained network": told}, axes=axes[0, 0])
    axis.set_ylabel("relative difference to 80 000 points")
    axis.set_title("Weights trained on 400 points of a torus, run unchanged on more", fontsize=10)
    return fig


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for figure in (response, convergence, growth, transfer):
        figure().savefig(FOLDER / f"{figure.__name__}.png", dpi=110)


if __name__ == "__main__":
    main()
