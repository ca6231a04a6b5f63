"""What both field estimators share: checks of points and vectors, tangent spaces, units, and the way back."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..errors import (
    InvalidInputError,
    NonFiniteError,
    NotTangentWarning,
    OutlierWarning,
    ShapeError,
    TooFewPointsError,
)
from ..parallel import one_thread
from .history import Past
from .problem import Method, Problem
from .tangents import TangentSpaces

OUTLIER_RATIO = 100.0
"""How much further from the centre than half of the points an outlier lies."""

SMALL = 3000
"""Fewer numbers than this are fitted with one thread."""


class FieldEstimator(RegressorMixin, BaseEstimator):
    """Points ``X (n, D)`` and ambient vectors ``y (n, D)``; subclasses choose the method and what else is known."""

    method: Any
    dim: Any
    manifold: Any
    random_state: Any

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X, y, noise_std=None):
        """Fit to points ``X (n, D)`` and vectors ``y (n, D)``.

        ``noise_std`` is the known standard deviation of the noise of each coordinate: a number or ``(n,)``. Without it
        one level for all points is estimated.
        """
        X, y = _validated(self, X, y)
        n, more = len(X), self._more_points(X)
        cloud = X if more is None else np.concatenate([X, more])
        self.spaces_ = self._spaces(cloud)
        self.frames_ = self.spaces_.frames[:n]
        coordinates = np.einsum("nij,ni->nj", self.frames_, y)
        self.normal_share_ = _check_tangent(y, coordinates)
        self.scale_ = float(np.sqrt(np.mean(coordinates**2))) or 1.0
        past = self._past(X)
        problem = Problem(
            spaces=self.spaces_,
            values=coordinates / self.scale_,
            noise=_noise(noise_std, n, self.scale_),
            center=cloud.mean(axis=0),
            unit=float(np.sqrt(cloud.var(axis=0).sum())),
            rng=np.random.default_rng(check_random_state(self.random_state).randint(2**31)),
            past=None if past is None else past.scaled(1 / self.scale_),
            ambient=y / self.scale_,
        )
        method = self._default(*X.shape) if self.method is None else self.method
        if not isinstance(method, Method):
            raise InvalidInputError(f"method must be an object such as GaussianProcess(), got {method!r}.")
        with one_thread(y.size < SMALL):
            self.fitted_ = method.fit(problem)
        self.noise_ = self.scale_ * self.fitted_.noise
        self.tangent_ = self.manifold is not None or not self.fitted_.whole
        self.tilt_, self._noise_across_ = self._across()
        return self

    def _across(self) -> tuple[float, float]:
        """The field's energy across the tangent spaces, over that along them, and the noise's variance there.

        Across known tangent spaces a field has no part; measured is noise. Estimated ones are tilted: what exceeds the
        noise across them is the field.
        """
        D, d = self.frames_.shape[1:]
        if d == D:
            return 0.0, 0.0
        share, noise = max(self.normal_share_, 0.0), self.fitted_.noise**2
        measured = share / (1 - share) * d / (D - d)
        if self.manifold is not None:
            return 0.0, measured
        return max(measured - noise, 0.0) * (D - d) / (d * max(1 - noise, 0.01)), min(measured, noise)

    def predict(self, X, return_std=False, return_cov=False, with_noise=False):
        """The field at points ``X (m, D)``, ambient ``(m, D)``.

        With ``return_std`` also its standard deviation ``(m, D)``, one for each ambient component, and with
        ``return_cov`` instead its covariances ``(m, D, D)``; they describe the field itself, or measurements of it if
        ``with_noise``. Where tangent spaces are estimated the spread across them is that of the field's part across
        those of the training points, ``tilt_`` of its energy along them.
        """
        check_is_fitted(self, "fitted_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        far = self.spaces_.warn_if_far(X)
        bases = self.spaces_.at(X) if self.tangent_ else np.broadcast_to(np.eye(X.shape[1]), (*X.shape, X.shape[1]))
        mean, blocks = self.fitted_.predict(X, bases, with_covariance=return_std or return_cov)
        field = self.scale_ * np.einsum("nij,nj->ni", bases, mean)
        if blocks is None:
            return field
        D, d = bases.shape[1:]
        energy = np.square(mean).sum(axis=1) + np.einsum("nii->n", blocks)
        along = self.fitted_.noise**2 * with_noise + far  # far away at least the size of the data
        across = self.tilt_ * energy / max(D - d, 1) + self._noise_across_ * with_noise + far * (self.manifold is None)
        blocks = blocks + (along - across)[:, None, None] * np.eye(d)
        spread = bases @ blocks @ bases.transpose(0, 2, 1) + across[:, None, None] * np.eye(D)
        if return_cov:
            return field, self.scale_**2 * spread
        return field, self.scale_ * np.sqrt(np.maximum(np.einsum("nii->ni", spread), 0.0))

    def _spaces(self, cloud: np.ndarray) -> TangentSpaces:
        """Those of the last fit if nothing they depend on has changed, with all that was kept with them."""
        asked, before = (self.dim, self.manifold), getattr(self, "_spaces_of_", (None, None))
        unchanged = hasattr(self, "spaces_") and all(a is b for a, b in zip(asked, before, strict=True))
        self._spaces_of_ = asked
        if unchanged and np.array_equal(self.spaces_.points, cloud):
            return self.spaces_
        return TangentSpaces.of(cloud, self.dim, self.manifold)

    def _default(self, n: int, ambient: int) -> Method:
        raise NotImplementedError

    def _more_points(self, X: np.ndarray) -> np.ndarray | None:
        """Further points of the manifold, without vectors."""
        return None

    def _past(self, X: np.ndarray) -> Past | None:
        return None


def _validated(estimator, X, y) -> tuple[np.ndarray, np.ndarray]:
    if y is None:
        raise InvalidInputError("requires y to be passed, but the target y is None: give vectors (n, D).")
    X, y = validate_data(
        estimator, X, y, validate_separately=({"dtype": np.float64}, {"dtype": np.float64, "ensure_2d": False})
    )
    if len(X) != len(y):
        raise ShapeError(f"points and vectors must be equally many, got {len(X)} and {len(y)}.")
    if y.shape != X.shape:
        raise ShapeError(
            f"vectors must be ambient, one (D,) for each point: y of shape {X.shape}, got {y.shape}. Turn components "
            "of another frame (zonal and meridional wind) into ambient vectors first."
        )
    if len(X) < 3:
        raise TooFewPointsError(f"a field needs at least 3 points, got {len(X)} sample(s) (n_samples={len(X)}).")
    for name, values in (("points", X), ("vectors", y)):
        size = float(np.abs(values).max())
        if size != 0.0 and not 1e-150 < size < 1e150:
            raise InvalidInputError(f"{name} are of size {size:.3g}, whose square is out of range. Rescale them.")
    _warn_of_outliers(X)
    return X, y


def _warn_of_outliers(X: np.ndarray) -> None:
    """Warn of points that lie ``OUTLIER_RATIO`` times further from the median point than half of them."""
    away = np.linalg.norm(X - np.median(X, axis=0), axis=1)
    far = np.flatnonzero(away > OUTLIER_RATIO * np.median(away))
    if len(far) and np.median(away) > 0:
        warnings.warn(
            f"{len(far)} of {len(X)} points (first: row {far[0]}) lie more than {OUTLIER_RATIO:.0f} times as far from "
            "the centre as half of the points do, and determine the scale of the fit. Remove them, or check the units.",
            OutlierWarning,
            stacklevel=4,
        )


def _check_tangent(y: np.ndarray, coordinates: np.ndarray) -> float:
    """The share of the field's energy off the tangent spaces; refused if nothing else is left."""
    total = float(np.square(y).sum())
    share = 1.0 - float(np.square(coordinates).sum()) / total if total > 0 else 0.0
    d, D = coordinates.shape[1], y.shape[1]
    if share > 1 - 0.02 * d / D:
        raise InvalidInputError(
            f"{share:.1%} of the vectors' energy is normal to the tangent spaces: there is no tangent field to learn. "
            "Are they ambient vectors, in the order of the points?"
        )
    if share > 1 - 0.5 * d / D:
        warnings.warn(
            f"{share:.0%} of the vectors' energy is normal to the tangent spaces. Are they ambient "
            "vectors, in the order of the points? Is the dimension right?",
            NotTangentWarning,
            stacklevel=3,
        )
    return share


def _noise(noise_std, n: int, scale: float) -> np.ndarray | None:
    """Known variances ``(n,)`` in units of the data's, or None."""
    if noise_std is None:
        return None
    values = np.asarray(noise_std, dtype=float)
    if values.shape not in ((), (n,)):
        raise ShapeError(f"noise_std must be a number or one for each of the {n} points, got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise NonFiniteError("noise_std must be finite. Drop points whose noise is not known, or estimate it.")
    if (values < 0).any():
        raise InvalidInputError("noise_std holds negative numbers; standard deviations are at least 0.")
    return np.broadcast_to(np.square(values / scale), (n,)).copy()
