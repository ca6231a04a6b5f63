r"""The tangent bundle of the cells of a grid that hold data: Laplacian and derivatives by finite volumes.

Cells without data are land. No edge of the bundle leads there, so nothing passes through land, and the boundary is
natural: the normal derivative vanishes at coasts and at the edges of a region. With ``no_normal_flow`` the velocity
across a coast vanishes, too: land is a mirror, in which the component along the coast is seen as it is and the normal
one n reversed. A side of weight w towards land then adds :math:`-2 w\, n n^T` to the block of the cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from scipy import sparse

from ..arrays import ArrayKind
from ..bundle import TangentBundle
from ..calculus import Derivatives, LinearMap
from ..calculus.fit import LocalFit
from ..geometry.graph import NeighborGraph
from ..geometry.mesh import MeshGeometry
from ..geometry.ordering import curve_order
from ..geometry.transport import Connection, connect
from ..operators import ConnectionLaplacian
from ..operators.assembly import VertexAreas, assemble
from .grid import Grid
from .triangles import central_angles


class GridDerivatives(Derivatives):
    r"""First derivatives by least squares over the neighbours of each cell, weighted as in the Laplacian.

    .. math:: g_{ij} = \Big(\sum_k w_{ik} y_k y_k^T\Big)^+ w_{ij} y_j

    with :math:`y_j` the neighbour in tangent coordinates. On whole cells this is Gauss's theorem; linear fields are
    exact at coasts, too. Where neighbours lie along one line, as in a strait, the derivative across it is zero.
    """

    @cached_property
    def fit(self) -> LocalFit:
        bundle, graph = self.bundle, self.bundle.sorted_graph
        points, rows = bundle.sorted_points, graph.rows
        steps = points[graph.indices] - points[rows]
        y = np.einsum("exa,ex->ea", bundle.sorted_frames[rows], steps)  # type: ignore[index]
        y *= (graph.distances / np.maximum(np.linalg.norm(y, axis=1), 1e-300))[:, None]
        weighted = bundle.edge_weights()[:, None] * y
        normal = np.add.reduceat(weighted[:, :, None] * y[:, None], graph.indptr[:-1], axis=0)
        weights = np.einsum("eab,eb->ea", np.linalg.pinv(normal, 1e-6, hermitian=True)[rows], weighted)
        own, ends = -np.add.reduceat(weights, graph.indptr[:-1], axis=0), graph.indptr[1:]  # of each point itself
        numbers = np.arange(len(ends), dtype=np.int32)
        indptr, indices = graph.indptr + np.arange(len(ends) + 1), np.insert(graph.indices, ends, numbers)
        return LocalFit(NeighborGraph(indptr, indices, np.empty(0)), np.insert(weights, ends, own, axis=0))


@dataclass(frozen=True, eq=False)
class GridBundle:
    """The bundle of those points of a grid that hold data and have a neighbour that does.

    Attributes: ``index`` (m,) the numbers of these points in the grid; ``coast`` (m,) true where a neighbour is land
    or the region ends; ``bundle``, whose coordinates are east and north; ``walls``, the sides with no normal flow:
    their points along the curve (k,), weights (k,) and normals (k, 2).
    """

    index: np.ndarray
    coast: np.ndarray
    bundle: TangentBundle
    walls: tuple[np.ndarray, np.ndarray, np.ndarray] | None

    @cached_property
    def laplacians(self) -> dict[str, ConnectionLaplacian]:
        """The connection Laplacian on the unit sphere, by the character of the dtype of signals."""
        full = self.bundle.laplacian() if self.walls is None else self._between_walls(*self.walls)
        return {"d": full, "f": full.to(dtype=torch.float32)}

    def _between_walls(self, rows: np.ndarray, weights: np.ndarray, normals: np.ndarray) -> ConnectionLaplacian:
        """The Laplacian with an edge from each wall's cell to itself, along which vectors are reflected."""
        bundle, graph, own = self.bundle, self.bundle.sorted_graph, self.bundle.connection
        at, areas = graph.indptr[rows + 1], bundle.sorted_mass
        indptr = graph.indptr + np.append(0, np.cumsum(np.bincount(rows, minlength=len(areas))))
        loops = NeighborGraph(indptr, np.insert(graph.indices, at, rows), np.empty(0))
        columns = np.array([1.0, 0.0]) - 2 * normals[:, :1] * normals  # the first ones of reflections
        connection = Connection(np.insert(own.values, at, columns, axis=0), np.insert(own.det, at, -1), 2)
        weights = np.insert(bundle.edge_weights(), at, weights)
        bound = float((np.add.reduceat(weights, indptr[:-1]) / areas).max())
        areas_as_mass = VertexAreas(areas=areas, bound=bound)
        return assemble(loops, connection, weights, 1.0, bundle.order, bundle.kind, normalization=areas_as_mass)

    @cached_property
    def derivatives(self) -> GridDerivatives:
        return GridDerivatives(self.bundle, degree=1)

    @cached_property
    def sources(self) -> dict[str, LinearMap]:
        """Divergence and vorticity on the unit sphere."""
        return {"divergence": self.derivatives.divergence(), "vorticity": self.derivatives.curl()}


