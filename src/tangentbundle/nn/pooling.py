r"""From points to clouds: what readouts and normalisations take of all points of a cloud.

A joined operator has several clouds, and each is pooled by itself. Means weigh points by the mass
of the operator, so that the density of the sampling does not matter.
"""

from __future__ import annotations

from abc import abstractmethod

import torch

from ..arrays import positive_integer
from ..operators import SquareOperator
from .base import Configured, generator, uniform_weights


def cloud_of_points(operator: SquareOperator, device: torch.device) -> torch.Tensor:
    """The number of the cloud of each point, ``(n,)``."""
    sizes = torch.tensor(operator.sizes, device=device)
    return torch.repeat_interleave(sizes, output_size=operator.num_points)


def cloud_sums(features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """Sums over the points of each bundle, ``(..., n, f)`` to ``(..., clouds, f)``."""
    shape = (*features.shape[:-2], len(operator.sizes), features.shape[-1])
    zeros = features.new_zeros(shape)
    return zeros.index_add(-2, cloud_of_points(operator, features.device), features)


def cloud_means(features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """Means over the points of each bundle, ``(..., n, f)`` to ``(..., clouds, f)``, weighted by
    the mass."""
    mass = operator.mass[:, None].to(features.dtype)
    return cloud_sums(features * mass, operator) / cloud_sums(mass, operator)


class Pooling(Configured):
    """Features of points ``(..., n, f)`` to features of clouds ``(..., clouds, f)``.

    A readout has its own copy, ``pooling.sized(features, source)``, with initial weights from a
    generator.
    """

    def sized(self, features: int, source: torch.Generator) -> Pooling:
        """This pooling for so many features, with weights of its own."""
        return type(self)()

    @abstractmethod
    def forward(self, features: torch.Tensor, operator: SquareOperator) -> torch.Tensor: ...


class NoPooling(Pooling):
    """Features of points as they are: a readout of every point.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.NoPooling()(torch.ones(5, 3), tb.operators.Identity.of(5)).shape
    torch.Size([5, 3])
    """

    def forward(self, features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        return features


class MeanPooling(Pooling):
    r"""The mean over a cloud in its mass, :math:`\sum_i m_i x_i`.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.MeanPooling()(torch.ones(5, 3), tb.operators.Identity.of(5))
    tensor([[1., 1., 1.]])
    """

    def forward(self, features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        return cloud_means(features, operator)


class AttentionPooling(Pooling):
    r"""A mean with weights that are learned from the features of the points.

    .. math:: y = \sum_i a_i x_i, \qquad a_i = \frac{m_i\, e^{s(x_i)}}{\sum_j m_j\, e^{s(x_j)}},

    with a linear score s for each of ``heads`` groups of features. Features that depend on no
    frames give weights that depend on none, and the masses m make the sum an integral: it converges
    as the points become dense.

    >>> import torch, tangentbundle as tb
    >>> pooling = tb.nn.AttentionPooling(heads=2)
    >>> readout = tb.nn.InvariantReadout(8, out_channels=3, hidden=16, pooling=pooling)
    >>> readout(torch.randn(5, 2, 8), tb.operators.Identity.of(5, 2)).shape
    torch.Size([1, 3])
    """

    def __init__(self, features: int = 1, heads: int = 1, seed: int | torch.Generator = 0) -> None:
        super().__init__()
        self.heads = positive_integer(heads, "heads")
        features = positive_integer(features, "features")
        self.score = uniform_weights(features, self.heads, fan_in=features, source=generator(seed))

    def sized(self, features: int, source: torch.Generator) -> AttentionPooling:
        return AttentionPooling(features, self.heads, source)

    def forward(self, features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        weights = self.attention(features, operator)
        groups = features.unflatten(-1, (self.heads, -1))
        weighted = (weights.unsqueeze(-1) * groups).flatten(-2)
        return cloud_sums(weighted, operator)

    def attention(self, features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        """The weights a ``(..., n, heads)`` of the points, which sum to one over each cloud."""
        scores = features @ self.score
        cloud = cloud_of_points(operator, features.device)
        highest = cloud_maxima(scores.detach(), operator)
        unnormalized = operator.mass[:, None].to(scores.dtype) * torch.exp(
            scores - highest.index_select(-2, cloud)
        )
        totals = cloud_sums(unnormalized, operator)
        return unnormalized / totals.index_select(-2, cloud)


def cloud_maxima(features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """The largest value over the points of each bundle, ``(..., n, f)`` to ``(..., clouds, f)``."""
    maxima = [part.amax(dim=-2) for part in features.split(operator.sizes, dim=-2)]
    return torch.stack(maxima, dim=-2)
