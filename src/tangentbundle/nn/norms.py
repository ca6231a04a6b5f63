r"""Normalisations of fields, which divide by lengths: they depend on no frames.

There is no shift, since a curved space has no constant field to add, and each channel has a scale
to learn.
"""

from __future__ import annotations

import copy
from abc import abstractmethod

import torch

from ..arrays import positive, positive_integer
from ..operators import SquareOperator
from .base import Configured, check_signal
from .pooling import cloud_means, cloud_of_points


class FieldNorm(Configured):
    """A normalisation of signals ``(..., n, d, c)``.

    A block has its own copy, ``norm.sized(channels)``.
    """

    def sized(self, channels: int) -> FieldNorm:
        """This normalisation for so many channels, with weights of its own: by default a copy."""
        return copy.deepcopy(self)

    @abstractmethod
    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor: ...


class NoNorm(FieldNorm):
    """No normalisation: the signal as it is.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.NoNorm()(torch.ones(4, 2, 3), None).sum()
    tensor(24.)
    """

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        return x


class _MeanSquareNorm(FieldNorm):
    """Signals divided by the root of a mean square.

    Args:
        channels: of the signals.
        eps: added to mean squares: fields far below its root stay small.
    """

    def __init__(self, channels: int = 1, eps: float = 1e-6) -> None:
        super().__init__()
        self.channels = positive_integer(channels, "channels")
        self.eps = positive(eps, "eps")
        self.scale = torch.nn.Parameter(torch.ones(self.channels))

    def sized(self, channels: int) -> FieldNorm:
        return type(self)(channels, self.eps)

    @abstractmethod
    def mean_square(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        """Mean squares of components, which broadcast against x."""

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        x = check_signal(x, operator, self.channels, self.scale)
        return x * (self.mean_square(x, operator) + self.eps).rsqrt() * self.scale


class PointNorm(_MeanSquareNorm):
    r"""Layer normalisation of vectors: each point by the lengths of its channels.

    .. math:: f_{ic} \mapsto \frac{g_c\, f_{ic}}{\sqrt{\frac{1}{C d} \sum_{c'} |f_{ic'}|^2 + \eta}}

    It removes what all channels of a point have in common: their size. Where fields are strong and
    where they are weak is lost, and of a single channel all but its directions; ``CloudNorm`` keeps
    it.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(100, seed=0).astype("float32")
    ... ).laplacian()
    >>> y = tb.nn.PointNorm(8)(5.0 * torch.randn(100, 2, 8), lap)
    >>> y.square().mean(dim=(1, 2)).sub(1).abs().max() < 1e-4
    tensor(True)
    """

    def mean_square(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        return x.square().mean(dim=(-2, -1), keepdim=True)


class CloudNorm(_MeanSquareNorm):
    r"""Each channel by its mean square over the points of each cloud.

    .. math:: f_{ic} \mapsto \frac{g_c\, f_{ic}}{\sqrt{\frac{1}{d} \sum_j m_j |f_{jc}|^2 + \eta}}

    with masses m that sum to one, so that the density of the points does not matter. Fields keep
    their shape: a filter before it or behind it is the same filter.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(100, seed=0).astype("float32")
    ... ).laplacian()
    >>> y = tb.nn.CloudNorm(8)(5.0 * torch.randn(100, 2, 8), lap)
    >>> (lap.norm(y).square() / 2).sub(1).abs().max() < 1e-4
    tensor(True)
    """

    def mean_square(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        means = cloud_means(x.square().mean(dim=-2), operator)
        cloud = cloud_of_points(operator, x.device)
        return means.index_select(-2, cloud).unsqueeze(-2)
