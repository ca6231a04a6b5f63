r"""The layer of a tangent bundle network: a bank of filters between all pairs of channels.

.. math:: Y = \sum_{k=0}^{K-1} h_k(\Delta)\, X H_k, \qquad X \in \mathbb{R}^{nd \times F}, \;
          H_k \in \mathbb{R}^{F \times G},

the linear part of the paper's matrix form. With powers of the shift operator,
:math:`h_k(\Delta) = (e^{T_s\Delta})^k`, it is a layer of a DD-TNN, sampled in space and time; with
filters in continuous time, one of a D-TNN, sampled in space. The operator is an argument of
``forward``: weights belong to no cloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..arrays import Array, positive, positive_integer
from ..errors import InvalidInputError
from ..filters import Filter, Heat, Method
from ..operators import SquareOperator
from .base import Configured, check_part, check_signal, generator, uniform_weights
from .constraints import Constraint
from .evaluation import filter_and_mix
from .filter_parameters import copy_learnable, list_learnable, require_registered, use_parameters

IDENTITY = Heat(0.0)
"""The first tap of a layer with heat flows, which needs no product."""

MAX_TAPS = 1000
"""Taps of a layer: each is a filter to evaluate."""


class BundleConv(Configured):
    r"""A bank of tangent bundle filters,
    ``(..., n, d, in_channels) -> (..., n, d, out_channels)``.

    By default the taps are heat flows. They start at k = 0, the identity, as in the paper's text;
    times are :math:`t_k = k T_s` with ``step`` :math:`T_s`. The recurrence runs on whichever side
    has fewer channels.

    Args:
        in_channels, out_channels: F and G, of the signals before and after.
        taps: K, the number of filters.
        step: sampling interval :math:`T_s`.
        filters: the taps instead, any filters of this library; the identity is among them only if
            listed. A field that is a ``torch.nn.Parameter``, such as the time of ``Heat``, or a
            ``torch.nn.Module``, such as the function of ``Spectral``, is learned with the weights.
        constraints: such as ``[Lowpass(0.01), NonAmplifying()]``, what the filters between channels
            are to be.
        method: how filters are evaluated; by default the operator's size decides.
        seed: of the initial weights ``(taps, in_channels, out_channels)``.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(300, seed=0).astype("float32")
    ... )
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
        constraints: Sequence[Constraint] = (),
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.in_channels = positive_integer(in_channels, "in_channels")
        self.out_channels = positive_integer(out_channels, "out_channels")
        self.taps = _count_taps(taps, filters)
        self.step = positive(step, "step")
        self.method = check_part(method, None, Method, "Chebyshev()")
        self.weight = uniform_weights(
            self.taps,
            self.in_channels,
            self.out_channels,
            fan_in=self.taps * self.in_channels,
            source=generator(seed),
        )
        self.constraints = check_constraints(constraints)
        if filters is None:
            filters = _heat_flows(self.taps, self.step)
        for constraint in self.constraints:
            filters = constraint.constrain_filters(filters)
        self.bank = _without_identity(filters)
        self._register(self.bank)

    def _register(self, filters: Sequence[Filter]) -> None:
        """Make the parameters and modules that filters hold members of this layer."""
        learnable = list_learnable(filters)
        parameters = [item for item in learnable if isinstance(item, torch.nn.Parameter)]
        functions = [item for item in learnable if isinstance(item, torch.nn.Module)]
        self.learned = torch.nn.ParameterList(parameters) if parameters else None
        self.functions = torch.nn.ModuleList(functions) if functions else None
        require_registered(filters, learnable)

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        filters = self._current_filters()
        x = check_signal(x, operator, self.in_channels, self.weight)
        weight = self._constrained_weight(filters)
        if len(filters) == 0:  # the identity is the only tap
            return x @ weight[0]
        return filter_and_mix(x, weight, filters, operator, self.method)

    def _constrained_weight(self, filters: Sequence[Filter]) -> torch.Tensor:
        """The weights as the constraints have them."""
        weight: torch.Tensor = self.weight
        if not self.constraints:
            return weight
        gains = [filter.gain_bound() for filter in filters]
        if len(filters) < self.taps:
            gains = [torch.ones(()), *gains]
        gains_of_taps = torch.stack([gain.to(weight) for gain in gains])
        for constraint in self.constraints:
            weight = constraint.constrain_weight(weight, gains_of_taps)
        return weight

    def responses(self, lam: Array) -> torch.Tensor:
        """The frequency responses of the filters between all pairs of channels at eigenvalues
        ``lam`` (m,), ``(m, in_channels, out_channels)``.

        >>> import tangentbundle as tb
        >>> tb.nn.BundleConv(2, 4, taps=3, step=0.1).responses([0.0, 1.0, 2.0]).shape
        torch.Size([3, 2, 4])
        """
        filters = self._current_filters()
        weight = self._constrained_weight(filters)
        nodes = torch.as_tensor(lam, dtype=torch.float64, device=weight.device)
        taps = [filter.evaluate(nodes) for filter in filters]
        if len(filters) < self.taps:
            taps = [torch.ones_like(nodes), *taps]
        return torch.einsum("km,kfg->mfg", torch.stack(taps), weight.double())

    def _current_filters(self) -> Sequence[Filter]:
        """The bank with the parameters that are registered now, which loading and
        ``functional_call`` replace; modules are registered themselves."""
        if self.learned is None:
            return self.bank
        return use_parameters(self.bank, iter(self.learned))

    def extra_repr(self) -> str:
        if len(self.bank) < self.taps:
            kind = f"step {self.step:g}"
        else:
            kind = ", ".join(type(filter).__name__ for filter in self.bank)
        return (
            f"{self.in_channels} -> {self.out_channels}, {self.taps} taps, {kind}, "
            f"{self.num_parameters} parameters"
        )


