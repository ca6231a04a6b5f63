"""Training by several processes, through Lightning Fabric."""

from __future__ import annotations

from typing import Any

import torch


class Distribution:
    """Sums over processes: those of a launched ``lightning_fabric.Fabric``, or a single one."""

    def __init__(self, fabric: Any = None) -> None:
        self.fabric = fabric
        self.size: int = 1 if fabric is None else fabric.world_size
        self.rank: int = 0 if fabric is None else fabric.global_rank

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        return value if self.size == 1 else self.fabric.all_reduce(value.clone(), reduce_op="sum").to(value.device)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return bool(self.sum(torch.tensor(float(flag))) > 0)

    def sum_gradients(self, parameters: list[torch.nn.Parameter]) -> None:
        """Replace gradients by their sums; a process without batches in this step has none."""
        for p in parameters if self.size > 1 else []:
            p.grad = self.sum(torch.zeros_like(p) if p.grad is None else p.grad)
