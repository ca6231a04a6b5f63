"""Cost of heat on a CPU: linear in points and edges, and as the square root of the time."""

from __future__ import annotations

import numpy as np
import torch

import tangentbundle as tb
from harness.records import Row
from harness.timing import seconds

CHANNELS = 4
ORDER = 30


def run() -> list[Row]:
    """Rows for growing n at a fixed number of steps, then for growing t at n = 40 000."""
    return [_size(n) for n in (10_000, 30_000, 100_000, 300_000, 1_000_000)] + _times(40_000)


def _size(n: int) -> Row:
    points = tb.manifolds.Sphere(2).sample(n, seed=0, dtype=np.float32)
    laplacian = tb.TangentBundle.from_points(points, neighbors=32, dim=2).laplacian()
    x = torch.randn(n, 2, CHANNELS)
    taken = seconds(lambda: tb.Heat(0.001)(laplacian, x, tb.Chebyshev(degree=ORDER)))
    edges = laplacian.num_edges
    return {
        "what": "n",
        "n": n,
        "edges": edges,
        "seconds": taken,
        "ns_per_edge_and_step": taken / edges / ORDER * 1e9,
    }


def _times(n: int) -> list[Row]:
    points = tb.manifolds.Sphere(2).sample(n, seed=0, dtype=np.float32)
    laplacian = tb.TangentBundle.from_points(points, neighbors=32).laplacian()
    x, rows = torch.randn(n, 2, CHANNELS), []
    for t in np.geomspace(1e-4, 10.0, 11):
        heat, method = tb.Heat(float(t)), tb.Chebyshev()
        taken = seconds(lambda: heat(laplacian, x, method))  # noqa: B023
        terms = method.coefficients([heat], laplacian).shape[1]
        rows.append(
            {
                "what": "t",
                "n": n,
                "edges": laplacian.num_edges,
                "t": float(t),
                "terms": terms,
                "seconds": taken,
            }
        )
    return rows
