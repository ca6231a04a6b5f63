"""``Heat(t)`` on a CPU against ``scipy.sparse.linalg.expm_multiply``: n = 40 000, 30 neighbours, 16
channels."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch
from scipy.sparse.linalg import expm_multiply

import tangentbundle as tb
from harness.records import Row
from harness.timing import best_in_turns

POINTS, NEIGHBORS, CHANNELS = 40_000, 30, 16
ASKED = 50.0


def run() -> list[Row]:
    """One row for a time t and a precision; errors are relative to the output (white noise loses
    most of its energy).

    The first call, with its look for the spectral interval, is given apart. ``expm_multiply`` takes
    the operator of order 1, whose matrix has the neighbours only. ``order_2_ratio`` is the time of
    the default over that of order 1.
    """
    points = tb.manifolds.Sphere(2).sample(POINTS, seed=0)
    bundle = tb.TangentBundle.from_points(points, neighbors=NEIGHBORS)
    exact, second = bundle.laplacian(terms=1), bundle.laplacian(terms=2)
    signal = np.random.default_rng(0).standard_normal((POINTS, 2, CHANNELS))
    rows = []
    for t in (0.01, 0.1):
        reference = tb.Heat(t)(exact, signal, tb.Chebyshev(1e-12))
        for dtype, tol in ((torch.float64, 1e-8), (torch.float32, 1e-6)):
            laplacian, other, x = (
                exact.to(dtype=dtype),
                second.to(dtype=dtype),
                torch.from_numpy(signal).to(dtype),
            )
            method, heat = tb.Chebyshev(tol), tb.Heat(t)
            start = time.perf_counter()
            y = heat(laplacian, x, method)
            first = time.perf_counter() - start
            turns = {
                "order 1": partial(heat, laplacian, x, method),
                "order 2": partial(heat, other, x, method),
            }
            found = best_in_turns(turns, 5)
            ours = found["order 1"]
            error = np.linalg.norm(y.double().numpy() - reference) / np.linalg.norm(reference)
            row = {
                "t": t,
                "dtype": str(dtype).removeprefix("torch."),
                "seconds": ours,
                "first_call_s": first,
            }
            row |= {
                "terms": method.coefficients([heat], laplacian).shape[1],
                "relative_error": float(error),
            }
            row |= {"order_2_terms": method.coefficients([heat], other).shape[1]}
            row |= {"order_2_ratio": found["order 2"] / ours}
            rows.append(row)
        matrix = (exact.to_scipy() * t).tocsr()
        start = time.perf_counter()
        theirs = expm_multiply(matrix, signal.reshape(-1, CHANNELS))
        seconds = time.perf_counter() - start
        error = float(
            np.linalg.norm(theirs.reshape(signal.shape) - reference) / np.linalg.norm(reference)
        )
        for row in rows[-2:]:
            row |= {"expm_multiply_s": seconds, "faster": seconds / row["seconds"], "asked": ASKED}
            row["expm_multiply_error"] = error
    return rows
