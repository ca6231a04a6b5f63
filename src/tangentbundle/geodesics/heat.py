r"""One implicit step of heat, :math:`(I - t\Delta)\, y = x`, to relative accuracy at every point.

The generator of the diffusion has the rates :math:`q_{ij} \ge 0` of ``Stencils`` and the transports
:math:`O_{ij}`,

.. math:: (\Delta y)_i = \sum_j q_{ij}\,(O_{ij}\, y_j - y_i) .

In one implicit step heat falls off along a line of points at the distance h by a constant factor,
which for :math:`h \gg \sqrt t` is :math:`t / h^2` only, so that heat would prefer long edges to
many short ones. The factor is :math:`e^{-h/\sqrt t}`, as in continuous space, if the jumps along an
edge of the length h are

.. math:: a_{ij} = t\,q_{ij} \left( \frac{z}{\sinh z} \right)^2, \qquad
          z = \frac{h_{ij}}{2 \sqrt t} .

At a boundary heat leaves as if the space went on. The drift :math:`b_i` of the points there makes
the normal derivative small. What it should be, if heat falls off as :math:`e^{-r/\sqrt t}` and
meets the boundary at an angle with the cosine c, is :math:`-c\,u/\sqrt t`, so the diagonal gains
:math:`c \sqrt t\, |b_i|`. Without it directions would be along the boundary there.

After a short time there is next to no heat far from its source, and an error that is small beside
the largest value is large beside those: directions would mean nothing there. A sparse factorisation
without pivoting has small relative errors everywhere: the diagonal of the matrix dominates and, for
functions, all other entries have one sign, so that no digits cancel. It is computed once.

* Functions: the factors of a matrix with n rows.
* Fields on curves and on surfaces that can be oriented: the same, since transport multiplies by a
  number there, a sign or :math:`e^{i\varphi}`.
* Everything else, and where factors would be too large: the iterations of ``conditioned``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu

from ..geometry.frame_signs import cover_signs
from ..geometry.graph import NeighborGraph
from ..geometry.stencils import Stencils

MAX_DIRECT_POINTS = {1: 10_000_000, 2: 2_000_000}
"""Most points of a sparse factorisation in one and two dimensions. Its memory on surfaces is about
1 KB for each point of a function, and twice as much for fields."""

MAX_DIRECT_POINTS_OF_SOLIDS = 20_000
"""The same in more dimensions, where the memory grows with the power 4/3 of the size, and the time
with its square."""

MEAN_COSINE = 0.7
"""Cosine c of the angle at which ways meet a boundary: between that of ways straight outward and
that of ways along it."""

MAX_LENGTH = 300.0
r"""Edges longer than so many lengths :math:`\sqrt t` conduct heat as those do: numbers below
:math:`e^{-700}` do not exist."""


def fitted_factors(lengths: np.ndarray) -> np.ndarray:
    """What multiplies the rates of edges ``(e,)``, from their ``lengths`` h in units of the root of
    t.

    >>> fitted_factors(np.array([0.0, 1.0, 10.0])).round(4).tolist()
    [1.0, 0.9207, 0.0045]
    """
    half_lengths = 0.5 * np.clip(lengths, 1e-6, MAX_LENGTH)
    return (half_lengths / np.sinh(half_lengths)) ** 2


class Factors:
    """The factors of a sparse matrix whose diagonal dominates, without pivoting.

    They are those of the transposed matrix: its solutions are read along rows of the factors, a
    quarter faster.
    """

    def __init__(self, matrix: sparse.csr_array) -> None:
        self._transposed = splu(
            sparse.csc_matrix(matrix.T),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            relax=1,
            options={"SymmetricMode": True},
        )

    def solve(self, x: np.ndarray) -> np.ndarray:
        """The solution ``(n, c)``."""
        return self._transposed.solve(x, "T")


class HeatEquation:
    r"""The coefficients of one implicit step.

    Args:
        stencils: rates of the diffusion, and transports, between neighbours.
        time: t, a squared length.

    Attributes: ``stencils``, of which ``rows``, ``columns`` (e,) and ``maps`` (e, d, d) are arrays
    here, too; ``jumps`` :math:`a_{ij}` (e,), and the diagonal ``decay`` (n,) of the matrix,
    :math:`1 + \sum_j a_{ij} + c \sqrt t\, |b_i|`.
    """

    def __init__(self, stencils: Stencils, time: float) -> None:
        self.stencils = stencils
        self.num_points = stencils.num_points
        self.rank = stencils.maps.shape[1]
        self.rows = stencils.rows.numpy()
        self.columns = stencils.columns.numpy()
        self.maps = stencils.maps.numpy()
        self.time = time
        lengths = stencils.lengths.numpy() / np.sqrt(time)
        self.jumps = time * stencils.rates.numpy() * fitted_factors(lengths)
        totals = np.bincount(self.rows, weights=self.jumps, minlength=self.num_points)
        leaving = MEAN_COSINE * np.sqrt(time) * stencils.drift.numpy()
        self.decay = 1.0 + totals + leaving

    @property
    def is_direct(self) -> bool:
        """Whether factors of a matrix with a row for each point fit."""
        limit = MAX_DIRECT_POINTS.get(self.rank, MAX_DIRECT_POINTS_OF_SOLIDS)
        return self.num_points <= limit

    def factorise(self, numbers: np.ndarray) -> Factors:
        """The factors of the matrix in which transport along edges multiplies by ``numbers``
        (e,)."""
        shape = (self.num_points, self.num_points)
        jumps = sparse.coo_array((self.jumps * numbers, (self.rows, self.columns)), shape=shape)
        return Factors(sparse.csr_array(sparse.diags_array(self.decay) - jumps))

    @cached_property
    def orientation(self) -> np.ndarray | None:
        """Signs ``(n,)`` of tangent planes that are then oriented alike, or None if they do not
        exist."""
        determinants = np.linalg.det(self.maps)
        shape = (self.num_points, self.num_points)
        one_way = sparse.csr_array((determinants, (self.rows, self.columns)), shape=shape)
        both_ways = sparse.csr_array(one_way + one_way.T)
        graph = NeighborGraph(
            indptr=torch.from_numpy(both_ways.indptr).long(),
            indices=torch.from_numpy(both_ways.indices).int(),
            distances=torch.from_numpy(np.abs(both_ways.data)),
        )
        signs = cover_signs(graph, torch.from_numpy(both_ways.data))
        if signs is None:
            return None
        return signs.numpy()


class FunctionStep(ABC):
    """One step for functions."""

    def __init__(self, equation: HeatEquation) -> None:
        self.equation = equation

    @abstractmethod
    def solve(self, x: np.ndarray) -> np.ndarray:
        """The step from functions ``(n, c)`` that are not negative, at the sources."""


class FieldStep(ABC):
    """One step for tangent vector fields."""

    @abstractmethod
    def solve(self, x: np.ndarray) -> np.ndarray:
        """The step from fields ``(n, d, c)`` at the sources."""


class DirectFunctions(FunctionStep):
    """Functions, by a sparse factorisation."""

    def solve(self, x: np.ndarray) -> np.ndarray:
        # rounding of the zeros between the components of a graph may be negative
        return np.maximum(self._factors.solve(x), 0.0)

    @cached_property
    def _factors(self):
        return self.equation.factorise(np.ones(len(self.equation.rows)))


class DirectFieldsOnCurves(FieldStep):
    """Fields in one dimension, by a sparse factorisation: transport multiplies by signs."""

    def __init__(self, equation: HeatEquation) -> None:
        self.equation = equation

    def solve(self, x: np.ndarray) -> np.ndarray:
        return self._factors.solve(x[:, 0])[:, None]

    @cached_property
    def _factors(self):
        return self.equation.factorise(self.equation.maps[:, 0, 0])


class DirectFieldsOnSurfaces(FieldStep):
    r"""Fields on oriented surfaces, by a sparse factorisation.

    With signs :math:`s_i` that orient the planes alike, coordinates (a, b) are the complex number
    :math:`a + i s_i b`, and transports are rotations: they multiply by complex numbers.

    Args:
        equation: that of the heat.
        orientation: the signs ``(n,)``.
    """

    def __init__(self, equation: HeatEquation, orientation: np.ndarray) -> None:
        self.equation = equation
        self.orientation = orientation

    def solve(self, x: np.ndarray) -> np.ndarray:
        signs = self.orientation[:, None]
        y = self._factors.solve(x[:, 0] + 1j * signs * x[:, 1])
        return np.stack([y.real, signs * y.imag], axis=1)

    @cached_property
    def _factors(self):
        first_columns = self.equation.maps[:, :, 0]
        signs = self.orientation[self.equation.rows]
        return self.equation.factorise(first_columns[:, 0] + 1j * signs * first_columns[:, 1])
