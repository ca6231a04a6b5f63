"""Gradient, covariant derivative, divergence, curl and rot, from one local fit and the transport."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit

from ..arrays import positive_integer
from ..errors import InvalidInputError
from ..geometry.transport import Connection, connect
from ..parallel import run_ranges
from .fit import LocalFit, default_degree, join_fits, local_fits
from .maps import LinearMap, to_tensor
from .topology import orientation

if TYPE_CHECKING:
    from ..bundle import TangentBundle

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
"""J, the turn by a right angle."""


@njit(cache=True, nogil=True)
def _turn_back(start, stop, weights, values, det, out):  # pragma: no cover - compiled
    """Products of weights and transport maps in the plane."""
    for e in range(start, stop):
        (x, y), (c, s) = weights[e], values[e]
        out[e, 0], out[e, 1] = c * x + s * y, det[e] * (c * y - s * x)


@dataclass(frozen=True, eq=False)
class Derivatives:
    r"""First derivatives on a bundle, by polynomials fitted to the nearest neighbours of each point.

    All maps are exact, on flat space, for polynomials up to the ``degree``; on curved space the error goes to zero with
    the square of the distance between neighbours. Points at a boundary have one-sided neighbourhoods; no boundary
    condition is imposed.

    Args:
        bundle: a tangent bundle.
        degree: of the polynomials; default 3 where the bundle has enough neighbours, otherwise 2. Cubic fits have a
            much smaller error for smooth functions, quadratic ones are less sensitive to noise.
        neighbors: points of a fit; default four for each coefficient, on surfaces 36, or 20 of degree 2.

    >>> import tangentbundle as tb
    >>> points = tb.manifolds.Sphere(2).sample(2000, seed=0)
    >>> calculus = Derivatives(tb.TangentBundle.from_points(points))
    >>> height = points[:, 2, None, None]
    >>> laplacian = calculus.divergence() @ (calculus.gradient() @ height)
    >>> bool(abs(laplacian + 2 * height).max() < 0.2)                      # height is an eigenfunction
    True
    """

    bundle: TangentBundle
    degree: int | None = None
    neighbors: int | None = None

    def __post_init__(self) -> None:
        if self.neighbors is not None:
            positive_integer(self.neighbors, "neighbors")
        degree = default_degree(self.bundle, self.neighbors) if self.degree is None else self.degree
        object.__setattr__(self, "degree", positive_integer(degree, "degree"))

    @cached_property
    def fit(self) -> LocalFit:
        return join_fits(local_fits(self.bundle, self.degree, self.neighbors), self.bundle.num_points)

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
        turned = self.signs[self.fit.graph.rows][:, None] * (self.fit.weights @ TURN.T)
        return self._map(turned[:, :, None])

    def jacobian(self) -> LinearMap:
        r"""The covariant derivative, fields ``(..., n, d, c)`` to ``(..., n, d d, c)``.

        Component :math:`a d + b` is :math:`\nabla_b v^a`. The trace is the divergence, the symmetric part the strain.
        """
        d = self.bundle.dim
        return self._map(np.einsum("eb,eac->eabc", self.fit.weights, self._connection.blocks()).reshape(-1, d * d, d))

    def divergence(self) -> LinearMap:
        """Fields to functions: the trace of the covariant derivative, accurate at each point.

        The negative adjoint ``-gradient().adjoint`` fulfils integration by parts exactly instead. At scattered points
        its single values are noisy; its averages are not.
        """
        return self._map(self._divergence_blocks)

    def curl(self) -> LinearMap:
        """Fields to functions: the vorticity of fields on oriented surfaces, accurate at each point."""
        signs = self.signs[self.fit.graph.indices][:, None, None]
        return self._map(signs * (self._divergence_blocks @ -TURN))

    @cached_property
    def _connection(self) -> Connection:
        assert self.bundle.sorted_frames is not None  # or there were no fit
        return connect(self.bundle.sorted_frames, self.fit.graph)

    @cached_property
    def _divergence_blocks(self) -> np.ndarray:
        weights, connection = self.fit.weights, self._connection
        if connection.dim != 2:
            return np.einsum("ea,eab->eb", weights, connection.blocks())[:, None]
        blocks = np.empty_like(weights)  # the same, in less time and memory
        run_ranges(_turn_back, len(blocks), weights, connection.values, connection.det, blocks)
        return blocks[:, None]

    def _map(self, blocks: np.ndarray) -> LinearMap:
        """The map of blocks ``(e, q, p)``, in the dtype and on the device of the bundle."""
        mass, order = (torch.from_numpy(a) for a in (self.bundle._unsorted(self.mass), self.bundle.order))
        kind = self.bundle.kind
        mass = mass.to(kind.device, kind.dtype)
        return LinearMap(to_tensor(self.fit.matrix(blocks), mass), order.to(kind.device), mass)
