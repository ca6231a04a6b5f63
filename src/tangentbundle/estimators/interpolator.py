"""`FieldInterpolator`: a field at some points in, the field anywhere out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..errors import ShapeError
from .base import FieldEstimator
from .covariance import Covariance
from .history import History
from .intervals import share, tail
from .observations import Model


class FieldInterpolator(FieldEstimator):
    r"""Predicts a vector field at new points of a manifold, with uncertainty (kriging on the tangent bundle).

    The models and the choice between them are those of ``FieldDenoiser``. With past fields the covariance is learned
    from them: a tapered empirical covariance, a parametric one scaled by their local size, and their mean as the first
    guess.

    Args:
        model: such as ``GaussianProcess(Tangent())`` or ``Candidates([...])``.
        covariance: a ``Covariance`` or several: Gaussian processes with these instead of the default ones.
        dim: intrinsic dimension, or a rule to estimate it; default estimated.
        manifold: a known manifold, such as ``manifolds.Sphere(2)`` for the Earth, for exact tangent spaces.
        support: further points ``(s, D)`` of the manifold, without vectors: better tangent spaces.
        history: past ambient fields ``(T, m, D)``.
        history_points: where they were measured, ``(m, D)``; default: at the points of ``fit``.
        random_state: seed of the samples that hyperparameters and scores are computed on.

    Attributes: as of ``FieldDenoiser``.

    >>> import numpy as np, tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> stations, places = sphere.sample(150, seed=0), sphere.sample(50, seed=1)
    >>> interpolator = tb.FieldInterpolator(manifold=sphere).fit(stations, sphere.gradient_field(stations, 3))
    >>> field, std = interpolator.predict(places, return_std=True)
    >>> field.shape, std.shape, bool(np.abs(field - sphere.gradient_field(places, 3)).max() < 0.01)
    ((50, 3), (50, 3), True)
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        covariance: Covariance | Sequence[Covariance] | None = None,
        dim: Any = None,
        manifold: Any = None,
        support: Any = None,
        history: Any = None,
        history_points: Any = None,
        random_state: Any = None,
    ):
        self.model = model
        self.covariance = covariance
        self.dim = dim
        self.manifold = manifold
        self.support = support
        self.history = history
        self.history_points = history_points
        self.random_state = random_state

    def predict_interval(self, X, level=0.9):
        """Bounds ``(m, D)``, lower and upper, of measurements of each ambient component at points ``X (m, D)``.

        They lie symmetrically about the prediction, ``interval_width(level)`` standard deviations away.
        """
        width = self.interval_width(level)
        field, std = self.predict(X, return_std=True, with_noise=True)
        return field - width * std, field + width * std

    def interval_width(self, level=0.9):
        """Half the width of intervals of measurements, in standard deviations.

        The share ``level`` of errors that training vectors have when they are left out one at a time is smaller.
        """
        return tail(share(level), self._residuals())

    def _more_points(self, X: np.ndarray) -> np.ndarray | None:
        known = self.support if self.support is not None or self.manifold is not None else self.history_points
        return None if known is None else _points(known, X, "support" if self.support is not None else "history_points")

    def _history(self, X: np.ndarray) -> History | None:
        if self.history is None:
            return None
        points = X if self.history_points is None else _points(self.history_points, X, "history_points")
        return History.of(points, self.history)


def _points(points: Any, X: np.ndarray, name: str) -> np.ndarray:
    points = check_array(points, dtype=np.float64, input_name=name)
    if points.shape[1] != X.shape[1]:
        raise ShapeError(f"{name} must have shape (m, D) with D = {X.shape[1]}, as the points, got {points.shape}.")
    return points
