"""The storage that GPUs like: slices of rows, padded to one length and stored side by side.

Threads of one warp work on the rows of a slice in step; with the k-th edges of all its rows next to each other they
read one line of memory where CSR would make them read as many lines as there are rows. Within windows of a few rows,
which stay together on the curve, rows are sorted by length, so that little is padded. Padded edges have weight zero:
the kernels need no masks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .product import BlockMatrix

SLICE = 8
"""Rows in a slice."""

GROUP = 2
"""Slices have a multiple of this many edges a row: kernels take that many at a time."""

WINDOW = 32
"""Rows sorted by length together."""


@dataclass(frozen=True)
class SlicedMatrix:
    """``indptr`` (slices + 1) into ``cols`` (e') and ``values`` (e', 2) or (e', d, d), and ``order`` (n).

    Edge k of the r-th row of a slice lies at ``indptr[slice] + k * SLICE + r``; ``order`` is as in ``BlockMatrix``,
    for the rows in their new order.
    """

    indptr: torch.Tensor
    cols: torch.Tensor
    values: torch.Tensor
    order: torch.Tensor

    @classmethod
    def from_csr(cls, matrix: BlockMatrix) -> SlicedMatrix:
        """Convert, on the matrix's own device."""
        device, n = matrix.cols.device, len(matrix.order)
        degrees = matrix.indptr.diff()
        window = torch.arange(n, device=device) // WINDOW
        rows = torch.argsort(window * (int(degrees.max()) + 1) + degrees, stable=True)
        rank = torch.empty_like(rows)
        rank[rows] = torch.arange(n, device=device)
        lengths = torch.nn.functional.pad(degrees[rows], (0, -n % SLICE)).reshape(-1, SLICE).amax(1)
        lengths = (lengths + GROUP - 1) // GROUP * GROUP
        indptr = torch.nn.functional.pad((lengths * SLICE).cumsum(0), (1, 0))
        old_row = torch.repeat_interleave(torch.arange(n, device=device), degrees)
        position = torch.arange(len(matrix.cols), device=device) - matrix.indptr[old_row]
        new_row = rank[old_row]
        place = indptr[new_row // SLICE] + position * SLICE + new_row % SLICE
        flipped = matrix.cols < 0
        column = rank[torch.where(flipped, ~matrix.cols, matrix.cols).long()].int()
        # padding points at a row of its own slice: weight zero, and surely in cache
        slices = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths * SLICE)
        cols = (slices * SLICE).int().clamp_max(n - 1)
        cols[place] = torch.where(flipped, ~column, column)
        values = matrix.values.new_zeros((len(cols), *matrix.values.shape[1:]))
        values[place] = matrix.values
        return cls(indptr, cols, values, matrix.order[rows])
