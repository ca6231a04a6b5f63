"""Points to connection Laplacian, against setting up potpourri3d's point-cloud heat solver and one
transport."""

from __future__ import annotations

import numpy as np

import tangentbundle as tb
from harness.records import Row
from harness.timing import baseline, best_in_turns

POINTS, NEIGHBORS, ASKED = 40_000, 30, 8.0


def run() -> list[Row]:
    potpourri3d = baseline("potpourri3d")
    points = tb.manifolds.Sphere(2).sample(POINTS, seed=0)
    single = points.astype(np.float32)
    best = best_in_turns(
        {
            "tangentbundle": lambda: tb.TangentBundle.from_points(
                single, neighbors=NEIGHBORS
            ).laplacian(),
            "potpourri3d": lambda: potpourri3d.PointCloudHeatSolver(
                points
            ).transport_tangent_vector(0, [1.0, 0.0]),
        },
        repeats=7,
    )
    ratio = best["potpourri3d"] / best["tangentbundle"]
    return [
        {
            "library": "tangentbundle",
            "n": POINTS,
            "seconds": best["tangentbundle"],
            "faster": ratio,
            "asked": ASKED,
        },
        {"library": "potpourri3d", "n": POINTS, "seconds": best["potpourri3d"]},
    ]
