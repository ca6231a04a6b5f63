"""Clouds in the memory of a device: sorted along the curve, in blocks with bounding boxes, searched
by torch.

Balls and nearest points are searched in pairs of blocks whose boxes are near enough, as in
``search.py``: exact in every dimension, and with distances from differences of coordinates, which
keep their digits in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import host, points_tensor
from ..errors import InvalidInputError, TooFewPointsError
from ..memory import require_memory
from .ordering import order_along_curve, principal_axes
from .search import BLOCK, WIDE

CHUNK, CPU_CHUNK = 2**25, 2**21
"""Numbers in the largest array at work, more or less, on GPUs and on CPUs."""


@dataclass(frozen=True, eq=False)
class TensorCloud:
    """Points ``(n, D)`` along the curve, in their own units; ``curve_order[k]`` is the user's index
    of the k-th.

    ``coordinates``, in which distances are found, are centred and divided by ``unit``, a power of
    two, so that they lie between -1 and 1; ``boxed`` are those of the boxes, turned and fewer where
    there are many. ``cloud[rows]`` and ``np.asarray(cloud)`` give NumPy copies.
    """

    points: Tensor
    curve_order: Tensor
    unit: float
    coordinates: Tensor = field(repr=False)
    boxed: Tensor = field(repr=False)

    @classmethod
    def of(cls, points: Any) -> TensorCloud:
        """Sort a tensor of points; clouds with nothing to estimate are refused."""
        tensor = points_tensor(points, "points")[0].contiguous()
        exact = tensor.double()
        extent = float((exact.amax(0) - exact.amin(0)).max()) if len(tensor) else 0.0
        refuse_degenerate(len(tensor), extent)
        unit = 2.0 ** math.ceil(math.log2(extent))
        centred = (exact - exact.mean(0)) / unit
        turned = exact
        if tensor.shape[1] > 3:
            turned = centred @ torch.from_numpy(principal_axes(centred).copy()).to(centred)
        order = order_along_curve(turned[:, :3])
        boxed = turned[:, :WIDE] if tensor.shape[1] > WIDE else centred
        return cls(
            tensor[order],
            order,
            unit,
            centred[order].to(tensor.dtype),
            boxed[order].to(tensor.dtype),
        )

    @property
    def shape(self) -> torch.Size:
        return self.points.shape

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, rows: Any) -> np.ndarray:
        if not isinstance(rows, slice):
            rows = torch.as_tensor(rows, device=self.points.device)
        return host(self.points[rows])

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return host(self.points)

    def central_order(self) -> np.ndarray:
        """Rows by their distance to the centroid, ``(n,)``."""
        exact = self.points.double()
        squares = (exact - exact.mean(0)).square().sum(1)
        return host(squares.argsort(stable=True))

    @cached_property
    def boxes(self) -> Tensor:
        """Least and largest coordinates of every block, ``(2, blocks, q)``."""
        blocks = _blocks(self.boxed)
        return torch.stack([blocks.amin(1), blocks.amax(1)])

    def nearest(self, k: int, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances and indices ``(q, k)`` of the k nearest other points of some rows."""
        n, (low, high) = len(self), self.boxes
        rows = torch.as_tensor(queries, device=low.device)
        distances = torch.empty((len(rows), k), dtype=low.dtype, device=low.device)
        indices = torch.empty((len(rows), k), dtype=torch.int64, device=low.device)
        todo, count = torch.arange(len(rows), device=low.device), 8 + 2 * (k // BLOCK + 1)
        while len(todo):
            left, count = [], min(count, len(low))
            for some in todo.split(max(1, CHUNK // (max(len(low), count * BLOCK)))):
                row = rows[some]
                boxed = self.boxed[row][:, None]
                gaps, blocks = torch.topk(
                    _gaps(boxed, boxed, low, high), min(count + 1, len(low)), largest=False
                )
                col = (
                    BLOCK * blocks[:, :count, None] + torch.arange(BLOCK, device=low.device)
                ).flatten(1)
                outside = (col >= n) | (col == row[:, None])
                squares = torch.zeros(col.shape, dtype=low.dtype, device=low.device)
                for axis in self.coordinates.unbind(1):
                    squares += (axis[col.clamp_max(n - 1)] - axis[row][:, None]).square()
                best, which = torch.topk(squares.masked_fill_(outside, torch.inf), k, largest=False)
                distances[some], indices[some] = best.sqrt(), col.gather(1, which)
                if count < len(low):
                    left.append(some[best[:, -1].sqrt() * (1 + 1e-4) + 1e-5 > gaps[:, -1].sqrt()])
            todo, count = torch.cat(left) if left else todo[:0], 4 * count
        return host(distances) * self.unit, host(indices)


def refuse_degenerate(n: int, extent: float) -> None:
    """Refuse clouds of ``n`` points in a cube of width ``extent`` with nothing to estimate."""
    if n < 3:
        raise TooFewPointsError(
            f"a bundle needs at least 3 points in general position, got {n}. Give more points."
        )
    if extent == 0:
        raise TooFewPointsError(f"all {n} points coincide; there is no manifold to estimate.")
    if not 1e-140 < extent < 1e150:
        raise InvalidInputError(
            f"the cloud is {extent:.2g} wide: squared distances underflow or overflow. Rescale it."
        )


def tensor_of(points: Any) -> Tensor:
    """Points ``(n, D)`` of an array or a ``TensorCloud`` as a float64 tensor, where they are."""
    return points.points.double() if isinstance(points, TensorCloud) else torch.as_tensor(points)


def _blocks(values: Tensor) -> Tensor:
    """Rows in blocks, ``(blocks, BLOCK, q)``; the last row fills up the last block."""
    missing = -len(values) % BLOCK
    return torch.cat([values, values[-1:].expand(missing, *values.shape[1:])]).unflatten(
        0, (-1, BLOCK)
    )


def _gaps(low: Tensor, high: Tensor, other_low: Tensor, other_high: Tensor) -> Tensor:
    """Squared distances between boxes, whose corners broadcast."""
    total = torch.zeros(
        torch.broadcast_shapes(low.shape, other_low.shape)[:-1], dtype=low.dtype, device=low.device
    )
    for a in range(low.shape[-1]):
        gap = torch.maximum(
            other_low[..., a] - high[..., a], low[..., a] - other_high[..., a]
        ).clamp_min(0)
        total += gap * gap
    return total


def near_blocks(
    cloud: TensorCloud, radius: float, max_memory: float | None = None
) -> tuple[Tensor, Tensor]:
    """Pairs of blocks that may hold points at most ``radius`` (in units of the cloud) apart,
    sorted, ``(p,)`` each."""
    low, high = cloud.boxes
    limit = (radius * (1 + 1e-4) + 1e-5) ** 2  # turned coordinates are rounded
    outer = _blocks(low).amin(1), _blocks(high).amax(1)
    count, inside = len(low), torch.arange(BLOCK, device=low.device)
    found, pairs_found, rows = [], 0, max(1, CHUNK // len(outer[0]))
    for start in range(0, len(outer[0]), rows):
        some_low, some_high = (corner[start : start + rows, None] for corner in outer)
        near = _gaps(some_low, some_high, *outer) <= limit
        pairs = near.nonzero() + torch.tensor([start, 0], device=low.device)
        for some in pairs.split(CHUNK // BLOCK**2):
            a, b = (BLOCK * some[:, k, None] + inside for k in range(2))
            a, b = torch.broadcast_tensors(a[:, :, None], b[:, None, :])
            valid = (a < count) & (b < count)
            a, b = a[valid], b[valid]
            close = _gaps(low[a], high[a], low[b], high[b]) <= limit
            found.append(a[close] * count + b[close])
            pairs_found += len(found[-1])
            require_memory(
                32.0 * pairs_found, "a search in such large balls", "Use a smaller eps.", max_memory
            )
    keys = torch.cat(found).sort()[0]
    return keys // count, keys % count
