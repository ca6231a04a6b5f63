r"""Covariances of fields around an axis and along it: the winds of a planet blow in bands of latitude.

On an oriented surface in space with unit normals n, an axis a has two tangent fields: its own tangent part
:math:`a_i = O_i^T a`, along the meridians, and that turned by a quarter, :math:`\pm O_i^T (a \times n_i)`, around the
axis. Both vanish smoothly at the poles. Random multiples of them, alike along circles of latitude, are fields with

.. math:: K_{ij} = \sigma^2 k(r_{ij})\, b_i b_j^T, \qquad
          r_{ij}^2 = \frac{\Delta_\parallel^2 + \Delta_\perp^2 / s^2}{\ell^2},

where :math:`\Delta_\parallel` and :math:`\Delta_\perp` are the parts of :math:`x_i - x_j` along the axis and across,
and the stretch s is large where the field hardly changes around the axis.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch

from ..errors import InvalidInputError
from .covariance import Covariance, Helmholtz, Sites, matern, multiples, pairs, squares

Axis = tuple[float, float, float]


@dataclass(frozen=True)
class Bands(Covariance):
    """Random multiples of some ``field``, alike along circles of latitude around ``axis``, a vector of space."""

    axis: Axis = (0.0, 0.0, 1.0)
    names = ("amplitude", "length", "stretch")
    start = (-1.0, -1.0, 1.5)

    def __post_init__(self) -> None:
        vector = torch.as_tensor(self.axis, dtype=torch.float64)
        if vector.shape != (3,) or not 0 < float(vector.norm()) < torch.inf:
            raise InvalidInputError(f"axis must be a vector of three numbers other than zero, got {self.axis!r}.")

    @property
    def direction(self) -> torch.Tensor:
        vector = torch.tensor(self.axis, dtype=torch.float64)
        return vector / vector.norm()

    @abstractmethod
    def field(self, a: Sites) -> torch.Tensor:
        """What is multiplied, at each site ``(n, d)``."""

    def __call__(self, theta: torch.Tensor, a: Sites, b: Sites) -> torch.Tensor:
        along = ((a.points @ self.direction)[:, None] - b.points @ self.direction).square()
        across = (pairs(a, b).distances.square() - along).clamp_min(0.0)
        r = (along + across * torch.exp(-2 * theta[2]) + 1e-16).sqrt() * torch.exp(-theta[1])
        return multiples(torch.exp(2 * theta[0]) * matern(r, 1.5), self.field(a), self.field(b))

    def diagonal(self, theta: torch.Tensor, a: Sites) -> torch.Tensor:
        return torch.exp(2 * theta[0]) * squares(self.field(a))


@dataclass(frozen=True)
class Meridional(Bands):
    """Fields along the meridians of an axis, alike along circles of latitude.

    >>> Meridional().names
    ('amplitude', 'length', 'stretch')
    """

    def field(self, a: Sites) -> torch.Tensor:
        return a.frames.mT @ self.direction


@dataclass(frozen=True)
class Zonal(Bands):
    """Fields around an axis, alike along circles of latitude, on an oriented surface (d = 2): jets and trade winds."""

    def field(self, a: Sites) -> torch.Tensor:
        return a.turned.frames.mT @ self.direction


def Planetary(axis: Axis = (0.0, 0.0, 1.0)) -> Covariance:
    """A Helmholtz mixture with bands of latitude around an axis: wind and currents of a planet.

    >>> [type(term).__name__ for term in Planetary().terms]
    ['Rotational', 'Potential', 'Isotropic', 'Zonal', 'Meridional']
    """
    return Helmholtz() + Zonal(axis) + Meridional(axis)
