"""Products of many small matrices, which the libraries behind ``torch.bmm`` are slow at, on CPUs and GPUs."""

from __future__ import annotations

import torch

from ..parallel import run_ranges
from .product import use_triton
from .registry import differentiate, torch_op, vectorise


@torch_op
def small_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``a @ b`` for ``(..., p, k)`` and ``(..., k, q)`` with the same leading axes; differentiable to any order.

    >>> small_product(torch.ones(4, 2, 3), torch.ones(4, 3, 2)).shape
    torch.Size([4, 2, 2])
    """
    out = a.new_empty((*a.shape[:-1], b.shape[-1]))
    flat = [t.reshape(-1, *t.shape[-2:]) for t in (a, b, out)]
    if use_triton(a.device):
        from .csr_cuda import small_products

        small_products(*flat)
    elif a.device.type == "cpu":
        from .cpu import small_rows

        run_ranges(small_rows, len(flat[0]), *(t.numpy() for t in flat))
    else:
        torch.matmul(a, b, out=out)
    return out


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad
    return small_product(grad, b.mT) if need_a else None, small_product(a.mT, grad) if need_b else None


differentiate(small_product, lambda a, b: a.new_empty((*a.shape[:-1], b.shape[-1])), _keep, _backward)
vectorise(small_product, by_channel=False)
