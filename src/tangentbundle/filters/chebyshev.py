r"""Banks of filters by one Chebyshev recurrence, with every derivative again such a bank.

With P's spectrum mapped to [-1, 1], :math:`Z = (P - m)/r`, a filter is :math:`\sum_m a_m T_m(Z)`. Three maps are
closed under differentiation, so that gradients of any order cost a recurrence and the memory of a few signals, not a
stored graph:

* ``bank``: :math:`x \mapsto y_k = \sum_m a_{km} T_m(Z)\, x`, one input and k outputs;
* ``merge``: :math:`y_k \mapsto \sum_k \sum_m a_{km} T_m(Z)\, y_k`, k inputs and one output (Clenshaw);
* ``dots``: :math:`d_{km} = \langle y_k, T_m(Z)\, x \rangle`, the derivative with respect to the coefficients.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import pad

from ..operators import ConnectionLaplacian
from ..operators.moments import recurrence
from ..operators.product import Extras, sort_rows, step, unsort_rows, use_triton
from ..operators.registry import differentiate, torch_op, vectorise
from ..operators.storage import along_curve
from .expansion import Band

Tensor = torch.Tensor


def band_of(operator: ConnectionLaplacian) -> Band:
    """The band of an operator's expansions.

    The upper end is rounded up so that the factors of the recurrence, 2/r and 2 - 2/r, are exact in float32. Otherwise
    their rounding shifts all eigenvalues alike, an error that grows with the diffusion time.
    """
    factor = np.float32(4.0 / operator.largest_deficit)
    return Band(operator.generator, 2.0 / float(np.nextafter(factor, np.float32(0.0))))


@torch_op
def bank(
    indptr: Tensor,
    cols: Tensor,
    values: Tensor,
    order: Tensor,
    mass: Tensor,
    x: Tensor,
    coefficients: Tensor,
    middle: float,
    radius: float,
) -> Tensor:
    """Outputs ``(k, n, d, c)`` of the filters ``coefficients`` (k, m) on a signal ``(n, d, c)``."""
    matrix = along_curve(indptr, cols, values, order)
    x = sort_rows(x, order)
    sums = coefficients[:, 0, None, None, None] * x
    every = 3 if use_triton(x.device) else 1
    columns, last = _in_turns(coefficients.T, every), coefficients.shape[1] - 1
    targets = lambda m: Extras(sums, columns[m]) if m % every == 0 or m == last else None  # noqa: E731
    for _ in recurrence(matrix, x, x, range(1, last + 1), middle, radius, targets):
        pass
    return unsort_rows(sums, order)


def _in_turns(columns: Tensor, every: int) -> Tensor:
    """Coefficients ``(m, k)``, or ``(m, k, 3)`` of terms m, m - 1 and m - 2 where sums are made every third time."""
    if every == 1:
        return columns.contiguous()
    shifted = [pad(columns, (0, 0, back, 0))[: len(columns)] for back in range(3)]
    turn = torch.arange(len(columns), device=columns.device)[:, None] % 3
    new = (turn >= 0, turn != 1, turn == 0)  # the rest has been added already
    return torch.stack([part * fresh for part, fresh in zip(shifted, new, strict=True)], dim=2).contiguous()


@torch_op
def merge(
    indptr: Tensor,
    cols: Tensor,
    values: Tensor,
    order: Tensor,
    mass: Tensor,
    y: Tensor,
    coefficients: Tensor,
    middle: float,
    radius: float,
) -> Tensor:
    """The sum ``(n, d, c)`` of the filters ``coefficients`` (k, m), each on its own signal ``y`` (k, n, d, c)."""
    matrix = along_curve(indptr, cols, values, order)
    y = sort_rows(y, order)
    columns = coefficients.T.contiguous()
    last = len(columns) - 1
    current = torch.einsum("k,kndc->ndc", columns[last], y)
    if last > 0:
        # b_m = sum_k a_km y_k + 2 Z b_{m+1} - b_{m+2};  result = sum_k a_k0 y_k + Z b_1 - b_2
        previous, spare = torch.zeros_like(current), torch.empty_like(current)
        for m in range(last - 1, -1, -1):
            factor = (2.0 if m > 0 else 1.0) / radius
            step(matrix, current, previous, spare, (factor, -factor * middle, -1.0), sources=Extras(y, columns[m]))
            previous, current, spare = current, spare, previous
    return unsort_rows(current, order)


@torch_op
def dots(
    indptr: Tensor,
    cols: Tensor,
    values: Tensor,
    order: Tensor,
    mass: Tensor,
    x: Tensor,
    y: Tensor,
    count: int,
    middle: float,
    radius: float,
) -> Tensor:
    """Inner products ``(k, count)`` of ``y`` (k, n, d, c) with T_m(Z) x, for m below ``count``."""
    matrix = along_curve(indptr, cols, values, order)
    x, y = sort_rows(x, order), sort_rows(y, order).flatten(1)
    out = x.new_empty((len(y), count))
    out[:, 0] = y @ x.flatten()
    for m, term in recurrence(matrix, x, x, range(1, count), middle, radius):
        out[:, m] = y @ term.flatten()
    return out


def _bank_shape(*inputs):
    x, coefficients = inputs[5:7]
    return x.new_empty((coefficients.shape[0], *x.shape))


def _merge_shape(*inputs):
    return inputs[5].new_empty(inputs[5].shape[1:])


def _dots_shape(*inputs):
    x, y, count = inputs[5:8]
    return x.new_empty((y.shape[0], count))


# Transposes: T_m(Z)^T = M T_m(Z) M^-1, since Z is self-adjoint in the mass inner product.


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:7])
    ctx.numbers = inputs[7:]


def _weigh(mass: Tensor) -> Tensor:
    return mass[:, None, None]


def _bank_backward(ctx, grad):
    *matrix, mass, x, coefficients = ctx.saved_tensors
    grad_x = grad_a = None
    if ctx.needs_input_grad[5]:
        grad_x = _weigh(mass) * merge(*matrix, mass, grad / _weigh(mass), coefficients, *ctx.numbers)
    if ctx.needs_input_grad[6]:
        grad_a = dots(*matrix, mass, x, grad.contiguous(), coefficients.shape[1], *ctx.numbers)
    return (None,) * 5 + (grad_x, grad_a, None, None)


def _merge_backward(ctx, grad):
    *matrix, mass, y, coefficients = ctx.saved_tensors
    scaled = grad / _weigh(mass)
    grad_y = grad_a = None
    if ctx.needs_input_grad[5]:
        grad_y = _weigh(mass) * bank(*matrix, mass, scaled, coefficients, *ctx.numbers)
    if ctx.needs_input_grad[6]:
        # <grad, T_m y_k> = <M y_k, T_m M^-1 grad>
        grad_a = dots(*matrix, mass, scaled, _weigh(mass) * y, coefficients.shape[1], *ctx.numbers)
    return (None,) * 5 + (grad_y, grad_a, None, None)


def _dots_backward(ctx, grad):
    *matrix, mass, x, y = ctx.saved_tensors
    numbers = ctx.numbers[1:]
    grad_x = grad_y = None
    if ctx.needs_input_grad[5]:
        grad_x = _weigh(mass) * merge(*matrix, mass, y / _weigh(mass), grad, *numbers)
    if ctx.needs_input_grad[6]:
        grad_y = bank(*matrix, mass, x, grad, *numbers)
    return (None,) * 5 + (grad_x, grad_y, None, None, None)


differentiate(bank, _bank_shape, _keep, _bank_backward)
differentiate(merge, _merge_shape, _keep, _merge_backward)
differentiate(dots, _dots_shape, _keep, _dots_backward)

vectorise(bank, by_channel=True)
vectorise(merge, by_channel=True)
vectorise(dots, by_channel=False)
