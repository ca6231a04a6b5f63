"""From a weighted graph and a connection to the stored matrix of the Laplacian."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..arrays import ArrayKind
from ..errors import IsolatedPointsError
from ..geometry.graph import NeighborGraph
from ..geometry.transport import Connection
from .calibration import Generator
from .laplacian import Laplacian
from .moments import chebyshev_moments, sums_by
from .storage import BlockMatrix

FAINT = 1e-10
"""A degree below this share of the median counts as none: its point would outweigh all others."""


@dataclass(frozen=True)
class Normalization:
    r"""A graph Laplacian :math:`L = D^r (I - P)` of weights W with degrees D; self-adjoint in the
    mass :math:`D^{m-r}`.

    .. math:: P = D^{-m-q}\, W D^{-q}.
    """

    q: float = 0.0
    m: float = 0.0
    r: float = 0.0


def RandomWalk() -> Normalization:
    """:math:`L = I - D^{-1} W`; the density of the points stays in its limit as a drift."""
    return Normalization(m=1.0)


def Symmetric() -> Normalization:
    """:math:`L = I - D^{-1/2} W D^{-1/2}`."""
    return Normalization(q=0.5)


def Unnormalized() -> Normalization:
    """:math:`L = D - W`."""
    return Normalization(m=1.0, r=1.0)


def row_sums(indptr: Tensor, values: Tensor) -> Tensor:
    """Sums over the edges of each row, ``(e,)`` to ``(n,)``, in float64."""
    return torch.segment_reduce(values.double(), "sum", offsets=indptr, unsafe=True)


def refuse_faint(degree: Any) -> None:
    """Refuse points whose degree, in an array or a tensor, is next to nothing."""
    if isinstance(degree, np.ndarray):
        median = np.median(degree)
    else:
        median = degree.median()
    faint = int((~(degree > FAINT * median)).sum())
    if faint:
        raise IsolatedPointsError(
            f"the kernel gives {faint} of {len(degree)} points no weight to speak of: their "
            "neighbours lie at the rim of its support. Use a larger eps, more neighbors, or a "
            "kernel that falls off less steeply."
        )


def edge_factors(graph: NeighborGraph, weights: Tensor, degree: Tensor, mass: Tensor) -> Tensor:
    r"""The weights :math:`w_{ij} / (m_i \deg_i \deg_j)` of an average, ``(e,)``."""
    return (1.0 / (degree * mass))[graph.edge_rows] * (weights / degree[graph.tensors[1]])


class Averages(NamedTuple):
    """A graph Laplacian ``rate (I - P)``: weights of P ``(e,)``, mass of P and rate ``(n,)``, half
    a spectral bound."""

    factors: Tensor
    mass: Tensor
    rate: Tensor
    fastest: float = 1.0

    @classmethod
    def of(
        cls, graph: NeighborGraph, weights: Tensor, normalization: Normalization | None = None
    ) -> Averages:
        r"""From weights ``(e,)`` of the edges.

        By default the sampling density is divided out, with degrees :math:`\deg_i = \sum_j w_{ij}`
        and the mass :math:`m_i = \sum_j w_{ij}/(\deg_i \deg_j)`, which goes as one over the
        density: sums weighted by it are integrals over the manifold.
        """
        indptr, indices, _ = graph.tensors
        degree = row_sums(indptr, weights)
        refuse_faint(degree)
        if normalization is None:
            mass = row_sums(indptr, weights / degree[indices]) / degree
            factors = edge_factors(graph, weights, degree, mass)
            return cls(factors, mass, torch.ones_like(mass))
        divisor = degree**normalization.q
        mass = degree**normalization.m
        rate = degree**normalization.r
        factors = edge_factors(graph, weights, divisor, mass)
        return cls(factors, mass, rate, float(rate.max()))


def average_blocks(
    graph: NeighborGraph, connection: Connection, factors: Tensor
) -> tuple[Tensor, Tensor]:
    """Columns and values of P, the maps of a connection times ``factors`` (e,), as ``BlockMatrix``
    stores them."""
    maps, det = connection.tensors
    cols = graph.tensors[1]
    factors = factors.to(maps.dtype)
    if connection.rank == 1:
        return cols, (factors * det)[:, None, None]
    if connection.rank == 2:
        return torch.where(det < 0, ~cols, cols), factors[:, None] * maps
    return cols, factors[:, None, None] * maps


def coordinate_moments(
    graph: NeighborGraph, averages: Averages, x: Tensor, terms: int, cloud: Tensor | None = None
) -> np.ndarray:
    r"""Moments :math:`\sum_a \langle x_a, T_m(P)\, x_a \rangle` ``(2 terms - 1, clouds)`` of
    coordinates ``(n, D)``.

    P averages functions. ``cloud`` (n,) holds the number of each point's cloud; by default there is
    one.
    """
    indptr, cols, _ = graph.tensors
    order = torch.arange(len(x), dtype=torch.int32, device=x.device)
    if cloud is None:
        cloud = torch.zeros_like(graph.labels)
    means = sums_by(graph.labels, x, graph.num_components) / torch.bincount(graph.labels)[:, None]
    centred = x - means[graph.labels]  # each component about its mean
    signal = pad(centred, (0, -x.shape[1] % 4))[:, None, :]  # fours are fast
    share = averages.mass / sums_by(cloud, averages.mass, int(cloud.max()) + 1)[cloud]
    matrix = BlockMatrix(indptr, cols, averages.factors[:, None, None], order)
    return chebyshev_moments(matrix, share, signal, terms, groups=cloud)


def lazy(average: BlockMatrix, share: torch.Tensor) -> BlockMatrix:
    """The average ``I + diag(share) (P - I)``, share (n,) in curve order: scaled rows, each with a
    diagonal block."""
    if bool((share == 1.0).all()):
        return average
    n = len(average.curve_order)
    num_edges = len(average.cols)
    device = average.values.device
    numbers = torch.arange(n, device=device)
    rows = torch.repeat_interleave(numbers, average.indptr.diff())
    edges = torch.arange(num_edges, device=device) + rows
    diagonal = average.indptr[1:] + numbers
    if average.stores_turns:
        unit = average.values.new_tensor([1.0, 0.0])  # cosine and sine
    else:
        unit = torch.eye(average.rank).to(average.values)
    values = average.values.new_empty((num_edges + n, *average.values.shape[1:]))
    weights = share.reshape(-1, *[1] * (values.ndim - 1))
    values[edges] = weights[rows] * average.values
    values[diagonal] = (1.0 - weights) * unit
    cols = average.cols.new_empty(num_edges + n)
    cols[edges] = average.cols
    cols[diagonal] = numbers.to(average.cols.dtype)
    indptr = average.indptr + torch.arange(n + 1, device=device)
    return replace(average, indptr=indptr, cols=cols, values=values)


def assemble(
    graph: NeighborGraph,
    connection: Connection,
    averages: Averages,
    scale: float,
    order: Any,
    kind: ArrayKind,
    frames: Any = None,
    terms: int = 1,
) -> Laplacian:
    r"""The Laplacian of a graph and a connection, compactly in the wanted precision.

    ``graph``, ``connection``, ``averages`` and ``frames`` are in curve order; ``curve_order[k]`` is
    the user's index of the k-th point on the curve.
    """
    cols, values = average_blocks(graph, connection, averages.factors)
    places = torch.as_tensor(order)
    share = averages.mass / averages.rate
    mass = torch.empty_like(share).index_copy_(0, places, share / share.sum())
    average = BlockMatrix(graph.tensors[0], cols, values, places.int())
    laplacian = Laplacian(
        average=lazy(average, (averages.rate / averages.fastest).to(values.dtype)),
        mass=mass.to(values.dtype),
        generator=Generator(scale / averages.fastest, terms),
        kind=kind,
        sorted_frames=frames,
    )
    return laplacian.to(kind.device)


def area_laplacian(
    graph: NeighborGraph,
    connection: Connection,
    weights: np.ndarray,
    areas: np.ndarray,
    order: np.ndarray,
    kind: ArrayKind,
    frames: np.ndarray | None = None,
) -> Laplacian:
    r"""The Laplacian :math:`A^{-1}(W - D)` of a mesh, with areas A of the vertices as mass; d = 1
    or 2.

    A few weights at boundaries may be negative: the spectral bound, by Gershgorin, is that of the
    others. NumPy builds it on a single thread: the arrays are small, and threads of torch would
    cost more than they save.
    """
    rows = graph.rows
    n = len(areas)
    dtype = kind.numpy_dtype
    degree = np.bincount(rows, weights, n)
    positive_degree = np.bincount(rows, np.maximum(weights, 0.0), n)
    refuse_faint(degree)
    bound = float((positive_degree / areas).max())
    rate = bound * areas
    factors = (weights / rate[rows]).astype(dtype)
    det = connection.det
    if connection.rank == 1:
        cols = graph.indices
        values = (factors * det)[:, None, None]
    else:
        cols = np.where(det < 0, ~graph.indices, graph.indices)
        values = factors[:, None] * connection.values
    diagonal = np.zeros((n, *values.shape[1:]), dtype)
    diagonal.reshape(n, -1)[:, 0] = 1.0 - degree / rate
    mass: np.ndarray = np.empty(n, dtype)
    mass[order] = areas / areas.sum()
    ends = graph.indptr[1:]
    average = BlockMatrix(
        indptr=torch.from_numpy(graph.indptr + np.arange(n + 1)),
        cols=torch.from_numpy(np.insert(cols, ends, np.arange(n))),
        values=torch.from_numpy(np.insert(values, ends, diagonal, axis=0)),
        curve_order=torch.from_numpy(order.astype(np.int32)),
    )
    laplacian = Laplacian(
        average=average,
        mass=torch.from_numpy(mass),
        generator=Generator(1.0 / bound),
        kind=kind,
        sorted_frames=frames,
    )
    return laplacian.to(kind.device)
