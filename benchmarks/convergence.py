"""Theorem 1 in numbers: filters of sampled eigenfields on S^2 against the exact continuous answer,
as n grows."""

from __future__ import annotations

import numpy as np

import tangentbundle as tb
from harness.records import Row

SIZES = (200, 500, 1000, 2000, 5000, 10_000, 20_000)
FILTERS = {"Heat(0.2)": tb.Heat(0.2), "FIR([0, .6, .4], .1)": tb.FIR([0.0, 0.6, 0.4], step=0.1)}


def run() -> list[Row]:
    """Mean and standard deviation over seeds of the relative error, and the slope of its logarithm
    against log n."""
    sphere, rows = tb.manifolds.Sphere(2), []
    for name, filter in FILTERS.items():
        for degree in (1, 2):
            means = []
            for n in SIZES:
                seeds = 8 if n <= 2000 else 3
                errors = [error(sphere, filter, degree, n, seed) for seed in range(seeds)]
                means.append(np.mean(errors))
                row = {
                    "filter": name,
                    "degree": degree,
                    "eigenvalue": sphere.gradient_eigenvalue(degree),
                    "n": n,
                }
                rows.append(
                    row | {"error": float(means[-1]), "std": float(np.std(errors)), "seeds": seeds}
                )
            slope = float(np.polyfit(np.log(SIZES), np.log(means), 1)[0])
            for row in rows[-len(SIZES) :]:
                row["slope"] = slope
    return rows


def error(
    sphere: tb.manifolds.Sphere, filter: tb.filters.Filter, degree: int, n: int, seed: int
) -> float:
    """Relative difference between the filtered sampled field and the sampled exact answer, in
    coordinates."""
    points = sphere.sample(n, seed=seed)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    x = bundle.to_coordinates(sphere.gradient_field(points, degree))
    exact = filter.response(np.array([sphere.gradient_eigenvalue(degree)]))[0] * x
    got = filter(bundle.laplacian(), x)
    return float(np.linalg.norm(got - exact) / np.linalg.norm(exact))
