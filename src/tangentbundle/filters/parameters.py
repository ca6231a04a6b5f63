"""Parameters of filters: numbers are copied, tensors held by reference, so that filters follow an optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from ..arrays import Array, float_tensor, is_batched
from ..errors import InvalidInputError, NonFiniteError

Number = float | torch.Tensor
Numbers = tuple[float, ...] | torch.Tensor


def scalar(value: Array, name: str, bound: str = "") -> Number:
    """One number, as a float or as the tensor given; ``bound`` may be "positive" or "at least 0"."""
    tensor = _checked(value, name)
    if tensor.ndim != 0:
        raise InvalidInputError(f"{name} must be one number, got shape {tuple(tensor.shape)}.")
    if bound and _is_readable(tensor) and not (tensor > 0 if bound == "positive" else tensor >= 0):
        raise InvalidInputError(f"{name} must be {bound}, got {float(tensor):.6g}.")
    return tensor if tensor is value else float(tensor)


nonnegative_scalar = partial(scalar, bound="at least 0")
positive_scalar = partial(scalar, bound="positive")


def vector(values: Array | Sequence[float], name: str) -> Numbers:
    """A non-empty list of numbers, as a tuple or as the tensor given."""
    tensor = _checked(values, name)
    if tensor.ndim != 1 or len(tensor) == 0:
        raise InvalidInputError(f"{name} must be a non-empty list of numbers, got shape {tuple(tensor.shape)}.")
    return tensor if tensor is values else tuple(tensor.tolist())


def _checked(value: Array, name: str) -> torch.Tensor:
    """A float tensor, finite where its values can be read."""
    tensor, _ = float_tensor(value, name)
    if _is_readable(tensor) and not bool(torch.isfinite(tensor).all()):
        bad = int((~torch.isfinite(tensor)).sum())
        raise NonFiniteError(f"{name} must be finite, got {tensor.detach()} ({bad} of {tensor.numel()} values).")
    return tensor


def _is_readable(parameter: Number) -> bool:
    """Whether reading values costs nothing: not on a GPU, nor inside ``torch.vmap``."""
    return not isinstance(parameter, torch.Tensor) or (parameter.device.type == "cpu" and not is_batched(parameter))


def current_values(parameter: Number | Numbers) -> float | tuple[float, ...] | None:
    """The value of a parameter now, for the key of a cache; None for tensors that learn or cannot be read cheaply."""
    if not isinstance(parameter, torch.Tensor):
        return parameter
    if parameter.requires_grad or not _is_readable(parameter):
        return None
    return tuple(parameter.reshape(-1).tolist())


def as_double(parameter: Number | Numbers) -> torch.Tensor:
    """A parameter as a float64 tensor; differentiable."""
    return torch.as_tensor(parameter, dtype=torch.float64)
