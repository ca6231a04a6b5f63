"""Error, coverage and time of ``FieldDenoiser`` against the number of points.

Five spaces, vector noise of 30 % of the field's root mean square in every component; nothing but
points and noisy vectors is given. Errors are relative to those of the identity, the data as they
are. Compared: a Gaussian process on the 64 nearest neighbours with hyperparameters by scikit-learn
on a subsample, the mean of nearest neighbours with their number by leave-one-out, and a filter of
the connection Laplacian.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import pairwise, product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from scipy.spatial import cKDTree
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

import tangentbundle as tb
from experiments.general import shares_inside
from harness.ledger import Ledger, key_of
from harness.records import Row
from harness.tables import print_rows
from tangentbundle.estimators import NeighborMean, SpectralFilter
from tangentbundle.files import only_writer

SIZES = (200, 500, 1000, 1900, 2100, 5000, 20_000, 50_000)
NOISE = 0.3
NO_VIOLATION = "No error rises with n or is above the identity's, by more than 5 %."

Cloud = tuple[np.ndarray, np.ndarray]
"""Points ``(n, D)`` and the vectors of the field there ``(n, D)``."""


def waves(
    points: np.ndarray, normals: np.ndarray, length: float, rng: np.random.Generator
) -> np.ndarray:
    """A random smooth field of R^D, projected on the planes normal to unit ``normals (n, D)``."""
    D = points.shape[1]
    directions, phases = rng.standard_normal((D, 50)) / length, rng.uniform(0, 2 * np.pi, 50)
    field = np.cos(points @ directions + phases) @ rng.standard_normal((50, D))
    return field - np.einsum("ni,ni->n", field, normals)[:, None] * normals


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ellipsoid(n: int, rng: np.random.Generator) -> Cloud:
    """An ellipsoid whose points are off by 0.02 in every coordinate."""
    axes = np.array([1.0, 0.8, 0.6])
    points = tb.manifolds.Ellipsoid(tuple(axes)).sample(n, seed=rng)
    field = waves(points, unit(points / axes**2), 0.5, rng)
    return points + 0.02 * rng.standard_normal(points.shape), field


def genus_two(n: int, rng: np.random.Generator) -> Cloud:
    """The surface ``(x^2 - x^4 - y^2)^2 + z^2 = 0.02`` around a figure of eight, sampled evenly by
    area."""

    def level(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The function that vanishes on the surface, and its gradient."""
        curve = x[:, 0] ** 2 - x[:, 0] ** 4 - x[:, 1] ** 2
        slope = np.stack([2 * x[:, 0] - 4 * x[:, 0] ** 3, -2 * x[:, 1], 0 * curve], axis=1)
        gradient = 2 * curve[:, None] * slope
        gradient[:, 2] = 2 * x[:, 2]
        return curve**2 + x[:, 2] ** 2 - 0.02, gradient

    found = np.empty((0, 3))
    while len(found) < n:
        x = rng.uniform(-1, 1, (100_000, 3)) * [1.2, 0.8, 0.25]
        value, gradient = level(x)
        x = x[
            np.abs(value) < 0.01 * np.linalg.norm(gradient, axis=1)
        ]  # nearer to the surface than about 0.01
        for _ in range(8):
            value, gradient = level(x)
            x = x - (value / np.square(gradient).sum(axis=1))[:, None] * gradient
        found = np.concatenate([found, x])
    points = found[:n]
    return points, waves(points, unit(level(points)[1]), 0.5, rng)


def open_cylinder(n: int, rng: np.random.Generator) -> Cloud:
    """A sheet around a circle with a gap of 0.3, on whose two sides the field differs."""
    angle, height = rng.uniform(0, 2 * np.pi - 0.3, n), rng.uniform(0, 1.5, n)
    around = np.stack([-np.sin(angle), np.cos(angle), 0 * angle], axis=1)
    turn = 0.75 * angle + 2 * height + rng.uniform(0, 2 * np.pi)
    points = np.stack([np.cos(angle), np.sin(angle), height], axis=1)
    return points, np.cos(turn)[:, None] * around + np.sin(turn)[:, None] * [0.0, 0.0, 1.0]


