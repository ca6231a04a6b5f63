"""Filters of small operators by matrices that are computed once and cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..memory import require_memory
from ..operators import ConnectionLaplacian, Joined, LinearOperator
from .expansion import check_precision
from .methods import Chebyshev, Exact, Method

if TYPE_CHECKING:
    from .base import Filter

EXACT_SIZE = 600
"""Up to this many rows (n d) the default is the exact eigendecomposition, cached on the operator."""


def _product(matrices: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Square matrices ``(..., m, m)`` times signals ``(..., m, c)``."""
    few = x.device.type == "cpu" and x.shape[-1] <= 8  # CPU libraries are 2 to 5 times as fast with them as rows
    return (x.mT @ matrices.mT).mT if few else matrices @ x


@dataclass(frozen=True)
class Dense(Method):
    """By the filters' matrices ``(n d, n d)``, computed once and cached on the operator.

    The fastest for small operators that meet the same few filters again and again, as in the training of a network:
    one matrix product instead of many. A joined operator has one matrix a bundle, and multiplies them as a batch.
    Filters that learn, or are Python functions, have no matrix to cache: they are evaluated exactly.
    """

    joins = True

    def apply(self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
        outputs = _product(self.matrices(filters, operator), _to_blocks(x, operator))
        return torch.stack([_from_blocks(y, operator) for y in outputs])

    def merge(self, filters: Sequence[Filter], operator: LinearOperator, y: torch.Tensor) -> torch.Tensor:
        outputs = _product(self.matrices(filters, operator), torch.stack([_to_blocks(part, operator) for part in y]))
        return _from_blocks(outputs.sum(0), operator)

    def matrices(self, filters: Sequence[Filter], operator: LinearOperator) -> torch.Tensor:
        """The matrices ``(k, bundles, size, size)``, those of smaller bundles padded with zeros."""

        def compute() -> torch.Tensor:
            if isinstance(operator, Joined):
                size = max(operator.sizes) * operator.dim
                out = operator.mass.new_zeros((len(filters), len(operator.parts), size, size))
                for b, part in enumerate(operator.parts):
                    end = part.shape[0]
                    out[:, b, :end, :end] = self.matrices(filters, part)[:, 0]
                return out
            return _matrices(filters, operator)

        return self.remember(filters, operator, compute)


def _matrices(filters: Sequence[Filter], operator: LinearOperator) -> torch.Tensor:
    """Matrices ``(k, 1, n d, n d)`` of filters, computed in float64."""
    size = operator.shape[0]
    need, what = 8.0 * (2 * len(filters) + 3) * size**2, f"{len(filters)} dense filters of {size} rows"
    require_memory(need, what, "Use method=Chebyshev(), which forms no matrix.")
    double: LinearOperator = operator
    method: Method = Exact()
    if isinstance(operator, ConnectionLaplacian):
        double = operator.to(dtype=torch.float64)
        double.largest_deficit = operator.largest_deficit
        method = Chebyshev(1e-12) if size > EXACT_SIZE else method
    unit = torch.eye(size, dtype=double.dtype, device=operator.device).reshape(operator.num_points, -1, size)
    columns = method.apply(filters, double, unit).detach()
    check_precision(filters, operator, operator.spectral_interval[1])
    return columns.reshape(len(filters), 1, size, size).to(operator.dtype)


def _to_blocks(x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
    """A signal ``(n, d, c)`` of all bundles to ``(bundles, size, c)``, padded with zeros."""
    sizes = operator.sizes
    shape = (len(sizes), max(sizes) * x.shape[1], x.shape[2])
    if not isinstance(operator, Joined) or len(set(sizes)) == 1:
        return x.reshape(shape)
    padded = x.new_zeros((len(sizes) * max(sizes), *x.shape[1:]))
    return padded.index_copy(0, operator.slots, x).reshape(shape)


def _from_blocks(y: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
    """Undo ``_to_blocks``."""
    rows = y.reshape(y.shape[0] * y.shape[1] // operator.dim, operator.dim, y.shape[-1])
    return rows[operator.slots] if isinstance(operator, Joined) and len(set(operator.sizes)) > 1 else rows
