r"""A network that looks from a place at the points around it.

A place has features :math:`o` and so has each of its k neighbours, :math:`t_j`. Features of both meet in
:math:`z_j = W\,\mathrm{gelu}(A t_j + B o)`, and the place's state attends to itself and to them:

.. math:: x \leftarrow x + \sum_h V_h \sum_j \mathrm{softmax}_j(z_j^T Q_h x)\, z_j, \qquad
          x \leftarrow x + \mathrm{mlp}(x), \qquad y = C x + L\,[o, t_1, \dots, t_k] .

Only the place asks, and keys and values are the neighbours themselves: nothing is multiplied k times. The
linear path L takes neighbours in the order of distance; training begins with C and L at zero.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from ..training import Loss, fit

HEADS = 4

EPOCHS, DECAY = 30, 0.1
"""Of a training: stretches of one rate, and the decay of weights."""


class NeighborAttention(nn.Module):
    """From features ``(B, own)`` of places and ``(B, k, token)`` of their neighbours to outputs ``(B, out)``.

    >>> net = NeighborAttention(own=5, token=3, neighbors=8, out=2, width=16, layers=1, dropout=0.1)
    >>> net(torch.randn(7, 5), torch.randn(7, 8, 3)).shape
    torch.Size([7, 2])
    """

    def __init__(self, own: int, token: int, neighbors: int, out: int, width: int, layers: int, dropout: float):
        super().__init__()
        self.start = nn.Sequential(nn.Linear(own, width), nn.GELU(), nn.Linear(width, width))
        self.place, self.token, self.meet = nn.Linear(own, width), nn.Linear(token, width), nn.Linear(width, width)
        self.layers = nn.ModuleList([_Layer(width, dropout) for _ in range(layers)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, out)
        self.linear = nn.Linear(own + neighbors * token, out)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.linear.weight)

    def forward(self, own: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        x = self.start(own)
        seen = self.meet(nn.functional.gelu(self.token(tokens) + self.place(own)[:, None]))
        seen = torch.cat([x[:, None], seen], dim=1)
        for layer in self.layers:
            x = layer(x, seen)
        return self.out(self.norm(x)) + self.linear(torch.cat([own, tokens.flatten(1)], dim=1))


class _Layer(nn.Module):
    """States ``(B, width)`` attend to what they see ``(B, k, width)``; then each by itself."""

    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.query = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, HEADS * width))
        self.merge, self.drop = nn.Linear(HEADS * width, width), nn.Dropout(dropout)
        self.alone = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width),
        )

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        query = self.query(x).unflatten(1, (HEADS, -1)) / math.sqrt(x.shape[1])
        weights = (query @ seen.mT).softmax(dim=2)
        x = x + self.drop(self.merge((weights @ seen).flatten(1)))
        return x + self.drop(self.alone(x))


def train(net: nn.Module, loss: Loss, steps: int, lr: float) -> None:
    """So many steps with a loss that draws its own batches; the rate rises for a tenth of them, then falls to zero."""
    passes = min(EPOCHS, steps)
    fit(
        net,
        range(-(-steps // passes)),
        loss,
        epochs=passes,
        clip=1.0,
        optimizer=lambda p: torch.optim.AdamW(p, lr=lr, weight_decay=DECAY, foreach=True),
        schedule=lambda epoch: min((epoch + 1) / 3, 0.5 + 0.5 * math.cos(math.pi * epoch / passes)),
        progress=False,
    )
