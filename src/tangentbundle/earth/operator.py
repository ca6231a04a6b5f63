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

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

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
from .volumes import Volumes

MIN_RELATIVE_WEIGHT = 1e-9
"""Cells whose weight is below this share of the largest one meet in a point, up to rounding."""

MIN_RELATIVE_EXTENT = 1e-6
"""Neighbours whose extent across a line is below this share of that along it lie on the line."""

EAST_NORTH = np.array([1.0, 1j])
"""From coordinates (east, north) to complex numbers."""


@dataclass(frozen=True, eq=False)
class CellOptions:
    r"""What an operator on cells depends on besides its points.

    With a ``relative_scale`` s (n,), at all points of the grid, the operator is
    :math:`\nabla \cdot (s^2 \nabla)`, and filters reach s times as far. With ``no_normal_flow``
    nothing flows across coasts.
    """

    relative_scale: np.ndarray | None = None
    no_normal_flow: bool = False


DEFAULT_OPTIONS = CellOptions()


class Walls(NamedTuple):
    """Sides of cells at coasts: the cells ``rows`` (k,), weights ``(k,)`` and normals ``(k,)``,
    complex."""

    rows: np.ndarray
    weights: np.ndarray
    normals: np.ndarray


class MatrixBlocks(NamedTuple):
    """Blocks of the Laplacian off its diagonal, ``(b,)`` each: weighted rotations by ``turns``, or
    reflections where the sign is -1."""

    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    turns: np.ndarray
    signs: np.ndarray


class DirectedEdges(NamedTuple):
    """Pairs ``(e, 2)`` of neighbouring points of a grid, each in both directions, with weights
    ``(e,)``."""

    pairs: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, volumes: Volumes, relative_scale: np.ndarray | None) -> DirectedEdges:
        """The edges between cells that share a side, not only a point."""
        is_side = volumes.weights > MIN_RELATIVE_WEIGHT * volumes.weights.max()
        pairs = volumes.pairs[is_side]
        weights = volumes.weights[is_side]
        if relative_scale is not None:
            weights = weights * np.square(relative_scale[pairs]).mean(axis=1)
        return cls(np.concatenate([pairs, pairs[:, ::-1]]), np.tile(weights, 2))

    def subset(self, chosen: np.ndarray) -> DirectedEdges:
        return DirectedEdges(self.pairs[chosen], self.weights[chosen])

    def by_rows(self) -> DirectedEdges:
        """The edges in the order of their first points, then of their second ones."""
        starts, ends = self.pairs.T
        return self.subset(np.lexsort([ends, starts]))

    def counts(self, n: int) -> np.ndarray:
        """The number of edges that start at each of n points."""
        return np.bincount(self.pairs[:, 0], minlength=n)


