"""Neighbour graphs in the memory of a device."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

from ..arrays import host, on_host
from ..errors import InvalidInputError
from ..memory import device_memory
from .balls import ball_edges
from .graph import NeighborGraph, check_memory, edge_weights, radius_graph
from .kernels import Kernel
from .tensor_cloud import TensorCloud, near_blocks

Tensor = torch.Tensor


@on_host("indptr", "indices", "distances")
class TensorGraph(NeighborGraph):
    """A graph of tensors; its NumPy arrays are copies, made when they are first read."""

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """``indptr``, ``indices`` and ``distances`` on the device."""
        fields = vars(self)
        return fields["indptr"], fields["indices"], fields["distances"]

    @property
    def num_points(self) -> int:
        return len(self.tensors[0]) - 1

    @property
    def num_edges(self) -> int:
        return len(self.tensors[1])

    @property
    def median_degree(self) -> float:
        return float(self.tensors[0].diff().median())

    @property
    def isolated(self) -> np.ndarray:
        return host((self.tensors[0].diff() == 0).nonzero().flatten())

    @cached_property
    def num_components(self) -> int:
        return int(self.labels.max()) + 1

    @cached_property
    def edge_rows(self) -> Tensor:
        """The point each directed edge starts from, ``(e,)``, on the device."""
        indptr = self.tensors[0]
        rows = torch.arange(self.num_points, device=indptr.device)
        return torch.repeat_interleave(rows, indptr.diff(), output_size=self.num_edges)

    def ends(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        some = torch.as_tensor(edges, device=self.tensors[0].device)
        return host(torch.searchsorted(self.tensors[0], some, right=True) - 1), host(self.tensors[1][some])

    def padded(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Numbers of the edges of some rows ``(m, k)``, k the most of them, and which are there."""
        start, length = self.tensors[0][:-1][rows, None], self.tensors[0].diff()[rows, None]
        slots = torch.arange(max(1, int(length.max())), device=start.device)
        return (start + slots).clamp_max(max(self.num_edges - 1, 0)), slots < length

    def components(self) -> np.ndarray:
        return host(self.labels)

    @cached_property
    def labels(self) -> Tensor:
        """Labels as a tensor: points start below their first neighbour; then trees at both ends of edges are joined."""
        indptr, indices, _ = self.tensors
        parent = torch.arange(self.num_points, device=indptr.device)
        linked = indptr.diff() > 0
        first = indices[indptr[:-1].clamp_max(max(self.num_edges - 1, 0))] if self.num_edges else parent
        parent = _roots(torch.where(linked, torch.minimum(parent, first), parent))
        a, b = parent[self.edge_rows], parent[indices]
        while len(left := (a != b).nonzero().flatten()):
            a, b = a[left], b[left]
            parent = _roots(parent.scatter_reduce(0, torch.maximum(a, b), torch.minimum(a, b), "amin"))
            a, b = parent[a], parent[b]
        return torch.unique(parent, return_inverse=True)[1]


def _roots(parent: Tensor) -> Tensor:
    """The root of every point's tree."""
    while not torch.equal(above := parent[parent], parent):
        parent = above
    return parent


def row_sums(indptr: Tensor, values: Tensor) -> Tensor:
    """Sums over the edges of each row, ``(e,)`` to ``(n,)``, in float64."""
    return torch.segment_reduce(values.double(), "sum", offsets=indptr, unsafe=True)


@radius_graph.register
def _radius_graph(points: TensorCloud, radius: float, *, max_memory: float | None = None, dim: int = 2) -> TensorGraph:
    if not (np.isfinite(radius) and radius > 0):
        raise InvalidInputError(f"radius must be positive and finite, got {radius}.")
    device = points.coordinates.device
    limit = device_memory(device) if max_memory is None else max_memory

    def allow(edges: int) -> None:
        check_memory(float(edges), limit, "Use a smaller eps, or fewer neighbors.", dim)

    within = radius / points.unit
    if device.type == "cuda":
        from .cuda_search import cuda_ball_edges  # there may be no Triton

        edges: tuple[Tensor, ...] = cuda_ball_edges(points, within, *near_blocks(points, within, limit), allow)
    else:
        arrays = ball_edges(points.coordinates.numpy(), points.boxed.numpy(), within, allow)
        edges = tuple(map(torch.from_numpy, arrays))
    indptr, indices, distances = edges
    return TensorGraph(indptr, indices, distances * points.unit)  # type: ignore[arg-type]


@edge_weights.register
def _edge_weights(graph: TensorGraph, kernel: Kernel, radius: float) -> Tensor:
    return kernel(graph.tensors[2] / radius)
