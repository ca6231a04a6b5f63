"""The Laplacian of a sheaf: its graph, which is computed once, and blocks that follow the maps, with gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch

from ..arrays import Array, ArrayKind, positive_integer
from ..errors import InvalidInputError, ShapeError
from .inverse_root import inverse_root
from .laplacian import ConnectionLaplacian


@dataclass(frozen=True, eq=False)
class SheafGraph:
    """The edges of a sheaf, and where the blocks of its Laplacian are stored.

    Attributes: ``edges`` (m, 2), source and target of each edge, once; ``listings`` (m,), their places among the edges
    that were given; ``indptr`` and ``cols`` of the Laplacian in CSR form; ``slots`` (n + 2 m), the number of each
    stored block, where the diagonal has the first n, the blocks (target, source) of all edges the next m, and the
    blocks (source, target) the last m.
    """

    edges: torch.Tensor
    listings: torch.Tensor
    indptr: torch.Tensor
    cols: torch.Tensor
    slots: torch.Tensor

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def from_edge_index(cls, edge_index: Array, num_nodes: int | None, device: torch.device) -> SheafGraph:
        """The graph of edges ``(2, e)``; see ``Sheaf.from_edges`` for what counts as an edge."""
        index = edge_index.detach().cpu().numpy() if isinstance(edge_index, torch.Tensor) else np.asarray(edge_index)
        if index.ndim != 2 or len(index) != 2:
            raise ShapeError(f"edge_index must have shape (2, e), source and target of each edge, got {index.shape}.")
        if index.size and not (index.dtype.kind in "iu" and index.min() >= 0):
            raise InvalidInputError("edge_index must hold integers of at least 0, the numbers of vertices.")
        index, largest = index.astype(np.int64), int(index.max(initial=-1))
        n = positive_integer(largest + 1 if num_nodes is None else num_nodes, "num_nodes")
        if largest >= n:
            raise InvalidInputError(f"edges must join vertices 0 to {n - 1}, got vertex {largest}.")
        if len(np.unique(index[0] * n + index[1])) < index.shape[1]:
            raise InvalidInputError("edge_index lists an edge twice in one direction: add up duplicates first.")
        low, high = index.min(axis=0), index.max(axis=0)
        listings = np.sort(np.unique(low * n + high, return_index=True)[1])
        listings = listings[low[listings] < high[listings]]
        source, target = index[:, listings]
        rows = np.concatenate([np.arange(n), target, source])
        cols = np.concatenate([np.arange(n), source, target])
        slots = np.lexsort((cols, rows))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
        arrays = index[:, listings].T.copy(), listings, indptr, cols[slots].astype(np.int32), slots
        return cls(*(torch.from_numpy(array).to(device) for array in arrays))


class Degrees(ABC):
    """How a sheaf Laplacian is divided by degrees, on both sides."""

    @abstractmethod
    def factors(self, degrees: torch.Tensor) -> torch.Tensor:
        """The matrices N ``(n, d, d)`` of N L N, from the blocks ``(n, d, d)`` on the diagonal of L."""

    @abstractmethod
    def bound(self, d: int) -> float:
        """A bound of the eigenvalues of N L N, whatever the maps."""


@dataclass(frozen=True)
class BlockDegrees(Degrees):
    r""":math:`(D + a)^{-1/2} L\, (D + a)^{-1/2}` with the blocks D on the diagonal of L; eigenvalues in [0, 2].

    ``shift`` is a. Where a block D is singular the inverse is that on its range. Learned maps, other than orthogonal
    ones, may come close to that, and a shift of one then keeps gradients small.

    >>> BlockDegrees().factors(torch.tensor([[[4.0, 0.0], [0.0, 0.0]]])).tolist()
    [[[0.5, 0.0], [0.0, 0.0]]]
    """

    shift: float = 0.0

    def factors(self, degrees: torch.Tensor) -> torch.Tensor:
        return inverse_root(degrees + self.shift * torch.eye(degrees.shape[-1]).to(degrees))

    def bound(self, d: int) -> float:
        return 2.0


@dataclass(frozen=True)
class ScalarDegrees(Degrees):
    r""":math:`D^{-1/2} L D^{-1/2}` with numbers :math:`D_v = \operatorname{tr} L_{vv}/d + a`; ``shift`` is a.

    For orthogonal maps :math:`D_v` is the weighted degree of the graph, and the result that of ``BlockDegrees``.
    Vertices without edges stay as they are.

    >>> ScalarDegrees().factors(torch.tensor([[[4.0, 0.0], [0.0, 4.0]]])).flatten().tolist()
    [0.5]
    """

    shift: float = 0.0

    def factors(self, degrees: torch.Tensor) -> torch.Tensor:
        means = degrees.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None] + self.shift
        return torch.where(means > 0, means, 1.0).rsqrt()

    def bound(self, d: int) -> float:
        return 2.0 * d


class SheafLaplacian(ConnectionLaplacian):
    r"""The operator :math:`-L = -\delta^T \delta \le 0` of a sheaf, from ``Sheaf.laplacian()``.

    It is stored as a connection Laplacian is, :math:`-L = (P - I)/s` with :math:`P = I - s L` and 1/s a bound of the
    spectrum of L, so that all filters and networks run on it. Its mass is 1/n: the paper's inner product of sheaf
    signals. Gradients reach the restriction maps and weights through ``values``.
    """

    largest_deficit = 1.0
    """By construction: no look at the spectrum, which changes while maps learn."""

    @property
    def matrix(self) -> tuple[torch.Tensor, ...]:
        """``indptr, cols, values, order, mass`` in CSR form on all devices: nothing is sorted when maps change."""
        return self.indptr, self.cols, self.values, self.order, self.mass

    curve = matrix

    @classmethod
    def assemble(
        cls,
        graph: SheafGraph,
        maps: torch.Tensor,
        weights: torch.Tensor | None,
        normalization: Degrees | None,
        kind: ArrayKind,
    ) -> SheafLaplacian:
        """From maps ``(m, 2, k, d)`` and weights ``(m,)``."""
        n, d = graph.num_nodes, maps.shape[-1]
        weighted = maps if weights is None else maps * weights[:, None, None, None]
        squares = maps.mT @ weighted
        degrees = maps.new_zeros(n, d, d).index_add(0, graph.edges.flatten(), squares.flatten(0, 1))
        across = maps[:, 1].mT @ weighted[:, 0]
        if normalization is None:
            bound = 2.0 * float(degrees.detach().abs().sum(-1).amax()) or 1.0
        else:
            bound, factors = normalization.bound(d), normalization.factors(degrees)
            source, target = factors.index_select(0, graph.edges.flatten()).unflatten(0, (-1, 2)).unbind(1)
            if factors.shape[-1] == 1:
                across, degrees = target * source * across, factors.square() * degrees
            else:
                across, degrees = target @ across @ source, factors @ degrees @ factors
        scale = 1.0 / bound
        diagonal = torch.eye(d, dtype=maps.dtype, device=maps.device) - scale * degrees
        blocks = torch.cat([diagonal, scale * across, scale * across.mT]).index_select(0, graph.slots)
        return cls(
            indptr=graph.indptr,
            cols=graph.cols,
            values=blocks,
            order=torch.arange(n, dtype=torch.int32, device=maps.device),
            mass=torch.full((n,), 1 / n, dtype=maps.dtype, device=maps.device),
            scale=scale,
            dim=d,
            kind=kind,
        )
