r"""Orthogonal maps along edges: :math:`O_{ij}`, the closest orthogonal matrix to :math:`O_i^T O_j`.

Stored compactly: d = 1 a sign, d = 2 a unit complex number and a sign, otherwise the blocks. Each
edge is computed from its ordered end points, so that :math:`O_{ji} = O_{ij}^T` to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..arrays import host, on_host
from ..errors import RankDeficientError
from ..parallel import run_ranges
from .graph import NeighborGraph
from .ordering import first_of
from .small_matrices import polar_factors
from .tensor_cloud import CHUNK, CPU_CHUNK


@on_host("values", "det")
@dataclass(frozen=True)
class Connection:
    r"""The orthogonal map of every directed edge of a graph, in compact form.

    Attributes: ``values`` and ``det``. For d = 1, ``values`` is empty with shape (e, 0) and the map
    is ``det``; for d = 2 it is (e, 2) with the first column (cos, sin) of
    :math:`\begin{pmatrix} c & -\delta s \\ s & \delta c \end{pmatrix}`, where :math:`\delta` is
    ``det`` = +1 for rotations and -1 for reflections; for d > 2 it is (e, d, d). ``det`` is (e,)
    int8. They may be given as tensors of a device; the attributes are then NumPy copies.
    """

    values: np.ndarray
    det: np.ndarray
    rank: int

    @classmethod
    def identity(cls, graph: NeighborGraph, dtype: torch.dtype) -> Connection:
        """The identity of each edge, d = 1: the connection of functions."""
        det = torch.ones(graph.num_edges, dtype=torch.int8, device=graph.tensors[0].device)
        return cls(det.new_empty((len(det), 0), dtype=dtype), det, 1)  # type: ignore[arg-type]

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """``values`` and ``det`` as tensors, where they are."""
        return torch.as_tensor(vars(self)["values"]), torch.as_tensor(vars(self)["det"])

    def blocks(self, edges: slice | np.ndarray = slice(None)) -> np.ndarray:
        """The maps as ``(e, d, d)`` matrices."""
        values, det = (tensor.cpu()[edges] for tensor in self.tensors)
        if self.rank == 1:
            return det[:, None, None].to(values).numpy()
        return (plane_blocks(values, det.to(values)) if self.rank == 2 else values).numpy()


def plane_blocks(values: Tensor, det: Tensor) -> Tensor:
    """Matrices ``(e, 2, 2)`` with the first columns ``values`` (e, 2) and the signs ``det`` (e,) of
    determinants."""
    c, s = values.unbind(1)
    return torch.stack([torch.stack([c, -det * s], -1), torch.stack([s, det * c], -1)], 1)


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
                p0, p1 = frames[i, q, 0], frames[i, q, 1]
                q0, q1 = frames[j, q, 0], frames[j, q, 1]
                a += p0 * q0
                b += p0 * q1
                c += p1 * q0
                d += p1 * q1
            sign = 1.0 if a * d - b * c >= 0.0 else -1.0
            cos, sin = a + sign * d, c - sign * b
            norm = np.sqrt(cos * cos + sin * sin)
            values[e, 0], values[e, 1], det[e] = cos / norm, sin / norm, np.int8(sign)
            weak[i] += norm <= 1e-9


def connect(
    frames: Any, graph: NeighborGraph, dtype: type = np.float64, order: Any = None
) -> Connection:
    """Transport maps between the frames ``(n, D, d)`` along every edge of the graph.

    ``order`` holds the user's numbers of the points, for messages.

    >>> from tangentbundle.geometry.graph import radius_graph
    >>> plane = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> frames = np.stack([np.eye(2), np.array([[0.0, -1.0], [1.0, 0.0]])])
    >>> connect(frames, radius_graph(plane, 2.0)).blocks()[0].tolist()  # from point 1 to point 0
    [[0.0, -1.0], [1.0, 0.0]]
    """
    (n, _, d), bases = frames.shape, torch.as_tensor(frames)
    if d == 2 and bases.device.type == "cpu":
        values: np.ndarray = np.empty((graph.num_edges, 2), dtype)
        det, rows, weak = (
            np.empty(graph.num_edges, np.int8),
            bases.contiguous().numpy(),
            np.zeros(n, np.int64),
        )
        run_ranges(
            _transport_plane, n, rows, graph.indptr, graph.indices, values, det, weak, grain=512
        )
        _refuse_weak(weak, order)
        return Connection(values, det, d)
    return _connect_tensors(bases, graph, dtype, order)


def _connect_tensors(
    bases: Tensor, graph: NeighborGraph, dtype: type = np.float64, order: Any = None
) -> Connection:
    """The same in torch, for any d; maps of edges are found for their ends low < high, and
    transposed for others."""
    _, dims, d = bases.shape
    columns = [
        list(axis.T.contiguous()) for axis in bases.unbind(1)
    ]  # single numbers are gathered fastest
    chunk = max(1, (CPU_CHUNK if bases.device.type == "cpu" else CHUNK) // (dims * d * d))
    edges, (_, indices, _), rows = graph.num_edges, graph.tensors, graph.edge_rows
    shape = {1: (edges, 0), 2: (edges, 2)}.get(d, (edges, d, d))
    values = torch.empty(
        shape, dtype=torch.float32 if dtype == np.float32 else torch.float64, device=rows.device
    )
    det, weak = torch.empty(edges, dtype=torch.int8, device=rows.device), [rows[:0]]
    for start in range(0, edges, chunk):
        some = slice(start, start + chunk)
        i, j = rows[some], indices[some].long()
        low, high, maps = torch.minimum(i, j), torch.maximum(i, j), bases.new_zeros((d, d, len(i)))
        for axis in columns:
            left, right = ([column[ends] for column in axis] for ends in (low, high))
            for a in range(d):
                for b in range(d):
                    maps[a, b].addcmul_(left[a], right[b])
        if d == 1:
            flip, faint = maps[0, 0] < 0, maps[0, 0].abs() < 1e-9
        elif d == 2:
            (p, q), (r, s) = maps
            flip = p * s - q * r < 0
            cos, sin = torch.where(flip, p - s, p + s), torch.where(flip, r + q, r - q)
            norm = torch.hypot(cos, sin)
            faint, sin = (
                norm <= 1e-9,
                torch.where(flip | (i < j), sin, -sin),
            )  # the inverse turns back
            values[some] = torch.stack([cos / norm, sin / norm], 1)
        else:
            maps, faint = polar_factors(maps.permute(2, 0, 1).contiguous())
            flip = torch.linalg.det(maps) < 0
            values[some] = torch.where((i < j)[:, None, None], maps, maps.mT)
        det[some] = torch.where(flip, -1, 1)
        weak.append(i[faint])
    _refuse_weak(np.bincount(host(torch.cat(weak))), order)
    return Connection(values, det, d)  # type: ignore[arg-type]


def _refuse_weak(weak: np.ndarray, order: Any) -> None:
    """Refuse maps that are not defined; ``weak`` (n,) counts their edges at each point."""
    if weak.any():
        number = first_of(np.flatnonzero(weak), order)[1]
        raise RankDeficientError(
            f"along {int(weak.sum())} edges (first at point {number}) the two tangent spaces hold "
            "perpendicular directions, so no transport between them is defined. The scale is too "
            "large for the curvature, or the dimension is wrong: use a smaller eps."
        ).at_point(number)