@dataclass(frozen=True, eq=False)
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
        walls: sides with no normal flow.
    """

    index: np.ndarray
    coast: np.ndarray
    rim: np.ndarray
    points: np.ndarray
    areas: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    turns: np.ndarray
    steps: np.ndarray
    walls: Walls

    @classmethod
    def of(cls, grid: Grid, there: np.ndarray, options: CellOptions) -> Cells:
        """The cells of the points ``there`` (n,), a mask."""
        n = len(grid)
        volumes = grid.volumes
        all_edges = DirectedEdges.of(volumes, options.relative_scale)
        edges = all_edges.subset(there[all_edges.pairs].all(axis=1)).by_rows()
        neighbors = edges.counts(n)
        has_land_beside = neighbors < all_edges.counts(n)
        index = np.flatnonzero(neighbors)
        number = np.full(n, -1)
        number[index] = np.arange(len(index))
        starts, ends = edges.pairs.T
        distances = central_angles(grid.points[starts], grid.points[ends])
        return cls(
            index=index,
            coast=(volumes.rim | has_land_beside)[index],
            rim=volumes.rim[index],
            points=grid.points[index],
            areas=volumes.areas[index],
            rows=number[starts],
            columns=number[ends],
            weights=edges.weights,
            turns=transports(grid.frames[starts], grid.frames[ends]),
            steps=distances * _directions(grid, edges.pairs),
            walls=_walls(grid, all_edges, there, number, options),
        )

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def laplacians(self) -> dict[str, Laplacian]:
        """The connection Laplacian on the unit sphere, by the character of the dtype of signals
        ``(m, 2, c)``."""
        curve_order = order_along_curve(torch.from_numpy(self.points))
        order = curve_order.numpy()
        blocks = self._blocks_along(order)
        starts = np.append(0, np.cumsum(np.bincount(blocks.rows, minlength=len(order))))
        graph = NeighborGraph(
            indptr=torch.from_numpy(starts),
            indices=torch.from_numpy(blocks.columns.astype(np.int32)),
            distances=torch.empty(0, dtype=torch.float64),
        )
        connection = Connection(
            values=torch.from_numpy(np.stack([blocks.turns.real, blocks.turns.imag], axis=1)),
            det=torch.from_numpy(blocks.signs),
            rank=2,
        )
        full = area_laplacian(
            graph,
            connection,
            weights=torch.from_numpy(blocks.weights),
            areas=torch.from_numpy(self.areas[order]),
            curve_order=curve_order,
            kind=ArrayKind(False, torch.float64, torch.device("cpu")),
        )
        return {"d": full, "f": full.to(dtype=torch.float32)}

    def _blocks_along(self, order: np.ndarray) -> MatrixBlocks:
        """The blocks of edges and walls, numbered and sorted along a curve.

        A wall is an edge from a cell to itself with a reflection.
        """
        walls = self.walls
        place = np.argsort(order)
        blocks = MatrixBlocks(
            rows=place[np.append(self.rows, walls.rows)],
            columns=place[np.append(self.columns, walls.rows)],
            weights=np.append(self.weights, walls.weights),
            turns=np.append(self.turns, -(walls.normals**2)),
            signs=np.repeat([1, -1], [len(self.rows), len(walls.rows)]).astype(np.int8),
        )
        along = np.lexsort([blocks.columns, blocks.rows])
        return MatrixBlocks(*(array[along] for array in blocks))

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
        weighted = self.weights[:, None] * ways
        products = weighted[:, :, None] * ways[:, None]
        first_edges = np.searchsorted(self.rows, np.arange(len(self)))
        normal = np.add.reduceat(products, first_edges, axis=0)
        inverse = np.linalg.pinv(normal, MIN_RELATIVE_EXTENT, hermitian=True)
        return np.einsum("eab,eb->ea", inverse[self.rows], weighted) @ EAST_NORTH

    def _differences(
        self, factors: np.ndarray, turns: np.ndarray | float = 1.0
    ) -> sparse.csr_array:
        r"""The matrix of :math:`\sum_j f_{ij} (t_{ij} v_j - v_i)`."""
        shape = (len(self), len(self))
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


def _directions(grid: Grid, pairs: np.ndarray) -> np.ndarray:
    """Complex numbers of modulus one ``(e,)``: the directions from the first to the second point of
    each pair."""
    starts, ends = pairs.T
    toward = np.einsum("exa,ex->ea", grid.frames[starts], grid.points[ends]) @ EAST_NORTH
    return toward / np.abs(toward)


def _walls(
    grid: Grid,
    edges: DirectedEdges,
    there: np.ndarray,
    number: np.ndarray,
    options: CellOptions,
) -> Walls:
    """The sides between the cells, which have a ``number``, and points without data."""
    if not options.no_normal_flow:
        return Walls(np.empty(0, np.int64), np.empty(0), np.empty(0, complex))
    starts, ends = edges.pairs.T
    shore = edges.subset((number[starts] >= 0) & ~there[ends])
    return Walls(number[shore.pairs[:, 0]], shore.weights, _directions(grid, shore.pairs))


def cells_of(grid: Grid, there: np.ndarray, options: CellOptions = DEFAULT_OPTIONS) -> Cells | None:
    """The cells of the points ``there`` (n,), a mask, of a grid; None if no two of them are
    neighbours.

    Results are cached: fields with data at the same places share them.
    """
    scales = b""
    if options.relative_scale is not None:
        scales = options.relative_scale.tobytes()
    return _cached_cells(grid, there.tobytes(), scales, options.no_normal_flow)


@lru_cache(maxsize=8)
def _cached_cells(grid: Grid, mask: bytes, scales: bytes, no_normal_flow: bool) -> Cells | None:
    relative_scale = None
    if scales:
        relative_scale = np.frombuffer(scales)
    options = CellOptions(relative_scale, no_normal_flow)
    cells = Cells.of(grid, np.frombuffer(mask, bool), options)
    if not len(cells):
        return None
    return cells
