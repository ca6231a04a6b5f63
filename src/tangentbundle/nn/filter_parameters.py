"""What a layer learns in its filters: the parameters and modules that their fields hold.

A filter is a plain object, and may hold a ``torch.nn.Parameter``, such as the time of ``Heat``, or
a ``torch.nn.Module``, such as the function of ``Spectral``. A layer registers them, so that
optimisers find them and files hold them, and refuses filters with parameters out of its reach.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..errors import InvalidInputError
from ..filters import Filter, Spectral

Learnable = torch.nn.Parameter | torch.nn.Module


def replace_learnable(value: Any, replacement: Callable[[Any], Any]) -> Any:
    """A filter (or a field of one) with every ``Parameter`` and ``Module`` in its fields replaced,
    in one order."""
    if isinstance(value, Learnable):
        return replacement(value)
    if isinstance(value, Spectral) and value.tensors:
        raise InvalidInputError(
            f"a layer cannot learn the tensors of {value}, which its function holds. Use "
            "Spectral(module) with a torch.nn.Module, or write a dataclass derived from Filter "
            "with the parameter as a field."
        )
    if isinstance(value, (tuple, list)):
        return type(value)(replace_learnable(item, replacement) for item in value)
    if not isinstance(value, Filter):
        return value
    changed = copy.copy(value)
    for name, field in vars(value).items():
        vars(changed)[name] = replace_learnable(field, replacement)
    return changed


def copy_learnable(filters: Any) -> Any:
    """The filters with parameters and modules of their own; None stays None."""
    return replace_learnable(filters, copy.deepcopy)


def use_parameters(
    filters: Sequence[Filter], parameters: Iterator[torch.nn.Parameter]
) -> Sequence[Filter]:
    """The filters with these parameters in place of their own, in the order of
    ``list_learnable``."""

    def replacement(item: Learnable) -> Learnable:
        if isinstance(item, torch.nn.Parameter):
            return next(parameters)
        return item

    return replace_learnable(filters, replacement)


def list_learnable(filters: Sequence[Filter]) -> list[Learnable]:
    """The parameters and modules among the fields of filters."""
    learnable: list[Learnable] = []

    def collect(item: Learnable) -> Learnable:
        learnable.append(item)
        return item

    replace_learnable(filters, collect)
    return learnable


def require_registered(filters: Sequence[Filter], learnable: Sequence[Learnable]) -> None:
    """Refuse filters that depend on tensors with gradients other than those that a layer registers.

    Python functions may hold some. The graph of the response, as automatic differentiation records
    it, shows all of them.
    """
    registered: set[int] = set()
    for item in learnable:
        registered.update(id(parameter) for parameter in _parameters_in(item))
    for filter in filters:
        if _is_being_loaded(filter):
            continue
        sources = source_tensors(_response(filter))
        unregistered = [tensor for tensor in sources if id(tensor) not in registered]
        if unregistered:
            raise _unregistered_error(filter, unregistered)


def _parameters_in(item: Learnable) -> list[torch.nn.Parameter]:
    if isinstance(item, torch.nn.Module):
        return list(item.parameters())
    return [item]


def _tensor_parameters(filter: Filter) -> list[torch.Tensor]:
    return [value for value in filter.parameters() if isinstance(value, torch.Tensor)]


def _is_being_loaded(filter: Filter) -> bool:
    """Whether weights have no values yet, because the network is being read from a file."""
    if torch.get_default_device().type == "meta":
        return True
    return any(tensor.device.type == "meta" for tensor in _tensor_parameters(filter))


def _response(filter: Filter) -> torch.Tensor:
    """The response at two eigenvalues, with its graph of gradients."""
    tensors = _tensor_parameters(filter)
    device = tensors[0].device if tensors else torch.device("cpu")
    try:
        with torch.inference_mode(False), torch.enable_grad():
            eigenvalues = torch.tensor([0.0, 1.0], dtype=torch.float64, device=device)
            return filter.evaluate(eigenvalues)
    except RuntimeError as error:
        raise InvalidInputError(
            f"{filter!r:.80} cannot be evaluated at float64 eigenvalues ({error}). A "
            "torch.nn.Module is converted if it is given itself, as in Spectral(module)."
        ) from error


def source_tensors(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors with gradients that a tensor was computed from."""
    sources = []
    visited = set()
    waiting = [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if hasattr(node, "variable"):
            sources.append(node.variable)
        waiting.extend(parent for parent, _ in node.next_functions)
    return sources


def _unregistered_error(filter: Filter, tensors: Sequence[torch.Tensor]) -> InvalidInputError:
    if any(isinstance(tensor, torch.nn.Parameter) for tensor in tensors):
        return InvalidInputError(
            f"{filter!r:.80} depends on a torch.nn.Parameter that a layer cannot learn, "
            "because a Python function holds it. Give the torch.nn.Module itself, as in "
            "Spectral(module) or ImpulseResponse(module), or write a dataclass derived from "
            "Filter with the parameter as a field."
        )
    return InvalidInputError(
        f"{filter!r:.80} depends on a tensor with requires_grad=True that is no "
        "torch.nn.Parameter: net.parameters() would not list it, and it would not learn. "
        "Wrap it, as in Heat(torch.nn.Parameter(t)), or detach it, t.detach(), if it is to "
        "stay as it is."
    )
