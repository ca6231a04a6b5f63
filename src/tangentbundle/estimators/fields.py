"""`FieldDenoiser` and `FieldInterpolator`: a field at some points in, the field there or anywhere
out."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..arrays import float_tensor, points_array
from ..errors import InvalidInputError, ShapeError
from .base import FieldEstimator
from .calibration import share, tail
from .history import History
from .row_order import RowOrder
from .spectral import FilteredField, SpectralFilter


@dataclass(eq=False, repr=False)
class FieldDenoiser(FieldEstimator):
    r"""Removes noise from a vector field on a manifold known by points only.

    A few models are fitted: Gaussian processes of tangent vectors with covariance
    :math:`O_i^T K(x_i, x_j) O_j`, of ambient vectors, of fields without divergence or curl; the
    mean of neighbours, and the data as they are. They answer together, weighted by how they predict
    vectors that are left out. Nothing is random. The models do not depend on where the points are:
    only ``FieldDenoiser(SpectralFilter())`` computes on a GPU, and all others refuse its tensors.

    Args:
        model: such as ``GaussianProcess(Tangent())``, ``Stack([...])`` or ``SpectralFilter()``;
            default as above.
        covariance: a ``Covariance`` or several: Gaussian processes with these instead of the
            default ones.
        dim: intrinsic dimension, or a rule to estimate it; default estimated.
        manifold: a known manifold, for exact tangent spaces; answers are then tangent to it.
        random_state: seed of ``SpectralFilter``; all other models do not use it.

    Attributes:
        models_: the models that were fitted, by falling weight.
        weights_: their weights ``(k,)`` in all answers, of sum one.
        noise_: standard deviation of the noise in each component.
        left_out_error_: root mean square length of the errors at points that are left out.
        posterior_: the fitted mixture.
        frames_: tangent bases ``(n, D, d)``.
        normal_share_: share of the data's energy that is normal to them.

    >>> import numpy as np, tangentbundle as tb
    >>> torus, rng = tb.manifolds.Torus(), np.random.default_rng(0)
    >>> points = torus.sample(200, seed=0)
    >>> clean = torus.tangent_field(points)
    >>> noisy = clean + 0.3 * rng.standard_normal(clean.shape)
    >>> denoiser = tb.FieldDenoiser(dim=2, random_state=0).fit(points, noisy)
    >>> bool(np.mean((denoiser.predict(points) - clean) ** 2) < 0.3 * np.mean((noisy - clean) ** 2))
    True
    >>> bool(0.25 < denoiser.noise_ < 0.35)
    True
    """

    on_devices = (
        ", or choose FieldDenoiser(SpectralFilter()), which computes where the points are, without "
        "uncertainty"
    )

    def fit(self, X, y, noise_std=None):
        if not isinstance(self.model, SpectralFilter):
            return super().fit(X, y, noise_std)
        if self.manifold is not None or self.covariance is not None:
            raise InvalidInputError(
                "a SpectralFilter has no use for manifold= or covariance=. Leave them out."
            )
        seed = check_random_state(self.random_state).randint(2**31)
        filtered = self.model.fit(X, y, noise_std, self.dim, seed)
        self.posterior_ = filtered  # type: ignore[assignment]
        self.models_ = [self.model]  # type: ignore[list-item]
        self.weights_ = np.ones(1)
        self.noise_ = filtered.noise
        self.frames_ = float_tensor(X, "points")[1].wrap(filtered.frames)
        self.n_features_in_ = filtered.points.shape[1]
        return self

    def predict(self, X, return_std=False, return_cov=False, with_noise=False):
        if not isinstance(getattr(self, "posterior_", None), FilteredField):
            return super().predict(X, return_std, return_cov, with_noise)
        if return_std or return_cov:
            raise InvalidInputError(
                "a SpectralFilter gives no uncertainty. Use a Gaussian process."
            )
        return self.posterior_.predict(X)

    fit.__doc__ = FieldEstimator.fit.__doc__
    predict.__doc__ = FieldEstimator.predict.__doc__


@dataclass(eq=False, repr=False)
class FieldInterpolator(FieldEstimator):
    r"""Predicts a vector field at new points of a manifold, with uncertainty (kriging on the
    tangent bundle).

    The models and their weights are those of ``FieldDenoiser``. With past fields the
    covariance is learned from them: a tapered empirical covariance plus a parametric one, and their
    mean as the first guess.

    Args:
        model: such as ``GaussianProcess(Tangent())`` or ``Stack([...])``.
        covariance: a ``Covariance`` or several: Gaussian processes with these instead of the
            default ones.
        dim: intrinsic dimension, or a rule to estimate it; default estimated.
        manifold: a known manifold, such as ``manifolds.Sphere(2)`` for the Earth, for exact tangent
            spaces.
        support: further points ``(s, D)`` of the manifold, without vectors: better tangent spaces.
        history: past ambient fields ``(T, m, D)``.
        history_points: where they were measured, ``(m, D)``; default: at the points of ``fit``.
        random_state: not used; answers follow from the data alone.

    Attributes: as of ``FieldDenoiser``.

    >>> import numpy as np, tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> stations, places = sphere.sample(150, seed=0), sphere.sample(50, seed=1)
    >>> interpolator = tb.FieldInterpolator(manifold=sphere).fit(
    ...     stations, sphere.gradient_field(stations, 3)
    ... )
    >>> field, std = interpolator.predict(places, return_std=True)
    >>> field.shape, std.shape, bool(np.abs(field - sphere.gradient_field(places, 3)).max() < 0.01)
    ((50, 3), (50, 3), True)
    """

    _: KW_ONLY
    support: Any = None
    history: Any = None
    history_points: Any = None

    def predict_interval(self, X, level=0.9):
        """Bounds ``(m, D)``, lower and upper, of measurements of each ambient component at points
        ``X (m, D)``.

        They lie symmetrically about the prediction, ``interval_width(level)`` standard deviations
        away.
        """
        width = self.interval_width(level)
        field, std = self.predict(X, return_std=True, with_noise=True)
        return field - width * std, field + width * std

    def interval_width(self, level=0.9):
        """Half the width of intervals of measurements, in standard deviations.

        The share ``level`` of errors that training vectors have when they are left out one at a
        time is smaller.
        """
        check_is_fitted(self, "posterior_")
        return tail(share(level), self._residuals) / self._calibration

    def _context(self, points: np.ndarray) -> tuple[np.ndarray, History | None]:
        past_points = points
        further_points = points[:0]
        if self.history_points is not None:
            past_points = _points(self.history_points, points, "history_points")
        if self.support is not None:
            further_points = _points(self.support, points, "support")
        elif self.history_points is not None and self.manifold is None:
            further_points = past_points
        further_points = RowOrder.of(further_points).sorted(further_points)
        if self.history is None:
            return further_points, None
        return further_points, History.of(past_points, self.history)


def _points(points: Any, X: np.ndarray, name: str) -> np.ndarray:
    points, _ = points_array(points, name)
    if points.shape[1] != X.shape[1]:
        raise ShapeError(
            f"{name} must have shape (m, D) with D = {X.shape[1]}, as the points, got "
            f"{points.shape}."
        )
    return points
