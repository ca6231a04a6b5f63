r"""The cells of a grid that hold data: Laplacian and derivatives by finite volumes.

Tangent vectors are complex numbers here, east + i north at each point. Those at j become vectors at i by
:math:`t_{ij}`, of modulus one, which carries them along a great circle.

Cells without data are land. No edge leads there, so nothing passes through land, and the boundary is natural: the
normal derivative vanishes at coasts and at the edges of a region. With ``no_normal_flow`` the velocity across a coast
vanishes, too: land is a mirror, in which the component along the coast is seen as it is and the normal one reversed. A
side with the normal n leads back to its own cell, as :math:`v \mapsto -n^2 \bar v`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from scipy import sparse

from ..arrays import ArrayKind
from ..geometry.graph import NeighborGraph
from ..geometry.ordering import curve_order
from ..geometry.transport import Connection
from ..operators import ConnectionLaplacian
from ..operators.assembly import Averages, assemble
from .grid import Grid
from .triangles import central_angles, transports


@dataclass(frozen=True, eq=False)
class Cells:
    """The m points of a grid that hold data and have a neighbour that does, and the edges between them.

    Attributes:
        index: ``(m,)`` the numbers of these points in the grid.
        coast: ``(m,)`` true where a neighbour is land or the region ends.
        points, areas: ``(m, 3)`` and ``(m,)`` on the unit sphere.
        rows, columns, weights: ``(e,)`` each edge in both directions, in the order of the rows.
        turns, steps: ``(e,)`` complex: :math:`t_{ij}`, and the way from i to j.
        walls: ``(k,)`` rows, weights and normals of sides with no normal flow.
    """

    index: np.ndarray
    coast: np.ndarray
    points: np.ndarray
    areas: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    turns: np.ndarray
    steps: np.ndarray
    walls: tuple[np.ndarray, np.ndarray, np.ndarray]

    @cached_property
    def laplacians(self) -> dict[str, ConnectionLaplacian]:
        """The connection Laplacian on the unit sphere, by the character of the dtype of signals ``(m, 2, c)``."""
        (ends, sides, normals), order = self.walls, curve_order(self.points)
        place, n = np.argsort(order), len(order)
        rows, columns = place[np.append(self.rows, ends)], place[np.append(self.columns, ends)]
        along = np.lexsort([columns, rows])  # the space-filling curve
        weights, maps = (np.append(a, b)[along] for a, b in ((self.weights, sides), (self.turns, -(normals**2))))
        signs = np.where(along < len(self.rows), 1, -1).astype(np.int8)
        starts = np.append(0, np.cumsum(np.bincount(rows, minlength=n)))
        graph = NeighborGraph(starts, columns[along].astype(np.int32), np.empty(0))
        connection, mass = Connection(np.stack([maps.real, maps.imag], axis=1), signs, 2), self.areas[order]
        kind = ArrayKind(False, torch.float64, torch.device("cpu"))
        averages = Averages.by_area(graph, torch.from_numpy(weights), mass)
        full = assemble(graph, connection, averages, 1.0, order, kind)
        return {"d": full, "f": full.to(dtype=torch.float32)}

    @cached_property
    def _slopes(self) -> np.ndarray:
        r"""Weights ``(e,)`` of first derivatives, complex: least squares over the neighbours, as in the Laplacian.

        .. math:: g_{ij} = \Big(\sum_k w_{ik} y_k y_k^T\Big)^+ w_{ij} y_j

        with the ways :math:`y_j` as vectors of the plane. On complete cells this is Gauss's theorem; linear fields are
        exact at coasts, too. Where neighbours lie along one line, as in a strait, the derivative across it is zero.
        """
        ways = np.stack([self.steps.real, self.steps.imag], axis=1)
        weighted, starts = self.weights[:, None] * ways, np.searchsorted(self.rows, np.arange(len(self.index)))
        normal = np.add.reduceat(weighted[:, :, None] * ways[:, None], starts, axis=0)
        slopes = np.einsum("eab,eb->ea", np.linalg.pinv(normal, 1e-6, hermitian=True)[self.rows], weighted)
        return slopes @ np.array([1.0, 1j])

    def _differences(self, factors: np.ndarray, turns: np.ndarray | float = 1.0) -> sparse.csr_array:
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
    def derivative(self) -> sparse.csr_array:
        """From vectors to divergence + i vorticity."""
        return self._differences(self._slopes.conj(), self.turns)

    @cached_property
    def stiffness(self) -> sparse.csr_array:
        """Minus the Laplacian of functions, times the areas."""
        return -self._differences(self.weights)


@lru_cache(maxsize=8)
def _cached(grid: Grid, packed: bytes, scales: bytes, no_normal_flow: bool) -> Cells | None:
    there = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(grid)).astype(bool)
    return _build(grid, there, np.frombuffer(scales) if scales else np.ones(len(grid)), no_normal_flow)


def cells_of(
    grid: Grid, there: np.ndarray, relative_scale: np.ndarray | None = None, no_normal_flow: bool = False
) -> Cells | None:
    r"""The cells of the points ``there`` (n,) of a grid; None if no two of them are neighbours.

    With a ``relative_scale`` s (n,), the operator is :math:`\nabla \cdot (s^2 \nabla)`, and filters reach s times as
    far. Results are cached: fields with data at the same places share them.
    """
    scales = b"" if relative_scale is None else relative_scale.tobytes()
    return _cached(grid, np.packbits(there).tobytes(), scales, no_normal_flow)


def _build(grid: Grid, there: np.ndarray, relative_scale: np.ndarray, no_normal_flow: bool) -> Cells | None:
    pairs, weights, areas, rim = grid.volumes
    touching = weights > 1e-9 * weights.max()  # the others meet in a point, up to rounding
    pairs, weights = pairs[touching], weights[touching] * np.square(relative_scale[pairs[touching]]).mean(axis=1)
    pairs, weights = np.concatenate([pairs, pairs[:, ::-1]]), np.tile(weights, 2)
    inside = there[pairs].all(axis=1)
    neighbors, all_neighbors = (np.bincount(ends[:, 0], minlength=len(grid)) for ends in (pairs[inside], pairs))
    index = np.flatnonzero(neighbors)
    if not len(index):
        return None
    coast = (rim | (neighbors < all_neighbors))[index]
    number = np.full(len(grid), -1)
    number[index] = np.arange(len(index))
    edges = np.flatnonzero(inside)[np.lexsort(pairs[inside].T[::-1])]
    shore = np.flatnonzero((number[pairs[:, 0]] >= 0) & ~there[pairs[:, 1]] & no_normal_flow)
    steps = np.einsum("exa,ex->ea", grid.frames[pairs[:, 0]], grid.points[pairs[:, 1]]) @ np.array([1.0, 1j])
    steps /= np.abs(steps)
    i, j = pairs[edges].T
    angles, turns = central_angles(grid.points[i], grid.points[j]), transports(grid.frames[i], grid.frames[j])
    walls = number[pairs[shore, 0]], weights[shore], steps[shore]
    edge_arrays = number[i], number[j], weights[edges], turns, angles * steps[edges]
    return Cells(index, coast, grid.points[index], areas[index], *edge_arrays, walls)
