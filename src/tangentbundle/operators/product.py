"""One primitive for every device: ``alpha A x + beta x + gamma z`` with A symmetric block-sparse.

Registered as a torch custom operator, so that autograd, ``torch.compile`` and device dispatch see one
opaque, differentiable function. A is symmetric, hence the backward pass is the same product.
"""

from __future__ import annotations

import numpy as np
import torch

from ..parallel import run_ranges


def edge_blocks(cols: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The blocks ``(e, d, d)`` of a matrix in either storage."""
    if values.ndim == 3:
        return values
    c, s = values.unbind(1)
    sign = torch.where(cols < 0, -1.0, 1.0).to(values.dtype)
    return torch.stack([torch.stack([c, -sign * s], -1), torch.stack([s, sign * c], -1)], 1)


def edge_columns(cols: torch.Tensor) -> torch.Tensor:
    """Column of each edge, with the reflection marks taken off."""
    return torch.where(cols < 0, ~cols, cols)


def reference_product(
    indptr: torch.Tensor,
    cols: torch.Tensor,
    values: torch.Tensor,
    x: torch.Tensor,
    z: torch.Tensor,
    alpha: float,
    beta: float,
    gamma: float,
) -> torch.Tensor:
    """The readable twin of the compiled kernels: gather, multiply, scatter."""
    degrees = indptr.diff()
    rows = torch.repeat_interleave(torch.arange(len(degrees), device=x.device), degrees)
    messages = edge_blocks(cols, values) @ x[edge_columns(cols).long()]
    return (beta * x + gamma * z).index_add(0, rows, alpha * messages)


@torch.library.custom_op("tangentbundle::block_product", mutates_args=())
def block_product(
    indptr: torch.Tensor,
    cols: torch.Tensor,
    values: torch.Tensor,
    x: torch.Tensor,
    z: torch.Tensor,
    alpha: float,
    beta: float,
    gamma: float,
) -> torch.Tensor:
    """``alpha A x + beta x + gamma z`` for signals ``(n, d, c)``, differentiable in x and z."""
    return reference_product(indptr, cols, values, x, z, alpha, beta, gamma)


@block_product.register_kernel("cpu")
def _(indptr, cols, values, x, z, alpha, beta, gamma):
    from .cpu import block_rows, plane_rows  # compiled lazily: importing the library must be cheap

    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    kernel = plane_rows if values.ndim == 2 else block_rows
    real = values.numpy().dtype.type
    run_ranges(
        kernel,
        x.shape[0],
        indptr.numpy(),
        cols.numpy(),
        values.numpy(),
        np.ascontiguousarray(x.numpy()),
        np.ascontiguousarray(z.numpy()),
        y.numpy(),
        real(alpha),
        real(beta),
        real(gamma),
        grain=256,
    )
    return y


@block_product.register_fake
def _(indptr, cols, values, x, z, alpha, beta, gamma):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _keep_matrix(ctx, inputs, output):
    indptr, cols, values, _, _, ctx.alpha, ctx.beta, ctx.gamma = inputs
    ctx.save_for_backward(indptr, cols, values)


def _backward(ctx, grad):
    indptr, cols, values = ctx.saved_tensors
    grad = grad.contiguous()
    grad_x = block_product(indptr, cols, values, grad, grad, ctx.alpha, ctx.beta, 0.0)
    return None, None, None, grad_x, ctx.gamma * grad, None, None, None


block_product.register_autograd(_backward, setup_context=_keep_matrix)
