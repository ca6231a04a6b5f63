r"""Chebyshev moments :math:`\langle x, T_m x \rangle` of an average."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .product import recurrence


def chebyshev_moments(
    matrix: Any,
    mass: torch.Tensor,
    x: torch.Tensor,
    terms: int,
    middle: float = 0.0,
    radius: float = 1.0,
    groups: torch.Tensor | None = None,
) -> np.ndarray:
    r"""Moments ``(2 terms - 1, c)`` of every channel of x ``(n, d, c)``; ``mass`` and x in the
    matrix's row order.

    With ``groups`` (n,), numbers of groups of rows, moments ``(2 terms - 1, groups)``, summed over
    channels. Two come from each term:
    :math:`2 \langle T_a x, T_b x \rangle = \langle x, (T_{a+b} + T_{|a-b|})\, x \rangle`.
    """
    weights = mass[:, None, None]

    def product(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
        products = weights * a * b
        if groups is None:
            return products.sum(dim=(0, 1), dtype=torch.float64).cpu().numpy()
        sums = products.sum(dim=(1, 2), dtype=torch.float64)
        return sums_by(groups, sums, num_groups).cpu().numpy()

    num_groups = 0
    if groups is not None:
        num_groups = int(groups.max()) + 1
    previous = x
    squares = [product(x, x)]
    neighbors = []
    for _, term in recurrence(matrix, x, x, range(1, terms), middle, radius):
        squares.append(product(term, term))
        neighbors.append(product(previous, term))
        previous = term
    moments = np.empty((2 * terms - 1, len(squares[0])))
    moments[0::2] = squares
    moments[1::2] = np.array(neighbors).reshape(terms - 1, -1)
    moments[2:] = 2 * moments[2:] - np.resize(moments[:2], moments[2:].shape)
    return moments


def sums_by(labels: torch.Tensor, values: torch.Tensor, count: int) -> torch.Tensor:
    """Sums of the rows with each of ``count`` labels."""
    if count == 1:
        return values.sum(0, keepdim=True)
    return values.new_zeros((count, *values.shape[1:])).index_add_(0, labels, values)
