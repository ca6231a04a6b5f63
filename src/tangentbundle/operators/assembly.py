"""From a weighted graph and a connection to the stored matrix of the Laplacian."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from numba import njit
from torch.nn.functional import pad

from ..arrays import ArrayKind
from ..errors import IsolatedPointsError
from ..geometry.graph import NeighborGraph
from ..geometry.transport import Connection
from ..parallel import run_ranges
from .joined import lazy
from .laplacian import ConnectionLaplacian
from .moments import chebyshev_moments
from .storage import BlockMatrix

FAINT = 1e-10
"""A degree below this share of the median counts as none: its point would outweigh all others."""


@dataclass(frozen=True)
class Normalization:
    r"""A graph Laplacian :math:`L = D^r (I - P)` of weights W with degrees D; self-adjoint in the mass :math:`D^{m-r}`.

    .. math:: P = D^{-m-q}\, W D^{-q}.
    """

    q: float = 0.0
    m: float = 0.0
    r: float = 0.0

    def factors(self, degree: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""The vectors :math:`D^q`, :math:`D^m` and :math:`D^r`."""
        return degree**self.q, degree**self.m, degree**self.r

    def fastest(self, rate: np.ndarray) -> float:
        """Half a bound of the eigenvalues of L."""
        return float(rate.max())


