"""Field estimators against baselines.

All methods see the same draws, parameters are estimated from what a method may see, and rows that
lose are kept. The design is not blind, though: the kinds of covariance were chosen on other draws
of the same torus and of wind block B. Errors of baselines are those of their tangent parts.
``interpolate`` needs the GFS blocks in ``TANGENTBUNDLE_WIND``; A and B are from spring and summer
of one year.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product, repeat
from typing import NamedTuple

import numpy as np
import torch

import tangentbundle as tb
from experiments.baselines import (
    AmbientProcess,
    ComponentProcess,
    InverseDistance,
    Mean,
    ThinPlate,
    Zero,
)
from experiments.general import in_frames, shares_inside
from harness.records import Row
from harness.tables import print_rows
from tangentbundle.datasets import WindData, load_wind, wind_folder
from tangentbundle.earth import Earth
from tangentbundle.estimators import SpectralFilter

RUNS = 8
"""Draws for each cell."""

SIZES = (100, 200, 300, 400)
"""Numbers of points of ``interpolate``."""

SCORED = 1000
"""Points at which wind is scored, drawn like the masked ones: these alone are too few to score
by."""


def energy(values: np.ndarray) -> float:
    return float(np.square(values).sum(axis=1).mean())


def angle(frames: np.ndarray, exact: np.ndarray) -> float:
    """Mean angle in degrees to the exact tangent planes."""
    cosine = np.linalg.svd(frames.transpose(0, 2, 1) @ exact, compute_uv=False)[:, -1]
    return float(np.degrees(np.arccos(np.clip(cosine, 0, 1))).mean())


def summary(scores: dict[str, list[float]], **cell) -> list[Row]:
    """A row for each method: mean and spread (standard deviation over runs)."""
    return [
        {
            **cell,
            "method": name,
            "mean": float(np.mean(v)),
            "spread": float(np.std(v)),
            "runs": len(v),
        }
        for name, v in scores.items()
    ]


def denoise(runs: int = RUNS) -> list[Row]:
    """Torus, area-uniform, E{n} points: mean of ``|f - f_out|^2 / n`` in the denoiser's own local
    frames."""
    torus, rows = tb.manifolds.Torus(), []
    for n in (100, 400):
        for tau in (0.01, 0.1, 0.3):
            for title, field in (("tangent", torus.tangent_field), ("paper", torus.paper_field)):
                scores: dict[str, list[float]] = {}
                angles = []
                for run in range(runs):
                    rng = np.random.default_rng([n, run])
                    points = torus.sample(rng.binomial(4 * n, 0.25), seed=rng)
                    clean = field(points)
                    noisy = clean + tau * rng.standard_normal(clean.shape)
                    denoiser = tb.FieldDenoiser(dim=2, random_state=0).fit(points, noisy)
                    angles.append(angle(denoiser.frames_, torus.frames(points)))
                    answers = {
                        "identity": noisy,
                        "FieldDenoiser": denoiser.predict(points),
                        "SpectralFilter": tb.FieldDenoiser(SpectralFilter(), dim=2, random_state=0)
                        .fit(points, noisy)
                        .predict(points),
                        "ambient process": AmbientProcess().fit(points, noisy).predict(points),
                    }
                    for name, answer in answers.items():
                        scores.setdefault(name, []).append(
                            energy(in_frames(denoiser.frames_, answer - clean))
                        )
                cell = {"field": title, "n": n, "tau": tau, "angle": float(np.mean(angles))}
                rows += summary(scores, **cell)
                print_rows(rows[-len(scores) :])
    return rows


@cache
def blocks() -> tuple[WindData, WindData]:
    """Block A, the history, and block B."""
    past, data = (load_wind(wind_folder() / f"gfs_10m_2p5deg_6h_block{block}.nc") for block in "AB")
    return past, data


class Scored(NamedTuple):
    """Squared errors of a draw's methods by name, and shares of truths in 50 and 90 % intervals of
    some."""

    errors: dict[str, float]
    hits: dict[str, list[float]]


def interpolate_once(n: int, mask: float, run: int) -> Scored:
    """One draw: stations, places to score at, and a time of block B."""
    past, data = blocks()
    rng = np.random.default_rng([n, int(10 * mask), run])
    index = rng.choice(len(data.points), n + SCORED, replace=False, p=data.area)
    seen, hidden = index[: rng.binomial(n, 1 - mask)], index[n:]
    wind, points, frames = (
        data.ambient[rng.choice(np.flatnonzero(~data.filled))],
        data.points,
        data.frames[hidden],
    )
    truth, history = in_frames(frames, wind[hidden]), past.ambient[~past.filled]
    earth = Earth()
    models = {
        "zero": Zero(),
        "mean": Mean(),
        "inverse distance": InverseDistance(),
        "thin plate": ThinPlate(),
        "ambient process": AmbientProcess(),
        "process per component": ComponentProcess(),
        "FieldInterpolator": tb.FieldInterpolator(manifold=earth),
        "with history": tb.FieldInterpolator(
            manifold=earth, history=history, history_points=past.points
        ),
    }
    answers, hits = {}, {}
    for name, model in models.items():
        model.fit(points[seen], wind[seen])
        if isinstance(model, tb.FieldInterpolator):
            answers[name], cov = model.predict(points[hidden], return_cov=True, with_noise=True)
            std = np.sqrt(np.einsum("nij,nik,nkj->nj", frames, cov, frames))
            inside = shares_inside(in_frames(frames, answers[name]) - truth, std)
            hits[name] = list(inside.values())
        else:
            answers[name] = model.predict(points[hidden])
    answers["past mean"] = history.mean(axis=0)[hidden]
    off = {name: in_frames(frames, answer) - truth for name, answer in answers.items()}
    return Scored({name: float(np.square(x).sum()) for name, x in off.items()}, hits)


def interpolate(runs: int = RUNS, max_n: int = max(SIZES), jobs: int = 1) -> list[Row]:
    """Wind of block B at points not observed, relative to the zero predictor; with a history: block
    A."""
    sizes = [n for n in SIZES if n <= max_n]
    rows: list[Row] = []
    with ProcessPoolExecutor(jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for n, mask in product(sizes, (0.5, 0.3, 0.1)):
            draws = list(pool.map(interpolate_once, repeat(n), repeat(mask), range(runs)))
            errors = {
                name: np.array([draw.errors[name] for draw in draws]) for name in draws[0].errors
            }
            cell = []
            for name, values in errors.items():
                row = {
                    "n": n,
                    "mask": mask,
                    "method": name,
                    "mean": float(values.sum() / errors["zero"].sum()),
                    "spread": float((values / errors["zero"]).std()),
                }
                if name in draws[0].hits:
                    row["in50"], row["in90"] = (
                        float(v) for v in np.mean([draw.hits[name] for draw in draws], axis=0)
                    )
                cell.append({**row, "runs": runs})
            print_rows(cell)
            rows += cell
    return rows
