"""From a weighted graph and a connection to the stored matrix of the Laplacian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad

from ..arrays import ArrayKind
from ..errors import IsolatedPointsError
from ..geometry.graph import NeighborGraph
from ..geometry.transport import Connection
from .joined import lazy
from .laplacian import ConnectionLaplacian
from .moments import chebyshev_moments, sums_by
from .storage import BlockMatrix

Tensor = torch.Tensor

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

    def factors(self, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""The vectors :math:`D^q`, :math:`D^m` and :math:`D^r`."""
        return degree**self.q, degree**self.m, degree**self.r


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
    if faint := int((~(degree > FAINT * degree.median())).sum()):
        raise IsolatedPointsError(
            f"the kernel gives {faint} of {len(degree)} points no weight to speak of: their neighbours lie at the rim "
            "of its support. Use a larger eps, more neighbors, or a kernel that falls off less steeply."
        )


def edge_factors(graph: NeighborGraph, weights: Tensor, degree: Tensor, mass: Tensor) -> Tensor:
    r"""The weights :math:`w_{ij} / (m_i \deg_i \deg_j)` of an average, ``(e,)``."""
    return (1.0 / (degree * mass))[graph.edge_rows] * (weights / degree[graph.tensors[1]])


class Averages(NamedTuple):
    """A graph Laplacian ``rate (I - P)``: weights of P ``(e,)``, mass of P and rate ``(n,)``, half a spectral bound."""

    factors: Tensor
    mass: Tensor
    rate: Tensor
    fastest: float = 1.0

    @classmethod
    def of(cls, graph: NeighborGraph, weights: Tensor, normalization: Normalization | None = None) -> Averages:
        r"""From weights ``(e,)`` of the edges.

        By default the sampling density is divided out, with degrees :math:`\deg_i = \sum_j w_{ij}` and the mass
        :math:`m_i = \sum_j w_{ij}/(\deg_i \deg_j)`, which goes as one over the density: sums weighted by it are
        integrals over the manifold.
        """
        indptr, indices, _ = graph.tensors
        degree = row_sums(indptr, weights)
        refuse_faint(degree)
        if normalization is None:
            mass = row_sums(indptr, weights / degree[indices]) / degree
            return cls(edge_factors(graph, weights, degree, mass), mass, torch.ones_like(mass))
        degree, mass, rate = normalization.factors(degree)
        return cls(edge_factors(graph, weights, degree, mass), mass, rate, float(rate.max()))

    @classmethod
    def by_area(cls, graph: NeighborGraph, weights: Tensor, areas: np.ndarray) -> Averages:
        r"""The Laplacian :math:`A^{-1}(D - W)` of a mesh, with areas A of the vertices as mass.

        A few weights at boundaries may be negative: the bound, by Gershgorin, is that of the others.
        """
        indptr, area = graph.tensors[0], torch.as_tensor(areas)
        degree = row_sums(indptr, weights)
        refuse_faint(degree)
        bound = float((row_sums(indptr, weights.clamp_min(0.0)) / area).max())
        return cls(edge_factors(graph, weights, torch.ones_like(degree), degree), degree, degree / area, bound)


def average_blocks(graph: NeighborGraph, connection: Connection, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Columns and values of P, the maps of a connection times ``factors`` (e,), as ``BlockMatrix`` stores them."""
    (maps, det), cols = connection.tensors, graph.tensors[1]
    factors = factors.to(maps.dtype)
    if connection.dim == 1:
        return cols, (factors * det)[:, None, None]
    if connection.dim == 2:
        return torch.where(det < 0, ~cols, cols), factors[:, None] * maps
    return cols, factors[:, None, None] * maps


def coordinate_moments(
    graph: NeighborGraph, averages: Averages, x: Tensor, terms: int, cloud: Tensor | None = None
) -> np.ndarray:
    r"""Moments :math:`\sum_a \langle x_a, T_m(P)\, x_a \rangle` ``(2 terms - 1, clouds)`` of coordinates ``(n, D)``.

    P averages functions. ``cloud`` (n,) holds the number of each point's cloud; by default there is one.
    """
    indptr, cols, _ = graph.tensors
    order = torch.arange(len(x), dtype=torch.int32, device=x.device)
    cloud = torch.zeros_like(graph.labels) if cloud is None else cloud
    means = sums_by(graph.labels, x, graph.num_components) / torch.bincount(graph.labels)[:, None]
    x = pad(x - means[graph.labels], (0, -x.shape[1] % 4))[:, None, :]  # each component about its mean; fours are fast
    share = averages.mass / sums_by(cloud, averages.mass, int(cloud.max()) + 1)[cloud]
    matrix = BlockMatrix(indptr, cols, averages.factors[:, None, None], order)
    return chebyshev_moments(matrix, share, x, terms, groups=cloud)


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

    ``graph``, ``connection``, ``averages`` and ``frames`` are in curve order; ``order[k]`` is the user's index of the
    k-th point on the curve.
    """
    cols, values = average_blocks(graph, connection, averages.factors)
    share, places = averages.mass / averages.rate, torch.as_tensor(order)
    laplacian = ConnectionLaplacian(
        indptr=graph.tensors[0],
        cols=cols,
        values=values,
        order=places.int(),
        mass=torch.empty_like(share).index_copy_(0, places, share / share.sum()).to(values.dtype),
        scale=scale / averages.fastest,
        dim=connection.dim,
        kind=kind,
        sorted_frames=frames,
        terms=terms,
    )
    return lazy(laplacian, (averages.rate / averages.fastest).to(values.dtype)).to(kind.device)
