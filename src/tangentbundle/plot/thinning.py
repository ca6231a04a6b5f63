"""Which of many points to show: spread evenly over the space, however unevenly it was sampled."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

POOL = 20
"""Points looked at, for each that is shown."""


def spread_out(points: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """Numbers of at most ``count`` points ``(n, D)``, each the farthest from those before it (Gonzalez, 1985).

    Of very many points a random part is looked at. The first k of them are spread evenly for every k.

    >>> line = np.linspace(0, 1, 101)[:, None]
    >>> sorted(spread_out(line, 5).tolist())[::4]
    [0, 100]
    """
    rng = np.random.default_rng(seed)
    pool = np.arange(len(points))
    if len(points) > POOL * count:
        pool = np.sort(rng.choice(pool, POOL * count, replace=False))
    if len(pool) <= count:
        return pool
    places = np.asarray(points, dtype=np.float64)[pool]
    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = np.square(places - places.mean(axis=0)).sum(axis=1).argmax()
    nearest = np.square(places - places[chosen[0]]).sum(axis=1)
    for k in range(1, count):
        chosen[k] = nearest.argmax()
        np.minimum(nearest, np.square(places - places[chosen[k]]).sum(axis=1), out=nearest)
    return pool[chosen]


def spacing(points: np.ndarray, rank: int = 3) -> float:
    """Median distance of a point ``(n, D)`` from its ``rank``-th neighbour."""
    if len(points) <= rank:
        return extent(points)
    few = points[:: len(points) // 4000 + 1]
    return float(np.median(cKDTree(points).query(few, rank + 1)[0][:, rank])) or 1.0


def reach(points: np.ndarray) -> float:
    """How long arrows at points ``(n, D)`` may be: to the neighbours, and an eighth of the whole at most."""
    return min(spacing(points), 0.125 * extent(points))


def extent(points: np.ndarray) -> float:
    """The longest side of the box around points ``(n, D)``; one if there is none."""
    return (float(np.ptp(points, axis=0).max()) if len(points) else 0.0) or 1.0
