r"""Helmholtz decomposition on the cells of a grid: projections onto gradients and rotated gradients.

With the gradient G of finite volumes, the divergent part is the gradient nearest to the field in the norm of areas, the
solution of :math:`G^T A G \phi = G^T A v`; the rotational part likewise, with :math:`\psi = 0` at coasts. The solver is
the method of conjugate gradients, preconditioned by the Laplacian of functions, factorised once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from ..errors import ConvergenceError
from .operator import GridBundle

MAX_STEPS = 200
"""Of conjugate gradients; 10 to 40 are usual."""


class Projections:
    """Solvers of a grid's bundle, in the order of its points."""

    def __init__(self, part: GridBundle) -> None:
        bundle = part.bundle
        fit, n = part.derivatives.fit, bundle.num_points
        rows, order = fit.graph.rows, bundle.order
        shape = n, n
        edges = [sparse.csr_array((w, (order[rows], order[fit.graph.indices])), shape=shape) for w in fit.weights.T]
        self.gradient = [e - sparse.diags_array(e.sum(axis=1)) for e in edges]
        weights = sparse.csr_array((bundle.edge_weights(), (order[rows], order[fit.graph.indices])), shape=shape)
        self.stiffness = sparse.diags_array(weights.sum(axis=1)) - weights
        self.areas = np.empty(n)
        self.areas[order] = bundle.sorted_mass
        labels = np.empty(n, np.int64)
        labels[order] = bundle.sorted_graph.components()
        self.means = sparse.csr_array((self.areas, (labels, np.arange(n))))
        self.inner = ~part.coast

    def centred(self, x: np.ndarray) -> np.ndarray:
        """Functions ``(n, c)`` less their means over connected parts."""
        totals = self.means @ np.concatenate([x, np.ones((len(x), 1))], axis=1)
        return x - self.means.astype(bool).T @ (totals[:, :-1] / totals[:, -1:])

    @cached_property
    def free(self) -> Callable[[np.ndarray], np.ndarray]:
        """An approximate inverse of the Laplacian of functions."""
        return splu((self.stiffness + 1e-6 * sparse.diags_array(self.areas)).tocsc()).solve

    @cached_property
    def fixed(self) -> Callable[[np.ndarray], np.ndarray]:
        """The inverse for functions that are zero at coasts."""
        inside = np.flatnonzero(self.inner)
        if len(inside) == len(self.inner):
            return self.free
        solve = splu(self.stiffness.tocsr()[inside][:, inside].tocsc()).solve

        def extended(x: np.ndarray) -> np.ndarray:
            out = np.zeros_like(x)
            out[inside] = solve(np.ascontiguousarray(x[inside]))
            return out

        return extended if len(inside) else np.zeros_like

    def potential(self, field: np.ndarray, solve: Callable, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """The gradient ``(n, 2, c)`` nearest to fields, and its potential ``(n, c)``."""
        east, north = self.gradient
        root = self.areas[:, None]

        def adjoint(v: np.ndarray) -> np.ndarray:
            return east.T @ (root * v[:, 0]) + north.T @ (root * v[:, 1])

        def gradient(f: np.ndarray) -> np.ndarray:
            return np.stack([east @ f, north @ f], axis=1)

        residual, x = adjoint(field), np.zeros((len(field), field.shape[2]))
        z = solve(residual)
        direction, product = z, (residual * z).sum(axis=0)
        goal = tol**2 * product
        for _ in range(MAX_STEPS):
            active = product > goal  # each field stops by itself, so that it does not matter which ones come together
            if not active.any():
                return gradient(x), x
            image = adjoint(gradient(direction))
            step = np.where(active, product / np.maximum((direction * image).sum(axis=0), 1e-300), 0.0)
            x, residual = x + step * direction, residual - step * image
            z, before = solve(residual), product
            product = (residual * z).sum(axis=0)
            direction = z + product / np.maximum(before, 1e-300) * direction
        raise ConvergenceError(f"the decomposition did not converge to {tol:g} in {MAX_STEPS} steps. Loosen tol.")


@lru_cache(maxsize=4)
def _projections(part: GridBundle) -> Projections:
    return Projections(part)


def decomposed(part: GridBundle, field: np.ndarray, tol: float) -> list[np.ndarray]:
    """Divergent, rotational and residual part ``(n, 2, c)``, then potential and stream function ``(n, 1, c)``."""
    v, solver = field.astype(np.float64), _projections(part)
    divergent, potential = solver.potential(v, solver.free, tol)
    clockwise = np.stack([v[:, 1], -v[:, 0]], axis=1)
    turned, stream = solver.potential(clockwise, solver.fixed, tol)
    rotational = np.stack([-turned[:, 1], turned[:, 0]], axis=1)
    parts = [divergent, rotational, v - divergent - rotational]
    stream = stream if part.coast.any() else solver.centred(stream)
    return [*parts, solver.centred(potential)[:, None], stream[:, None]]
