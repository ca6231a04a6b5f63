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

import numpy as np
from torch import Tensor

from ..errors import InvalidInputError
from ..estimators.covariance import (
    Covariance,
    Matern,
    Parameter,
    Role,
    helmholtz_covariance,
)
from ..estimators.defaults import surface_covariances
from ..estimators.sites import SQUARE_FLOOR, Pairs, Sites
from ..manifolds import Manifold, Sphere
from ..manifolds.base import Landmarks


@dataclass(frozen=True)
class Bands(Covariance):
    """Random multiples of a tangent field, alike along circles of latitude; the axis is the third
    coordinate."""

    def check(self, ambient_dim: int, dim: int, oriented: bool) -> None:
        if (ambient_dim, dim) != (3, 2) or not oriented:
            raise InvalidInputError(
                f"{type(self).__name__}() needs an oriented surface in space, but here D = "
                f"{ambient_dim}, d = {dim}. Give manifold=earth.Earth(), or leave it out."
            )

    def parameters(self, ambient_dim: int, dim: int) -> tuple[Parameter, ...]:
        return (
            Parameter("amplitude", 0.37, Role.AMPLITUDE),
            Parameter("length", 0.37, Role.LENGTH),
            Parameter("stretch", 4.5, Role.RATIO),
        )

    @abstractmethod
    def field(self, sites: Sites) -> Tensor:
        """What is multiplied, at each site ``(..., n, p)``."""

    def __call__(self, values: Tensor, pairs: Pairs) -> Tensor:
        amplitude, length, stretch = values
        heights = pairs.a.points[..., 2]
        other_heights = pairs.b.points[..., 2]
        differences = heights[..., :, None] - other_heights[..., None, :]
        along = differences.square()[..., None, :, None, :]
        across = (pairs.squares - along).clamp_min(0.0)
        squares = along + across / (1 + stretch).square() + SQUARE_FLOOR
        kernel = amplitude.square() * Matern(1.5)(squares / length.square())
        left = self.field(pairs.a).mT[..., :, :, None, None]
        right = self.field(pairs.b).mT[..., None, None, :, :]
        return kernel * left * right

    def diagonal(self, values: Tensor, sites: Sites) -> Tensor:
        field = self.field(sites)
        return values[0].square() * field[..., :, None] * field[..., None, :]


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


class Earth(Manifold):
    """The unit sphere whose third coordinate points to the north pole.

    As ``manifold=`` of a field estimator it stands for the covariances ``planetary()`` and
    ``helmholtz_covariance()``, and forecasts know which way east and the poles are.

    >>> Earth().dim, Earth().ambient_dim
    (2, 3)
    """

    def __init__(self) -> None:
        self._sphere = Sphere(2)
        self.dim = self._sphere.dim
        self.ambient_dim = self._sphere.ambient_dim
        self.volume = self._sphere.volume

    def _sample(self, n, rng):
        return self._sphere._sample(n, rng)

    def frames(self, points) -> np.ndarray:
        return self._sphere.frames(points)

    def nearest(self, points) -> np.ndarray:
        return self._sphere.nearest(points)

    def transport(self, source, target) -> np.ndarray:
        return self._sphere.transport(source, target)

    def second_form(self, points, vectors) -> np.ndarray:
        return self._sphere.second_form(points, vectors)

    def landmarks(self, points) -> Landmarks:
        """East and poleward, in which weather is alike on both sides of the equator, and the sine
        of the latitude without its sign."""
        unit = np.asarray(points) / np.linalg.norm(points, axis=1, keepdims=True)
        longitude = np.arctan2(unit[:, 1], unit[:, 0])
        height = unit[:, 2]
        east = np.stack([-np.sin(longitude), np.cos(longitude), np.zeros_like(longitude)], axis=1)
        north = np.cross(unit, east)
        poleward = np.where(height[:, None] < 0, -north, north)
        return Landmarks(np.stack([east, poleward], axis=2), np.abs(height))

    def scalar_spectrum(self, k: int) -> np.ndarray:
        return self._sphere.scalar_spectrum(k)

    def vector_spectrum(self, k: int) -> np.ndarray:
        return self._sphere.vector_spectrum(k)


@surface_covariances.register
def _(manifold: Earth) -> list[Covariance]:
    return [planetary(), helmholtz_covariance()]
