r"""Orthogonal maps along edges: :math:`O_{ij}`, the closest orthogonal matrix to :math:`O_i^T O_j`.

Stored compactly: d = 1 a sign, d = 2 a unit complex number and a sign, otherwise the blocks. Each
edge is computed from its ordered end points, so that :math:`O_{ji} = O_{ij}^T` to the last bit.
Frames with gradients make maps with gradients,

.. math:: O_{ij} = A (A^T A)^{-1/2}, \quad A = O_i^T O_j,

which are stored as blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..errors import RankDeficientError
from ..parallel import run_ranges
from .block_search import CHUNK, CPU_CHUNK
from .cloud import first_of
from .graph import NeighborGraph
from .small_matrices import inverse_root, polar_factors

MIN_OVERLAP = 1e-9
"""Singular value of :math:`O_i^T O_j` below which two tangent spaces hold perpendicular
directions."""


@dataclass(frozen=True, eq=False)
class Connection:
    r"""The orthogonal map of every directed edge of a graph, in compact form.

    Attributes are tensors: ``values``, ``det`` (e,) int8, and the number ``rank``. For d = 1,
    ``values`` is empty with shape (e, 0) and the map is ``det``; for d = 2 it is (e, 2) with the
    first column (cos, sin) of
    :math:`\begin{pmatrix} c & -\delta s \\ s & \delta c \end{pmatrix}`, where :math:`\delta` is
    ``det`` = +1 for rotations and -1 for reflections; for d > 2, and for maps with gradients, it is
    (e, d, d).
    """

    values: Tensor
    det: Tensor
    rank: int

    @classmethod
    def identity(cls, graph: NeighborGraph, dtype: torch.dtype) -> Connection:
        """The identity of each edge, d = 1: the connection of functions."""
        det = torch.ones(graph.num_edges, dtype=torch.int8, device=graph.device)
        return cls(values=det.new_empty((len(det), 0), dtype=dtype), det=det, rank=1)

    def blocks(self, edges: Any = slice(None)) -> Tensor:
        """The maps as ``(e, d, d)`` matrices."""
        values = self.values[edges]
        det = self.det[edges].to(values.dtype)
        if values.ndim == 3:
            return values
        if self.rank == 1:
            return det[:, None, None]
        return plane_blocks(values, det)

    def power(self, order: int) -> Connection:
        r"""The connection of the powers :math:`z^n` of plane vectors: a turn by an angle becomes
        one by n times that angle, and a reflection remains one.

        >>> turn = Connection(
        ...     values=torch.tensor([[0.0, 1.0]]), det=torch.tensor([1], dtype=torch.int8), rank=2
        ... )
        >>> turn.power(2).values[:, 0].tolist()  # cosines
        [-1.0]
        """
        cos, sin = self.values.unbind(1)
        angles = order * torch.atan2(sin, cos)
        return replace(self, values=torch.stack([angles.cos(), angles.sin()], dim=1))


def plane_blocks(values: Tensor, det: Tensor) -> Tensor:
    """Matrices ``(e, 2, 2)`` with the first columns ``values`` (e, 2) and the signs ``det`` (e,) of
    determinants."""
    cos, sin = values.unbind(1)
    first_row = torch.stack([cos, -det * sin], -1)
    second_row = torch.stack([sin, det * cos], -1)
    return torch.stack([first_row, second_row], 1)


def closest_orthogonal(matrices: np.ndarray) -> np.ndarray:
    """Closest orthogonal matrix to each of ``(..., d, d)``: the readable reference.

    >>> closest_orthogonal(np.array([[[2.0, 0.0], [0.0, 0.5]]])).tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    left, _, right = np.linalg.svd(matrices)
    return left @ right


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _transport_plane(start, stop, frames, indptr, indices, values, det, weak):  # pragma: no cover
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            a = b = c = d = 0.0
            for q in range(frames.shape[1]):
                p0 = frames[i, q, 0]
                p1 = frames[i, q, 1]
                q0 = frames[j, q, 0]
                q1 = frames[j, q, 1]
                a += p0 * q0
                b += p0 * q1
                c += p1 * q0
                d += p1 * q1
            sign = 1.0 if a * d - b * c >= 0.0 else -1.0
            cos = a + sign * d
            sin = c - sign * b
            norm = np.sqrt(cos * cos + sin * sin)
            values[e, 0] = cos / norm
            values[e, 1] = sin / norm
            det[e] = np.int8(sign)
            weak[i] += norm <= MIN_OVERLAP


def connect(
    frames: Tensor,
    graph: NeighborGraph,
    dtype: torch.dtype = torch.float64,
    numbers: Tensor | None = None,
) -> Connection:
    """Transport maps between the frames ``(n, D, d)`` along every edge of the graph.

    ``numbers`` holds the user's numbers of the points, for messages.

    >>> from tangentbundle.geometry.cloud import PointCloud
    >>> plane = PointCloud(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    >>> quarter_turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    >>> frames = torch.stack([torch.eye(2), quarter_turn]).double()
    >>> connect(frames, plane.within(2.0)).blocks()[0].tolist()  # from point 1 to point 0
    [[0.0, -1.0], [1.0, 0.0]]
    """
    if frames.shape[2] == 2 and frames.device.type == "cpu":
        connection, weak = _connect_planes(frames, graph, dtype)
    else:
        connection, weak = connect_by_torch(frames, graph, dtype)
    if bool(weak.any()):
        first = first_of(weak.nonzero().flatten(), numbers)[1]
        raise RankDeficientError(
            f"along {int(weak.sum())} edges (first at point {first}) the two tangent spaces hold "
            "perpendicular directions, so no transport between them is defined. The scale is too "
            "large for the curvature, or the dimension is wrong: use a smaller eps."
        ).at_point(first)
    return connection


