"""Simple ways to denoise a field: what any network must beat. Noisy ambient field ``(n, D)`` in, field out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import RBFInterpolator
from scipy.spatial import cKDTree

from ..estimators import FieldDenoiser, SpectralShrinkage

Rule = Callable[[np.ndarray], np.ndarray]

NEIGHBOURS = 10
STRENGTHS = np.logspace(-5, 1, 7)
"""Smoothing of the splines, to be chosen from."""


def smoothing_rules(points: np.ndarray) -> dict[str, Rule]:
    """All rules for one cloud. Averages of neighbours leave out the point itself; nothing sees the clean field."""
    distance, index = cKDTree(points).query(points, min(NEIGHBOURS + 1, len(points)))
    weights = 1.0 / np.maximum(distance[:, 1:], 1e-12)
    weights /= weights.sum(axis=1, keepdims=True)
    tikhonov = FieldDenoiser(SpectralShrinkage(), dim=2, random_state=0)
    return {
        "identity": lambda field: field,
        "zero": np.zeros_like,
        "mean": lambda field: np.broadcast_to(field.mean(axis=0), field.shape),
        "nearest neighbour": lambda field: field[index[:, 1]],
        "inverse distance": lambda field: np.einsum("nk,nki->ni", weights, field[index[:, 1:]]),
        "thin-plate spline": lambda field: thin_plate(points, field),
        "Tikhonov on the bundle, SURE": lambda field: tikhonov.fit(points, field).predict(points),
    }


def thin_plate(points: np.ndarray, field: np.ndarray) -> np.ndarray:
    """A smoothing spline of every component, its strength chosen by cross-validation in three parts."""

    def error(strength: float) -> float:
        total = 0.0
        for fold in range(3):
            out = np.arange(len(points)) % 3 == fold
            spline = RBFInterpolator(points[~out], field[~out], smoothing=strength)
            total += float(np.square(spline(points[out]) - field[out]).sum())
        return total

    return RBFInterpolator(points, field, smoothing=min(STRENGTHS, key=error))(points)
