"""Methods that denoise fields: noisy ambient fields ``(r, n, D)`` at the same points in, fields out.

Every field is denoised by itself, and no method sees the clean field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.model_selection import GridSearchCV

from ..estimators import FieldDenoiser, SpectralFilter
from .baselines import AmbientProcess, ThinPlate

Smoother = Callable[[np.ndarray], np.ndarray]


def smoothing_spline() -> GridSearchCV:
    """A thin-plate spline whose smoothing is chosen by cross-validation in three parts."""
    return GridSearchCV(ThinPlate(), {"smoothing": np.logspace(-5, 1, 7)}, scoring="neg_mean_squared_error", cv=3)


def smoothers(points: np.ndarray) -> dict[str, Smoother]:
    """Simple methods for one cloud; averages over the 10 nearest neighbours leave out the point itself."""
    distance, index = cKDTree(points).query(points, min(11, len(points)))
    weights = 1.0 / np.maximum(distance[:, 1:], 1e-12)
    weights /= weights.sum(axis=1, keepdims=True)
    tikhonov = FieldDenoiser(SpectralFilter(), dim=2, random_state=0)
    return {
        "identity": lambda fields: fields,
        "zero": np.zeros_like,
        "mean": lambda fields: np.broadcast_to(fields.mean(axis=1, keepdims=True), fields.shape),
        "nearest neighbour": lambda fields: fields[:, index[:, 1]],
        "inverse distance": lambda fields: np.einsum("nk,rnki->rni", weights, fields[:, index[:, 1:]]),
        "thin-plate spline": lambda fields: denoised(smoothing_spline(), points, fields),
        "Tikhonov on the bundle, SURE": lambda fields: denoised(tikhonov, points, fields),
    }


def field_estimators() -> dict[str, Any]:
    """The estimators of the protocol ``best``."""
    return {"FieldDenoiser": FieldDenoiser(dim=2, random_state=0), "ambient Gaussian process": AmbientProcess()}


def denoised(estimator: Any, points: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """Fields denoised one after the other."""
    return np.stack([estimator.fit(points, field).predict(points) for field in fields])
