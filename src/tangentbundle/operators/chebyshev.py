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

import torch
from torch import Tensor
from torch.nn.functional import pad

from .product import (
    Extras,
    add_outer,
    block_product,
    describe,
    recurrence,
    sort_rows,
    step,
    sum_of_tangents,
    torch_op,
)
from .storage import BlockMatrix, Layout, matrix_of

TERMS_AT_ONCE = 3
"""Terms of a recurrence that kernels for slices add to running sums at once: sums are read and
written every third time only."""


@torch_op
def bank(
    indptr: Tensor, cols: Tensor, values: Tensor, order: Tensor, mass: Tensor,
    x: Tensor, coefficients: Tensor, middle: float, radius: float, layout: str,
) -> Tensor:  # fmt: skip
    """Outputs ``(k, n, d, c)`` of the filters ``coefficients`` (k, m) on a signal ``(n, d, c)``."""
    matrix = matrix_of(indptr, cols, values, order, layout).along_curve()
    x = sort_rows(x, order)
    sums = coefficients[:, 0, None, None, None] * x
    last = coefficients.shape[1] - 1
    interval = 1
    columns = coefficients.T.contiguous()
    if matrix.layout is Layout.SLICES:
        interval = TERMS_AT_ONCE
        columns = _columns_of_three(columns)
    targets = {}
    for m in range(1, last + 1):
        if m % interval == 0 or m == last:
            targets[m] = Extras(sums, columns[m])
    for _ in recurrence(matrix, x, x, range(1, last + 1), middle, radius, targets):
        pass
    return sort_rows(sums, order, back=True)


def _columns_of_three(columns: Tensor) -> Tensor:
    """Coefficients ``(m, k, 3)`` of terms m, m - 1 and m - 2, of those ``(m, k)`` of term m; zero
    for terms that have been added already."""
    turn = torch.arange(len(columns), device=columns.device)[:, None] % TERMS_AT_ONCE
    current = columns
    previous = pad(columns, (0, 0, 1, 0))[: len(columns)] * (turn != 1)
    before = pad(columns, (0, 0, 2, 0))[: len(columns)] * (turn == 0)
    return torch.stack([current, previous, before], dim=2).contiguous()


@torch_op
def merge(
    indptr: Tensor, cols: Tensor, values: Tensor, order: Tensor, mass: Tensor,
    y: Tensor, coefficients: Tensor, middle: float, radius: float, layout: str,
) -> Tensor:  # fmt: skip
    """The sum ``(n, d, c)`` of the filters ``coefficients`` (k, m), each on its own signal ``y``
    (k, n, d, c)."""
    matrix = matrix_of(indptr, cols, values, order, layout).along_curve()
    y = sort_rows(y, order)
    columns = coefficients.T.contiguous()
    last = len(columns) - 1
    current = torch.einsum("k,kndc->ndc", columns[last], y)
    # b_m = sum_k a_km y_k + 2 Z b_{m+1} - b_{m+2};  result = sum_k a_k0 y_k + Z b_1 - b_2
    previous = torch.zeros_like(current)
    spare = torch.empty_like(current)
    for m in range(last - 1, -1, -1):
        factor = (2.0 if m > 0 else 1.0) / radius
        scalars = (factor, -factor * middle, -1.0)
        step(matrix, current, previous, spare, scalars, sources=Extras(y, columns[m]))
        previous, current, spare = current, spare, previous
    return sort_rows(current, order, back=True)


@torch_op
def dots(
    indptr: Tensor, cols: Tensor, values: Tensor, order: Tensor, mass: Tensor,
    x: Tensor, y: Tensor, count: int, middle: float, radius: float, layout: str,
) -> Tensor:  # fmt: skip
    """Inner products ``(k, count)`` of ``y`` (k, n, d, c) with T_m(Z) x, for m below ``count``."""
    matrix = matrix_of(indptr, cols, values, order, layout).along_curve()
    x = sort_rows(x, order)
    y = sort_rows(y, order).flatten(1)
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
    r"""Gradient of :math:`\sum_{km} a_{km} \langle y_k, T_m(Z)\, x \rangle` in the blocks of P,
    which is stored in rows; products in the mass.

    It is :math:`M \sum_m b_{m+1} (T_m x)^T`, twice that but for m = 0, with the terms b of
    Clenshaw's recurrence, which runs down. The terms :math:`T_m x` are not stored: their recurrence
    runs up, and then down again in step. With ``swap`` it is the gradient of
    :math:`\langle x, T_m(Z)\, y_k \rangle`: the two factors change places.
    """
    matrix = BlockMatrix(indptr, cols, values, order).along_curve()
    out = torch.zeros_like(values)
    x = sort_rows(x, order)
    y = sort_rows(y, order)
    columns = coefficients.T.contiguous()
    last = len(columns) - 1
    doubled = (2.0 / radius, -2.0 * middle / radius, -1.0)

    def add(b: Tensor, term: Tensor, factor: float) -> None:
        if swap:
            add_outer(matrix, term, b, factor, out)
        else:
            add_outer(matrix, b, term, factor, out)

    lower = x
    term = x
    for _, following in recurrence(matrix, x, x, range(1, last), middle, radius):
        lower = term
        term = following
    b = torch.einsum("k,kndc->ndc", columns[last], y)
    above = torch.zeros_like(b)
    spare = torch.empty_like(b)
    for m in range(last - 1, 0, -1):
        add(b, term, doubled[0])
        step(matrix, b, above, spare, doubled, sources=Extras(y, columns[m]))
        above, b, spare = b, spare, above
        if m > 1:
            step(matrix, lower, term, term, doubled)
        lower, term = term, lower
    if last > 0:
        add(b, term, 1.0 / radius)
    edge_mass = mass[order].repeat_interleave(indptr.diff(), output_size=len(cols))
    return out * edge_mass[:, None, None]


