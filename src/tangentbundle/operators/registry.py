"""Functions as torch operators: opaque to ``torch.compile``, differentiable, one for all devices.

``torch.library.custom_op`` would do the same, but its first call imports the whole compiler: a second and a half.
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


def differentiate(operator: Any, shape: Callable, keep: Callable, backward: Callable) -> None:
    """Tell torch an operator's output shape (as a function on fake tensors) and its derivative."""
    torch.library.register_fake(operator, shape, lib=LIBRARY)
    torch.library.register_autograd(operator, backward, setup_context=keep, lib=LIBRARY)
