"""What Theorem 1 promises: sampled filters and networks come nearer to those of the manifold as n
grows."""

from __future__ import annotations

import numpy as np
import torch

import tangentbundle as tb
from harness.records import Row
from tangentbundle.testing import relative_error

# Filters.

SIZES = (200, 500, 1000, 2000, 5000, 10_000, 20_000)
FILTERS = {"Heat(0.2)": tb.Heat(0.2), "FIR([0, .6, .4], .1)": tb.FIR([0.0, 0.6, 0.4], step=0.1)}


def convergence() -> list[Row]:
    """Filters of sampled eigenfields on S^2 against the exact continuous answer, as n grows.

    Mean and standard deviation over seeds of the relative error, and the slope of its logarithm
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


# Networks.

TRANSFER_SIZES = (400, 800, 1_600, 3_200, 6_400, 12_800, 20_000)
DENSE_SIZE = 80_000
TRANSFER_SEEDS = 4
TORUS = tb.manifolds.Torus(0.3, 0.1)


def smooth_field(points: np.ndarray) -> np.ndarray:
    """A smooth tangent field ``(n, 3)``: around the axis, stronger at the outer side, with a wave
    along the tube."""
    phi = np.arctan2(points[:, 1], points[:, 0])
    around = np.stack([-np.sin(phi), np.cos(phi), 0 * phi], axis=1)
    return (1 + 0.5 * np.cos(3 * phi) + 5 * points[:, 2])[:, None] * around


def trained_network(seed: int) -> tb.nn.TNN:
    """A network that takes noise off the field, trained on 400 points."""
    rng = np.random.default_rng(seed)
    points = TORUS.sample(400, seed=seed)
    bundle = tb.TangentBundle.from_points(points)
    clean, noisy = (
        torch.from_numpy(
            bundle.to_coordinates(smooth_field(points) + tau * rng.standard_normal(points.shape))
        )
        for tau in (0.0, 0.3)
    )
    net = tb.nn.TNN([1, 8, 4, 1], step=0.001, seed=seed).double()
    tb.fit(net, [(noisy, bundle.laplacian(), clean)], epochs=400, progress=False)
    return net


def transfer() -> list[Row]:
    """Weights trained on 400 points of a torus, run unchanged on more: the distance to the
    dense-sampling answer.

    One row for each size: relative difference at the points of the smaller cloud, which the dense
    one contains.
    """
    errors = np.zeros((TRANSFER_SEEDS, len(TRANSFER_SIZES)))
    for seed in range(TRANSFER_SEEDS):
        net = trained_network(seed)
        points = TORUS.sample(
            DENSE_SIZE, seed=1_000 + seed
        )  # independent points: each beginning is a sample itself
        dense = output(net, points)
        for column, n in enumerate(TRANSFER_SIZES):
            errors[seed, column] = relative_error(output(net, points[:n]), dense[:n])
    slope = float(np.polyfit(np.log(TRANSFER_SIZES), np.log(errors.mean(axis=0)), 1)[0])
    return [
        {
            "n": n,
            "relative_difference": float(e.mean()),
            "std": float(e.std()),
            "seeds": TRANSFER_SEEDS,
            "slope": slope,
        }
        for n, e in zip(TRANSFER_SIZES, errors.T, strict=True)
    ]


def output(net: tb.nn.TNN, points: np.ndarray) -> torch.Tensor:
    """The network's answer as ambient vectors."""
    bundle = tb.TangentBundle.from_points(points)
    x = torch.from_numpy(bundle.to_coordinates(smooth_field(points)))
    with torch.no_grad():
        return bundle.to_ambient(net(x, bundle.laplacian()))
