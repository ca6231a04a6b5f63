"""Simple ways to denoise fields: what any network must beat. Noisy ambient fields ``(r, n, D)`` in, fields out.

All fields share their points, and what depends on these alone is computed once; every field is judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import RBFInterpolator
from scipy.spatial import cKDTree

from ..estimators import FieldDenoiser, SpectralShrinkage
from ..estimators.correlations import Correlations, Prior

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
        "identity": lambda fields: fields,
        "zero": np.zeros_like,
        "mean": lambda fields: np.broadcast_to(fields.mean(axis=1, keepdims=True), fields.shape),
        "nearest neighbour": lambda fields: fields[:, index[:, 1]],
        "inverse distance": lambda fields: np.einsum("nk,rnki->rni", weights, fields[:, index[:, 1:]]),
        "thin-plate spline": lambda fields: thin_plate(points, fields),
        "Tikhonov on the bundle, SURE": lambda fields: each(tikhonov, points, fields),
    }


def each(estimator: FieldDenoiser, points: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """Fields denoised one after the other."""
    return np.stack([estimator.fit(points, field).predict(points) for field in fields])


def thin_plate(points: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """A smoothing spline of every component, its strength chosen for each field by cross-validation in three parts."""
    count, n, D = fields.shape
    columns = fields.transpose(1, 0, 2).reshape(n, count * D)

    def errors(strength: float) -> np.ndarray:
        total = np.zeros(count)
        for fold in range(3):
            out = np.arange(n) % 3 == fold
            spline = RBFInterpolator(points[~out], columns[~out], smoothing=strength)
            total += np.square(spline(points[out]) - columns[out]).reshape(-1, count, D).sum(axis=(0, 2))
        return total

    chosen = np.argmin([errors(strength) for strength in STRENGTHS], axis=0)
    answers = np.empty_like(fields)
    for k in np.unique(chosen):
        spline = RBFInterpolator(points, fields[chosen == k].transpose(1, 0, 2).reshape(n, -1), smoothing=STRENGTHS[k])
        answers[chosen == k] = spline(points).reshape(n, -1, D).transpose(1, 0, 2)
    return answers


def ambient_process(points: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """Kriging in ambient space: one Matern covariance and noise for all components, by marginal likelihood.

    The model of ``estimators.baselines.AmbientProcess``, much faster for many fields at the same points.
    """
    correlations = Correlations(points, axes=0)
    answers = []
    for field in fields:
        scale = float(np.sqrt(np.mean(np.square(field)))) or 1.0
        prior = Prior(np.array([0.0, -1.0]))
        found = correlations.best((0.5, 1.5, 2.5, np.inf), field / scale, prior)
        spectrum, vectors = correlations.decomposed(found.shape)
        signal = spectrum * found.sizes
        answers.append(vectors @ ((signal / (signal + found.noise))[:, None] * (vectors.T @ field)))
    return np.stack(answers)
