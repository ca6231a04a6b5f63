"""The simplest models, which need no tangent spaces: means of neighbours, and the data as they
are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .observations import JITTER, Observations, Places
from .prediction import GaussianPrediction, Model, Posterior


@dataclass(frozen=True)
class NeighborMean(Model):
    """The mean vector of the nearest points; of ``neighbors`` the number with the least
    leave-one-out error."""

    neighbors: int | Sequence[int] = (4, 8, 16, 32, 64)

    def __str__(self) -> str:
        return type(self).__name__

    def fit(self, observations: Observations) -> NeighborPosterior:
        others = len(observations.points) - 1
        counts = sorted({min(int(count), others) for count in np.atleast_1d(self.neighbors)})
        posteriors = [NeighborPosterior(observations, count, 1.0) for count in counts]
        errors = [_left_out_error(posterior) for posterior in posteriors]
        best = int(np.argmin(errors))
        return NeighborPosterior(observations, counts[best], errors[best])


def _left_out_error(posterior: NeighborPosterior) -> float:
    """The mean square of a component's error."""
    observations = posterior.observations
    index = observations.compared
    errors = posterior.left_out(index).mean - observations.vectors[index]
    if observations.exact:
        errors = np.einsum("mda,md->ma", observations.frames[index], errors)
    squares = np.square(errors).mean(axis=1)
    return float(np.average(squares, weights=observations.weights[index]))


@dataclass(eq=False)
class NeighborPosterior(Posterior):
    """Means of the ``neighbors`` nearest vectors; ``variance`` is that of left-out components about
    them."""

    observations: Observations = field(repr=False)
    neighbors: int
    variance: float

    def __post_init__(self) -> None:
        known = self.observations.noise
        # at most the left-out error, for the field changes, too
        variance = self.variance if known is None else float(known.mean())
        self.noise = float(np.sqrt(variance))
        self.parameters = {"neighbors": float(self.neighbors)}

    def predict(self, places: Places, spread: bool = True) -> GaussianPrediction:
        """At a training point its own vector is one of them; of the difference of two vectors half
        is noise of one."""
        distances, index = self._nearest(places.points, self.neighbors)
        is_own_vector = (distances[:, 0] == 0.0) & (self.neighbors == 1)
        averaged = np.where(is_own_vector, 2, self.neighbors)
        return GaussianPrediction.isotropic(self._means(index), self.variance / averaged + JITTER)

    def measurements(self, places: Places) -> GaussianPrediction:
        return self.predict(places).widened(self.noise**2, self.noise**2)

    def left_out(self, index: np.ndarray) -> GaussianPrediction:
        nearest = self._nearest(self.observations.points[index], self.neighbors + 1)[1]
        own = nearest == index[:, None]
        own[~own.any(axis=1), -1] = True  # many coincident points
        others = nearest[~own].reshape(len(index), -1)
        return GaussianPrediction.isotropic(self._means(others), self._variances_left_out(index))

    def _variances_left_out(self, index: np.ndarray) -> np.ndarray | float:
        """Those of measurements ``(m,)``, each with its own noise where it is known."""
        noise = self.observations.noise
        if noise is None:
            return self.variance
        without_noise = max(self.variance - self.observations.weighted_noise, 0.0)
        return without_noise + noise[index]

    def _means(self, index: np.ndarray) -> np.ndarray:
        """Weighted mean vectors ``(m, D)`` over rows of indices ``(m, k)``, without an array of all
        vectors ``(m, k, D)``."""
        total = np.zeros((len(index), self.observations.vectors.shape[1]))
        total_weights = np.zeros((len(index), 1))
        for column in index.T:
            weights = self.observations.weights[column, None]
            total += weights * self.observations.vectors[column]
            total_weights += weights
        return total / total_weights

    def _nearest(self, points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        distances, index = self.observations.tree.query(points, k=count)
        return distances.reshape(len(points), count), index.reshape(len(points), count)


@dataclass(frozen=True)
class NearestVector(NeighborMean):
    """The data as they are: the vector itself at a training point, that of the nearest one
    elsewhere."""

    neighbors: Sequence[int] = field(default=(1,), init=False, repr=False)