@dataclass(frozen=True)
class VertexAreas(Normalization):
    r"""The Laplacian :math:`L = A^{-1}(D - W)` of a mesh, with areas A of the vertices as mass.

    ``bound`` is half a bound of its eigenvalues: a few weights at boundaries may be negative.
    """

    areas: np.ndarray | None = None
    bound: float = 0.0

    def factors(self, degree: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.ones_like(degree), degree, degree / self.areas

    def fastest(self, rate: np.ndarray) -> float:
        return self.bound


def RandomWalk() -> Normalization:
    """:math:`L = I - D^{-1} W`; the density of the points stays in its limit as a drift."""
    return Normalization(m=1.0)


def Symmetric() -> Normalization:
    """:math:`L = I - D^{-1/2} W D^{-1/2}`."""
    return Normalization(q=0.5)


def Unnormalized() -> Normalization:
    """:math:`L = D - W`."""
    return Normalization(m=1.0, r=1.0)


@njit(cache=True, nogil=True)
def row_sums(start, stop, indptr, indices, weights, factor, out):  # pragma: no cover - compiled
    for i in range(start, stop):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += weights[e] * factor[indices[e]]
        out[i] = total * factor[i]


@njit(cache=True, nogil=True)
def _weigh(start, stop, graph, factors, weights, maps, flip, cols, values):  # pragma: no cover - compiled
    """Weigh the maps ``(e, k)`` of each edge; the columns of reflections are complemented where asked for."""
    indptr, indices, det = graph
    left, right = factors
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            cols[e] = ~j if flip and det[e] < 0 else j
            weight = left[i] * (weights[e] * right[j])
            for k in range(maps.shape[1]):
                values[e, k] = maps[e, k] * weight


@singledispatch
def normalise(graph: NeighborGraph, weights: Any) -> tuple[Any, Any]:
    r"""Degrees :math:`\deg_i = \sum_j w_{ij}` and mass :math:`m_i = \sum_j w_{ij}/(\deg_i \deg_j)`.

    Dividing by the degrees removes the sampling density; dividing rows by the mass makes them averages. The mass goes
    as one over the density, so that sums weighted by it are integrals over the manifold.
    """
    n = graph.num_points
    degree, mass = np.empty(n), np.empty(n)
    run_ranges(row_sums, n, graph.indptr, graph.indices, weights, np.ones(n), degree)
    refuse_faint(int((~(degree > FAINT * np.median(degree))).sum()), n)
    run_ranges(row_sums, n, graph.indptr, graph.indices, weights, 1.0 / degree, mass)
    return degree, mass


def refuse_faint(faint: int, n: int) -> None:
    """Refuse points whose degree is next to nothing."""
    if faint:
        raise IsolatedPointsError(
            f"the kernel gives {faint} of {n} points no weight to speak of: their neighbours lie at the rim of "
            "its support. Use a larger eps, more neighbors, or a kernel that falls off less steeply."
        )


@singledispatch
def average_blocks(
    graph: NeighborGraph,
    connection: Connection,
    weights: Any,
    degree: Any,
    mass: Any,
    real: type,
) -> tuple[Any, Any]:
    r"""Columns and values of :math:`P_{ij} = w_{ij} O_{ij} / (m_i \deg_i \deg_j)`, as ``BlockMatrix`` stores them."""
    left, right, rank = 1.0 / (degree * mass), 1.0 / degree, connection.dim
    maps = connection.values if rank == 2 else connection.blocks()
    cols: np.ndarray = np.empty(graph.num_edges, np.int32)
    values: np.ndarray = np.empty(maps.shape, real)
    run_ranges(
        _weigh,
        graph.num_points,
        (graph.indptr, graph.indices, connection.det),
        (left, right),
        weights,
        maps.reshape(graph.num_edges, -1),
        rank == 2,
        cols,
        values.reshape(graph.num_edges, -1),
    )
    return cols, values


@singledispatch
def coordinate_moments(graph: NeighborGraph, weights: Any, points: Any, terms: int) -> np.ndarray:
    r"""Moments :math:`\sum_a \langle x_a, T_m(P)\, x_a \rangle` ``(2 terms - 1,)``; P averages functions."""
    degree, mass = normalise(graph, weights)
    line = Connection.identity(graph.num_edges)
    cols, values = average_blocks(graph, line, weights, degree, mass, np.float64)
    order = np.arange(len(points), dtype=np.int32)
    matrix = BlockMatrix(*map(torch.from_numpy, (graph.indptr, cols, values, order)))
    labels = graph.components()  # each component about its own mean: constants on them have no energy
    centres = np.stack([np.bincount(labels, column) for column in points.T], axis=1) / np.bincount(labels)[:, None]
    x = pad(torch.from_numpy(points - centres[labels]), (0, -points.shape[1] % 4))[:, None, :]  # fours are fast
    return chebyshev_moments(matrix, torch.from_numpy(mass / mass.sum()), x, terms).sum(axis=1)


def assemble(
    graph: NeighborGraph,
    connection: Connection,
    weights: Any,
    scale: float,
    order: Any,
    kind: ArrayKind,
    frames: Any = None,
    normalization: Normalization | None = None,
    terms: int = 1,
) -> ConnectionLaplacian:
    r"""The Laplacian of a graph and a connection, compactly in the wanted precision.

    ``graph``, ``connection``, ``weights`` and ``frames`` are in curve order; ``order[k]`` is the user's index of
    the k-th point on the curve. By default the sampling density is divided out.
    """
    degree, mass = normalise(graph, weights)
    rate, fastest, real = mass / mass, 1.0, kind.numpy_dtype
    if normalization is not None:
        degree, mass, rate = normalization.factors(degree)
        fastest = normalization.fastest(rate)
    cols, values = map(torch.as_tensor, average_blocks(graph, connection, weights, degree, mass, real))
    share, places = torch.as_tensor(mass / rate), torch.as_tensor(order)
    laplacian = ConnectionLaplacian(
        indptr=torch.as_tensor(vars(graph)["indptr"]),
        cols=cols,
        values=values,
        order=places.int(),
        mass=torch.empty_like(share).index_copy_(0, places, share / share.sum()).to(values.dtype),
        scale=scale / fastest,
        dim=connection.dim,
        kind=kind,
        sorted_frames=frames,
        terms=terms,
    )
    return lazy(laplacian, torch.as_tensor(rate / fastest).to(values.dtype)).to(kind.device)
