r"""Helmholtz decomposition on the cells of a grid: projections onto gradients and rotated gradients.

With the gradient G of finite volumes, the divergent part is the gradient nearest to the field in the norm of areas, the
solution of :math:`G^T A G \phi = G^T A v`; the rotational part likewise, with :math:`\psi = 0` at coasts. The solver is
the method of conjugate gradients, preconditioned by the Laplacian of functions, factorised once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

from ..calculus.helmholtz import Decomposition
from ..errors import ConvergenceError, TooFewPointsError
from .grid import AT_ONCE, Grid
from .operator import GridBundle, grid_bundle

Solve = Callable[[np.ndarray], np.ndarray]

MAX_STEPS = 200
"""Of conjugate gradients; 10 to 40 are usual."""

FLOAT_ROUNDING = float(np.finfo(np.float32).eps)
"""Parts of a field that are smaller, relative to it, are rounding of float32: they need no more steps."""


class Projections:
    """Gradient, areas and solvers of a grid's bundle, in the order of its points."""

    def __init__(self, part: GridBundle) -> None:
        bundle, graph, n = part.bundle, part.bundle.sorted_graph, part.bundle.num_points
        self.gradient, self.areas = part.derivatives.gradient().to_scipy(), bundle._unsorted(bundle.sorted_mass)
        places = bundle.order[graph.rows], bundle.order[graph.indices]
        weights = sparse.csr_array((bundle.edge_weights(), places), shape=(n, n))
        laplacian = sparse.diags_array(weights.sum(axis=1) + 1e-6 * self.areas) - weights  # without a kernel
        self.free = _inverse(laplacian.tocsc(), np.arange(n))
        self.fixed = _inverse(laplacian.tocsc(), np.flatnonzero(~part.coast)) if part.coast.any() else self.free
        self.members = sparse.csr_array((np.ones(n), (bundle._unsorted(graph.components()), np.arange(n))))

    def centred(self, x: np.ndarray) -> np.ndarray:
        """Functions ``(n, c)`` less their means over connected parts."""
        means = (self.members @ (self.areas[:, None] * x)) / (self.members @ self.areas)[:, None]
        return x - self.members.T @ means

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


def _inverse(matrix: sparse.csc_array, rows: np.ndarray) -> Solve:
    """The inverse of a matrix for functions ``(n, c)`` that are zero outside of some rows."""
    solve = splu(matrix[rows][:, rows]).solve if len(rows) else np.zeros_like

    def extended(x: np.ndarray) -> np.ndarray:
        out = np.zeros_like(x)
        out[rows] = solve(np.ascontiguousarray(x[rows]))
        return out

    return extended


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
