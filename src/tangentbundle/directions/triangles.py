r"""Singular points of direction fields on the triangles of a mesh.

Along the sides of a triangle the power u turns by :math:`\omega_{ij} = \arg(\bar u_i\, r_{ij} u_j)`
against transport, and transport around it turns vectors by its curvature :math:`\Omega`, so powers
by :math:`n\,\Omega`. The number of turns

.. math:: \frac{1}{2\pi} \Big( n\,\Omega + \sum_{ij} \omega_{ij} \Big)

is an integer, and n times the index. Each side counts in two triangles with opposite signs: on a
closed mesh the sum of all indices is that of the curvatures over :math:`2\pi`, the Euler
characteristic.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..arrays import host
from ..bundle import TangentBundle
from ..calculus import SingularPoints
from ..calculus.flow import check_indices
from ..geometry.mesh import IntrinsicTriangles


def singular_triangles(
    bundle: TangentBundle,
    triangles: IntrinsicTriangles,
    powers: Tensor,
    *,
    order: int,
    euler: int | None,
) -> SingularPoints:
    """The singular points of powers ``(n, 2, 1)`` on the triangles of a mesh, with their
    indices."""
    u = torch.complex(powers[:, 0, 0], powers[:, 1, 0]).numpy()
    sides = _products_along_sides(bundle, triangles, u, order)
    turns = order * triangles.curvature + np.angle(sides).sum(axis=1)
    counts = np.rint(turns / (2 * np.pi)).astype(np.int64)
    singular = np.flatnonzero(counts)
    corners = triangles.faces[singular]
    points = host(torch.as_tensor(bundle.points)).astype(float)
    shares = _shares_of_corners(np.abs(u[corners]), np.angle(sides[singular]))
    index = counts[singular] / order
    check = check_indices(bundle, index, euler)
    return SingularPoints(
        positions=np.einsum("fk,fkd->fd", shares, points[corners]),
        index=index,
        euler=check.euler,
        check=check.text,
    )


def _products_along_sides(
    bundle: TangentBundle, triangles: IntrinsicTriangles, u: np.ndarray, order: int
) -> np.ndarray:
    r"""The products :math:`\bar u_i\, r_{ij} u_j` along the sides of the triangles, from each
    corner to the next, ``(f, 3)``; in the orientation of the triangles."""
    n = len(u)
    graph = bundle.sorted_graph
    connection = bundle.connection.power(order)
    values = connection.values.double().numpy()
    keys = graph.rows.numpy() * n + graph.indices.numpy()  # ascending
    places = np.argsort(bundle.cloud.curve_order.numpy())
    tails = triangles.faces
    heads = np.roll(tails, -1, axis=1)
    edges = np.searchsorted(keys, places[tails] * n + places[heads])
    is_reflected = connection.det.numpy()[edges] < 0
    at_heads = np.where(is_reflected, u[heads].conj(), u[heads])
    transported = (values[edges, 0] + 1j * values[edges, 1]) * at_heads
    products = u[tails].conj() * transported
    return np.where(triangles.senses[tails] < 0, products.conj(), products)


def _shares_of_corners(lengths: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Barycentric coordinates ``(m, 3)`` of the zeros of linear functions with these ``lengths``
    (m, 3) at the corners and ``turns`` (m, 3) along the sides; those of the centre where a corner
    vanishes.

    The share of a corner is the area of the triangle of the values at both others and zero.
    """
    next_lengths = np.roll(lengths, -1, axis=1)
    areas = np.abs(lengths * next_lengths * np.sin(turns))
    shares = np.roll(areas, -1, axis=1)
    total = shares.sum(axis=1, keepdims=True)
    is_regular = total > 0
    return np.where(is_regular, shares / np.where(is_regular, total, 1.0), 1.0 / 3.0)
