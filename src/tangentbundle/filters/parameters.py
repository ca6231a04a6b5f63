r"""The parameters of filters: numbers are copied, tensors held by reference, so that filters follow
an optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch

from ..arrays import Array, float_tensor
from ..errors import InvalidInputError, NonFiniteError
from ..transforms import is_batched, is_transformed

Class = TypeVar("Class")
Number = float | torch.Tensor
Numbers = tuple[float, ...] | torch.Tensor


def scalar(value: Array, name: str, bound: str = "") -> Number:
    """One number, as a float or as the tensor given; ``bound`` may be "positive" or "at least
    0"."""
    if isinstance(value, float) and math.isfinite(value):
        _require_bound(value, name, bound)
        return float(value)
    tensor = _checked(value, name)
    if tensor.ndim != 0:
        raise InvalidInputError(f"{name} must be one number, got shape {tuple(tensor.shape)}.")
    learns = tensor.requires_grad  # and acts by its absolute value: see ``half_line``
    if not learns and _is_readable(tensor):
        _require_bound(float(tensor), name, bound)
    if tensor is value:
        return tensor
    return float(tensor)


def _require_bound(number: float, name: str, bound: str) -> None:
    """Refuse a number that is not "positive", or not "at least 0"."""
    if (bound == "positive" and not number > 0) or (bound == "at least 0" and not number >= 0):
        raise InvalidInputError(f"{name} must be {bound}, got {number:.6g}.")


nonnegative_scalar = partial(scalar, bound="at least 0")
positive_scalar = partial(scalar, bound="positive")


def vector(values: Array | Sequence[float], name: str) -> Numbers:
    """A non-empty list of numbers, as a tuple or as the tensor given."""
    tensor = _checked(values, name)
    if tensor.ndim != 1 or len(tensor) == 0:
        raise InvalidInputError(
            f"{name} must be a non-empty list of numbers, got shape {tuple(tensor.shape)}."
        )
    if tensor is values:
        return tensor
    return tuple(tensor.tolist())


def _checked(value: Array, name: str) -> torch.Tensor:
    """A float tensor, finite where its values can be read."""
    tensor, _ = float_tensor(value, name)
    if _is_readable(tensor) and not bool(torch.isfinite(tensor).all()):
        bad = int((~torch.isfinite(tensor)).sum())
        raise NonFiniteError(
            f"{name} must be finite, got {tensor.detach()} ({bad} of {tensor.numel()} values)."
        )
    return tensor


def _is_readable(tensor: torch.Tensor) -> bool:
    """Whether reading values costs nothing: not on a GPU, nor inside ``torch.vmap``."""
    return tensor.device.type == "cpu" and not is_batched(tensor)


def half_line(*names: str) -> Callable[[type[Class]], type[Class]]:
    r"""A class whose parameters of these names act by their absolute values where they are tensors.

    An optimiser moves a tensor freely along the line; the filter, and ``filter.name``, have
    :math:`|t|`. So times stay on the half line whatever the optimiser and its steps, and no
    gradient vanishes at a bound: on the other side of zero it has the other sign.
    ``vars(filter)[name]`` and ``filter.parameters()`` are the tensors as they were given.

    >>> import torch, tangentbundle as tb
    >>> t = torch.nn.Parameter(torch.tensor(0.25))
    >>> heat = tb.Heat(t)
    >>> with torch.no_grad():
    ...     t -= 1.0  # too large a step of an optimiser
    >>> t.item(), heat.t.item()
    (-0.75, 0.75)
    """

    def decorate(cls: type[Class]) -> type[Class]:
        for name in names:
            setattr(cls, name, _half_line_property(name))
        return cls

    return decorate


def _half_line_property(name: str) -> property:
    def read(instance: Any) -> Number:
        value = vars(instance)[name]
        if isinstance(value, torch.Tensor):
            return torch.where(value < 0, -value, value)
        return value

    def write(instance: Any, value: Number) -> None:
        vars(instance)[name] = value

    return property(read, write)


def current_values(parameter: Number | Numbers) -> float | tuple[float, ...] | None:
    """The value of a parameter now, for the key of a cache; None for tensors that learn or cannot
    be read cheaply."""
    if not isinstance(parameter, torch.Tensor):
        return parameter
    if parameter.requires_grad or is_transformed(parameter) or not _is_readable(parameter):
        return None
    return tuple(parameter.reshape(-1).tolist())


def as_double(parameter: Number | Numbers) -> torch.Tensor:
    """A parameter as a float64 tensor; differentiable."""
    return torch.as_tensor(parameter, dtype=torch.float64)
