r"""One implicit step of heat by iteration, where factors of a matrix do not fit.

Divided by the answer for functions, :math:`(I - t \Delta_0)\, u = |x|`, a field
:math:`y = u z` obeys

.. math:: z_i = \sum_j p_{ij}\, O_{ij}\, z_j + \frac{x_i}{u_i\, a_i}, \qquad
          p_{ij} = \frac{a_{ij}\, u_j}{u_i\, a_i},

with the jumps :math:`a_{ij}` and the diagonal :math:`a_i` of the matrix. The :math:`p_{ij}` are the
probabilities of a walk that is conditioned to reach a source (the transform of Doob), and z is the
mean of the transports along its paths. All numbers are at most one, so that an ordinary iteration
is accurate at all points: sweeps of Gauss and Seidel, outward from the sources and back,
accelerated by GMRES.

The answer for functions is found likewise, with :math:`e^{-D/\sqrt t}` in place of u, where D is
the distance along edges.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.sparse.linalg import LinearOperator, gmres

from ..errors import ConvergenceError
from .heat import FieldStep, FunctionStep, HeatEquation

TOLERANCE = 1e-6
"""Relative change of the last sweep at which functions have converged."""

MAX_SWEEPS = 20_000
"""Pairs of sweeps over all points before functions are given up. Each brings the answer some points
further from the source, and it converges when it has arrived everywhere."""

RESIDUAL = 1e-7
"""Residual of fields relative to their source, where the iteration ends."""

MAX_DIRECTIONS = 30
"""Vectors that GMRES keeps before it restarts."""

MAX_RESTARTS = 100
"""Restarts of GMRES before fields are given up."""


class SweptFunctions(FunctionStep):
    """Functions, by sweeps over the points."""

    def solve(self, x: np.ndarray) -> np.ndarray:
        columns = [self._solve_column(column) for column in x.T]
        return np.stack(columns, axis=1)

    def _solve_column(self, x: np.ndarray) -> np.ndarray:
        """The step from a function ``(n,)``."""
        equation = self.equation
        distances = equation.stencils.shortest_ways(np.flatnonzero(x))
        is_reached = np.isfinite(distances)
        logarithms = np.where(is_reached, -distances / np.sqrt(equation.time), 0.0)
        walk = ConditionedWalk(equation, logarithms, is_reached)
        source = np.where(is_reached, x / equation.decay, 0.0) * np.exp(-logarithms)
        ones = np.ones((len(equation.rows), 1, 1))
        scaled = np.ones((equation.num_points, 1, 1))
        for _ in range(MAX_SWEEPS):
            if walk.sweep(ones, source[:, None, None], scaled) <= TOLERANCE:
                return np.where(is_reached, scaled[:, 0, 0] * np.exp(logarithms), 0.0)
        raise ConvergenceError(
            f"heat did not reach all points within {MAX_SWEEPS} sweeps over {len(x)} points. Use "
            "a smaller time."
        )


class ConditionedFields(FieldStep):
    """Fields of any dimension, as means over the paths of a conditioned walk.

    Args:
        equation: that of the heat.
        functions: the step for functions, which conditions the walk.
    """

    def __init__(self, equation: HeatEquation, functions: FunctionStep) -> None:
        self.equation = equation
        self.functions = functions

    def solve(self, x: np.ndarray) -> np.ndarray:
        equation = self.equation
        heat = self.functions.solve(np.linalg.norm(x, axis=(1, 2))[:, None])[:, 0]
        is_reached = heat > 0
        positive_heat = np.where(is_reached, heat, 1.0)
        walk = ConditionedWalk(equation, np.log(positive_heat), is_reached)
        source = x / (equation.decay * positive_heat)[:, None, None]
        source[~is_reached] = 0.0
        return heat[:, None, None] * _mean_of_paths(walk, equation.maps, source)


def _mean_of_paths(walk: ConditionedWalk, maps: np.ndarray, source: np.ndarray) -> np.ndarray:
    r"""The solution of :math:`z_i = \sum_j p_{ij} O_{ij} z_j + s_i` ``(n, d, c)``."""
    no_source = np.zeros_like(source)
    first = np.zeros_like(source)
    walk.sweep(maps, source, first)

    def change(z: np.ndarray) -> np.ndarray:
        swept = z.reshape(source.shape).copy()
        walk.sweep(maps, no_source, swept)
        return z.ravel() - swept.ravel()

    size = source.size
    answer, status = gmres(
        LinearOperator((size, size), matvec=change, dtype=float),
        first.ravel(),
        rtol=RESIDUAL,
        restart=MAX_DIRECTIONS,
        maxiter=MAX_RESTARTS,
    )
    if status != 0:
        raise ConvergenceError(
            f"vectors did not arrive at all {len(source)} points. Use a smaller time."
        )
    return answer.reshape(source.shape)


class ConditionedWalk:
    """The walk conditioned by a function: its jumps in CSR form, and an ``order`` of the points,
    from the sources outward.

    Args:
        equation: that of the heat.
        logarithms: of the function ``(n,)``.
        is_reached: where it is not zero, ``(n,)``.
    """

    def __init__(
        self, equation: HeatEquation, logarithms: np.ndarray, is_reached: np.ndarray
    ) -> None:
        rows = equation.rows
        columns = equation.columns
        gains = np.exp(logarithms[columns] - logarithms[rows])
        connects = is_reached[rows] & is_reached[columns]
        self.probabilities = np.where(connects, equation.jumps / equation.decay[rows] * gains, 0.0)
        self.columns = columns
        self.indptr = equation.stencils.indptr.numpy()
        self.order = np.argsort(-logarithms, kind="stable")

    def sweep(self, maps: np.ndarray, source: np.ndarray, z: np.ndarray) -> float:
        """Replace each row of ``z`` (n, d, c) by what its neighbours say, outward and back; returns
        the largest relative change of the second time."""
        jumps = (self.indptr, self.columns, self.probabilities)
        _sweep(self.order, *jumps, maps, source, z)
        return _sweep(self.order[::-1], *jumps, maps, source, z)


@njit(cache=True, nogil=True)
def _sweep(order, indptr, columns, probabilities, maps, source, z):
    # pragma: no cover - compiled
    """Replace each row of ``z`` (n, d, c), in this order; returns the largest relative change."""
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
                size = abs(total[a, c])
                if size > 0.0:
                    largest = max(largest, abs(total[a, c] - z[i, a, c]) / size)
                z[i, a, c] = total[a, c]
    return largest
