r"""One primitive for every device: a fused step with the block-sparse average P.

.. math:: y = \alpha P x + \beta x + \gamma z + \sum_k b_k s_k, \qquad t_k \leftarrow t_k + a_k y.

With only :math:`\alpha` and :math:`\beta` it is the product; with all it is one step of a Chebyshev
recurrence, which reads the matrix once and each vector once. P is self-adjoint in the mass inner
product, :math:`P^T = M P M^{-1}`: backward passes are the same step between two scalings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidInputError
from ..extras import use_triton
from ..memory import empty_like
from ..parallel import run_ranges
from ..transforms import is_transformed
from .storage import BlockMatrix, Layout, matrix_of

MIN_ROWS = 256
"""Least number of rows of a product that are worth a thread."""


@dataclass(frozen=True)
class Extras:
    """Signals added to a step, and running sums that a step is added to: ``(k, n, d, c)`` each.

    Coefficients ``(k,)``; or for running sums on GPUs ``(k, 3)``, of y, x and z.
    """

    signals: torch.Tensor
    coefficients: torch.Tensor


def reference_step(matrix, x, z, out, scalars, sources=None, targets=None) -> None:
    """The readable twin of the compiled kernels of ``step``: gather, multiply, scatter."""
    alpha, beta, gamma = scalars
    y = beta * x + gamma * z
    y.index_add_(0, matrix.rows(), alpha * (matrix.blocks() @ x[matrix.columns()]))
    if sources is not None:
        y += torch.einsum("k,kndc->ndc", sources.coefficients, sources.signals)
    if targets is not None:
        terms = y[None]
        if targets.coefficients.ndim == 2:
            terms = torch.stack([y, x, z])
        factors = targets.coefficients.reshape(-1, len(terms))
        targets.signals.add_(torch.einsum("kt,tndc->kndc", factors, terms))
    out.copy_(y)


def _cpu_step(matrix, x, z, out, scalars, sources=None, targets=None) -> None:
    from .cpu import fused_rows  # imported when first needed: numba is slow to load

    real = x.numpy().dtype.type
    alpha, beta, gamma = scalars
    nothing = Extras(x.new_empty((0, 0, 0, 0)), x.new_empty(0))
    if sources is None:
        sources = nothing
    if targets is None:
        targets = nothing
    extras = (
        sources.signals.numpy(),
        sources.coefficients.numpy(),
        targets.signals.numpy(),
        targets.coefficients.numpy(),
    )
    run_ranges(
        fused_rows,
        len(matrix.curve_order),
        matrix.indptr.numpy(),
        matrix.curve_order.numpy(),
        (matrix.cols.numpy(), matrix.values.numpy()),
        (x.numpy(), z.numpy(), out.numpy()),
        extras,
        real(alpha),
        real(beta),
        real(gamma),
        grain=MIN_ROWS,
    )


def reference_outer(
    matrix: BlockMatrix, y: torch.Tensor, x: torch.Tensor, alpha: float, out: torch.Tensor
) -> None:
    """Add ``alpha y_i x_j^T``, summed over channels, for every block ij of the matrix."""
    out += alpha * (y[matrix.rows()] @ x[matrix.columns()].mT)


def _cpu_outer(matrix, y, x, alpha, out) -> None:
    from .cpu import outer_rows

    total = out.numpy()
    run_ranges(
        outer_rows,
        len(x),
        matrix.indptr.numpy(),
        matrix.curve_order.numpy(),
        matrix.cols.numpy(),
        y.numpy(),
        x.numpy(),
        total,
        total.dtype.type(alpha),
        grain=MIN_ROWS,
    )


@singledispatch
def step(
    matrix: Any,
    x: torch.Tensor,
    z: torch.Tensor,
    out: torch.Tensor,
    scalars: tuple[float, float, float],
    sources: Extras | None = None,
    targets: Extras | None = None,
) -> None:
    """One fused step on contiguous signals ``(n, d, c)``, into ``out`` (which may be ``z``).

    Where Triton serves the device, the matrix mostly is in the sliced form of ``storage.py``. A
    matrix in files registers a step of its own.
    """
    if matrix.layout is Layout.SLICES:
        from .cuda import cuda_step as kernel
    elif use_triton(x.device):
        from .csr_cuda import csr_step as kernel
    elif x.device.type == "cpu":
        kernel = _cpu_step
    else:
        kernel = reference_step
    kernel(matrix, x, z, out, scalars, sources, targets)


def add_outer(
    matrix: BlockMatrix, y: torch.Tensor, x: torch.Tensor, alpha: float, out: torch.Tensor
) -> None:
    """The same by the kernel of the device, for matrices in CSR form and contiguous signals
    ``(n, d, c)``."""
    if use_triton(x.device):
        from .csr_cuda import csr_outer as kernel
    elif x.device.type == "cpu":
        kernel = _cpu_outer
    else:
        kernel = reference_outer
    kernel(matrix, y, x, alpha, out)


def recurrence(
    matrix: Any,
    previous: torch.Tensor,
    current: torch.Tensor,
    degrees: range,
    middle: float = 0.0,
    radius: float = 1.0,
    targets: Mapping[int, Extras] | None = None,
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield T_m x in turn for the consecutive m >= 1 in ``degrees``, from the two terms before
    (T_0 x twice for m = 1).

    ``targets[m]`` are the running sums that T_m x is added to. A yielded tensor is overwritten
    two steps later.
    """
    if targets is None:
        targets = {}
    buffers = [torch.empty_like(current), torch.empty_like(current)]
    for m in degrees:
        factor = 2.0 / radius
        gamma = -1.0
        if m == 1:
            factor = 1.0 / radius
            gamma = 0.0
        out = buffers[m % 2]
        scalars = (factor, -factor * middle, gamma)
        step(matrix, current, previous, out, scalars, targets=targets.get(m))
        previous = current
        current = out
        yield m, current


