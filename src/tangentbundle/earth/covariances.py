r"""Covariances of fields around the Earth's axis and along it: winds blow in bands of latitude.

At points with outward normals n, the axis a has two tangent fields: its own tangent part
:math:`a_i = O_i^T a`, along the meridians, and that turned by a quarter,
:math:`\pm O_i^T (a \times n_i)`, around the axis. Both vanish smoothly at the poles. Random
multiples of them, alike along circles of latitude, are fields with

.. math:: K_{ij} = \sigma^2 k(r_{ij})\, b_i b_j^T, \qquad
          r_{ij}^2 = \frac{\Delta_\parallel^2 + \Delta_\perp^2 / s^2}{\ell^2},

where :math:`\Delta_\parallel` and :math:`\Delta_\perp` are the parts of :math:`x_i - x_j` along the
axis and across, and the stretch s, at least one, is large where the field hardly changes around the
axis.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidInputError
from ..estimators.covariance import Covariance, Matern, Pairs, Sites, helmholtz_covariance
from ..manifolds import Sphere


@dataclass(frozen=True)
class Bands(Covariance):
    """Random multiples of a tangent field, alike along circles of latitude; the axis is the third
    coordinate."""

    def check(self, ambient_dim: int, dim: int, oriented: bool) -> None:
        if (ambient_dim, dim) != (3, 2) or not oriented:
            raise InvalidInputError(
                f"{type(self).__name__}() needs an oriented surface in space, but here D = "
                f"{ambient_dim}, d = {dim}. Give manifold=Sphere(2), or leave it out."
            )

    def parameters(self, ambient_dim: int, dim: int) -> dict[str, float]:
        return {"amplitude": -1.0, "length": -1.0, "stretch": 1.5}

    @abstractmethod
    def field(self, sites: Sites) -> Tensor:
        """What is multiplied, at each site ``(..., n, p)``."""

    def __call__(self, theta: Tensor, pairs: Pairs) -> Tensor:
        a, b = (sites.points[..., 2] for sites in (pairs.a, pairs.b))
        along = (a[..., :, None] - b[..., None, :]).square()[..., None, :, None, :]
        across = (pairs.squares - along).clamp_min(0.0)
        stretch = 1 + torch.exp(theta[2])
        squares = (along + across / stretch.square() + 1e-16) * torch.exp(-2 * theta[1])
        left, right = (
            self.field(pairs.a).mT[..., :, :, None, None],
            self.field(pairs.b).mT[..., None, None, :, :],
        )
        return torch.exp(2 * theta[0]) * Matern(1.5)(squares) * left * right

    def diagonal(self, theta: Tensor, sites: Sites) -> Tensor:
        field = self.field(sites)
        return torch.exp(2 * theta[0]) * field[..., :, None] * field[..., None, :]


@dataclass(frozen=True)
class Meridional(Bands):
    """Fields along the meridians, alike along circles of latitude."""

    def field(self, sites: Sites) -> Tensor:
        return sites.bases[..., 2, :]


@dataclass(frozen=True)
class Zonal(Bands):
    """Fields around the axis, alike along circles of latitude: jets and trade winds."""

    def field(self, sites: Sites) -> Tensor:
        return sites.turned.bases[..., 2, :]


def planetary() -> Covariance:
    """A Helmholtz mixture with bands of latitude: wind and currents of a planet.

    >>> [type(term).__name__ for term in planetary().terms]
    ['DivergenceFree', 'CurlFree', 'Tangent', 'Zonal', 'Meridional']
    """
    return helmholtz_covariance() + Zonal() + Meridional()


def planetary_model(kind: type, seed: int) -> Any:
    """An estimator of that kind for winds and currents of the Earth."""
    return kind(
        manifold=Sphere(2), covariance=[planetary(), helmholtz_covariance()], random_state=seed
    )
