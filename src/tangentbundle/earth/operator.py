r"""The cells of a grid that hold data: Laplacian and derivatives by finite volumes.

Tangent vectors are complex numbers here, east + i north at each point. Those at j become vectors at
i by :math:`t_{ij}`, of modulus one, which carries them along a great circle.

Cells without data are land. No edge leads there, so nothing passes through land, and the boundary
is natural: the normal derivative vanishes at coasts and at the edges of a region. With
``no_normal_flow`` the velocity across a coast vanishes, too: land is a mirror, in which the
component along the coast is seen as it is and the normal one reversed. A side with the normal n
leads back to its own cell, as :math:`v \mapsto -n^2 \bar v`.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import torch
from scipy import sparse

from ..arrays import ArrayKind
from ..geometry.graph import NeighborGraph
from ..geometry.ordering import order_along_curve
from ..geometry.transport import Connection
from ..operators import Laplacian
from ..operators.assembly import area_laplacian
from .grid import Grid
from .triangles import central_angles, transports


class Cells:
    """The m points of a grid that hold data and have a neighbour that does, and the edges between
    them.

    Attributes:
        index: ``(m,)`` the numbers of these points in the grid.
        coast: ``(m,)`` true where a neighbour is land or the region ends.
        rim: ``(m,)`` true where the region ends.
        points, areas: ``(m, 3)`` and ``(m,)`` on the unit sphere.
        rows, columns, weights: ``(e,)`` each edge in both directions, in the order of the rows.
        turns, steps: ``(e,)`` complex: :math:`t_{ij}`, and the way from i to j.
        walls: ``(k,)`` rows, weights and normals of sides with no normal flow.
    """

    def __init__(
        self, grid: Grid, there: np.ndarray, relative_scale: np.ndarray, no_normal_flow: bool
    ) -> None:
        pairs, weights, areas, rim = grid.volumes
        touching = weights > 1e-9 * weights.max()  # the others meet in a point, up to rounding
        pairs, weights = (
            pairs[touching],
            weights[touching] * np.square(relative_scale[pairs[touching]]).mean(axis=1),
        )
        pairs, weights = np.concatenate([pairs, pairs[:, ::-1]]), np.tile(weights, 2)
        inside = there[pairs].all(axis=1)
        neighbors, all_neighbors = (
            np.bincount(ends[:, 0], minlength=len(grid)) for ends in (pairs[inside], pairs)
        )
        self.index = np.flatnonzero(neighbors)
        self.rim = rim[self.index]
        self.coast = (rim | (neighbors < all_neighbors))[self.index]
        self.points, self.areas = grid.points[self.index], areas[self.index]
        number = np.full(len(grid), -1)
        number[self.index] = np.arange(len(self.index))
        edges = np.flatnonzero(inside)[np.lexsort(pairs[inside].T[::-1])]
        shore = np.flatnonzero((number[pairs[:, 0]] >= 0) & ~there[pairs[:, 1]] & no_normal_flow)
        steps = np.einsum(
            "exa,ex->ea", grid.frames[pairs[:, 0]], grid.points[pairs[:, 1]]
        ) @ np.array([1.0, 1j])
        steps /= np.abs(steps)
        i, j = pairs[edges].T
        self.rows, self.columns, self.weights = number[i], number[j], weights[edges]
        self.turns = transports(grid.frames[i], grid.frames[j])
        self.steps = central_angles(grid.points[i], grid.points[j]) * steps[edges]
        self.walls = number[pairs[shore, 0]], weights[shore], steps[shore]

    @cached_property
    def laplacians(self) -> dict[str, Laplacian]:
        """The connection Laplacian on the unit sphere, by the character of the dtype of signals
        ``(m, 2, c)``."""
        (ends, sides, normals), order = self.walls, order_along_curve(self.points)
        place, n = np.argsort(order), len(order)
        rows, columns = place[np.append(self.rows, ends)], place[np.append(self.columns, ends)]
        along = np.lexsort([columns, rows])  # the space-filling curve
        weights, maps = (
            np.append(a, b)[along] for a, b in ((self.weights, sides), (self.turns, -(normals**2)))
        )
        signs = np.where(along < len(self.rows), 1, -1).astype(np.int8)
        starts = np.append(0, np.cumsum(np.bincount(rows, minlength=n)))
        graph = NeighborGraph(starts, columns[along].astype(np.int32), np.empty(0))
        connection, mass = (
            Connection(np.stack([maps.real, maps.imag], axis=1), signs, 2),
            self.areas[order],
        )
        kind = ArrayKind(False, torch.float64, torch.device("cpu"))
        full = area_laplacian(graph, connection, weights, mass, order, kind)
        return {"d": full, "f": full.to(dtype=torch.float32)}

    @cached_property
    def _slopes(self) -> np.ndarray:
        r"""Weights ``(e,)`` of first derivatives, complex: least squares over the neighbours, as in
        the Laplacian.

        .. math:: g_{ij} = \Big(\sum_k w_{ik} y_k y_k^T\Big)^+ w_{ij} y_j

        with the ways :math:`y_j` as vectors of the plane. On complete cells this is Gauss's
        theorem; linear fields are exact at coasts, too. Where neighbours lie along one line, as in
        a strait, the derivative across it is zero.
        """
        ways = np.stack([self.steps.real, self.steps.imag], axis=1)
        weighted, starts = (
            self.weights[:, None] * ways,
            np.searchsorted(self.rows, np.arange(len(self.index))),
        )
        normal = np.add.reduceat(weighted[:, :, None] * ways[:, None], starts, axis=0)
        slopes = np.einsum(
            "eab,eb->ea", np.linalg.pinv(normal, 1e-6, hermitian=True)[self.rows], weighted
        )
        return slopes @ np.array([1.0, 1j])

    def _differences(
        self, factors: np.ndarray, turns: np.ndarray | float = 1.0
    ) -> sparse.csr_array:
        r"""The matrix of :math:`\sum_j f_{ij} (t_{ij} v_j - v_i)`."""
        shape = len(self.index), len(self.index)
        others = sparse.csr_array((factors * turns, (self.rows, self.columns)), shape)
        sums = sparse.csr_array((factors, (self.rows, self.rows)), shape)
        return others - sums

    @cached_property
    def gradient(self) -> sparse.csr_array:
        """From functions to vectors."""
        return self._differences(self._slopes)

    @cached_property
    def weighted_gradient(self) -> sparse.csr_array:
        r"""The gradient, multiplied in each cell by :math:`\frac12 \sum_j w_{ij} y_j y_j^T`.

        Minus its adjoint is the divergence times the areas, as fluxes of the means of two cells.
        """
        return self._differences(self.weights * self.steps / 2)

    @cached_property
    def derivative(self) -> sparse.csr_array:
        """From vectors to divergence + i vorticity."""
        return self._differences(self._slopes.conj(), self.turns)

    @cached_property
    def stiffness(self) -> sparse.csr_array:
        """Minus the Laplacian of functions, times the areas."""
        return -self._differences(self.weights)


def cells_of(
    grid: Grid,
    there: np.ndarray,
    relative_scale: np.ndarray | None = None,
    no_normal_flow: bool = False,
) -> Cells | None:
    r"""The cells of the points ``there`` (n,) of a grid; None if no two of them are neighbours.

    With a ``relative_scale`` s (n,), the operator is :math:`\nabla \cdot (s^2 \nabla)`, and filters
    reach s times as far. Results are cached: fields with data at the same places share them.
    """
    scales = b"" if relative_scale is None else relative_scale.tobytes()
    return _cells_of(grid, there.tobytes(), scales, no_normal_flow)


@lru_cache(maxsize=8)
def _cells_of(grid: Grid, mask: bytes, scales: bytes, no_normal_flow: bool) -> Cells | None:
    relative_scale = np.frombuffer(scales) if scales else np.ones(len(grid))
    cells = Cells(grid, np.frombuffer(mask, bool), relative_scale, no_normal_flow)
    return cells if len(cells.index) else None
