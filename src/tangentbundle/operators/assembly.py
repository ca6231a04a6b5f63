"""From a weighted graph and a connection to the stored matrix of the Laplacian."""

from __future__ import annotations

import numba
import numpy as np
import torch

from ..arrays import ArrayKind
from ..graph import NeighborGraph
from ..parallel import run_ranges
from ..transport import Connection
from .laplacian import ConnectionLaplacian


@numba.njit(cache=True, nogil=True)
def _row_sums(start, stop, indptr, indices, weights, factor, out):  # pragma: no cover - compiled
    for i in range(start, stop):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += weights[e] * factor[indices[e]]
        out[i] = total * factor[i]


def normalise(graph: NeighborGraph, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Factors g with :math:`A_{ij} = g_i w_{ij} g_j`, and the mass.

    The degrees :math:`\deg_i = \sum_j w_{ij}` remove the sampling density,
    :math:`m_i = \sum_j w_{ij}/(\deg_i \deg_j)` makes rows average; :math:`g_i = 1/(\deg_i \sqrt{m_i})`.
    The mass is m, scaled to sum to one (only its ratios enter the operator).
    """
    n = graph.num_points
    degree, raw_mass = np.empty(n), np.empty(n)
    run_ranges(_row_sums, n, graph.indptr, graph.indices, weights, np.ones(n), degree)
    run_ranges(_row_sums, n, graph.indptr, graph.indices, weights, 1.0 / degree, raw_mass)
    return 1.0 / (degree * np.sqrt(raw_mass)), raw_mass / raw_mass.sum()


def assemble(
    graph: NeighborGraph,
    connection: Connection,
    weights: np.ndarray,
    scale: float,
    order: np.ndarray,
    kind: ArrayKind,
) -> ConnectionLaplacian:
    """Store ``A_ij = g_i w_ij g_j O_ij`` compactly in the wanted precision.

    ``graph``, ``connection`` and ``weights`` are in curve order; ``order[k]`` is the user's index of
    the k-th point on the curve.
    """
    factor, mass = normalise(graph, weights)
    real = np.float32 if kind.dtype == torch.float32 else np.float64
    rank = connection.dim
    cols = np.where(connection.det < 0, ~graph.indices, graph.indices) if rank == 2 else graph.indices
    maps = connection.values if rank == 2 else connection.blocks()
    values = np.empty(maps.shape, real)

    def weigh(start, stop):
        a, b = graph.indptr[start], graph.indptr[stop]
        g = np.repeat(factor[start:stop], graph.degrees[start:stop])
        w = weights[a:b] * g * factor[graph.indices[a:b]]
        values[a:b] = maps[a:b] * w.reshape(-1, *([1] * (maps.ndim - 1)))

    run_ranges(weigh, graph.num_points)
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    laplacian = ConnectionLaplacian(
        indptr=torch.from_numpy(graph.indptr),
        cols=torch.from_numpy(np.ascontiguousarray(cols, dtype=np.int32)),
        values=torch.from_numpy(values),
        root_mass=torch.from_numpy(np.sqrt(mass).astype(real)),
        order=torch.from_numpy(order),
        inverse_order=torch.from_numpy(inverse),
        scale=scale,
        rank=rank,
        kind=kind,
    )
    return laplacian.to(kind.device)
