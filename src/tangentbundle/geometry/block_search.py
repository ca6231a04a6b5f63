"""Searches on GPUs: points in blocks with bounding boxes, by torch, and a Triton kernel for pairs.

Balls and nearest points are searched in pairs of blocks whose boxes are near enough, as in
``tree_search.py``: exact in every dimension, and with distances from differences of coordinates,
which keep their digits in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ..memory import EdgeMemory, device_memory, require_memory
from .graph import NeighborGraph
from .ordering import principal_axes
from .tree_search import BLOCK, MAX_SEARCHED_DIMENSIONS, ball_edges

CHUNK = 2**25
"""Numbers in the largest array at work, more or less, on GPUs."""

CPU_CHUNK = 2**21
"""The same on CPUs."""

RELATIVE_ROUNDING = 1e-4
"""Rounding of distances in turned coordinates in float32, in units of the distance: boxes are
searched so much farther."""

ABSOLUTE_ROUNDING = 1e-5
"""The same in units of the cloud."""


@dataclass(frozen=True, eq=False)
class BlockSearch:
    """Coordinates of a cloud in which distances are computed, on any device.

    ``coordinates`` (n, D) are centred and divided by ``unit``, a power of two, so that they lie
    between -1 and 1; ``boxed`` are those of the boxes, turned and fewer where there are many.
    """

    coordinates: Tensor = field(repr=False)
    boxed: Tensor = field(repr=False)
    unit: float = 1.0

    @classmethod
    def of(cls, points: Tensor, dtype: torch.dtype) -> BlockSearch:
        """The search among points ``(n, D)`` float64, with distances in another precision."""
        extent = float((points.amax(0) - points.amin(0)).max())
        unit = 2.0 ** math.ceil(math.log2(extent))
        coordinates = (points - points.mean(0)) / unit
        boxed = coordinates
        if points.shape[1] > MAX_SEARCHED_DIMENSIONS:
            turned = coordinates @ principal_axes(coordinates)
            boxed = turned[:, :MAX_SEARCHED_DIMENSIONS]
        return cls(coordinates.to(dtype), boxed.to(dtype), unit)

    def __len__(self) -> int:
        return len(self.coordinates)

    @cached_property
    def boxes(self) -> Tensor:
        """Least and largest coordinates of every block, ``(2, blocks, q)``."""
        blocks = _in_blocks(self.boxed)
        return torch.stack([blocks.amin(1), blocks.amax(1)])

    def order_from_centroid(self) -> Tensor:
        """Rows by their distance to the centroid, ``(n,)``."""
        exact = self.coordinates.double()
        squares = (exact - exact.mean(0)).square().sum(1)
        return squares.argsort(stable=True)

    def nearest(self, k: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Distances and indices ``(q, k)`` of the k nearest other points of some rows.

        The points of the nearest few blocks are looked at first. Where the k-th of them is farther
        than the next block, four times as many blocks are.
        """
        device = self.coordinates.device
        num_blocks = self.boxes.shape[1]
        distances = torch.empty((len(rows), k), dtype=torch.float64, device=device)
        indices = torch.empty((len(rows), k), dtype=torch.int64, device=device)
        remaining = torch.arange(len(rows), device=device)
        count = 8 + 2 * (k // BLOCK + 1)
        while len(remaining):
            count = min(count, num_blocks)
            unfinished = []
            chunk = max(1, CHUNK // max(num_blocks, count * BLOCK))
            for queries in remaining.split(chunk):
                blocks, next_gap = self._nearest_blocks(rows[queries], count)
                lengths, neighbors = self._nearest_in_blocks(rows[queries], blocks, k)
                distances[queries] = lengths.double() * self.unit
                indices[queries] = neighbors
                if count < num_blocks:
                    farthest = lengths[:, -1] * (1 + RELATIVE_ROUNDING) + ABSOLUTE_ROUNDING
                    unfinished.append(queries[farthest > next_gap])
            remaining = torch.cat([remaining[:0], *unfinished])
            count = 4 * count
        return distances, indices

    def _nearest_blocks(self, rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The nearest blocks ``(q, count)`` of some rows, and the distance of the next one."""
        lowest, highest = self.boxes
        places = self.boxed[rows][:, None]
        squared_gaps = _squared_gaps(places, places, lowest, highest)
        looked_at = min(count + 1, len(lowest))
        nearest, blocks = torch.topk(squared_gaps, looked_at, largest=False)
        return blocks[:, :count], nearest[:, -1].sqrt()

    def _nearest_in_blocks(self, rows: Tensor, blocks: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Distances and indices ``(q, k)`` of the k nearest other points in ``blocks``
        (q, count)."""
        n = len(self)
        inside = torch.arange(BLOCK, device=rows.device)
        columns = (BLOCK * blocks[:, :, None] + inside).flatten(1)
        not_neighbors = (columns >= n) | (columns == rows[:, None])
        columns_inside = columns.clamp_max(n - 1)
        squares = self.coordinates.new_zeros(columns.shape)
        for axis in self.coordinates.unbind(1):
            squares += (axis[columns_inside] - axis[rows][:, None]).square()
        squares.masked_fill_(not_neighbors, torch.inf)
        nearest, places = torch.topk(squares, k, largest=False)
        return nearest.sqrt(), columns.gather(1, places)

    def ball_graph(
        self,
        radius: float,
        memory: EdgeMemory,
        *,
        rows: slice | None,
    ) -> NeighborGraph:
        """The graph of all pairs at most ``radius`` apart, which must fit in the memory."""
        radius_in_units = radius / self.unit
        if self.coordinates.device.type == "cuda":
            from .cuda_search import cuda_ball_edges  # there may be no Triton

            first, second = self.pairs_of_blocks(radius_in_units, memory.max_memory)
            indptr, indices, lengths = cuda_ball_edges(
                self.coordinates, radius_in_units, first, second, memory.require
            )
            return NeighborGraph(indptr, indices, lengths.double() * self.unit)
        coordinates = self.coordinates.numpy()
        ends, columns, distances = ball_edges(
            coordinates, self.boxed.numpy(), radius_in_units, memory.require
        )
        return NeighborGraph(
            indptr=torch.from_numpy(ends),
            indices=torch.from_numpy(columns),
            distances=torch.from_numpy(distances).double() * self.unit,
        )

    def pairs_of_blocks(
        self, radius: float, max_memory: float | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pairs of blocks that may hold points at most ``radius`` (in units of the cloud) apart,
        sorted, ``(p,)`` each.

        Pairs of superblocks are compared first.
        """
        if max_memory is None:
            max_memory = device_memory(self.coordinates.device)
        lowest, highest = self.boxes
        limit = (radius * (1 + RELATIVE_ROUNDING) + ABSOLUTE_ROUNDING) ** 2
        lowest_of_groups = _in_blocks(lowest).amin(1)
        highest_of_groups = _in_blocks(highest).amax(1)
        num_groups = len(lowest_of_groups)
        keys = []
        num_pairs = 0
        chunk = max(1, CHUNK // num_groups)
        for start in range(0, num_groups, chunk):
            groups = slice(start, start + chunk)
            squared_gaps = _squared_gaps(
                lowest_of_groups[groups, None],
                highest_of_groups[groups, None],
                lowest_of_groups,
                highest_of_groups,
            )
            near_groups = (squared_gaps <= limit).nonzero()
            near_groups[:, 0] += start
            for pairs in near_groups.split(CHUNK // BLOCK**2):
                keys.append(self._near_pairs(pairs, limit))
                num_pairs += len(keys[-1])
                what = "a search in such large balls"
                require_memory(32.0 * num_pairs, what, "Use a smaller eps.", max_memory)
        sorted_keys = torch.cat(keys).sort()[0]
        return sorted_keys // len(lowest), sorted_keys % len(lowest)

    def _near_pairs(self, pairs_of_groups: Tensor, limit: float) -> Tensor:
        """Keys ``first * blocks + second`` of the near pairs of blocks in pairs of superblocks
        ``(m, 2)``."""
        lowest, highest = self.boxes
        num_blocks = len(lowest)
        inside = torch.arange(BLOCK, device=lowest.device)
        first = (BLOCK * pairs_of_groups[:, 0, None] + inside)[:, :, None]
        second = (BLOCK * pairs_of_groups[:, 1, None] + inside)[:, None, :]
        first, second = torch.broadcast_tensors(first, second)
        exist = (first < num_blocks) & (second < num_blocks)
        first = first[exist]
        second = second[exist]
        squared_gaps = _squared_gaps(lowest[first], highest[first], lowest[second], highest[second])
        is_near = squared_gaps <= limit
        return first[is_near] * num_blocks + second[is_near]


def _in_blocks(values: Tensor) -> Tensor:
    """Rows in blocks, ``(blocks, BLOCK, q)``; the last row fills up the last block."""
    missing = -len(values) % BLOCK
    filled = torch.cat([values, values[-1:].expand(missing, *values.shape[1:])])
    return filled.unflatten(0, (-1, BLOCK))


def _squared_gaps(
    lowest: Tensor, highest: Tensor, other_lowest: Tensor, other_highest: Tensor
) -> Tensor:
    """Squared distances between boxes, whose corners broadcast."""
    shape = torch.broadcast_shapes(lowest.shape, other_lowest.shape)[:-1]
    total = torch.zeros(shape, dtype=lowest.dtype, device=lowest.device)
    for a in range(lowest.shape[-1]):
        above = other_lowest[..., a] - highest[..., a]
        below = lowest[..., a] - other_highest[..., a]
        gap = torch.maximum(above, below).clamp_min(0)
        total += gap * gap
    return total
