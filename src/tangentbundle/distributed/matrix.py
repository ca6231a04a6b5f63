"""The average P in files: one step of a recurrence is a task for each partition."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
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
        """The rows of a partition, numbered from zero; columns are rows of the complete signal."""
        names = ("indptr", "cols", "values")
        files = (load_array(self.cloud.part(self.geometry.of(name), p), "c") for name in names)
        indptr, cols, values = map(torch.from_numpy, files)  # copied on write: torch wants writable pages
        if self.functions:  # the maps are orthogonal: their size is the weight
            size = values.double().flatten(1).norm(dim=1) / (values.shape[1] ** 0.5 if values.ndim == 3 else 1.0)
            cols, values = torch.where(cols < 0, ~cols, cols), size[:, None, None]
        return BlockMatrix(indptr, cols, values, torch.arange(len(indptr) - 1, dtype=torch.int32))

    def product(self, p: int, signal: np.ndarray | Path, factor: float) -> torch.Tensor:
        """The rows of ``factor P x`` in a partition, from all of the signal x, or its file."""
        x = torch.from_numpy(load_array(signal, "c") if isinstance(signal, Path) else signal)
        matrix = self.part(p)
        out = x.new_empty((len(matrix.order), *x.shape[1:]))
        step(matrix, x, x, out, (factor, 0.0, 0.0))
        return out


@step.register
def _step_in_parts(matrix: PartitionedMatrix, x, z, out, scalars, sources=None, targets=None) -> None:
    """A step without a multiple of x; on a cluster the signal is a file of the folder while it is needed."""
    cloud, (alpha, _, gamma) = matrix.cloud, scalars
    signal: np.ndarray | Path = x.numpy()
    if on_cluster():
        signal = cloud.folder / f"signal-{uuid.uuid4().hex}.npy"
        save_array(signal, x.numpy())
    products = run_all(matrix.product, [(p, signal, alpha) for p in range(cloud.num_parts)])
    for p, rows in enumerate(products):
        torch.add(rows, z[cloud.rows(p)], alpha=gamma, out=out[cloud.rows(p)])
    if isinstance(signal, Path):
        signal.unlink()
