"""Readouts: numbers or classes from fields, through a perceptron with one hidden layer.

``SumReadout``, the paper's, sums the coordinates of each cloud. It depends on the frames and their
signs, except on scalar bundles; ``InvariantReadout`` does not.
"""

from __future__ import annotations

import torch

from ..arrays import positive_integer
from ..errors import ShapeError
from ..operators import SquareOperator
from .base import Configured, check_part, check_signal, generator, linear_layer


def cloud_sums(features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """Sums over the points of each bundle, ``(..., n, f)`` to ``(..., clouds, f)``."""
    num_clouds = len(operator.sizes)
    cloud_of_point = torch.repeat_interleave(torch.tensor(operator.sizes, device=features.device))
    zeros = features.new_zeros((*features.shape[:-2], num_clouds, features.shape[-1]))
    return zeros.index_add(-2, cloud_of_point, features)


def cloud_means(features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
    """Means over the points of each bundle, ``(..., n, f)`` to ``(..., clouds, f)``, weighted by
    the mass."""
    mass = operator.mass[:, None].to(features.dtype)
    return cloud_sums(features * mass, operator) / cloud_sums(mass, operator)


class Readout(Configured):
    """A map from signals ``(..., n, d, in_channels)`` to ``out_channels`` numbers.

    The numbers of a point or a cloud, ``features`` of them, go through a perceptron, ``first`` and
    ``second``, with one layer of ``hidden`` units.
    """

    def __init__(
        self,
        in_channels: int,
        features: int,
        out_channels: int,
        hidden: int,
        seed: int | torch.Generator,
    ) -> None:
        super().__init__()
        source = generator(seed)
        hidden = positive_integer(hidden, "hidden")
        out_channels = positive_integer(out_channels, "out_channels")
        self.in_channels = positive_integer(in_channels, "in_channels")
        self.first = linear_layer(features, hidden, source)
        self.second = linear_layer(hidden, out_channels, source)


class SumReadout(Readout):
    r"""The readout that the paper suggests for classification: sums of coordinates over the points
    of each cloud.

    .. math:: y_b = W_2\, \mathrm{ReLU}\Big(W_1 \sum_{i \in b} f_i + c_1\Big) + c_2

    Args:
        in_channels: of the signals ``(..., n, d, in_channels)``.
        out_channels: of the result ``(..., clouds, out_channels)``, such as the number of classes.
        hidden: rows of :math:`W_1`.
        rank: d, the dimension of the fibres.
        seed: of the initial weights.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(200, seed=0).astype("float32")
    ... ).laplacian()
    >>> net = tb.nn.TNN([1, 8, 4, 1], readout=tb.nn.SumReadout(in_channels=1, out_channels=2))
    >>> net(torch.randn(200, 2, 1), lap).shape
    torch.Size([1, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden: int = 16,
        *,
        rank: int = 2,
        seed: int | torch.Generator = 0,
    ) -> None:
        rank = positive_integer(rank, "rank")
        features = rank * positive_integer(in_channels, "in_channels")
        super().__init__(in_channels, features, out_channels, hidden, seed)
        self.rank = rank

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        x = check_signal(x, operator, self.in_channels, self.first.weight)
        if operator.rank != self.rank:
            raise ShapeError(
                f"this readout takes fibres of dimension {self.rank}, got {operator.rank}. Change "
                "its rank."
            )
        sums = cloud_sums(x.flatten(-2), operator)
        return self.second(torch.relu(self.first(sums)))


class InvariantReadout(Readout):
    r"""Numbers from fields, independent of frames: lengths and inner products of channels through a
    small perceptron.

    At each point the Gram matrix :math:`G_i = f_i^T f_i` of the channels goes through a layer of
    ``hidden`` units; with ``pool`` these are averaged over each cloud (in the mass, so that the
    sampling density does not matter); a second layer gives the ``out_channels``:
    ``(..., n, out_channels)`` without pooling, ``(..., clouds, out_channels)`` with it.

    >>> import torch, tangentbundle as tb
    >>> lap = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(200, seed=0).astype("float32")
    ... ).laplacian()
    >>> net = tb.nn.TNN([1, 8], readout=tb.nn.InvariantReadout(8, out_channels=3))
    >>> net(torch.randn(200, 2, 1), tb.join([lap])).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden: int = 16,
        *,
        pool: bool = True,
        seed: int | torch.Generator = 0,
    ) -> None:
        num_pairs = positive_integer(in_channels, "in_channels") * (in_channels + 1) // 2
        super().__init__(in_channels, num_pairs, out_channels, hidden, seed)
        self.pool = check_part(pool, True, bool, "pool=True")

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        x = check_signal(x, operator, self.in_channels, self.first.weight)
        gram = x.transpose(-1, -2) @ x
        rows, columns = torch.triu_indices(self.in_channels, self.in_channels, device=x.device)
        features = torch.relu(self.first(gram[..., rows, columns]))
        if self.pool:
            features = cloud_means(features, operator)
        return self.second(features)
