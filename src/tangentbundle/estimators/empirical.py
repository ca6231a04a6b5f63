r"""Covariances learned from past fields.

The anomalies :math:`a_t` of T past fields about their mean :math:`\mu` give the localised empirical
covariance :math:`\frac1T \sum_t a_t(x) a_t(y)^T \rho(|x - y|/L)`, with Gaspari and Cohn's taper
:math:`\rho` (1999), which is zero from 2 L on. A parametric covariance supplements the T samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .bases import PRINCIPAL_AXES, Directions
from .covariance import Covariance, Parameter, Role
from .sites import Pairs, Sites


def gaspari_cohn(z: Tensor) -> Tensor:
    """The compactly supported correlation of Gaspari and Cohn, equation (4.10): one at 0, zero from
    2 on."""
    within_one = 1 + z.square() * (-5 / 3 + z * (5 / 8 + z * (1 / 2 - z / 4)))
    w = z.clamp(1.0, 2.0)
    far = 4 + w * (-5 + w * (5 / 3 + w * (5 / 8 + w * (-1 / 2 + w / 12)))) - 2 / (3 * w)
    return torch.where(z < 1, within_one, torch.where(z < 2, far, torch.zeros_like(z)))


@dataclass(frozen=True)
class Empirical(Covariance):
    r"""The tapered covariance of past anomalies
    :math:`\sigma^2 \rho(|x_i - x_j|/L) \frac1T \sum_t a_{ti} a_{tj}^T`."""

    ambient: bool = False
    directions: Directions = PRINCIPAL_AXES

    def parameters(self, ambient_dim: int, dim: int) -> tuple[Parameter, ...]:
        return (
            Parameter("amplitude", 1.0, Role.AMPLITUDE),
            Parameter("length", 0.5, Role.LENGTH),
        )

    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        amplitude, length = values
        first = _past(pairs.a).movedim(-2, -3).flatten(-3, -2)  # (..., p n, T)
        second = _past(pairs.b).movedim(-2, -3).flatten(-3, -2)
        products = pairs.blocks(first @ second.mT / first.shape[-1])
        taper = gaspari_cohn(pairs.squares.sqrt() / length)
        return pairs.spread(amplitude.square() * taper) * products

    def diagonal(self, values: Tensor, sites: Sites) -> Tensor:
        past = _past(sites)
        return values[0].square() * (past @ past.mT) / past.shape[-1]


def _past(sites: Sites) -> Tensor:
    assert sites.past is not None, "a covariance of past fields needs a history"
    return sites.past


def from_history(base: Covariance) -> Covariance:
    """The covariance used with a history: the empirical one, and ``base`` for what T samples
    miss."""
    return Empirical(base.ambient, base.directions) + base
