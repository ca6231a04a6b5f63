r"""Networks and layers on sheaves that they learn: neural sheaf diffusion, and banks of filters.

All take ``(x, edge_index, ...)`` as the modules of PyTorch Geometric do, and are plain torch
modules.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..arrays import positive_integer
from ..errors import InvalidInputError, ShapeError
from ..filters import Chebyshev, Filter
from ..operators import Degrees, Laplacian, ScalarDegrees, SquareOperator
from ..sheaf import Sheaf
from .base import Configured, check_dropout, check_part, generator, linear_layer, uniform_weights
from .conv import BundleConv
from .filter_parameters import copy_learnable
from .sheaf_inputs import Remembered, check_features, outside_graphs
from .sheaf_maps import SheafBuilder, SheafLearner

# What a layer does on a sheaf.


class SheafStep(torch.nn.Module):
    r"""A step of heat flow with left and right weights,
    :math:`(I - L)(I \otimes W_1^T)\, X W_2`."""

    def __init__(self, rank: int, channels: int, source: torch.Generator) -> None:
        super().__init__()
        self.left = torch.nn.Parameter(torch.eye(rank))
        self.right = uniform_weights(channels, channels, fan_in=channels, source=source)

    def forward(self, x: Tensor, operator: Laplacian) -> Tensor:
        mixed = x.flatten(1) @ torch.kron(self.left, self.right)
        return operator.heat_step(mixed.view(x.shape))


class SheafPowers(torch.nn.Module):
    r"""A polynomial of one step of heat flow, :math:`\sum_{k < K} (I - L)^k X H_k`, by Horner's
    rule."""

    def __init__(
        self, in_channels: int, out_channels: int, taps: int, source: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = uniform_weights(
            positive_integer(taps, "taps"),
            in_channels,
            out_channels,
            fan_in=taps * in_channels,
            source=source,
        )

    def forward(self, x: Tensor, operator: Laplacian) -> Tensor:
        terms = [x @ weight for weight in self.weight]
        total = terms.pop()
        for term in reversed(terms):
            total = operator.heat_step(total) + term
        return total


# Networks.


class SheafBlock(torch.nn.Module):
    r"""What a layer adds to its input, :math:`\sigma(A X + S(X))` of the normalised one: A on
    nodes, S on the sheaf."""

    def __init__(
        self,
        layer: torch.nn.Module,
        width: int,
        *,
        own: bool,
        dropout: float,
        source: torch.Generator,
    ) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.layer = layer
        self.own = linear_layer(width, width, source) if own else None
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, operator: Laplacian) -> Tensor:
        """The addition ``(n, d c)`` from the normalised signal ``x`` (n, d c)."""
        signal = x.unflatten(1, (operator.rank, -1))
        total = self.layer(signal, operator).flatten(1)
        if self.own is not None:
            total = self.own(x) + total
        return self.dropout(F.elu(total))


class SheafNetwork(Configured):
    """Features ``(n, in_channels)`` to signals ``(n, d c)`` of a sheaf, blocks on it,
    ``(n, out_channels)``."""

    shared = False
    """Whether all layers have one sheaf."""

    def __init__(
        self,
        in_channels: int,
        channels: int,
        out_channels: int,
        builder: SheafBuilder | None = None,
        layers: int = 2,
        *,
        normalization: Degrees | None = None,
        own: bool = True,
        dropout: float = 0.0,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        dropout = check_dropout(dropout)
        own = check_part(own, True, bool, "own=True")
        builder = check_builder(builder)
        self.normalization = check_normalization(normalization)
        self.rank = builder.rank
        self.channels = positive_integer(channels, "channels")
        self.dropout = torch.nn.Dropout(dropout)
        in_channels = positive_integer(in_channels, "in_channels")
        out_channels = positive_integer(out_channels, "out_channels")
        width = self.rank * self.channels
        source = generator(seed)
        self.encoder = linear_layer(in_channels, width, source)
        self.decoder = linear_layer(width, out_channels, source)
        self.builders = torch.nn.ModuleList()
        self.blocks = torch.nn.ModuleList()
        for level in range(positive_integer(layers, "layers")):
            if level == 0 or not self.shared:
                own_builder = builder.sized(width, source)
                own_builder.name = f"layer {level}"
                self.builders.append(own_builder)
            layer = self.layer(source)
            self.blocks.append(SheafBlock(layer, width, own=own, dropout=dropout, source=source))

    @abstractmethod
    def layer(self, source: torch.Generator) -> torch.nn.Module:
        """What a block does on the sheaf, ``(n, d, c), operator -> (n, d, c)``."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = check_features(x, self.encoder.weight, self.encoder.in_features, "the network")
        signal = self.dropout(F.elu(self.encoder(x)))
        return self.decoder(self._blocks(signal, x, edge_index, edge_weight))

    @outside_graphs
    def _blocks(self, signal: Tensor, x: Tensor, *graph: Tensor | None) -> Tensor:
        block: SheafBlock
        for level, block in enumerate(self.blocks):  # type: ignore[assignment]
            normalized = block.norm(signal)
            if level < len(self.builders):  # a shared sheaf is built in the first layer only
                builder = self.builders[level]
                features = x if builder.from_inputs else normalized
                operator = builder(features, *graph).laplacian(self.normalization)
            signal = signal + block(normalized, operator)
        return signal


