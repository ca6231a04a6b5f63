"""Layers for PyTorch Geometric, ``forward(x, edge_index, ...)``: plain torch modules, which do not import it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..arrays import positive_integer
from ..errors import InvalidInputError, ShapeError
from ..filters import Filter, Method
from ..operators import Degrees, ScalarDegrees
from ..sheaf import Sheaf
from .base import Configured, generator, part
from .conv import BundleConv, Learnable
from .sheaf_maps import Remembered, SheafBuilder, SheafLearner, outside_graphs
from .sheaf_networks import bank_of

Tensor = torch.Tensor


def _connection(edge_index: Tensor, transport: Tensor, edge_weight: Tensor | None, n: int):
    return Sheaf.from_edges(edge_index, transport, edge_weight, n).laplacian(ScalarDegrees())


class TangentConv(Configured):
    r"""``BundleConv`` on the connection Laplacian of a graph with transports, ``(n, d, in) -> (n, d, out)``.

    .. math:: Y = \sum_{k=0}^{K-1} e^{-kT_s L} X H_k, \qquad
              (L f)_i = f_i - \sum_j \frac{w_{ij}}{\sqrt{\deg_i \deg_j}}\, O_{ij} f_j.

    The operator is built when a graph is first seen and cached while its ``edge_index`` lives. A change of the frames
    at all nodes changes the output alike. Arguments as of ``BundleConv``.

    Shapes: ``x`` (n, d, in), ``edge_index`` (2, e), ``transport`` (e, d, d) from source to target and ``edge_weight``
    (e,), as ``AttachBundle`` gives them. For the calibrated Laplacian of points use ``BundleConv`` and
    ``laplacian_of(batch)``.

    >>> import torch, tangentbundle as tb
    >>> conv = tb.nn.TangentConv(1, 8)
    >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
    >>> conv(torch.randn(2, 2, 1), torch.tensor([[0], [1]]), turn).shape
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
        method: Method | None = None,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.conv = BundleConv(in_channels, out_channels, taps, step, filters=filters, method=method, seed=seed)
        self.connection = Remembered(_connection)

    def forward(self, x: Tensor, edge_index: Tensor, transport: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if x.ndim != 3:
            raise ShapeError(f"x must have shape (n, d, channels), got {tuple(x.shape)}.")
        return outside_graphs(self._filter, x, edge_index, transport, edge_weight)

    def _filter(self, x: Tensor, edge_index: Tensor, transport: Tensor, edge_weight: Tensor | None) -> Tensor:
        return self.conv(x, self.connection(edge_index, transport, edge_weight, len(x)))


class SheafConv(Configured):
    r"""A bank of filters on a sheaf that it learns, ``(n, in_channels) -> (n, out_channels)``: in place of ``GCNConv``.

    .. math:: Y = \sum_{k=0}^{K} (I - L(X))^k X H_k .

    Both numbers of channels are multiples of the dimension d of the stalks: a row of x holds d vectors of channels.

    Args:
        builder: default ``SheafLearner(2)``, or ``ConnectionSheaf(2)``.
        order: K, the number of hops.
        filters: instead of the powers up to K.
        normalization: of the Laplacian, default ``ScalarDegrees(shift=1.0)``.

    >>> import torch, tangentbundle as tb
    >>> conv = tb.nn.SheafConv(16, 32)
    >>> conv(torch.randn(3, 16), torch.tensor([[0, 1], [1, 2]])).shape
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
                raise InvalidInputError(
                    f"{name} must be a multiple of the stalks' dimension {builder.dim}, got {value}."
                )
        self.normalization = part(normalization, ScalarDegrees(shift=1.0), Degrees, "ScalarDegrees()")
        self.builder, (bank, method) = builder.sized(in_channels, source), bank_of(order, filters)
        wide, high = in_channels // builder.dim, out_channels // builder.dim
        self.conv = BundleConv(wide, high, filters=bank, method=method, seed=source)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return outside_graphs(self._filter, x, edge_index, edge_weight)

    def _filter(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
        operator = self.builder(x, edge_index, edge_weight).laplacian(self.normalization)
        return self.conv(x.unflatten(-1, (operator.dim, -1)), operator).flatten(1)
