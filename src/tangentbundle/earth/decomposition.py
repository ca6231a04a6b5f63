r"""Helmholtz decomposition on the cells of a grid: projections onto gradients and rotated
gradients.

With the gradient G of finite volumes, the divergent part is the gradient nearest to the field, the
solution of :math:`\operatorname{Re}(G^* B G)\, \phi = \operatorname{Re}(G^* B v)` for vectors as
complex numbers; the rotational part likewise, with :math:`\psi = 0` at coasts. The norm B has the
matrix :math:`B_i = \frac12 \sum_j w_{ij} y_j y_j^T` of the ways :math:`y_j` to the neighbours of a
cell. It is the area where neighbours lie evenly around the cell. Elsewhere, as at poles and between
columns of different widths, the area would not do: only with B is :math:`-G^* B v` a sum of fluxes
through the sides of cells, and the curl of a gradient small. G hardly sees potentials that change
sign from cell to cell, so that a small multiple of the Laplacian of functions is added. The
matrices are factorised once.
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
from ..errors import BoundaryWarning, TooFewPointsError, warn
from ..memory import require_memory
from .grid import AT_ONCE, Grid
from .operator import Cells, cells_of

Solve = Callable[[np.ndarray], np.ndarray]

BYTES_PER_CELL = 300.0
"""Memory of a factorisation, times the binary logarithm of the number of cells: 6 GB for a
million."""


class Projections:
    """Solvers for the potentials of cells, in the order of their points."""

    def __init__(self, cells: Cells, tol: float) -> None:
        self.areas, n = cells.areas, len(cells.areas)
        require_memory(
            BYTES_PER_CELL * n * np.log2(n), f"decomposing {n} cells", "Coarsen the grid."
        )
        adjoint = sparse.csr_array(cells.weighted_gradient.conj().T)
        matrix = sparse.csc_array(
            (adjoint @ cells.gradient).real + (tol**2 + 1e-12) * cells.stiffness
        )
        parts = connected_components(cells.stiffness)[1]
        self.members = sparse.csr_array((np.ones(n), (parts, np.arange(n))))
        first = np.unique(parts, return_index=True)[
            1
        ]  # potentials are zero there, and shifted afterwards
        self.free = _solver(matrix, adjoint, np.delete(np.arange(n), first))
        self.fixed = (
            _solver(matrix, adjoint, np.flatnonzero(~cells.coast))
            if cells.coast.any()
            else self.free
        )

    def centred(self, x: np.ndarray) -> np.ndarray:
        """Functions ``(n, c)`` less their means over connected parts."""
        means = (self.members @ (self.areas[:, None] * x)) / (self.members @ self.areas)[:, None]
        return x - self.members.T @ means


def _solver(matrix: sparse.csc_array, adjoint: sparse.csr_array, rows: np.ndarray) -> Solve:
    """From fields ``(n, c)``, complex, to the functions with the nearest gradients, zero outside of
    some rows."""
    options = {
        "permc_spec": "MMD_AT_PLUS_A",
        "diag_pivot_thresh": 0.0,
        "options": {"SymmetricMode": True},
    }
    factors = splu(matrix[rows][:, rows], **options) if len(rows) else None

    def potentials(field: np.ndarray) -> np.ndarray:
        out = np.zeros(field.shape)
        if factors is not None:
            out[rows] = factors.solve((adjoint @ field).real[rows])
        return out

    return potentials


_projections = lru_cache(maxsize=2)(Projections)


def decomposed(cells: Cells, v: np.ndarray, tol: float) -> tuple[np.ndarray, ...]:
    """Divergent and rotational part of fields ``(n, c)``, complex, then potential and stream
    function ``(n, c)``."""
    warn_of_boundary(cells)
    solver = _projections(cells, tol)
    potential, stream = solver.free(v), solver.fixed(-1j * v)
    parts = cells.gradient @ potential, 1j * (cells.gradient @ stream)
    return (
        *parts,
        solver.centred(potential),
        stream if cells.coast.any() else solver.centred(stream),
    )


def warn_of_boundary(cells: Cells) -> None:
    """Warn if the region ends: what flows through its edge has no unique decomposition."""
    if not cells.rim.any():
        return
    warn(
        f"the region has an edge: {cells.rim.sum()} of {len(cells.rim)} cells lie there. The "
        "decomposition is then a convention: the stream function is zero at the edge, and a flow "
        "without divergence or vorticity that passes through it, such as a uniform one, counts as "
        "divergent. Shares of energy hold for this convention only.",
        BoundaryWarning,
    )


def decompose_points(
    grid: Grid, points: np.ndarray, fields: np.ndarray, tol: float = 5e-3
) -> Decomposition:
    """Fields ``(t, n, 2)``, east and north at those points ``(n, 3)`` of a grid that hold data, on
    the unit sphere.

    Isolated points have all of their vectors in the remainder.
    """
    number = cKDTree(grid.points).query(points)[1]
    cells = cells_of(grid, np.isin(np.arange(len(grid)), number))
    if cells is None:
        raise TooFewPointsError(
            "no two points are neighbours on their grid, so that no field has a derivative."
        )
    place = np.full(len(grid), -1)
    place[number] = np.arange(len(points))
    rows, areas, vectors = place[cells.index], grid.areas[number], fields @ np.array([1.0, 1j])
    found = np.zeros((5, *vectors.shape), complex)
    for k in range(0, len(fields), AT_ONCE):
        v = np.ascontiguousarray(vectors[k : k + AT_ONCE, rows].T)
        found[:, k : k + AT_ONCE, rows] = np.stack(
            [*decomposed(cells, v, tol), cells.derivative @ v]
        ).swapaxes(1, 2)
    gradient, rotational, potential, stream, rates = found
    parts = {
        "gradient": gradient,
        "rotational": rotational,
        "remainder": vectors - gradient - rotational,
    }
    squares = {name: np.abs(z) ** 2 @ areas[:, None] for name, z in parts.items()}
    total = np.maximum(sum(squares.values()), 1e-300)
    numbers = {
        "potential": potential,
        "stream": stream,
        "divergence": rates,
        "vorticity": -1j * rates,
    }
    return Decomposition(
        energies={name: square / total for name, square in squares.items()},
        **{name: np.stack([z.real, z.imag], axis=-1)[..., None] for name, z in parts.items()},
        **{name: z.real[..., None, None] for name, z in numbers.items()},
    )