def check_builder(builder: SheafBuilder | None) -> SheafBuilder:
    """The builder of the sheaf of a layer or network, or its default."""
    return check_part(builder, SheafLearner(), SheafBuilder, "SheafLearner()")


def check_normalization(normalization: Degrees | None) -> Degrees:
    """The degrees by which a Laplacian is divided, or their default."""
    return check_part(normalization, ScalarDegrees(shift=1.0), Degrees, "ScalarDegrees()")


class SheafDiffusion(SheafNetwork):
    r"""Neural sheaf diffusion (Bodnar et al., 2022): every layer learns a sheaf and takes a step of
    its heat flow.

    .. math:: X_{l+1} = X_l + \sigma\big(A_l N(X_l)
              + (I - L_l)(I \otimes W_{1,l}^T)\, N(X_l)\, W_{2,l}\big),

    with N the layer normalisation of each node, :math:`L_l` the Laplacian of the sheaf that is made
    of :math:`N(X_l)`, left weights :math:`W_1` ``(d, d)``, right weights :math:`W_2` ``(c, c)``,
    and weights A of the nodes themselves. With A the sum has all steps :math:`-L` as well.

    Args:
        in_channels, out_channels: features of each node, in and out.
        channels: c, of the signals ``(n, d, c)`` in between.
        builder: of the sheaf of each layer, default ``SheafLearner(2)``.
        normalization: of the Laplacians, default ``ScalarDegrees(shift=1.0)``.
        own: whether there is a matrix A; without it a node is always mixed with its neighbours.
        dropout: of the first signal and of what the layers add to it.

    >>> import torch, tangentbundle as tb
    >>> net = tb.nn.SheafDiffusion(7, 8, 3, tb.nn.SheafLearner(3), layers=2)
    >>> net(torch.randn(4, 7), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
    torch.Size([4, 3])
    """

    def layer(self, source: torch.Generator) -> torch.nn.Module:
        return SheafStep(self.rank, self.channels, source)


class SheafTNN(SheafNetwork):
    r"""A tangent bundle network on a learned sheaf: banks of filters of one Laplacian, in every
    layer.

    .. math:: X_{l+1} = X_l
              + \sigma\Big(A_l N(X_l) + \sum_{k=0}^{K-1} (I - L)^k N(X_l) H_{l,k}\Big).

    K = 2 is the sheaf neural network of Hansen and Gebhart (2020), K > 2 a polynomial sheaf
    network.

    Args:
        taps: K, the number of powers, which reach K - 1 hops.
        filters: instead of the powers any filters, such as ``[Heat(0.0), Heat(1.0)]``; each layer
            learns its own copy of their parameters.
        others: as of ``SheafDiffusion``; the sheaf is made of the first signal.

    >>> import torch, tangentbundle as tb
    >>> net = tb.nn.SheafTNN(7, 8, 3, taps=3)
    >>> net(torch.randn(4, 7), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
    torch.Size([4, 3])
    """

    shared = True

    def __init__(
        self,
        in_channels: int,
        channels: int,
        out_channels: int,
        builder: SheafBuilder | None = None,
        layers: int = 2,
        *,
        taps: int = 2,
        filters: Sequence[Filter] | None = None,
        normalization: Degrees | None = None,
        own: bool = True,
        dropout: float = 0.0,
        seed: int | torch.Generator = 0,
    ) -> None:
        self.taps = taps
        self.filters = filters
        super().__init__(
            in_channels,
            channels,
            out_channels,
            builder,
            layers,
            normalization=normalization,
            own=own,
            dropout=dropout,
            seed=seed,
        )

    def layer(self, source: torch.Generator) -> torch.nn.Module:
        if self.filters is None:
            return SheafPowers(self.channels, self.channels, self.taps, source)
        return BundleConv(
            self.channels,
            self.channels,
            filters=copy_learnable(self.filters),
            method=Chebyshev(),
            seed=source,
        )


