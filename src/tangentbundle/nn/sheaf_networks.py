r"""Networks and layers on sheaves that they learn: neural sheaf diffusion, and banks of filters.

All take ``(x, edge_index, ...)`` as the modules of PyTorch Geometric do, and are plain torch
modules.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..arrays import positive_integer
from ..errors import InvalidInputError, ShapeError
from ..filters import Chebyshev, Filter
from ..operators import Degrees, Laplacian, ScalarDegrees
from ..sheaf import Sheaf
from .base import Configured, generator, linear, part, uniform
from .conv import BundleConv, with_parameters
from .sheaf_maps import Remembered, SheafBuilder, SheafLearner, checked_features, outside_graphs


class SheafStep(torch.nn.Module):
    r"""A step of heat flow with left and right weights,
    :math:`(I - L)(I \otimes W_1^T)\, X W_2`."""

    def __init__(self, rank: int, channels: int, source: torch.Generator) -> None:
        super().__init__()
        self.left = torch.nn.Parameter(torch.eye(rank))
        self.right = uniform(channels, channels, fan_in=channels, source=source)

    def forward(self, x: Tensor, operator: Laplacian) -> Tensor:
        return operator.heat_step((x.flatten(1) @ torch.kron(self.left, self.right)).view(x.shape))


class SheafPowers(torch.nn.Module):
    r"""A polynomial of one step of heat flow, :math:`\sum_{k < K} (I - L)^k X H_k`, by Horner's
    rule."""

    def __init__(
        self, in_channels: int, out_channels: int, taps: int, source: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = uniform(
            positive_integer(taps, "taps"),
            in_channels,
            out_channels,
            fan_in=taps * in_channels,
            source=source,
        )

    def forward(self, x: Tensor, operator: Laplacian) -> Tensor:
        *lower, total = (x @ weight for weight in self.weight)
        for term in reversed(lower):
            total = operator.heat_step(total) + term
        return total


class SheafBlock(torch.nn.Module):
    r"""What a layer adds to its input, :math:`\sigma(A X + S(X))` of the normalised one: A on
    nodes, S on the sheaf."""

    def __init__(
        self, layer: torch.nn.Module, width: int, own: bool, dropout: float, source: torch.Generator
    ) -> None:
        super().__init__()
        self.norm, self.layer = torch.nn.LayerNorm(width), layer
        self.own = linear(width, width, source) if own else None
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: Tensor, operator: Laplacian) -> Tensor:
        around = self.layer(x.unflatten(1, (operator.rank, -1)), operator).flatten(1)
        return self.dropout(F.elu(around if self.own is None else self.own(x) + around))


class SheafNetwork(Configured):
    """Features ``(n, in_features)`` to signals ``(n, d c)`` of a sheaf, blocks on it,
    ``(n, out_features)``."""

    shared = False
    """Whether all layers have one sheaf."""

    def __init__(
        self,
        in_features: int,
        channels: int,
        out_features: int,
        builder: SheafBuilder | None = None,
        layers: int = 2,
        *,
        normalization: Degrees | None = None,
        own: bool = True,
        dropout: float = 0.0,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        if not (isinstance(dropout, float | int) and 0.0 <= dropout < 1.0):
            raise InvalidInputError(f"dropout must lie in [0, 1), got {dropout}.")
        own = part(own, True, bool, "own=True")
        builder = part(builder, SheafLearner(), SheafBuilder, "SheafLearner()")
        self.normalization = part(
            normalization, ScalarDegrees(shift=1.0), Degrees, "ScalarDegrees()"
        )
        self.rank, self.channels = builder.rank, positive_integer(channels, "channels")
        self.dropout, source, width = (
            torch.nn.Dropout(dropout),
            generator(seed),
            builder.rank * channels,
        )
        self.encoder = linear(positive_integer(in_features, "in_features"), width, source)
        self.decoder = linear(width, positive_integer(out_features, "out_features"), source)
        self.builders, self.blocks = torch.nn.ModuleList(), torch.nn.ModuleList()
        for level in range(positive_integer(layers, "layers")):
            if level == 0 or not self.shared:
                self.builders.append(builder.sized(width, source))
                self.builders[-1].name = f"layer {level}"  # type: ignore[assignment]
            self.blocks.append(SheafBlock(self.layer(source), width, own, dropout, source))

    @abstractmethod
    def layer(self, source: torch.Generator) -> torch.nn.Module:
        """What a block does on the sheaf, ``(n, d, c), operator -> (n, d, c)``."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = checked_features(x, self.encoder.weight, self.encoder.in_features, "the network")
        signal = self.dropout(F.elu(self.encoder(x)))
        return self.decoder(self._blocks(signal, x, edge_index, edge_weight))

    @outside_graphs
    def _blocks(self, signal: Tensor, x: Tensor, *graph: Tensor | None) -> Tensor:
        builders = iter(self.builders)
        block: SheafBlock
        for block in self.blocks:  # type: ignore[assignment]
            normal = block.norm(signal)
            if (builder := next(builders, None)) is not None:
                operator = builder(x if builder.from_inputs else normal, *graph).laplacian(
                    self.normalization
                )
            signal = signal + block(normal, operator)
        return signal


