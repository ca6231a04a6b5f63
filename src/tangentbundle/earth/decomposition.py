r"""Helmholtz decomposition on the cells of a grid: projections onto gradients and rotated gradients.

With the gradient G of finite volumes, the divergent part is the gradient nearest to the field in the norm of areas A,
the solution of :math:`\operatorname{Re}(G^* A G)\, \phi = \operatorname{Re}(G^* A v)` for vectors as complex numbers;
the rotational part likewise, with :math:`\psi = 0` at coasts. The solver is the method of conjugate gradients,
preconditioned by the Laplacian of functions, factorised once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

from ..calculus.helmholtz import Decomposition
from ..errors import ConvergenceError, TooFewPointsError
from .grid import AT_ONCE, Grid
from .operator import Cells, cells_of

Solve = Callable[[np.ndarray], np.ndarray]

MAX_STEPS = 200
"""Of conjugate gradients; 10 to 40 are usual."""

FLOAT_ROUNDING = float(np.finfo(np.float32).eps)
"""Parts of a field that are smaller, relative to it, are rounding of float32: they need no more steps."""


class Projections:
    """Gradient, areas and solvers of cells, in the order of their points."""

    def __init__(self, cells: Cells) -> None:
        self.gradient, self.areas, n = cells.gradient, cells.areas, len(cells.areas)
        self.adjoint = sparse.csr_array(cells.gradient.conj().T * cells.areas)
        laplacian = sparse.csc_array(cells.stiffness + 1e-6 * sparse.diags_array(cells.areas))  # without a kernel
        self.free = _inverse(laplacian, np.arange(n))
        self.fixed = _inverse(laplacian, np.flatnonzero(~cells.coast)) if cells.coast.any() else self.free
        self.members = sparse.csr_array((np.ones(n), (connected_components(cells.stiffness)[1], np.arange(n))))

    def centred(self, x: np.ndarray) -> np.ndarray:
        """Functions ``(n, c)`` less their means over connected parts."""
        means = (self.members @ (self.areas[:, None] * x)) / (self.members @ self.areas)[:, None]
        return x - self.members.T @ means

    def nearest(self, field: np.ndarray, solve: Solve, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """The gradients nearest to fields ``(n, c)``, complex, and their potentials ``(n, c)``."""
        residual, x = (self.adjoint @ field).real, np.zeros(field.shape)
        direction = z = solve(residual)
        product = (residual * z).sum(axis=0)
        goal = tol**2 * np.maximum(product, FLOAT_ROUNDING**2 * (self.areas @ np.abs(field) ** 2))
        for _ in range(MAX_STEPS):
            active = product > goal  # each field stops by itself, so that it does not matter which ones come together
            if not active.any():
                return self.gradient @ x, x
            image = (self.adjoint @ (self.gradient @ direction)).real
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


_projections = lru_cache(maxsize=4)(Projections)


def decomposed(cells: Cells, v: np.ndarray, tol: float) -> tuple[np.ndarray, ...]:
    """Divergent and rotational part of fields ``(n, c)``, complex, then potential and stream function ``(n, c)``."""
    solver = _projections(cells)
    divergent, potential = solver.nearest(v, solver.free, tol)
    turned, stream = solver.nearest(-1j * v, solver.fixed, tol)
    return divergent, 1j * turned, solver.centred(potential), stream if cells.coast.any() else solver.centred(stream)


def decompose_points(grid: Grid, points: np.ndarray, fields: np.ndarray, tol: float = 5e-3) -> Decomposition:
    """Fields ``(t, n, 2)``, east and north at those points ``(n, 3)`` of a grid that hold data, on the unit sphere.

    Isolated points have all of their vectors in the remainder.
    """
    number = cKDTree(grid.points).query(points)[1]
    cells = cells_of(grid, np.isin(np.arange(len(grid)), number))
    if cells is None:
        raise TooFewPointsError("no two points are neighbours on their grid, so that no field has a derivative.")
    place = np.full(len(grid), -1)
    place[number] = np.arange(len(points))
    rows, areas, vectors = place[cells.index], grid.areas[number], fields @ np.array([1.0, 1j])
    names = "gradient", "rotational", "potential", "stream", "rates"
    found = {name: np.zeros(vectors.shape, complex) for name in names}
    for k in range(0, len(fields), AT_ONCE):
        v = np.ascontiguousarray(vectors[k : k + AT_ONCE, rows].T)
        for name, value in zip(names, (*decomposed(cells, v, tol), cells.derivative @ v), strict=True):
            found[name][k : k + AT_ONCE, rows] = value.T
    found["remainder"] = vectors - found["gradient"] - found["rotational"]
    parts = {name: np.stack([z.real, z.imag], axis=-1)[..., None] for name, z in found.items()}
    of_parts = {name: np.abs(found[name]) ** 2 @ areas[:, None] for name in ("gradient", "rotational", "remainder")}
    total = np.maximum(sum(of_parts.values()), 1e-300)
    numbers = {name: parts.pop(name)[..., :1, :] for name in ("potential", "stream")}
    numbers["divergence"], numbers["vorticity"] = np.split(parts.pop("rates"), 2, axis=2)
    energies = {name: energy / total for name, energy in of_parts.items()}
    return Decomposition(energies=energies, **parts, **numbers)
