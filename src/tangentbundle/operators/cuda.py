"""Triton kernels of the fused step, for d = 2 in compact form and for blocks of any d; no host
synchronisation.

A program is one warp; it owns one slice of pairs of rows (see ``storage.py``) and a tile of
channels. Slices lie along the space-filling curve, so the neighbours of their rows overlap: half of
the gathers are answered by the first-level cache. What then limits is the time that loads take. The
kernel for d = 2 hides it by reading ahead: while it adds one group of neighbours, it gathers the
signals of the next and reads the columns of the one after.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from .storage import PAIRS

LANES = 32
"""Most channels side by side in a warp."""

PARTS = 2
"""Most tiles of so many channels that a program works on: values are read once for all."""


@triton.jit
def _finish(
    total, keep, where, x, z, y, sources, source_coef, targets, target_coef, a_hi, a_lo, b_hi,
    b_lo, g_hi, g_lo, size,
    HAS_X: tl.constexpr, HAS_Z: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
    TERMS: tl.constexpr = 1,
):  # fmt: skip
    """``y = alpha total + beta x + gamma z + sum_k b_k sources_k``, then ``targets_k += a_k y``.

    With three terms ``targets_k += a_k0 y + a_k1 x + a_k2 z``: sums are read and written every
    third time only.
    """
    real: tl.constexpr = x.dtype.element_ty
    result = (tl.cast(a_hi, real) + tl.cast(a_lo, real)) * total
    if HAS_X or TERMS == 3:
        own = tl.load(x + where, mask=keep, other=0.0)
        result += (tl.cast(b_hi, real) + tl.cast(b_lo, real)) * own
    if HAS_Z or TERMS == 3:
        old = tl.load(z + where, mask=keep, other=0.0)
        result += (tl.cast(g_hi, real) + tl.cast(g_lo, real)) * old
    for k in tl.static_range(SOURCES):
        result += tl.load(source_coef + k) * tl.load(
            sources + k * size + where, mask=keep, other=0.0
        )
    tl.store(y + where, result, mask=keep)
    for k in tl.static_range(TARGETS):
        place = targets + k * size + where
        factors = target_coef + k * TERMS
        total = tl.load(place, mask=keep, other=0.0) + tl.load(factors) * result
        if TERMS == 3:
            total += tl.load(factors + 1) * own + tl.load(factors + 2) * old
        tl.store(place, total, mask=keep)


@triton.jit
def _columns(cols, base, slot, SLOTS: tl.constexpr, UNROLL: tl.constexpr):
    """The columns of ``UNROLL`` steps, with their bits."""
    place = cols + base + slot
    result = ()  # type: tuple
    for u in tl.static_range(UNROLL):
        result += (tl.load(place + u * SLOTS),)
    return result


@triton.jit
def _turns(values, base, slot, SLOTS: tl.constexpr, UNROLL: tl.constexpr):
    """(c, s) of the first and of the second row, for each of ``UNROLL`` steps; in one load a row
    for float32."""
    result = ()  # type: tuple
    for u in tl.static_range(UNROLL):
        for r in tl.static_range(2):
            if values.dtype.element_ty == tl.float32:
                place = values.to(tl.pointer_type(tl.int64)) + 2 * base + 2 * slot
                bits = tl.load(place + (2 * SLOTS * u + r))
                c = (bits & 0xFFFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
                s = (bits >> 32).to(tl.int32).to(tl.float32, bitcast=True)
            else:
                c = tl.load(values + 4 * (base + SLOTS * u + slot) + 2 * r)
                s = tl.load(values + 4 * (base + SLOTS * u + slot) + 2 * r + 1)
            result += (c, s)
    return result


@triton.jit
def _gather(
    x, columns, lanes, C: tl.constexpr, LANES: tl.constexpr, PARTS: tl.constexpr,
    UNROLL: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Both components of the neighbours' signals, for each of ``UNROLL`` steps and each part of the
    channels."""
    result = ()  # type: tuple
    for u in tl.static_range(UNROLL):
        column = columns[u] & 0x3FFFFFFF
        if WIDE:
            column = column.to(tl.int64)
        source = x + (column * (2 * C))[:, None] + lanes[None, :]
        for q in tl.static_range(PARTS):
            if C % (LANES * PARTS) == 0:
                result += (tl.load(source + q * LANES), tl.load(source + q * LANES + C))
            else:
                inside = (lanes + q * LANES < C)[None, :]
                first = tl.load(source + q * LANES, mask=inside, other=0.0)
                result += (first, tl.load(source + q * LANES + C, mask=inside, other=0.0))
    return result