class SheafDiffusion(SheafNetwork):
    r"""Neural sheaf diffusion (Bodnar et al., 2022): every layer learns a sheaf and takes a step of
    its heat flow.

    .. math:: X_{l+1} = X_l + \sigma\big(A_l N(X_l)
              + (I - L_l)(I \otimes W_{1,l}^T)\, N(X_l)\, W_{2,l}\big),

    with N the layer normalisation of each node, :math:`L_l` the Laplacian of the sheaf that is made
    of :math:`N(X_l)`, left weights :math:`W_1` ``(d, d)``, right weights :math:`W_2` ``(c, c)``,
    and weights A of the nodes themselves. With A the sum has all steps :math:`-L` as well.

    Args:
        in_features, out_features: of each node, in and out.
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
        in_features: int,
        channels: int,
        out_features: int,
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
        self.bank = taps, filters
        options = {"normalization": normalization, "own": own, "dropout": dropout, "seed": seed}
        super().__init__(in_features, channels, out_features, builder, layers, **options)  # type: ignore[arg-type]

    def layer(self, source: torch.Generator) -> torch.nn.Module:
        taps, filters = self.bank
        if filters is None:
            return SheafPowers(self.channels, self.channels, taps, source)
        own = with_parameters(filters, copy.deepcopy)
        return BundleConv(
            self.channels, self.channels, filters=own, method=Chebyshev(), seed=source
        )


connection = Remembered(lambda *graph: Sheaf.from_edges(*graph).laplacian(ScalarDegrees()))
"""The connection Laplacian of ``edge_index, transport, edge_weight`` on n nodes."""


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
        return super().forward(x, connection(edge_index, transport, edge_weight, len(x)))


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
        builder, source = (
            part(builder, SheafLearner(), SheafBuilder, "SheafLearner()"),
            generator(seed),
        )
        for name, value in (("in_channels", in_channels), ("out_channels", out_channels)):
            if positive_integer(value, name) % builder.rank:
                raise InvalidInputError(
                    f"{name} must be a multiple of {builder.rank}, rank of the stalks, got {value}."
                )
        self.in_channels = int(in_channels)
        self.normalization = part(
            normalization, ScalarDegrees(shift=1.0), Degrees, "ScalarDegrees()"
        )
        self.builder = builder.sized(in_channels, source)
        self.conv = SheafPowers(
            in_channels // builder.rank, out_channels // builder.rank, taps, source
        )

    @outside_graphs
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = checked_features(x, self.conv.weight, self.in_channels, "the layer")
        operator = self.builder(x, edge_index, edge_weight).laplacian(self.normalization)
        return self.conv(x.unflatten(1, (operator.rank, -1)), operator).flatten(1)
