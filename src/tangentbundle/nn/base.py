"""What every part of a network shares: it knows the arguments it was made with, and counts its parameters."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Self

import torch

from ..errors import DTypeError, ShapeError
from ..operators import LinearOperator


class Configured(torch.nn.Module):
    """A module that remembers the arguments of its constructor, so that it can be saved as weights and JSON."""

    arguments: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" not in cls.__dict__:
            return
        construct = cls.__init__
        signature = inspect.signature(construct)

        @functools.wraps(construct)
        def remember(self, *args, **kwargs):
            if type(self) is cls:
                bound = signature.bind(self, *args, **kwargs)
                bound.apply_defaults()
                given = dict(list(bound.arguments.items())[1:])
                object.__setattr__(self, "arguments", given)
            construct(self, *args, **kwargs)

        cls.__init__ = remember  # type: ignore[method-assign]

    def sized(self, channels: int) -> Self:
        """This part for a layer of so many channels: itself, unless it has parameters of its own."""
        return self

    @property
    def num_parameters(self) -> int:
        """Numbers that training changes."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def extra_repr(self) -> str:
        return f"{self.num_parameters} parameters" if self.num_parameters else ""


def checked(x: Any, operator: LinearOperator, channels: int, dtype: torch.dtype) -> torch.Tensor:
    """A signal ``(..., n, d, channels)`` that fits the operator and the weights; named errors otherwise."""
    tensor, _ = operator.check(x)
    if tensor.shape[-1] != channels:
        raise ShapeError(
            f"this layer takes {channels} channels, signal (..., n, d, {channels}), got {tuple(tensor.shape)}."
        )
    if tensor.dtype != dtype:
        raise DTypeError(
            f"the network is {dtype} but the signal {tensor.dtype}. Convert one: net.to(signal.dtype), or the signal "
            "and operator.to(dtype=...)."
        )
    return tensor


def generator(seed: int | torch.Generator) -> torch.Generator:
    """A generator for initial weights: the one given, or a new one from the seed."""
    return seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(int(seed))


def uniform(*shape: int, fan_in: int, source: torch.Generator) -> torch.nn.Parameter:
    r"""Weights from the uniform law on :math:`\pm 1/\sqrt{\text{fan in}}`, torch's own for linear layers."""
    return torch.nn.Parameter((2 * torch.rand(shape, generator=source) - 1) / max(fan_in, 1) ** 0.5)
