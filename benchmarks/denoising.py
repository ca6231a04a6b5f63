"""Denoising a million points without a dense matrix: ``python -m benchmarks.denoising [POINTS]``.

A gradient field on S^2 with noise of 0.3 in every component, frames estimated; nothing but points and vectors is given.
Another number of points is measured without keeping the result.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import tangentbundle as tb

from .harness import Row, print_table, save
from .scaling import peak_bytes

POINTS = 1_000_000
NOISE = 0.3


def measure(n: int) -> Row:
    sphere = tb.manifolds.Sphere(2)
    points = sphere.sample(n, seed=0)
    clean = sphere.gradient_field(points, 3)
    noisy = clean + NOISE * np.random.default_rng(1).standard_normal(clean.shape)
    start = time.perf_counter()
    denoiser = tb.FieldDenoiser(tb.estimators.SpectralShrinkage(), dim=2, random_state=0).fit(points, noisy)
    fitted = time.perf_counter()
    answer = denoiser.predict(points)
    done = time.perf_counter()
    frames = sphere.frames(points)

    def error(field: np.ndarray) -> float:
        return float(np.square(np.einsum("nij,ni->nj", frames, field - clean)).sum(axis=1).mean())

    times = {"fit_s": fitted - start, "predict_s": done - fitted, "peak_gb": peak_bytes() / 1e9}
    return {"points": n, "error": error(answer), "identity": error(noisy), "noise": float(denoiser.noise_), **times}


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else POINTS
    row = measure(count)
    print_table([row])
    if count == POINTS:
        save("denoising", [row])
