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
from .mixed_operators import MixedOperators
from .pooling import MeanPooling, Pooling, cloud_sums


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


def gram_pairs(channels: int) -> int:
    """Different inner products of so many channels, lengths included."""
    return channels * (channels + 1) // 2


def gram_features(x: torch.Tensor) -> torch.Tensor:
    """The inner products of the channels of a signal ``(..., n, d, c)`` at each point, as
    ``(..., n, c (c + 1) / 2)``."""
    channels = x.shape[-1]
    gram = x.transpose(-1, -2) @ x
    rows, columns = torch.triu_indices(channels, channels, device=x.device)
    return gram[..., rows, columns]


class PooledReadout(Readout):
    """A readout of features of points: a layer, a pooling, another layer."""

    def __init__(
        self,
        in_channels: int,
        features: int,
        out_channels: int,
        hidden: int,
        pooling: Pooling | None,
        seed: int | torch.Generator,
    ) -> None:
        source = generator(seed)
        super().__init__(in_channels, features, out_channels, hidden, source)
        chosen = check_part(pooling, MeanPooling(), Pooling, "MeanPooling() or NoPooling()")
        self.pooling = chosen.sized(hidden, source)

    def read(self, features: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        """Numbers of points or clouds from features ``(..., n, f)`` of points."""
        hidden = torch.relu(self.first(features))
        return self.second(self.pooling(hidden, operator))


class InvariantReadout(PooledReadout):
    r"""Numbers from fields, independent of frames: lengths and inner products of channels through a
    small perceptron.

    At each point the Gram matrix :math:`G_i = f_i^T f_i` of the channels goes through a layer of
    ``hidden`` units; these are pooled over each cloud; a second layer gives the ``out_channels``.

    Args:
        in_channels: of the signals ``(..., n, d, in_channels)``.
        out_channels: of the result, ``(..., clouds, out_channels)``, or without pooling
            ``(..., n, out_channels)``.
        hidden: units of the perceptron.
        pooling: default ``MeanPooling()``, the mean in the mass, so that the sampling density does
            not matter; ``AttentionPooling()`` learns weights; ``NoPooling()`` reads every point.
        seed: of the initial weights.

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
        pooling: Pooling | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        features = gram_pairs(positive_integer(in_channels, "in_channels"))
        super().__init__(in_channels, features, out_channels, hidden, pooling, seed)

    def forward(self, x: torch.Tensor, operator: SquareOperator) -> torch.Tensor:
        x = check_signal(x, operator, self.in_channels, self.first.weight)
        return self.read(gram_features(x), operator)


class MixedReadout(PooledReadout):
    """Numbers from functions and fields, independent of frames: the functions, and the inner
    products of the fields, through a small perceptron.

    Args:
        functions, fields: numbers of channels of both.
        others: as of ``InvariantReadout``.

    ``forward(functions, fields, operators)`` takes what a ``MixedTNN`` returns.

    >>> import torch, tangentbundle as tb
    >>> bundle = tb.TangentBundle.from_points(
    ...     tb.manifolds.Sphere(2).sample(300, seed=0).astype("float32")
    ... )
    >>> readout = tb.nn.MixedReadout(8, 4, out_channels=3)
    >>> net = tb.nn.MixedTNN(functions=[0, 8], fields=[1, 4], step=0.01, readout=readout)
    >>> net(None, torch.randn(300, 2, 1), tb.nn.MixedOperators.of(bundle)).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        functions: int,
        fields: int,
        out_channels: int,
        hidden: int = 16,
        *,
        pooling: Pooling | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        functions = positive_integer(functions, "functions")
        features = functions + gram_pairs(positive_integer(fields, "fields"))
        super().__init__(fields, features, out_channels, hidden, pooling, seed)
        self.functions = functions

    def forward(
        self, functions: torch.Tensor, fields: torch.Tensor, operators: MixedOperators
    ) -> torch.Tensor:
        weight = self.first.weight
        s = check_signal(functions, operators.functions, self.functions, weight)
        v = check_signal(fields, operators.fields, self.in_channels, weight)
        features = torch.cat([s.squeeze(-2), gram_features(v)], dim=-1)
        return self.read(features, operators.fields)
