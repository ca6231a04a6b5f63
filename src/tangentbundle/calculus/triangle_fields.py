r"""The Helmholtz-Hodge decomposition on triangles, of a mesh or between the points of a cloud.

Fields that are constant on each triangle are orthogonal sums of

* gradients of functions that are linear on triangles and continuous,
* turned gradients of functions that are linear on triangles and continuous at the middles of edges
  (Crouzeix and Raviart), and
* harmonic fields, of which there are as many as the first Betti number says.

At a boundary one kind of functions vanishes, and the numbers are right for both conditions (Poelke
and Polthier, 2016, "Boundary-aware Hodge decompositions for piecewise constant vector fields"). A
field on the vertices becomes one on triangles by the mean P of the three corners. Its parts come
back by the adjoint :math:`Q = M^{-1} P^T A`, the mean of the triangles around a vertex.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

from ..arrays import host
from ..errors import RankDeficientError
from ..geometry.cloud import PointCloud
from ..geometry.triangulation import triangulate
from ..memory import require_memory
from ..operators.poisson import Components, DirectPoisson
from .boundary_conditions import BoundaryCondition
from .parts import FieldMaps, Split

BYTES_PER_POINT = 600.0
"""Memory of both factorisations, times the binary logarithm of the number of vertices: 1.2 GB for
a hundred thousand."""


class Triangles:
    """Oriented triangles with ``corners`` (f, 3) between points ``(n, D)``, their edges, and
    derivatives of functions that are linear on each.

    Attributes: ``areas`` (f,); ``bases`` (f, D, 2), tangent bases; ``hats`` (f, 3, 2), the gradient
    of the linear function that is one at a corner and zero at the others, in the basis; ``edges``
    (f, 3), the number of the edge opposite each corner; ``is_boundary_edge`` (e,).
    """

    def __init__(self, points: np.ndarray, corners: np.ndarray) -> None:
        self.num_points = len(points)
        self.corners = corners
        first = points[corners[:, 0]]
        along = points[corners[:, 1]] - first
        other = points[corners[:, 2]] - first
        length = np.linalg.norm(along, axis=1)
        along = along / length[:, None]
        x = np.einsum("fd,fd->f", other, along)
        across = other - x[:, None] * along
        y = np.linalg.norm(across, axis=1)
        y = np.maximum(y, np.finfo(float).eps * length.max())  # triangles without an area
        self.areas = length * y / 2
        self.bases = np.stack([along, across / y[:, None]], axis=2)
        places = np.zeros((len(corners), 3, 2))
        places[:, 1, 0] = length
        places[:, 2, 0] = x
        places[:, 2, 1] = y
        opposite = np.roll(places, 1, axis=1) - np.roll(places, -1, axis=1)
        turned = np.stack([-opposite[..., 1], opposite[..., 0]], axis=-1)
        self.hats = turned / (2 * self.areas)[:, None, None]
        self._number_edges()

    def _number_edges(self) -> None:
        """The number of the edge opposite each corner, and which edges have one triangle."""
        heads = np.roll(self.corners, -1, axis=1)
        tails = np.roll(self.corners, -2, axis=1)
        codes = np.minimum(heads, tails) * self.num_points + np.maximum(heads, tails)
        _, first, numbers, counts = np.unique(
            codes.ravel(), return_index=True, return_inverse=True, return_counts=True
        )
        self.edges = numbers.reshape(self.corners.shape)
        self.is_boundary_edge = counts == 1
        self.corner_of_edge = heads.ravel()[first]

    @property
    def num_edges(self) -> int:
        return len(self.is_boundary_edge)

    def on_boundary(self) -> np.ndarray:
        """Whether each point lies on the boundary, ``(n,)``."""
        ends = np.stack([np.roll(self.corners, -1, axis=1), np.roll(self.corners, -2, axis=1)], -1)
        is_on_boundary = np.zeros(self.num_points, bool)
        is_on_boundary[ends[self.is_boundary_edge[self.edges]]] = True
        return is_on_boundary

    def areas_of_points(self) -> np.ndarray:
        """A third of the triangles around each point, ``(n,)``."""
        thirds = np.repeat(self.areas / 3, 3)
        return np.bincount(self.corners.ravel(), thirds, minlength=self.num_points)

    def areas_of_edges(self) -> np.ndarray:
        """A third of the triangles at each edge, ``(e,)``."""
        thirds = np.repeat(self.areas / 3, 3)
        return np.bincount(self.edges.ravel(), thirds, minlength=self.num_edges)

    def components(self) -> np.ndarray:
        """The number of each point's component, ``(n,)``."""
        heads = np.roll(self.corners, -1, axis=1)
        ends = (self.corners.ravel(), heads.ravel())
        shape = (self.num_points, self.num_points)
        edges = sparse.coo_array((np.ones(self.corners.size), ends), shape=shape)
        return csgraph.connected_components(edges, directed=False)[1].astype(np.int64)

    def mean_of_corners(self, frames: np.ndarray) -> sparse.csr_array:
        """The mean of the vectors at the corners, in the frames ``(n, D, 2)`` there, as a matrix
        ``(2 f, 2 n)``."""
        blocks = np.einsum("fda,fkdb->fkab", self.bases, frames[self.corners]) / 3
        return self._matrix(blocks, self.corners, self.num_points)

    def gradient(self) -> sparse.csr_array:
        """The gradient of functions on the points, ``(2 f, n)``."""
        return self._matrix(self.hats[..., None], self.corners, self.num_points)

    def edge_gradient(self) -> sparse.csr_array:
        """The gradient of functions on the edges, ``(2 f, e)``.

        The function that is one at the middle of the edge opposite a corner, and zero at those of
        the others, is one less twice the linear function of the corner.
        """
        return self._matrix(-2 * self.hats[..., None], self.edges, self.num_edges)

    def _matrix(self, blocks: np.ndarray, columns: np.ndarray, count: int) -> sparse.csr_array:
        """The matrix ``(2 f, p count)`` of blocks ``(f, 3, 2, p)``, three in a row."""
        p = blocks.shape[3]
        row_ends = 3 * np.arange(len(columns) + 1)
        arrays = (blocks.reshape(-1, 2, p), columns.ravel(), row_ends)
        return sparse.bsr_array(arrays, shape=(2 * len(columns), p * count)).tocsr()


