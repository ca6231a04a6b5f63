r"""Banks of filters by one Chebyshev recurrence, with every derivative again such a bank.

With P's spectrum mapped to [-1, 1], :math:`Z = (P - m)/r`, a filter is :math:`\sum_m a_m T_m(Z)`.
Three maps are closed under differentiation in signals and coefficients, so that gradients of any
order cost a recurrence and the memory of a few signals, not a stored graph:

* ``bank``: :math:`x \mapsto y_k = \sum_m a_{km} T_m(Z)\, x`, one input and k outputs;
* ``merge``: :math:`y_k \mapsto \sum_k \sum_m a_{km} T_m(Z)\, y_k`, k inputs and one output
  (Clenshaw);
* ``dots``: :math:`d_{km} = \langle y_k, T_m(Z)\, x \rangle`, the derivative with respect to the
  coefficients.

A fourth one, ``sensitivity``, is the derivative of all three with respect to the blocks of P, for
sheaves that learn.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..operators import ConnectionLaplacian
from ..operators.moments import recurrence
from ..operators.product import (
    Extras,
    add_outer,
    block_product,
    describe,
    sort_rows,
    step,
    sum_of_tangents,
    torch_op,
)
from ..operators.storage import along_curve, is_sliced
from .expansion import Band


def band_of(operator: ConnectionLaplacian) -> Band:
    """The band of an operator's expansions.

    The upper end is rounded up so that the factors of the recurrence, 2/r and 2 - 2/r, are exact in
    float32. Otherwise their rounding shifts all eigenvalues alike, an error that grows with the
    diffusion time.
    """
    factor = np.float32(4.0 / operator.largest_deficit)
    return Band(operator.generator, 2.0 / float(np.nextafter(factor, np.float32(0.0))))


@torch_op
def bank(
    indptr: Tensor, cols: Tensor, values: Tensor, order: Tensor, mass: Tensor,
    x: Tensor, coefficients: Tensor, middle: float, radius: float,
) -> Tensor:  # fmt: skip
    """Outputs ``(k, n, d, c)`` of the filters ``coefficients`` (k, m) on a signal ``(n, d, c)``."""
    matrix = along_curve(indptr, cols, values, order)
    x = sort_rows(x, order)
    sums = coefficients[:, 0, None, None, None] * x
    every = 3 if is_sliced(indptr, order) else 1
    columns, last = _in_turns(coefficients.T, every), coefficients.shape[1] - 1
    targets = lambda m: Extras(sums, columns[m]) if m % every == 0 or m == last else None  # noqa: E731
    for _ in recurrence(matrix, x, x, range(1, last + 1), middle, radius, targets):
        pass
    return sort_rows(sums, order, back=True)


def _in_turns(columns: Tensor, every: int) -> Tensor:
    """Coefficients ``(m, k)``, or ``(m, k, 3)`` of terms m, m - 1 and m - 2 where sums are made
    every third time."""
    if every == 1:
        return columns.contiguous()
    shifted = [pad(columns, (0, 0, back, 0))[: len(columns)] for back in range(3)]
    turn = torch.arange(len(columns), device=columns.device)[:, None] % 3
    new = (turn >= 0, turn != 1, turn == 0)  # the rest has been added already
    return torch.stack(
        [part * fresh for part, fresh in zip(shifted, new, strict=True)], dim=2
    ).contiguous()


@torch_op
def merge(
    indptr: Tensor, cols: Tensor, values: Tensor, order: Tensor, mass: Tensor,
    y: Tensor, coefficients: Tensor, middle: float, radius: float,
) -> Tensor:  # fmt: skip
    """The sum ``(n, d, c)`` of the filters ``coefficients`` (k, m), each on its own signal ``y``
    (k, n, d, c)."""
    matrix = along_curve(indptr, cols, values, order)
    y = sort_rows(y, order)
    columns = coefficients.T.contiguous()
    last = len(columns) - 1
    current = torch.einsum("k,kndc->ndc", columns[last], y)
    # b_m = sum_k a_km y_k + 2 Z b_{m+1} - b_{m+2};  result = sum_k a_k0 y_k + Z b_1 - b_2
    previous, spare = torch.zeros_like(current), torch.empty_like(current)
    for m in range(last - 1, -1, -1):
        factor = (2.0 if m > 0 else 1.0) / radius
        step(
            matrix,
            current,
            previous,
            spare,
            (factor, -factor * middle, -1.0),
            sources=Extras(y, columns[m]),
        )
        previous, current, spare = current, spare, previous
    return sort_rows(current, order, back=True)


@torch_op
def dots(
    indptr: Tensor, cols: Tensor, values: Tensor, order: Tensor, mass: Tensor,
    x: Tensor, y: Tensor, count: int, middle: float, radius: float,
) -> Tensor:  # fmt: skip
    """Inner products ``(k, count)`` of ``y`` (k, n, d, c) with T_m(Z) x, for m below ``count``."""
    matrix = along_curve(indptr, cols, values, order)
    x, y = sort_rows(x, order), sort_rows(y, order).flatten(1)
    out = x.new_empty((len(y), count))
    out[:, 0] = y @ x.flatten()
    for m, term in recurrence(matrix, x, x, range(1, count), middle, radius):
        out[:, m] = y @ term.flatten()
    return out


@torch_op
def sensitivity(
    indptr: Tensor, cols: Tensor, values: Tensor, order: Tensor, mass: Tensor,
    x: Tensor, y: Tensor, coefficients: Tensor, middle: float, radius: float, swap: bool,
) -> Tensor:  # fmt: skip
    r"""Gradient of :math:`\sum_{km} a_{km} \langle y_k, T_m(Z)\, x \rangle` in the blocks of P;
    products in the mass.

    It is :math:`M \sum_m b_{m+1} (T_m x)^T`, twice that but for m = 0, with the terms b of
    Clenshaw's recurrence, which runs down. The terms :math:`T_m x` are not stored: their recurrence
    runs up, and then down again in step. With ``swap`` it is the gradient of
    :math:`\langle x, T_m(Z)\, y_k \rangle`: the two factors change places.
    """
    matrix, out = along_curve(indptr, cols, values, order), torch.zeros_like(values)
    x, y, columns = sort_rows(x, order), sort_rows(y, order), coefficients.T.contiguous()
    last, double = len(columns) - 1, (2.0 / radius, -2.0 * middle / radius, -1.0)
    lower = term = x
    for _, new in recurrence(matrix, x, x, range(1, last), middle, radius):
        lower, term = term, new
    b = torch.einsum("k,kndc->ndc", columns[last], y)
    above, spare = torch.zeros_like(b), torch.empty_like(b)
    for m in range(last - 1, 0, -1):
        add_outer(matrix, *((term, b) if swap else (b, term)), double[0], out)
        step(matrix, b, above, spare, double, sources=Extras(y, columns[m]))
        above, b, spare = b, spare, above
        if m > 1:
            step(matrix, lower, term, term, double)
        lower, term = term, lower
    if last > 0:
        add_outer(matrix, *((term, b) if swap else (b, term)), 1.0 / radius, out)
    return out * mass[order].repeat_interleave(indptr.diff(), output_size=len(cols))[:, None, None]


# Transposes: T_m(Z)^T = M T_m(Z) M^-1, since Z is self-adjoint in the mass inner product.


def _keep(ctx, inputs, output):
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.numbers = inputs[len(tensors) :]


def _bank_backward(ctx, grad):
    *matrix, x, coefficients = ctx.saved_tensors
    mass = matrix[-1][:, None, None]
    grad_p = grad_x = grad_a = None
    if ctx.needs_input_grad[2]:
        grad_p = sensitivity(*matrix, x, grad / mass, coefficients, *ctx.numbers, False)
    if ctx.needs_input_grad[5]:
        grad_x = mass * merge(*matrix, grad / mass, coefficients, *ctx.numbers)
    if ctx.needs_input_grad[6]:
        grad_a = dots(*matrix, x, grad.contiguous(), coefficients.shape[1], *ctx.numbers)
    return None, None, grad_p, None, None, grad_x, grad_a, None, None


def _merge_backward(ctx, grad):
    *matrix, y, coefficients = ctx.saved_tensors
    mass = matrix[-1][:, None, None]
    scaled = grad / mass
    grad_p = grad_y = grad_a = None
    if ctx.needs_input_grad[2]:
        grad_p = sensitivity(*matrix, scaled, y, coefficients, *ctx.numbers, True)
    if ctx.needs_input_grad[5]:
        grad_y = mass * bank(*matrix, scaled, coefficients, *ctx.numbers)
    if ctx.needs_input_grad[6]:
        # <grad, T_m y_k> = <M y_k, T_m M^-1 grad>
        grad_a = dots(*matrix, scaled, mass * y, coefficients.shape[1], *ctx.numbers)
    return None, None, grad_p, None, None, grad_y, grad_a, None, None


def _dots_backward(ctx, grad):
    *matrix, x, y = ctx.saved_tensors
    mass, numbers = matrix[-1][:, None, None], ctx.numbers[1:]
    grad_p = grad_x = grad_y = None
    if ctx.needs_input_grad[2]:
        grad_p = sensitivity(*matrix, x, y / mass, grad, *numbers, False)
    if ctx.needs_input_grad[5]:
        grad_x = mass * merge(*matrix, y / mass, grad, *numbers)
    if ctx.needs_input_grad[6]:
        grad_y = bank(*matrix, x, grad, *numbers)
    return None, None, grad_p, None, None, grad_x, grad_y, None, None, None


def _sensitivity_backward(ctx, grad):
    """Through the recurrences written out: second derivatives store all terms."""
    indptr, cols, values, order, mass, *others = ctx.saved_tensors
    further, (middle, radius, swap) = torch.is_grad_enabled(), ctx.numbers
    with torch.enable_grad():
        inputs = [t if t.requires_grad else t.detach().requires_grad_() for t in (values, *others)]
        values, x, y, coefficients = inputs
        rows = along_curve(indptr, cols, values, order).curve_order
        matrix = indptr, cols, values, rows, mass[order]
        x, sources = x[order], torch.einsum("km,kndc->mndc", coefficients, y[:, order])

        def product(signal: Tensor, factor: float) -> Tensor:
            return block_product(*matrix, signal, factor / radius, -factor * middle / radius)

        if swap:
            above, b = torch.zeros_like(x), sources[-1]
            for m in range(len(sources) - 2, -1, -1):
                above, b = b, product(b, 2.0 if m else 1.0) + sources[m] - above
            total = torch.einsum("n,ndc,ndc->", matrix[-1], x, b)
        else:
            terms = [x]
            for m in range(1, len(sources)):
                terms.append(product(x, 1.0) if m == 1 else product(terms[-1], 2.0) - terms[-2])
            total = torch.einsum("n,mndc,mndc->", matrix[-1], sources, torch.stack(terms))
        (first,) = torch.autograd.grad(total, values, create_graph=True)
        grads = torch.autograd.grad(first, inputs, grad, create_graph=further, allow_unused=True)
    return None, None, grads[0], None, None, *grads[1:], None, None, None


def _bank_forward(inputs, tangents):
    return sum_of_tangents(bank, inputs, tangents, linear=(5, 6))


def _merge_forward(inputs, tangents):
    return sum_of_tangents(merge, inputs, tangents, linear=(5, 6))


def _dots_forward(inputs, tangents):
    return sum_of_tangents(dots, inputs, tangents, linear=(5, 6))


def _sensitivity_forward(inputs, tangents):
    return sum_of_tangents(sensitivity, inputs, tangents, linear=(5, 6, 7))


bank = describe(
    bank,
    lambda *inputs: inputs[5].new_empty((len(inputs[6]), *inputs[5].shape)),
    _keep,
    _bank_backward,
    _bank_forward,
    by_channel=True,
)
merge = describe(
    merge,
    lambda *inputs: inputs[5].new_empty(inputs[5].shape[1:]),
    _keep,
    _merge_backward,
    _merge_forward,
    by_channel=True,
)
dots = describe(
    dots,
    lambda *inputs: inputs[5].new_empty((len(inputs[6]), inputs[7])),
    _keep,
    _dots_backward,
    _dots_forward,
    by_channel=False,
)
sensitivity = describe(
    sensitivity,
    lambda *inputs: torch.empty_like(inputs[2]),
    _keep,
    _sensitivity_backward,
    _sensitivity_forward,
    by_channel=False,
)
