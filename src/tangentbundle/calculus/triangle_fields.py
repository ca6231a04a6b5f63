r"""The Helmholtz-Hodge decomposition on the triangles of a mesh.

Fields that are constant on each triangle are orthogonal sums of

* gradients of functions that are linear on triangles and continuous,
* turned gradients of functions that are linear on triangles and continuous at the middles of edges
  (Crouzeix and Raviart), and
* harmonic fields, of which there are as many as the first Betti number says.

At a boundary one kind of functions vanishes, and the numbers are right for both conditions (Poelke
and Polthier, 2016, "Boundary-aware Hodge decompositions for piecewise constant vector fields"). A
field on the vertices becomes one on triangles by the mean P of the three corners. Its parts come
back by its adjoint :math:`Q = M^{-1} P^T A`, the mean of the triangles around a vertex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse

from ..arrays import host
from ..geometry.mesh import Triangulation
from ..memory import require_memory
from ..operators.poisson import Components, DirectPoisson
from .boundary_conditions import BoundaryCondition
from .orientation import orientation

if TYPE_CHECKING:
    from ..bundle import TangentBundle

BYTES_PER_VERTEX = 800.0
"""Memory of both factorisations, times the binary logarithm of the number of vertices."""


class MeshPotentials:
    """Potentials and stream functions of fields on a mesh, whose matrices are factorised once.

    Everything is along the curve, in float64. ``in_triangles`` (2 f, 2 n) and ``at_vertices``
    (2 n, 2 f) are P and Q; ``gradient`` (2 f, n) and ``rot`` (2 f, e), of functions on the vertices
    and on the edges, have their values on the triangles.
    """

    def __init__(
        self, bundle: TangentBundle, mesh: Triangulation, boundary: BoundaryCondition
    ) -> None:
        n = bundle.num_points
        require_memory(
            BYTES_PER_VERTEX * n * np.log2(n + 2),
            f"decomposing fields on a mesh of {n} vertices",
            "Use a coarser mesh.",
        )
        places = np.argsort(host(bundle.cloud.curve_order))
        self.num_vertices = n
        self.triangles = _Triangles(host(bundle.cloud.points), places[mesh.faces])
        assert bundle.tangent_frames is not None, "meshes have frames"
        frames = host(bundle.tangent_frames.matrices).astype(float)
        senses = mesh.intrinsic.senses[host(bundle.cloud.curve_order)]
        signs = senses * host(orientation(bundle))
        self.in_triangles = self.triangles.mean_of_corners(frames)
        areas = np.repeat(self.triangles.areas, 2)
        masses = np.bincount(
            self.triangles.corners.ravel(), np.repeat(self.triangles.areas / 3, 3), minlength=n
        )
        self.at_vertices = sparse.csr_array(
            sparse.diags_array(np.repeat(1.0 / masses, 2))
            @ self.in_triangles.T
            @ sparse.diags_array(areas)
        )
        self.gradient = self.triangles.gradient(n)
        self.rot = self.triangles.turned_edge_gradient(signs[self.triangles.corners[:, 0]])
        self._divergence = sparse.csr_array(self.gradient.T @ sparse.diags_array(areas))
        self._curl = sparse.csr_array(self.rot.T @ sparse.diags_array(areas))
        on_boundary = host(mesh.is_on_boundary)[host(bundle.cloud.curve_order)]
        labels = host(bundle.sorted_graph.components).astype(np.int64)
        self._potentials = DirectPoisson(
            self._divergence @ self.gradient,
            Components(torch.from_numpy(labels), torch.from_numpy(masses)),
            zero_at=_where(on_boundary, boundary.potential_vanishes),
        )
        edges = self.triangles
        edge_labels = labels[edges.corners[edges.first_triangle_of_edge, 0]]
        self._streams = DirectPoisson(
            self._curl @ self.rot,
            Components(torch.from_numpy(edge_labels), torch.from_numpy(edges.areas_of_edges)),
            zero_at=_where(edges.is_boundary_edge, boundary.stream_vanishes),
        )

    def solve(self, field: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The potential ``(n, c)`` and the stream function on edges ``(e, c)`` of a field on the
        triangles ``(2 f, c)``, and the harmonic rest ``(2 f, c)``."""
        potential = self._potentials.solve(self._divergence @ field)
        stream = self._streams.solve(self._curl @ field)
        harmonic = field - self.gradient @ potential - self.rot @ stream
        return potential, stream, harmonic

    def harmonic_fields(self) -> np.ndarray:
        """A basis of the harmonic fields at the vertices, ``(2 n, k)``: k is the first Betti
        number."""
        count = self.betti_number()
        trials = np.random.default_rng(0).normal(size=(self.gradient.shape[0], count))
        if not count:
            return np.zeros((2 * self.num_vertices, 0))
        return self.at_vertices @ self.solve(trials)[2]

    def betti_number(self) -> int:
        """The unknowns of fields on the triangles less those of both potentials."""
        return self.gradient.shape[0] - self._potentials.num_unknowns - self._streams.num_unknowns