@dataclass(frozen=True, eq=False)
class ConvFactory:
    """Makes the filter banks of a network, which differ in their channels and weights only.

    All initial weights come from one generator, and each bank has its own copy of what the filters
    learn.
    """

    taps: int
    step: float
    filters: Sequence[Filter] | None
    constraints: Sequence[Constraint]
    method: Method | None
    source: torch.Generator

    def make(self, in_channels: int, out_channels: int) -> BundleConv:
        return BundleConv(
            in_channels,
            out_channels,
            taps=self.taps,
            step=self.step,
            filters=copy_learnable(self.filters),
            constraints=self.constraints,
            method=self.method,
            seed=self.source,
        )


def _count_taps(taps: int, filters: Sequence[Filter] | None) -> int:
    """The number of taps of a layer, that of its filters where they are listed."""
    if filters is None:
        count = positive_integer(taps, "taps")
    elif filters and all(isinstance(filter, Filter) for filter in filters):
        count = len(filters)
    else:
        raise InvalidInputError(
            f"filters must be a list such as [Heat(0.1), Tikhonov(2.0)], got {filters!r}."
        )
    if count > MAX_TAPS:
        raise InvalidInputError(
            f"a layer has at most {MAX_TAPS} taps, got {count}. Use a larger step instead."
        )
    return count


def _heat_flows(taps: int, step: float) -> list[Filter]:
    """Heat flows at times that are multiples of the step."""
    return [IDENTITY, *[Heat(tap * step) for tap in range(1, taps)]]


def _without_identity(filters: Sequence[Filter]) -> Sequence[Filter]:
    """The filters that are to be evaluated: the identity, where the layer has made it itself, is
    none of them."""
    if filters[0] is IDENTITY:
        return filters[1:]
    return filters


def check_constraints(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The constraints of a layer; refuses what is none."""
    is_list = isinstance(constraints, list | tuple)
    if not is_list or not all(isinstance(item, Constraint) for item in constraints):
        raise InvalidInputError(
            "constraints must be a list such as [Lowpass(0.01), NonAmplifying()], got "
            f"{constraints!r}."
        )
    return tuple(constraints)
