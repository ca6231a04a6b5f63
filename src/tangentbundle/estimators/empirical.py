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
from dataclasses import dataclass

import torch
from torch import Tensor

from .bases import PRINCIPAL_AXES, Directions
from .covariance import Covariance, CovarianceSum, Matern, Parameter, Role, terms_of
from .history import TAPER_LENGTH
from .sites import Pairs, PastAtSites, Sites


def gaspari_cohn(z: Tensor) -> Tensor:
    """The compactly supported correlation of Gaspari and Cohn, equation (4.10): one at 0, zero from
    2 on."""
    within_one = 1 + z.square() * (-5 / 3 + z * (5 / 8 + z * (1 / 2 - z / 4)))
    w = z.clamp(1.0, 2.0)
    far = 4 + w * (-5 + w * (5 / 3 + w * (5 / 8 + w * (-1 / 2 + w / 12)))) - 2 / (3 * w)
    return torch.where(z < 1, within_one, torch.where(z < 2, far, torch.zeros_like(z)))


@dataclass(frozen=True)
class TaperedSamples(Covariance):
    r"""The tapered second moments of samples,
    :math:`\sigma^2 \rho(|x_i - x_j|/L) \frac1S \sum_s a_{si} a_{sj}^T`."""

    ambient: bool = False
    directions: Directions = PRINCIPAL_AXES

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

    def products(self, pairs: Pairs) -> Tensor:
        return pairs.products_of_anomalies


@dataclass(frozen=True)
class Displaced(TaperedSamples):
    """The tapered covariance of past anomalies and of displaced ones."""

    def products(self, pairs: Pairs) -> Tensor:
        return pairs.products_of_displaced


@dataclass(frozen=True)
class ChangeOfMean(Covariance):
    r"""The mean of past fields times a slowly varying factor,
    :math:`\sigma^2 k(|x_i - x_j| / \ell)\, \mu_i \mu_j^T`: another season, another climate."""

    ambient: bool = False
    directions: Directions = PRINCIPAL_AXES

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
    empirical = Empirical(base.ambient, base.directions)
    displaced = Displaced(base.ambient, base.directions)
    change_of_mean = ChangeOfMean(base.ambient, base.directions)
    return empirical + displaced + base + change_of_mean


def within_history(covariance: Covariance) -> Covariance:
    """The first terms of ``from_history``, of which a history tells: its mean does not change."""
    terms = terms_of(covariance)
    return CovarianceSum(tuple(term for term in terms if not isinstance(term, ChangeOfMean)))
