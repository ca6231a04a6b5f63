"""`FieldInterpolator`: a field at some points in, the field anywhere out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..errors import ShapeError
from .ambient import AmbientProcess, ByEvidence, UnlessHidden
from .base import FieldEstimator
from .history import Past
from .intervals import share, tail
from .local import LocalProcess
from .problem import Method
from .process import GaussianProcess

EXACT_POINTS = 2000
"""Up to this many points the default is an exact Gaussian process, above it a local one."""


class FieldInterpolator(FieldEstimator):
    r"""Predicts a vector field at new points of a manifold, with uncertainty (kriging on the tangent bundle).

    The field is a Gaussian process with covariance :math:`O_i^T K(x_i, x_j) O_j` whose kind, scales and noise level
    maximise the marginal likelihood. With past fields the covariance is learned from them: a localised empirical
    covariance, a parametric one scaled by their local size, and their mean as the first guess.

    Args:
        method: ``GaussianProcess(...)``, ``AmbientProcess(...)`` or ``LocalProcess(...)``;
            default by size, and by the evidence where neither manifold nor history are known.
        dim: intrinsic dimension, or a rule to estimate it; default estimated.
        manifold: a known manifold, such as ``manifolds.Sphere(2)`` for the Earth, for exact tangent spaces.
        support: further points ``(s, D)`` of the manifold, without vectors: better tangent spaces.
        history: past ambient fields ``(T, m, D)``.
        history_points: where they were seen, ``(m, D)``; default: at the points of ``fit``.
        random_state: seed of what is random (patches, probes, samples).

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
        method: Method | None = None,
        *,
        dim: Any = None,
        manifold: Any = None,
        support: Any = None,
        history: Any = None,
        history_points: Any = None,
        random_state: Any = None,
    ):
        self.method = method
        self.dim = dim
        self.manifold = manifold
        self.support = support
        self.history = history
        self.history_points = history_points
        self.random_state = random_state

    def predict_interval(self, X, level=0.9):
        """Bounds ``(m, D)``, lower and upper, of measurements of each ambient component at points ``X (m, D)``.

        They lie symmetrically about the prediction, as many standard deviations away as the share ``level`` of errors
        does that each training vector has when it is left out: no tails are taken for granted. Where a method has no
        such errors (all but ``GaussianProcess`` and ``AmbientProcess``) tails are Gaussian.
        """
        level = share(level)
        field, std = self.predict(X, return_std=True, with_noise=True)
        width = tail(level, getattr(self.fitted_, "residuals", None)) * std
        return field - width, field + width

    def _default(self, n: int, ambient: int) -> Method:
        if n > EXACT_POINTS:
            return LocalProcess()
        if self.manifold is not None or self.history is not None:
            return GaussianProcess()
        return UnlessHidden(ByEvidence((GaussianProcess(), AmbientProcess())))

    def _more_points(self, X: np.ndarray) -> np.ndarray | None:
        known = self.support if self.support is not None or self.manifold is not None else self.history_points
        return None if known is None else _points(known, X, "support" if self.support is not None else "history_points")

    def _past(self, X: np.ndarray) -> Past | None:
        if self.history is None:
            return None
        points = X if self.history_points is None else _points(self.history_points, X, "history_points")
        return Past.of(points, self.history)


def _points(points: Any, X: np.ndarray, name: str) -> np.ndarray:
    points = check_array(points, dtype=np.float64, input_name=name)
    if points.shape[1] != X.shape[1]:
        raise ShapeError(f"{name} must have shape (m, D) with D = {X.shape[1]}, as the points, got {points.shape}.")
    return points
