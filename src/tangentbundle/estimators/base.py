"""What both field estimators share: checks of points and vectors, tangent spaces, units, and the
way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arrays import ArrayKind, finite, float_tensor, host, outside_functional_transform
from ..errors import (
    NO_EXAMPLE,
    DeviceError,
    InvalidInputError,
    NoInformationWarning,
    NotTangentWarning,
    Remedy,
    ShapeError,
    SuspiciousDataWarning,
    TooFewPointsError,
    warn,
)
from ..parallel import one_thread, threads_by_size
from .candidates import Candidates, default_models
from .history import History
from .observations import JITTER, Model, Observations, Places, Prediction, known_variances
from .spectral import SpectralFilter
from .tangents import TangentSpaces


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
        for name, values in (("points", X), ("vectors", y)):
            if isinstance(values, torch.Tensor):
                outside_functional_transform(values, name)
        points = of_kind(X, "points", self.on_devices)[0]
        vectors = of_kind(y, "vectors", self.on_devices)[0]
        X, y = _validated(self, points, vectors)
        n, (more, history) = len(X), self._context(X)
        self.spaces_ = TangentSpaces.of(np.concatenate([X, more]), self.dim, self.manifold)
        self.frames_ = self.spaces_.frames[:n]
        self.normal_share_ = check_tangent(y, np.einsum("nij,ni->nj", self.frames_, y))
        self.center_, self.unit_ = X.mean(axis=0), float(np.sqrt(X.var(axis=0).sum())) or 1.0
        self.scale_ = float(np.sqrt(np.mean(np.square(y)))) or 1.0
        observations = Observations(
            points=(X - self.center_) / self.unit_,
            vectors=y / self.scale_,
            frames=self.frames_,
            exact=self.manifold is not None,
            oriented=self.spaces_.oriented,
            noise=known_variances(noise_std, n, self.scale_),
            history=None
            if history is None
            else history.scaled(self.center_, self.unit_, 1 / self.scale_),
            position_variance=self.spaces_.position_variance / self.unit_**2,
        )
        model = self._chosen_model(observations)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        with one_thread():
            self.posterior_ = model.fit(observations, rng)
        self.scores_ = [
            row._replace(noise=self.scale_ * row.noise) for row in self.posterior_.scores
        ]
        self._observations = observations
        self.noise_ = self.scale_ * self.posterior_.noise
        if noise_std is None:
            self._warn_if_no_field()
        return self

    def _warn_if_no_field(self) -> None:
        """Compare the best score with that of noise alone, of which it has the standard error
        ``sqrt(k / 2 n)``.

        Noise is isotropic, or has the vectors' second moments. The inverse of second moments of n
        vectors with k components makes others ``n / (n - k - 1)`` times as unlikely.
        """
        found, best = self._observations, max((row.score for row in self.scores_), default=np.inf)
        values = found.components(found.vectors, np.arange(len(found.vectors)))
        n, k = values.shape
        noise = k * np.log(np.square(values).mean() + JITTER) + k
        if n > k + 1:
            noise = min(
                noise,
                np.linalg.slogdet(values.T @ values / n + JITTER * np.eye(k))[1]
                + k * n / (n - k - 1),
            )
        if best + 0.5 * (noise + k * np.log(2 * np.pi)) < np.sqrt(
            k / (2 * min(n, Candidates.max_left_out))
        ):
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

    def _chosen_model(self, observations: Observations) -> Model:
        if self.model is None:
            alone = not (self.covariance is None or isinstance(self.covariance, Sequence))
            return Candidates(
                default_models(observations, [self.covariance] if alone else self.covariance)
            )
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
        return self.model

    @threads_by_size
    def predict(self, X, return_std=False, return_cov=False, with_noise=False):
        """The field at points ``X (m, D)``, ambient ``(m, D)``.

        With ``return_std`` also its standard deviation ``(m, D)``, one for each ambient component,
        and with ``return_cov`` instead its covariances ``(m, D, D)``; they describe the field
        itself, or measurements of it if ``with_noise``.
        """
        check_is_fitted(self, "posterior_")
        X, kind = of_kind(X, "points", self.on_devices)
        X = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=False)
        finite(float_tensor(X, "points")[0], "points")
        if kind.dtype == torch.float32:
            X = self._without_rounding(X)
        spread = return_std or return_cov
        found = self._predict(X, spread, with_noise)
        field = kind.wrap(self.scale_ * found.mean)
        if return_cov:
            return field, kind.wrap(self.scale_**2 * found.covariances())
        return (field, kind.wrap(self.scale_ * np.sqrt(found.variances()))) if return_std else field

    def score(self, X, y, sample_weight=None):
        """The share of the vectors' variance that predictions explain, 1 - SSE/SST over all
        components."""
        field = self.predict(X)
        y, field = (
            host(values.detach() if isinstance(values, torch.Tensor) else values, name)
            for values, name in ((y, "y"), (field, "the prediction"))
        )
        from sklearn.metrics import r2_score  # slow to import

        return r2_score(y, field, sample_weight=sample_weight, multioutput="variance_weighted")

    def _predict(self, X: np.ndarray, spread: bool, with_noise: bool) -> Prediction:
        far = self.spaces_.warn_if_far(X)
        places = Places((X - self.center_) / self.unit_, lambda: self.spaces_.at(X))
        with one_thread():
            found = self.posterior_.predict(places, spread)
        if self.manifold is not None:
            found = found.tangent(places.frames)
        along = far.astype(float)  # far away at least the size of the data
        across = np.zeros(len(X)) if self.manifold is not None else along
        if with_noise:
            along, across = (
                along + self.posterior_.noise_along,
                across + self.posterior_.noise_across,
            )
        return found.widened(along, across)

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

    def _residuals(self, most: int = 512) -> np.ndarray:
        """Errors of training vectors left out one at a time over their standard deviations, of at
        most so many."""
        n = len(self._observations.points)
        index = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
        with one_thread():
            found = self.posterior_.left_out(index)
        if self.manifold is not None:
            found = found.tangent(self.frames_[index]).widened(0.0, self.posterior_.noise_across)
        return (self._observations.vectors[index] - found.mean) / np.sqrt(
            found.variances() + JITTER
        )

    def _context(self, X: np.ndarray) -> tuple[np.ndarray, History | None]:
        """Further points of the manifold ``(s, D)``, without vectors, and past fields."""
        return X[:0], None


def of_kind(values: Any, name: str = "the input", alternative: str = "") -> tuple[Any, ArrayKind]:
    """Tensors as arrays, all else as it is, and the kind that answers have.

    ``alternative`` says what computes on other devices.
    """
    if isinstance(values, torch.Tensor):
        tensor, kind = float_tensor(values, name)
        outside_functional_transform(tensor, name)
        if kind.device.type != "cpu":
            raise DeviceError(
                f"expected {name} on the CPU, where this model computes, got a tensor on "
                f"{kind.device}. Move all inputs there, x.cpu(){alternative}."
            )
        return tensor.detach().cpu().numpy(), kind
    dtypes: Any = getattr(
        values, "dtypes", getattr(values, "dtype", None)
    )  # tables have one for each column
    single = all(dtype == np.float32 for dtype in np.atleast_1d(dtypes))
    return values, ArrayKind(False, torch.float32 if single else torch.float64, torch.device("cpu"))


def _validated(estimator, X, y) -> tuple[np.ndarray, np.ndarray]:
    if y is None:
        raise InvalidInputError(
            "requires y to be passed, but the target y is None: give vectors (n, D)."
        )
    floats = {"dtype": np.float64, "ensure_all_finite": False}
    X, y = validate_data(
        estimator, X, y, validate_separately=(floats, floats | {"ensure_2d": False})
    )
    if len(X) != len(y):
        raise ShapeError(f"points and vectors must be equally many, got {len(X)} and {len(y)}.")
    if y.shape != X.shape:
        raise ShapeError(
            f"vectors must be ambient, one (D,) for each point: y of shape {X.shape}, got "
            f"{y.shape}. Turn components of another frame (zonal and meridional wind) into "
            "ambient vectors first."
        )
    if len(X) < 3:
        raise TooFewPointsError(
            f"a field needs at least 3 points, got {len(X)} sample(s) (n_samples={len(X)})."
        )
    for name, values in (("points", X), ("vectors", y)):
        finite(float_tensor(values, name)[0], name)
        size = float(np.abs(values).max())
        if size != 0.0 and not 1e-150 < size < 1e150:
            raise InvalidInputError(
                f"{name} are of size {size:.3g}, whose square is out of range. Rescale them."
            )
    _warn_of_outliers(X)
    return X, y


def _warn_of_outliers(X: np.ndarray, ratio: float = 100.0) -> None:
    """Warn of points that lie so many times further from the median point than half of them."""
    away = np.linalg.norm(X - np.median(X, axis=0), axis=1)
    far = np.flatnonzero(away > ratio * np.median(away))
    if len(far) and np.median(away) > 0:
        warn(
            f"{len(far)} of {len(X)} points (first: {far[0]}, counted from 0) lie more than "
            f"{ratio:.0f} times as far from the centre as half of the points do, and determine "
            "the scale of the fit. Remove them, or check the units.",
            SuspiciousDataWarning,
            point=far[0],
        )


def check_tangent(y: np.ndarray, coordinates: np.ndarray) -> float:
    """The share of the vectors' energy off the tangent spaces; refused if nothing else is left."""
    total = float(np.square(y).sum())
    share = 1.0 - float(np.square(coordinates).sum()) / total if total > 0 else 0.0
    d, D = coordinates.shape[-1], y.shape[-1]
    if share > 1 - 0.02 * d / D:
        raise InvalidInputError(
            f"{share:.1%} of the vectors' energy is normal to the tangent spaces: there is no "
            "tangent field to learn. Are they ambient vectors, in the order of the points?"
        )
    if share > 1 - 0.5 * d / D:
        warn(
            f"{share:.0%} of the vectors' energy is normal to the tangent spaces. Are they ambient "
            "vectors, in the order of the points? Is the dimension right?",
            NotTangentWarning,
        )
    return share
