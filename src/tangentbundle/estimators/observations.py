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
    square component one.
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
    def normal_variance(self) -> float:
        """The mean square of each component of the vectors normal to the tangent spaces."""
        n, D, d = self.frames.shape
        if d == D:
            return 0.0
        tangent = np.einsum("nda,nd->na", self.frames, self.vectors)
        squares = np.square(self.vectors).sum() - np.square(tangent).sum()
        return float(max(squares, 0.0)) / (n * (D - d))

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


def known_variances(noise_std: Any, n: int, scale: float) -> np.ndarray | None:
    """Known variances ``(n,)`` in units of the data's, or None."""
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
    return np.broadcast_to(np.square(values / scale), (n,)).copy()
