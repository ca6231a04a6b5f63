r"""One implicit step of heat, :math:`(I - t\Delta)\, y = x`, to relative accuracy at every point.

The generator of the diffusion has the rates :math:`q_{ij} \ge 0` of ``Stencils`` and the transports
:math:`O_{ij}`,

.. math:: (\Delta y)_i = \sum_j q_{ij}\,(O_{ij}\, y_j - y_i) .

At a boundary heat leaves as if the space went on. The drift :math:`b_i` of the points there makes
the normal derivative small. What it should be, if heat falls off as :math:`e^{-r/\sqrt t}` and
meets the boundary at an angle with the cosine c, is :math:`-c\,u/\sqrt t`, so the diagonal gains
:math:`c \sqrt t\, |b_i|`. Without it directions would be along the boundary there.

After a short time there is next to no heat far from its source, and an error that is small beside
the largest value is large beside those: directions would mean nothing there. Two solvers have small
relative errors everywhere:

* ``DirectStep`` factorises the matrix once, without pivoting. Its diagonal dominates and, for
  functions, all other entries have one sign, so that no digits cancel.
* ``ConditionedStep`` divides by the answer for functions first. With
  :math:`(I - t \Delta) u = |x|` and :math:`y = u z`

  .. math:: z_i = \sum_j p_{ij}\, O_{ij}\, z_j + \frac{x_i}{u_i (1 + t q_i)}, \qquad
            p_{ij} = \frac{t\, q_{ij}\, u_j}{u_i (1 + t q_i)},

  in which :math:`p_{ij}` are the probabilities of a random walk that is conditioned to reach a
  source (the transform of Doob), and z is the mean of the transports along its paths. All numbers
  are at most one, and an ordinary iteration is accurate at all points. The answer for functions is
  found likewise, with :math:`e^{-D/\sqrt t}` in place of u, where D is the distance along edges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numba import njit
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from ..errors import ConvergenceError
from ..geometry.stencils import Stencils

MAX_DIRECT_SIZE = {1: 2_000_000, 2: 200_000}
"""Most unknowns of a sparse factorisation in one and two dimensions: its memory, about 2 KB for
each on surfaces of that many."""

MAX_DIRECT_SIZE_OF_SOLIDS = 6_000
"""The same in more dimensions, where the memory grows with the power 4/3 of the size."""

TOLERANCE = 1e-6
"""Change of the last sweep at which the iteration has converged; values are of the size of one."""

MAX_SWEEPS = 20_000
"""Sweeps over all points before the iteration gives up. Each brings the answer some points further
from the source, and it converges when it has arrived everywhere."""


MEAN_COSINE = 0.7
"""Cosine c of the angle at which ways meet a boundary: between that of ways straight outward and
that of ways along it."""


class HeatStep(ABC):
    """One implicit step of heat for functions and for fields on the same points.

    Args:
        stencils: rates of the diffusion, and transports, between neighbours.
        time: t, a squared length.
    """

    def __init__(self, stencils: Stencils, time: float) -> None:
        self.num_points = stencils.num_points
        self.rank = stencils.maps.shape[1]
        self.rows = stencils.rows.numpy()
        self.columns = stencils.columns.numpy()
        self.rates = stencils.rates.numpy()
        self.lengths = stencils.lengths.numpy()
        self.maps = stencils.maps.numpy()
        self.drift = stencils.drift.numpy()
        self.time = time

    @cached_property
    def decay(self) -> np.ndarray:
        r"""The diagonal :math:`1 + t \sum_j q_{ij} + c \sqrt t\, |b_i|` of the matrix, ``(n,)``."""
        totals = np.bincount(self.rows, weights=self.rates, minlength=self.num_points)
        leaving = MEAN_COSINE * np.sqrt(self.time) * self.drift
        return 1.0 + self.time * totals + leaving

    @abstractmethod
    def functions(self, x: np.ndarray) -> np.ndarray:
        """The step from functions ``(n, c)`` that are not negative, at the sources."""

    @abstractmethod
    def fields(self, x: np.ndarray) -> np.ndarray:
        """The step from fields ``(n, d, c)`` at the sources."""


class DirectStep(HeatStep):
    """By sparse factorisations, computed when they are first needed and kept."""

    def functions(self, x: np.ndarray) -> np.ndarray:
        # rounding of the zeros between the components of a graph may be negative
        return np.maximum(self._factors_of_functions.solve(x), 0.0)

    def fields(self, x: np.ndarray) -> np.ndarray:
        flat = x.reshape(self.num_points * self.rank, -1)
        return self._factors_of_fields.solve(flat).reshape(x.shape)

    @cached_property
    def _factors_of_functions(self):
        scaled = self.time * self.rates
        shape = (self.num_points, self.num_points)
        jumps = sparse.coo_array((scaled, (self.rows, self.columns)), shape=shape)
        return factorise(sparse.diags_array(self.decay) - jumps)

    @cached_property
    def _factors_of_fields(self):
        blocks = self.time * self.rates[:, None, None] * self.maps
        offsets = np.arange(self.rank)
        rows = self.rank * self.rows[:, None, None] + offsets[None, :, None]
        columns = self.rank * self.columns[:, None, None] + offsets[None, None, :]
        rows, columns = np.broadcast_arrays(rows, columns)
        size = self.num_points * self.rank
        entries = (blocks.ravel(), (rows.ravel(), columns.ravel()))
        jumps = sparse.coo_array(entries, shape=(size, size))
        return factorise(sparse.diags_array(self.decay.repeat(self.rank)) - jumps)


def factorise(matrix: sparse.sparray):
    """The factors of a sparse matrix whose diagonal dominates, without pivoting."""
    return splu(
        sparse.csc_matrix(matrix),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


class ConditionedStep(HeatStep):
    """By an iteration for the walk that is conditioned to reach a source."""

    def functions(self, x: np.ndarray) -> np.ndarray:
        columns = [self._one_function(column) for column in x.T]
        return np.stack(columns, axis=1)

    def _one_function(self, x: np.ndarray) -> np.ndarray:
        """The step from a function ``(n,)``."""
        logarithms = -self._distances_along_edges(np.flatnonzero(x)) / np.sqrt(self.time)
        reached = np.isfinite(logarithms)
        logarithms = np.where(reached, logarithms, 0.0)
        walk = self._walk(logarithms, reached)
        source = np.where(reached, x / self.decay, 0.0) * np.exp(-logarithms)
        ones = np.ones((len(self.rows), 1, 1))
        scaled = _solve(walk, ones, source[:, None, None], start=1.0, unit=0.0)[:, 0, 0]
        return np.where(reached, scaled * np.exp(logarithms), 0.0)

    def fields(self, x: np.ndarray) -> np.ndarray:
        heat = self._one_function(np.linalg.norm(x, axis=(1, 2)))
        reached = heat > 0
        logarithms = np.log(np.where(reached, heat, 1.0))
        walk = self._walk(logarithms, reached)
        scale = self.decay * np.where(reached, heat, 1.0)
        source = np.where(reached[:, None, None], x / scale[:, None, None], 0.0)
        return heat[:, None, None] * _solve(walk, self.maps, source, start=0.0, unit=1.0)

    def _distances_along_edges(self, sources: np.ndarray) -> np.ndarray:
        """The length of the shortest way from a source along edges, ``(n,)``."""
        shape = (self.num_points, self.num_points)
        graph = sparse.csr_array((self.lengths, (self.rows, self.columns)), shape=shape)
        return csgraph.dijkstra(graph, directed=False, indices=sources, min_only=True)

    def _walk(self, logarithms: np.ndarray, reached: np.ndarray) -> _Walk:
        """The walk conditioned by a function, given as its ``logarithms`` (n,) where it is not
        zero."""
        gain = np.exp(logarithms[self.columns] - logarithms[self.rows])
        scaled = self.time * self.rates / self.decay[self.rows]
        connects = reached[self.rows] & reached[self.columns]
        return _Walk(
            order=np.argsort(-logarithms, kind="stable"),
            indptr=np.searchsorted(self.rows, np.arange(self.num_points + 1)),
            columns=self.columns,
            probabilities=np.where(connects, scaled * gain, 0.0),
        )


class _Walk:
    """Probabilities of jumps to neighbours: rows in CSR form, and an ``order`` of the points, from
    the sources outward."""

    def __init__(
        self,
        *,
        order: np.ndarray,
        indptr: np.ndarray,
        columns: np.ndarray,
        probabilities: np.ndarray,
    ) -> None:
        self.order = order
        self.indptr = indptr
        self.columns = columns
        self.probabilities = probabilities

    def sweep(
        self, order: np.ndarray, maps: np.ndarray, source: np.ndarray, unit: float, z: np.ndarray
    ) -> float:
        """Go over the points of ``z`` (n, d, c) in an order; see ``_sweep``."""
        return _sweep(order, self.indptr, self.columns, self.probabilities, maps, source, unit, z)


def _solve(
    walk: _Walk, maps: np.ndarray, source: np.ndarray, *, start: float, unit: float
) -> np.ndarray:
    r"""The solution of :math:`z_i = \sum_j p_{ij} O_{ij} z_j + s_i` ``(n, d, c)``: sweeps of Gauss
    and Seidel, outward from the sources and back, from a constant ``start``, until values change by
    little of themselves or of the ``unit``."""
    z = np.full(source.shape, start)
    for _ in range(MAX_SWEEPS):
        walk.sweep(walk.order, maps, source, unit, z)
        change = walk.sweep(walk.order[::-1], maps, source, unit, z)
        if change <= TOLERANCE:
            return z
    raise ConvergenceError(
        f"heat did not reach all points within {MAX_SWEEPS} sweeps over {len(z)} points. Use a "
        "smaller time."
    )


@njit(cache=True, nogil=True)
def _sweep(order, indptr, columns, probabilities, maps, source, unit, z):
    # pragma: no cover - compiled
    """Replace each row of ``z`` (n, d, c), in this order, by what its neighbours say; returns the
    largest change, in units of the values, or of ``unit`` where they are smaller."""
    rank = z.shape[1]
    channels = z.shape[2]
    total = np.empty((rank, channels))
    largest = 0.0
    for i in order:
        for a in range(rank):
            for c in range(channels):
                total[a, c] = source[i, a, c]
        for e in range(indptr[i], indptr[i + 1]):
            j = columns[e]
            for a in range(rank):
                for b in range(rank):
                    factor = probabilities[e] * maps[e, a, b]
                    for c in range(channels):
                        total[a, c] += factor * z[j, b, c]
        for a in range(rank):
            for c in range(channels):
                size = max(unit, abs(total[a, c]))
                if size > 0.0:
                    largest = max(largest, abs(total[a, c] - z[i, a, c]) / size)
                z[i, a, c] = total[a, c]
    return largest


def max_direct_size(dim: int) -> int:
    """Most unknowns of a factorisation in d dimensions."""
    return MAX_DIRECT_SIZE.get(dim, MAX_DIRECT_SIZE_OF_SOLIDS)


def heat_step(stencils: Stencils, time: float) -> HeatStep:
    """The step for these points: direct where the factors fit, iterative otherwise."""
    rank = stencils.maps.shape[1]
    if stencils.num_points * rank <= max_direct_size(rank):
        return DirectStep(stencils, time)
    return ConditionedStep(stencils, time)
