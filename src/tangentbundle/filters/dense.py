"""Filters of small operators by matrices that are computed once and cached."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..errors import ConvergenceError
from ..memory import require_memory
from ..operators import ConnectionLaplacian, Joined, LinearOperator
from ..operators.registry import differentiate, torch_op, vectorise
from .expansion import check_precision, require_finite
from .methods import Chebyshev, Method

if TYPE_CHECKING:
    from .base import Filter

EXACT_SIZE = 600
"""Up to this many rows (n d) the default is the exact eigendecomposition, cached on the operator."""


@torch_op
def multiply(matrices: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Square matrices ``(b, m, m)`` times signals ``(b, m, c)``; differentiable in the signals alone."""
    if x.device.type == "cpu" and x.shape[-1] <= 8:  # CPU libraries are 2 to 5 times as fast with few channels as rows
        return torch.bmm(x.mT, matrices.mT).mT.contiguous()
    return torch.bmm(matrices, x)


def _keep_matrices(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def _multiply_backward(ctx, grad):
    return None, multiply(ctx.saved_tensors[0].transpose(1, 2), grad)


def _multiply_shape(matrices, x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


differentiate(multiply, _multiply_shape, _keep_matrices, _multiply_backward)
vectorise(multiply, by_channel=True, signal=1)


@dataclass(frozen=True)
class Dense(Method):
    """By the filters' matrices ``(n d, n d)``, computed once and cached on the operator.

    The fastest for small operators that meet the same few filters again and again, as in the training of a network:
    one matrix product instead of many. A joined operator has one matrix a bundle, and multiplies them as a batch.
    Filters that learn, or are Python functions, have no matrix to cache: they are evaluated exactly.
    """

    joins = True

    def apply(self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
        blocks = _to_blocks(x, operator)
        outputs = [multiply(matrix, blocks) for matrix in self.matrices(filters, operator)]
        return torch.stack([_from_blocks(y, operator) for y in outputs])

    def merge(self, filters: Sequence[Filter], operator: LinearOperator, y: torch.Tensor) -> torch.Tensor:
        matrices = self.matrices(filters, operator)
        outputs = [multiply(m, _to_blocks(part, operator)) for m, part in zip(matrices, y, strict=True)]
        return _from_blocks(torch.stack(outputs).sum(0), operator)

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
    if isinstance(operator, ConnectionLaplacian) and size > EXACT_SIZE:
        double = operator.to(dtype=torch.float64)
        double.largest_deficit = operator.largest_deficit
        unit = torch.eye(size, dtype=torch.float64, device=operator.device).reshape(operator.num_points, -1, size)
        with contextlib.suppress(ConvergenceError):  # responses that jump are left to the eigenfields
            columns = Chebyshev(1e-12).apply(filters, double, unit)
            check_precision(filters, operator, operator.spectral_interval[1])
            return columns.reshape(len(filters), 1, size, size).to(operator.dtype)
    values, fields = operator.__dict__.get("eigenbasis") or operator.decompose()
    flat = fields.double().flatten(0, 1)
    weighted = flat * operator.mass.double().repeat_interleave(operator.dim)[:, None]
    check_precision(filters, operator, float(values[-1]))
    responses = torch.stack([f.evaluate(values) for f in filters]).detach()
    require_finite(responses, float(values[-1]))
    return ((flat * responses[:, None, :]) @ weighted.T)[:, None].to(operator.dtype)


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
