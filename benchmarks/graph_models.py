"""Networks for node classification to compare with: perceptrons, and graph convolutions between the
same two layers.

The convolutions are those of PyTorch Geometric where it is installed, otherwise the same formulas
in plain torch, with the same names of parameters (``tests/test_benchmarks_sheaves.py`` compares
them).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

HEADS = 4


class PlainConv(torch.nn.Module):
    """A graph convolution on ``edge_index`` (2, e), source above target, both directions listed."""

    loops = True

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(outputs))

    def ends(self, x: torch.Tensor, edge_index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sources and targets, with an edge from each node to itself."""
        nodes = torch.arange(len(x), device=x.device)
        return torch.cat([edge_index[0], nodes]), torch.cat([edge_index[1], nodes])


def total(values: torch.Tensor, target: torch.Tensor, n: int) -> torch.Tensor:
    """Sums of the values of edges at their targets."""
    return values.new_zeros(n, *values.shape[1:]).index_add(0, target, values)


class PlainGCN(PlainConv):
    r""":math:`D^{-1/2} (A + I) D^{-1/2} X W + b`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.lin = torch.nn.Linear(inputs, outputs, bias=False)
        torch.nn.init.xavier_uniform_(self.lin.weight)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = self.ends(x, edge_index)
        root = total(torch.ones_like(target, dtype=x.dtype), target, len(x)).rsqrt()
        weights = (root.index_select(0, source) * root.index_select(0, target))[:, None]
        return total(weights * self.lin(x).index_select(0, source), target, len(x)) + self.bias


class PlainSAGE(torch.nn.Module):
    """The mean of neighbours and the node itself, each with its own weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin_l = torch.nn.Linear(inputs, outputs)
        self.lin_r = torch.nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = edge_index
        degrees = total(torch.ones_like(target, dtype=x.dtype), target, len(x)).clamp_min(1)[
            :, None
        ]
        return self.lin_l(total(x.index_select(0, source), target, len(x)) / degrees) + self.lin_r(
            x
        )


class PlainGAT(PlainConv):
    """Attention over neighbours and the node itself, with several heads side by side."""

    def __init__(self, inputs: int, outputs: int, heads: int = HEADS) -> None:
        super().__init__(inputs, heads * outputs)
        self.lin = torch.nn.Linear(inputs, heads * outputs, bias=False)
        self.att_src, self.att_dst = (
            torch.nn.Parameter(torch.empty(1, heads, outputs)) for _ in range(2)
        )
        for weight in (self.lin.weight, self.att_src, self.att_dst):
            torch.nn.init.xavier_uniform_(weight)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = self.ends(x, edge_index)
        h = self.lin(x).unflatten(1, self.att_src.shape[1:])
        scores = (h * self.att_src).sum(-1).index_select(0, source) + (h * self.att_dst).sum(
            -1
        ).index_select(0, target)
        scores = F.leaky_relu(scores, 0.2)
        top = scores.new_full((len(x), scores.shape[1]), -torch.inf)
        top = top.scatter_reduce(
            0, target[:, None].expand_as(scores), scores.detach(), "amax"
        ).index_select(0, target)
        shares = (scores - top).exp()
        shares = shares / (total(shares, target, len(x)).index_select(0, target) + 1e-16)
        mixed = total(shares[..., None] * h.index_select(0, source), target, len(x))
        return mixed.flatten(1) + self.bias


PLAIN = {"GCN": PlainGCN, "GraphSAGE": PlainSAGE, "GAT": PlainGAT}

try:
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

    LIBRARY = "torch_geometric"
    CONVOLUTIONS: dict[str, Callable] = {
        "GCN": partial(GCNConv, cached=True),
        "GraphSAGE": SAGEConv,
        "GAT": GATConv,
    }
except ImportError:
    LIBRARY = "plain torch"
    CONVOLUTIONS = dict(PLAIN)


def convolution(name: str, width: int, kinds: dict[str, Callable] | None = None) -> torch.nn.Module:
    """A convolution that keeps the number of features."""
    kind = (kinds or CONVOLUTIONS)[name]
    return kind(width, width // HEADS, heads=HEADS) if name == "GAT" else kind(width, width)


class Mix(torch.nn.Linear):
    """A perceptron's layer: a convolution that uses no edges."""

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(x)


class Blocks(torch.nn.Module):
    """A linear layer, blocks ``h + dropout(elu(conv(norm(h)) [+ own(norm(h))]))``, and a linear
    layer."""

    def __init__(
        self,
        conv: Callable[[], torch.nn.Module],
        inputs: int,
        width: int,
        outputs: int,
        layers: int,
        dropout: float,
        own: bool = False,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.encoder, self.decoder = torch.nn.Linear(inputs, width), torch.nn.Linear(width, outputs)
        self.convs = torch.nn.ModuleList([conv() for _ in range(layers)])
        self.owns = torch.nn.ModuleList(
            [torch.nn.Linear(width, width) for _ in range(layers if own else 0)]
        )
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width) for _ in range(layers)])

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        h = F.dropout(F.elu(self.encoder(x)), self.dropout, self.training)
        for level, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            normal = norm(h)
            change = conv(normal, edge_index)
            if self.owns:
                change = change + self.owns[level](normal)
            h = h + F.dropout(F.elu(change), self.dropout, self.training)
        return self.decoder(h)
