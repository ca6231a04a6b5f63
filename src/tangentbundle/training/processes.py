"""The processes that train one network together, or a single one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Processes:
    """Those of a launched ``lightning_fabric.Fabric``; without one there is only this process."""

    def __init__(self, fabric: Any = None) -> None:
        self.fabric = fabric
        self.count = 1
        self.rank = 0
        if fabric is not None:
            self.count = fabric.world_size
            self.rank = fabric.global_rank

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def share(self, items: Sequence[int]) -> Sequence[int]:
        """Of the numbers of batches those that this process works on."""
        return items[self.rank :: self.count]

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        if self.count == 1:
            return value
        return self.fabric.all_reduce(value.clone(), reduce_op="sum").to(value.device)

    def any(self, flag: bool) -> bool:
        """Whether a flag is set in any process."""
        return bool(self.sum(torch.tensor(float(flag))) > 0)
