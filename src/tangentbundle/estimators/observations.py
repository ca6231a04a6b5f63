"""What a model is given: a vector field at some points, and places at which it is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import host
from ..errors import InvalidInputError, NonFiniteError, ShapeError
from ..geometry.nearest_points import NearestPoints
from .history import History
from .neighborhoods import Neighborhoods, halved

JITTER = 1e-8
"""Smallest variance, in units of the mean squared component of the data: keeps covariances positive
definite."""

MAX_COMPARED = 640
"""Most observations that are left out. With more, cells of neighbouring points are chosen from
everywhere, whose errors agree."""

COMPARED_CELL = 64
"""Points of such a cell."""

SIGNAL_CANDIDATES = 100
"""Variances of a component of the field among which the likeliest is chosen."""


@dataclass(frozen=True, eq=False)
class Places:
    """Points ``(m, D)`` at which a field is wanted, with tangent bases ``(m, D, d)`` made when
    first needed."""

    points: np.ndarray
    make_frames: Callable[[], np.ndarray] = field(repr=False)

    @cached_property
    def frames(self) -> np.ndarray:
        return self.make_frames()


@dataclass(frozen=True, eq=False)
class Observations:
    """A vector field at points: the only input of a model.

    Points have root mean square distance one from their centre, which is zero; vectors root mean
    square component one, weighted by ``weights``.
    """

    points: np.ndarray  # (n, D)
    vectors: np.ndarray  # ambient (n, D)
    frames: np.ndarray  # tangent bases (n, D, d)
    exact: bool  # whether these are those of a known manifold
    oriented: bool  # whether they agree in orientation everywhere
    make_frames_left_out: Callable[[], np.ndarray] = field(repr=False)
    """Makes tangent bases ``(n, D, d)`` at each point from the other points alone."""

    noise: np.ndarray | None = None  # known variances of each component (n,); None: to be estimated
    history: History | None = None
    position_variance: float = 0.0  # of each coordinate of the points

    @property
    def ambient_dim(self) -> int:
        return self.frames.shape[1]

    @property
    def dim(self) -> int:
        return self.frames.shape[2]

    @cached_property
    def weights(self) -> np.ndarray:
        """How much each vector counts in means over all ``(n,)``, see ``precision_weights``."""
        return precision_weights(self.vectors, self.noise)

    @cached_property
    def weighted_noise(self) -> float:
        """The weighted mean of the known variances of the noise; zero if none are known."""
        if self.noise is None:
            return 0.0
        return float(np.mean(self.weights * self.noise))

    @cached_property
    def weights_of_axes(self) -> np.ndarray:
        r"""How much each vector counts for the axes of all ``(n,)``.

        To tell axes of the field from those of noise alone, the best weights are
        :math:`1 / (\sigma_i^2 (s^2 + \sigma_i^2))` (Hong, Yang, Fessler and Balzano, 2023). The
        noise counts as at least :math:`1 / n^2` of the field.
        """
        if self.noise is None:
            return self.weights
        weights = self.weights / (self.noise + 1 / len(self.points) ** 2)
        return weights / weights.mean()

    @cached_property
    def normal_variance(self) -> float:
        """The mean square of each component of the vectors normal to the tangent spaces."""
        n, D, d = self.frames.shape
        if d == D:
            return 0.0
        tangent = np.einsum("nda,nd->na", self.frames, self.vectors)
        squares = np.square(self.vectors).sum(axis=1) - np.square(tangent).sum(axis=1)
        return max(float(self.weights @ squares), 0.0) / (n * (D - d))

    @property
    def measured_dim(self) -> int:
        """Directions in which vectors vary: all, or the tangent ones if vectors are exactly
        tangent."""
        if self.normal_variance > 100 * JITTER:
            return self.ambient_dim
        return self.dim

    @cached_property
    def places_left_out(self) -> Places:
        """The points as if they were new ones."""
        return Places(self.points, self.make_frames_left_out)

    @cached_property
    def compared(self) -> np.ndarray:
        """The observations that are left out one at a time to compare models: all, or cells from
        everywhere.

        Which ones follows from the points alone.
        """
        n = len(self.points)
        everything = np.arange(n)
        if n <= MAX_COMPARED:
            return everything
        cells = halved(self.points, everything, COMPARED_CELL)
        return np.sort(np.concatenate(evenly(cells, MAX_COMPARED // COMPARED_CELL)))

    @cached_property
    def tree(self) -> NearestPoints:
        return NearestPoints(self.points)

    @cached_property
    def spacing(self) -> float:
        """The median distance to the nearest other point."""
        return float(np.median(self.tree.query(self.points, k=2)[0][:, 1]))

    @cached_property
    def _neighborhoods(self) -> dict[int, Neighborhoods]:
        return {}

    def neighborhoods(self, sites: int) -> Neighborhoods:
        """Which observations predictions use, so many of them each; all models share it."""
        if sites not in self._neighborhoods:
            far = sites // 2
            self._neighborhoods[sites] = Neighborhoods.of(self.points, sites - far, far)
        return self._neighborhoods[sites]

    @cached_property
    def axes(self) -> np.ndarray:
        """Up to three principal axes of the points ``(D, k)``."""
        n, D = self.points.shape
        sample = self.points[:: max(1, n // (10 * D + 1000))]  # from everywhere, whatever the order
        return np.linalg.svd(sample, full_matrices=False)[2][:3].T


def evenly(items: list[Any], count: int) -> list[Any]:
    """At most ``count`` of the items, at equal steps."""
    if len(items) <= count:
        return items
    return [items[k] for k in np.linspace(0, len(items) - 1, count).round().astype(int)]


def precision_weights(vectors: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
    r"""Weights ``(n,)`` of vectors ``(n, D)`` in means over all, of mean one.

    They are the inverse variances :math:`1 / (s^2 + \sigma_i^2)` of a component, with the known
    noise :math:`\sigma_i^2` ``(n,)`` and the variance :math:`s^2` of the field: a vector that is
    known to be noise alone says nothing about the field.

    >>> precision_weights(np.array([[1.0], [-1.0], [900.0]]), np.array([0.0, 0.0, 1e6])).round(3)
    array([1.5, 1.5, 0. ])
    """
    count = len(vectors)
    if noise is None or noise.min() == noise.max():
        return np.ones(count)
    signal_variance = likeliest_signal_variance(vectors, noise)
    if signal_variance == 0.0:
        return np.ones(count)
    precisions = 1 / (signal_variance + noise)
    return precisions / precisions.mean()


def likeliest_signal_variance(vectors: np.ndarray, noise: np.ndarray) -> float:
    """The variance of a component of a field with which vectors ``(n, D)`` of independent normal
    components and known noise ``(n,)`` are most probable."""
    squares = np.square(vectors).mean(axis=1)
    positive = squares[squares > 0]
    if not len(positive):
        return 0.0
    best_variance = 0.0
    best_loss = np.inf
    for candidate in np.geomspace(positive.min(), positive.max(), SIGNAL_CANDIDATES):
        variances = candidate + noise
        loss = float((np.log(variances) + squares / variances).sum())
        if loss < best_loss:
            best_variance = float(candidate)
            best_loss = loss
    return best_variance


def known_variances(noise_std: Any, n: int) -> np.ndarray | None:
    """Known variances ``(n,)`` of each component, or None."""
    if noise_std is None:
        return None
    values = np.asarray(host(noise_std, "noise_std"), dtype=float)
    if values.shape not in ((), (n,)):
        raise ShapeError(
            argument="noise_std",
            expected=f"a number or one for each of the {n} points",
            received=f"shape {values.shape}",
        )
    if not np.isfinite(values).all():
        raise NonFiniteError(
            remedy="Drop points whose noise is not known, or estimate it.",
            argument="noise_std",
            expected="finite",
        )
    if (values < 0).any():
        raise InvalidInputError(
            "holds negative numbers; standard deviations are at least 0.", argument="noise_std"
        )
    return np.broadcast_to(np.square(values), (n,)).copy()
