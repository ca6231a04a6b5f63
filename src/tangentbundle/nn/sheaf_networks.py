r"""Networks on sheaves that they learn: neural sheaf diffusion, and filter banks on a learned sheaf.

A perceptron turns features ``(n, in_features)`` of the nodes into a signal ``(n, d, c)`` of a sheaf; the layers act on
it through the sheaf's Laplacian; a linear map turns the last signal into outputs ``(n, out_features)``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import comb

import torch
import torch.nn.functional as F

from ..arrays import finite_where_seen, positive_integer
from ..errors import DTypeError, InvalidInputError, ShapeError
from ..filters import Chebyshev, Filter, Polynomial
from ..operators import Degrees, ScalarDegrees
from .activations import Activation, Coordinatewise
from .base import Configured, generator, linear, part, uniform
from .models import TNN
from .sheaf_maps import SheafBuilder, SheafLearner, outside_graphs

Tensor = torch.Tensor


class SheafNetwork(Configured):
    """What networks on learned sheaves share: the first and last layers, dropout, and checks of the input."""

    def __init__(
        self, in_features: int, channels: int, out_features: int, dim: int, dropout: float, source: torch.Generator
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise InvalidInputError(f"dropout must lie in [0, 1), got {dropout}.")
        self.dim, self.channels, self.dropout = dim, positive_integer(channels, "channels"), dropout
        self.encoder = linear(positive_integer(in_features, "in_features"), dim * self.channels, source)
        self.decoder = linear(dim * self.channels, positive_integer(out_features, "out_features"), source)

    @abstractmethod
    def diffuse(self, signal: Tensor, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        """The last signal ``(n, d, c)`` from the first."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.encoder.in_features:
            raise ShapeError(f"x must have shape (n, {self.encoder.in_features}), got {tuple(x.shape)}.")
        if x.dtype != self.encoder.weight.dtype:
            raise DTypeError(
                f"the network is {self.encoder.weight.dtype} but x {x.dtype}. Convert one: net.to(x.dtype)."
            )
        signal = self._drop(F.elu(self.encoder(finite_where_seen(x, "x")))).unflatten(1, (self.dim, self.channels))
        return self.decoder(self._drop(outside_graphs(self.diffuse, signal, x, edge_index, edge_weight)).flatten(1))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class SheafDiffusionLayer(torch.nn.Module):
    """One step of ``SheafDiffusion``, on a sheaf of its own."""

    def __init__(
        self,
        builder: SheafBuilder,
        channels: int,
        activation: Activation,
        normalization: Degrees,
        source: torch.Generator,
    ) -> None:
        super().__init__()
        self.builder, self.activation, self.normalization = builder, activation.sized(channels), normalization
        self.left = torch.nn.Parameter(torch.eye(builder.dim))
        self.right = uniform(channels, channels, fan_in=channels, source=source)
        self.keep = torch.nn.Parameter(torch.zeros(builder.dim, 1))

    def forward(self, signal: Tensor, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        features = x if self.builder.from_inputs else signal.flatten(1)
        operator = self.builder(features, edge_index, edge_weight).laplacian(self.normalization)
        change = operator @ (self.left @ signal @ self.right)  # the operator is -L
        return (1 + torch.tanh(self.keep)) * signal - self.activation(-change, operator)


class SheafDiffusion(SheafNetwork):
    r"""Neural sheaf diffusion (Bodnar et al., 2022): every layer learns a sheaf and takes a step of its heat flow.

    .. math:: X_{l+1} = (1 + \tanh\varepsilon_l)\, X_l - \sigma\big(L_l\, (I \otimes W_{1,l})\, X_l W_{2,l}\big),

    with :math:`L_l` the normalised Laplacian of the sheaf that ``builder`` makes of :math:`X_l`, left weights
    :math:`W_1` ``(d, d)``, right weights :math:`W_2` ``(c, c)`` and a factor :math:`\varepsilon` for each coordinate of
    the stalks.

    Args:
        in_features, out_features: of each node, in and out.
        channels: c, of the signals ``(n, d, c)`` in between.
        builder: of sheaves, default ``SheafLearner(2)``; each layer has its own one.
        layers: steps.
        activation: :math:`\sigma`, default ``Coordinatewise(elu)``.
        normalization: of the Laplacians, default ``ScalarDegrees(shift=1.0)``.
        dropout: of the first and the last signal.

    >>> import torch, tangentbundle as tb
    >>> net = tb.nn.SheafDiffusion(7, 8, 3, tb.nn.SheafLearner(3), layers=2)
    >>> edge_index = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])
    >>> net(torch.randn(4, 7), edge_index).shape
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
        activation: Activation | None = None,
        normalization: Degrees | None = None,
        dropout: float = 0.0,
        seed: int | torch.Generator = 0,
    ) -> None:
        builder, source = part(builder, SheafLearner(), SheafBuilder, "SheafLearner()"), generator(seed)
        super().__init__(in_features, channels, out_features, builder.dim, dropout, source)
        activation = part(activation, Coordinatewise(F.elu), Activation, "Coordinatewise(torch.tanh)")
        normalization = part(normalization, ScalarDegrees(shift=1.0), Degrees, "ScalarDegrees()")
        self.layers = torch.nn.ModuleList()
        for level in range(positive_integer(layers, "layers")):
            own = builder.sized(builder.dim * channels, source)
            own.name = f"layer {level}"
            self.layers.append(SheafDiffusionLayer(own, channels, activation, normalization, source))

    def diffuse(self, signal: Tensor, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        for layer in self.layers:
            signal = layer(signal, x, edge_index, edge_weight)
        return signal


def powers(order: int) -> list[Filter]:
    r"""The filters :math:`(I + \Delta)^k` for k from 0 to ``order``.

    >>> [f.coefficients for f in powers(2)]
    [(1.0,), (1.0, 1.0), (1.0, 2.0, 1.0)]
    """
    return [Polynomial([float(comb(k, j)) for j in range(k + 1)]) for k in range(order + 1)]


class SheafTNN(SheafNetwork):
    r"""A tangent bundle network on a learned sheaf: banks of filters of one Laplacian, in every layer.

    .. math:: X_{l+1} = X_l + \sigma\Big(\sum_{k=0}^{K} (I - L)^k X_l H_{l,k}\Big).

    K = 1 is the sheaf neural network of Hansen and Gebhart (2020), K > 1 a polynomial sheaf network. ``filters``
    replaces the powers by any filters, such as ``[Heat(0.0), Heat(1.0)]``.

    Args:
        order: K.
        others: as of ``SheafDiffusion``. The sheaf is made of the first signal, or of x.

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
        builder, source = part(builder, SheafLearner(), SheafBuilder, "SheafLearner()"), generator(seed)
        super().__init__(in_features, channels, out_features, builder.dim, dropout, source)
        activation = part(activation, Coordinatewise(F.elu), Activation, "Coordinatewise(torch.tanh)")
        self.normalization = part(normalization, ScalarDegrees(shift=1.0), Degrees, "ScalarDegrees()")
        self.builder = builder.sized(builder.dim * channels, source)
        bank, method = bank_of(order, filters)
        widths = [channels] * (1 + positive_integer(layers, "layers"))
        self.net = TNN(
            widths, filters=bank, activation=activation, output=activation, residual=True, method=method, seed=source
        )

    def diffuse(self, signal: Tensor, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        features = x if self.builder.from_inputs else signal.flatten(1)
        return self.net(signal, self.builder(features, edge_index, edge_weight).laplacian(self.normalization))


def bank_of(order: int, filters: Sequence[Filter] | None) -> tuple[Sequence[Filter], Chebyshev]:
    """Powers up to ``order``, or other filters, with the method for operators that change in every step."""
    if filters is not None:
        return filters, Chebyshev()
    order = positive_integer(order, "order")
    return powers(order), Chebyshev(order=order)
