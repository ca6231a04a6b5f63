r"""Covariances learned from past fields.

With :math:`\mu` the mean of T past fields and :math:`a_t` their anomalies, a field is
:math:`s \mu`, the multiple nearest to the observations with s from 0 to 1, plus a Gaussian process
with covariance

.. math:: \underbrace{\sigma_1^2 \rho(r/L_1) \frac1T \sum_t a_t(x) a_t(y)^T}_{\text{Empirical}} +
          \underbrace{\sigma_2^2 \rho(r/L_2) \frac1S \sum_{t,h} a_{th}(x) a_{th}(y)^T}
          _{\text{Displaced}} + K(x, y) +
          \underbrace{\sigma_3^2 k(r/\ell) \mu(x) \mu(y)^T}_{\text{ChangeOfMean}} ,

:math:`r = |x - y|`, with Gaspari and Cohn's taper :math:`\rho` (1999), which is zero from 2 L on,
and a parametric covariance K for what the samples miss.

Correlations change slowly from place to place, so that a field displaced by a vector h is another
sample of them. With :math:`\tilde a_t` the anomalies divided by their local size,

.. math:: a_{th}(x) = R(x)\, B(x)^T \tilde a_t(x + h),

where B are the bases and the matrices R give all S samples together the second moments of the
:math:`a_t(x)`: displacements tell of correlations only, not of local sizes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import float_tensor, require_values
from ..errors import NonFiniteError, ShapeError, TooFewPointsError
from .covariance import Covariance, CovarianceSum, Matern, Parameter, Role, terms_of
from .neighborhoods import NearestPoints
from .sites import Pairs, PastAtSites, Sites

TAPER_LENGTH = 0.5
"""Where lengths of tapers start, and the longest displacement. Points have distance one from their
centre."""

MAX_DISPLACEMENTS = 4
"""Most displacements in each direction: more of them are nearly the same fields."""

MAX_SAMPLES = 10_000
"""Most components of all displaced fields at a site, which bounds memory. A history with more
fields needs no further samples."""

MIN_MOMENT = 1e-12
"""Smallest mean square that is divided by; data have mean square one."""


@dataclass(frozen=True, eq=False)
class History:
    """Past ambient fields ``(T, m, D)`` at points ``(m, D)``, which need not be those of the
    observations. ``mean_share`` is the part of their mean that is expected now."""

    points: np.ndarray
    fields: np.ndarray
    mean_share: float = 1.0

    @classmethod
    def of(cls, points: np.ndarray, fields: np.ndarray) -> History:
        if len(points) < 3:
            raise TooFewPointsError(
                f"history needs fields at 3 points or more, got {len(points)}. Give more, or none."
            )
        return cls(points, checked_fields(fields, points.shape, 8, "history (at history_points)"))

    def scaled(self, center: np.ndarray, unit: float, factor: float) -> History:
        """Points centred and divided by ``unit``, fields multiplied by ``factor``."""
        return History((self.points - center) / unit, self.fields * factor)

    def with_mean_of(self, points: np.ndarray, vectors: np.ndarray) -> History:
        r"""With the share s from 0 to 1 of the mean that is nearest to ``vectors (n, D)`` at
        ``points (n, D)``, :math:`s = \sum_i y_i^T \mu_i / \sum_i \mu_i^T \mu_i`.

        >>> points, fields = np.random.default_rng(0).standard_normal((2, 20, 3))
        >>> history = History(points, np.stack([fields, 3 * fields]))
        >>> history.with_mean_of(points, fields).mean_share
        0.5
        """
        mean = replace(self, mean_share=1.0).mean(points)
        energy = float(np.square(mean).sum())
        share = float((vectors * mean).sum()) / max(energy, MIN_MOMENT)
        return replace(self, mean_share=float(np.clip(share, 0.0, 1.0)))

    def at(self, points: np.ndarray) -> np.ndarray:
        """The past fields at other points ``(T, n, D)``."""
        count = len(self.fields)
        m, D = self.points.shape
        columns = self.fields.transpose(1, 0, 2).reshape(m, count * D)
        interpolated = self._interpolate(self.points, columns, points)
        return interpolated.reshape(len(points), count, D).transpose(1, 0, 2)

    def mean(self, points: np.ndarray) -> np.ndarray:
        """The expected field ``(n, D)``: the share ``mean_share`` of the mean of past fields."""
        mean = self.mean_share * self.fields.mean(axis=0)
        return self._interpolate(self.points, mean, points)

    def displaced(self, points: np.ndarray, axes: np.ndarray, dim: int) -> Iterator[np.ndarray]:
        """Normalized anomalies ``(n, D, T)`` at the points displaced by each of a few vectors.

        The vectors lie at equal steps along the columns of ``axes (D, k)``, in both directions.
        Their number is bounded by that of anomalies of ``dim`` components.
        """
        count = MAX_SAMPLES // (2 * axes.shape[1] * dim * len(self.fields))
        count = min(count, MAX_DISPLACEMENTS)
        for step in range(1, count + 1):
            for axis in axes.T:
                vector = TAPER_LENGTH * step / count * axis
                for displacement in (vector, -vector):
                    nearest = self._tree.query(points + displacement)[1]
                    yield self._normalized_anomalies[nearest]

    @cached_property
    def _tree(self) -> NearestPoints:
        return NearestPoints(self.points)

    @cached_property
    def _normalized_anomalies(self) -> np.ndarray:
        """Those at the points of the history ``(m, D, T)``, in the order in which they are read."""
        anomalies = self.fields - self.fields.mean(axis=0)
        return np.ascontiguousarray(normalized(anomalies.transpose(1, 2, 0)))

    @staticmethod
    def _interpolate(points: np.ndarray, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        if np.array_equal(points, places):
            return values
        from scipy.interpolate import RBFInterpolator  # slow to import

        # coincident points have no interpolant
        _, unique = np.unique(points, axis=0, return_index=True)
        neighbors = min(16, len(unique))
        return RBFInterpolator(
            points[unique], values[unique], neighbors=neighbors, kernel="linear", degree=0
        )(places)


def checked_fields(fields: Any, shape: tuple[int, ...], fewest: int, name: str) -> np.ndarray:
    """Ambient vectors ``(T, n, D)`` at points of this shape ``(n, D)``, finite and at ``fewest``
    times or more."""
    tensor = require_values(float_tensor(fields, name)[0], name)
    values = tensor.double().numpy(force=True)
    if values.ndim != 3 or values.shape[1:] != shape:
        expected = f"(T, n, D) = (T, {shape[0]}, {shape[1]})"
        raise ShapeError(
            f"{name}: expected ambient vectors {expected}, one for each point, got {values.shape}."
        )
    if len(values) < fewest:
        raise ShapeError(
            f"{name}: expected at least {fewest} fields, got {len(values)}. Give more."
        )
    bad = np.flatnonzero(~np.isfinite(values).all(axis=(1, 2)))
    if len(bad):
        raise NonFiniteError(
            f"{name}: {len(bad)} fields hold NaN or infinite values, the first is number "
            f"{bad[0]}. Drop those fields (a series then needs times=), or fill them."
        )
    return values


def gaspari_cohn(z: Tensor) -> Tensor:
    """The compactly supported correlation of Gaspari and Cohn, equation (4.10): one at 0, zero from
    2 on."""
    within_one = 1 + z.square() * (-5 / 3 + z * (5 / 8 + z * (1 / 2 - z / 4)))
    w = z.clamp(1.0, 2.0)
    far = 4 + w * (-5 + w * (5 / 3 + w * (5 / 8 + w * (-1 / 2 + w / 12)))) - 2 / (3 * w)
    return torch.where(z < 1, within_one, torch.where(z < 2, far, torch.zeros_like(z)))


class TaperedSamples(Covariance):
    r"""The tapered second moments of samples,
    :math:`\sigma^2 \rho(|x_i - x_j|/L) \frac1S \sum_s a_{si} a_{sj}^T`."""

    @abstractmethod
    def products(self, pairs: Pairs) -> Tensor:
        """The second moments of the samples at two sets of sites ``(..., p, n, p, m)``."""

    def parameters(self, ambient_dim: int, dim: int) -> tuple[Parameter, ...]:
        return (
            Parameter("amplitude", 1.0, Role.AMPLITUDE),
            Parameter("length", TAPER_LENGTH, Role.LENGTH),
        )

    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        amplitude, length = values
        taper = gaspari_cohn(pairs.squares.sqrt() / length)
        return pairs.spread(amplitude.square() * taper) * self.products(pairs)

    def diagonal(self, values: Tensor, sites: Sites) -> Tensor:
        """That of anomalies; displaced ones have the same second moments at each site."""
        anomalies = _past(sites).anomalies
        return values[0].square() * (anomalies @ anomalies.mT) / anomalies.shape[-1]


@dataclass(frozen=True)
class Empirical(TaperedSamples):
    """The tapered covariance of past anomalies."""

    ambient: bool = False

    def products(self, pairs: Pairs) -> Tensor:
        return pairs.products_of_anomalies


@dataclass(frozen=True)
class Displaced(TaperedSamples):
    """The tapered covariance of past anomalies and of displaced ones."""

    ambient: bool = False

    def products(self, pairs: Pairs) -> Tensor:
        return pairs.products_of_displaced


@dataclass(frozen=True)
class ChangeOfMean(Covariance):
    r"""The mean of past fields times a slowly varying factor,
    :math:`\sigma^2 k(|x_i - x_j| / \ell)\, \mu_i \mu_j^T`: another season, another climate."""

    ambient: bool = False

    def parameters(self, ambient_dim: int, dim: int) -> tuple[Parameter, ...]:
        return (
            Parameter("amplitude", 0.5, Role.AMPLITUDE),
            Parameter("length", 0.6, Role.LENGTH),
        )

    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        amplitude, length = values
        kernel = amplitude.square() * Matern(1.5)(pairs.squares / length.square())
        left = _past(pairs.a).mean.mT[..., :, :, None, None]
        right = _past(pairs.b).mean.mT[..., None, None, :, :]
        return kernel * left * right

    def diagonal(self, values: Tensor, sites: Sites) -> Tensor:
        mean = _past(sites).mean
        return values[0].square() * mean[..., :, None] * mean[..., None, :]


def _past(sites: Sites) -> PastAtSites:
    assert sites.past is not None, "a covariance of past fields needs a history"
    return sites.past


def from_history(base: Covariance) -> Covariance:
    """The covariance used with a history: that of anomalies, with ``base`` for what samples miss,
    and a change of the mean."""
    ambient = base.ambient
    return Empirical(ambient) + Displaced(ambient) + base + ChangeOfMean(ambient)


def within_history(covariance: Covariance) -> Covariance:
    """The first terms of ``from_history``, of which a history tells: its mean does not change."""
    terms = terms_of(covariance)
    return CovarianceSum(tuple(term for term in terms if not isinstance(term, ChangeOfMean)))


def recolored(samples: np.ndarray, anomalies: np.ndarray) -> np.ndarray:
    """Samples ``(n, p, S)`` multiplied at each site by the matrix that gives them the second
    moments of ``anomalies (n, p, T)``.

    >>> samples, anomalies = np.random.default_rng(0).standard_normal((2, 3, 2, 50))
    >>> new = recolored(samples, 3 * anomalies)
    >>> np.allclose(new @ new.swapaxes(1, 2), 9 * anomalies @ anomalies.swapaxes(1, 2))
    True
    """
    color = _power(_second_moments(anomalies), 0.5)
    whiten = _power(_second_moments(samples), -0.5)
    return (color @ whiten) @ samples


def _second_moments(samples: np.ndarray) -> np.ndarray:
    return samples @ samples.swapaxes(1, 2) / samples.shape[2]


def _power(matrices: np.ndarray, exponent: float) -> np.ndarray:
    """Powers of symmetric positive semidefinite matrices ``(n, p, p)``."""
    values, vectors = np.linalg.eigh(matrices)
    powers = np.maximum(values, MIN_MOMENT) ** exponent
    return (vectors * powers[:, None, :]) @ vectors.swapaxes(1, 2)


def normalized(anomalies: np.ndarray) -> np.ndarray:
    """Anomalies ``(n, p, T)`` divided by their root mean square length at each of n points."""
    sizes = np.sqrt(np.square(anomalies).sum(axis=1).mean(axis=1))
    return anomalies / np.maximum(sizes, np.sqrt(MIN_MOMENT))[:, None, None]
