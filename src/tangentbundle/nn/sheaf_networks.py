r"""Networks and layers on sheaves that they learn: neural sheaf diffusion, and banks of filters.

All take ``(x, edge_index, ...)`` as the modules of PyTorch Geometric do, and are plain torch modules.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import comb

import torch
import torch.nn.functional as F

from ..arrays import positive_integer
from ..errors import InvalidInputError, ShapeError
from ..filters import Chebyshev, Filter, Polynomial
from ..operators import Degrees, ScalarDegrees, SheafLaplacian
from ..sheaf import Sheaf
from .activations import Activation, Coordinatewise
from .base import Configured, generator, linear, part, uniform
from .conv import BundleConv, Learnable
from .models import TNN
from .sheaf_maps import Remembered, SheafBuilder, SheafLearner, checked_features, outside_graphs

Tensor = torch.Tensor


class SheafNetwork(Configured):
    """Features ``(n, in_features)`` to signals ``(n, d, c)`` of a sheaf, layers on it, and ``(n, out_features)``."""

    def __init__(
        self,
        in_features: int,
        channels: int,
        out_features: int,
        builder: SheafBuilder | None = None,
        layers: int = 2,
        *,
        activation: Activation | None = None,
        normalization: Degrees | None = None,
        dropout: float = 0.0,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise InvalidInputError(f"dropout must lie in [0, 1), got {dropout}.")
        builder = part(builder, SheafLearner(), SheafBuilder, "SheafLearner()")
        activation = part(activation, Coordinatewise(F.elu), Activation, "Coordinatewise(torch.tanh)")
        self.normalization = part(normalization, ScalarDegrees(shift=1.0), Degrees, "ScalarDegrees()")
        self.dim, self.channels = builder.dim, positive_integer(channels, "channels")
        self.dropout, source, width = torch.nn.Dropout(dropout), generator(seed), builder.dim * channels
        self.encoder = linear(positive_integer(in_features, "in_features"), width, source)
        self.decoder = linear(width, positive_integer(out_features, "out_features"), source)
        self.build(builder, activation, positive_integer(layers, "layers"), source)

    @abstractmethod
    def build(self, builder: SheafBuilder, act: Activation, layers: int, source: torch.Generator) -> None:
        """Make the layers in between."""

    @abstractmethod
    def diffuse(self, signal: Tensor, x: Tensor, *graph: Tensor | None) -> Tensor:
        """The last signal ``(n, d, c)`` from the first; ``graph`` is ``edge_index, edge_weight``."""

    def laplacian(self, builder: torch.nn.Module, signal: Tensor, x: Tensor, *graph: Tensor | None) -> SheafLaplacian:
        """The Laplacian of the sheaf that a builder makes of the signal, or of the inputs x."""
        return builder(x if builder.from_inputs else signal.flatten(1), *graph).laplacian(self.normalization)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = checked_features(x, self.encoder, "the network")
        signal = F.elu(self.encoder(x)).unflatten(1, (self.dim, self.channels))
        return self.decoder(self.dropout(outside_graphs(self.diffuse, signal, x, edge_index, edge_weight)).flatten(1))


class SheafDiffusion(SheafNetwork):
    r"""Neural sheaf diffusion (Bodnar et al., 2022): every layer learns a sheaf and takes a step of its heat flow.

    .. math:: X_{l+1} = (1 + \tanh\varepsilon_l)\, X_l - \sigma\big(L_l\, (I \otimes W_{1,l})\, X_l W_{2,l}\big),

    with :math:`L_l` the Laplacian of the sheaf that is made of :math:`X_l`, left weights :math:`W_1` ``(d, d)``, right
    weights :math:`W_2` ``(c, c)`` and a factor :math:`\varepsilon` for each coordinate of the stalks.

    Args:
        in_features, out_features: of each node, in and out.
        channels: c, of the signals ``(n, d, c)`` in between.
        builder: of the sheaf of each layer, default ``SheafLearner(2)``.
        activation: :math:`\sigma`, default ``Coordinatewise(elu)``.
        normalization: of the Laplacians, default ``ScalarDegrees(shift=1.0)``.
        dropout: of the inputs of all layers but the first.

    >>> import torch, tangentbundle as tb
    >>> net = tb.nn.SheafDiffusion(7, 8, 3, tb.nn.SheafLearner(3), layers=2)
    >>> net(torch.randn(4, 7), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
    torch.Size([4, 3])
    """

    def build(self, builder: SheafBuilder, act: Activation, layers: int, source: torch.Generator) -> None:
        self.builders, self.activations = torch.nn.ModuleList(), torch.nn.ModuleList()
        self.left, self.right, self.keep = (torch.nn.ParameterList() for _ in range(3))
        for level in range(layers):
            own = builder.sized(self.dim * self.channels, source)
            own.name = f"layer {level}"
            self.builders.append(own)
            self.activations.append(act.sized(self.channels))
            self.left.append(torch.eye(self.dim))
            self.right.append(uniform(self.channels, self.channels, fan_in=self.channels, source=source))
            self.keep.append(torch.zeros(self.dim, 1))

    def diffuse(self, signal: Tensor, x: Tensor, *graph: Tensor | None) -> Tensor:
        layers = zip(self.builders, self.activations, self.left, self.right, self.keep, strict=True)
        for builder, activation, left, right, keep in layers:
            fed = self.dropout(signal)
            operator = self.laplacian(builder, fed, x, *graph)  # -L
            step = activation(-(operator @ (left @ fed @ right)), operator)
            signal = (1 + torch.tanh(keep)) * signal - step
        return signal


class SheafTNN(SheafNetwork):
    r"""A tangent bundle network on a learned sheaf: banks of filters of one Laplacian, in every layer.

    .. math:: X_{l+1} = X_l + \sigma\Big(\sum_{k=0}^{K} (I - L)^k X_l H_{l,k}\Big).

    K = 1 is the sheaf neural network of Hansen and Gebhart (2020), K > 1 a polynomial sheaf network.

    Args:
        order: K.
        filters: instead of the powers any filters, such as ``[Heat(0.0), Heat(1.0)]``.
        others: as of ``SheafDiffusion``; the sheaf is made of the first signal.

    >>> import torch, tangentbundle as tb
    >>> net = tb.nn.SheafTNN(7, 8, 3, order=2)
    >>> net(torch.randn(4, 7), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        in_features: int,
        channels: int,
        out_features: int,
        builder: SheafBuilder | None = None,
        layers: int = 2,
        *,
        order: int = 1,
        filters: Sequence[Filter] | None = None,
        activation: Activation | None = None,
        normalization: Degrees | None = None,
        dropout: float = 0.0,
        seed: int | torch.Generator = 0,
    ) -> None:
        self.bank = bank_of(order, filters)
        options = {"activation": activation, "normalization": normalization, "dropout": dropout, "seed": seed}
        super().__init__(in_features, channels, out_features, builder, layers, **options)  # type: ignore[arg-type]

    def build(self, builder: SheafBuilder, act: Activation, layers: int, source: torch.Generator) -> None:
        filters, method = self.bank
        self.builder = builder.sized(self.dim * self.channels, source)
        widths = [self.channels] * (layers + 1)
        self.net = TNN(widths, filters=filters, activation=act, output=act, residual=True, method=method, seed=source)

    def diffuse(self, signal: Tensor, x: Tensor, *graph: Tensor | None) -> Tensor:
        signal = self.dropout(signal)
        return self.net(signal, self.laplacian(self.builder, signal, x, *graph))


def bank_of(order: int, filters: Sequence[Filter] | None) -> tuple[Sequence[Filter], Chebyshev]:
    r"""The filters, default :math:`(I + \Delta)^k` up to ``order``, and the method for operators that change."""
    if filters is not None:
        return filters, Chebyshev()
    order = positive_integer(order, "order")
    powers = [Polynomial([float(comb(k, j)) for j in range(k + 1)]) for k in range(order + 1)]
    return powers, Chebyshev(order=order)


connection = Remembered(lambda *graph: Sheaf.from_edges(*graph).laplacian(ScalarDegrees()))
"""The connection Laplacian of ``edge_index, transport, edge_weight`` on n nodes."""


class TangentConv(Configured):
    r"""``BundleConv`` on the connection Laplacian of a graph with transports, ``(n, d, in) -> (n, d, out)``.

    .. math:: Y = \sum_{k=0}^{K-1} e^{-kT_s L} X H_k, \qquad
              (L f)_i = f_i - \sum_j \frac{w_{ij}}{\sqrt{\deg_i \deg_j}}\, O_{ij} f_j.

    ``forward`` takes ``x`` (n, d, in), ``edge_index`` (2, e), ``transport`` (e, d, d) from source to target and
    ``edge_weight`` (e,), as ``AttachBundle`` gives them. A change of the frames at the nodes changes the output alike.
    The operator is cached while ``edge_index`` lives. Arguments as of ``BundleConv``.

    >>> import torch, tangentbundle as tb
    >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
    >>> tb.nn.TangentConv(1, 8)(torch.randn(2, 2, 1), torch.tensor([[0], [1]]), turn).shape
    torch.Size([2, 2, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        taps: int = 2,
        step: float | Learnable = 1.0,
        *,
        filters: Sequence[Filter] | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.conv = BundleConv(in_channels, out_channels, taps, step, filters=filters, seed=seed)

    def forward(self, x: Tensor, edge_index: Tensor, transport: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if x.ndim != 3:
            raise ShapeError(f"x must have shape (n, d, channels), got {tuple(x.shape)}.")
        return outside_graphs(lambda: self.conv(x, connection(edge_index, transport, edge_weight, len(x))))


class SheafConv(Configured):
    r"""A bank of filters on a sheaf that it learns, ``(n, in_channels) -> (n, out_channels)``: in place of ``GCNConv``.

    .. math:: Y = \sum_{k=0}^{K} (I - L(X))^k X H_k .

    Rows of x hold d vectors one after another: both numbers of channels are multiples of d, the dimension of the
    stalks. ``order`` is K; the other arguments are as of ``SheafTNN``.

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
        order: int = 1,
        filters: Sequence[Filter] | None = None,
        normalization: Degrees | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        builder, source = part(builder, SheafLearner(), SheafBuilder, "SheafLearner()"), generator(seed)
        for name, value in (("in_channels", in_channels), ("out_channels", out_channels)):
            if positive_integer(value, name) % builder.dim:
                raise InvalidInputError(f"{name} must be a multiple of {builder.dim}, dim of the stalks, got {value}.")
        self.normalization = part(normalization, ScalarDegrees(shift=1.0), Degrees, "ScalarDegrees()")
        self.builder, (bank, method) = builder.sized(in_channels, source), bank_of(order, filters)
        wide, high = in_channels // builder.dim, out_channels // builder.dim
        self.conv = BundleConv(wide, high, filters=bank, method=method, seed=source)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return outside_graphs(self._filter, x, edge_index, edge_weight)

    def _filter(self, x: Tensor, *graph: Tensor | None) -> Tensor:
        operator = self.builder(x, *graph).laplacian(self.normalization)
        return self.conv(x.unflatten(1, (operator.dim, -1)), operator).flatten(1)