@triton.jit
def _add(sums, columns, turns, signals, PARTS: tl.constexpr, UNROLL: tl.constexpr):
    """Turned, and where a bit says so reflected, signals added to the sums of both rows."""
    for u in tl.static_range(UNROLL):
        new = ()  # type: tuple
        for r in tl.static_range(2):
            c = turns[4 * u + 2 * r]
            s = turns[4 * u + 2 * r + 1]
            flip = (columns[u] << r) < 0
            other_c = tl.where(flip, -c, c)
            minus_s = tl.where(flip, s, -s)
            for q in tl.static_range(PARTS):
                x0 = signals[2 * (PARTS * u + q)]
                x1 = signals[2 * (PARTS * u + q) + 1]
                sum0 = sums[2 * (PARTS * r + q)] + c[:, None] * x0
                sum1 = sums[2 * (PARTS * r + q) + 1] + s[:, None] * x0
                new += (sum0 + minus_s[:, None] * x1, sum1 + other_c[:, None] * x1)
        sums = new
    return sums


@triton.jit
def _plane_step(
    indptr, cols, values, order, x, z, y, sources, source_coef, targets, target_coef,
    a_hi, a_lo, b_hi, b_lo, g_hi, g_lo, n, size,
    HAS_X: tl.constexpr, HAS_Z: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
    TERMS: tl.constexpr,
    WIDE: tl.constexpr, PAIRS: tl.constexpr, STEPS: tl.constexpr, UNROLL: tl.constexpr,
    C: tl.constexpr, LANES: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """d = 2. ``STEPS`` neighbours of each pair are added side by side, ``UNROLL`` times that many
    one after another."""
    real: tl.constexpr = x.dtype.element_ty
    SLOTS: tl.constexpr = PAIRS * STEPS
    lanes = tl.program_id(1) * (LANES * PARTS) + tl.arange(0, LANES)
    slot = tl.arange(0, SLOTS)
    start = tl.load(indptr + tl.program_id(0))
    stop = tl.load(indptr + tl.program_id(0) + 1)
    if not WIDE:
        start = start.to(tl.int32)
        stop = stop.to(tl.int32)
    sums = (tl.zeros((SLOTS, LANES), real),) * (4 * PARTS)
    columns = _columns(cols, start, slot, SLOTS, UNROLL)
    ahead = _columns(cols, start + SLOTS * UNROLL, slot, SLOTS, UNROLL)
    turns = _turns(values, start, slot, SLOTS, UNROLL)
    signals = _gather(x, columns, lanes, C, LANES, PARTS, UNROLL, WIDE)
    for base in range(start, stop, SLOTS * UNROLL):
        next_signals = _gather(x, ahead, lanes, C, LANES, PARTS, UNROLL, WIDE)
        after = _columns(cols, base + 2 * SLOTS * UNROLL, slot, SLOTS, UNROLL)
        next_turns = _turns(values, base + SLOTS * UNROLL, slot, SLOTS, UNROLL)
        sums = _add(sums, columns, turns, signals, PARTS, UNROLL)
        columns, ahead, turns, signals = ahead, after, next_turns, next_signals
    for k in tl.static_range(4 * PARTS):  # row, part, component
        row = 2 * (tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)) + k // (2 * PARTS)
        channel = lanes + k // 2 % PARTS * LANES
        keep = (row < n)[:, None] & (channel < C)[None, :]
        row = tl.load(order + row, mask=row < n, other=0).to(tl.int64)
        where = ((2 * row + k % 2) * C)[:, None] + channel[None, :]
        total = sums[k]
        if STEPS > 1:
            total = tl.sum(tl.reshape(total, (STEPS, PAIRS, LANES)), 0)
        _finish(
            total,
            keep,
            where,
            x,
            z,
            y,
            sources,
            source_coef,
            targets,
            target_coef,
            a_hi,
            a_lo,
            b_hi,
            b_lo,
            g_hi,
            g_lo,
            size,
            HAS_X,
            HAS_Z,
            SOURCES,
            TARGETS,
            TERMS,
        )


