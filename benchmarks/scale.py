"""Eigenvalue error on S^2 and S^3 against the number of neighbours: how the automatic scale was
found."""

from __future__ import annotations

import numpy as np

import tangentbundle as tb
from harness.records import Row
from tangentbundle.geometry.scale import target_neighbors
from tangentbundle.operators import KernelMoments

SIZES = {2: (1000, 4000, 16_000, 64_000), 3: (2000, 8000, 32_000)}
GROUPS = {2: 30, 3: 19}
"""Eigenvalues looked at: the first three groups, at 1, 5, 11 on S^2 and at 1, 2, 6 on S^3."""

NEIGHBORS = (12, 16, 22, 30, 42, 60, 84, 120, 170, 240, 340)
SEEDS = 2


def errors(d: int, n: int, k: int, seed: int) -> tuple[float, float, float, float]:
    """Mean relative error of eigenvalues of order 1, its signed mean, eps, and the error of the
    default operator."""
    sphere = tb.manifolds.Sphere(d)
    exact = sphere.vector_spectrum(GROUPS[d])
    bundle = tb.TangentBundle.from_points(sphere.sample(n, seed=seed), dim=d, neighbors=k)
    lap, default = bundle.laplacian(calibrate=KernelMoments(), terms=1), bundle.laplacian()
    found = lap.spectrum(len(exact), tol=1e-6)[0]
    relative, better = found / exact - 1, default.generator(lap.scale * found) / exact - 1
    return (
        float(np.abs(relative).mean()),
        float(relative.mean()),
        bundle.eps,
        float(np.abs(better).mean()),
    )


def run() -> list[Row]:
    rows = []
    for d, sizes in SIZES.items():
        for n in sizes:
            chosen = target_neighbors(n, d)
            for k in sorted({*NEIGHBORS, chosen}):
                if k <= n / 8:
                    error, signed, eps, default = np.mean(
                        [errors(d, n, k, seed) for seed in range(SEEDS)], axis=0
                    )
                    row = {"d": d, "n": n, "neighbors": k, "chosen": k == chosen, "eps": float(eps)}
                    rows.append(
                        {
                            **row,
                            "error": float(error),
                            "signed": float(signed),
                            "default": float(default),
                        }
                    )
    return rows
