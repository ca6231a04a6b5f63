r"""Cellular sheaves over graphs: stalks, restriction maps, coboundary and Laplacian.

A sheaf has a vector space (stalk) for each vertex and each edge, and a linear restriction map
:math:`V_{v,e}: \mathcal{F}(v) \to \mathcal{F}(e)` for each end v of an edge e. A signal, or 0-cochain, has a vector in
each vertex stalk. The coboundary compares the two ends of every edge, and the sheaf Laplacian sums what it finds:

.. math:: (\delta f)_e = V_{v,e} f_v - V_{u,e} f_u, \qquad
          (L f)_v = \sum_{v \triangleleft e \triangleright u} V_{v,e}^T (V_{v,e} f_v - V_{u,e} f_u), \qquad
          L = \delta^T \delta.

A tangent bundle is an orthogonal sheaf: ``TangentBundle.sheaf()``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy import sparse

from .arrays import Array, ArrayKind, finite, float_tensor
from .errors import InvalidInputError, ShapeError
from .geometry.graph import NeighborGraph
from .geometry.transport import Connection
from .operators import ConnectionLaplacian


class SheafLaplacian(ConnectionLaplacian):
    r"""The operator :math:`-L = -\delta^T \delta \le 0` of a sheaf, not normalised, from ``Sheaf.laplacian()``.

    It is stored as a connection Laplacian is, :math:`-L = (P - I)/s` with :math:`P = I - s L` and 1/s a bound of the
    spectrum of L, so that all filters and networks run on it. Its mass is 1/n: the paper's inner product of sheaf
    signals.
    """


class Sheaf:
    r"""A cellular sheaf over an undirected graph.

    Args:
        stalks: dimensions of the vertex stalks ``(n,)``, equal or not.
        edges: pairs ``(u, v)`` of vertices, ``(m, 2)``, each edge once.
        maps: the two restriction maps :math:`(V_{u,e}, V_{v,e})` of each edge, matrices ``(edge stalk, vertex stalk)``;
            where all have one shape, an array ``(m, 2, k, d)``.

    >>> sheaf = Sheaf([1, 2], [(0, 1)], [([[2.0]], [[1.0, 3.0]])])
    >>> sheaf.coboundary().toarray().tolist()
    [[-2.0, 1.0, 3.0]]
    >>> (sheaf.laplacian() @ np.array([[[1.0], [0.0]], [[2.0], [0.0]]])).ravel().tolist()       # maps agree: a section
    [0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, stalks: Array | Sequence[int], edges: Array, maps: Array | Sequence) -> None:
        self.stalks, self.edges = _integers(stalks, "stalks", ()), _integers(edges, "edges", (2,))
        n, pairs = len(self.stalks), np.sort(self.edges, axis=1)
        if self.stalks.min() < 1:
            raise InvalidInputError("stalks must have dimensions of at least 1, got 0.")
        if self.edges.max() >= n:
            raise InvalidInputError(f"edges must join vertices 0 to {n - 1}, got vertex {self.edges.max()}.")
        if (pairs[:, 0] == pairs[:, 1]).any() or len(np.unique(pairs @ [n, 1])) < len(pairs):
            raise InvalidInputError("edges must join different vertices, each pair once: remove loops and duplicates.")
        self.maps, self.edge_stalks, self.kind = _restriction_maps(maps, self.stalks[self.edges], self.dim)

    @classmethod
    def from_connection(
        cls, graph: NeighborGraph, connection: Connection, weights: np.ndarray, order: np.ndarray, kind: ArrayKind
    ) -> Sheaf:
        r"""The orthogonal sheaf of a weighted graph with a connection; point k of the graph is vertex ``order[k]``.

        All stalks are :math:`\mathbb{R}^d`. An edge e = ij has the restriction maps :math:`V_{i,e} = \sqrt{w_{ij}}\, I`
        and :math:`V_{j,e} = \sqrt{w_{ij}}\, O_{ij}`, so that L has the blocks :math:`L_{ii} = \deg_i I` and
        :math:`L_{ij} = -w_{ij} O_{ij}`.
        """
        once = np.flatnonzero(graph.rows < graph.indices)
        roots = np.sqrt(weights[once])[:, None, None]
        maps = np.stack([roots * np.eye(connection.dim), roots * connection.blocks(once)], axis=1)
        edges = order[np.stack([graph.rows[once], graph.indices[once]], axis=1)]
        return cls(np.full(len(order), connection.dim), edges, kind.wrap(maps))

    @property
    def dim(self) -> int:
        """The largest vertex stalk: signals are ``(n, dim, c)``."""
        return int(self.stalks.max())

    @property
    def mask(self) -> np.ndarray:
        """Which of the ``(n, dim)`` coordinates belong to a stalk; the others are padding.

        A cochain, flat as ``coboundary()`` takes it, becomes a signal by ``signal[mask] = cochain``.
        """
        return np.arange(self.dim) < self.stalks[:, None]

    def coboundary(self) -> sparse.csr_array:
        r"""The matrix :math:`\delta` from cochains of the vertices to those of the edges, one stalk after the other."""
        rows = np.arange(self.maps.shape[2]) < self.edge_stalks[:, None]
        return self._coboundary()[rows.ravel()][:, self.mask.ravel()]

    def _coboundary(self) -> sparse.csr_array:
        """The same with all stalks padded to the largest, by zeros."""
        m, _, k, d = self.maps.shape
        blocks = (self.maps * np.array([-1.0, 1.0])[:, None, None]).reshape(2 * m, k, d)
        shape = (m * k, len(self.stalks) * d)
        return sparse.bsr_array((blocks, self.edges.ravel(), np.arange(0, 2 * m + 1, 2)), shape=shape).tocsr()

    def laplacian(self) -> SheafLaplacian:
        r"""The operator :math:`-L = -\delta^T \delta`, with the sign of all Laplacians here.

        Smaller stalks are padded to the largest with coordinates that nothing reads or writes. Signals should be zero
        there, and then filters keep them so; the spectrum has an eigenvalue 0 for each.
        """
        delta, d = self._coboundary(), self.dim
        square = delta.T @ delta
        bound = float(abs(square).sum(axis=1).max())
        if bound == 0.0:
            raise InvalidInputError("all restriction maps are zero, and so is the Laplacian. Give maps that are not.")
        average = sparse.csr_array(sparse.eye_array(square.shape[0]) - square / bound).tobsr((d, d))
        average.sort_indices()
        n = len(self.stalks)
        laplacian = SheafLaplacian(
            indptr=torch.from_numpy(average.indptr.astype(np.int64)),
            cols=torch.from_numpy(average.indices.astype(np.int32)),
            values=torch.from_numpy(average.data),
            order=torch.arange(n, dtype=torch.int32),
            mass=torch.full((n,), 1 / n, dtype=torch.float64),
            scale=1 / bound,
            dim=d,
            kind=self.kind,
        )
        return laplacian.to(self.kind.device, self.kind.dtype)

    def __repr__(self) -> str:
        low, high = self.stalks.min(), self.stalks.max()
        dims = f"{high}" if low == high else f"{low} to {high}"
        return f"Sheaf({len(self.stalks)} vertices, {len(self.edges)} edges, stalks of dimension {dims})"


