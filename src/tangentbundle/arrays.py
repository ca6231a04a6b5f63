"""One door for arrays: NumPy or torch comes in, the same kind goes out."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import torch

from .errors import DeviceError, DTypeError, InvalidInputError, NonFiniteError, ShapeError
from .transforms import is_in_functional_transform, is_seen

Array = Any
"""A torch tensor, a NumPy array, or what NumPy can read."""

T = TypeVar("T")

FLOATS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class ArrayKind:
    """Library, dtype and device of an input, so that the output can be of the same kind."""

    is_torch: bool
    dtype: torch.dtype
    device: torch.device

    @property
    def numpy_dtype(self) -> type:
        """float32 or float64."""
        return np.float32 if self.dtype == torch.float32 else np.float64

    def wrap(self, value: torch.Tensor | np.ndarray) -> Array:
        """Return ``value`` as an array of this kind's library, dtype and device."""
        tensor = torch.as_tensor(value)
        if not self.is_torch:
            return tensor.detach().to("cpu", self.dtype).numpy()
        return tensor.to(self.device, self.dtype)


def require_values(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Refuse tensors of the meta device, which have shapes but no numbers."""
    if tensor.device.type == "meta":
        raise DeviceError(
            f"{name} is on the meta device, which holds no numbers. Give a tensor on the CPU or a "
            "GPU, on the device of the other tensors."
        )
    return tensor


def outside_functional_transform(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Refuse tensors of ``torch.func``, whose numbers cannot be read while it is under way."""
    if is_in_functional_transform(tensor):
        raise InvalidInputError(
            f"{name} belongs to a transform of torch.func (grad, jvp, vmap), and its numbers are "
            "needed here, where no derivative is known. Build bundles and operators, and decompose "
            "fields, before the transform; products with operators, filters and networks have "
            "derivatives in the signal, and TangentBundle.moved has them in the points."
        )
    return tensor


def host(value: Any, name: str = "a tensor") -> np.ndarray:
    """A NumPy copy of a tensor, floats in float64; anything else as NumPy reads it."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    require_values(value, name)
    outside_functional_transform(value, name)
    if value.is_floating_point():
        value = value.double()
    return value.cpu().numpy()


def median(values: torch.Tensor) -> float:
    """The median of a tensor, of an even number of values the mean of the two in the middle."""
    return float(np.median(host(values)))


def float_tensor(value: Array, name: str) -> tuple[torch.Tensor, ArrayKind]:
    """Return ``value`` as a float32 or float64 tensor with a note of what it was.

    Integers and booleans become float64; other dtypes, ragged lists, text, masked and sparse arrays
    are refused.
    """
    is_torch = isinstance(value, torch.Tensor)
    if is_torch:
        tensor = value
        if tensor.layout != torch.strided:
            raise InvalidInputError(
                f"{name} must be a dense tensor, got {tensor.layout}; use {name}.to_dense()."
            )
    else:
        tensor = _from_numpy(value, name)
    if not tensor.is_floating_point() and not tensor.is_complex():
        tensor = tensor.to(torch.float64)
    if tensor.dtype not in FLOATS:
        raise DTypeError(
            f"{name} must be float32 or float64, got {tensor.dtype}; convert it first."
        )
    return tensor, ArrayKind(is_torch, tensor.dtype, tensor.device)


def half_precision(value: Array) -> torch.dtype | None:
    """The dtype of an array or tensor in float16 or bfloat16; None for others."""
    if isinstance(value, np.ndarray) and value.dtype == np.float16:
        return torch.float16
    if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16):
        return value.dtype
    return None


def outside_autocast(device: torch.device) -> contextlib.AbstractContextManager:
    """A context in which ``torch.autocast`` does not reduce the precision of products on a
    device."""
    if device.type in ("cpu", "cuda") and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()


def _from_numpy(value: Any, name: str) -> torch.Tensor:
    """The tensor in the memory of an array, or of a copy where torch cannot share it."""
    if np.ma.is_masked(value):
        raise NonFiniteError(f"{name} holds masked values; drop or fill those rows first.")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{name} must be an array of numbers, but cannot be read as one ({error})."
        ) from error
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8 or array.dtype == np.float16:
        raise DTypeError(
            f"{name} must hold real numbers in float32 or float64, got dtype {array.dtype}. "
            "Convert it first, for example with np.asarray(a, dtype=np.float64)."
        )
    dtype = np.dtype(np.float64)
    if array.dtype.kind == "f":
        dtype = array.dtype.newbyteorder("=")
    array = array.astype(dtype, copy=False)
    has_odd_strides = any(stride < 0 or stride % array.itemsize for stride in array.strides)
    if has_odd_strides or not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array)


def finite(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Refuse NaN and infinity, saying where the first one is."""
    require_values(tensor, name)
    if tensor.device.type == "cpu":
        outside_functional_transform(tensor, name)
    return _refuse_nonfinite(tensor, name)


def _refuse_nonfinite(tensor: torch.Tensor, name: str) -> torch.Tensor:
    if tensor.numel() and not _surely_finite(tensor):
        bad = ~torch.isfinite(tensor)
        if bool(bad.any()):
            raise NonFiniteError(
                f"{name} must be finite, but {int(bad.sum())} of {tensor.numel()} values are NaN "
                f"or infinite (first at index {tuple(torch.nonzero(bad)[0].tolist())}). Drop or "
                "fill those rows first."
            )
    return tensor


def _surely_finite(tensor: torch.Tensor) -> bool:
    """One pass; false for NaN and infinity, and for sums that are too large."""
    if tensor.device.type != "cpu":
        return bool(torch.isfinite(tensor.sum()))
    # not by torch, whose threads would go on waiting for work where the product's threads are to
    # run next
    numbers = tensor.detach().reshape(-1).numpy()
    return bool(np.isfinite(np.vdot(numbers, numbers)))


def finite_where_seen(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Refuse NaN and infinity where they can be looked at for little."""
    if not is_seen(tensor):
        return tensor
    return _refuse_nonfinite(tensor, name)


def points_tensor(points: Array, name: str) -> tuple[torch.Tensor, ArrayKind]:
    """A cloud of points ``(n, D)``, checked, where it is."""
    tensor, kind = float_tensor(points, name)
    if tensor.ndim != 2 or tensor.shape[1] < 1:
        raise ShapeError(
            f"{name} must have shape (n, D), one point a row, got {tuple(tensor.shape)}."
        )
    outside_functional_transform(tensor, name)
    return finite(tensor.detach(), name), kind


def points_array(points: Array, name: str = "points") -> tuple[np.ndarray, ArrayKind]:
    """Validate a cloud of points and return it as a contiguous ``(n, D)`` float64 array."""
    tensor, kind = points_tensor(points, name)
    array = tensor.cpu().double().contiguous().numpy()
    if array.size and np.abs(array).max() > 1e150:
        raise InvalidInputError(
            f"{name} holds values above 1e150, whose squared distances overflow. Rescale the cloud."
        )
    return array, kind


def positive(value: Any, name: str) -> float:
    """A positive finite number from a Python, NumPy or torch scalar; all else is refused."""
    number = _scalar(value)
    if number is None or not 0.0 < number < np.inf:
        raise InvalidInputError(f"{name} must be a positive number, got {value!r}.")
    return number


def nonnegative(value: Any, name: str) -> float:
    """A finite number of at least zero from a Python, NumPy or torch scalar; all else is
    refused."""
    number = _scalar(value)
    if number is None or not 0.0 <= number < np.inf:
        raise InvalidInputError(f"{name} must be a number of at least 0, got {value!r}.")
    return number


def _scalar(value: Any) -> float | None:
    """A Python, NumPy or torch scalar as a number; None for all else, booleans included."""
    if isinstance(value, (np.ndarray, torch.Tensor)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    return float(value)


def positive_integer(value: Any, name: str) -> int:
    """An integer of at least one; all else, booleans included, is refused."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InvalidInputError(f"{name} must be a positive integer, got {value!r}.")
    return int(value)
