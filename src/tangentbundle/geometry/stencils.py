r"""Stencils: a few neighbours of each point, with rates of diffusion that are positive.

A random walk that jumps from point i along the step :math:`y_{ij}` at the rate :math:`q_{ij}` has
the generator of Brownian motion, to second order, if

.. math:: \sum_j q_{ij}\, y_{ij} = 0, \qquad \sum_j q_{ij}\, y_{ij} y_{ij}^T = 2 I .

Weights of a kernel do so only on average over many neighbours: on a sample their first sum is not
zero, which bends the paths of heat. Of the nearest neighbours here a few are chosen, and their
rates, such that both sums are exact (Seibold, 2008, "Minimal positive stencils in meshfree finite
difference methods for the Poisson equation"). Each point solves

.. math:: \min_{q \ge 0} \; \Big\| \sum_j q_{ij} \, b(y_{ij}) - b_0 \Big\|^2

with the monomials b of degree 1 and 2, by the active sets of Lawson and Hanson (1974). A basic
solution has no more neighbours than there are equations, 5 on a surface, 9 in three dimensions.
Where points lie on one side only, as at a boundary, no solution is exact, and the nearest one has
a ``drift`` :math:`b_i = \sum_j q_{ij}\, y_{ij}` that pushes inward.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

from ..parallel import run_ranges
from .cloud import PointCloud
from .small_matrices import polar_factors
from .transport import MIN_OVERLAP

NEIGHBORS_PER_EQUATION = 6
"""Neighbours to choose from, for each equation: with 4, on uniform samples of a surface, 0.5 % of
the points have no exact stencil, with 6 none."""

MAX_DOUBLINGS = 2
"""How often the neighbours of points without an exact stencil are doubled: at gaps, the nearest
ones lie on one side."""

EXACT = 1e-8
"""Residual of the equations below which a stencil is exact."""

PREFERENCE = 3.0
"""Columns are divided by the distance to this power, so that near neighbours are chosen first; with
the square rounding would decide."""


@dataclass(frozen=True, eq=False)
class Stencils:
    """Directed edges ``(e,)`` from each point to neighbours, along the curve.

    Attributes, on the CPU: ``rows`` and ``columns`` (e,) int64; ``rates`` (e,), not negative, in
    one over a squared length; ``steps`` (e, d), from the row to the column in coordinates of the
    row's tangent space, as long as the edge; ``maps`` (e, d, d), the transports from the column to
    the row; and ``drift`` (n,), the length of the first moment of the rates at points of a
    boundary, zero elsewhere.
    """

    rows: Tensor
    columns: Tensor
    rates: Tensor
    steps: Tensor
    maps: Tensor
    drift: Tensor

    @property
    def num_points(self) -> int:
        return len(self.drift)

    @property
    def lengths(self) -> Tensor:
        """The lengths of the steps, ``(e,)``."""
        return torch.linalg.vector_norm(self.steps, dim=1)

    @property
    def indptr(self) -> Tensor:
        """Where the edges of each row begin, and after the last one end, ``(n + 1,)``."""
        return torch.searchsorted(self.rows, torch.arange(self.num_points + 1))

    def shortest_ways(self, sources: np.ndarray, limit: float = np.inf) -> np.ndarray:
        """Lengths ``(n,)`` of the shortest ways along edges, in either direction, from the nearest
        of some rows; infinite beyond the ``limit``."""
        return csgraph.dijkstra(
            self._edges, directed=False, indices=sources, min_only=True, limit=limit
        )

    @property
    def components(self) -> np.ndarray:
        """Labels of the connected components, ``(n,)``."""
        return csgraph.connected_components(self._edges, directed=False)[1]

    @property
    def _edges(self) -> sparse.csr_array:
        """The lengths of the edges as a matrix ``(n, n)``."""
        n = self.num_points
        edges = (self.lengths.numpy(), (self.rows.numpy(), self.columns.numpy()))
        return sparse.csr_array(edges, shape=(n, n))


def num_equations(dim: int) -> int:
    """First and second moments in d dimensions.

    >>> [num_equations(dim) for dim in (1, 2, 3)]
    [2, 5, 9]
    """
    return dim + dim * (dim + 1) // 2


def tangent_steps(displacements: Tensor, frames: Tensor) -> Tensor:
    """Displacements ``(m, ..., D)`` in the frames ``(m, D, d)`` of their first points, as long as
    they are in space: they are shortened by projection, and longer along the manifold by half as
    much."""
    projected = torch.einsum("m...i,mij->m...j", displacements, frames)
    lengths = torch.linalg.vector_norm(displacements, dim=-1, keepdim=True)
    shortened = torch.linalg.vector_norm(projected, dim=-1, keepdim=True)
    tiny = torch.finfo(projected.dtype).tiny
    return projected * (lengths / shortened.clamp_min(tiny))


def positive_stencils(cloud: PointCloud, frames: Tensor) -> Stencils:
    """The stencils of a cloud with tangent bases ``(n, D, d)`` along the curve.

    >>> from tangentbundle.manifolds import Sphere
    >>> points = Sphere(2).sample(500, seed=0)
    >>> frames = torch.from_numpy(Sphere(2).frames(points))
    >>> cloud = PointCloud(torch.from_numpy(points))
    >>> stencils = positive_stencils(cloud, frames)
    >>> moments = stencils.rates[:, None] * stencils.steps
    >>> drift = torch.zeros(500, 2).double().index_add(0, stencils.rows, moments)
    >>> bool((drift.abs().median() < 1e-6))
    True
    """
    n = len(cloud)
    bases = frames.detach().double().cpu()
    count = NEIGHBORS_PER_EQUATION * num_equations(frames.shape[2])
    remaining = torch.arange(n)
    pieces = []
    for doublings in range(MAX_DOUBLINGS + 1):
        neighbors = min(count << doublings, n - 1)
        edges, is_exact = _stencils_of_nearest(cloud, bases, remaining, neighbors)
        is_last = doublings == MAX_DOUBLINGS or neighbors == n - 1
        if is_last:
            is_exact[:] = True
        pieces.append(edges.of_rows(is_exact[edges.places]))
        remaining = remaining[~is_exact]
        if is_last or len(remaining) == 0:
            break
    edges = _Edges.joined(pieces)
    moments = torch.zeros(n, frames.shape[2], dtype=torch.float64)
    moments.index_add_(0, edges.rows, edges.rates[:, None] * edges.steps)
    drift = torch.linalg.vector_norm(moments, dim=1)
    total = torch.zeros(n, dtype=torch.float64)
    total.index_add_(0, edges.rows, edges.rates * torch.linalg.vector_norm(edges.steps, dim=1))
    return Stencils(
        rows=edges.rows,
        columns=edges.columns,
        rates=edges.rates,
        steps=edges.steps,
        maps=polar_factors(bases[edges.rows].mT @ bases[edges.columns], MIN_OVERLAP)[0],
        drift=torch.where(drift > EXACT * total, drift, 0.0),
    )


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges of some rows, ``places`` (e,) among these; the others are those of ``Stencils``."""

    places: Tensor
    rows: Tensor
    columns: Tensor
    rates: Tensor
    steps: Tensor

    def of_rows(self, chosen: Tensor) -> _Edges:
        """The ``chosen`` (e,) of the edges."""
        return _Edges(
            places=self.places[chosen],
            rows=self.rows[chosen],
            columns=self.columns[chosen],
            rates=self.rates[chosen],
            steps=self.steps[chosen],
        )

    @classmethod
    def joined(cls, pieces: list[_Edges]) -> _Edges:
        """The edges of all pieces, sorted by rows."""
        rows = torch.cat([piece.rows for piece in pieces])
        order = torch.argsort(rows, stable=True)
        return cls(
            places=rows[order],
            rows=rows[order],
            columns=torch.cat([piece.columns for piece in pieces])[order],
            rates=torch.cat([piece.rates for piece in pieces])[order],
            steps=torch.cat([piece.steps for piece in pieces])[order],
        )


