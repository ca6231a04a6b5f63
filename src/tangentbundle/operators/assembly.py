"""From a weighted graph and a connection to the stored matrix of the Laplacian."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

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


def refuse_faint(degree: Tensor) -> None:
    """Refuse points whose degree is next to nothing."""
    faint = int((~(degree > FAINT * degree.median())).sum())
    if faint:
        raise IsolatedPointsError(
            f"the kernel gives {faint} of {len(degree)} points no weight to speak of: their "
            "neighbours lie at the rim of its support. Use a larger eps, more neighbors, or a "
            "kernel that falls off less steeply."
        )


def edge_factors(graph: NeighborGraph, weights: Tensor, degree: Tensor, mass: Tensor) -> Tensor:
    r"""The weights :math:`w_{ij} / (m_i \deg_i \deg_j)` of an average, ``(e,)``."""
    return (1.0 / (degree * mass))[graph.rows] * (weights / degree[graph.indices])


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
        degree = row_sums(graph.indptr, weights)
        refuse_faint(degree)
        if normalization is None:
            mass = row_sums(graph.indptr, weights / degree[graph.indices]) / degree
            return cls(edge_factors(graph, weights, degree, mass), mass, torch.ones_like(mass))
        scaling = degree**normalization.q
        mass = degree**normalization.m
        rate = degree**normalization.r
        factors = edge_factors(graph, weights, scaling, mass)
        return cls(factors, mass, rate, float(rate.detach().max()))


def average_blocks(
    graph: NeighborGraph, connection: Connection, factors: Tensor
) -> tuple[Tensor, Tensor]:
    """Columns and values of P, the maps of a connection times ``factors`` (e,), as ``BlockMatrix``
    stores them."""
    maps = connection.values
    cols = graph.indices
    factors = factors.to(maps.dtype)
    if maps.ndim == 3:
        return cols, factors[:, None, None] * maps
    if connection.rank == 1:
        return cols, (factors * connection.det)[:, None, None]
    return torch.where(connection.det < 0, ~cols, cols), factors[:, None] * maps


def coordinate_moments(
    graph: NeighborGraph, averages: Averages, x: Tensor, terms: int, cloud: Tensor | None = None
) -> np.ndarray:
    r"""Moments :math:`\sum_a \langle x_a, T_m(P)\, x_a \rangle` ``(2 terms - 1, clouds)`` of
    coordinates ``(n, D)``.

    P averages functions. ``cloud`` (n,) holds the number of each point's cloud; by default there is
    one.
    """
    order = torch.arange(len(x), dtype=torch.int32, device=x.device)
    components = graph.components
    if cloud is None:
        cloud = torch.zeros_like(components)
    means = sums_by(components, x, graph.num_components) / torch.bincount(components)[:, None]
    # each component about its mean; fours are fast
    x = pad(x - means[components], (0, -x.shape[1] % 4))[:, None, :]
    share = averages.mass / sums_by(cloud, averages.mass, int(cloud.max()) + 1)[cloud]
    matrix = BlockMatrix(graph.indptr, graph.indices, averages.factors[:, None, None], order)
    return chebyshev_moments(matrix, share, x, terms, groups=cloud)


def lazy(average: BlockMatrix, share: Tensor) -> BlockMatrix:
    """The average ``I + diag(share) (P - I)``, share (n,) in curve order: scaled rows, each with a
    diagonal block."""
    if bool((share == 1.0).all()):
        return average
    scales = torch.repeat_interleave(share, average.indptr.diff())
    scales = scales.reshape(-1, *[1] * (average.values.ndim - 1))
    return with_diagonal(replace(average, values=scales * average.values), 1.0 - share)


def with_diagonal(average: BlockMatrix, diagonal: Tensor) -> BlockMatrix:
    """P plus a diagonal (n,) in curve order, as the last block of each row."""
    n = len(average.curve_order)
    num_edges = len(average.cols)
    device = average.values.device
    rows = torch.arange(n, device=device)
    starts = torch.repeat_interleave(rows, average.indptr.diff())
    edges = torch.arange(num_edges, device=device) + starts
    ends = average.indptr[1:] + rows
    if average.stores_turns:
        unit = average.values.new_tensor([1.0, 0.0])  # cosine and sine
    else:
        unit = torch.eye(average.rank).to(average.values)
    values = average.values.new_empty((num_edges + n, *average.values.shape[1:]))
    values[edges] = average.values
    values[ends] = diagonal.reshape(-1, *[1] * (values.ndim - 1)) * unit
    cols = average.cols.new_empty(num_edges + n)
    cols[edges] = average.cols
    cols[ends] = rows.to(cols.dtype)
    indptr = average.indptr + torch.arange(n + 1, device=device)
    return replace(average, indptr=indptr, cols=cols, values=values)


def assemble(
    graph: NeighborGraph,
    connection: Connection,
    averages: Averages,
    *,
    scale: float,
    curve_order: Tensor,
    kind: ArrayKind,
    frames: Tensor | None = None,
    terms: int = 1,
) -> Laplacian:
    r"""The Laplacian of a graph and a connection, compactly in the wanted precision.

    ``graph``, ``connection``, ``averages`` and ``frames`` are in curve order; ``curve_order[k]`` is
    the user's index of the k-th point on the curve.
    """
    cols, values = average_blocks(graph, connection, averages.factors)
    share = averages.mass / averages.rate
    mass = torch.zeros_like(share).index_copy(0, curve_order, share / share.sum())
    average = BlockMatrix(
        indptr=graph.indptr,
        cols=cols,
        values=values,
        curve_order=curve_order.int(),
    )
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
    *,
    weights: Tensor,
    areas: Tensor,
    curve_order: Tensor,
    kind: ArrayKind,
    frames: Tensor | None = None,
) -> Laplacian:
    r"""The Laplacian :math:`A^{-1}(W - D)` of a mesh, with areas A of the vertices as mass; d = 1
    or 2.

    A few weights at boundaries may be negative: the spectral bound, by Gershgorin, is that of the
    others. Vertices without edges are their own averages.
    """
    degree = row_sums(graph.indptr, weights)
    bound = float((row_sums(graph.indptr, weights.clamp_min(0.0)) / areas).max())
    rate = bound * areas
    cols, values = average_blocks(graph, connection, weights / rate[graph.rows])
    mass = torch.zeros_like(areas).index_copy(0, curve_order, areas / areas.sum())
    average = BlockMatrix(
        indptr=graph.indptr,
        cols=cols,
        values=values,
        curve_order=curve_order.int(),
    )
    laplacian = Laplacian(
        average=with_diagonal(average, (1.0 - degree / rate).to(values.dtype)),
        mass=mass.to(values.dtype),
        generator=Generator(1.0 / bound),
        kind=kind,
        sorted_frames=frames,
    )
    return laplacian.to(kind.device)