def swiss_roll(n: int, rng: np.random.Generator) -> Cloud:
    """A Swiss roll in 30 dimensions, its points off by 0.02 in every coordinate."""
    roll = tb.manifolds.SwissRoll()
    points = roll.sample(n, seed=rng)
    frames = roll.frames(points)
    turn = (
        0.5 * np.linalg.norm(points[:, [0, 1]], axis=1)
        + 0.2 * points[:, 2]
        + rng.uniform(0, 2 * np.pi)
    )
    field = frames[:, :, 0] * np.cos(turn)[:, None] + frames[:, :, 1] * np.sin(turn)[:, None]
    rotation = np.linalg.qr(rng.standard_normal((30, 3)))[0].T
    return points @ rotation + 0.02 * rng.standard_normal((n, 30)), field @ rotation


def three_sphere(n: int, rng: np.random.Generator) -> Cloud:
    points = tb.manifolds.Sphere(3).sample(n, seed=rng)
    return points, waves(points, points, 0.7, rng)


SPACES: dict[str, Callable[[int, np.random.Generator], Cloud]] = {
    "ellipsoid": ellipsoid,
    "genus 2": genus_two,
    "open cylinder": open_cylinder,
    "Swiss roll": swiss_roll,
    "3-sphere": three_sphere,
}