def _stencils_of_nearest(
    cloud: PointCloud, bases: Tensor, rows: Tensor, count: int
) -> tuple[_Edges, Tensor]:
    """Edges of some rows to some of their ``count`` nearest neighbours, and whether the equations
    of each row hold ``(m,)``."""
    _, neighbors = cloud.nearest(count, rows)
    neighbors = neighbors.cpu().long()
    points = cloud.points.detach().cpu()
    steps = tangent_steps(points[neighbors] - points[rows][:, None], bases[rows])
    rates = torch.empty((len(rows), count), dtype=torch.float64)
    residuals = torch.empty(len(rows), dtype=torch.float64)
    run_ranges(_solve_rows, len(rows), steps.numpy(), rates.numpy(), residuals.numpy(), grain=256)
    places, numbers = (rates > 0).nonzero(as_tuple=True)
    edges = _Edges(
        places=places,
        rows=rows[places],
        columns=neighbors[places, numbers],
        rates=rates[places, numbers],
        steps=steps[places, numbers],
    )
    return edges, residuals <= EXACT


@njit(cache=True, nogil=True)
def _solve_rows(start, stop, steps, rates, residuals):  # pragma: no cover - compiled
    """Rates ``(n, k)`` of rows ``start`` to ``stop`` from their steps ``(n, k, d)``, and how far
    their equations are from holding.

    Second moments are scaled so that their norm is that of matrices: stencils do not depend on the
    frames.
    """
    count = steps.shape[1]
    dim = steps.shape[2]
    num_equations = dim + dim * (dim + 1) // 2
    moments = np.empty((count, num_equations))
    wanted = np.zeros(num_equations)
    place = dim
    for a in range(dim):
        wanted[place] = 2.0
        place += dim - a
    scales = np.empty(count)
    for i in range(start, stop):
        unit = 0.0
        for k in range(count):
            square = 0.0
            for a in range(dim):
                square += steps[i, k, a] ** 2
            scales[k] = np.sqrt(square)
            unit += scales[k] / count
        for k in range(count):
            if scales[k] <= 1e-12 * unit:  # coincident points are no neighbours
                moments[k] = 0.0
                continue
            relative = scales[k] / unit
            preference = relative**-PREFERENCE
            for a in range(dim):
                moments[k, a] = preference * steps[i, k, a] / unit
            place = dim
            for a in range(dim):
                for b in range(a, dim):
                    product = steps[i, k, a] * steps[i, k, b] / unit**2
                    if a != b:
                        product *= np.sqrt(2.0)
                    moments[k, place] = preference * product
                    place += 1
            scales[k] = preference
        residuals[i] = _nonnegative_least_squares(moments, wanted, rates[i])
        trace = 0.0
        for k in range(count):
            if rates[i, k] > 0.0:
                rates[i, k] *= scales[k] / unit**2
                for a in range(dim):
                    trace += rates[i, k] * steps[i, k, a] ** 2
        if trace > 0.0:  # the speed of the diffusion is right in any case
            rates[i] *= 2.0 * dim / trace


