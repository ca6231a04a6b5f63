"""Sort points along a space-filling (Hilbert) curve, so that neighbours are near in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..arrays import host
from ..parallel import run_ranges

BITS = 16
"""Cells along each axis, as a power of two; three axes fit in one 64-bit code."""

MAX_SAMPLED_POINTS = 4000
"""Points from which principal axes are computed, where the dimensions are fewer than a quarter."""

NO_SPREAD = 1e-13
"""Extent of a principal coordinate, in units of the largest, below which it is rounding."""


def _hilbert_codes(cell: Any) -> Any:
    """Places on the curve of cells, from their integer coordinates along each axis, numbers or
    tensors, overwritten.

    The algorithm is that of J. Skilling, Programming the Hilbert curve (2004).
    """
    for level in range(BITS - 1, 0, -1):  # undo the rotations and reflections of each level
        below = (1 << level) - 1
        for k in range(len(cell)):
            up = -(cell[k] >> level & 1)  # all bits, or none
            swap = (cell[0] ^ cell[k]) & below & ~up
            cell[0] ^= below & up | swap
            if k:
                cell[k] ^= swap
    for k in range(1, len(cell)):  # Gray code
        cell[k] ^= cell[k - 1]
    flip = cell[0] ^ cell[0]
    code = cell[0] ^ cell[0]
    for level in range(BITS - 1, 0, -1):
        flip ^= -(cell[-1] >> level & 1) & (1 << level) - 1
    for level in range(BITS - 1, -1, -1):
        for axis in cell:
            code = code << 1 | (axis ^ flip) >> level & 1
    return code


_hilbert_code = njit(cache=True, nogil=True)(_hilbert_codes)


@njit(cache=True, nogil=True)
def _encode(start, stop, cells, codes):  # pragma: no cover - compiled
    for i in range(start, stop):
        codes[i] = _hilbert_code(cells[i])


def order_along_curve(points: Tensor) -> Tensor:
    """The permutation ``(n,)`` that sorts points ``(n, D)`` along a Hilbert curve.

    For D > 3 the curve runs through the three principal axes of the cloud.

    >>> order_along_curve(torch.tensor([[0.9], [0.1], [0.5]])).tolist()
    [1, 2, 0]
    """
    if points.shape[1] > 3:
        points = principal_coordinates(points, 3)
    lowest = points.amin(dim=0)
    extent = float((points.amax(dim=0) - lowest).max()) or 1.0
    cells = ((points - lowest) / extent * (2**BITS - 1)).long()
    if points.device.type == "cpu":
        codes = torch.empty(len(points), dtype=torch.int64)
        run_ranges(_encode, len(points), cells.numpy(), codes.numpy(), grain=2**14)
    else:
        codes = _hilbert_codes([axis.contiguous() for axis in cells.unbind(1)])
    return codes.argsort(stable=True)


def principal_axes(centred: Tensor) -> Tensor:
    """Orthonormal directions ``(D, q)`` of centred points ``(n, D)``, that of the greatest spread
    first.

    They are those of a sample when there are many points.
    """
    n, dims = centred.shape
    step = max(1, n // max(MAX_SAMPLED_POINTS, 4 * dims))
    sample = host(centred[::step])
    sample = sample / max(float(np.abs(sample).max()), np.finfo(float).tiny)
    if len(sample) <= dims:
        axes = np.linalg.svd(sample, full_matrices=False)[2].T
    else:
        axes = np.linalg.eigh(sample.T @ sample)[1][:, ::-1]
    return torch.from_numpy(axes.copy()).to(centred)


def principal_coordinates(points: Tensor, count: int | None = None) -> Tensor:
    """The cloud ``(n, D)`` centred and turned to its principal axes, widest first: all distances
    stay.

    ``count`` keeps only the first few coordinates, and those without any spread are left out.

    >>> line = torch.tensor([[0.0, 1.0], [0.0, -1.0]])
    >>> principal_coordinates(line, 1).abs().round(decimals=6).tolist()
    [[1.0], [1.0]]
    """
    centred = points - points.mean(dim=0)
    turned = centred @ principal_axes(centred)[:, :count]
    spread = turned.amax(dim=0) - turned.amin(dim=0)
    return turned[:, spread >= NO_SPREAD * spread.max()].contiguous()
