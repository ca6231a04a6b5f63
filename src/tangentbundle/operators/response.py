"""What operators know of a filter: its response, its parameters and its impulses."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch


class Impulses(NamedTuple):
    """A sum of point impulses: ``sum_k weights_k delta(t - times_k)``; tensors ``(k,)``."""

    times: torch.Tensor
    weights: torch.Tensor


class Response(Protocol):
    """A function of the eigenvalues of minus the operator. ``filters.Filter`` implements it."""

    def evaluate(self, lam: torch.Tensor) -> torch.Tensor:
        """The response at a float64 tensor of eigenvalues of minus the operator."""
        ...

    def parameters(self) -> list[torch.Tensor]:
        """The tensors that the response depends on."""
        ...

    def signature(self) -> tuple | None:
        """All numbers that determine the response, or None if they cannot be listed."""
        ...

    def impulses(self) -> Impulses | None:
        """The impulse response, where it is a sum of point impulses; otherwise None."""
        ...
