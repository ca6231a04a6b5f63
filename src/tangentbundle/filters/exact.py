"""Filters of small operators: exactly by eigenfields, or by matrices that are formed once and kept."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..arrays import is_batched
from ..errors import ConvergenceError
from ..memory import require_memory
from ..operators import ConnectionLaplacian, Joined, LinearOperator
from ..operators.registry import differentiate, torch_op, vectorise
from .base import Filter
from .expansion import require_finite
from .precision import check_precision

MAX_CACHED_BANKS = 64
"""Banks of filters whose coefficients or matrices are cached on an operator."""

_writing = threading.Lock()


class Method(ABC):
    """A way to apply a bank of filters to a signal ``(n, d, c)``."""

    @abstractmethod
    def apply(self, filters: Sequence[Filter], operator: ConnectionLaplacian, x: torch.Tensor) -> torch.Tensor:
        """Outputs ``(k, n, d, c)``, differentiable in x and in the filters' parameters."""

    def merge(self, filters: Sequence[Filter], operator: ConnectionLaplacian, y: torch.Tensor) -> torch.Tensor:
        """The sum ``(n, d, c)`` of the filters, each on its own signal ``y`` (k, n, d, c)."""
        outputs = [self.apply([f], operator, part)[0] for f, part in zip(filters, y, strict=True)]
        return torch.stack(outputs).sum(0)

    def remember(self, filters: Sequence[Filter], operator: LinearOperator, compute: Callable) -> torch.Tensor:
        """The result of ``compute()``, cached on the operator under the values of the filters' parameters."""
        signatures = tuple(f.signature() for f in filters)
        key = None if None in signatures else (self, signatures)
        banks = operator.cache.setdefault("banks", {})
        if key is not None and (found := banks.get(key)) is not None:
            return found
        with torch.inference_mode(False), torch.enable_grad():  # a cached result must serve training, too
            result = compute()
        if key is not None:
            with _writing:
                while len(banks) >= MAX_CACHED_BANKS:
                    del banks[next(iter(banks))]
                banks[key] = result
        return result


@dataclass(frozen=True)
class Exact(Method):
    """By the full eigendecomposition, computed once and kept on the operator: for small ones (n d up to 5 000)."""

    def apply(self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
        if isinstance(operator, Joined):
            parts = zip(operator.parts, operator.split(x), strict=True)
            return torch.cat([self.apply(filters, part, piece) for part, piece in parts], dim=1)
        values, fields = operator.eigenbasis
        flat = fields.flatten(0, 1)
        weights = operator.mass.repeat_interleave(operator.dim)[:, None]
        spectrum = flat.T @ (weights * x.flatten(0, 1))
        responses = torch.stack([f.evaluate(values) for f in filters])
        if responses.device.type == "cpu" and not is_batched(responses):
            require_finite(responses, float(values[0]), float(values[-1]))
            check_precision(filters, operator, float(values[-1]))
        responses = responses.to(x)
        return (flat @ (responses[:, :, None] * spectrum)).unflatten(1, x.shape[:2])


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
    """By the filters' matrices ``(n d, n d)``, formed once and kept on the operator.

    The fastest for small operators that meet the same few filters again and again, as in the training of a network:
    one matrix product instead of many. A joined operator keeps one matrix a bundle, and multiplies them as a batch.
    Filters that learn, or are Python functions, have no matrix worth keeping: they are evaluated exactly.
    """

    def apply(self, filters: Sequence[Filter], operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
        if not all(f.signature() for f in filters):
            return Exact().apply(filters, operator, x)
        blocks = _to_blocks(x, operator)
        outputs = [multiply(matrix, blocks) for matrix in self.matrices(filters, operator)]
        return torch.stack([_from_blocks(y, operator) for y in outputs])

    def merge(self, filters: Sequence[Filter], operator: LinearOperator, y: torch.Tensor) -> torch.Tensor:
        if not all(f.signature() for f in filters):
            return Exact().merge(filters, operator, y)  # type: ignore[arg-type]
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
    """Matrices ``(k, 1, n d, n d)`` of filters, computed in float64.

    Beyond a few hundred rows a polynomial of the sparse operator costs far less than its eigenfields.
    """
    from .methods import EXACT_SIZE, Chebyshev

    size = operator.shape[0]
    need, what = 8.0 * (2 * len(filters) + 3) * size**2, f"{len(filters)} dense filters of {size} rows"
    require_memory(need, what, "Use method=Chebyshev(), which forms no matrix.")
    if isinstance(operator, ConnectionLaplacian) and size > EXACT_SIZE:
        double = operator.to(dtype=torch.float64)
        double.spectral_interval = operator.spectral_interval
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
    require_finite(responses, float(values[0]), float(values[-1]))
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