@lru_cache(maxsize=8)
def _cached(grid: Grid, packed: bytes, scales: bytes, no_normal_flow: bool) -> GridBundle | None:
    there = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(grid)).astype(bool)
    return _build(grid, there, np.frombuffer(scales) if scales else np.ones(len(grid)), no_normal_flow)


def grid_bundle(
    grid: Grid, there: np.ndarray, relative_scale: np.ndarray | None = None, no_normal_flow: bool = False
) -> GridBundle | None:
    r"""The bundle of the points ``there`` (n,) of a grid; None if no two of them are neighbours.

    With a ``relative_scale`` s (n,), the operator is :math:`\nabla \cdot (s^2 \nabla)`, and filters reach s times as
    far. Bundles are cached: fields with data at the same places share one.
    """
    scales = b"" if relative_scale is None else relative_scale.tobytes()
    return _cached(grid, np.packbits(there).tobytes(), scales, no_normal_flow)


def _build(grid: Grid, there: np.ndarray, relative_scale: np.ndarray, no_normal_flow: bool) -> GridBundle | None:
    pairs, weights, areas, rim = grid.volumes
    touching = weights > 1e-9 * weights.max()  # the others meet in a point, up to rounding
    pairs, weights = pairs[touching], weights[touching] * np.square(relative_scale[pairs[touching]]).mean(axis=1)
    wet = there[pairs].all(axis=1)
    neighbors, all_neighbors = (np.bincount(kind.ravel(), minlength=len(grid)) for kind in (pairs[wet], pairs))
    index = np.flatnonzero(neighbors)
    if not len(index):
        return None
    coast = (rim | (neighbors < all_neighbors))[index]
    order = curve_order(grid.points[index])
    number = np.full(len(grid), -1)
    number[index[order]] = np.arange(len(index))
    a, b = number[pairs[wet]].T
    shape = len(index), len(index)
    matrix = sparse.csr_array((np.tile(weights[wet], 2), (np.append(a, b), np.append(b, a))), shape=shape)
    matrix.sort_indices()
    points, frames, mass = (array[index[order]] for array in (grid.points, grid.frames, areas))
    heads, tails = matrix.indices, np.repeat(np.arange(len(index)), np.diff(matrix.indptr))
    distances = central_angles(points[heads], points[tails])
    graph = NeighborGraph(matrix.indptr.astype(np.int64), heads.astype(np.int32), distances)
    bound = float((matrix.sum(axis=1) / mass).max())
    mesh = MeshGeometry(np.zeros((0, 3), np.int64), matrix.data, mass, bound, int(coast.sum()), 0)
    kind, eps = ArrayKind(False, torch.float64, torch.device("cpu")), float(np.square(distances).mean())
    bundle = TangentBundle(points, graph, connect(frames, graph), order, None, eps, 2, kind, frames, mesh=mesh)
    if not no_normal_flow:
        return GridBundle(index, coast, bundle, None)
    shore = (there[pairs].sum(axis=1) == 1) & (number[pairs] >= 0).any(axis=1)
    sea, land = np.where(there[pairs[shore, :1]], pairs[shore], pairs[shore, ::-1]).T
    normals = np.einsum("kxa,kx->ka", grid.frames[sea], grid.points[land])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return GridBundle(index, coast, bundle, (number[sea], weights[shore], normals))
