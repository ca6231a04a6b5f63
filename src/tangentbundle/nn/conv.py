r"""The layer of a tangent bundle network: a bank of filters between all pairs of channels.

.. math:: Y = \sum_{k=0}^{K-1} h_k(\Delta)\, X H_k, \qquad X \in \mathbb{R}^{nd \times F}, \;
          H_k \in \mathbb{R}^{F \times G},

the linear part of the paper's matrix form. With powers of the shift operator, :math:`h_k(\Delta) = (e^{T_s\Delta})^k`,
it is a layer of a DD-TNN, sampled in space and time; with filters in continuous time, one of a D-TNN, sampled in space.
The operator is an argument of ``forward``: weights belong to no cloud.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..arrays import positive, positive_integer
from ..errors import InvalidInputError
from ..filters import Chebyshev, Dense, Filter, Heat, Method, Spectral, apply_bank, merge_bank
from ..operators import LinearOperator
from .base import Configured, checked, generator, part, uniform

DENSE_SIZE = 2_000
"""Up to this many rows (n d) of a bundle the filters' matrices are computed and cached."""


def network_method(operator: LinearOperator) -> Method:
    """Matrices for small operators, Chebyshev otherwise."""
    largest = max(operator.sizes) * operator.dim
    padded = len(operator.sizes) * largest**2  # a joined operator's matrices all have the size of the largest
    return Dense() if largest <= DENSE_SIZE and padded <= 50 * DENSE_SIZE**2 else Chebyshev()


MAX_TAPS = 1000
"""Taps of a layer: each is a filter to evaluate."""


class BundleConv(Configured):
    r"""A bank of tangent bundle filters, ``(..., n, d, in) -> (..., n, d, out)``.

    By default the taps are heat flows. They start at k = 0, the identity, as in the paper's text; times are :math:`t_k
    = k T_s` with ``step`` :math:`T_s`. The recurrence runs on whichever side has fewer channels.

    Args:
        filters: the taps instead, any filters of this library; the identity is among them only if listed. A field that
            is a ``torch.nn.Parameter``, such as the time of ``Heat``, is learned with the weights.
        method: how filters are evaluated; by default the operator's size decides.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(tb.manifolds.Sphere(2).sample(300, seed=0).astype("float32"))
    >>> conv = tb.nn.BundleConv(1, 8, taps=3, step=0.1)
    >>> conv(torch.randn(5, 300, 2, 1), bundle.laplacian()).shape, conv.num_parameters
    (torch.Size([5, 300, 2, 8]), 24)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        taps: int = 2,
        step: float = 1.0,
        *,
        filters: Sequence[Filter] | None = None,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.in_channels = positive_integer(in_channels, "in_channels")
        self.out_channels = positive_integer(out_channels, "out_channels")
        if filters is not None and not (filters and all(isinstance(f, Filter) for f in filters)):
            raise InvalidInputError(f"filters must be a list such as [Heat(0.1), Tikhonov(2.0)], got {filters!r}.")
        self.taps = positive_integer(taps, "taps") if filters is None else len(filters)
        if self.taps > MAX_TAPS:
            raise InvalidInputError(f"a layer has at most {MAX_TAPS} taps, got {taps}. Use a larger step instead.")
        self.method, self.step = part(method, None, Method, "Chebyshev()"), positive(step, "step")
        shape, source = (self.taps, self.in_channels, self.out_channels), generator(seed)
        self.weight = uniform(*shape, fan_in=self.taps * self.in_channels, source=source)
        heats = [Heat(k * self.step) for k in range(1, self.taps)]  # after the identity
        self.bank: Sequence[Filter] = heats if filters is None else filters
        learned: list[torch.nn.Parameter] = []
        with_parameters(self.bank, learned.append)
        self.learned = torch.nn.ParameterList(learned) if learned else None

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        x, weight = checked(x, operator, self.in_channels, self.weight), self.weight
        if not self.bank:
            return x @ weight[0]
        learned = iter(self.learned or ())
        filters = with_parameters(self.bank, lambda _: next(learned)) if self.learned else self.bank
        method = self.method or network_method(operator)
        identity = self.taps - len(filters)  # one where the taps are heat flows
        if self.in_channels <= self.out_channels:
            taps = torch.cat([x][:identity] + apply_bank(filters, operator, x, method), dim=-1)
            return taps @ weight.flatten(0, 1)
        mixed = (x @ weight.movedim(0, 1).flatten(1)).split(self.out_channels, dim=-1)
        return sum(mixed[:identity], merge_bank(filters, operator, mixed[identity:], method))

    def extra_repr(self) -> str:
        kind = f"step {self.step:g}" if len(self.bank) < self.taps else ", ".join(type(f).__name__ for f in self.bank)
        return f"{self.in_channels} -> {self.out_channels}, {self.taps} taps, {kind}, {self.num_parameters} parameters"


def with_parameters(value: Any, replace: Callable[[torch.nn.Parameter], Any]) -> Any:
    """A filter (or a field of one) with every ``torch.nn.Parameter`` in its fields replaced, always in one order."""
    if isinstance(value, torch.nn.Parameter):
        return replace(value)
    if isinstance(value, Spectral) and value.tensors:
        raise InvalidInputError(
            f"a layer cannot learn the tensors of {value}, which its function holds. Write a dataclass derived from "
            "Filter with the parameter as a field."
        )
    if isinstance(value, (tuple, list)):
        return type(value)(with_parameters(item, replace) for item in value)
    if not isinstance(value, Filter):
        return value
    changed = copy.copy(value)
    vars(changed).update({name: with_parameters(field, replace) for name, field in vars(value).items()})
    return changed
