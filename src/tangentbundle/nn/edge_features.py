r"""A layer whose messages depend on features of the edges."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..arrays import positive_integer
from ..errors import DTypeError, ShapeError
from .base import (
    Configured,
    generator,
    linear_layer,
    require_full_precision,
    uniform_weights,
)
from .sheaf_inputs import widened


class EdgeFeatureConv(Configured):
    r"""Vectors of the neighbours, transported, and weighed by a perceptron of the features of their
    edges: ``(n, d, in_channels) -> (n, d, out_channels)``.

    .. math:: y_i = x_i A + \frac{1}{|N_i|} \sum_{j \in N_i} \varphi(a_{ij}) \odot O_{ij} x_j B

    with a factor for each channel :math:`\varphi(a_{ij})`. Features are numbers that depend on no
    frames: distances, kinds of bonds, differences of functions at both ends. Features s of the
    nodes enter as ``torch.cat([s[source], s[target]], dim=1)``.

    Args:
        in_channels, out_channels: of the vectors before and after.
        edge_channels: features of an edge.
        hidden: units of the perceptron.
        seed: of the initial weights.

    ``forward`` takes ``x``, ``edge_index`` (2, e) and ``transport`` (e, d, d) from source to
    target, as ``AttachBundle`` gives them, and ``edge_features`` (e, edge_channels).

    >>> import torch, tangentbundle as tb
    >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
    >>> conv = tb.nn.EdgeFeatureConv(1, 8, edge_channels=3)
    >>> conv(torch.randn(2, 2, 1), torch.tensor([[0], [1]]), turn, torch.randn(1, 3)).shape
    torch.Size([2, 2, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_channels: int,
        hidden: int = 16,
        *,
        seed: int | torch.Generator = 0,
    ) -> None:
        super().__init__()
        self.in_channels = positive_integer(in_channels, "in_channels")
        self.edge_channels = positive_integer(edge_channels, "edge_channels")
        out_channels = positive_integer(out_channels, "out_channels")
        hidden = positive_integer(hidden, "hidden")
        source = generator(seed)
        self.first = linear_layer(edge_channels, hidden, source)
        self.second = linear_layer(hidden, in_channels, source)
        self.own = uniform_weights(in_channels, out_channels, fan_in=in_channels, source=source)
        self.neighbors = uniform_weights(
            in_channels, out_channels, fan_in=in_channels, source=source
        )

    def forward(
        self, x: Tensor, edge_index: Tensor, transport: Tensor, edge_features: Tensor
    ) -> Tensor:
        x = widened(x)
        transport = widened(transport)
        edge_features = widened(edge_features)
        self._check(x, edge_index, transport, edge_features)
        source, target = edge_index
        factors = self.second(F.silu(self.first(edge_features)))
        transported = torch.einsum("eij,ejc->eic", transport, x[source])
        messages = (factors[:, None] * transported).to(x.dtype)
        sums = torch.zeros_like(x).index_add(0, target, messages)
        counts = torch.bincount(target, minlength=len(x)).clamp_min(1)
        means = sums / counts[:, None, None]
        return x @ self.own + means @ self.neighbors

    def _check(
        self, x: Tensor, edge_index: Tensor, transport: Tensor, edge_features: Tensor
    ) -> None:
        require_full_precision(self.own)
        if x.ndim != 3 or x.shape[2] != self.in_channels:
            raise ShapeError(f"x must have shape (n, d, {self.in_channels}), got {tuple(x.shape)}.")
        rank = x.shape[1]
        count = edge_index.shape[-1]
        if edge_index.shape != (2, count) or transport.shape != (count, rank, rank):
            raise ShapeError(
                f"edge_index and transport must have shapes (2, e) and (e, {rank}, {rank}), got "
                f"{tuple(edge_index.shape)} and {tuple(transport.shape)}."
            )
        if edge_features.shape != (count, self.edge_channels):
            raise ShapeError(
                f"edge_features must have shape (e, edge_channels) = ({count}, "
                f"{self.edge_channels}), got {tuple(edge_features.shape)}."
            )
        for name, tensor in {"x": x, "transport": transport, "features": edge_features}.items():
            if tensor.dtype != self.own.dtype:
                raise DTypeError(
                    f"the layer is {self.own.dtype} but {name} {tensor.dtype}. Convert one: "
                    "net.to(x.dtype)."
                )
