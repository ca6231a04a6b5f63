"""Curves along a vector field that is known at points of a surface, of the plane or of any cloud."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from .views import extent, spacing

MAX_STEPS = 60
"""Steps of a curve, in either direction."""

NEIGHBORS = 12
"""Points that directions and planes are averaged over."""


def streamlines(points: np.ndarray, vectors: np.ndarray, rows: np.ndarray, *, length: float = 0.3) -> np.ndarray:
    """Curves ``(m, k, D)`` along vectors ``(n, D)`` at points ``(n, D)``, in the middle at the points of some rows.

    They are up to ``length`` times as long as the picture is wide; NaN where the field vanishes or points end. Steps
    follow the mean direction of neighbours, weighted by inverse squared distance, and end on their plane.
    """
    tree, step = cKDTree(points), 0.5 * spacing(points)
    weakest = 1e-2 * np.quantile(np.linalg.norm(vectors, axis=1), 0.9)

    def neighbors(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return tree.query(np.nan_to_num(places), min(NEIGHBORS, len(points)))

    def direction(places: np.ndarray) -> np.ndarray:
        distance, near = neighbors(places)
        weight = 1 / (distance + 1e-3 * step) ** 2
        mean = np.einsum("mk,mkd->md", weight, vectors[near]) / weight.sum(axis=1, keepdims=True)
        size = np.linalg.norm(mean, axis=1, keepdims=True)
        return np.where(size > weakest, mean / np.maximum(size, 1e-300), np.nan)

    def on_plane(places: np.ndarray) -> np.ndarray:
        """Places moved across the thin directions of their neighbours; NaN far from all points."""
        distance, near = neighbors(places)
        mean = points[near].mean(axis=1)
        local = points[near] - mean[:, None]
        shares, axes = np.linalg.eigh(local.transpose(0, 2, 1) @ local)
        thin = shares < 0.04 * shares.sum(axis=1, keepdims=True)
        off = np.einsum("mda,md->ma", axes, mean - places) * thin
        return np.where(distance[:, :1] < 3 * step, places + np.einsum("mda,ma->md", axes, off), np.nan)

    curves = [points[rows]]
    for sign in (-step, step):
        place = points[rows]
        for _ in range(int(np.clip(0.5 * length * extent(points) / step, 4, MAX_STEPS))):
            middle = place + 0.5 * sign * direction(place)
            place = on_plane(place + sign * direction(middle))
            curves.insert(0, place) if sign < 0 else curves.append(place)
    return np.stack(curves, axis=1)