def _connect_planes(
    frames: Tensor, graph: NeighborGraph, dtype: torch.dtype
) -> tuple[Connection, Tensor]:
    """Maps between planes by the kernel for CPUs, and the number of undefined ones at each
    point."""
    n = len(frames)
    values = torch.empty((graph.num_edges, 2), dtype=dtype)
    det = torch.empty(graph.num_edges, dtype=torch.int8)
    weak = torch.zeros(n, dtype=torch.int64)
    run_ranges(
        _transport_plane,
        n,
        frames.contiguous().numpy(),
        graph.indptr.numpy(),
        graph.indices.numpy(),
        values.numpy(),
        det.numpy(),
        weak.numpy(),
        grain=512,
    )
    return Connection(values=values, det=det, rank=2), weak


def connect_by_torch(
    frames: Tensor, graph: NeighborGraph, dtype: torch.dtype
) -> tuple[Connection, Tensor]:
    """The same for frames of any rank on any device.

    Maps of edges are computed for their ends ``lower < upper``, and transposed for others.
    """
    _, dims, d = frames.shape
    num_edges = graph.num_edges
    device = frames.device
    shapes_of_values = {1: (num_edges, 0), 2: (num_edges, 2)}
    shape = shapes_of_values.get(d, (num_edges, d, d))
    values = torch.empty(shape, dtype=dtype, device=device)
    det = torch.empty(num_edges, dtype=torch.int8, device=device)
    weak = torch.zeros(len(frames), dtype=torch.int64, device=device)
    # entry [m][a] is entry (m, a) of all frames: single numbers are gathered fastest
    entries = [list(axis.T.contiguous()) for axis in frames.unbind(1)]
    rows = graph.rows
    numbers_at_once = CPU_CHUNK if device.type == "cpu" else CHUNK
    chunk = max(1, numbers_at_once // (dims * d * d))
    for start in range(0, num_edges, chunk):
        edges = slice(start, start + chunk)
        starts = rows[edges]
        ends = graph.indices[edges].long()
        lower = torch.minimum(starts, ends)
        upper = torch.maximum(starts, ends)
        products = _products_of_frames(entries, lower, upper)
        is_forward = starts < ends
        if d == 1:
            reflected = products[0, 0] < 0
            undefined = products[0, 0].abs() < MIN_OVERLAP
        elif d == 2:
            rotations, reflected, undefined = _closest_in_plane(products, is_forward)
            values[edges] = rotations
        else:
            maps, undefined = polar_factors(products.permute(2, 0, 1).contiguous(), MIN_OVERLAP)
            reflected = torch.linalg.det(maps) < 0
            values[edges] = torch.where(is_forward[:, None, None], maps, maps.mT)
        det[edges] = torch.where(reflected, -1, 1)
        weak.index_add_(0, starts, undefined.long())
    return Connection(values=values, det=det, rank=d), weak


def _products_of_frames(entries: list[list[Tensor]], lower: Tensor, upper: Tensor) -> Tensor:
    """Products :math:`O_i^T O_j`, ``(d, d, m)``, of the frames at both ends of edges."""
    d = len(entries[0])
    products = entries[0][0].new_zeros((d, d, len(lower)))
    for axis in entries:
        left = [column[lower] for column in axis]
        right = [column[upper] for column in axis]
        for a in range(d):
            for b in range(d):
                products[a, b].addcmul_(left[a], right[b])
    return products


def _closest_in_plane(products: Tensor, is_forward: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First columns ``(m, 2)`` of the closest orthogonal matrices to ``products`` (2, 2, m), which
    of them are reflections, and which are undefined.

    Those of edges that are not forward are transposed: rotations turn back.
    """
    (p, q), (r, s) = products
    reflected = p * s - q * r < 0
    cos = torch.where(reflected, p - s, p + s)
    sin = torch.where(reflected, r + q, r - q)
    norm = torch.hypot(cos, sin)
    sin = torch.where(reflected | is_forward, sin, -sin)
    return torch.stack([cos / norm, sin / norm], 1), reflected, norm <= MIN_OVERLAP


def connect_with_gradients(frames: Tensor, graph: NeighborGraph, dtype: torch.dtype) -> Connection:
    """The transport maps of ``connect`` as blocks ``(e, d, d)``, differentiable in the frames."""
    products = frames[graph.rows].mT @ frames[graph.indices]
    maps = products @ inverse_root(products.mT @ products)
    det = torch.where(torch.linalg.det(maps.detach()) < 0, -1, 1).to(torch.int8)
    return Connection(values=maps.to(dtype), det=det, rank=frames.shape[2])
