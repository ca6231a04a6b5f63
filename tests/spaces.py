"""Spaces, kernels and small helpers that many tests share."""

from __future__ import annotations

from functools import cache

import numpy as np

from tangentbundle import TangentBundle, kernels
from tangentbundle.manifolds import (
    Ellipsoid,
    FlatTorus,
    KleinBottle,
    Manifold,
    Product,
    Sphere,
    SwissRoll,
    Torus,
)

SPACES: list[Manifold] = [
    Sphere(1),
    Sphere(2),
    Sphere(3),
    Sphere(5),
    FlatTorus((1.0, 0.7)),
    FlatTorus((1.0, 1.0, 1.0)),
    Torus(),
    KleinBottle(4),
    Ellipsoid(),
    Ellipsoid((1.0, 0.7, 0.5, 0.9)),
    SwissRoll((0.5, 1.0), 3.0),
    Product(Sphere(2), Sphere(1)),
]
"""One of every kind, with d from 1 to 5, curved and flat, with and without boundary, orientable and
not."""

KERNELS = [kernels.Gaussian(), kernels.Uniform(), kernels.Epanechnikov(), kernels.Biweight()]

DTYPES = [np.float32, np.float64]

SIZE = {1: 200, 2: 200, 3: 140, 5: 100}
"""Points by dimension: dense forms stay small."""


@cache
def bundle_of(
    space: Manifold, kernel: kernels.Kernel | None = None, dtype: type = np.float64
) -> TangentBundle:
    """A small bundle with frames estimated at the automatic scale."""
    return TangentBundle.from_points(
        space.sample(SIZE[space.dim], seed=0, dtype=dtype), dim=space.dim, kernel=kernel
    )


def reverse_edges(graph) -> np.ndarray:
    """For each directed edge (i, j) of a graph with sorted rows, the number of edge (j, i)."""
    rows, cols, n = graph.rows.numpy(), graph.indices.long().numpy(), graph.num_points
    back = np.searchsorted(rows * n + cols, cols * n + rows)
    assert np.array_equal(rows[back], cols) and np.array_equal(cols[back], rows)
    return back


def groups(values: np.ndarray, multiplicities) -> list[np.ndarray]:
    """Consecutive groups of a sorted spectrum."""
    return np.split(np.asarray(values), np.cumsum(multiplicities))[:-1]


def group_errors(values: np.ndarray, multiplicities, truth) -> np.ndarray:
    """Relative error of the mean of each group."""
    means = np.array([group.mean() for group in groups(values, multiplicities)])
    return np.abs(means / np.asarray(truth, dtype=float) - 1.0)


def projectors(frames: np.ndarray) -> np.ndarray:
    return frames @ frames.swapaxes(1, 2)
