"""Weights trained on 400 points of a torus, run unchanged on more: the distance to the
dense-sampling answer."""

from __future__ import annotations

import numpy as np
import torch

import tangentbundle as tb
from harness.records import Row
from tangentbundle.testing import relative_error

SIZES, DENSE, SEEDS = (400, 800, 1_600, 3_200, 6_400, 12_800, 20_000), 80_000, 4
TORUS = tb.manifolds.Torus(0.3, 0.1)


def field(points: np.ndarray) -> np.ndarray:
    """A smooth tangent field ``(n, 3)``: around the axis, stronger at the outer side, with a wave
    along the tube."""
    phi = np.arctan2(points[:, 1], points[:, 0])
    around = np.stack([-np.sin(phi), np.cos(phi), 0 * phi], axis=1)
    return (1 + 0.5 * np.cos(3 * phi) + 5 * points[:, 2])[:, None] * around


def trained(seed: int) -> tb.nn.TNN:
    """A network that takes noise off the field, trained on 400 points."""
    rng = np.random.default_rng(seed)
    points = TORUS.sample(400, seed=seed)
    bundle = tb.TangentBundle.from_points(points)
    clean, noisy = (
        torch.from_numpy(
            bundle.to_coordinates(field(points) + tau * rng.standard_normal(points.shape))
        )
        for tau in (0.0, 0.3)
    )
    net = tb.nn.TNN([1, 8, 4, 1], step=0.001, seed=seed).double()
    tb.fit(net, [(noisy, bundle.laplacian(), clean)], epochs=400, progress=False)
    return net


def run() -> list[Row]:
    """One row a size: relative difference at the points of the smaller cloud, which the dense one
    contains."""
    errors = np.zeros((SEEDS, len(SIZES)))
    for seed in range(SEEDS):
        net = trained(seed)
        points = TORUS.sample(
            DENSE, seed=1_000 + seed
        )  # independent points: each beginning is a sample itself
        dense = output(net, points)
        for column, n in enumerate(SIZES):
            errors[seed, column] = relative_error(output(net, points[:n]), dense[:n])
    slope = float(np.polyfit(np.log(SIZES), np.log(errors.mean(axis=0)), 1)[0])
    return [
        {
            "n": n,
            "relative_difference": float(e.mean()),
            "std": float(e.std()),
            "seeds": SEEDS,
            "slope": slope,
        }
        for n, e in zip(SIZES, errors.T, strict=True)
    ]


def output(net: tb.nn.TNN, points: np.ndarray) -> torch.Tensor:
    """The network's answer as ambient vectors."""
    bundle = tb.TangentBundle.from_points(points)
    x = torch.from_numpy(bundle.to_coordinates(field(points)))
    with torch.no_grad():
        return bundle.to_ambient(net(x, bundle.laplacian()))