# Layers in place of those of PyTorch Geometric.


@Remembered
def connection_laplacian(
    edge_index: Tensor, transport: Tensor, edge_weight: Tensor | None, n: int
) -> SquareOperator:
    """The connection Laplacian of a graph with transports, on n nodes."""
    sheaf = Sheaf.from_edges(edge_index, transport, edge_weight, n)
    return sheaf.laplacian(ScalarDegrees())


class TangentConv(BundleConv):
    r"""``BundleConv`` on the connection Laplacian of a graph with transports,
    ``(n, d, in) -> (n, d, out)``.

    .. math:: Y = \sum_{k=0}^{K-1} e^{-kT_s L} X H_k, \qquad
              (L f)_i = f_i - \sum_j \frac{w_{ij}}{\sqrt{\deg_i \deg_j}}\, O_{ij} f_j.

    ``forward`` takes ``x`` (n, d, in), ``edge_index`` (2, e), ``transport`` (e, d, d) from source
    to target and ``edge_weight`` (e,), as ``AttachBundle`` gives them. A change of the frames at
    the nodes changes the output alike. The operator is cached while ``edge_index`` lives. Arguments
    as of ``BundleConv``.

    >>> import torch, tangentbundle as tb
    >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
    >>> tb.nn.TangentConv(1, 8)(torch.randn(2, 2, 1), torch.tensor([[0], [1]]), turn).shape
    torch.Size([2, 2, 8])
    """

    @outside_graphs
    def forward(
        self, x: Tensor, edge_index: Tensor, transport: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        if x.ndim != 3:
            raise ShapeError(f"x must have shape (n, d, channels), got {tuple(x.shape)}.")
        laplacian = connection_laplacian(edge_index, transport, edge_weight, len(x))
        return super().forward(x, laplacian)


class SheafConv(Configured):
    r"""A bank of filters on a sheaf that it learns, ``(n, in_channels) -> (n, out_channels)``: in
    place of ``GCNConv``.

    .. math:: Y = \sum_{k=0}^{K-1} (I - L(X))^k X H_k .

    Rows of x hold d vectors one after another: both numbers of channels are multiples of d, the
    dimension of the stalks. ``taps`` is K; ``builder`` and ``normalization`` are as of
    ``SheafTNN``.

    >>> import torch, tangentbundle as tb
    >>> tb.nn.SheafConv(16, 32)(torch.randn(3, 16), torch.tensor([[0, 1], [1, 2]])).shape
    torch.Size([3, 32])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        builder: SheafBuilder | None = None,
        *,
        taps: int = 2,
        normalization: Degrees | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        builder = check_builder(builder)
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if positive_integer(channels, name) % builder.rank != 0:
                raise InvalidInputError(
                    f"{name} must be a multiple of {builder.rank}, rank of the stalks, got "
                    f"{channels}."
                )
        self.in_channels = int(in_channels)
        self.normalization = check_normalization(normalization)
        source = generator(seed)
        self.builder = builder.sized(in_channels, source)
        self.conv = SheafPowers(
            in_channels // builder.rank, out_channels // builder.rank, taps, source
        )

    @outside_graphs
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = check_features(x, self.conv.weight, self.in_channels, "the layer")
        operator = self.builder(x, edge_index, edge_weight).laplacian(self.normalization)
        signal = x.unflatten(1, (operator.rank, -1))
        return self.conv(signal, operator).flatten(1)