# Transposes: T_m(Z)^T = M T_m(Z) M^-1, since Z is self-adjoint in the mass inner product.


def _keep(ctx, inputs, output):
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.numbers = inputs[len(tensors) :]


def _bank_backward(ctx, grad):
    *matrix, x, coefficients = ctx.saved_tensors
    middle, radius, layout = ctx.numbers
    mass = matrix[-1][:, None, None]
    grad_p = grad_x = grad_a = None
    if ctx.needs_input_grad[2]:
        grad_p = sensitivity(*matrix, x, grad / mass, coefficients, middle, radius, False)
    if ctx.needs_input_grad[5]:
        grad_x = mass * merge(*matrix, grad / mass, coefficients, middle, radius, layout)
    if ctx.needs_input_grad[6]:
        count = coefficients.shape[1]
        grad_a = dots(*matrix, x, grad.contiguous(), count, middle, radius, layout)
    return None, None, grad_p, None, None, grad_x, grad_a, None, None, None


def _merge_backward(ctx, grad):
    *matrix, y, coefficients = ctx.saved_tensors
    middle, radius, layout = ctx.numbers
    mass = matrix[-1][:, None, None]
    scaled = grad / mass
    grad_p = grad_y = grad_a = None
    if ctx.needs_input_grad[2]:
        grad_p = sensitivity(*matrix, scaled, y, coefficients, middle, radius, True)
    if ctx.needs_input_grad[5]:
        grad_y = mass * bank(*matrix, scaled, coefficients, middle, radius, layout)
    if ctx.needs_input_grad[6]:
        # <grad, T_m y_k> = <M y_k, T_m M^-1 grad>
        count = coefficients.shape[1]
        grad_a = dots(*matrix, scaled, mass * y, count, middle, radius, layout)
    return None, None, grad_p, None, None, grad_y, grad_a, None, None, None


def _dots_backward(ctx, grad):
    *matrix, x, y = ctx.saved_tensors
    _, middle, radius, layout = ctx.numbers
    mass = matrix[-1][:, None, None]
    grad_p = grad_x = grad_y = None
    if ctx.needs_input_grad[2]:
        grad_p = sensitivity(*matrix, x, y / mass, grad, middle, radius, False)
    if ctx.needs_input_grad[5]:
        grad_x = mass * merge(*matrix, y / mass, grad, middle, radius, layout)
    if ctx.needs_input_grad[6]:
        grad_y = bank(*matrix, x, grad, middle, radius, layout)
    return None, None, grad_p, None, None, grad_x, grad_y, None, None, None, None


def _sensitivity_backward(ctx, grad):
    """Through the recurrences written out: second derivatives store all terms."""
    indptr, cols, values, order, mass, *signals = ctx.saved_tensors
    middle, radius, swap = ctx.numbers
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        inputs = [
            tensor if tensor.requires_grad else tensor.detach().requires_grad_()
            for tensor in (values, *signals)
        ]
        values, x, y, coefficients = inputs
        places = BlockMatrix(indptr, cols, values, order).along_curve().curve_order
        matrix = (indptr, cols, values, places, mass[order])
        pairing = _pairing(
            matrix, x[order], y[:, order], coefficients, middle=middle, radius=radius, swap=swap
        )
        (first,) = torch.autograd.grad(pairing, values, create_graph=True)
        grads = torch.autograd.grad(
            first, inputs, grad, create_graph=create_graph, allow_unused=True
        )
    return None, None, grads[0], None, None, *grads[1:], None, None, None


def _pairing(
    matrix: tuple[Tensor, ...],
    x: Tensor,
    y: Tensor,
    coefficients: Tensor,
    *,
    middle: float,
    radius: float,
    swap: bool,
) -> Tensor:
    r""":math:`\sum_{km} a_{km} \langle y_k, T_m(Z)\, x \rangle` in the mass, by the recurrence
    that autograd follows; with ``swap`` by that of :math:`\langle x, T_m(Z)\, y_k \rangle`."""
    mass = matrix[-1]
    sources = torch.einsum("km,kndc->mndc", coefficients, y)

    def product(signal: Tensor, factor: float) -> Tensor:
        alpha = factor / radius
        return block_product(*matrix, signal, alpha, -factor * middle / radius, Layout.ROWS.value)

    if swap:
        above = torch.zeros_like(x)
        b = sources[-1]
        for m in range(len(sources) - 2, -1, -1):
            following = product(b, 2.0 if m else 1.0) + sources[m] - above
            above = b
            b = following
        return torch.einsum("n,ndc,ndc->", mass, x, b)
    terms = [x]
    for m in range(1, len(sources)):
        if m == 1:
            terms.append(product(x, 1.0))
        else:
            terms.append(product(terms[-1], 2.0) - terms[-2])
    return torch.einsum("n,mndc,mndc->", mass, sources, torch.stack(terms))


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
