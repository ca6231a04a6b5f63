r"""The tangent bundle of the cells of a grid that hold data: Laplacian and derivatives by finite volumes.

Cells without data are land. No edge of the bundle leads there, so nothing passes through land, and the boundary is
natural: the normal derivative vanishes at coasts and at the edges of a region.
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
from ..geometry.transport import connect
from ..operators import ConnectionLaplacian
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
    or the region ends; ``bundle``, whose coordinates are east and north.
    """

    index: np.ndarray
    coast: np.ndarray
    bundle: TangentBundle

    @cached_property
    def laplacians(self) -> dict[str, ConnectionLaplacian]:
        """The connection Laplacian on the unit sphere, by the character of the dtype of signals."""
        full = self.bundle.laplacian()
        return {"d": full, "f": full.to(dtype=torch.float32)}

    @cached_property
    def derivatives(self) -> GridDerivatives:
        return GridDerivatives(self.bundle, degree=1)

    @cached_property
    def sources(self) -> dict[str, LinearMap]:
        """Divergence and vorticity on the unit sphere."""
        return {"divergence": self.derivatives.divergence(), "vorticity": self.derivatives.curl()}


@lru_cache(maxsize=8)
def _cached(grid: Grid, packed: bytes, scales: bytes) -> GridBundle | None:
    there = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(grid)).astype(bool)
    return _build(grid, there, np.frombuffer(scales) if scales else None)


def grid_bundle(grid: Grid, there: np.ndarray, relative_scale: np.ndarray | None = None) -> GridBundle | None:
    r"""The bundle of the points ``there`` (n,) of a grid; None if no two of them are neighbours.

    With a ``relative_scale`` s (n,), the operator is :math:`\nabla \cdot (s^2 \nabla)`, and filters reach s times as
    far. Bundles are cached: fields with data at the same places share one.
    """
    return _cached(grid, np.packbits(there).tobytes(), b"" if relative_scale is None else relative_scale.tobytes())


def _build(grid: Grid, there: np.ndarray, relative_scale: np.ndarray | None) -> GridBundle | None:
    pairs, weights, areas, rim = grid.volumes
    touching = weights > 1e-9 * weights.max()  # the others meet in a point, up to rounding
    wet = there[pairs].all(axis=1) & touching
    neighbors, all_neighbors = (np.bincount(pairs[kind].ravel(), minlength=len(grid)) for kind in (wet, touching))
    index = np.flatnonzero(neighbors)
    if not len(index):
        return None
    coast = (rim | (neighbors < all_neighbors))[index]
    if relative_scale is not None:
        weights = weights * np.square(relative_scale[pairs]).mean(axis=1)
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
    return GridBundle(index, coast, bundle)