def local_process(
    points: np.ndarray, vectors: np.ndarray, rng: np.random.Generator, most: int = 500
) -> np.ndarray:
    """Gaussian processes on the 64 nearest points of each, with scikit-learn's hyperparameters for
    a subsample."""
    n, scale = len(points), vectors.std()
    subset = rng.choice(n, min(n, most), replace=False)
    size = np.sqrt(points.var(axis=0).sum())
    kernel = ConstantKernel(1.0) * Matern(size, nu=1.5) + WhiteKernel(0.1)
    fitted = GaussianProcessRegressor(kernel).fit(points[subset], vectors[subset] / scale).kernel_
    amplitude, length, noise = np.exp(fitted.theta)
    answer = np.empty_like(vectors)
    index = cKDTree(points).query(points, min(64, n), workers=-1)[1]
    for rows in np.array_split(np.arange(n), -(-n // 100)):
        near = points[index[rows]]
        distance = np.linalg.norm(near[:, :, None] - near[:, None], axis=3) * np.sqrt(3) / length
        covariance = amplitude * (1 + distance) * np.exp(-distance)
        own = covariance[:, 0].copy()  # the nearest point is the point itself
        covariance += noise * np.eye(near.shape[1])
        weights = np.linalg.solve(covariance, own[..., None])[..., 0]
        answer[rows] = np.einsum("nk,nki->ni", weights, vectors[index[rows]])
    return answer


def once(space: str, n: int, draw: int) -> Row:
    """One space, size and draw: errors relative to the identity's, coverage, seconds."""
    rng = np.random.default_rng([draw, list(SPACES).index(space)])
    points, field = (
        values[:n] for values in SPACES[space](max(SIZES), rng)
    )  # of one draw all sizes have one field
    noisy = field + NOISE * np.sqrt(np.square(field).mean()) * rng.standard_normal(field.shape)
    start = time.perf_counter()
    denoiser = tb.FieldDenoiser(random_state=0).fit(points, noisy)
    answer = denoiser.predict(points)
    seconds = time.perf_counter() - start
    index = np.unique(np.linspace(0, n - 1, min(n, 2000)).astype(int))
    mean, std = denoiser.predict(points[index], return_std=True)
    inside = shares_inside(mean - field[index], std)
    others = {
        "local GP": local_process(points, noisy, rng),
        "nearest": tb.FieldDenoiser(NeighborMean(), random_state=0)
        .fit(points, noisy)
        .predict(points),
        "filter": tb.FieldDenoiser(SpectralFilter(), random_state=0)
        .fit(points, noisy)
        .predict(points),
    }

    def error(found: np.ndarray) -> float:
        return float(np.sqrt(np.square(found - field).sum() / np.square(noisy - field).sum()))

    row = {
        "space": space,
        "n": n,
        "draw": draw,
        "model": denoiser.models_[0].name,
        "dim": denoiser.frames_.shape[2],
    }
    row |= {"error": error(answer), "in50": inside[50], "in90": inside[90], "seconds": seconds}
    return row | {name: error(found) for name, found in others.items()}


MEASURED = ("error", "in50", "in90", "seconds", "local GP", "nearest", "filter")


def means(rows: Sequence[Row]) -> list[Row]:
    """A row for each space and size: means over draws, and the model that most draws chose."""
    found = []
    for space, n in product(SPACES, SIZES):
        if draws := [row for row in rows if (row["space"], row["n"]) == (space, n)]:
            models = [row["model"][:22] for row in draws]
            cell: Row = {"space": space, "n": n, "model": max(set(models), key=models.count)}
            found.append(
                cell
                | {
                    name: round(float(np.mean([row[name] for row in draws])), 3)
                    for name in MEASURED
                }
            )
    return found


def check(rows: Sequence[Row], tolerance: float = 0.05) -> list[str]:
    """What is wrong with rows of ``means``: errors that rise with n, errors above the identity's,
    each with numbers."""
    wrong = []
    for method in ("error", "filter"):
        name = "FieldDenoiser" if method == "error" else "SpectralFilter"
        for row in rows:
            if row[method] > 1 + tolerance:
                wrong.append(
                    f"{name}, {row['space']}, n = {row['n']}: {row[method]:.2f} times the "
                    "identity's error"
                )
        for a, b in pairwise(rows):
            if a["space"] == b["space"] and b[method] > (1 + tolerance) * a[method]:
                sizes = f"from {a[method]:.3f} at n = {a['n']} to {b[method]:.3f} at n = {b['n']}"
                wrong.append(f"{name}, {a['space']}: the error rises {sizes}")
    return wrong


def run(
    max_n: int = max(SIZES),
    jobs: int = 1,
    draws: int = 3,
    resume: bool = True,
    out: Path = Path("runs/growth"),
) -> list[Row]:
    """One row for each space, size and draw; an interrupted run goes on where it stopped.

    ``jobs`` processes slow each other down.
    """
    sizes = [n for n in SIZES if n <= max_n]
    tasks = [
        {"space": space, "n": n, "draw": draw}
        for space, n, draw in product(SPACES, sizes, range(draws))
    ]
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with only_writer(out) as folder:
        ledger = Ledger(folder / "results.jsonl", {"benchmark": "growth"}, resume)
        unfinished = [task for task in tasks if key_of(task) not in ledger.done]
        unfinished.sort(key=lambda task: (-task["n"], task["draw"]))  # the longest first
        with ProcessPoolExecutor(jobs, get_context("spawn"), _warm, (threads,)) as pool:
            task_of = {pool.submit(once, **task): task for task in unfinished}
            for future in as_completed(task_of):
                ledger.append(task_of[future], [future.result()])
                print(f"{len(ledger.done)} of {len(tasks)}", end="\r", flush=True)
    rows_of = {row.pop("task"): row for row in ledger.rows}
    rows = [rows_of[key_of(task)] for task in tasks]
    for row in rows:
        del row["of"]
    averages = means(rows)
    print_rows(averages)
    violations = check(averages)
    print("\n".join(violations) or NO_VIOLATION)
    return rows


def _warm(threads: int) -> None:
    """Limit the threads of a process, and compile what is compiled at the first call."""
    torch.set_num_threads(threads)
    points, field = ellipsoid(100, np.random.default_rng(0))
    tb.FieldDenoiser(random_state=0).fit(points, field).predict(points)
