r"""The layer of a tangent bundle network: a bank of filters between all pairs of channels.

.. math:: Y = \sum_{k=0}^{K-1} e^{t_k \Delta} X H_k, \qquad X \in \mathbb{R}^{nd \times F}, \;
          H_k \in \mathbb{R}^{F \times G},

the linear part of the paper's matrix form. The operator is an argument of ``forward``: weights belong to no cloud.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..arrays import positive, whole
from ..errors import InvalidInputError
from ..filters import Chebyshev, Dense, Exact, Filter, Heat, Method, apply_bank, merge_bank
from ..operators import LinearOperator
from .base import Configured, checked, generator, part, uniform

DENSE_SIZE = 2_000
"""Up to this many rows (n d) of a bundle the filters' matrices are formed and kept."""


@dataclass(frozen=True)
class Learnable:
    """Diffusion times that are learned, one for each tap but the first; they start at multiples of ``start``."""

    start: float = 1.0

    def __post_init__(self) -> None:
        positive(self.start, "start")


_heats: dict[float, Heat] = {}


def _heat(t: float) -> Heat:
    """One filter object a time, so that all layers share what operators keep for it.

    (A plain dictionary: torch.compile looks through ``functools.lru_cache``.)
    """
    heat = _heats.get(t)
    if heat is None:
        if len(_heats) >= 1024:
            _heats.clear()
        heat = _heats[t] = Heat(t)
    return heat


def network_method(operator: LinearOperator) -> Method:
    """Matrices for small operators, Chebyshev otherwise."""
    largest = max(operator.sizes) * operator.dim
    padded = len(operator.sizes) * largest**2  # a joined operator's matrices all have the size of the largest
    return Dense() if largest <= DENSE_SIZE and padded <= 50 * DENSE_SIZE**2 else Chebyshev()


MAX_TAPS = 1000
"""Taps of a layer: each is a filter to evaluate."""


class BundleConv(Configured):
    r"""A bank of tangent bundle filters, ``(..., n, d, in) -> (..., n, d, out)``.

    Taps start at k = 0, the identity, as in the paper's text; times are :math:`t_k = k T_s` with ``step``
    :math:`T_s`, or learned ones. Weights ``(taps, in, out)`` are all it has. The recurrence runs on whichever side has
    fewer channels. ``method`` chooses how filters are evaluated; by default the operator's size does.

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
        step: float | Learnable = 1.0,
        *,
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = whole(in_channels, "in_channels"), whole(out_channels, "out_channels")
        self.taps = whole(taps, "taps")
        if self.taps > MAX_TAPS:
            raise InvalidInputError(f"a layer has at most {MAX_TAPS} taps, got {taps}. Use a larger step instead.")
        self.method = part(method, None, Method, "Chebyshev()")
        fan_in = self.taps * self.in_channels
        self.weight = uniform(self.taps, self.in_channels, self.out_channels, fan_in=fan_in, source=generator(seed))
        if isinstance(step, Learnable):
            self.step = None
            self.log_times = torch.nn.Parameter(torch.arange(1.0, self.taps, device="cpu").mul(step.start).log())
        else:
            self.step = positive(step, "step")

    @property
    def times(self) -> torch.Tensor:
        """Diffusion times of the taps, ``(taps,)``."""
        if self.step is None:
            return torch.cat([self.log_times.new_zeros(1), self.log_times.exp()])
        return torch.arange(self.taps) * self.step

    def filters(self) -> list[Filter]:
        """The heat flows of the taps but the first, which is the identity."""
        if self.step is None:
            return [Heat(t) for t in self.log_times.exp()]
        return [_heat(k * self.step) for k in range(1, self.taps)]

    def forward(self, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        x = checked(x, operator, self.in_channels, self.weight)
        if self.taps == 1:
            return x @ self.weight[0]
        filters, method = self.filters(), self.method or network_method(operator)
        if self.step is None and isinstance(method, Dense):
            method = Exact()  # matrices of times that change are not worth keeping, with or without gradients
        if self.in_channels <= self.out_channels:
            taps = torch.cat([x, *apply_bank(filters, operator, x, method)], dim=-1)
            return taps @ self.weight.flatten(0, 1)
        first, *others = (x @ self.weight.movedim(0, 1).flatten(1)).split(self.out_channels, dim=-1)
        return first + merge_bank(filters, operator, others, method)

    def extra_repr(self) -> str:
        times = "learned times" if self.step is None else f"step {self.step:g}"
        return f"{self.in_channels} -> {self.out_channels}, {self.taps} taps, {times}, {self.num_parameters} parameters"
