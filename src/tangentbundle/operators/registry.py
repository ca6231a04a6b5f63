"""Functions as torch operators: opaque to ``torch.compile``, differentiable, one for all devices.

``torch.library.custom_op`` would do the same, but its first call imports the complete compiler: a second and a half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

LIBRARY = torch.library.Library("tangentbundle", "DEF")


def torch_op(function: Callable[..., Any]) -> Any:
    """Register an annotated function of tensors and numbers; returns ``torch.ops.tangentbundle.<name>``."""
    name = function.__name__
    LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()))
    LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    return getattr(torch.ops.tangentbundle, name).default


def describe(operator: Any, shape: Callable, keep: Callable, backward: Callable, *, by_channel: bool) -> None:
    """Tell torch an operator's output shape (as a function on fake tensors), its derivative, and how it is vectorised.

    In ``torch.vmap`` replicas of the signal, which follows the five tensors of the matrix, become channels where the
    operator treats these alike. Other batches (of coefficients, or of an operator that sums over channels) are taken
    one by one.
    """
    signal = 5

    def rule(info, in_dims, *args):
        batched = [i for i, dim in enumerate(in_dims) if dim is not None]
        if by_channel and batched == [signal]:
            x = args[signal].movedim(in_dims[signal], -2)
            y = operator(*args[:signal], x.flatten(-2), *args[signal + 1 :])
            return y.unflatten(-1, x.shape[-2:]).movedim(-2, 0), 0
        parts = [
            operator(*(a.select(dim, r) if dim is not None else a for a, dim in zip(args, in_dims, strict=True)))
            for r in range(info.batch_size)
        ]
        return torch.stack(parts), 0

    torch.library.register_fake(operator, shape, lib=LIBRARY)
    torch.library.register_autograd(operator, backward, setup_context=keep, lib=LIBRARY)
    torch.library.register_vmap(operator, rule, lib=LIBRARY)
