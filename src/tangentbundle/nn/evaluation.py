r"""How a layer evaluates its filters: by which method, and on which side of its weights.

.. math:: Y = \sum_k h_k(\Delta)\, (X H_k) = \sum_k \big(h_k(\Delta)\, X\big) H_k

Filters act on every channel by itself, so they can come before the weights or after them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..filters import Chebyshev, Dense, Exact, Filter, Method
from ..operators import SquareOperator
from ..operators.methods import method_with_gradients

DENSE_SIZE = 2_000
"""Up to this many rows (n d) of a bundle the filters' matrices are computed and cached."""

MAX_DENSE_NUMBERS = 50 * DENSE_SIZE**2
"""Most numbers in the matrices of joined bundles, which all have the size of the largest one."""


def filter_and_mix(
    x: torch.Tensor,
    weight: torch.Tensor,
    filters: Sequence[Filter],
    operator: SquareOperator,
    method: Method | None = None,
) -> torch.Tensor:
    """The sum over filters and channels ``(..., n, d, F) -> (..., n, d, G)``.

    ``weight`` (K, F, G) has one tap for each filter, or one more, the first, for the identity. The
    filters act on whichever side of the weights has fewer channels.
    """
    if method is None:
        method = network_method(operator, filters)
    num_taps, in_channels, out_channels = weight.shape
    has_identity = num_taps > len(filters)
    if in_channels <= out_channels:
        outputs = operator.evaluate(filters, x, method)
        if has_identity:
            outputs = [x, *outputs]
        return torch.cat(outputs, dim=-1) @ weight.flatten(0, 1)
    mixed = x @ weight.movedim(0, 1).flatten(1)
    signals = mixed.split(out_channels, dim=-1)
    if has_identity:
        return signals[0] + operator.merge(filters, signals[1:], method)
    return operator.merge(filters, signals, method)


def network_method(operator: SquareOperator, filters: Sequence[Filter] = ()) -> Method:
    """Matrices for small operators, or eigenfields where filters learn; otherwise Chebyshev.

    Operators that learn always have Chebyshev.
    """
    largest = max(operator.sizes) * operator.rank
    dense_numbers = len(operator.sizes) * largest**2
    if largest > DENSE_SIZE or dense_numbers > MAX_DENSE_NUMBERS:
        return Chebyshev()
    if operator.requires_grad:
        return method_with_gradients(operator)
    for filter in filters:
        if filter.signature() is None:  # its values change in training
            return Exact()
    return Dense()
