"""Parameters of filters: numbers are copied, tensors held by reference, so that filters follow an optimiser."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..arrays import Array, float_tensor, is_batched
from ..errors import InvalidInputError, NonFiniteError

Number = float | torch.Tensor
Numbers = tuple[float, ...] | torch.Tensor


def scalar(value: Array, name: str, *, minimum: str = "") -> Number:
    """One number, as a float or as the tensor given; ``minimum`` is ``"positive"`` or ``"non-negative"``."""
    tensor, given = _checked(value, name)
    if tensor.ndim != 0:
        raise InvalidInputError(f"{name} must be one number, got shape {tuple(tensor.shape)}.")
    if minimum and _readable(tensor) and (tensor < 0 or (minimum == "positive" and tensor == 0)):
        wanted = "positive" if minimum == "positive" else "at least 0 (heat does not run backwards)"
        raise InvalidInputError(f"{name} must be {wanted}, got {float(tensor.detach()):.6g}.")
    return tensor if given else float(tensor)


def vector(values: Array | Sequence[float], name: str) -> Numbers:
    """A non-empty list of numbers, as a tuple or as the tensor given."""
    tensor, given = _checked(values, name)
    if tensor.ndim != 1 or len(tensor) == 0:
        raise InvalidInputError(f"{name} must be a non-empty list of numbers, got shape {tuple(tensor.shape)}.")
    return tensor if given else tuple(tensor.tolist())


def _checked(value: Array, name: str) -> tuple[torch.Tensor, bool]:
    """A finite float tensor, and whether it is the caller's own."""
    tensor, _ = float_tensor(value, name)
    require_finite_parameter(tensor, name)
    return tensor, tensor is value


def require_finite_parameter(tensor: torch.Tensor, name: str) -> None:
    """Refuse NaN and infinity where values can be read."""
    if _readable(tensor) and not bool(torch.isfinite(tensor).all()):
        bad = ~torch.isfinite(tensor.detach())
        got = tensor.tolist() if bad.numel() <= 8 else f"{int(bad.sum())} of {bad.numel()} values NaN or infinite"
        raise NonFiniteError(f"{name} must be finite, got {got}.")


def _readable(tensor: torch.Tensor) -> bool:
    """Whether reading values costs nothing: not on a GPU, nor inside ``torch.vmap``."""
    return tensor.device.type == "cpu" and not is_batched(tensor)


def current_values(parameter: Number | Numbers) -> float | tuple[float, ...] | None:
    """The value of a parameter now, for the key of a cache; None for tensors that learn, or cannot be read cheaply."""
    if not isinstance(parameter, torch.Tensor):
        return parameter
    if parameter.requires_grad or not _readable(parameter):
        return None
    return tuple(parameter.reshape(-1).tolist())


def as_double(parameter: Number | Numbers) -> torch.Tensor:
    """A parameter as a float64 tensor; differentiable."""
    return torch.as_tensor(parameter, dtype=torch.float64)


def as_numpy(parameter: Number | Numbers) -> np.ndarray:
    """The value of a parameter now, as a float64 array."""
    return as_double(parameter).detach().cpu().numpy()
