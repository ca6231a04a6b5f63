r"""Stacking: several fitted models answer together, weighted by how they predict left-out vectors.

With :math:`p_k(y_i)` the density of the i-th vector under model k, given all others, the weights
maximise the log density of the mixture,

.. math:: \max_w \sum_i \log \sum_k w_k\, p_k(y_i), \qquad w_k \ge 0, \; \sum_k w_k = 1

(Yao, Vehtari, Simpson and Gelman, 2018). This is a convex problem, which the steps
:math:`w_k \leftarrow \frac1n \sum_i w_k p_k(y_i) / \sum_j w_j p_j(y_i)` solve.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import InvalidInputError, TangentBundleError, TangentBundleWarning
from .observations import Observations, Places
from .prediction import MixturePrediction, Model, Posterior, Prediction

MAX_STEPS = 2000
TOLERANCE = 1e-9
"""Steps end where the log density of a vector grows by less."""

NEGLIGIBLE = 0.01
"""Models of a smaller weight are left out: predictions of each cost as much as those of the
first."""


def stacking_weights(log_densities: np.ndarray) -> np.ndarray:
    """Weights ``(k,)`` of the mixture with the greatest log density of vectors ``(k, n)``.

    >>> stacking_weights(np.log([[0.9, 0.9, 0.1], [0.1, 0.1, 0.9]])).round(2).tolist()
    [0.71, 0.29]
    """
    densities = np.exp(log_densities - log_densities.max(axis=0))
    weights = np.full(len(densities), 1 / len(densities))
    previous = -np.inf
    for _ in range(MAX_STEPS):
        mixture = weights @ densities
        current = float(np.log(mixture).mean())
        if current - previous < TOLERANCE:
            break
        previous = current
        weights = weights * (densities / mixture).mean(axis=1)
    return weights


@dataclass(frozen=True)
class Stack(Model):
    """Several models, each fitted in full, and mixed with ``stacking_weights``.

    Models that cannot be fitted to the data are left out. Vectors are ambient ones, so that models
    of tangent and of ambient vectors are comparable, or tangent ones on a known manifold.

    >>> from tangentbundle.estimators import Ambient, GaussianProcess, Tangent
    >>> print(Stack([GaussianProcess(Tangent()), GaussianProcess(Ambient())]))
    Stack(Tangent(1.5), Ambient(1.5))
    """

    models: Sequence[Model]
    uses_history = True

    def __str__(self) -> str:
        return f"Stack({', '.join(map(str, self.models))})"

    def fit(self, observations: Observations) -> Mixture:
        fits: list[Fit] = []
        reasons: list[TangentBundleError] = []
        for model in self.models:
            try:
                fits.append(Fit.of(model, observations))
            except TangentBundleError as error:
                reasons.append(error)
        if len(reasons) == 1 and not fits:
            raise reasons[0]
        if not fits:
            raise InvalidInputError(
                "none of the models can be fitted to these data: "
                f"{reasons or 'there are none to stack'}"
            )
        weights = stacking_weights(np.stack([fit.log_densities for fit in fits]))
        weights[weights < NEGLIGIBLE] = 0.0
        order = np.argsort(-weights, kind="stable")
        return Mixture(
            observations=observations,
            fits=[fits[k] for k in order],
            weights=weights[order] / weights.sum(),
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model, and the measurements ``observations.compared`` as it predicts each from all
    others, with their log densities ``(m,)``."""

    model: Model
    posterior: Posterior
    left_out: Prediction
    log_densities: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, model: Model, observations: Observations) -> Fit:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TangentBundleWarning)  # the mixture is what matters
            posterior = model.fit(observations)
            left_out = posterior.left_out(observations.compared)
        log_densities = compared_densities(left_out, observations)
        if not np.isfinite(log_densities).all():
            raise InvalidInputError(f"{model} has no density of left-out vectors.")
        return cls(model, posterior, left_out, log_densities)


def compared_densities(left_out: Prediction, observations: Observations) -> np.ndarray:
    """Log densities ``(m,)`` of the compared vectors: ambient, or tangent on a known manifold."""
    index = observations.compared
    vectors = observations.vectors[index]
    if not observations.exact:
        return left_out.log_density(vectors)
    frames = observations.frames[index]
    coordinates = np.einsum("mda,md->ma", frames, vectors)
    return left_out.in_frames(frames).log_density(coordinates)


@dataclass(eq=False)
class Mixture(Posterior):
    """Fitted models ``fits`` by falling ``weights``."""

    observations: Observations = field(repr=False)
    fits: list[Fit]
    weights: np.ndarray

    def __post_init__(self) -> None:
        variance = sum(
            weight * posterior.noise**2 for weight, posterior in self._weighted_posteriors
        )
        self.noise = float(np.sqrt(variance))
        self.parameters = {
            f"{fit.model}: {name}": value
            for fit in self.fits
            for name, value in fit.posterior.parameters.items()
        }

    @property
    def _weighted_posteriors(self) -> list[tuple[float, Posterior]]:
        """Those that matter."""
        pairs = zip(self.weights.tolist(), self.fits, strict=True)
        return [(weight, fit.posterior) for weight, fit in pairs if weight > 0]

    @property
    def _positive_weights(self) -> np.ndarray:
        return self.weights[self.weights > 0]

    def predict(self, places: Places, spread: bool = True) -> MixturePrediction:
        predictions = [
            posterior.predict(places, spread) for _, posterior in self._weighted_posteriors
        ]
        return MixturePrediction(self._positive_weights, predictions)

    def measurements(self, places: Places) -> MixturePrediction:
        """Measurements of the field, with the noise of each model in its own bases."""
        predictions = [posterior.measurements(places) for _, posterior in self._weighted_posteriors]
        return MixturePrediction(self._positive_weights, predictions)

    def left_out(self, index: np.ndarray) -> MixturePrediction:
        predictions = [posterior.left_out(index) for _, posterior in self._weighted_posteriors]
        return MixturePrediction(self._positive_weights, predictions)

    def compared(self) -> MixturePrediction:
        """``left_out`` of the observations that models were compared at."""
        fits = self.fits[: len(self._positive_weights)]
        return MixturePrediction(self._positive_weights, [fit.left_out for fit in fits])
