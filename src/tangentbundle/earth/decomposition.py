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
from scipy.spatial import cKDTree

from ..calculus.helmholtz import Decomposition
from ..errors import ConvergenceError, TooFewPointsError
from .grid import Grid
from .operator import AT_ONCE, GridBundle, grid_bundle

Solve = Callable[[np.ndarray], np.ndarray]

MAX_STEPS = 200
"""Of conjugate gradients; 10 to 40 are usual."""

FLOAT_ROUNDING = float(np.finfo(np.float32).eps)
"""Parts of a field that are smaller, relative to it, are rounding of float32: they need no more steps."""


class Projections:
    """Gradient, areas and solvers of a grid's bundle, in the order of its points."""

    def __init__(self, part: GridBundle) -> None:
        bundle, graph, n = part.bundle, part.bundle.sorted_graph, part.bundle.num_points
        self.gradient, self.inside = part.derivatives.gradient().to_scipy(), np.flatnonzero(~part.coast)
        places = bundle.order[graph.rows], bundle.order[graph.indices]
        weights = sparse.csr_array((bundle.edge_weights(), places), shape=(n, n))
        self.stiffness = sparse.csr_array(sparse.diags_array(weights.sum(axis=1)) - weights)
        self.areas = bundle._unsorted(bundle.sorted_mass)
        labels = bundle._unsorted(graph.components())
        self.members = sparse.csr_array((np.ones(n), (labels, np.arange(n))))

    def centred(self, x: np.ndarray) -> np.ndarray:
        """Functions ``(n, c)`` less their means over connected parts."""
        means = (self.members @ (self.areas[:, None] * x)) / (self.members @ self.areas)[:, None]
        return x - self.members.T @ means

    @cached_property
    def free(self) -> Solve:
        """The inverse of the Laplacian of functions, nearly, since constants are in its kernel."""
        return splu((self.stiffness + 1e-6 * sparse.diags_array(self.areas)).tocsc()).solve

    @cached_property
    def fixed(self) -> Solve:
        """The inverse for functions that are zero at coasts, where there are any."""
        if len(self.inside) == len(self.areas):
            return self.free
        if not len(self.inside):
            return np.zeros_like
        solve = splu(self.stiffness[self.inside][:, self.inside].tocsc()).solve

        def extended(x: np.ndarray) -> np.ndarray:
            out = np.zeros_like(x)
            out[self.inside] = solve(np.ascontiguousarray(x[self.inside]))
            return out

        return extended

    def nearest(self, field: np.ndarray, solve: Solve, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """The gradients nearest to fields ``(n, 2, c)``, and their potentials ``(n, c)``."""
        adjoint = (self.gradient.T * np.repeat(self.areas, 2)).tocsr()
        residual, x = adjoint @ field.reshape(-1, field.shape[2]), np.zeros((len(field), field.shape[2]))
        direction = z = solve(residual)
        product = (residual * z).sum(axis=0)
        goal = tol**2 * np.maximum(product, FLOAT_ROUNDING**2 * np.einsum("n,ndc,ndc->c", self.areas, field, field))
        for _ in range(MAX_STEPS):
            active = product > goal  # each field stops by itself, so that it does not matter which ones come together
            if not active.any():
                return (self.gradient @ x).reshape(field.shape), x
            image = adjoint @ (self.gradient @ direction)
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
    """Divergent, rotational part and remainder ``(n, 2, c)``, then potential and stream function ``(n, 1, c)``."""
    v, solver, clockwise = field.astype(np.float64), _projections(part), np.array([[0.0, 1.0], [-1.0, 0.0]])
    divergent, potential = solver.nearest(v, solver.free, tol)
    turned, stream = solver.nearest(clockwise @ v, solver.fixed, tol)
    rotational = clockwise.T @ turned
    stream = stream if part.coast.any() else solver.centred(stream)
    return [divergent, rotational, v - divergent - rotational, solver.centred(potential)[:, None], stream[:, None]]


def decompose_points(
    grid: Grid, points: np.ndarray, fields: np.ndarray, tol: float = 5e-3
) -> tuple[Decomposition, np.ndarray]:
    """Fields ``(t, n, 2)``, east and north at those points ``(n, 3)`` of a grid that hold data, on the unit sphere.

    Isolated points have all of their vectors in the remainder. Also returns the areas ``(n,)``.
    """
    number = cKDTree(grid.points).query(points)[1]
    part = grid_bundle(grid, np.isin(np.arange(len(grid)), number))
    if part is None:
        raise TooFewPointsError("no two points are neighbours on their grid, so that no field has a derivative.")
    place = np.full(len(grid), -1)
    place[number] = np.arange(len(points))
    rows, areas = place[part.index], grid.areas[number]
    sizes = {
        "gradient": 2,
        "rotational": 2,
        "remainder": 2,
        "potential": 1,
        "stream": 1,
        "divergence": 1,
        "vorticity": 1,
    }
    found = {name: np.zeros((*fields.shape[:2], size, 1)) for name, size in sizes.items()}
    for k in range(0, len(fields), AT_ONCE):
        x = np.ascontiguousarray(fields[k : k + AT_ONCE, rows].transpose(1, 2, 0), np.float64)
        values = [*decomposed(part, x, tol), *(derivative @ x for derivative in part.sources.values())]
        for target, value in zip(found.values(), values, strict=True):
            target[k : k + AT_ONCE, rows] = value.transpose(2, 0, 1)[..., None]
    found["remainder"] = fields[..., None] - found["gradient"] - found["rotational"]
    squares = {name: np.einsum("n,tndc->tc", areas, found[name] ** 2) for name in [*found][:3]}
    total = np.maximum(sum(squares.values()), 1e-300)
    energies = {name: square / total for name, square in squares.items()}
    return Decomposition(energies=energies, **found), areas
