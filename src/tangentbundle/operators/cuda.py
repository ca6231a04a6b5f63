"""Triton kernels of the fused step, for d = 2 in compact form and for blocks of any d; no host synchronisation.

A program owns one slice of rows (see ``sliced.py``) and a tile of channels. Slices lie along the space-filling curve,
so the neighbours of their rows overlap and most gathers are answered by the first-level cache.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from .sliced import SLICE

MAX_LANES = 64
"""Most channels of one program."""


@triton.jit
def _finish(
    total, keep, where, x, z, y, sources, source_coef, targets, target_coef, alpha, beta, gamma, size,
    HAS_X: tl.constexpr, HAS_Z: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
):  # fmt: skip
    """``y = alpha total + beta x + gamma z + sum_k b_k sources_k``, then ``targets_k += a_k y``."""
    result = alpha * total
    if HAS_X:
        result += beta * tl.load(x + where, mask=keep, other=0.0)
    if HAS_Z:
        result += gamma * tl.load(z + where, mask=keep, other=0.0)
    for k in tl.static_range(SOURCES):
        result += tl.load(source_coef + k) * tl.load(sources + k * size + where, mask=keep, other=0.0)
    tl.store(y + where, result, mask=keep)
    for k in tl.static_range(TARGETS):
        place = targets + k * size + where
        tl.store(place, tl.load(place, mask=keep, other=0.0) + tl.load(target_coef + k) * result, mask=keep)


@triton.jit
def _pair(values, edge, real: tl.constexpr):
    """The two numbers of an edge, in one load for float32."""
    if real == tl.float32:
        bits = tl.load(values.to(tl.pointer_type(tl.int64)) + edge)
        c = (bits & 0xFFFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
        s = (bits >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    else:
        c = tl.load(values + 2 * edge)
        s = tl.load(values + 2 * edge + 1)
    return c, s


@triton.jit
def _plane_step(
    indptr, cols, values, x, z, y, sources, source_coef, targets, target_coef,
    a_hi, a_lo, b_hi, b_lo, g_hi, g_lo, n, size,
    HAS_X: tl.constexpr, HAS_Z: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
    SLICE: tl.constexpr, ROWS: tl.constexpr, C: tl.constexpr, LANES: tl.constexpr,
    UNROLL: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A program owns ``ROWS`` of the ``SLICE`` rows of a slice."""
    real: tl.constexpr = x.dtype.element_ty
    EVEN: tl.constexpr = C % LANES == 0
    lanes = tl.program_id(1) * LANES + tl.arange(0, LANES)
    inside = (lanes < C)[None, :]
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = rows % SLICE
    slice_number = tl.program_id(0) * ROWS // SLICE
    start = tl.load(indptr + slice_number)
    stop = tl.load(indptr + slice_number + 1)
    if not WIDE:
        start = start.to(tl.int32)
        stop = stop.to(tl.int32)
    sum0 = tl.zeros((ROWS, LANES), real)
    sum1 = tl.zeros((ROWS, LANES), real)
    for base in range(start, stop, UNROLL * SLICE):
        for u in tl.static_range(UNROLL):
            edge = base + u * SLICE + slot
            code = tl.load(cols + edge)
            c, s = _pair(values, edge, real)
            column = tl.where(code < 0, ~code, code)
            other_c = tl.where(code < 0, -c, c)
            minus_s = tl.where(code < 0, s, -s)
            if WIDE:
                column = column.to(tl.int64)
            source = x + (column * (2 * C))[:, None] + lanes[None, :]
            if EVEN:
                x0 = tl.load(source)
                x1 = tl.load(source + C)
            else:
                x0 = tl.load(source, mask=inside, other=0.0)
                x1 = tl.load(source + C, mask=inside, other=0.0)
            sum0 += c[:, None] * x0
            sum1 += s[:, None] * x0
            sum0 += minus_s[:, None] * x1
            sum1 += other_c[:, None] * x1
    alpha = tl.cast(a_hi, real) + tl.cast(a_lo, real)
    beta = tl.cast(b_hi, real) + tl.cast(b_lo, real)
    gamma = tl.cast(g_hi, real) + tl.cast(g_lo, real)
    keep = (rows < n)[:, None] & inside
    where = (rows.to(tl.int64) * (2 * C))[:, None] + lanes[None, :]
    _finish(sum0, keep, where, x, z, y, sources, source_coef, targets, target_coef, alpha, beta, gamma, size,
            HAS_X, HAS_Z, SOURCES, TARGETS)  # fmt: skip
    _finish(sum1, keep, where + C, x, z, y, sources, source_coef, targets, target_coef,
            alpha, beta, gamma, size, HAS_X, HAS_Z, SOURCES, TARGETS)  # fmt: skip


