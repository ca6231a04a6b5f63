"""Eigenvalues of samples against those of the manifold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import joblib
import numpy as np
import torch

import tangentbundle as tb
from harness.records import Row
from harness.timing import seconds
from tangentbundle.geometry.ordering import principal_coordinates
from tangentbundle.geometry.scale import target_neighbors
from tangentbundle.operators import Generator, KernelMoments

from .ellipsoid import spectra

# Orders and constants.

SPHERE = tb.manifolds.Sphere(2)
THREE = tb.manifolds.Sphere(3)
FLAT = tb.manifolds.FlatTorus((1.0, 1.0))
ELLIPSOID = tb.manifolds.Ellipsoid()
SIZES = (1000, 5000, 20_000, 80_000)
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


SCORES = ("error", "signed", "each")
"""Of a row: the error of group means, the signed error, and that of each eigenvalue."""


def accuracy(max_n: int = max(SIZES), seeds: int = 5, jobs: int = 1) -> list[Row]:
    """Eigenvalues against exact ones: orders 1, 2, 3 of the Laplacian, with the kernel's and the
    sample's constant.

    Mean over seeds of the error of group means, of the signed error and of that of each
    eigenvalue, in percent.
    """
    sizes = [n for n in SIZES if n <= max_n]
    tasks = list(product(CASES, sizes, (None, 30), range(seeds)))
    measured = joblib.Parallel(jobs)(joblib.delayed(measure)(*task) for task in tasks)
    rows = []
    for start in range(0, len(tasks), seeds):
        for same in zip(*measured[start : start + seeds], strict=True):
            rows.append(mean_over_seeds(same))
    return rows


def mean_over_seeds(rows: Sequence[Row]) -> Row:
    """One row for those that differ by their seed alone, in percent."""
    row = {key: value for key, value in rows[0].items() if key not in SCORES}
    row["factor"] = float(np.mean([row["factor"] for row in rows]))
    for score in SCORES:
        row[f"{score} %"] = float(100 * np.mean([row[score] for row in rows]))
    row["std %"] = float(100 * np.std([row["error"] for row in rows]))
    return row


# Numbers of neighbours.

SCALE_SIZES = {2: (1000, 4000, 16_000, 64_000), 3: (2000, 8000, 32_000)}
GROUPS = {2: 30, 3: 19}
"""Eigenvalues looked at: the first three groups, at 1, 5, 11 on S^2 and at 1, 2, 6 on S^3."""

NEIGHBORS = (12, 16, 22, 30, 42, 60, 84, 120, 170, 240, 340)
SCALE_SEEDS = 2


def order_one_errors(d: int, n: int, k: int, seed: int) -> tuple[float, float, float, float]:
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


def scale() -> list[Row]:
    """Eigenvalue error on S^2 and S^3 against the number of neighbours: how the automatic scale was
    found."""
    rows = []
    for d, sizes in SCALE_SIZES.items():
        for n in sizes:
            chosen = target_neighbors(n, d)
            for k in sorted({*NEIGHBORS, chosen}):
                if k <= n / 8:
                    error, signed, eps, default = np.mean(
                        [order_one_errors(d, n, k, seed) for seed in range(SCALE_SEEDS)], axis=0
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


# Many dimensions.

HIGH_POINTS = 20_000
HIGH_NEIGHBORS = 30
AMBIENT = 300


def group_errors(case: str, bundle: tb.TangentBundle, exact: np.ndarray) -> list[Row]:
    """A row for each group of equal exact eigenvalues: their mean, and the mean relative error of
    its members."""
    found, rows = bundle.laplacian().spectrum(len(exact), tol=1e-7)[0], []
    for value in np.unique(exact):
        group = found[exact == value]
        row = {
            "case": case,
            "n": bundle.num_points,
            "neighbours": int(np.median(bundle.sorted_graph.degrees)),
        }
        row |= {"exact": float(value), "fold": len(group), "mean": float(group.mean())}
        rows.append(
            row
            | {
                "error": float(np.abs(group / value - 1).mean()),
                "spread": float(np.ptp(group) / value),
            }
        )
    return rows


def highdim() -> list[Row]:
    """A sphere turned into R^300: seconds and eigenvalues, without and with ambient noise."""
    sphere, rng = tb.manifolds.Sphere(2), np.random.default_rng(0)
    low = sphere.sample(HIGH_POINTS, seed=0)
    high = low @ np.linalg.qr(rng.standard_normal((AMBIENT, 3)))[0].T
    noisy = high + 0.005 * rng.standard_normal(high.shape)
    clouds = {
        "R^3": (low, HIGH_NEIGHBORS),
        f"R^{AMBIENT}": (high, HIGH_NEIGHBORS),
        f"R^{AMBIENT}, noise 0.005": (noisy, HIGH_NEIGHBORS),
        f"R^{AMBIENT}, noise 0.005, automatic scale": (noisy, None),
        f"R^{AMBIENT}, noise 0.005, first 3 principal coordinates": (
            principal_coordinates(torch.from_numpy(noisy), 3).numpy(),
            HIGH_NEIGHBORS,
        ),
    }
    rows = []
    for case, (points, k) in clouds.items():
        single = points.astype(np.float32)
        time = seconds(
            lambda p=single, k=k: tb.TangentBundle.from_points(p, neighbors=k).laplacian(), 3
        )
        bundle = tb.TangentBundle.from_points(points, neighbors=k)
        rows += [
            {**row, "build_s": time}
            for row in group_errors(case, bundle, sphere.vector_spectrum(30))
        ]
    return rows
