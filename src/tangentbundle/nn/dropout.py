"""Dropout of whole vectors."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..operators import SquareOperator
from .base import Configured, check_dropout


class VectorDropout(Configured):
    """Dropout of whole vectors: in training each vector of each channel is zero with probability
    ``p``, and longer by 1 / (1 - p) otherwise.

    ``torch.nn.Dropout`` drops single components, which depend on the frames.

    >>> import torch, tangentbundle as tb
    >>> y = tb.nn.VectorDropout(0.5)(torch.ones(1000, 2, 4))
    >>> torch.equal(y[:, 0], y[:, 1]), sorted(set(y.flatten().tolist()))
    (True, [0.0, 2.0])
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = check_dropout(p)

    def forward(self, x: torch.Tensor, operator: SquareOperator | None = None) -> torch.Tensor:
        if not self.training or self.p == 0.0:
            return x
        factors = F.dropout(torch.ones_like(x[..., :1, :]), self.p)
        return x * factors

    def extra_repr(self) -> str:
        return f"p={self.p:g}"