class TrianglePotentials:
    """Potentials and stream functions at the points of triangles, whose matrices are factorised
    once.

    Args:
        triangles: oriented, if stream functions are asked for.
        frames: tangent bases ``(n, D, 2)`` of fields at the points.
        boundary: which functions vanish at the boundary.

    ``mass`` (n,) sums to one.
    """

    def __init__(
        self, triangles: Triangles, frames: np.ndarray, boundary: BoundaryCondition
    ) -> None:
        n = triangles.num_points
        require_memory(
            BYTES_PER_POINT * n * np.log2(n + 2),
            f"decomposing fields on triangles between {n} points",
            "Use fewer points.",
        )
        areas = triangles.areas_of_points()
        self.mass = areas / areas.sum()
        weights = sparse.diags_array(np.repeat(triangles.areas, 2))
        gradient = triangles.gradient()
        means = triangles.mean_of_corners(frames)
        self._sources = sparse.csr_array(gradient.T @ weights @ means)
        self._vortices = sparse.csr_array(_turned_rows(gradient).T @ weights @ means)
        stiffness = sparse.csr_array(gradient.T @ weights @ gradient)
        on_boundary = triangles.on_boundary()
        labels = torch.from_numpy(triangles.components())
        components = Components(labels, torch.from_numpy(areas))
        self._free = DirectPoisson(stiffness, components)
        self._fixed = self._free
        if on_boundary.any():
            self._fixed = DirectPoisson(stiffness, components, zero_at=on_boundary)
        self._boundary = boundary

    def potential(self, field: np.ndarray) -> np.ndarray:
        """The potential ``(n, c)`` of a field at the points ``(2 n, c)``."""
        return self._solver(self._boundary.potential_vanishes).solve(self._sources @ field)

    def stream(self, field: np.ndarray) -> np.ndarray:
        """The stream function ``(n, c)`` of a field at the points ``(2 n, c)``."""
        return self._solver(self._boundary.stream_vanishes).solve(self._vortices @ field)

    def _solver(self, vanishes: bool) -> DirectPoisson:
        if vanishes:
            return self._fixed
        return self._free


