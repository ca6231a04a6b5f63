"""Eigenvalues against exact ones: orders 1, 2, 3 of the Laplacian, with the kernel's and the
sample's constant.

``ACCURACY_SIZES`` (1000,5000,20000,80000), ``ACCURACY_SEEDS`` (5) and ``ACCURACY_JOBS`` (1,
processes) change the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

import tangentbundle as tb
from harness.records import Row
from tangentbundle.operators import Generator, KernelMoments

from .ellipsoid import spectra

SPHERE, THREE, FLAT, ELLIPSOID = (
    tb.manifolds.Sphere(2),
    tb.manifolds.Sphere(3),
    tb.manifolds.FlatTorus((1.0, 1.0)),
    tb.manifolds.Ellipsoid(),
)
NOISE = 0.01
"""Standard deviation of each coordinate of the noisy sphere."""


def fibonacci(n: int, seed: int) -> np.ndarray:
    """The Fibonacci lattice on the sphere, turned by a random rotation."""
    z = 1 - (2 * np.arange(n) + 1) / n
    phi = np.pi * (1 + np.sqrt(5)) * np.arange(n)
    points = np.stack([np.sqrt(1 - z**2) * np.cos(phi), np.sqrt(1 - z**2) * np.sin(phi), z], axis=1)
    return points @ np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]


def jittered(n: int, seed: int) -> np.ndarray:
    """One point at random in each cell of a square grid on the flat torus."""
    side = int(np.sqrt(n))
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    a, b = (2 * np.pi / side * (cells + np.random.default_rng(seed).random(cells.shape))).T
    return np.stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)], axis=1)


def noisy(n: int, seed: int) -> np.ndarray:
    return SPHERE.sample(n, seed=seed) + NOISE * np.random.default_rng([seed, 1]).standard_normal(
        (n, 3)
    )


@cache
def ellipsoid_spectra() -> tuple[np.ndarray, np.ndarray]:
    return spectra(ELLIPSOID.axes, 16, degree=8)


@dataclass(frozen=True)
class Case:
    """A sample with its dimension and its exact eigenvalues, of functions and of fields."""

    sample: Callable[[int, int], np.ndarray]
    dim: int
    exact: Callable[[], tuple[np.ndarray, np.ndarray]]


def of(
    manifold: tb.manifolds.Manifold, functions: int, fields: int
) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    return lambda: (manifold.scalar_spectrum(functions), manifold.vector_spectrum(fields))


CASES = {
    "S2": Case(SPHERE.sample, 2, of(SPHERE, 16, 30)),
    "S2, Fibonacci": Case(fibonacci, 2, of(SPHERE, 16, 30)),
    "S2, density 5:1": Case(
        lambda n, seed: SPHERE.sample_nonuniform(n, 5.0, seed=seed), 2, of(SPHERE, 16, 30)
    ),
    "S2, noise": Case(noisy, 2, of(SPHERE, 16, 30)),
    "S3": Case(THREE.sample, 3, of(THREE, 14, 19)),
    "flat torus": Case(FLAT.sample, 2, of(FLAT, 13, 26)),
    "flat torus, jittered grid": Case(jittered, 2, of(FLAT, 13, 26)),
    "ellipsoid": Case(ELLIPSOID.sample, 2, ellipsoid_spectra),
}


def measure(name: str, n: int, neighbors: int | None, seed: int) -> list[Row]:
    """Rows of one cloud. The spectrum of P gives those of all orders and constants."""
    case, rows = CASES[name], []
    bundle = tb.TangentBundle.from_points(case.sample(n, seed), dim=case.dim, neighbors=neighbors)
    for kind, exact in zip(("functions", "fields"), case.exact(), strict=True):
        part = bundle.scalar() if kind == "functions" else bundle
        lap = part.laplacian(calibrate=KernelMoments(), terms=1)
        deficits = lap.scale * lap.spectrum(len(exact), tol=1e-7)[0]
        for constant, scale in (("kernel", lap.scale), ("sample", part.laplacian().scale)):
            for order in (1, 2, 3):
                ratios = Generator(scale, order)(deficits)[exact > 1e-6] / exact[exact > 1e-6] - 1
                labels = np.unique(exact[exact > 1e-6].round(3), return_inverse=True)[1]
                groups = np.bincount(labels, ratios) / np.bincount(labels)
                row = {"case": name, "of": kind, "neighbors": neighbors or "automatic", "n": n}
                row |= {
                    "constant": constant,
                    "order": order,
                    "degree": int(np.median(bundle.sorted_graph.degrees)),
                }
                row |= {
                    "error": np.abs(groups).mean(),
                    "signed": ratios.mean(),
                    "each": np.abs(ratios).mean(),
                }
                rows.append(row | {"factor": scale / lap.scale})
    return rows


def run() -> list[Row]:
    """Mean over seeds of the error of group means, of the signed error and of that of each
    eigenvalue, in percent."""
    sizes = [int(n) for n in os.environ.get("ACCURACY_SIZES", "1000,5000,20000,80000").split(",")]
    seeds, jobs = (
        int(os.environ.get(f"ACCURACY_{key}", default))
        for key, default in (("SEEDS", 5), ("JOBS", 1))
    )
    tasks = list(product(CASES, sizes, (None, 30), range(seeds)))
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            found = list(pool.map(measure, *zip(*tasks, strict=True)))
    else:
        found = [measure(*task) for task in tasks]
    rows = []
    for start in range(0, len(tasks), seeds):
        for same in zip(*found[start : start + seeds], strict=True):
            numbers = {
                key: np.array([row[key] for row in same])
                for key in ("error", "signed", "each", "factor")
            }
            row = same[0] | {
                f"{key} %": float(100 * numbers[key].mean()) for key in ("error", "signed", "each")
            }
            row |= {
                "std %": float(100 * numbers["error"].std()),
                "factor": float(numbers["factor"].mean()),
            }
            rows.append(
                {key: value for key, value in row.items() if key not in ("error", "signed", "each")}
            )
    return rows
