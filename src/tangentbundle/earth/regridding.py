r"""How a vector field on some points of the sphere is estimated at others: linear, quadratic, or by kriging.

Let t lie in the triangle of :math:`s_1, s_2, s_3` with weights :math:`w_k`, and let :math:`P_k` carry vectors along the
great circle from :math:`s_k` to t. With the covariant derivative :math:`\nabla v` and :math:`y_k`, the way from
:math:`s_k` to t,

.. math:: v(t) \approx \sum_k w_k P_k v_k \quad (h^2), \qquad
          v(t) \approx \sum_k w_k P_k \left(v_k + \tfrac12 \nabla_{y_k} v_k\right) \quad (h^3),

since :math:`v(t) = P_k v_k + \tfrac12 (P_k \nabla v_k + \nabla v(t)) y_k` up to third order and
:math:`\sum_k w_k P_k y_k = 0`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ..bundle import TangentBundle
from ..calculus import Derivatives
from ..manifolds import Sphere
from .triangles import central_angles, great_circle_rotations

if TYPE_CHECKING:
    from .grid import Grid


@dataclass(frozen=True, eq=False)
class Stencil:
    """What places are estimated from: points and frames of the source ``(n, 3)``, ``(n, 3, 2)``, and of the places.

    ``rows (n,)`` are the numbers of these points in the grid of the source, which may have others without values.
    ``corners`` and ``weights (m, 3)`` are those of the triangles; where a place lies outside of them (not ``inside``),
    all three corners are the nearest point.
    """

    points: np.ndarray
    frames: np.ndarray
    rows: np.ndarray
    target: Grid
    corners: np.ndarray
    weights: np.ndarray
    inside: np.ndarray

    def blocks(self, blocks: np.ndarray) -> sparse.csr_array:
        """The matrix ``(m p, n q)`` with the blocks ``(m, 3, p, q)`` of the corners."""
        m, _, p, q = blocks.shape
        starts, shape = np.arange(0, 3 * m + 1, 3), (m * p, len(self.points) * q)
        return sparse.bsr_array((blocks.reshape(-1, p, q), self.corners.ravel(), starts), shape=shape).tocsr()

    @property
    def rotations(self) -> np.ndarray:
        """Transport from the corners to the places, with its weights, ``(m, 3, 2, 2)``."""
        turns = great_circle_rotations(self.target.frames[:, None], self.frames[self.corners])
        return self.weights[:, :, None, None] * turns

    @property
    def ways(self) -> np.ndarray:
        """From the corners to the places, in the corners' frames ``(m, 3, 2)``; zero outside of the triangles."""
        start, end = self.points[self.corners], self.target.points[:, None]
        angle = central_angles(start, end) * self.inside[:, None]
        flat = np.einsum("mkda,mkd->mka", self.frames[self.corners], end - start)
        return (angle / np.maximum(np.linalg.norm(flat, axis=-1), 1e-300))[..., None] * flat


@dataclass(frozen=True, eq=False)
class Weights:
    """Tangent coordinates ``(T, n, 2)`` to ``(T, m, 2)`` by a sparse matrix ``(2 m, 2 n)``."""

    matrix: sparse.csr_array

    def __call__(self, coordinates: np.ndarray) -> np.ndarray:
        columns = coordinates.reshape(len(coordinates), -1).T
        values = self.matrix.astype(coordinates.dtype, copy=False) @ np.ascontiguousarray(columns)
        return values.T.reshape(len(coordinates), -1, 2)


class RegridMethod(ABC):
    """How vectors at points become vectors at other places.

    Attributes:
        extrapolates: whether it knows of its uncertainty, so that places far from all points need not be refused.
    """

    extrapolates: bool = False

    @abstractmethod
    def rule(self, stencil: Stencil) -> Callable[[np.ndarray], np.ndarray]:
        """From tangent coordinates ``(T, n, 2)`` to ``(T, m, 2)``, or ``(T, m, 5)`` with covariances (``Kriging``)."""


@dataclass(frozen=True)
class Linear(RegridMethod):
    """Carries the vectors of a triangle's corners to a place inside and weighs them linearly.

    The error is of second order in the distance of the points; lengths never grow. It is not conservative.
    """

    def rule(self, stencil: Stencil) -> Weights:
        return Weights(stencil.blocks(stencil.rotations))


@dataclass(frozen=True)
class Quadratic(RegridMethod):
    """``Linear`` with covariant derivatives at the corners, from polynomials fitted to the nearest points.

    The error is of third order in the distance of the points: choose it for smooth fields without noise. It reproduces
    the values at the points. It is not conservative.
    """

    def rule(self, stencil: Stencil) -> Weights:
        turns = stencil.rotations
        steps = np.einsum("mkac,mkb->mkacb", turns, stencil.ways / 2).reshape(*turns.shape[:3], 4)
        bundle = TangentBundle.from_frames(stencil.points, stencil.frames)
        derivative = Derivatives(bundle).jacobian().to_scipy()
        return Weights(sparse.csr_array(stencil.blocks(turns) + stencil.blocks(steps) @ derivative))


@dataclass(frozen=True)
class Kriging(RegridMethod):
    """A Gaussian process fitted to the field of each time (``FieldInterpolator``), with standard deviations.

    For stations, noisy data and large gaps; the fit takes seconds for each time. ``noise_std`` are known standard
    errors of the components, one number or one for each point of the source; without them the level is estimated.
    ``estimator`` is another ``FieldInterpolator`` than that for winds of a planet.
    """

    noise_std: Any = None
    estimator: Any = None
    extrapolates = True

    def rule(self, stencil: Stencil) -> Callable[[np.ndarray], np.ndarray]:
        from ..estimators import FieldInterpolator, helmholtz
        from .covariances import planetary

        default = {"manifold": Sphere(2), "covariance": [planetary(), helmholtz()], "random_state": 0}
        estimator = self.estimator or FieldInterpolator(**default)
        target, noise = stencil.target, self.noise_std
        if np.ndim(noise):
            noise = np.asarray(noise, float)[stencil.rows]

        def one(coordinates: np.ndarray) -> np.ndarray:
            vectors = np.einsum("nda,na->nd", stencil.frames, coordinates)
            estimator.fit(stencil.points, vectors, noise_std=noise)
            mean, ambient = estimator.predict(target.points, return_cov=True)
            (xx, xy), (_, yy) = np.einsum("mda,mde,meb->abm", target.frames, ambient, target.frames)
            return np.column_stack([np.einsum("mda,md->ma", target.frames, mean), (xx + yy) / 2, (xx - yy) / 2, xy])

        return lambda coordinates: np.stack([one(field) for field in coordinates.astype(float)])
