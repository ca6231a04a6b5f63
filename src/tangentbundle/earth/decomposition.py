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

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..errors import BoundaryWarning, TooFewPointsError, warn
from ..memory import require_memory
from ..operators.poisson import Components, DirectPoisson
from .grid import BATCH_SIZE, Grid
from .operator import EAST_NORTH, Cells, cells_of

BYTES_PER_CELL = 300.0
"""Memory of a factorisation, times the binary logarithm of the number of cells: 6 GB for a
million."""

MIN_REGULARIZATION = 1e-12
"""Share of the Laplacian that is always added: without it the matrices are singular."""


class Parts(NamedTuple):
    """Parts of winds ``(m, c)``, complex, in cells: the gradient of ``velocity_potential``, and the
    turned gradient of ``streamfunction``, both ``(m, c)``."""

    divergent: np.ndarray
    rotational: np.ndarray
    velocity_potential: np.ndarray
    streamfunction: np.ndarray


class Projections:
    """Projections of winds in cells onto gradients, and onto turned gradients of functions that
    vanish at coasts.

    Gradients that are less than ``tol`` of the differences from cell to cell count as unresolved.
    """

    def __init__(self, cells: Cells, tol: float) -> None:
        n = len(cells)
        require_memory(
            BYTES_PER_CELL * n * np.log2(n), f"decomposing {n} cells", "Coarsen the grid."
        )
        self.gradient = cells.gradient
        self.adjoint = sparse.csr_array(cells.weighted_gradient.conj().T)
        matrix = (self.adjoint @ self.gradient).real
        matrix = matrix + (tol**2 + MIN_REGULARIZATION) * cells.stiffness
        labels = connected_components(cells.stiffness)[1].astype(np.int64)
        components = Components(torch.from_numpy(labels), torch.from_numpy(cells.areas))
        self.free = DirectPoisson(matrix, components)
        self.zero_at_coasts = self.free
        if cells.coast.any():
            self.zero_at_coasts = DirectPoisson(matrix, components, zero_at=cells.coast)

    def __call__(self, wind: np.ndarray) -> Parts:
        """The parts of winds ``(m, c)``, complex."""
        velocity_potential = self.free.solve(self._source(wind))
        streamfunction = self.zero_at_coasts.solve(self._source(-1j * wind))
        return Parts(
            divergent=self.gradient @ velocity_potential,
            rotational=1j * (self.gradient @ streamfunction),
            velocity_potential=velocity_potential,
            streamfunction=streamfunction,
        )

    def _source(self, wind: np.ndarray) -> np.ndarray:
        return (self.adjoint @ wind).real


_projections = lru_cache(maxsize=2)(Projections)


def decomposed(cells: Cells, wind: np.ndarray, tol: float) -> Parts:
    """The parts of winds ``(m, c)``, complex; warns if the region ends."""
    warn_of_boundary(cells)
    return _projections(cells, tol)(wind)


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


@dataclass(frozen=True, eq=False)
class WindParts:
    """The parts of winds at n points of a grid.

    Attributes:
        divergent, rotational, remainder: ``(t, n, 2, 1)``, east and north.
        velocity_potential, streamfunction: ``(t, n, 1, 1)``.
        divergence, vorticity: ``(t, n, 1, 1)`` of the wind.
        energies: the shares ``(t, 1)`` of the squared norm, by part; parts are not orthogonal, but
            the shares sum to one.
    """

    divergent: np.ndarray
    rotational: np.ndarray
    remainder: np.ndarray
    velocity_potential: np.ndarray
    streamfunction: np.ndarray
    divergence: np.ndarray
    vorticity: np.ndarray
    energies: dict[str, np.ndarray]


def decompose_points(
    grid: Grid, points: np.ndarray, fields: np.ndarray, tol: float = 5e-3
) -> WindParts:
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
    rows = place[cells.index]
    wind = fields @ EAST_NORTH
    results = _in_batches(cells, rows, wind, tol)
    remainder = wind - results["divergent"] - results["rotational"]
    vectors = {
        "divergent": results["divergent"],
        "rotational": results["rotational"],
        "remainder": remainder,
    }
    areas = grid.areas[number]
    squares = {name: np.abs(part) ** 2 @ areas[:, None] for name, part in vectors.items()}
    total = np.maximum(sum(squares.values()), 1e-300)
    return WindParts(
        divergent=_as_vectors(vectors["divergent"]),
        rotational=_as_vectors(vectors["rotational"]),
        remainder=_as_vectors(remainder),
        velocity_potential=_as_functions(results["velocity_potential"].real),
        streamfunction=_as_functions(results["streamfunction"].real),
        divergence=_as_functions(results["rates"].real),
        vorticity=_as_functions(results["rates"].imag),
        energies={name: square / total for name, square in squares.items()},
    )


def _in_batches(
    cells: Cells, rows: np.ndarray, wind: np.ndarray, tol: float
) -> dict[str, np.ndarray]:
    """The parts of winds ``(t, n)``, complex, by name, and their ``rates``, divergence + i
    vorticity; zero at points without a cell.

    ``rows`` (m,) are the points of the cells.
    """
    results = {name: np.zeros(wind.shape, complex) for name in (*Parts._fields, "rates")}
    for start in range(0, len(wind), BATCH_SIZE):
        batch = slice(start, start + BATCH_SIZE)
        in_cells = np.ascontiguousarray(wind[batch, rows].T)
        values = decomposed(cells, in_cells, tol)._asdict()
        values["rates"] = cells.derivative @ in_cells
        for name, value in values.items():
            results[name][batch, rows] = value.T
    return results


def _as_vectors(part: np.ndarray) -> np.ndarray:
    """Complex numbers ``(t, n)`` to coordinates ``(t, n, 2, 1)``."""
    return np.stack([part.real, part.imag], axis=-1)[..., None]


def _as_functions(values: np.ndarray) -> np.ndarray:
    """Numbers ``(t, n)`` to functions ``(t, n, 1, 1)``."""
    return values[..., None, None]
