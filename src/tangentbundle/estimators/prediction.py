"""What a model returns: distributions of ambient vectors, and what it promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from .bases import AmbientAxes, Bases, PointFrames
from .observations import JITTER, Observations, Places

ROWS_AT_ONCE = 256
"""Matrices ``(D, p)`` that are expanded at a time."""


class Prediction(ABC):
    """Distributions of m ambient vectors ``(m, D)``, one by one."""

    mean: np.ndarray

    @abstractmethod
    def variances(self) -> np.ndarray:
        """Of every ambient component ``(m, D)``."""

    @abstractmethod
    def covariances(self) -> np.ndarray:
        """``(m, D, D)``."""

    @abstractmethod
    def log_density(self, vectors: np.ndarray) -> np.ndarray:
        """Of ambient vectors ``(m, D)``, for each ``(m,)``."""

    @abstractmethod
    def in_frames(self, frames: np.ndarray) -> Prediction:
        """The distributions of coordinates ``(m, d)`` in tangent bases ``(m, D, d)``."""

    @abstractmethod
    def tangent(self, frames: np.ndarray) -> Prediction:
        """Their parts along tangent bases ``(m, D, d)``, with nothing across."""

    @abstractmethod
    def widened(self, along: np.ndarray | float, across: np.ndarray | float) -> Prediction:
        """With variances ``(m,)`` added along the bases and across them."""


@dataclass(frozen=True, eq=False)
class GaussianPrediction(Prediction):
    r"""Normal distributions with covariances :math:`B C B^T + a (I - B B^T)`."""

    mean: np.ndarray  # (m, D)
    bases: Bases  # with p columns B
    blocks: np.ndarray  # covariances C along them (m, p, p)
    across: np.ndarray  # variances a of every component across them (m,)

    @classmethod
    def isotropic(cls, mean: np.ndarray, variance: np.ndarray | float) -> GaussianPrediction:
        """The same variance in all directions, one for each of the m vectors."""
        m, D = mean.shape
        return cls(
            mean=mean,
            bases=AmbientAxes(np.zeros((D, 0))),
            blocks=np.zeros((m, 0, 0)),
            across=np.broadcast_to(np.asarray(variance, float), (m,)),
        )

    def variances(self) -> np.ndarray:
        unexplained = 1 - np.square(self.bases.matrices).sum(axis=-1)
        variances = self.across[:, None] * unexplained
        for start in range(0, len(variances), ROWS_AT_ONCE):
            rows = np.arange(start, min(start + ROWS_AT_ONCE, len(variances)))
            matrices = self.bases.at(rows).matrices
            products = matrices @ self.blocks[rows]
            variances[rows] += np.einsum("...ij,...ij->...i", products, matrices)
        return np.maximum(variances, 0.0)

    def covariances(self) -> np.ndarray:
        matrices = self.bases.matrices
        transposed = matrices.swapaxes(-1, -2)
        unexplained = np.eye(self.mean.shape[1]) - matrices @ transposed
        return matrices @ self.blocks @ transposed + self.across[:, None, None] * unexplained

    def log_density(self, vectors: np.ndarray) -> np.ndarray:
        D = vectors.shape[1]
        p = self.bases.dim
        errors = vectors - self.mean
        along = self.bases.coordinates(errors)
        squares_across = np.square(errors).sum(axis=1) - np.square(along).sum(axis=1)
        blocks = self.blocks + JITTER * np.eye(p)
        across = self.across + JITTER
        weighted = np.linalg.solve(blocks, along[:, :, None])[:, :, 0]
        squares = np.einsum("mi,mi->m", along, weighted) + np.maximum(squares_across, 0.0) / across
        log_determinant = np.linalg.slogdet(blocks)[1] + (D - p) * np.log(across)
        return -0.5 * (squares + log_determinant + D * np.log(2 * np.pi))

    def in_frames(self, frames: np.ndarray) -> GaussianPrediction:
        eye = np.eye(frames.shape[2])
        overlap = frames.swapaxes(1, 2) @ self.bases.matrices
        transposed = overlap.swapaxes(1, 2)
        unexplained = self.across[:, None, None] * (eye - overlap @ transposed)
        return GaussianPrediction(
            mean=np.einsum("mda,md->ma", frames, self.mean),
            bases=AmbientAxes(eye),
            blocks=overlap @ self.blocks @ transposed + unexplained,
            across=np.zeros(len(frames)),
        )

    def tangent(self, frames: np.ndarray) -> GaussianPrediction:
        coordinates = self.in_frames(frames)
        bases = PointFrames(frames)
        return replace(coordinates, mean=bases.ambient(coordinates.mean), bases=bases)

    def widened(self, along: np.ndarray | float, across: np.ndarray | float) -> GaussianPrediction:
        eye = np.eye(self.bases.dim)
        variances = np.broadcast_to(np.asarray(along, float), self.across.shape)
        blocks = self.blocks + variances[:, None, None] * eye
        return replace(self, blocks=blocks, across=self.across + across)


@dataclass(frozen=True, eq=False)
class MixturePrediction(Prediction):
    r"""Mixtures :math:`\sum_k w_k p_k`: where the components disagree, the variance is larger.

    .. math:: \mu = \sum_k w_k \mu_k, \qquad
              C = \sum_k w_k \big(C_k + (\mu_k - \mu)(\mu_k - \mu)^T\big).
    """

    weights: np.ndarray  # (k,), of sum one
    components: Sequence[Prediction]

    @property
    def mean(self) -> np.ndarray:  # type: ignore[override]
        means = [component.mean for component in self.components]
        return self._weighted(means)

    def variances(self) -> np.ndarray:
        mean = self.mean
        return self._weighted(
            [
                component.variances() + np.square(component.mean - mean)
                for component in self.components
            ]
        )

    def covariances(self) -> np.ndarray:
        mean = self.mean
        covariances = []
        for component in self.components:
            offset = component.mean - mean
            disagreement = offset[:, :, None] * offset[:, None, :]
            covariances.append(component.covariances() + disagreement)
        return self._weighted(covariances)

    def log_density(self, vectors: np.ndarray) -> np.ndarray:
        densities = [component.log_density(vectors) for component in self.components]
        return logsumexp(densities, axis=0, b=self.weights[:, None])

    def in_frames(self, frames: np.ndarray) -> MixturePrediction:
        return replace(self, components=[c.in_frames(frames) for c in self.components])

    def tangent(self, frames: np.ndarray) -> MixturePrediction:
        return replace(self, components=[c.tangent(frames) for c in self.components])

    def widened(self, along: np.ndarray | float, across: np.ndarray | float) -> MixturePrediction:
        return replace(self, components=[c.widened(along, across) for c in self.components])

    def _weighted(self, values: Sequence[np.ndarray]) -> np.ndarray:
        total = np.zeros_like(values[0])
        for weight, value in zip(self.weights, values, strict=True):
            total += weight * value
        return total


class Posterior(ABC):
    """A fitted model."""

    noise: float  # estimated standard deviation of each component (root mean square of a known one)
    parameters: dict[str, float]  # fitted hyperparameters by name

    @abstractmethod
    def predict(self, places: Places, spread: bool = True) -> Prediction:
        """The field itself; without ``spread`` the variances mean nothing."""

    @abstractmethod
    def measurements(self, places: Places) -> Prediction:
        """Measurements of the field, with noise."""

    @abstractmethod
    def left_out(self, index: np.ndarray) -> Prediction:
        """Measurements at these observations, each predicted from all the others, as at a new
        point."""


class Model(ABC):
    """A way to estimate a field from noisy vectors at some points."""

    uses_history: bool = False  # whether it takes past fields into account

    @property
    def name(self) -> str:
        """A short name for tables."""
        return type(self).__name__

    @abstractmethod
    def fit(self, observations: Observations) -> Posterior:
        """Fit to observations. The result follows from them alone: nothing is random."""
