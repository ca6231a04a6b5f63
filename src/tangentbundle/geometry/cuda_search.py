"""The Triton kernel that finds all pairs of points within a radius: counts first, then writes them,
sorted."""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch.nn.functional import pad

from .tree_search import BLOCK


@triton.jit
def _near(
    axes, starts, blocks, indptr, indices, distances, limit, n, stride,
    DIMS: tl.constexpr, BLOCK: tl.constexpr, FILL: tl.constexpr,
):  # fmt: skip
    """A program has the rows of a block: all points of the blocks near it are looked at, in
    order."""
    own = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count = tl.zeros((BLOCK,), tl.int64)
    within = tl.load(limit)  # not an argument: Triton passes numbers in single precision
    if FILL:
        count = tl.load(indptr + own, mask=own < n, other=0)
    for pair in range(tl.load(starts + tl.program_id(0)), tl.load(starts + tl.program_id(0) + 1)):
        other = tl.load(blocks + pair).to(tl.int32) * BLOCK + tl.arange(0, BLOCK)
        squares = tl.zeros((BLOCK, BLOCK), axes.dtype.element_ty)
        for a in range(DIMS):
            step = (
                tl.load(axes + a * stride + own)[:, None]
                - tl.load(axes + a * stride + other)[None, :]
            )
            squares += step * step
        is_near = (
            (squares <= within)
            & (own[:, None] != other[None, :])
            & (own < n)[:, None]
            & (other < n)[None, :]
        )
        if FILL:
            place = count[:, None] + tl.cumsum(is_near.to(tl.int32), 1) - 1
            tl.store(
                indices + place, other[None, :] + tl.zeros((BLOCK, BLOCK), tl.int32), mask=is_near
            )
            tl.store(distances + place, tl.sqrt(squares), mask=is_near)
        count += tl.sum(is_near.to(tl.int32), 1)
    if not FILL:
        tl.store(indptr + own, count, mask=own < n)


def cuda_ball_edges(
    coordinates: torch.Tensor,
    radius: float,
    first: torch.Tensor,
    second: torch.Tensor,
    allow: Callable[[float], None] = lambda edges: None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As ``tree_search.ball_edges``, of coordinates ``(n, D)`` and the pairs of blocks ``first``
    and ``second``, sorted by the first."""
    n, dims = coordinates.shape
    device = coordinates.device
    programs = triton.cdiv(n, BLOCK)
    axes = pad(coordinates.T, (0, -n % BLOCK)).contiguous()
    starts = torch.searchsorted(first, torch.arange(programs + 1, device=device))
    limit = torch.full((1,), radius**2, dtype=axes.dtype, device=device)

    def search(fill: bool, *outputs: torch.Tensor) -> None:
        _near[(programs,)](
            axes,
            starts,
            second,
            *outputs,
            limit,
            n,
            axes.shape[1],
            DIMS=dims,
            BLOCK=BLOCK,
            FILL=fill,
            num_warps=1,
        )

    with torch.cuda.device_of(axes):
        degrees = torch.empty(n, dtype=torch.int64, device=device)
        search(False, degrees, second, axes)
        indptr = pad(degrees.cumsum(0), (1, 0))
        num_edges = int(indptr[-1])
        allow(num_edges)
        indices = torch.empty(num_edges, dtype=torch.int32, device=device)
        distances = torch.empty(num_edges, dtype=axes.dtype, device=device)
        search(True, indptr, indices, distances)
    return indptr, indices, distances
