"""From a weighted graph and a connection to the stored matrix of the Laplacian."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..arrays import ArrayKind
from ..errors import IsolatedPointsError
from ..geometry.graph import NeighborGraph
from ..geometry.transport import Connection
from .laplacian import ConnectionLaplacian
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
    median = np.median(degree) if isinstance(degree, np.ndarray) else degree.median()
    if faint := int((~(degree > FAINT * median)).sum()):
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
            return cls(edge_factors(graph, weights, degree, mass), mass, torch.ones_like(mass))
        degree, mass, rate = (degree**power for power in astuple(normalization))
        return cls(edge_factors(graph, weights, degree, mass), mass, rate, float(rate.max()))


def average_blocks(
    graph: NeighborGraph, connection: Connection, factors: Tensor
) -> tuple[Tensor, Tensor]:
    """Columns and values of P, the maps of a connection times ``factors`` (e,), as ``BlockMatrix``
    stores them."""
    (maps, det), cols = connection.tensors, graph.tensors[1]
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
    cloud = torch.zeros_like(graph.labels) if cloud is None else cloud
    means = sums_by(graph.labels, x, graph.num_components) / torch.bincount(graph.labels)[:, None]
    x = pad(x - means[graph.labels], (0, -x.shape[1] % 4))[
        :, None, :
    ]  # each component about its mean; fours are fast
    share = averages.mass / sums_by(cloud, averages.mass, int(cloud.max()) + 1)[cloud]
    matrix = BlockMatrix(indptr, cols, averages.factors[:, None, None], order)
    return chebyshev_moments(matrix, share, x, terms, groups=cloud)


def lazy(part: ConnectionLaplacian, share: torch.Tensor) -> ConnectionLaplacian:
    """The average ``I + diag(share) (P - I)``, share (n,) in curve order: scaled rows, each with a
    diagonal block."""
    if bool((share == 1.0).all()):
        return part
    n, e, device = part.num_points, part.num_edges, part.device
    rows = torch.arange(n, device=device)
    starts = torch.repeat_interleave(rows, part.indptr.diff())
    edges = torch.arange(e, device=device) + starts
    ends = part.indptr[1:] + rows
    plane = part.values.ndim == 2  # cosine and sine
    block = part.values.new_tensor([1.0, 0.0]) if plane else torch.eye(part.rank).to(part.values)
    values = part.values.new_empty((e + n, *part.values.shape[1:]))
    weights = share.reshape(-1, *[1] * (values.ndim - 1))
    values[edges], values[ends] = weights[starts] * part.values, (1.0 - weights) * block
    cols = part.cols.new_empty(e + n)
    cols[edges], cols[ends] = part.cols, rows.to(part.cols.dtype)
    indptr = part.indptr + torch.arange(n + 1, device=device)
    return replace(part, indptr=indptr, cols=cols, values=values)


def assemble(
    graph: NeighborGraph,
    connection: Connection,
    averages: Averages,
    scale: float,
    order: Any,
    kind: ArrayKind,
    frames: Any = None,
    terms: int = 1,
) -> ConnectionLaplacian:
    r"""The Laplacian of a graph and a connection, compactly in the wanted precision.

    ``graph``, ``connection``, ``averages`` and ``frames`` are in curve order; ``curve_order[k]`` is
    the user's index of the k-th point on the curve.
    """
    cols, values = average_blocks(graph, connection, averages.factors)
    share, places = averages.mass / averages.rate, torch.as_tensor(order)
    laplacian = ConnectionLaplacian(
        indptr=graph.tensors[0],
        cols=cols,
        values=values,
        curve_order=places.int(),
        mass=torch.empty_like(share).index_copy_(0, places, share / share.sum()).to(values.dtype),
        scale=scale / averages.fastest,
        rank=connection.rank,
        kind=kind,
        sorted_frames=frames,
        terms=terms,
    )
    return lazy(laplacian, (averages.rate / averages.fastest).to(values.dtype)).to(kind.device)


def area_laplacian(
    graph: NeighborGraph,
    connection: Connection,
    weights: np.ndarray,
    areas: np.ndarray,
    order: np.ndarray,
    kind: ArrayKind,
    frames: np.ndarray | None = None,
) -> ConnectionLaplacian:
    r"""The Laplacian :math:`A^{-1}(W - D)` of a mesh, with areas A of the vertices as mass; d = 1
    or 2.

    A few weights at boundaries may be negative: the spectral bound, by Gershgorin, is that of the
    others. NumPy builds it on a single thread: the arrays are small, and threads of torch would
    cost more than they save.
    """
    rows, n, ends, dtype = graph.rows, len(areas), graph.indptr[1:], kind.numpy_dtype
    degree, positive = (np.bincount(rows, w, n) for w in (weights, np.maximum(weights, 0.0)))
    refuse_faint(degree)
    bound = float((positive / areas).max())
    rate = bound * areas
    factors, (maps, det) = (weights / rate[rows]).astype(dtype), (connection.values, connection.det)
    cols, values = np.where(det < 0, ~graph.indices, graph.indices), factors[:, None] * maps
    if connection.rank == 1:
        cols, values = graph.indices, (factors * det)[:, None, None]
    diagonal = np.zeros((n, *values.shape[1:]), dtype)
    diagonal.reshape(n, -1)[:, 0] = 1.0 - degree / rate
    mass: np.ndarray = np.empty(n, dtype)
    mass[order] = areas / areas.sum()
    cols, values = np.insert(cols, ends, np.arange(n)), np.insert(values, ends, diagonal, axis=0)
    arrays = graph.indptr + np.arange(n + 1), cols, values, order.astype(np.int32), mass
    parts: Any = *map(torch.from_numpy, arrays), 1.0 / bound, connection.rank, kind, frames
    return ConnectionLaplacian(*parts).to(kind.device)
