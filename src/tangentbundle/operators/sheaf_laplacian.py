"""What the Laplacian of a sheaf is made of: its graph, which is computed once, and degrees to
divide by. ``Sheaf.laplacian`` builds it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
import torch

from ..arrays import Array, float_tensor, host, positive_integer
from ..errors import InvalidInputError, ShapeError
from ..memory import require_memory


@dataclass(frozen=True, eq=False)
class SheafGraph:
    """The edges of a sheaf, and where the blocks of its Laplacian are stored.

    Attributes: ``edges`` (m, 2), source and target of each edge, once; ``listings`` (m,), their
    places among the edges that were given; ``indptr`` and ``cols``, the Laplacian in CSR form;
    ``slots`` (n + 2 m), the number of each stored block: the diagonal has the first n, then come
    the blocks (target, source) of all edges, then (source, target); ``curve_order`` (n,), the
    vertices themselves.
    """

    edges: torch.Tensor
    listings: torch.Tensor
    indptr: torch.Tensor
    cols: torch.Tensor
    slots: torch.Tensor
    curve_order: torch.Tensor
    cache: dict = field(default_factory=dict, init=False, repr=False)

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def from_edge_index(
        cls, edge_index: Array, num_nodes: int | None, device: torch.device
    ) -> SheafGraph:
        """The graph of edges ``(2, e)``; see ``Sheaf.from_edges`` for what counts as an edge."""
        float_tensor(edge_index, "edge_index")  # refuses all that is no array of numbers
        index = host(edge_index)
        if index.ndim != 2 or len(index) != 2:
            raise ShapeError(
                "edge_index must have shape (2, e), source and target of each edge, got "
                f"{index.shape}."
            )
        if index.size and not (index.dtype.kind in "iu" and index.min() >= 0):
            raise InvalidInputError(
                f"edge_index must hold integers of at least 0, got {index.dtype} from "
                f"{index.min()}."
            )
        index = index.astype(np.int64)
        largest = int(index.max(initial=-1))
        if num_nodes is None:
            num_nodes = largest + 1
        n = positive_integer(num_nodes, "num_nodes")
        require_memory(64.0 * n, f"a graph of {n} vertices", "Number the vertices from 0 on.")
        if largest >= n:
            raise InvalidInputError(f"edges must join vertices 0 to {n - 1}, got vertex {largest}.")
        if len(np.unique(index[0] * n + index[1])) < index.shape[1]:
            raise InvalidInputError(
                "edge_index lists an edge twice in one direction: add up duplicates first."
            )
        listings = _first_listings(index, n)
        source, target = index[:, listings]
        vertices = np.arange(n)
        rows = np.concatenate([vertices, target, source])
        cols = np.concatenate([vertices, source, target])
        slots = np.lexsort((cols, rows))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])

        def tensor(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(device)

        return cls(
            edges=tensor(np.stack([source, target], axis=1)),
            listings=tensor(listings),
            indptr=tensor(indptr),
            cols=tensor(cols[slots].astype(np.int32)),
            slots=tensor(slots),
            curve_order=tensor(vertices.astype(np.int32)),
        )


def _first_listings(index: np.ndarray, n: int) -> np.ndarray:
    """The places ``(m,)`` at which each edge is first listed, in one direction or the other; self
    loops are left out."""
    ends = np.sort(index, axis=0)
    listings = np.sort(np.unique(ends[0] * n + ends[1], return_index=True)[1])
    return listings[ends[0, listings] < ends[1, listings]]


@dataclass(frozen=True)
class Degrees(ABC):
    """How a sheaf Laplacian L is divided by its degrees, on both sides; ``shift`` is added to the
    degrees."""

    shift: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.shift < np.inf:
            raise InvalidInputError(f"shift must be a number of at least 0, got {self.shift}.")

    @abstractmethod
    def factors(self, degrees: torch.Tensor) -> torch.Tensor:
        """N of N L N, ``(n, d, d)`` or ``(n, 1, 1)``, from the blocks ``(n, d, d)`` on the diagonal
        of L."""

    @abstractmethod
    def bound(self, d: int) -> float:
        """A bound of the eigenvalues of N L N, whatever the maps."""


class BlockDegrees(Degrees):
    r""":math:`D^{-1/2} L D^{-1/2}` with the blocks D on the diagonal of L; eigenvalues in [0, 2].

    Where a block is singular the inverse is that on its range. Learned maps, other than orthogonal
    ones, may come close to that, and a shift of one then keeps gradients small.

    >>> BlockDegrees().factors(torch.tensor([[[4.0, 0.0], [0.0, 0.0]]])).tolist()
    [[[0.5, 0.0], [0.0, 0.0]]]
    """

    def factors(self, degrees: torch.Tensor) -> torch.Tensor:
        return inverse_root(degrees + self.shift * eye_like(degrees))

    def bound(self, d: int) -> float:
        return 2.0


class ScalarDegrees(Degrees):
    r""":math:`D^{-1/2} L D^{-1/2}` with numbers :math:`D_v = \operatorname{tr} L_{vv}/d`.

    For orthogonal maps they are the weighted degrees of the graph, and the result is that of
    ``BlockDegrees``.

    >>> ScalarDegrees().factors(torch.tensor([[[4.0, 0.0], [0.0, 4.0]]])).flatten().tolist()
    [0.5]
    """

    def factors(self, degrees: torch.Tensor) -> torch.Tensor:
        means = degrees.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None] + self.shift
        return torch.where(means > 0, means, 1.0).rsqrt()  # vertices without edges have none

    def bound(self, d: int) -> float:
        return 2.0 * d


def eye_like(matrices: torch.Tensor) -> torch.Tensor:
    """The unit matrix of the last two axes."""
    return torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)


def inverse_root(a: torch.Tensor) -> torch.Tensor:
    r"""The inverse roots :math:`X = A^{-1/2}`, on the range of A, of symmetric semidefinite
    matrices ``(..., d, d)``.

    X comes from eigenvectors without gradients, which would not exist for equal eigenvalues. Two
    Newton steps for :math:`X A X = I`, :math:`A^{1/2} E + E A^{1/2} = I - X A X`, leave it as it is
    and add derivatives of order two.
    """
    with torch.no_grad():
        values, basis = torch.linalg.eigh(a)
        rounding = len(basis[0]) * torch.finfo(a.dtype).eps
        roots = torch.where(values > values[..., -1:] * rounding, values, 0.0).sqrt()
        inverses = torch.where(roots > 0, 1 / roots, 0.0)
        x = (basis * inverses[..., None, :]) @ basis.mT
        unit = (basis * (roots > 0)[..., None, :]) @ basis.mT
        sums = roots[..., :, None] + roots[..., None, :]
        weights = torch.where(sums > 0, 1 / sums, 0.0)
    for _ in range(2):
        x = x + basis @ (weights * (basis.mT @ (unit - x @ a @ x) @ basis)) @ basis.mT
    return x
