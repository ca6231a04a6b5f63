"""A sphere turned into R^300: seconds and eigenvalues, without and with ambient noise."""

from __future__ import annotations

import numpy as np

import tangentbundle as tb

from .accuracy import group_errors
from .harness import Row, seconds

POINTS, AMBIENT, NEIGHBORS = 20_000, 300, 30


def run() -> list[Row]:
    sphere, rng = tb.manifolds.Sphere(2), np.random.default_rng(0)
    low = sphere.sample(POINTS, seed=0)
    high = low @ np.linalg.qr(rng.standard_normal((AMBIENT, 3)))[0].T
    clouds = {
        "R^3": low,
        f"R^{AMBIENT}": high,
        f"R^{AMBIENT}, noise 0.005": high + 0.005 * rng.standard_normal(high.shape),
    }
    rows = []
    for case, points in clouds.items():
        single = points.astype(np.float32)
        time = seconds(lambda p=single: tb.TangentBundle.from_points(p, neighbors=NEIGHBORS).laplacian(), 2)
        bundle = tb.TangentBundle.from_points(points, neighbors=NEIGHBORS)
        rows += [{**row, "build_s": time} for row in group_errors(case, bundle, sphere.vector_spectrum(30))]
    return rows