def sort_rows(x: torch.Tensor, order: torch.Tensor, *, back: bool = False) -> torch.Tensor:
    """Signals ``(..., n, d, c)`` to the matrix's row order, or back from it."""
    if use_triton(x.device):
        from .cuda import copy_rows

        return copy_rows(x, order, scatter=back)
    if back:
        return torch.empty_like(x).index_copy_(x.ndim - 3, order.long(), x)
    return x.index_select(-3, order)


LIBRARY = torch.library.Library("tangentbundle", "DEF")
"""``torch.library.custom_op`` would do the same, but its first call imports the complete compiler:
1.5 seconds."""


CONSTANT = (0, 1, 3, 4)
"""Inputs of the operators below that their outputs do not depend on smoothly: places of blocks, and
the mass, which transposes alone need."""

SIGNAL = 5
"""The input of the operators below that is their signal; it follows the tensors of the matrix."""


def torch_op(function: Callable[..., Any]) -> Any:
    """Register an annotated function of tensors and numbers, opaque to ``torch.compile``, for all
    devices.

    Returns ``torch.ops.tangentbundle.<name>``.
    """
    name = function.__name__
    LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()))
    LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    return getattr(torch.ops.tangentbundle, name).default


def describe(
    operator: Any,
    shape: Callable,
    keep: Callable,
    backward: Callable,
    forward: Callable,
    *,
    by_channel: bool,
) -> Callable:
    """Tell torch an operator's output shape (as a function on fake tensors), its derivatives, and
    how it is vectorised.

    Returns the function to call, whose ``operator`` is the one given. Derivatives that are
    registered for an operator serve ``backward`` and ``torch.compile``; ``torch.func`` and forward
    mode take an ``autograd.Function`` with the same ones. ``forward(inputs, tangents)`` is the
    tangent of the output.

    In ``torch.vmap`` replicas of the signal, which follows the five tensors of the matrix, become
    channels where the operator treats these alike. Other batches (of coefficients, or of an
    operator that sums over channels) are taken one by one.
    """

    def rule(info: Any, in_dims: Any, *args: Any) -> Any:
        batched = [i for i, dim in enumerate(in_dims) if dim is not None]
        if by_channel and batched == [SIGNAL]:
            x = args[SIGNAL].movedim(in_dims[SIGNAL], -2)
            y = apply(*args[:SIGNAL], x.flatten(-2), *args[SIGNAL + 1 :])
            return y.unflatten(-1, x.shape[-2:]).movedim(-2, 0), 0
        outputs = [apply(*_replica(args, in_dims, r)) for r in range(info.batch_size)]
        return torch.stack(outputs), 0

    class Transformed(torch.autograd.Function):
        """The same operator for ``torch.func`` and forward mode."""

        @staticmethod
        def forward(*inputs):
            return operator(*inputs)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)
            keep(ctx, inputs, output)
            ctx.save_for_forward(*(value for value in inputs if isinstance(value, Tensor)))
            ctx.inputs = [None if isinstance(value, Tensor) else value for value in inputs]

        @staticmethod
        def backward(ctx, grad):
            return backward(ctx, grad)

        @staticmethod
        def jvp(ctx, *tangents):
            saved = iter(ctx.saved_tensors)
            inputs = [next(saved) if value is None else value for value in ctx.inputs]
            return forward(inputs, tangents)

        @staticmethod
        def vmap(info, in_dims, *args):
            return rule(info, in_dims, *args)

    def apply(*inputs: Any) -> Any:
        if not torch.compiler.is_compiling() and any(is_transformed(value) for value in inputs):
            return Transformed.apply(*inputs)
        return operator(*inputs)

    torch.library.register_fake(operator, shape, lib=LIBRARY)
    torch.library.register_autograd(operator, backward, setup_context=keep, lib=LIBRARY)
    torch.library.register_vmap(operator, rule, lib=LIBRARY)
    apply.operator = operator  # type: ignore[attr-defined]
    return apply


