"""Readouts: numbers or classes from fields, through a perceptron with one hidden layer.

``SumReadout``, the paper's, sums the coordinates of each cloud. It depends on the frames and their
signs, except on scalar bundles; ``InvariantReadout`` does not.
"""

from __future__ import annotations

import torch

from ..arrays import positive_integer
from ..errors import ShapeError
from ..operators import SquareOperator
from .base import Configured, checked, generator, linear, part


def cloud_sums(features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """Sums over the points of each bundle, ``(..., n, f)`` to ``(..., clouds, f)``."""
    cloud = torch.repeat_interleave(torch.tensor(operator.sizes, device=features.device))
    sums = features.new_zeros((*features.shape[:-2], len(operator.sizes), features.shape[-1]))
    return sums.index_add(-2, cloud, features)


def cloud_means(features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """Means over the points of each bundle, ``(..., n, f)`` to ``(..., clouds, f)``, weighted by
    the mass."""
    mass = operator.mass[:, None].to(features.dtype)
    return cloud_sums(features * mass, operator) / cloud_sums(mass, operator)


class Readout(Configured):
    """A map from signals ``(..., n, d, channels)`` to numbers."""

    def __init__(
        self, channels: int, features: int, outputs: int, hidden: int, seed: int | torch.Generator
    ) -> None:
        super().__init__()
        source, middle = generator(seed), positive_integer(hidden, "hidden")
        self.channels = positive_integer(channels, "channels")
        self.first = linear(features, middle, source)
        self.second = linear(middle, positive_integer(outputs, "outputs"), source)


class SumReadout(Readout):
    r"""The readout that the paper suggests for classification: sums of coordinates over the points
    of each cloud.

    .. math:: y_b = W_2\, \mathrm{ReLU}\Big(W_1 \sum_{i \in b} f_i + c_1\Big) + c_2

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(200, seed=0).astype("float32")
    ... ).laplacian()
    >>> net = tb.nn.TNN([1, 8, 4, 1], readout=tb.nn.SumReadout(channels=1, outputs=2))
    >>> net(torch.randn(200, 2, 1), lap).shape
    torch.Size([1, 2])
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        hidden: int = 16,
        *,
        rank: int = 2,
        seed: int | torch.Generator = 0,
    ) -> None:
        features = positive_integer(rank, "rank") * positive_integer(channels, "channels")
        super().__init__(channels, features, outputs, hidden, seed)
        self.rank = rank

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        x = checked(x, operator, self.channels, self.first.weight)
        if operator.rank != self.rank:
            raise ShapeError(
                f"this readout takes fibres of dimension {self.rank}, got {operator.rank}. Change "
                "its rank."
            )
        return self.second(torch.relu(self.first(cloud_sums(x.flatten(-2), operator))))


class InvariantReadout(Readout):
    r"""Numbers from fields, independent of frames: lengths and inner products of channels through a
    small perceptron.

    At each point the Gram matrix :math:`G_i = f_i^T f_i` of the channels goes through a layer of
    ``hidden`` units; with ``pool`` these are averaged over each cloud (in the mass, so that the
    sampling density does not matter); a second layer gives the ``outputs``: ``(..., n, outputs)``
    without pooling, ``(..., clouds, outputs)`` with it.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(200, seed=0).astype("float32")
    ... ).laplacian()
    >>> net = tb.nn.TNN([1, 8], readout=tb.nn.InvariantReadout(8, outputs=3))
    >>> net(torch.randn(200, 2, 1), tb.join([lap])).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        hidden: int = 16,
        *,
        pool: bool = True,
        seed: int | torch.Generator = 0,
    ) -> None:
        pairs = positive_integer(channels, "channels") * (channels + 1) // 2
        super().__init__(channels, pairs, outputs, hidden, seed)
        self.pool = part(pool, True, bool, "pool=True")

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        x = checked(x, operator, self.channels, self.first.weight)
        gram = x.transpose(-1, -2) @ x
        rows, columns = torch.triu_indices(self.channels, self.channels, device=x.device)
        features = torch.relu(self.first(gram[..., rows, columns]))
        if self.pool:
            features = cloud_means(features, operator)
        return self.second(features)
