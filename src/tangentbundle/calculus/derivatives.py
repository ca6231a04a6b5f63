r"""Gradient, covariant derivative, divergence, curl and rot, from one local fit.

With the weights :math:`g_{ij} \in \mathbb{R}^d` of the fit and the transport :math:`O_{ij}`,

.. math:: (\nabla f)_i = \sum_j g_{ij} (f_j - f_i), \qquad
          (\nabla v)_i = \sum_j (O_{ij} v_j - v_i) \otimes g_{ij}, \qquad
          \operatorname{div} v = \operatorname{tr} \nabla v.

With J the turn by a right angle, :math:`\operatorname{rot} f = J \nabla f` and :math:`\operatorname{curl} v =
-\operatorname{div} J v`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..arrays import positive_integer
from ..errors import InvalidInputError
from ..geometry.transport import Connection, connect
from .fit import LocalFit, local_fit
from .maps import LinearMap, block_csr, to_tensor
from .orientation import orientation

if TYPE_CHECKING:
    from ..bundle import TangentBundle


@dataclass(frozen=True, eq=False)
class Derivatives:
    r"""First derivatives on a bundle, by polynomials fitted to the nearest neighbours of each point.

    All maps are exact, on flat space, for polynomials up to the ``degree``; on curved space the error goes to zero with
    the square of the distance between neighbours. Points at a boundary have one-sided neighbourhoods; no boundary
    condition is imposed.

    Args:
        bundle: a tangent bundle.
        degree: of the polynomials. 2 suits measured data; 3 has a smaller error for smooth functions without noise.
        neighbors: points of a fit; default four for each coefficient, 20 on surfaces.

    >>> import tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    >>> calculus = Derivatives(tb.TangentBundle.from_points(points))
    >>> height = points[:, 2, None, None]
    >>> laplacian = calculus.divergence() @ (calculus.gradient() @ height)
    >>> bool(abs(laplacian + 2 * height).max() < 0.2)                      # height is an eigenfunction
    True
    """

    bundle: TangentBundle
    degree: int = 2
    neighbors: int | None = None

    def __post_init__(self) -> None:
        positive_integer(self.degree, "degree")
        if self.neighbors is not None:
            positive_integer(self.neighbors, "neighbors")

    @cached_property
    def fit(self) -> LocalFit:
        return local_fit(self.bundle, self.degree, self.neighbors)

    @cached_property
    def mass(self) -> np.ndarray:
        return self.bundle.sorted_mass / self.bundle.sorted_mass.sum()

    @cached_property
    def signs(self) -> np.ndarray:
        """The orientation of each frame, ``(n,)`` along the curve; only for surfaces."""
        if self.bundle.dim != 2:
            raise InvalidInputError(
                f"curl and rot are defined on surfaces, d = 2, and here d = {self.bundle.dim}. Use the antisymmetric "
                "part of jacobian()."
            )
        return orientation(self.bundle)

    def gradient(self) -> LinearMap:
        """Functions ``(..., n, 1, c)`` to fields ``(..., n, d, c)``."""
        return self._map(self.fit.weights[:, :, None])

    def rot(self) -> LinearMap:
        """Functions to fields: the gradient turned by a right angle; for oriented surfaces."""
        first, second = self.fit.weights.T
        turned = self.signs[self.fit.graph.rows] * np.stack([-second, first])
        return self._map(np.ascontiguousarray(turned.T)[:, :, None])

    def jacobian(self) -> LinearMap:
        r"""The covariant derivative, fields ``(..., n, d, c)`` to ``(..., n, d d, c)``.

        Component :math:`a d + b` is :math:`\nabla_b v^a`. The trace is the divergence, the symmetric part the strain.
        """
        d = self.bundle.dim
        blocks = np.einsum("eb,eac->eabc", self.fit.weights, self._connection.blocks()).reshape(-1, d * d, d)
        total = -self._row_sums(self.fit.weights)
        return self._map(blocks, np.einsum("nb,ac->nabc", total, np.eye(d)).reshape(-1, d * d, d))

    def divergence(self) -> LinearMap:
        """Fields to functions: the trace of the covariant derivative, accurate at each point.

        The negative adjoint ``-gradient().adjoint`` fulfils integration by parts exactly instead. At scattered points
        its single values are noisy; its averages are not.
        """
        return self._map(self._divergence_blocks, -self._row_sums(self.fit.weights)[:, None])

    def curl(self) -> LinearMap:
        """Fields to functions: the vorticity of fields on oriented surfaces, accurate at each point."""
        turn = np.array([[0.0, 1.0], [-1.0, 0.0]])  # minus J
        signs = self.signs[:, None, None]
        diagonal = -self._row_sums(self.fit.weights)[:, None] @ turn
        return self._map((self._divergence_blocks @ turn) * signs[self.fit.graph.indices], diagonal * signs)

    @cached_property
    def _connection(self) -> Connection:
        assert self.bundle.sorted_frames is not None  # or there were no fit
        return connect(self.bundle.sorted_frames, self.fit.graph)

    @cached_property
    def _divergence_blocks(self) -> np.ndarray:
        weights, connection = self.fit.weights, self._connection
        if connection.dim != 2:
            return np.einsum("ea,eab->eb", weights, connection.blocks())[:, None]
        blocks, (c, s) = np.empty_like(weights), connection.values.T  # the same, in less time
        np.add(c * weights[:, 0], s * weights[:, 1], out=blocks[:, 0])
        np.multiply(connection.det, c * weights[:, 1] - s * weights[:, 0], out=blocks[:, 1])
        return blocks[:, None]

    def _row_sums(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.fit.graph.indptr[:-1], axis=0)

    def _map(self, blocks: np.ndarray, diagonal: np.ndarray | None = None) -> LinearMap:
        kind, real = self.bundle.kind, self.bundle.kind.numpy_dtype
        diagonal = -self._row_sums(blocks) if diagonal is None else diagonal
        csr = block_csr(self.fit.graph.indptr, self.fit.graph.indices, blocks, diagonal)
        mass: np.ndarray = np.empty(len(self.mass), real)
        mass[self.bundle.order] = self.mass
        weights, order = torch.from_numpy(mass).to(kind.device), torch.from_numpy(self.bundle.order)
        return LinearMap(to_tensor(csr, weights), order.to(kind.device), weights)
