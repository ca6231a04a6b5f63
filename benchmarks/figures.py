"""Figures of the documentation, docs/figures: ``python -m benchmarks.figures [scale] [hero] [estimators]``."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from .harness import Row, load

FOLDER = Path(__file__).parents[1] / "docs" / "figures"


def fit(rows: list[Row]) -> tuple[float, float]:
    """Least-squares (A, B) of error = A eps + B / k, all points weighted alike.

    Fitted from 30 neighbours on: with fewer, the error falls faster than 1 / k.
    """
    table = np.array([[row["eps"], 1 / row["neighbors"], row["error"]] for row in rows if row["neighbors"] >= 30])
    (a, b), *_ = np.linalg.lstsq(table[:, :2] / table[:, 2:], np.ones(len(table)), rcond=None)
    return float(a), float(b)


def scale() -> None:
    """Eigenvalue error against the number of neighbours, with the two-error model and the automatic choice."""
    rows = load("scale")
    fig, axes = plt.subplots(1, 2, figsize=(12, 4.9), sharey=True, layout="constrained")
    for axis, d in zip(axes, (2, 3), strict=True):
        mine = [row for row in rows if row["d"] == d]
        a, b = fit(mine)
        sizes = sorted({row["n"] for row in mine})
        colors = plt.get_cmap("viridis")(np.linspace(0.0, 0.8, len(sizes)))
        for n, color in zip(sizes, colors, strict=True):
            curve = [row for row in mine if row["n"] == n]
            k, eps, error = (np.array([row[key] for row in curve]) for key in ("neighbors", "eps", "error"))
            axis.plot(k, 100 * error, "-", color=color, lw=1.8, label=f"n = {n:,}".replace(",", " "))
            axis.plot(k, 100 * (a * eps + b / k), ":", color=color, lw=1.2)
            chosen = next(row for row in curve if row["chosen"])
            axis.plot(chosen["neighbors"], 100 * chosen["error"], "o", color=color, ms=9, mec="k", mew=1.2, zorder=5)
        k = np.array([12, 340])
        axis.plot(k, 100 * b / k, "--", color="0.55", lw=1, zorder=0)
        axis.set(xscale="log", yscale="log", xlabel="neighbours of a point, k", title=f"fields on $S^{d}$")
        ticks = [12, 20, 40, 80, 160, 320]
        axis.set_xticks(ticks, [str(t) for t in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.25)
        axis.text(0.03, 0.04, f"dotted: {a:.2f} ε + {b:.2f} / k", transform=axis.transAxes, color="0.3")
        axis.text(150, 100 * b / 190, "roughness\n$\\propto 1/k$", color="0.35", ha="right", va="top")
        last = max((row for row in mine if row["n"] == sizes[1]), key=lambda row: row["neighbors"])
        place = last["neighbors"], 118 * last["error"]
        axis.text(*place, "curvature\n$\\propto\\epsilon$", color="0.35", ha="right", va="bottom")
        axis.legend(loc="upper right", framealpha=0.9)
    axes[0].set_ylabel("mean relative error of the first three groups, %")
    axes[0].set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    fig.suptitle("Circles: the automatic choice, 0.29 · 2$^d$ · n$^{2/(d+2)}$ neighbours, at most 160")
    save(fig, "scale")


def hero() -> None:
    """The demo's field on a torus: clean, noisy, filtered."""
    import tangentbundle as tb
    from examples.heat_flow import Problem, figure, report

    problem = Problem.make()
    tb.plot.save(figure(problem, report(problem)), FOLDER / "hero.png", dpi=150)


def estimators() -> None:
    """A noisy field on a torus, its estimate, the truth, and the scores of the candidates."""
    import tangentbundle as tb

    torus = tb.manifolds.Torus()
    points = torus.sample(400, seed=0)
    truth = torus.tangent_field(points)
    noisy = truth + 0.3 * np.random.default_rng(0).standard_normal(truth.shape)
    denoiser = tb.FieldDenoiser(random_state=0).fit(points, noisy)
    drawing, panels = tb.plot.canvas(2, 2, size=(4.6, 3.0))
    panels = panels.ravel()
    for axes, (name, vectors) in zip(
        panels, {"noisy": noisy, "FieldDenoiser": denoiser.predict(points), "true": truth}.items(), strict=False
    ):
        error = np.linalg.norm(vectors - truth) / np.linalg.norm(truth)
        title = name if name == "true" else f"{name}, {error:.0%} error"
        arrows = {"surface": torus.sample(4000, seed=1), "top": 1.6, "scale": 0.05, "colorbar": False}
        tb.plot.field(points, vectors, title=title, axes=axes, **arrows)
    _draw_scores(panels[3], denoiser.scores_)
    tb.plot.save(drawing, FOLDER / "estimators.png", dpi=150)


def _draw_scores(axes, scores) -> None:
    """Margins of the candidates, the best first, with their standard errors."""
    names = [_short(row.model) for row in scores]
    errors = [row.margin_error for row in scores]
    axes.barh(names, [row.margin for row in scores], xerr=errors, color="#2a788e", height=0.6)
    axes.set(xlabel="log density of left-out vectors, below the best", title="models compared")
    axes.set_xscale("symlog", linthresh=0.05)
    axes.set_xticks([0, 0.05, 0.5, 2], ["0", "0.05", "0.5", "2"])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.25)


def _short(model: str) -> str:
    """A label for the name of a model.

    >>> _short("GaussianProcess(Ambient(1.5))"), _short("SpectralFilter(neighbors=None, probes=8)")
    ('Ambient(1.5)', 'SpectralFilter')
    """
    if model.startswith("GaussianProcess("):
        return "helmholtz()" if "+" in model else model.removeprefix("GaussianProcess(")[:-1]
    return model.split("(")[0]


def save(fig, name: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    fig.savefig(FOLDER / f"{name}.png", dpi=150)
    plt.close(fig)


FIGURES = {"scale": scale, "hero": hero, "estimators": estimators}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(FIGURES)}; default: all")
    names = parser.parse_args().names or list(FIGURES)
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        parser.error(f"no figure named {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    for name in names:
        FIGURES[name]()
        print(f"Wrote docs/figures/{name}.png")


if __name__ == "__main__":
    main()
