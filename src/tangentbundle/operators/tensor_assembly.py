"""The steps of ``assembly.py`` for graphs in the memory of a device."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from ..geometry.tensor_cloud import TensorCloud
from ..geometry.tensor_frames import TensorConnection
from ..geometry.tensor_graph import TensorGraph, row_sums
from .assembly import FAINT, average_blocks, coordinate_moments, normalise, refuse_faint
from .moments import moments_from_products

Tensor = torch.Tensor

MAX_COLUMNS = 8
"""Up to so many columns, cuSPARSE multiplies faster with one at a time."""


@normalise.register
def _normalise(graph: TensorGraph, weights: Tensor) -> tuple[Tensor, Tensor]:
    indptr, indices, _ = graph.tensors
    degree = row_sums(indptr, weights)
    refuse_faint(int((~(degree > FAINT * degree.median())).sum()), graph.num_points)
    return degree, row_sums(indptr, weights / degree[indices]) / degree


def _edge_factors(graph: TensorGraph, weights: Tensor, degree: Tensor, mass: Tensor) -> Tensor:
    return (1.0 / (degree * mass))[graph.edge_rows] * (weights / degree[graph.tensors[1]])


@average_blocks.register
def _average_blocks(
    graph: TensorGraph, connection: TensorConnection, weights: Tensor, degree: Tensor, mass: Tensor, real: type
) -> tuple[Tensor, Tensor]:
    (maps, det), cols = connection.tensors, graph.tensors[1]
    factors = _edge_factors(graph, weights, degree, mass).to(maps.dtype)
    if connection.dim == 1:
        return cols, (factors * det)[:, None, None]
    if connection.dim == 2:
        return torch.where(det < 0, ~cols, cols), factors[:, None] * maps
    return cols, factors[:, None, None] * maps


@coordinate_moments.register
def _coordinate_moments(graph: TensorGraph, weights: Tensor, points: TensorCloud, terms: int) -> np.ndarray:
    x = points.coordinates.double() * points.unit
    return moments_of_clouds(graph, weights, x, torch.zeros_like(graph.labels), terms)[:, 0]


def moments_of_clouds(graph: TensorGraph, weights: Tensor, x: Tensor, cloud: Tensor, terms: int) -> np.ndarray:
    r"""Moments :math:`\sum_a \langle x_a, T_m(P)\, x_a \rangle` ``(2 terms - 1, clouds)``, with cloud numbers (n,)."""
    degree, mass = normalise(graph, weights)
    n, labels, clouds = graph.num_points, graph.labels, int(cloud.max()) + 1
    with warnings.catch_warnings():  # torch calls its sparse matrices a beta version
        warnings.simplefilter("ignore", UserWarning)
        factors = _edge_factors(graph, weights, degree, mass)
        average = torch.sparse_csr_tensor(graph.tensors[0], graph.tensors[1].long(), factors, size=(n, n))

    def product(a: Tensor, b: Tensor) -> Tensor:
        return sums_by(cloud, shares * (a * b).sum(1), clouds)

    means = sums_by(labels, x, graph.num_components) / torch.bincount(labels)[:, None]
    x = x - means[labels]  # each component about its own mean
    shares = mass / sums_by(cloud, mass, clouds)[cloud]
    previous, current, squares, neighbors = x, x, [product(x, x)], []
    for m in range(1, terms):
        few = x.shape[1] <= MAX_COLUMNS
        image = torch.stack([average @ column for column in current.T], 1) if few else average @ current
        previous, current = current, image if m == 1 else 2 * image - previous
        squares.append(product(current, current))
        neighbors.append(product(previous, current))
    found = (torch.stack(products).cpu().numpy() for products in (squares, neighbors))
    return moments_from_products(*found)


def sums_by(labels: Tensor, values: Tensor, count: int) -> Tensor:
    """Sums of the rows with each of ``count`` labels."""
    if count == 1:
        return values.sum(0, keepdim=True)
    return values.new_zeros((count, *values.shape[1:])).index_add_(0, labels, values)