def _replica(args: Sequence, in_dims: Sequence, index: int) -> list:
    """The arguments of one replica in ``torch.vmap``."""
    selected = []
    for value, dim in zip(args, in_dims, strict=True):
        if dim is None:
            selected.append(value)
        else:
            selected.append(value.select(dim, index))
    return selected


def sum_of_tangents(
    function: Callable, inputs: Sequence, tangents: Sequence, linear: Sequence[int]
) -> Tensor:
    """The tangent of a function that is linear in each of some inputs, and has no forward
    derivative in the others."""
    terms = []
    for place, tangent in enumerate(tangents):
        if tangent is None or place in CONSTANT:
            continue
        if place not in linear:
            raise InvalidInputError(
                "forward-mode derivatives of filters do not pass through an operator that learns. "
                "Use backward mode: torch.autograd.grad, or torch.func.jacrev."
            )
        terms.append(function(*inputs[:place], tangent.contiguous(), *inputs[place + 1 :]))
    return sum(terms[1:], terms[0])


@torch_op
def block_product(
    indptr: Tensor, cols: Tensor, values: Tensor, order: Tensor, mass: Tensor,
    x: Tensor, alpha: float, beta: float, layout: str,
) -> Tensor:  # fmt: skip
    """``alpha P x + beta x`` for a signal ``(n, d, c)``, differentiable in x and in the values."""
    x = x.contiguous()
    y = empty_like(x)
    step(matrix_of(indptr, cols, values, order, layout), x, x, y, (alpha, beta, 0.0))
    return y


def _keep_matrix(ctx, inputs, output):
    *matrix, x, alpha, beta, layout = inputs
    ctx.alpha = alpha
    ctx.beta = beta
    ctx.layout = layout
    signal = None
    if ctx.needs_input_grad[2]:
        signal = x
    ctx.save_for_backward(*matrix, signal)


def _forward(inputs, tangents):
    indptr, cols, values, order, mass, x, alpha, beta, layout = inputs
    total = torch.zeros_like(x)
    if tangents[5] is not None:
        total = block_product(indptr, cols, values, order, mass, tangents[5], alpha, beta, layout)
    if tangents[2] is not None:
        change = tangents[2].contiguous()
        total = total + block_product(indptr, cols, change, order, mass, x, alpha, 0.0, layout)
    return total


def _backward(ctx, grad):
    *matrix, mass, x = ctx.saved_tensors
    weight = mass[:, None, None]
    grad_x = grad_values = None
    if ctx.needs_input_grad[2]:
        grad_values = outer(*matrix, mass, grad, x, ctx.alpha)
    if ctx.needs_input_grad[5]:
        scaled = grad / weight
        grad_x = weight * block_product(*matrix, mass, scaled, ctx.alpha, ctx.beta, ctx.layout)
    return None, None, grad_values, None, None, grad_x, None, None, None


@torch_op
def outer(
    indptr: Tensor, cols: Tensor, values: Tensor, order: Tensor, mass: Tensor,
    y: Tensor, x: Tensor, alpha: float,
) -> Tensor:  # fmt: skip
    """The gradient of ``<y, alpha P x>`` in the blocks of P, which is stored in rows:
    ``alpha y_i x_j^T``, summed over channels.

    ``values`` gives its shape alone.
    """
    out = torch.zeros_like(values)
    add_outer(BlockMatrix(indptr, cols, values, order), y.contiguous(), x.contiguous(), alpha, out)
    return out


def _keep_signals(ctx, inputs, output):
    *tensors, alpha = inputs
    ctx.alpha = alpha
    ctx.save_for_backward(*tensors)


def _outer_backward(ctx, grad):
    """Blocks change with maps, and keep P self-adjoint: so is the matrix with the blocks
    ``grad``."""
    indptr, cols, _, order, mass, y, x = ctx.saved_tensors
    blocks = grad.contiguous()

    def product(signal: Tensor) -> Tensor:
        layout = Layout.ROWS.value
        return block_product(indptr, cols, blocks, order, mass, signal, ctx.alpha, 0.0, layout)

    grad_y = grad_x = None
    if ctx.needs_input_grad[5]:
        grad_y = product(x)
    if ctx.needs_input_grad[6]:
        grad_x = product(y)
    return None, None, None, None, None, grad_y, grad_x, None


def _outer_forward(inputs, tangents):
    return sum_of_tangents(outer, inputs, (None, None, None, *tangents[3:]), linear=(5, 6))


outer = describe(
    outer,
    lambda *inputs: torch.empty_like(inputs[2]),
    _keep_signals,
    _outer_backward,
    _outer_forward,
    by_channel=False,
)
block_product = describe(
    block_product,
    lambda *inputs: inputs[5].new_empty(inputs[5].shape),
    _keep_matrix,
    _backward,
    _forward,
    by_channel=True,
)
