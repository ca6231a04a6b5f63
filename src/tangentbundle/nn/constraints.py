r"""What the filters of a layer must be: not amplifying, lowpass.

The layer :math:`Y = \sum_k h_k(\Delta) X H_k` has the filter
:math:`\sum_k (H_k)_{fg}\, \hat h_k(\lambda)` from channel f to channel g. The convergence of
networks (the paper's Theorem 1) assumes of each that it amplifies no frequency and that it is
lowpass. A constraint has it so from the first step of a training to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..arrays import positive
from ..filters import Filter, Heat


class Constraint:
    """What a layer does to its filters, or to its weights, before it uses them.

    Subclasses define one of both.
    """

    def constrain_filters(self, filters: Sequence[Filter]) -> Sequence[Filter]:
        """The filters that the layer has instead of those given."""
        return filters

    def constrain_weight(self, weight: torch.Tensor, gains: torch.Tensor) -> torch.Tensor:
        """The weights ``(taps, in, out)`` that the layer uses; ``gains`` (taps,) bound the
        filters."""
        return weight


@dataclass(frozen=True)
class NonAmplifying(Constraint):
    r"""No filter between two channels amplifies: :math:`|\hat h_{fg}(\lambda)| \le 1`.

    Weights whose sum :math:`s_{fg} = \sum_k |(H_k)_{fg}|\, g_k` with the bounds :math:`g_k` of the
    filters (``Filter.gain_bound``) exceeds one are divided by it. The bound is that of the impulse
    response, :math:`\int |\tilde h_{fg}(t)|\, dt \le 1`: heat flows and their means fulfil it with
    equality, and filters that are differences of others are smaller than they need be.

    >>> import torch, tangentbundle as tb
    >>> conv = tb.nn.BundleConv(1, 4, taps=3, step=0.1, constraints=[NonAmplifying()])
    >>> with torch.no_grad():
    ...     _ = conv.weight.mul_(100.0)
    >>> bool((conv.responses([0.0, 1.0, 10.0]).abs() <= 1 + 1e-6).all())
    True
    """

    def constrain_weight(self, weight: torch.Tensor, gains: torch.Tensor) -> torch.Tensor:
        total = torch.einsum("kfg,k->fg", weight.abs(), gains.to(weight))
        return weight / total.clamp_min(1.0)


@dataclass(frozen=True)
class Lowpass(Constraint):
    r"""All filters are followed by a heat flow of a fixed short time.

    .. math:: \hat h_k(\lambda)\, e^{-t\lambda} = O(\lambda^{-2})

    for bounded filters. Frequencies far above 1/t are lost: give a time that heat needs to cross
    what the field may be without.

    >>> import tangentbundle as tb
    >>> conv = tb.nn.BundleConv(1, 1, taps=2, step=0.1, constraints=[Lowpass(0.01)])
    >>> [filter.is_lowpass() for filter in conv.bank]
    [True, True]
    """

    time: float

    def __post_init__(self) -> None:
        positive(self.time, "time")

    def constrain_filters(self, filters: Sequence[Filter]) -> Sequence[Filter]:
        return [filter @ Heat(float(self.time)) for filter in filters]