@triton.jit
def _block_step(
    indptr, cols, values, x, z, y, sources, source_coef, targets, target_coef,
    a_hi, a_lo, b_hi, b_lo, g_hi, g_lo, n, size,
    HAS_X: tl.constexpr, HAS_Z: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
    ROWS: tl.constexpr, C: tl.constexpr, LANES: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Any d. The rows of the tile are (row, component) pairs, components padded to a power of two."""
    real: tl.constexpr = x.dtype.element_ty
    lanes = tl.program_id(1) * LANES + tl.arange(0, LANES)
    inside = (lanes < C)[None, :]
    pair = tl.arange(0, ROWS * PADDED)
    slot, part = pair // PADDED, pair % PADDED
    start = tl.load(indptr + tl.program_id(0))
    stop = tl.load(indptr + tl.program_id(0) + 1)
    total = tl.zeros((ROWS * PADDED, LANES), real)
    for base in range(start, stop, ROWS):
        edge = base + slot
        source = x + (tl.load(cols + edge).to(tl.int64) * (DIM * C))[:, None] + lanes[None, :]
        weight = values + edge.to(tl.int64) * (DIM * DIM) + part * DIM
        for q in tl.static_range(DIM):
            v = tl.load(weight + q, mask=part < DIM, other=0.0)
            total += v[:, None] * tl.load(source + q * C, mask=inside, other=0.0)
    alpha = tl.cast(a_hi, real) + tl.cast(a_lo, real)
    beta = tl.cast(b_hi, real) + tl.cast(b_lo, real)
    gamma = tl.cast(g_hi, real) + tl.cast(g_lo, real)
    rows = tl.program_id(0) * ROWS + slot
    keep = ((rows < n) & (part < DIM))[:, None] & inside
    where = ((rows.to(tl.int64) * DIM + part) * C)[:, None] + lanes[None, :]
    _finish(total, keep, where, x, z, y, sources, source_coef, targets, target_coef, alpha, beta, gamma, size,
            HAS_X, HAS_Z, SOURCES, TARGETS)  # fmt: skip


def _split(value: float) -> tuple[float, float]:
    """A float64 as two float32: Triton passes Python floats in single precision."""
    high = float(np.float32(value))
    return high, value - high


def cuda_step(matrix, x, z, out, scalars, sources=None, targets=None) -> None:
    """The fused step of ``product.step`` for a ``SlicedMatrix`` and signals in its row order; nothing is waited for."""
    n, dim, channels = x.shape
    lanes = min(triton.next_power_of_2(channels), MAX_LANES)
    options = {
        "HAS_X": scalars[1] != 0.0,
        "HAS_Z": scalars[2] != 0.0,
        "SOURCES": 0 if sources is None else len(sources.coefficients),
        "TARGETS": 0 if targets is None else len(targets.coefficients),
        "C": channels,
        "LANES": lanes,
    }
    arguments = [matrix.indptr, matrix.cols, matrix.values, x, z, out]
    for extra in (sources, targets):
        arguments += [x, x] if extra is None else [extra.signals, extra.coefficients]
    arguments += [part for value in scalars for part in _split(value)] + [n, x.numel()]
    slices, tiles = len(matrix.indptr) - 1, triton.cdiv(channels, lanes)
    with torch.cuda.device_of(x):
        if matrix.values.ndim == 2:
            wide = max(x.numel(), matrix.values.numel()) >= 2**31
            rows, unroll = (4, 2) if lanes == MAX_LANES else (8, 1)  # measured on an H200
            options |= {"SLICE": SLICE, "ROWS": rows, "UNROLL": unroll, "WIDE": wide}
            grid = (slices * (SLICE // rows), tiles)
            _plane_step[grid](*arguments, num_warps=max(1, rows * lanes // 128), **options)
        else:
            padded = triton.next_power_of_2(dim)
            warps = max(1, min(8, SLICE * padded * lanes // 256))
            _block_step[slices, tiles](*arguments, ROWS=SLICE, DIM=dim, PADDED=padded, num_warps=warps, **options)
