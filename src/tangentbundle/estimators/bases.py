"""Bases of vectors: the same axes everywhere, or a frame at each point; and a field in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .history import normalized, recolored
from .observations import JITTER, Observations, Places
from .sites import PastAtSites, Sites

MAX_AXES = 64
"""Most axes of the signal in many dimensions, each with an amplitude to be estimated."""


class Bases(ABC):
    """Orthonormal bases of p directions of ambient space at n points."""

    across_is_noise: bool
    """Whether vectors have nothing but noise across the bases."""

    bounds_noise: bool
    """Whether the noise is at most as large as what vectors have across the bases."""

    matrices: np.ndarray
    """Bases as columns, ``(n, D, p)``, or ``(D, p)`` if they are the same everywhere."""

    @property
    def dim(self) -> int:
        return self.matrices.shape[-1]

    @property
    def ambient_dim(self) -> int:
        return self.matrices.shape[-2]

    def tensor(self) -> Tensor:
        return as_tensor(self.matrices)

    @abstractmethod
    def at(self, index: np.ndarray) -> Bases:
        """The bases at some of the points; ``index`` may have any shape."""

    @abstractmethod
    def at_places(self, places: Places) -> Bases:
        """The bases of the same kind at other places."""

    @abstractmethod
    def beside(self, other: Bases) -> Bases:
        """These bases, then others of the same kind."""

    @abstractmethod
    def coordinates(self, vectors: np.ndarray) -> np.ndarray:
        """``B^T v (n, p)`` of ambient vectors ``(n, D)``."""

    @abstractmethod
    def ambient(self, coordinates: np.ndarray) -> np.ndarray:
        """``B c (n, D)`` of coordinates ``(n, p)``."""

    def angle_variances(
        self, coordinates: np.ndarray, weights: np.ndarray, noise: np.ndarray
    ) -> np.ndarray:
        """Variances ``(p,)`` of the angles by which the bases are off because vectors are noisy.

        Coordinates ``(n, p)`` have such weights and such variances of the noise ``(n,)``.
        """
        return np.zeros(self.dim)


@dataclass(frozen=True, eq=False)
class AmbientAxes(Bases):
    """The same directions of ambient space at every point: columns of ``matrices`` ``(D, p)``.

    ``fitted`` says that they are principal axes of noisy vectors.

    >>> axes = AmbientAxes(np.eye(3)[:, :2])
    >>> axes.coordinates(np.array([[1.0, 2.0, 3.0]])).tolist()
    [[1.0, 2.0]]
    """

    matrices: np.ndarray
    fitted: bool = False
    across_is_noise = True
    bounds_noise = False

    def at(self, index: np.ndarray) -> AmbientAxes:
        return self

    def at_places(self, places: Places) -> AmbientAxes:
        return self

    def beside(self, other: Bases) -> AmbientAxes:
        return self

    def coordinates(self, vectors: np.ndarray) -> np.ndarray:
        return vectors @ self.matrices

    def ambient(self, coordinates: np.ndarray) -> np.ndarray:
        return coordinates @ self.matrices.T

    def angle_variances(
        self, coordinates: np.ndarray, weights: np.ndarray, noise: np.ndarray
    ) -> np.ndarray:
        if not self.fitted or self.dim == self.ambient_dim:
            return np.zeros(self.dim)
        count = len(coordinates)
        signal = np.maximum(weights @ np.square(coordinates) / count, JITTER)
        noise_of_mean = np.square(weights) @ noise / count**2
        return noise_of_mean / signal


@dataclass(frozen=True, eq=False)
class PointFrames(Bases):
    """A frame at each point ``(n, D, p)``: tangent spaces, ``exact`` on a known manifold.

    >>> frames = PointFrames(np.eye(3)[None, :, 1:])
    >>> frames.ambient(np.array([[5.0, 6.0]])).tolist()
    [[0.0, 5.0, 6.0]]
    """

    matrices: np.ndarray
    exact: bool = False
    bounds_noise = True

    @property
    def across_is_noise(self) -> bool:  # type: ignore[override]
        return self.exact

    def at(self, index: np.ndarray) -> PointFrames:
        return PointFrames(self.matrices[index], self.exact)

    def at_places(self, places: Places) -> PointFrames:
        return PointFrames(places.frames, self.exact)

    def beside(self, other: Bases) -> PointFrames:
        return PointFrames(np.concatenate([self.matrices, other.matrices]), self.exact)

    def coordinates(self, vectors: np.ndarray) -> np.ndarray:
        return np.einsum("nij,ni->nj", self.matrices, vectors)

    def ambient(self, coordinates: np.ndarray) -> np.ndarray:
        return np.einsum("nij,nj->ni", self.matrices, coordinates)


class Directions(ABC):
    """Which directions of ambient space the components of a process have."""

    @abstractmethod
    def of(self, observations: Observations) -> AmbientAxes:
        """The directions for these observations, those of noise alone left out."""


@dataclass(frozen=True)
class PrincipalAxes(Directions):
    r"""Principal axes of the vectors, or of the points where there are too few vectors.

    They turn with the data. An estimate of their :math:`D (D - 1) / 2` angles needs ten vectors for
    each.

    >>> print(PrincipalAxes())
    principal axes
    """

    def __str__(self) -> str:
        return "principal axes"

    def of(self, observations: Observations) -> AmbientAxes:
        vectors = observations.vectors
        n, D = vectors.shape
        enough_vectors = n >= 5 * D * (D - 1)
        rows = observations.points
        if enough_vectors:
            rows = np.sqrt(observations.weights_of_axes)[:, None] * vectors
        axes = np.ascontiguousarray(np.linalg.svd(rows, full_matrices=False)[2].T)
        return axes_of_signal(axes, observations, fitted=enough_vectors)


PRINCIPAL_AXES = PrincipalAxes()


@dataclass(frozen=True)
class Coordinates(Directions):
    """The axes of the coordinates, where these are quantities of their own: joints of a robot,
    cells of a brain, elements of a matrix.

    >>> print(Coordinates())
    coordinates
    """

    def __str__(self) -> str:
        return "coordinates"

    def of(self, observations: Observations) -> AmbientAxes:
        return axes_of_signal(np.eye(observations.ambient_dim), observations)


def axes_of_signal(
    axes: np.ndarray, observations: Observations, fitted: bool = False
) -> AmbientAxes:
    r"""Those of the ``axes`` ``(D, p)`` along which neighbours' vectors agree more than noise
    would; at least one.

    Agreement is significant above three standard deviations, or :math:`\sqrt{2 \log D}`, which
    about one of D axes of noise exceeds. With few points no agreement is significant: an axis is
    only given up if its agreement is less than one half with the same certainty.
    """
    n, D = observations.vectors.shape
    components = observations.vectors @ axes
    weights = observations.weights
    nearest = observations.tree.query(observations.points, k=2)[1][:, 1]
    weights_of_pairs = weights * weights[nearest]
    products = weights_of_pairs @ (components * components[nearest])
    agreement = products / np.maximum(weights_of_pairs @ np.square(components), 1e-300)
    pairs = weights_of_pairs.sum() ** 2 / np.square(weights_of_pairs).sum()
    error = max(3.0, np.sqrt(2 * np.log(D))) / np.sqrt(pairs)
    energy = weights @ np.square(components)
    least_agreement = min(error, 0.5 - error)
    is_signal = (agreement > least_agreement) & (energy > JITTER * n)
    is_signal[np.argmax(agreement * energy)] = True
    is_signal[np.flatnonzero(is_signal)[MAX_AXES:]] = False
    return AmbientAxes(np.ascontiguousarray(axes[:, is_signal]), fitted)


@dataclass(frozen=True, eq=False)
class FieldInBases:
    """Observations in the bases of a process, less the mean of their history."""

    observations: Observations
    bases: Bases

    @cached_property
    def vectors(self) -> np.ndarray:
        """Ambient vectors ``(n, D)``, less the mean of the history: its tangent part where tangent
        spaces are known."""
        observations = self.observations
        if observations.history is None:
            return observations.vectors
        mean = observations.history.mean(observations.points)
        if observations.exact:
            frames = PointFrames(observations.frames)
            mean = frames.ambient(frames.coordinates(mean))
        return observations.vectors - mean

    @cached_property
    def values(self) -> np.ndarray:
        """Coordinates ``(n, p)``."""
        return self.bases.coordinates(self.vectors)

    @cached_property
    def across(self) -> np.ndarray:
        """What vectors have across the bases ``(n, D)``."""
        return self.vectors - self.bases.ambient(self.values)

    @cached_property
    def variance_across(self) -> float:
        """The mean square of each component across the bases."""
        return _component_variance(self.across, self.bases, self.observations.weights)

    @cached_property
    def variance_across_elsewhere(self) -> float:
        """The same across bases made without the point itself, as those at new points are."""
        bases = self.bases.at_places(self.observations.places_left_out)
        across = self.vectors - bases.ambient(bases.coordinates(self.vectors))
        return _component_variance(across, bases, self.observations.weights)

    @property
    def measured_across(self) -> bool:
        """Whether vectors have components across the bases at all: exactly tangent ones do not."""
        return self.variance_across > 100 * JITTER

    @property
    def max_noise(self) -> float:
        """The largest standard deviation of the noise that agrees with components across."""
        if self.measured_across and self.bases.bounds_noise:
            return float(np.sqrt(self.variance_across))
        return np.inf

    def sites(self, points: np.ndarray, bases: Bases) -> Sites:
        """Points ``(..., D)`` with bases, as tensors, with their history where there is one."""
        principal = as_tensor(points @ self.observations.axes)
        past = self._past(points, bases)
        return Sites(as_tensor(points), bases.tensor(), principal, past)

    def _past(self, points: np.ndarray, bases: Bases) -> PastAtSites | None:
        """What the history says of the points ``(..., D)``, in the bases."""
        history = self.observations.history
        if history is None:
            return None
        batches = points.shape[:-1]
        flat = points.reshape(-1, bases.ambient_dim)
        matrices = np.broadcast_to(bases.matrices, (*batches, *bases.matrices.shape[-2:]))
        rows = matrices.reshape(-1, *matrices.shape[-2:]).swapaxes(1, 2)
        fields = rows @ history.at(flat).transpose(1, 2, 0)
        mean = fields.mean(axis=2)
        anomalies = fields - mean[:, :, None]
        samples = [normalized(anomalies)]
        for displaced in history.displaced(flat, self.observations.axes, bases.dim):
            samples.append(rows @ displaced)
        all_samples = recolored(np.concatenate(samples, axis=2), anomalies)
        return PastAtSites(
            mean=as_tensor(mean.reshape(*batches, *mean.shape[1:])),
            anomalies=as_tensor(anomalies.reshape(*batches, *anomalies.shape[1:])),
            displaced=as_tensor(all_samples.reshape(*batches, *anomalies.shape[1:-1], -1)),
        )

    def sites_at(self, index: np.ndarray) -> Sites:
        """The sites of some of the observations."""
        return self.sites(self.observations.points[index], self.bases.at(index))


def _component_variance(across: np.ndarray, bases: Bases, weights: np.ndarray) -> float:
    """The mean square of each of the D - p components of ``across`` ``(n, D)``, with weights
    ``(n,)`` of mean one."""
    components = bases.ambient_dim - bases.dim
    if components == 0:
        return 0.0
    return float(weights @ np.square(across).sum(axis=1)) / (len(across) * components)


def as_tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
