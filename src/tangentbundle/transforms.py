"""What torch's transforms are doing to a tensor: the one place with private names of torch.

``torch.func`` has no public way to ask whether a tensor belongs to a transform under way.
``tests/test_transforms_of_torch.py`` says when one of these names has vanished or changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad


def is_transforming() -> bool:
    """Whether a transform of ``torch.func``, such as ``vmap`` or ``grad``, is under way."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def is_batched(tensor: torch.Tensor) -> bool:
    """Whether a tensor stands for many inside ``torch.vmap``, where values cannot be looked at."""
    return torch._C._functorch.is_batchedtensor(tensor)


def has_tangent(tensor: torch.Tensor) -> bool:
    """Whether a tensor carries a forward-mode derivative."""
    if forward_ad._current_level < 0:
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def is_in_functional_transform(tensor: torch.Tensor) -> bool:
    """Whether a tensor belongs to a transform of ``torch.func`` that is under way."""
    functorch = torch._C._functorch
    # tensors of transforms that have ended stay wrapped, with a negative level
    return functorch.is_functorch_wrapped_tensor(tensor) and functorch.maybe_get_level(tensor) >= 0


def is_transformed(value: Any) -> bool:
    """Whether a value is a tensor that belongs to a transform under way, or carries a tangent."""
    if not isinstance(value, torch.Tensor):
        return False
    return is_in_functional_transform(value) or has_tangent(value)


def is_seen(tensor: torch.Tensor) -> bool:
    """Whether values can be looked at for little: on CPUs, but not in ``torch.compile``, ``vmap``
    and the like."""
    if torch.compiler.is_compiling() or is_transforming():
        return False
    return tensor.device.type == "cpu"


@contextlib.contextmanager
def outside_transforms() -> Iterator[None]:
    """Compute what depends on nothing that ``torch.func`` transforms, such as a transposed matrix
    to be cached.

    Within a transform all new tensors belong to it, and have no memory that NumPy or a sparse
    product could read.
    """
    if not is_transforming():
        yield
        return
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    with temporarily_clear_interpreter_stack():
        yield
