"""One bundle shared by eight threads gives the answers of one thread, first-use caches and
compilation included."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np

import tangentbundle as tb

THREADS = 8


def tasks(bundle: tb.TangentBundle, lap: tb.Laplacian) -> list[Callable[[], np.ndarray]]:
    """Things to do with a bundle that compute something once and keep it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((bundle.num_points, 2, 3))
    filters = [tb.Heat(0.01 * k) for k in range(1, 80)]  # more than an operator keeps
    return [
        lambda: lap @ x,
        lambda: lap.to_frequency(x, 12),
        lambda: lap.from_frequency(lap.to_frequency(x, 30)),
        lambda: tb.Heat(0.1)(lap, x, tb.Chebyshev(1e-8)),
        lambda: tb.Heat(0.1)(lap, x, tb.Exact()),
        lambda: tb.Heat(0.1)(lap, x, tb.Dense()),
        lambda: sum(f(lap, x, tb.Chebyshev(1e-8)) for f in filters),
        lambda: bundle.to_ambient(bundle.to_coordinates(np.ones((len(x), 3)))),
        lambda: bundle.laplacian().spectrum(8)[0],
        lambda: np.asarray(lap.spectral_interval),
    ]


def disagreement(rounds: int) -> float:
    """The largest relative difference between threads on a fresh bundle and one thread on
    another."""
    points, worst = tb.manifolds.Torus().sample(250, seed=0), 0.0
    alone = tb.TangentBundle.from_points(points, dim=2)
    truth = [task() for task in tasks(alone, alone.laplacian())]
    for _ in range(rounds):
        bundle = tb.TangentBundle.from_points(points, dim=2)
        shared, start = tasks(bundle, bundle.laplacian()), Barrier(THREADS)

        def work(number: int, shared: list = shared, start: Barrier = start) -> list[np.ndarray]:
            start.wait()
            order = np.roll(np.arange(len(shared)), -number)
            found = {k: shared[k]() for k in order}
            return [found[k] for k in range(len(shared))]

        with ThreadPoolExecutor(THREADS) as pool:
            for found in pool.map(work, range(THREADS)):
                pairs = zip(found, truth, strict=True)
                worst = max(
                    worst, *(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)
                )
    return worst


COMPILE = """
import pickle, sys
from concurrent.futures import ThreadPoolExecutor
lap, x, truth = pickle.load(open(sys.argv[1], "rb"))
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(lambda _: lap @ x, range(8)))
assert all((y == truth).all() for y in found)
"""


def compiled_together() -> bool:
    """Eight threads of a new process whose first call compiles: no cache of machine code is at
    hand."""
    lap = tb.TangentBundle.from_points(tb.manifolds.Torus().sample(250, seed=0), dim=2).laplacian()
    x = np.random.default_rng(0).standard_normal((250, 2, 3))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem"
        path.write_bytes(pickle.dumps((lap, x, lap @ x)))
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        return (
            subprocess.run(
                [sys.executable, "-c", COMPILE, str(path)], env=environment, check=False
            ).returncode
            == 0
        )


def run(share: float = 1.0) -> list[dict[str, Any]]:
    rounds = max(1, round(5 * share))
    worst = disagreement(rounds)
    rows = [
        {
            "what": "shared bundle",
            "threads": THREADS,
            "rounds": rounds,
            "worst relative difference": worst,
        }
    ]
    rows[0]["failures"] = int(worst > 1e-9)
    if share >= 1:
        failures = int(not compiled_together())
        rows.append(
            {"what": "first compilation", "threads": THREADS, "rounds": 1, "failures": failures}
        )
    return rows
