"""What both field estimators share: tangent spaces, units, the fit of a model, and the way
back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..arrays import host
from ..errors import NO_EXAMPLE, InvalidInputError, NoInformationWarning, Remedy, warn
from ..parallel import one_thread, threads_by_size
from .defaults import default_models
from .history import History
from .inputs import validated, validated_points
from .left_out import LeftOut, noise_across_manifold
from .observations import Observations, Places, known_variances, precision_weights
from .prediction import Model, Prediction
from .row_order import RowOrder
from .spectral import SpectralFilter
from .stacking import Mixture, Stack
from .tangents import TangentSpaces, check_tangent


@dataclass(eq=False, repr=False)
class FieldEstimator(RegressorMixin, BaseEstimator):
    """Points ``X (n, D)`` and ambient vectors ``y (n, D)``; subclasses say what else is known."""

    model: Model | SpectralFilter | None = None
    _: KW_ONLY
    covariance: Any = None
    dim: Any = None
    manifold: Any = None
    random_state: Any = None

    on_devices: ClassVar[str] = ""
    """What else computes on other devices, for messages."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.regressor_tags.poor_score = True
        return tags

    @threads_by_size
    def fit(self, X, y, noise_std=None):
        """Fit to points ``X (n, D)`` and vectors ``y (n, D)``.

        ``noise_std`` is the known standard deviation of the noise of each component: a number or
        ``(n,)``. Without it one level for all points is estimated.
        """
        points, vectors = validated(self, X, y, self.on_devices)
        noise = known_variances(noise_std, len(points))
        further_points, history = self._context(points)
        order = RowOrder.of(points, vectors)
        points = order.sorted(points)
        vectors = order.sorted(vectors)
        if noise is not None:
            noise = order.sorted(noise)
        self.spaces_ = TangentSpaces.of(
            np.concatenate([points, further_points]), self.dim, self.manifold
        )
        frames = self.spaces_.frames[: len(points)]
        self.frames_ = order.restored(frames)
        weights = precision_weights(vectors, noise)
        coordinates = np.einsum("nij,ni->nj", frames, vectors)
        self.normal_share_ = check_tangent(vectors, coordinates, weights)
        self.center_ = points.mean(axis=0)
        self.unit_ = float(np.sqrt(points.var(axis=0).sum())) or 1.0
        self.scale_ = float(np.sqrt(np.mean(weights[:, None] * np.square(vectors)))) or 1.0
        observations = self._observations(points, vectors, noise, history)
        model = self._model(observations)
        with one_thread():
            self.posterior_: Mixture = model.fit(observations)
        self.models_ = [fit.model for fit in self.posterior_.fits]
        self.weights_ = self.posterior_.weights
        self.noise_ = self.scale_ * self.posterior_.noise
        left_out = LeftOut.of(self.posterior_)
        self.left_out_error_ = self.scale_ * left_out.error
        self._residuals = left_out.residuals
        self._calibration = left_out.calibration
        if noise_std is None and len(self.models_) > 1:  # a single model is the user's choice
            self._warn_if_no_field(left_out)
        return self

    def _observations(
        self,
        points: np.ndarray,
        vectors: np.ndarray,
        noise: np.ndarray | None,
        history: History | None,
    ) -> Observations:
        """In units in which points and vectors have size one."""
        scaled_points = (points - self.center_) / self.unit_
        scaled_vectors = vectors / self.scale_
        if noise is not None:
            noise = noise / self.scale_**2
        if history is not None:
            weights = precision_weights(scaled_vectors, noise)
            history = history.scaled(self.center_, self.unit_, 1 / self.scale_)
            history = history.with_mean_of(scaled_points, scaled_vectors, weights)
        count = len(points)
        spaces = self.spaces_
        return Observations(
            points=scaled_points,
            vectors=scaled_vectors,
            frames=spaces.frames[:count],
            exact=self.manifold is not None,
            oriented=spaces.oriented,
            make_frames_left_out=partial(spaces.left_out, np.arange(count)),
            position_variance=spaces.position_variance / self.unit_**2,
            noise=noise,
            history=history,
        )

    def _model(self, observations: Observations) -> Stack:
        if self.model is None:
            covariances = self.covariance
            if covariances is not None and not isinstance(covariances, Sequence):
                covariances = [covariances]
            return Stack(default_models(observations, covariances, self.manifold))
        if self.covariance is not None:
            raise InvalidInputError(
                "give model= or covariance=, not both: a covariance makes a Gaussian process."
            )
        if not isinstance(self.model, Model):
            raise InvalidInputError(
                f"model must be an object such as GaussianProcess(Tangent()), got {self.model!r}."
            )
        if observations.history is not None and not self.model.uses_history:
            raise InvalidInputError(
                f"{self.model} has no use for a history. Leave it out, or use a Gaussian process."
            )
        if isinstance(self.model, Stack):
            return self.model
        return Stack([self.model])

    def _warn_if_no_field(self, left_out: LeftOut) -> None:
        if not left_out.is_like_noise:
            return
        warn(
            "left-out vectors are predicted no better than noise of their own size, "
            f"{self.scale_:.3g}. The estimated noise, {self.noise_:.3g}, cannot be relied on.",
            NoInformationWarning,
            remedy=Remedy(
                "Give {noise_std} if you know it, or more points, and check that vectors are "
                "in the order of the points.",
                noise_std=NO_EXAMPLE,
            ),
        )

    @threads_by_size
    def predict(self, X, return_std=False, return_cov=False, with_noise=False):
        """The field at points ``X (m, D)``, ambient ``(m, D)``.

        With ``return_std`` also its standard deviation ``(m, D)``, one for each ambient component,
        and with ``return_cov`` instead its covariances ``(m, D, D)``; they describe the field
        itself, or measurements of it if ``with_noise``.

        All are calibrated by training vectors that were left out one at a time: 68 % of these lie
        within one standard deviation of a measurement.
        """
        check_is_fitted(self, "posterior_")
        X, kind = validated_points(self, X, self.on_devices)
        if kind.dtype == torch.float32:
            X = self._without_rounding(X)
        prediction = self._predict(X, return_std or return_cov, with_noise)
        field = kind.wrap(self.scale_ * prediction.mean)
        factor = self._calibration * self.scale_
        if return_cov:
            return field, kind.wrap(factor**2 * prediction.covariances())
        if return_std:
            return field, kind.wrap(factor * np.sqrt(prediction.variances()))
        return field

    def score(self, X, y, sample_weight=None):
        """The share of the vectors' variance that predictions explain, 1 - SSE/SST over all
        components."""
        field = host(self.predict(X), "the prediction")
        if isinstance(y, torch.Tensor):
            y = y.detach()
        vectors = host(y, "y")
        from sklearn.metrics import r2_score  # slow to import

        return r2_score(
            vectors, field, sample_weight=sample_weight, multioutput="variance_weighted"
        )

    def _predict(self, X: np.ndarray, spread: bool, with_noise: bool) -> Prediction:
        far = self.spaces_.warn_if_far(X)
        places = Places((X - self.center_) / self.unit_, lambda: self.spaces_.at(X))
        at_least = far.astype(float)  # far away the size of the data
        with one_thread():
            prediction: Prediction
            if with_noise:
                prediction = self.posterior_.measurements(places)
            else:
                prediction = self.posterior_.predict(places, spread)
        if self.manifold is None:
            return prediction.widened(at_least, at_least)
        across = 0.0
        if with_noise:
            across = noise_across_manifold(self.posterior_)
        return prediction.tangent(places.frames).widened(at_least, across)

    def _without_rounding(self, X: np.ndarray) -> np.ndarray:
        """Points ``(m, D)`` that came in single precision; those that are training points, rounded,
        are these points.

        All others stay: no distance counts as zero, so that answers do not depend on the origin of
        the coordinates.
        """
        training_points = self.spaces_.points
        nearest_points = training_points[self.spaces_.tree.query(X)[1]]
        is_copy = (nearest_points.astype(np.float32) == X).all(axis=1)
        return np.where(is_copy[:, None], nearest_points, X)

    def _context(self, points: np.ndarray) -> tuple[np.ndarray, History | None]:
        """Further points of the manifold ``(s, D)``, without vectors, and past fields."""
        return points[:0], None