def _turned_rows(gradient: sparse.csr_array) -> sparse.csr_array:
    """A map to fields on triangles ``(2 f, m)``, turned to the left by a right angle."""
    num_rows = gradient.shape[0]
    quarter_turn = sparse.csr_array(np.array([[0.0, -1.0], [1.0, 0.0]]))
    turns = sparse.kron(sparse.eye_array(num_rows // 2), quarter_turn)
    return sparse.csr_array(turns @ gradient)


def harmonic_basis(
    triangles: Triangles, frames: np.ndarray, boundary: BoundaryCondition
) -> np.ndarray:
    """Harmonic fields at the points, ``(2 n, k)``: k is the first Betti number, the dimension of
    fields on triangles less those of both kinds of gradients."""
    labels = triangles.components()
    weights = sparse.diags_array(np.repeat(triangles.areas, 2))
    kinds = [
        (
            triangles.gradient(),
            Components(torch.from_numpy(labels), torch.from_numpy(triangles.areas_of_points())),
            _zeros(triangles.on_boundary(), boundary.potential_vanishes),
        ),
        (
            _turned_rows(triangles.edge_gradient()),
            Components(
                torch.from_numpy(labels[triangles.corner_of_edge]),
                torch.from_numpy(triangles.areas_of_edges()),
            ),
            _zeros(triangles.is_boundary_edge, boundary.stream_vanishes),
        ),
    ]
    num_fields = 2 * len(triangles.areas)
    solvers = []
    for gradient, components, zero_at in kinds:
        stiffness = gradient.T @ weights @ gradient
        solvers.append(DirectPoisson(stiffness, components, zero_at=zero_at))
    betti = num_fields - sum(solver.num_unknowns for solver in solvers)
    fields = np.random.default_rng(0).normal(size=(num_fields, betti))
    for (gradient, _, _), solver in zip(kinds, solvers, strict=True):
        fields = fields - gradient @ solver.solve(gradient.T @ weights @ fields)
    areas = np.repeat(triangles.areas_of_points(), 2)
    sums = triangles.mean_of_corners(frames).T @ weights @ fields
    return sums / areas[:, None]


def _zeros(on_boundary: np.ndarray, vanishes: bool) -> np.ndarray | None:
    """The places ``(m,)`` where a function is zero, None if it is free or there are none."""
    if vanishes and bool(on_boundary.any()):
        return on_boundary
    return None


class TriangleSplit(Split):
    """Potentials are found on triangles, and their gradients by polynomials."""

    def __init__(
        self, maps: FieldMaps, potentials: TrianglePotentials, device: torch.device
    ) -> None:
        self.maps = maps
        self.potentials = potentials
        self.mass = torch.from_numpy(potentials.mass).to(device)

    def step(self, field: Tensor, tol: float) -> tuple[Tensor, Tensor]:
        values = host(field.flatten(0, 1))
        solutions = [self.potentials.potential(values)]
        if self.maps.signs is not None:
            solutions.append(self.potentials.stream(values))
        potentials = torch.from_numpy(np.stack(solutions, axis=1)).to(field.device)
        return potentials, self.maps.images(potentials)


def mesh_triangles(
    cloud: PointCloud, faces: np.ndarray, senses: np.ndarray, signs: np.ndarray
) -> np.ndarray:
    """The triangles ``faces`` (f, 3) of a mesh as numbers along the curve, in the orientation of
    frames with ``signs`` (n,); ``senses`` (n,) say which frames see them from behind."""
    order = host(cloud.curve_order)
    corners = np.argsort(order)[faces]
    is_turned = (signs * senses[order])[corners[:, 0]] < 0
    corners[is_turned] = corners[is_turned, ::-1]
    return corners


def cloud_triangles(cloud: PointCloud, frames: np.ndarray, signs: np.ndarray | None) -> np.ndarray:
    """Triangles between the points of a cloud, as numbers along the curve, in the orientation of
    frames with ``signs`` (n,), if they have one."""
    corners = triangulate(cloud, frames)
    has_triangle = np.zeros(len(frames), bool)
    has_triangle[corners] = True
    if not has_triangle.all():
        missing = torch.from_numpy(np.flatnonzero(~has_triangle))
        _, first = cloud.first_number(missing)
        raise RankDeficientError(
            f"no triangles were found at {len(missing)} of {len(frames)} points (first: {first}, "
            "counted from 0): they are outliers, or their density changes from point to point. "
            "Remove them, or give a mesh."
        ).at_point(first)
    if signs is None:
        return corners
    points = host(cloud.points)
    frame = frames[corners[:, 0]]
    first_sides = np.einsum("fd,fda->fa", points[corners[:, 1]] - points[corners[:, 0]], frame)
    second_sides = np.einsum("fd,fda->fa", points[corners[:, 2]] - points[corners[:, 0]], frame)
    areas = first_sides[:, 0] * second_sides[:, 1] - first_sides[:, 1] * second_sides[:, 0]
    is_turned = areas * signs[corners[:, 0]] < 0
    corners[is_turned] = corners[is_turned, ::-1]
    return corners
