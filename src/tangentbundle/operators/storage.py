"""How the average P is stored: rows in CSR form, and for GPUs pairs of rows in padded slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Self

import torch
from torch.nn.functional import pad

from ..geometry.transport import plane_blocks


class Layout(StrEnum):
    """How the rows of a matrix are stored."""

    ROWS = "rows"
    """One after the other, in CSR form: ``BlockMatrix``."""

    SLICES = "slices"
    """Several pairs of rows side by side: ``SlicedMatrix``."""


@dataclass(frozen=True)
class BlockMatrix:
    """P in CSR form: ``indptr`` (n + 1), ``cols`` (e), ``values`` (e, 2) or (e, d, d),
    ``curve_order`` (n).

    Rows are stored along the curve; row r belongs to row ``curve_order[r]`` of the signals, and
    ``cols`` number rows of the signals. With two values an edge (``stores_turns``) they are
    (w cos, w sin) of a rotation, or of a reflection where the column is complemented. Points that
    are ``in_place`` are not reordered at all: ``curve_order`` counts them.
    """

    indptr: torch.Tensor
    cols: torch.Tensor
    values: torch.Tensor
    curve_order: torch.Tensor
    in_place: bool = False

    layout: ClassVar[Layout] = Layout.ROWS

    @property
    def stores_turns(self) -> bool:
        """Whether each edge holds the two numbers of a turn in the plane, and no block."""
        return self.values.ndim == 2

    @property
    def rank(self) -> int:
        """The dimension d of the fibres."""
        return self.values.shape[-1]

    def blocks(self) -> torch.Tensor:
        """The blocks as ``(e, d, d)``."""
        if not self.stores_turns:
            return self.values
        return plane_blocks(self.values, torch.where(self.cols < 0, -1.0, 1.0).to(self.values))

    def transposed_values(self) -> torch.Tensor:
        """The values of the transposed blocks: rotations turn back, and reflections stay as they
        are."""
        if not self.stores_turns:
            return self.values.mT
        signs = torch.where(self.cols < 0, 1.0, -1.0).to(self.values)
        return torch.stack([self.values[:, 0], signs * self.values[:, 1]], dim=1)

    def in_user_order(self) -> BlockMatrix:
        """The matrix for signals in the user's order, of one for signals along the curve."""
        columns = self.curve_order[self.columns()]
        return replace(self, cols=torch.where(self.cols < 0, ~columns, columns))

    def along_curve(self) -> Self:
        """The matrix for signals that are stored along the curve, too, which ``cols`` count along:
        for recurrences."""
        order = self.curve_order
        return replace(
            self, curve_order=torch.arange(len(order), dtype=order.dtype, device=order.device)
        )

    def rows(self) -> torch.Tensor:
        """The signal row of each edge, ``(e,)``."""
        return torch.repeat_interleave(self.curve_order.long(), self.indptr.diff())

    def columns(self) -> torch.Tensor:
        """The signal row that each edge reads, ``(e,)``."""
        return torch.where(self.cols < 0, ~self.cols, self.cols).long()

    def to(self, device: torch.device, dtype: torch.dtype) -> Self:
        """The same matrix on another device and in another precision."""
        return replace(
            self,
            indptr=self.indptr.to(device),
            cols=self.cols.to(device),
            values=self.values.to(device, dtype),
            curve_order=self.curve_order.to(device),
        )


PAIRS = 4
"""Pairs of rows in a slice."""

GROUP = 4
"""Pairs have a multiple of this many neighbours: kernels take that many at a time."""

WINDOW = 16
"""Pairs sorted by length together."""

BEYOND = 64
"""Entries after the last slice: kernels read ahead."""

COLUMN = 2**30 - 1
"""The bits of a column in slices that are its number."""

FLIP_BITS = (-(2**31), 2**30)
"""The bits of a column that say that the first, and the second, row of a pair see a reflection."""


