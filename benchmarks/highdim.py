"""A sphere turned into R^300: seconds and eigenvalues, without and with ambient noise."""

from __future__ import annotations

import numpy as np
import torch

import tangentbundle as tb
from tangentbundle.geometry.ordering import principal_coordinates

from .harness import Row, seconds

POINTS, AMBIENT, NEIGHBORS = 20_000, 300, 30


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


def run() -> list[Row]:
    sphere, rng = tb.manifolds.Sphere(2), np.random.default_rng(0)
    low = sphere.sample(POINTS, seed=0)
    high = low @ np.linalg.qr(rng.standard_normal((AMBIENT, 3)))[0].T
    noisy = high + 0.005 * rng.standard_normal(high.shape)
    clouds = {
        "R^3": (low, NEIGHBORS),
        f"R^{AMBIENT}": (high, NEIGHBORS),
        f"R^{AMBIENT}, noise 0.005": (noisy, NEIGHBORS),
        f"R^{AMBIENT}, noise 0.005, automatic scale": (noisy, None),
        f"R^{AMBIENT}, noise 0.005, first 3 principal coordinates": (
            principal_coordinates(torch.from_numpy(noisy), 3).numpy(),
            NEIGHBORS,
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