def _integers(values: Array | Sequence, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A non-empty array ``(n, *shape)`` of integers of at least 0."""
    array = float_tensor(values, name)[0].cpu().numpy()
    if array.ndim != 1 + len(shape) or array.shape[1:] != shape or not array.size:
        raise ShapeError(f"{name} must have shape {('n', *shape)} and not be empty, got {array.shape}.")
    if not ((array >= 0) & (array < 2**31) & (array == np.round(array))).all():
        raise InvalidInputError(f"{name} must be integers of at least 0, got {values!r}.")
    return array.astype(np.int64)


def _restriction_maps(maps: Array | Sequence, ends: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray, ArrayKind]:
    """Maps padded to ``(m, 2, k, d)``, the dimensions of the edge stalks, and what kind of arrays came.

    ``ends`` (m, 2) holds the dimensions of the vertex stalks that the maps must fit.
    """
    m, shape = len(ends), tuple(getattr(maps, "shape", ()))
    if len(shape) == 4 and shape[:2] == (m, 2) and shape[2] and (ends == shape[3]).all():
        tensor, kind = float_tensor(maps, "maps")
        array = finite(tensor, "maps").detach().cpu().double().numpy()
        return array, np.full(m, shape[2]), kind
    if not hasattr(maps, "__len__") or len(maps) != m or not all(hasattr(pair, "__len__") for pair in maps):
        got = len(maps) if hasattr(maps, "__len__") else maps
        raise ShapeError(f"maps must hold a pair of matrices for each of the {m} edges, got {got}.")
    pairs = [[float_tensor(matrix, f"a map of edge {e}") for matrix in pair] for e, pair in enumerate(maps)]
    edge_stalks = np.array([len(pair[0][0]) if pair and pair[0][0].ndim else 0 for pair in pairs])
    padded = np.zeros((len(pairs), 2, edge_stalks.max(), d))
    for e, (pair, k, wanted) in enumerate(zip(pairs, edge_stalks, ends, strict=True)):
        shapes = [tuple(tensor.shape) for tensor, _ in pair]
        if k == 0 or shapes != [(k, wanted[0]), (k, wanted[1])]:
            raise ShapeError(
                f"the maps of edge {e} must be two matrices (k, {wanted[0]}) and (k, {wanted[1]}) to one edge stalk, "
                f"got shapes {shapes}."
            )
        for side, (tensor, _) in enumerate(pair):
            padded[e, side, :k, : wanted[side]] = finite(tensor, f"a map of edge {e}").detach().cpu().numpy()
    return padded, edge_stalks, pairs[0][0][1]
