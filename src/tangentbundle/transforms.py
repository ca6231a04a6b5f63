"""Private names of torch, in one place: what its transforms are doing to a tensor, and what its
modules hold.

``torch.func`` has no public way to ask whether a tensor belongs to a transform under way, and
modules none to list what they hold. ``tests/test_transforms_of_torch.py`` says when one of these
names has vanished or changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad

from .errors import InvalidInputError

# What transforms are doing to a tensor.


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


# What a module holds.


@dataclass(frozen=True, eq=False)
class ModuleState:
    """All that a ``torch.nn.Module`` holds, entries that are None included."""

    attributes: dict[str, Any]
    parameters: dict[str, torch.nn.Parameter | None]
    buffers: dict[str, torch.Tensor | None]
    transient_buffers: set[str]
    """Names of the buffers that are not in ``state_dict()``."""

    modules: dict[str, torch.nn.Module | None]


OWN_FIELDS = frozenset(vars(torch.nn.Module()))
"""Attributes that torch itself gives to every module."""


def module_state(module: torch.nn.Module) -> ModuleState:
    """What a module holds itself, without what its submodules hold."""
    attributes = {name: value for name, value in vars(module).items() if name not in OWN_FIELDS}
    return ModuleState(
        attributes=attributes,
        parameters=module._parameters,
        buffers=module._buffers,
        transient_buffers=module._non_persistent_buffers_set,
        modules=module._modules,
    )


def build_module(kind: type, state: ModuleState) -> torch.nn.Module:
    """A module of a class with this state, without a call of its constructor."""
    module: Any = object.__new__(kind)
    if not isinstance(module, torch.nn.Module):
        raise InvalidInputError(f"{kind.__name__} is no module")
    torch.nn.Module.__init__(module)
    for name, value in state.attributes.items():
        if name in OWN_FIELDS:
            raise InvalidInputError(f"a module has no attribute {name!r} of its own")
        vars(module)[name] = value
    for name, parameter in state.parameters.items():
        module.register_parameter(name, parameter)
    for name, buffer in state.buffers.items():
        module.register_buffer(name, buffer, persistent=name not in state.transient_buffers)
    for name, child in state.modules.items():
        module.add_module(name, child)
    return module


def has_forward_hooks(module: torch.nn.Module) -> bool:
    """Whether functions are called before or after ``forward``."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether functions are called before or after ``forward`` or ``backward``."""
    backward_hooks = module._backward_hooks or module._backward_pre_hooks
    return has_forward_hooks(module) or bool(backward_hooks)


def count_changes(tensor: torch.Tensor) -> int:
    """How often the values of a tensor were changed in place, as automatic differentiation
    counts."""
    return tensor._version
