"""Triton kernels for matrices in CSR form, whose blocks change with every step: the fused step, and
its gradient."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .cuda import LANES, _finish, _split, step_arguments


@triton.jit
def _rows_step(
    indptr, cols, values, order, x, z, y, sources, source_coef, targets, target_coef,
    a_hi, a_lo, b_hi, b_lo, g_hi, g_lo, n, size,
    HAS_X: tl.constexpr, HAS_Z: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
    ROWS: tl.constexpr, C: tl.constexpr, LANES: tl.constexpr, DIM: tl.constexpr,
    PADDED: tl.constexpr,
):  # fmt: skip
    """A program owns a few rows; those of its tile are (row, component), components padded to a
    power of two."""
    real: tl.constexpr = x.dtype.element_ty
    lanes = tl.program_id(1) * LANES + tl.arange(0, LANES)
    inside = (lanes < C)[None, :]
    tile = tl.arange(0, ROWS * PADDED)
    row = tl.program_id(0) * ROWS + tile // PADDED
    part = tile % PADDED
    real_row = (row < n) & (part < DIM)
    start = tl.load(indptr + row, mask=real_row, other=0)
    stop = tl.load(indptr + row + 1, mask=real_row, other=0)
    total = tl.zeros((ROWS * PADDED, LANES), real)
    for k in range(tl.max(stop - start, 0)):
        edge = start + k
        live = edge < stop
        signal = (
            x
            + (tl.load(cols + edge, mask=live, other=0).to(tl.int64) * (DIM * C))[:, None]
            + lanes[None, :]
        )
        for q in tl.static_range(DIM):
            block = tl.load(values + (edge * DIM + part) * DIM + q, mask=live, other=0.0)
            total += block[:, None] * tl.load(
                signal + q * C, mask=live[:, None] & inside, other=0.0
            )
    own = tl.load(order + row, mask=real_row, other=0).to(tl.int64)
    where = ((own * DIM + part) * C)[:, None] + lanes[None, :]
    _finish(total, real_row[:, None] & inside, where, x, z, y, sources, source_coef, targets,
            target_coef,
            a_hi, a_lo, b_hi, b_lo, g_hi, g_lo, size, HAS_X, HAS_Z, SOURCES, TARGETS)  # fmt: skip


@triton.jit
def _rows_outer(
    indptr, cols, order, y, x, out, a_hi, a_lo, n,
    ROWS: tl.constexpr, C: tl.constexpr, LANES: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """Add ``alpha y_i x_j^T``, summed over channels, to the blocks ij of a few rows."""
    alpha = tl.cast(a_hi, x.dtype.element_ty) + tl.cast(a_lo, x.dtype.element_ty)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = tl.load(indptr + row, mask=row < n, other=0)
    stop = tl.load(indptr + row + 1, mask=row < n, other=0)
    row = tl.load(order + row, mask=row < n, other=0).to(tl.int64)
    for k in range(tl.max(stop - start, 0)):
        edge = start + k
        live = edge < stop
        col = tl.load(cols + edge, mask=live, other=0).to(tl.int64)
        for base in tl.static_range(0, C, LANES):
            lanes = base + tl.arange(0, LANES)[None, :]
            keep = live[:, None] & (lanes < C)
            signals = ()  # type: tuple
            for q in tl.static_range(DIM):
                signals += (
                    tl.load(x + ((col * DIM + q) * C)[:, None] + lanes, mask=keep, other=0.0),
                )
            for p in tl.static_range(DIM):
                own = tl.load(y + ((row * DIM + p) * C)[:, None] + lanes, mask=keep, other=0.0)
                for q in tl.static_range(DIM):
                    place = out + (edge * DIM + p) * DIM + q
                    total = tl.load(place, mask=live, other=0.0) + alpha * tl.sum(
                        own * signals[q], 1
                    )
                    tl.store(place, total, mask=live)


def csr_step(matrix, x, z, out, scalars, sources=None, targets=None) -> None:
    """The fused step of ``product.step`` for a ``BlockMatrix`` of blocks ``(e, d, d)``."""
    n, dim, channels = x.shape
    arguments, options = step_arguments(matrix, x, z, out, scalars, sources, targets)
    lanes = options["LANES"]
    padded = triton.next_power_of_2(dim)
    rows = max(1, 256 // (padded * lanes))
    grid = triton.cdiv(n, rows), triton.cdiv(channels, lanes)
    with torch.cuda.device_of(x):
        _rows_step[grid](*arguments, ROWS=rows, DIM=dim, PADDED=padded, num_warps=1, **options)


def csr_outer(matrix, y, x, alpha, out) -> None:
    """The kernel of ``product.add_outer``, for the same matrices."""
    n, dim, channels = x.shape
    lanes = min(triton.next_power_of_2(channels), LANES)
    rows = max(1, 128 // lanes)
    with torch.cuda.device_of(x):
        arguments = [matrix.indptr, matrix.cols, matrix.curve_order, y, x, out, *_split(alpha), n]
        _rows_outer[(triton.cdiv(n, rows),)](*arguments, rows, channels, lanes, dim, num_warps=1)
