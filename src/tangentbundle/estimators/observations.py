"""What a model is given, a field at some points, and what it returns, a prediction with its
spread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from ..arrays import host
from ..errors import InvalidInputError, NonFiniteError, ShapeError
from .history import History
from .neighborhoods import NearestPoints, Neighborhoods

JITTER = 1e-8
"""Smallest variance, in units of the mean squared component of the data: keeps covariances positive
definite."""


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
    noise: np.ndarray | None = None  # known variances of each component (n,); None: to be estimated
    history: History | None = None
    position_variance: float = 0.0  # of each coordinate of the points

    @property
    def dims(self) -> tuple[int, int]:
        """The ambient and the intrinsic dimension."""
        return self.frames.shape[1], self.frames.shape[2]

    def components(self, vectors: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Vectors ``(m, D)`` at some observations as scores count them: tangent coordinates if
        frames are exact."""
        return np.einsum("mda,md->ma", self.frames[index], vectors) if self.exact else vectors

    @cached_property
    def tree(self) -> NearestPoints:
        return NearestPoints(self.points)

    @cached_property
    def spacing(self) -> float:
        """The median distance to the nearest other point."""
        return float(np.median(self.tree.query(self.points, k=2)[0][:, 1]))

    @cached_property
    def _parts(self) -> dict[int, Neighborhoods]:
        return {}

    def parts(self, sites: int) -> Neighborhoods:
        """Which observations predictions use, so many of them each; all models share it."""
        if sites not in self._parts:
            self._parts[sites] = Neighborhoods.of(self.points, sites - sites // 2, sites // 2)
        return self._parts[sites]

    @cached_property
    def axes(self) -> np.ndarray:
        """Up to three principal axes of the points ``(D, k)``."""
        n, D = self.points.shape
        sample = self.points[
            :: max(1, n // (10 * D + 1000))
        ]  # from everywhere, in whatever order they are
        return np.linalg.svd(sample, full_matrices=False)[2][:3].T


@dataclass(frozen=True, eq=False)
class Prediction:
    r"""Normal distributions of ambient vectors, with covariances
    :math:`B C B^T + a (I - B B^T)`."""

    mean: np.ndarray  # (m, D)
    bases: np.ndarray  # orthonormal columns B: (D, p) for all, or (m, D, p)
    blocks: np.ndarray  # covariances C along them (m, p, p)
    across: np.ndarray  # variances a of every component across them (m,)

    @classmethod
    def isotropic(cls, mean: np.ndarray, variance: np.ndarray | float) -> Prediction:
        """The same variance in all directions, one for each of the m vectors."""
        m, D = mean.shape
        return cls(
            mean,
            np.zeros((D, 0)),
            np.zeros((m, 0, 0)),
            np.broadcast_to(np.asarray(variance, float), (m,)),
        )

    def coordinates(self, vectors: np.ndarray) -> np.ndarray:
        """``B^T v (m, p)``."""
        return np.matmul(self.bases.swapaxes(-1, -2), vectors[:, :, None])[:, :, 0]

    def variances(self) -> np.ndarray:
        """Of every ambient component ``(m, D)``."""
        found = self.across[:, None] * (1 - np.square(self.bases).sum(axis=-1))
        for start in range(0, len(found), 256):  # at most so many matrices (D, p) at a time
            rows = slice(start, start + 256)
            bases = self.bases if self.bases.ndim == 2 else self.bases[rows]
            found[rows] += np.einsum("...ij,...ij->...i", bases @ self.blocks[rows], bases)
        return np.maximum(found, 0.0)

    def covariances(self) -> np.ndarray:
        """``(m, D, D)``."""
        eye = np.eye(self.mean.shape[1])
        outer = self.bases @ self.bases.swapaxes(-1, -2)
        own = self.bases @ self.blocks @ self.bases.swapaxes(-1, -2)
        return own + self.across[:, None, None] * (eye - outer)

    def log_density(self, vectors: np.ndarray) -> np.ndarray:
        """Of ambient vectors ``(m, D)``, for each ``(m,)``."""
        D, p = vectors.shape[1], self.blocks.shape[1]
        off = vectors - self.mean
        along = self.coordinates(off)
        far = np.maximum(np.square(off).sum(axis=1) - np.square(along).sum(axis=1), 0.0)
        blocks = self.blocks + JITTER * np.eye(p)
        across = self.across + JITTER
        inside = np.einsum("mi,mi->m", along, np.linalg.solve(blocks, along[:, :, None])[:, :, 0])
        logdet = np.linalg.slogdet(blocks)[1] + (D - p) * np.log(across)
        return -0.5 * (inside + far / across + logdet + D * np.log(2 * np.pi))

    def inside(self, frames: np.ndarray) -> Prediction:
        """The distribution of coordinates ``(m, d)`` in tangent bases ``(m, D, d)``."""
        overlap, eye = frames.swapaxes(1, 2) @ self.bases, np.eye(frames.shape[2])
        blocks = overlap @ self.blocks @ overlap.swapaxes(1, 2)
        blocks = blocks + self.across[:, None, None] * (eye - overlap @ overlap.swapaxes(1, 2))
        return Prediction(
            np.einsum("mda,md->ma", frames, self.mean), eye, blocks, np.zeros(len(blocks))
        )

    def tangent(self, frames: np.ndarray) -> Prediction:
        """Its part along tangent bases ``(m, D, d)``, with nothing across."""
        found = self.inside(frames)
        return replace(found, mean=np.einsum("mda,ma->md", frames, found.mean), bases=frames)

    def widened(self, along: np.ndarray | float, across: np.ndarray | float) -> Prediction:
        """With variances ``(m,)`` added along the bases and across them."""
        eye = np.eye(self.blocks.shape[1])
        added = np.broadcast_to(np.asarray(along, float), self.across.shape)[:, None, None] * eye
        return replace(self, blocks=self.blocks + added, across=self.across + across)


class Score(NamedTuple):
    """How a model predicts measurements that are left out one at a time.

    Densities are those of vectors divided by their root mean square component, so that ``score``
    and ``margin`` do not depend on units. ``noise`` is in the same units for a posterior, and in
    those of the data in ``scores_`` of an estimator.
    """

    model: str
    score: (
        float  # mean log density of a left-out vector: ambient, or tangent if the manifold is known
    )
    margin: float  # by how much the score is below the greatest one
    margin_error: float  # its standard error
    noise: float  # estimated standard deviation of the noise
    seconds: float  # of the fit
    name: str = ""  # a short one for tables


class Posterior(ABC):
    """A fitted model."""

    noise: float  # estimated standard deviation of each component (root mean square of a known one)
    noise_along: float  # variance of the noise of each component along the bases
    noise_across: float  # the same across them
    parameters: dict[str, float]  # fitted hyperparameters by name
    model: str = ""  # of a choice between models: the best, and a row for each
    scores: list[Score] = []  # noqa: RUF012

    @abstractmethod
    def predict(self, places: Places, spread: bool = True) -> Prediction:
        """The field itself; without ``spread`` the variances mean nothing."""

    @abstractmethod
    def left_out(self, index: np.ndarray) -> Prediction:
        """Measurements at these training points, each predicted from all the others."""


class Model(ABC):
    """A way to estimate a field from noisy vectors at some points."""

    uses_history: bool = False  # whether it takes past fields into account
    ambient: bool = (
        True  # whether vectors are described in axes of ambient space instead of tangent bases
    )
    baseline: bool = (
        False  # so simple that it is only chosen where it is clearly better than others
    )

    @property
    def name(self) -> str:
        """A short name for tables."""
        return type(self).__name__

    @abstractmethod
    def fit(self, observations: Observations, rng: np.random.Generator) -> Posterior:
        """Fit to observations."""

    def quick(self) -> Model:
        """The same model fitted to fewer points where that saves time: for comparisons."""
        return self


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


def share(level: Any) -> float:
    """The level of an interval, checked."""
    if not (isinstance(level, (int, float)) and 0 < level < 1):
        raise InvalidInputError(
            f"level must be a share between 0 and 1, such as 0.9, got {level!r}."
        )
    return float(level)


def tail(level: float, residuals: np.ndarray | None) -> float:
    """Half the width of a central interval: the conformal quantile of standardised residuals, or
    the Gaussian one."""
    sizes = np.sort(np.abs(np.ravel([] if residuals is None else residuals)))
    rank = int(np.ceil((len(sizes) + 1) * level))
    return float(sizes[rank - 1] if rank <= len(sizes) else ndtri((1 + level) / 2))