def _where(on_boundary: np.ndarray, vanishes: bool) -> np.ndarray | None:
    """The places ``(m,)`` where a function is zero, None if it is free or there are none."""
    if vanishes and bool(on_boundary.any()):
        return on_boundary
    return None


class _Triangles:
    """Triangles with ``corners`` (f, 3), ``areas`` (f,), tangent bases and the gradients of the
    linear functions that are one at a corner and zero at the others; and their edges.

    Attributes: ``bases`` (f, 3, 2); ``hats`` (f, 3, 2), one gradient for each corner in the basis;
    ``edges`` (f, 3), the number of the edge opposite each corner.
    """

    def __init__(self, points: np.ndarray, corners: np.ndarray) -> None:
        first = points[corners[:, 0]]
        second = points[corners[:, 1]]
        third = points[corners[:, 2]]
        normals = np.cross(second - first, third - first)
        doubled = np.linalg.norm(normals, axis=1)
        smallest = np.finfo(float).eps * doubled.max()
        doubled = np.maximum(doubled, smallest)  # triangles without an area
        units = normals / doubled[:, None]
        sides = np.stack([third - second, first - third, second - first], axis=1)
        longest = np.linalg.norm(sides, axis=2).argmax(axis=1)
        along = sides[np.arange(len(corners)), longest]
        along = along / np.linalg.norm(along, axis=1, keepdims=True)
        self.corners = corners
        self.areas = doubled / 2
        self.bases = np.stack([along, np.cross(units, along)], axis=2)
        gradients = np.cross(units[:, None], sides) / doubled[:, None, None]
        self.hats = np.einsum("fkd,fda->fka", gradients, self.bases)
        self._number_edges()

    def _number_edges(self) -> None:
        """The number of the edge opposite each corner, and to which triangles edges belong."""
        n = int(self.corners.max()) + 1
        heads = np.roll(self.corners, -1, axis=1)
        tails = np.roll(self.corners, -2, axis=1)
        codes = np.minimum(heads, tails) * n + np.maximum(heads, tails)
        _, first, numbers, counts = np.unique(
            codes.ravel(), return_index=True, return_inverse=True, return_counts=True
        )
        self.edges = numbers.reshape(self.corners.shape)
        self.first_triangle_of_edge = first // 3
        self.is_boundary_edge = counts == 1
        self.areas_of_edges = np.bincount(self.edges.ravel(), np.repeat(self.areas / 3, 3))

    def mean_of_corners(self, frames: np.ndarray) -> sparse.csr_array:
        """The mean of the vectors at the corners, in the frames ``(n, 3, 2)`` there, as a matrix
        ``(2 f, 2 n)``."""
        blocks = np.einsum("fda,fkdb->fkab", self.bases, frames[self.corners]) / 3
        return self._matrix(blocks, self.corners, len(frames))

    def gradient(self, n: int) -> sparse.csr_array:
        """The gradient of functions on n vertices, ``(2 f, n)``."""
        return self._matrix(self.hats[..., None], self.corners, n)

    def turned_edge_gradient(self, signs: np.ndarray) -> sparse.csr_array:
        """The gradient of functions on the edges, turned by a right angle to the left of surfaces
        with the orientation ``signs`` (f,), ``(2 f, e)``.

        That function which is one at the middle of the edge opposite a corner is one less twice the
        linear function of the corner.
        """
        gradients = -2 * signs[:, None, None] * self.hats
        turned = np.stack([-gradients[..., 1], gradients[..., 0]], axis=-1)
        return self._matrix(turned[..., None], self.edges, len(self.is_boundary_edge))

    def edge_to_vertex(self, n: int) -> sparse.csr_array:
        """Functions on the edges at the n vertices ``(n, e)``: means over the triangles around,
        weighted by area."""
        rows = np.repeat(self.corners[:, :, None], 3, axis=2)
        columns = np.repeat(self.edges[:, None], 3, axis=1)
        shares = np.repeat((1.0 - 2.0 * np.eye(3))[None], len(self.corners), axis=0)
        weighted = shares * self.areas[:, None, None]
        entries = (weighted.ravel(), (rows.ravel(), columns.ravel()))
        sums = sparse.csr_array(entries, shape=(n, len(self.is_boundary_edge)))
        totals = np.bincount(self.corners.ravel(), np.repeat(self.areas, 3), minlength=n)
        return sparse.csr_array(sparse.diags_array(1.0 / totals) @ sums)

    def _matrix(self, blocks: np.ndarray, columns: np.ndarray, count: int) -> sparse.csr_array:
        """The matrix ``(2 f, p count)`` of blocks ``(f, 3, 2, p)``, three in a row."""
        num_faces = len(columns)
        p = blocks.shape[3]
        row_ends = 3 * np.arange(num_faces + 1)
        arrays = (blocks.reshape(-1, 2, p), columns.ravel(), row_ends)
        return sparse.bsr_array(arrays, shape=(2 * num_faces, p * count)).tocsr()
