"""Time of ``FieldDenoiser().fit`` against scikit-learn's Gaussian process.

A noisy tangent field on a torus. The denoiser compares all its models; scikit-learn fits one
kernel. Measured are one BLAS thread and one for every core, on an idle machine and next to two busy
processes, each in its own process.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

import tangentbundle as tb
from harness.records import Row
from harness.timing import busy, in_new_process

SIZES = (400, 600, 1000, 1400, 2000)
BUSY = 2
"""Processes that keep the machine busy."""


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    torus, rng = tb.manifolds.Torus(), np.random.default_rng(1)
    points = torus.sample(n, seed=0)
    return points, torus.tangent_field(points) + 0.3 * rng.standard_normal(points.shape)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(n: int, repeats: int) -> Row:
    """Least seconds of both fits, which take turns."""
    kernel = ConstantKernel() * Matern(nu=1.5) + WhiteKernel()
    fits: dict[str, Callable[..., object]] = {
        "denoiser_s": lambda *data: tb.FieldDenoiser(random_state=0).fit(*data),
        "sklearn_s": lambda *data: GaussianProcessRegressor(kernel).fit(*data),
    }
    warnings.simplefilter("ignore", ConvergenceWarning)
    data, small = problem(n), problem(300)
    for fit in fits.values():
        fit(*small)  # compile
    turns = [
        {name: seconds(partial(fit, *data)) for name, fit in fits.items()} for _ in range(repeats)
    ]
    best = {name: min(turn[name] for turn in turns) for name in fits}
    return {**best, "faster": best["sklearn_s"] / best["denoiser_s"]}


def run(max_n: int = max(SIZES), repeats: int = 2) -> list[Row]:
    """One row for each number of threads, of busy processes and of points."""
    rows: list[Row] = []
    cells = list(product((1, os.cpu_count() or 1), (0, BUSY), [n for n in SIZES if n <= max_n]))
    for threads, others, n in cells:
        limits = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
        )
        with busy(others):
            best = in_new_process(compare, n, repeats, **limits)
        rows.append({"n": n, "threads": threads, "busy processes": others, **best})
        print(f"{len(rows)} of {len(cells)}", end="\r", flush=True)
    return rows
