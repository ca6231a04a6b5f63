r"""Singular points of direction fields on triangles, of a mesh or between the points of a cloud.

Along the sides of a triangle the power u turns by :math:`\omega_{ij} = \arg(\bar u_i\, r_{ij} u_j)`
against transport, and transport around it turns vectors by its curvature :math:`\Omega`, so powers
by :math:`n\,\Omega`. The number of turns

.. math:: \frac{1}{2\pi} \Big( n\,\Omega + \sum_{ij} \omega_{ij} \Big)

is an integer, and n times the index. Each side counts in two triangles with opposite signs: on a
closed surface the sum of all indices is that of the curvatures over :math:`2\pi`, the Euler
characteristic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..arrays import host
from ..bundle import TangentBundle
from ..calculus import SingularPoints
from ..calculus.flow import check_indices
from ..geometry.graph import NeighborGraph
from ..geometry.mesh import IntrinsicTriangles
from ..geometry.transport import Connection, connect
from ..geometry.triangulation import triangulate


@dataclass(frozen=True, eq=False)
class TriangleConnection:
    r"""Transport along the sides of triangles, everything along the curve.

    Attributes: ``corners`` (f, 3); ``rotations`` (f, 3), unit complex numbers, and ``reflects``
    (f, 3): vectors at the next corner come to each corner by
    :math:`z \mapsto r z` or :math:`z \mapsto r \bar z`; ``senses`` (f, 3), -1 where the frame of a
    corner sees the triangle clockwise; ``curvature`` (f,).
    """

    corners: np.ndarray
    rotations: np.ndarray
    reflects: np.ndarray
    senses: np.ndarray
    curvature: np.ndarray

    @classmethod
    def of_mesh(cls, bundle: TangentBundle, triangles: IntrinsicTriangles) -> TriangleConnection:
        """That of the Delaunay triangles of a mesh."""
        order = host(bundle.cloud.curve_order)
        corners = np.argsort(order)[triangles.faces]
        rotations, reflects = _along_sides(bundle.sorted_graph, bundle.connection, corners)
        return cls(
            corners=corners,
            rotations=rotations,
            reflects=reflects,
            senses=triangles.senses[order][corners],
            curvature=triangles.curvature,
        )

    @classmethod
    def of_cloud(cls, bundle: TangentBundle) -> TriangleConnection:
        """That of triangles between the points of a cloud, which has the transport between their
        tangent planes."""
        assert bundle.tangent_frames is not None, "triangles lie on tangent planes"
        matrices = bundle.tangent_frames.matrices.cpu()
        frames = host(matrices)
        corners = triangulate(bundle.cloud, frames)
        graph = _graph_of_sides(corners, bundle.num_points)
        rotations, reflects = _along_sides(graph, connect(matrices, graph), corners)
        points = host(bundle.cloud.points)
        senses = np.stack([_areas(points, frames, np.roll(corners, -k, 1)) for k in range(3)], 1)
        senses = np.where(senses < 0, -1.0, 1.0)
        return cls(
            corners=corners,
            rotations=rotations,
            reflects=reflects,
            senses=senses,
            curvature=_curvature(rotations, reflects, senses),
        )

    def products(self, u: np.ndarray, order: int) -> np.ndarray:
        r"""The products :math:`\bar u_i\, r_{ij} u_j` of powers ``(n,)`` along the sides, from each
        corner to the next, ``(f, 3)``; in the orientation of the triangles."""
        at_next = u[np.roll(self.corners, -1, axis=1)]
        transported = self.rotations**order * np.where(self.reflects, at_next.conj(), at_next)
        products = u[self.corners].conj() * transported
        return np.where(self.senses < 0, products.conj(), products)


def singular_triangles(
    bundle: TangentBundle,
    triangles: TriangleConnection,
    powers: Tensor,
    *,
    order: int,
    euler: int | None,
) -> SingularPoints:
    """The singular points of powers ``(n, 2, 1)`` in the user's order, with their indices."""
    along_curve = powers[bundle.cloud.curve_order.cpu()]
    u = torch.complex(along_curve[:, 0, 0], along_curve[:, 1, 0]).numpy()
    sides = triangles.products(u, order)
    turns = order * triangles.curvature + np.angle(sides).sum(axis=1)
    counts = np.rint(turns / (2 * np.pi)).astype(np.int64)
    singular = np.flatnonzero(counts)
    corners = triangles.corners[singular]
    shares = _shares_of_corners(np.abs(u[corners]), np.angle(sides[singular]))
    index = counts[singular] / order
    check = check_indices(bundle, index, euler)
    return SingularPoints(
        positions=np.einsum("fk,fkd->fd", shares, host(bundle.cloud.points)[corners]),
        index=index,
        euler=check.euler,
        check=check.text,
    )


def _graph_of_sides(corners: np.ndarray, n: int) -> NeighborGraph:
    """The graph of the sides of triangles, in both directions."""
    following = np.roll(corners, -1, axis=1)
    forward = corners.ravel() * n + following.ravel()
    backward = following.ravel() * n + corners.ravel()
    keys = np.unique(np.concatenate([forward, backward]))
    degrees = np.bincount(keys // n, minlength=n)
    return NeighborGraph(
        indptr=torch.from_numpy(np.append(0, np.cumsum(degrees))),
        indices=torch.from_numpy((keys % n).astype(np.int32)),
        distances=torch.empty(0, dtype=torch.float64),
    )


def _along_sides(
    graph: NeighborGraph, connection: Connection, corners: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The maps from each corner's next one, of a connection on a graph whose edges are sorted:
    rotations ``(f, 3)``, and whether they reflect."""
    n = graph.num_points
    keys = host(graph.rows) * n + host(graph.indices)
    edges = np.searchsorted(keys, corners * n + np.roll(corners, -1, axis=1))
    values = host(connection.values).astype(float)[edges]
    return values[..., 0] + 1j * values[..., 1], host(connection.det)[edges] < 0


def _areas(points: np.ndarray, frames: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Twice the areas ``(f,)`` of triangles, with a sign, in the frames of their first corners."""
    start = points[corners[:, 0]]
    frame = frames[corners[:, 0]]
    first = np.einsum("fd,fda->fa", points[corners[:, 1]] - start, frame)
    second = np.einsum("fd,fda->fa", points[corners[:, 2]] - start, frame)
    return first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]


def _curvature(rotations: np.ndarray, reflects: np.ndarray, senses: np.ndarray) -> np.ndarray:
    """The angle ``(f,)`` by which transport turns a vector on its way around triangles, through the
    corners in their order."""
    vector = np.ones(len(rotations), complex)
    for k in (2, 1, 0):  # from the first corner to the last one, and back to the first
        vector = rotations[:, k] * np.where(reflects[:, k], vector.conj(), vector)
    against_order = np.angle(vector)
    return -senses[:, 0] * against_order


def _shares_of_corners(lengths: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Barycentric coordinates ``(m, 3)`` of the zeros of linear functions with these ``lengths``
    (m, 3) at the corners and ``turns`` (m, 3) along the sides; those of the centre where a corner
    vanishes.

    The share of a corner is the area of the triangle of the values at both others and zero.
    """
    areas = np.abs(lengths * np.roll(lengths, -1, axis=1) * np.sin(turns))
    shares = np.roll(areas, -1, axis=1)
    total = shares.sum(axis=1, keepdims=True)
    is_regular = total > 0
    return np.where(is_regular, shares / np.where(is_regular, total, 1.0), 1.0 / 3.0)
