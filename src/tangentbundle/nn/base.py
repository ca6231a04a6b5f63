"""The base of all modules of networks, the checks of what they are given, and initial weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from math import prod
from numbers import Integral
from typing import Any, TypeVar

import torch

from ..arguments import record_arguments
from ..arrays import half_precision, nonnegative, positive_integer
from ..errors import DeviceError, DTypeError, InvalidInputError, ShapeError
from ..memory import require_memory
from ..operators import SquareOperator

Part = TypeVar("Part")


class Configured(torch.nn.Module):
    """A module that remembers the arguments of its constructor, so that it can be saved as weights
    and JSON."""

    arguments: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        record_arguments(cls, "arguments")

    @property
    def num_parameters(self) -> int:
        """Numbers that training changes."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def extra_repr(self) -> str:
        if self.num_parameters == 0:
            return ""
        return f"{self.num_parameters} parameters"


# Signals and weights.


def check_signal(
    x: Any, operator: SquareOperator, channels: int, weight: torch.Tensor
) -> torch.Tensor:
    """A signal ``(..., n, d, channels)`` that fits the operator and the weights; named errors
    otherwise."""
    if not isinstance(operator, SquareOperator):
        raise InvalidInputError(
            f"networks act through an operator such as bundle.laplacian(), got {type(operator)}."
        )
    require_full_precision(weight)
    tensor, _ = operator.check(x)
    if tensor.shape[-1] != channels:
        raise ShapeError(
            f"this layer takes {channels} channels, signal (..., n, d, {channels}), got "
            f"{tuple(tensor.shape)}."
        )
    if tensor.dtype != weight.dtype:
        raise DTypeError(
            f"the network is {weight.dtype} but the signal {tensor.dtype}. Convert one: "
            "net.to(signal.dtype), or the signal and operator.to(dtype=...)."
        )
    if tensor.device != weight.device:
        raise DeviceError(
            f"the network is on {weight.device} but the signal on {tensor.device}. Move one: "
            "net.to(signal.device), or the signal and operator.to(device)."
        )
    return tensor


def require_full_precision(weight: torch.Tensor) -> None:
    """Refuse weights in float16 or bfloat16."""
    if half_precision(weight) is not None:
        raise DTypeError(
            f"the network is {weight.dtype}, and weights must be float32 or float64: half "
            "precision would lose the steps of training. Convert it, net.float(), and compute in "
            f"half precision with torch.autocast({weight.device.type!r}, {weight.dtype})."
        )


# Arguments of constructors.


def check_channels(channels: Iterable[int], minimum: int) -> list[int]:
    """The numbers of channels of a network, input first, at least ``minimum`` of them."""
    if isinstance(channels, torch.Tensor):
        raise InvalidInputError(
            f"channels must list at least {minimum} widths, input first, such as [1, 8, 1], got a "
            f"tensor of shape {tuple(channels.shape)}. Of a tensor of widths give "
            "channels.tolist(). A signal is given to a network that is built: net(x, operator)."
        )
    values = listed_channels(channels)
    if len(values) < minimum:
        raise InvalidInputError(
            f"channels must list at least {minimum} widths, input first, such as [1, 8, 1], got "
            f"{channels!r}."
        )
    return [positive_integer(width, "every width in channels") for width in values]


def listed_channels(channels: Any) -> list[Any]:
    """The members of any iterable; none for text and for what cannot be iterated over."""
    if isinstance(channels, str) or not hasattr(channels, "__iter__"):
        return []
    return list(channels)


def check_part(value: Part | None, default: Part, base: type, example: str) -> Part:
    """A part of a network, or its default; a function or a class in its place is refused."""
    if value is None:
        return default
    if not isinstance(value, base):
        raise InvalidInputError(
            f"a network takes {base.__name__} objects such as {example}, got {value!r}."
        )
    return value


def check_dropout(probability: float) -> float:
    """A probability of dropout, in [0, 1)."""
    number = nonnegative(probability, "dropout")
    if number >= 1.0:
        raise InvalidInputError(f"dropout must lie in [0, 1), got {probability!r}.")
    return number


# Initial weights.


def generator(seed: int | torch.Generator) -> torch.Generator:
    """A generator for initial weights: the one given, or a new one from the seed."""
    if isinstance(seed, torch.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise InvalidInputError(f"seed must be an integer or a torch.Generator, got {seed!r}.")
    return torch.Generator().manual_seed(int(seed))


def linear_layer(in_channels: int, out_channels: int, source: torch.Generator) -> torch.nn.Linear:
    """A linear layer with torch's initial weights, which leaves the global generator alone."""
    with warnings.catch_warnings():
        # rotations of a line take no numbers, and their layer has no outputs
        warnings.filterwarnings("ignore", "Initializing zero-element")
        layer = torch.nn.utils.skip_init(
            torch.nn.Linear, in_channels, out_channels, device=torch.get_default_device()
        )
    bound = max(in_channels, 1) ** -0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=source)
    return layer


def uniform_weights(*shape: int, fan_in: int, source: torch.Generator) -> torch.nn.Parameter:
    r"""Weights from the uniform law on :math:`\pm 1/\sqrt{\text{fan in}}`, torch's own for linear
    layers."""
    if torch.get_default_device().type == "meta":
        # only shapes are wanted, and arithmetic there would import sympy, which takes seconds
        return torch.nn.Parameter(torch.empty(shape))
    require_memory(16.0 * prod(shape), f"weights of shape {shape}", "Use fewer channels.")
    numbers = 2 * torch.rand(shape, generator=source) - 1
    return torch.nn.Parameter(numbers / max(fan_in, 1) ** 0.5)
