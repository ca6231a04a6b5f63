"""Denoising and interpolation beyond wind and torus:
``python -m benchmarks.general [--jobs 2] [--out FOLDER]``.

Four kinds of data, several draws each, all methods on the same ones: attitudes of a free rigid body
(d = 3, D = 9), a surface in 60 dimensions, an unevenly and inexactly sampled sphere, and a
rolled-up sheet with a boundary. Nothing is known but points and noisy vectors. Written are a table
and all runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tangentbundle as tb
from tangentbundle.experiments.base import Column, Description, Experiment, Row, Task, draw
from tangentbundle.experiments.baselines import (
    AmbientProcess,
    ComponentProcess,
    InverseDistance,
    Mean,
    ThinPlate,
    Zero,
    smoothing_spline,
)
from tangentbundle.experiments.report import write_report
from tangentbundle.experiments.runner import run_experiment

SEEN, HELD_OUT, DRAWS = 150, 150, 16
NOISE = 0.2
"""Standard deviation of the noise, relative to the root mean square of the field's components."""

HALF, MOST = 0.6745, 1.6449
"""Half widths of central 50 and 90 % intervals, in standard deviations."""

Cloud = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Points ``(n, D)``, vectors ``(n, D)`` and exact tangent bases ``(n, D, d)``."""


def attitudes(n: int, rng: np.random.Generator) -> Cloud:
    """Rotations as matrices, moving as a free rigid body: ``dR/dt = R [J^-1 R^T L]``."""
    turns = np.linalg.qr(rng.standard_normal((n, 3, 3)))[0]
    turns *= np.sign(np.linalg.det(turns))[:, None, None]
    rates = np.einsum("nji,j->ni", turns, [1.0, 0.4, -0.3]) / np.array([1.0, 2.0, 3.0])
    cross = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        cross[i, k, j], cross[i, j, k] = 1.0, -1.0  # cross[i] is the matrix of e_i x
    axes = np.einsum("nij,ajk->nika", turns, cross).reshape(n, 9, 3) / np.sqrt(2)
    moving = np.einsum("nij,njk->nik", turns, np.einsum("na,ajk->njk", rates, cross)).reshape(n, 9)
    return turns.reshape(n, 9), moving, axes


def unfolded(n: int, rng: np.random.Generator) -> Cloud:
    """A torus bent into 60 dimensions by waves of fixed directions, with the image of a tangent
    field."""
    fixed = np.random.default_rng(60)
    waves, phases = 2.0 * fixed.standard_normal((3, 60)), fixed.uniform(0, 2 * np.pi, 60)
    torus = tb.manifolds.Torus(1.0, 0.4)
    points = torus.sample(n, seed=rng)
    slopes = -np.sin(points @ waves + phases)[:, :, None] * waves.T  # Jacobians (n, 60, 3)
    field = np.einsum("nij,nj->ni", slopes, torus.tangent_field(points))
    return np.cos(points @ waves + phases), field, np.linalg.qr(slopes @ torus.frames(points))[0]


def uneven(n: int, rng: np.random.Generator) -> Cloud:
    """A sphere ten times denser on one side, its points off by two per cent of the radius."""
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample_nonuniform(n, 10.0, seed=rng)
    off = points + 0.02 * rng.standard_normal(points.shape)
    return off, sphere.gradient_field(points, 3), sphere.frames(points)


def sheet(n: int, rng: np.random.Generator) -> Cloud:
    """A rolled-up sheet, whose vectors follow a wave across it."""
    roll = tb.manifolds.SwissRoll((0.5, 1.0), 3.0)
    points = roll.sample(n, seed=rng)
    frames, wave = roll.frames(points), 2.0 * points[:, 2]
    return (
        points,
        frames[:, :, 0] * np.cos(wave)[:, None] + frames[:, :, 1] * np.sin(wave)[:, None],
        frames,
    )


CASES: dict[str, tuple[Callable[[int, np.random.Generator], Cloud], int]] = {
    "attitudes, d = 3, D = 9": (attitudes, 3),
    "surface in D = 60": (unfolded, 2),
    "uneven, noisy points": (uneven, 2),
    "sheet with boundary": (sheet, 2),
}


@dataclass(frozen=True)
class General(Experiment):
    """Squared errors of exact tangent parts, relative to the noise's (denoising) or the field's
    (interpolation)."""

    name = "general"
    about = Description(
        "Beyond wind and torus",
        ("case", "job"),
        (
            Column("error", "relative squared error", headline=True),
            Column("in50", "components in 50 % intervals"),
            Column("in90", "in 90 %"),
            Column("measured50", "held-out measurements in 50 %"),
            Column("measured90", "in 90 %"),
            Column("exact50", "exact tangent parts in 50 %"),
            Column("exact90", "in 90 %"),
        ),
    )

    def published(self) -> list[Row]:
        return []

    def tasks(self, full: bool, protocol: str) -> list[Task]:
        return [{"case": case, "draw": k} for k in range(DRAWS if full else 1) for case in CASES]

    def run(self, task: Task, seed: int) -> list[Row]:
        make, dim = CASES[task["case"]]
        rng = draw(seed, "general", task["case"], task["draw"])
        points, field, frames = make(SEEN + HELD_OUT, rng)
        noise = NOISE * float(np.sqrt(np.square(field).mean())) * rng.standard_normal(field.shape)
        seen, new = slice(SEEN), slice(SEEN, None)
        x, y = points[seen], (field + noise)[seen]
        denoiser = tb.FieldDenoiser(dim=dim, random_state=0).fit(x, y)
        filled = tb.FieldInterpolator(dim=dim, random_state=0).fit(x, y)
        plain = {
            "zero": Zero(),
            "mean": Mean(),
            "inverse distance": InverseDistance(),
            "thin plate": ThinPlate(),
        }
        plain |= {"ambient process": AmbientProcess(), "process per component": ComponentProcess()}
        denoised = {
            "FieldDenoiser": denoiser.predict(x),
            "identity": y,
            "thin plate, cross-validated": smoothing_spline().fit(x, y).predict(x),
            "ambient process": AmbientProcess().fit(x, y).predict(x),
        }
        answers = {"FieldInterpolator": filled.predict(points[new])}
        answers |= {name: model.fit(x, y).predict(points[new]) for name, model in plain.items()}
        rows = []
        for job, found, model, part, unit in (
            ("denoise", denoised, denoiser, seen, noise[seen]),
            ("interpolate", answers, filled, new, field[new]),
        ):
            base, truth = frames[part], in_frames(frames[part], field[part])
            for name, answer in found.items():
                off = in_frames(base, answer) - truth
                row = {"case": task["case"], "job": job, "draw": task["draw"], "method": name}
                row["error"] = float(np.square(off).sum() / np.square(in_frames(base, unit)).sum())
                if name.startswith("Field"):
                    row |= covered(model, points[part], field[part], base)
                if name == "FieldInterpolator":
                    row |= measured(filled, points[new], (field + noise)[new])
                rows.append(row)
        return rows

    def notes(self, rows: list[Row], protocol: str) -> str:
        return (
            f"{SEEN} points with vectors, noise of {NOISE:.0%} of the field in every component. "
            "Denoising: error at these points over that of doing nothing; interpolation: at "
            f"{HELD_OUT} others, over that of predicting zero. Errors are those of exact tangent "
            "parts; tangent planes are estimated. Intervals: of each component of the field by "
            "its standard deviation (Gaussian), of measurements at the other points by "
            "`predict_interval`, and of the field's parts along the exact tangent planes. "
            "Everything is chosen from the noisy data; no run is discarded."
        )


def covered(
    model: tb.FieldDenoiser, points: np.ndarray, field: np.ndarray, exact: np.ndarray
) -> dict[str, float]:
    """Shares of components, and of parts along exact frames, that lie inside 50 and 90 %
    intervals."""
    mean, cov = model.predict(points, return_cov=True)
    along = np.einsum("nij,nik,nkj->nj", exact, cov, exact)
    found = {
        "in": (mean - field, np.einsum("nii->ni", cov)),
        "exact": (in_frames(exact, mean - field), along),
    }
    return {
        f"{name}{level}": share
        for name, (off, variance) in found.items()
        for level, share in zip(
            (50, 90), held(off, np.sqrt(np.maximum(variance, 0.0))), strict=True
        )
    }


def measured(
    model: tb.FieldInterpolator, points: np.ndarray, vectors: np.ndarray
) -> dict[str, float]:
    """Shares of components of noisy vectors inside the intervals for them."""
    found = {}
    for level in (50, 90):
        low, high = model.predict_interval(points, level / 100)
        found[f"measured{level}"] = float(np.mean((low < vectors) & (vectors < high)))
    return found


def held(off: np.ndarray, std: np.ndarray) -> list[float]:
    """Shares of errors inside Gaussian 50 and 90 % intervals."""
    return [float(np.mean(np.abs(off) < width * std)) for width in (HALF, MOST)]


def in_frames(frames: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.einsum("nij,ni->nj", frames, vectors)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.general", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/general"))
    parser.add_argument("--quick", action="store_true", help="one draw a case")
    parser.add_argument("--seed", type=int, default=0, help="of every draw")
    parser.add_argument("--jobs", type=int, default=1, help="cores")
    options = parser.parse_args()
    chosen = {"full": not options.quick, "seed": options.seed, "jobs": options.jobs}
    rows = run_experiment(General(), options.out, protocol="best", **chosen)
    results, _ = write_report(General(), rows, "best", options.out)
    print(results.comparison().text())


if __name__ == "__main__":
    main()