@njit(cache=True, nogil=True)
def _nonnegative_least_squares(columns, wanted, x):  # pragma: no cover - compiled
    """The ``x`` (k,) that is not negative and brings ``columns.T @ x`` nearest to ``wanted`` (m,);
    returns the distance. By Lawson and Hanson: columns (k, m) enter one by one, and leave at
    zero."""
    count, size = columns.shape
    active = np.empty(size, np.int64)
    num_active = 0
    is_active = np.zeros(count, np.bool_)
    solution = np.empty(size)
    remainder = wanted.copy()
    x[:] = 0.0
    for _ in range(10 * size):
        entering = -1
        steepest = 1e-12
        for k in range(count):
            if not is_active[k]:
                slope = 0.0
                for m in range(size):
                    slope += columns[k, m] * remainder[m]
                if slope > steepest:
                    steepest = slope
                    entering = k
        if entering < 0 or num_active == size:
            break
        active[num_active] = entering
        is_active[entering] = True
        num_active += 1
        while True:
            _least_squares(columns, active[:num_active], wanted, solution)
            limit = 1.0
            for p in range(num_active):
                if solution[p] <= 0.0:
                    before = x[active[p]]
                    limit = min(limit, before / (before - solution[p] + 1e-300))
            feasible = limit >= 1.0
            for p in range(num_active):
                k = active[p]
                x[k] += limit * (solution[p] - x[k])
            if feasible:
                break
            remaining = 0
            for p in range(num_active):
                k = active[p]
                if x[k] > 1e-14:
                    active[remaining] = k
                    remaining += 1
                else:
                    x[k] = 0.0
                    is_active[k] = False
            if remaining == num_active:  # rounding alone
                break
            num_active = remaining
            if num_active == 0:
                break
        for m in range(size):
            remainder[m] = wanted[m]
            for p in range(num_active):
                remainder[m] -= columns[active[p], m] * x[active[p]]
    return np.sqrt((remainder**2).sum())


@njit(cache=True, nogil=True)
def _least_squares(columns, active, wanted, solution):  # pragma: no cover - compiled
    """The combination of the ``active`` columns that is nearest to ``wanted``, by modified
    Gram-Schmidt."""
    size = columns.shape[1]
    count = len(active)
    basis = np.empty((count, size))
    triangle = np.zeros((count, count))
    remainder = wanted.copy()
    for p in range(count):
        basis[p] = columns[active[p]]
        for _ in range(2):  # twice is enough
            for q in range(p):
                product = 0.0
                for m in range(size):
                    product += basis[q, m] * basis[p, m]
                triangle[q, p] += product
                for m in range(size):
                    basis[p, m] -= product * basis[q, m]
        length = np.sqrt((basis[p] ** 2).sum())
        triangle[p, p] = max(length, 1e-300)
        basis[p] /= triangle[p, p]
        product = 0.0
        for m in range(size):
            product += basis[p, m] * remainder[m]
        solution[p] = product
        for m in range(size):
            remainder[m] -= product * basis[p, m]
    for p in range(count - 1, -1, -1):
        for q in range(p + 1, count):
            solution[p] -= triangle[p, q] * solution[q]
        solution[p] /= triangle[p, p]
