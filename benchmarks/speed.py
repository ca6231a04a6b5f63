"""Time of ``FieldDenoiser().fit`` against scikit-learn's Gaussian process, and alone:
``python -m benchmarks.speed``.

A noisy tangent field on a torus. The denoiser compares all its models; scikit-learn fits one
kernel. Measured are one BLAS thread and one for every core, on an idle machine and next to two busy
processes, each in its own process. ``--large`` measures large clouds instead, where scikit-learn's
matrices have no room.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

import tangentbundle as tb
from tangentbundle.io.summary import short_name

from .harness import Row, busy, in_new_process, print_table, save
from .scaling import peak_bytes

SIZES, LARGE = (400, 600, 1000, 1400, 2000), (20_000, 200_000)
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


def alone(n: int) -> Row:
    """Fit and predict at all points: seconds, the peak of memory, and the model that answered."""
    points, noisy = problem(n)
    denoiser = tb.FieldDenoiser(random_state=0)
    fit = seconds(lambda: denoiser.fit(points, noisy))
    predict = seconds(lambda: denoiser.predict(points))
    model = short_name(str(denoiser.models_[0]))
    return {
        "n": n,
        "fit_s": fit,
        "predict_s": predict,
        "peak_gb": peak_bytes() / 1e9,
        "model": model,
    }


def run(sizes: Sequence[int] = SIZES, repeats: int = 2) -> list[Row]:
    rows: list[Row] = []
    cells = list(product((1, os.cpu_count() or 1), (0, BUSY), sizes))
    for threads, others, n in cells:
        limits = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
        )
        with busy(others):
            found = in_new_process("benchmarks.speed", "--measure", "compare", n, repeats, **limits)
        rows.append({"n": n, "threads": threads, "busy processes": others, **found})
        print(f"{len(rows)} of {len(cells)}", end="\r", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of points")
    parser.add_argument(
        "--repeats", type=int, default=2, help="fits of each kind, of which the fastest counts"
    )
    parser.add_argument(
        "--large", type=int, nargs="*", help=f"instead, clouds of these sizes; default {LARGE}"
    )
    parser.add_argument(
        "--measure", nargs="+", help=argparse.SUPPRESS
    )  # one measurement in this process, as JSON
    options = parser.parse_args()
    if options.measure is not None:
        name, *numbers = options.measure
        print(json.dumps({"compare": compare, "alone": alone}[name](*map(int, numbers))))
        return
    if options.large is None:
        name, rows = "speed", run(options.sizes, options.repeats)
    else:
        sizes = options.large or LARGE
        name, rows = (
            "speed_large",
            [in_new_process("benchmarks.speed", "--measure", "alone", n) for n in sizes],
        )
    print()
    print_table(rows)
    save(name, rows)


if __name__ == "__main__":
    main()