class SlicedMatrix(BlockMatrix):
    """P for GPUs: ``indptr`` (slices + 1), ``cols`` (e'), ``values`` (e', 2, 2) or (e', 2, d, d),
    ``curve_order`` (n).

    Two consecutive rows on the curve have most neighbours in common: a pair lists them once, with a
    value for either row (zero where only the other row has that neighbour), and a kernel gathers
    each signal once for both. Threads of a warp work on the pairs of a slice in step. Neighbour k
    of the p-th pair of a slice lies at ``indptr[slice] + k * PAIRS + p``, so that they read full
    lines of memory; padded neighbours have value zero, and kernels need no masks. Within windows of
    a few pairs, pairs are sorted by length, so that little is padded.

    Bits 31 and 30 of a column say whether the first and the second row see a reflection;
    ``curve_order`` is as in ``BlockMatrix``, for the rows in their new order.
    """

    layout: ClassVar[Layout] = Layout.SLICES

    @property
    def stores_turns(self) -> bool:
        """Whether each edge of a row holds the two numbers of a turn in the plane."""
        return self.values.ndim == 3

    @classmethod
    def from_csr(cls, matrix: BlockMatrix) -> SlicedMatrix:
        """Convert, on the matrix's own device. No edge may be there twice."""
        device = matrix.cols.device
        n = len(matrix.curve_order)
        num_pairs = (n + 1) // 2

        def count(length: int) -> torch.Tensor:
            return torch.arange(length, device=device)

        row = torch.repeat_interleave(count(n), matrix.indptr.diff())
        keys, neighbor = torch.unique(row // 2 * n + matrix.columns(), return_inverse=True)
        pair = keys // n
        degrees = torch.bincount(pair, minlength=num_pairs)
        by_length = count(num_pairs) // WINDOW * (len(row) + 2) + degrees
        by_length[n // 2 :] += len(row) + 1  # a single row stays the last
        sort = torch.argsort(by_length, stable=True)
        new_pair = torch.empty_like(sort).index_copy_(0, sort, count(num_pairs))
        new_row = (2 * new_pair[:, None] + count(2)).flatten()[:n]
        lengths = pad(degrees[sort], (0, -num_pairs % PAIRS)).reshape(-1, PAIRS).amax(1)
        lengths = (lengths + GROUP - 1) // GROUP * GROUP
        indptr = pad((lengths * PAIRS).cumsum(0), (1, 0))
        position = count(len(keys)) - pad(degrees.cumsum(0), (1, 0))[pair]
        place = indptr[new_pair[pair] // PAIRS] + position * PAIRS + new_pair[pair] % PAIRS
        # padding points at a row of its own slice: surely in cache
        own = torch.repeat_interleave(count(len(lengths)) * (2 * PAIRS), lengths * PAIRS)
        cols = pad(own.int().clamp_max(n - 1), (0, BEYOND))
        cols[place] = new_row[keys % n].int()
        edge = place[neighbor]
        flips = torch.tensor(FLIP_BITS, dtype=torch.int32, device=device)
        cols.index_add_(0, edge, flips[row % 2] * (matrix.cols < 0))
        values = matrix.values.new_zeros((len(cols), 2, *matrix.values.shape[1:]))
        values.flatten(0, 1).index_add_(0, 2 * edge + row % 2, matrix.values)
        order = torch.empty_like(matrix.curve_order)
        order.index_copy_(0, new_row, matrix.curve_order)
        return cls(indptr, cols, values, order)

    def in_user_order(self) -> SlicedMatrix:
        """The matrix for signals in the user's order."""
        columns = self.curve_order[(self.cols & COLUMN).long()]
        return replace(self, cols=columns | (self.cols & ~COLUMN))


MATRICES = {Layout.ROWS: BlockMatrix, Layout.SLICES: SlicedMatrix}
"""The class of matrices of each layout."""


def matrix_of(
    indptr: torch.Tensor,
    cols: torch.Tensor,
    values: torch.Tensor,
    order: torch.Tensor,
    layout: str,
) -> BlockMatrix:
    """The matrix in a layout, from its tensors."""
    return MATRICES[Layout(layout)](indptr, cols, values, order)
