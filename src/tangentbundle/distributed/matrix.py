"""The average P in files: a step of a recurrence reads one partition after the other, or is a task for each."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from ..operators.product import step
from ..operators.storage import BlockMatrix
from .build import Geometry
from .cloud import PartitionedCloud, load_array, save_array
from .tasks import on_cluster, run_all


@dataclass(frozen=True)
class PartitionedMatrix:
    """P of fields, or the average of ``functions`` with the same weights; signals are sorted along the curve."""

    cloud: PartitionedCloud
    geometry: Geometry
    functions: bool = False

    def part(self, p: int) -> BlockMatrix:
        """The rows of a partition; its files are mapped, not read."""
        names = ("indptr", "neighbors", "factors") if self.functions else ("indptr", "cols", "values")
        files = (load_array(self.cloud.part(self.geometry.of(name), p), "c") for name in names)
        indptr, cols, values = map(torch.from_numpy, files)  # copied on write: torch wants writable pages
        own = self.cloud.rows(p)
        return BlockMatrix(indptr, cols, values, torch.arange(own.start, own.stop, dtype=torch.int32))

    @cached_property
    def parts(self) -> list[BlockMatrix]:
        """All partitions, mapped once: of a process's pages the system drops those that do not fit in memory."""
        return [self.part(p) for p in range(self.cloud.num_parts)]

    def rows_of_step(self, p: int, signals: Path, scalars: tuple[float, float, float]) -> torch.Tensor:
        """The rows of a partition of a step, from the file of its signals x and z."""
        x, z = torch.from_numpy(load_array(signals, "c"))
        out = torch.empty_like(x)
        step(self.part(p), x, z, out, scalars)
        return out[self.cloud.rows(p)].clone()


@step.register
def _step_in_parts(matrix: PartitionedMatrix, x, z, out, scalars, sources=None, targets=None) -> None:
    """On this machine the threads share a partition; on a cluster the signals are in a file of the folder meanwhile."""
    if not on_cluster():
        for part in matrix.parts:
            step(part, x, z, out, scalars, sources, targets)
        return
    cloud = matrix.cloud
    signals = cloud.folder / f"signal-{uuid.uuid4().hex}.npy"
    save_array(signals, np.stack([x, z]))
    for p, rows in enumerate(run_all(matrix.rows_of_step, [(p, signals, scalars) for p in range(cloud.num_parts)])):
        out[cloud.rows(p)] = rows
    signals.unlink()