@triton.jit
def _block_step(
    indptr, cols, values, order, x, z, y, sources, source_coef, targets, target_coef,
    a_hi, a_lo, b_hi, b_lo, g_hi, g_lo, n, size,
    HAS_X: tl.constexpr, HAS_Z: tl.constexpr, SOURCES: tl.constexpr, TARGETS: tl.constexpr,
    TERMS: tl.constexpr,
    PAIRS: tl.constexpr, STEPS: tl.constexpr, C: tl.constexpr, LANES: tl.constexpr,
    DIM: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Any d. The rows of a tile are (pair, component), components padded to a power of two."""
    real: tl.constexpr = x.dtype.element_ty
    lanes = tl.program_id(1) * LANES + tl.arange(0, LANES)
    inside = (lanes < C)[None, :]
    tile = tl.arange(0, STEPS * PAIRS * PADDED)
    slot = tile // PADDED
    part = tile % PADDED
    start = tl.load(indptr + tl.program_id(0))
    stop = tl.load(indptr + tl.program_id(0) + 1)
    sum0 = tl.zeros((STEPS * PAIRS * PADDED, LANES), real)
    sum1 = tl.zeros((STEPS * PAIRS * PADDED, LANES), real)
    columns = tl.load(cols + start + slot)
    for base in range(start, stop, STEPS * PAIRS):
        source = x + (columns.to(tl.int64) * (DIM * C))[:, None] + lanes[None, :]
        columns = tl.load(cols + base + STEPS * PAIRS + slot)
        value = values + (2 * (base + slot).to(tl.int64) * DIM + part) * DIM
        for q in tl.static_range(DIM):
            signal = tl.load(source + q * C, mask=inside, other=0.0)
            sum0 += tl.load(value + q, mask=part < DIM, other=0.0)[:, None] * signal
            sum1 += tl.load(value + (DIM * DIM + q), mask=part < DIM, other=0.0)[:, None] * signal
    tile = tl.arange(0, PAIRS * PADDED)
    part = tile % PADDED
    for r in tl.static_range(2):
        row = 2 * (tl.program_id(0) * PAIRS + tile // PADDED) + r
        keep = ((row < n) & (part < DIM))[:, None] & inside
        row = tl.load(order + row, mask=row < n, other=0).to(tl.int64)
        where = ((row * DIM + part) * C)[:, None] + lanes[None, :]
        total = sum0 if r == 0 else sum1
        if STEPS > 1:
            total = tl.sum(tl.reshape(total, (STEPS, PAIRS * PADDED, LANES)), 0)
        _finish(
            total,
            keep,
            where,
            x,
            z,
            y,
            sources,
            source_coef,
            targets,
            target_coef,
            a_hi,
            a_lo,
            b_hi,
            b_lo,
            g_hi,
            g_lo,
            size,
            HAS_X,
            HAS_Z,
            SOURCES,
            TARGETS,
            TERMS,
        )


@triton.jit
def _copy_rows(
    source, target, order, n, width, SCATTER: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """Row ``order[r]`` to row r, or the other way, of the matrix of the second program number."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    other = tl.load(order + rows, mask=rows < n, other=0).to(tl.int64)
    first = tl.program_id(1).to(tl.int64) * n
    start = rows.to(tl.int64) if SCATTER else other
    stop = other if SCATTER else rows.to(tl.int64)
    for part in range(0, width, WIDTH):
        columns = part + tl.arange(0, WIDTH)
        keep = (rows < n)[:, None] & (columns < width)[None, :]
        value = tl.load(source + ((first + start) * width)[:, None] + columns[None, :], mask=keep)
        tl.store(target + ((first + stop) * width)[:, None] + columns[None, :], value, mask=keep)


def copy_rows(x: torch.Tensor, order: torch.Tensor, scatter: bool) -> torch.Tensor:
    """Signals ``(..., n, d, c)`` with their points in the given order; with ``scatter`` back from
    it."""
    source = x.contiguous()
    target = torch.empty_like(source)
    n, d, channels = x.shape[-3:]
    numbers = d * channels
    width = min(triton.next_power_of_2(numbers), 256)
    rows = 1024 // width
    grid = (triton.cdiv(n, rows), source.numel() // max(n * numbers, 1))
    with torch.cuda.device_of(x):
        _copy_rows[grid](source, target, order, n, numbers, SCATTER=scatter, ROWS=rows, WIDTH=width)
    return target


def _split(value: float) -> tuple[float, float]:
    """A float64 as two float32: Triton passes Python floats in single precision."""
    rounded = float(np.float32(value))
    return rounded, value - rounded


def step_arguments(matrix, x, z, out, scalars, sources, targets) -> tuple[list, dict]:
    """What all kernels of the fused step take first, and options of all."""
    alpha, beta, gamma = scalars
    arguments = [matrix.indptr, matrix.cols, matrix.values, matrix.curve_order, x, z, out]
    channels = x.shape[2]
    options = {
        "HAS_X": beta != 0.0,
        "HAS_Z": gamma != 0.0,
        "C": channels,
        "LANES": min(triton.next_power_of_2(channels), LANES),
    }
    for name, extra in {"SOURCES": sources, "TARGETS": targets}.items():
        if extra is None:
            arguments += [x, x]
            options[name] = 0
        else:
            arguments += [extra.signals, extra.coefficients]
            options[name] = len(extra.coefficients)
    arguments += [*_split(alpha), *_split(beta), *_split(gamma), len(x), x.numel()]
    return arguments, options


def cuda_step(matrix, x, z, out, scalars, sources=None, targets=None) -> None:
    """The fused step of ``product.step`` for a ``SlicedMatrix``; nothing is waited for."""
    arguments, options = step_arguments(matrix, x, z, out, scalars, sources, targets)
    options["PAIRS"] = PAIRS
    options["TERMS"] = 1
    if targets is not None and targets.coefficients.ndim == 2:
        options["TERMS"] = 3
    with torch.cuda.device_of(x):
        if matrix.stores_turns:
            _launch_plane(matrix, x, arguments, options)
        else:
            _launch_blocks(matrix, x, arguments, options)


def _launch_plane(matrix, x, arguments: list, options: dict) -> None:
    """The kernel for d = 2."""
    channels = x.shape[2]
    lanes = options["LANES"]
    tiles = min(triton.cdiv(channels, lanes), PARTS)
    unroll = 1
    if lanes > 8 and x.dtype == torch.float32:  # more would need too many registers
        unroll = 2
    grid = (len(matrix.indptr) - 1, triton.cdiv(channels, lanes * tiles))
    _plane_step[grid](
        *arguments,
        **options,
        WIDE=max(x.numel(), matrix.values.numel()) >= 2**31,
        PARTS=tiles,
        STEPS=min(32 // lanes, 4),
        UNROLL=unroll,
        num_warps=1,
    )


def _launch_blocks(matrix, x, arguments: list, options: dict) -> None:
    """The kernel for any d."""
    _, dim, channels = x.shape
    lanes = options["LANES"]
    padded = triton.next_power_of_2(dim)
    tile = PAIRS * padded * lanes
    grid = (len(matrix.indptr) - 1, triton.cdiv(channels, lanes))
    _block_step[grid](
        *arguments,
        **options,
        DIM=dim,
        PADDED=padded,
        STEPS=max(1, min(4, 256 // tile)),
        num_warps=max(1, min(8, tile // 256)),
    )
