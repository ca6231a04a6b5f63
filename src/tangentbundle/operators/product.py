r"""One primitive for every device: :math:`\alpha P x + \beta x + \gamma z` with P block-sparse.

P is self-adjoint in the mass inner product, :math:`P^T = M P M^{-1}`; hence its backward pass is the same product
between two scalings. Registered as a torch custom operator: autograd, ``torch.compile`` and device dispatch see one
opaque function.
"""

from __future__ import annotations

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


@torch.library.custom_op("tangentbundle::block_product", mutates_args=())
def block_product(
    indptr: torch.Tensor,
    cols: torch.Tensor,
    values: torch.Tensor,
    order: torch.Tensor,
    mass: torch.Tensor,
    x: torch.Tensor,
    z: torch.Tensor,
    alpha: float,
    beta: float,
    gamma: float,
) -> torch.Tensor:
    """``alpha P x + beta x + gamma z`` for signals ``(n, d, c)``, differentiable in x and z.

    Row r and column r of the matrix belong to row ``order[r]`` of the signals and of ``mass``. This body is the
    readable reference (gather, multiply, scatter); compiled kernels are registered for each device.
    """
    degrees = indptr.diff()
    rows = torch.repeat_interleave(order.long(), degrees)
    messages = edge_blocks(cols, values) @ x[order.long()[edge_columns(cols).long()]]
    return (beta * x + gamma * z).index_add(0, rows, alpha * messages)


reference_product = block_product._init_fn


@block_product.register_kernel("cpu")
def _(indptr, cols, values, order, mass, x, z, alpha, beta, gamma):
    from .cpu import block_rows, plane_rows  # imported when first needed: numba is slow to load

    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    kernel = plane_rows if values.ndim == 2 else block_rows
    real = values.numpy().dtype.type
    matrix = (indptr.numpy(), cols.numpy(), values.numpy(), order.numpy())
    signals = (x.contiguous().numpy(), z.contiguous().numpy(), y.numpy())
    scalars = (real(alpha), real(beta), real(gamma))
    run_ranges(kernel, x.shape[0], *matrix, *signals, *scalars, grain=256)
    return y


@block_product.register_fake
def _(indptr, cols, values, order, mass, x, z, alpha, beta, gamma):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _keep_matrix(ctx, inputs, output):
    *matrix, _, _, ctx.alpha, ctx.beta, ctx.gamma = inputs
    ctx.save_for_backward(*matrix)


def _backward(ctx, grad):
    *matrix, mass = ctx.saved_tensors
    weight = mass[:, None, None]
    scaled = (grad / weight).contiguous()
    grad_x = weight * block_product(*matrix, mass, scaled, scaled, ctx.alpha, ctx.beta, 0.0)
    return (None,) * 5 + (grad_x, ctx.gamma * grad, None, None, None)


block_product.register_autograd(_backward, setup_context=_keep_matrix)
