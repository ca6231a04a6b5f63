"""Curves along a vector field that is known at points of a surface, of the plane or of any cloud."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .views import extent, spacing, spread_out

MAX_STEPS = 60
"""Steps of a curve, in either direction."""


def streamlines(points: np.ndarray, vectors: np.ndarray, *, count: int = 150, length: float = 0.3) -> np.ndarray:
    """Curves along vectors ``(n, D)`` at points ``(n, D)``, through ``count`` places spread evenly; ``(m, k, D)``."""
    flow, start = _Flow(points, vectors), points[spread_out(points, count)]
    steps = int(np.clip(0.5 * length * extent(points) / flow.step, 4, MAX_STEPS))
    back, forth = (flow.follow(start, sign, steps) for sign in (-1.0, 1.0))
    return np.stack([*back[::-1], start, *forth], axis=1)


@dataclass(eq=False)
class _Flow:
    """Directions between points ``(n, D)``: averages over neighbours, weighted by inverse squared distance."""

    points: np.ndarray
    vectors: np.ndarray
    neighbors: int = 12

    def __post_init__(self) -> None:
        self.tree, self.step = cKDTree(self.points), 0.5 * spacing(self.points)
        self.weakest = 1e-2 * np.quantile(np.linalg.norm(self.vectors, axis=1), 0.9)

    def follow(self, start: np.ndarray, sign: float, steps: int) -> list[np.ndarray]:
        """Places ``(m, D)`` after each of some steps along the field (midpoint rule)."""
        place, curve = start, []
        for _ in range(steps):
            middle = place + 0.5 * sign * self.step * self._direction(place)
            place = self._on_surface(place + sign * self.step * self._direction(middle))
            curve.append(place)
        return curve

    def _near(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances and rows of the neighbours of places; of NaN, those of zero."""
        return self.tree.query(np.nan_to_num(places), min(self.neighbors, len(self.points)))

    def _direction(self, places: np.ndarray) -> np.ndarray:
        """Unit vectors; NaN where the field vanishes."""
        distance, rows = self._near(places)
        weight = 1 / (distance + 1e-3 * self.step) ** 2
        mean = np.einsum("mk,mkd->md", weight, self.vectors[rows]) / weight.sum(axis=1, keepdims=True)
        size = np.linalg.norm(mean, axis=1, keepdims=True)
        return np.where(size > self.weakest, mean / np.maximum(size, 1e-300), np.nan)

    def _on_surface(self, places: np.ndarray) -> np.ndarray:
        """Places moved onto the plane of their neighbours, across thin directions only; NaN far from all points."""
        distance, rows = self._near(places)
        near = self.points[rows]
        mean = near.mean(axis=1)
        local = near - mean[:, None]
        shares, axes = np.linalg.eigh(np.einsum("mkd,mke->mde", local, local))
        thin = shares < 0.04 * shares.sum(axis=1, keepdims=True)
        off = np.einsum("mda,md->ma", axes, mean - places) * thin
        moved = places + np.einsum("mda,ma->md", axes, off)
        return np.where(distance[:, :1] < 3 * self.step, moved, np.nan)
