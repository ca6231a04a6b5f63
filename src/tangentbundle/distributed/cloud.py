"""A cloud in partitions along a space-filling curve: their files, and tasks on Dask that read and
write these.

Tasks run on threads of this machine, or on the workers of a cluster where a ``distributed.Client``
is connected. Files are renamed into place once they are complete: a task whose worker died can be
repeated, and one that was done already is skipped.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ..errors import DamagedFileError
from ..extras import extra
from ..files import replacing
from ..geometry.cloud import PointCloud
from ..geometry.frames import PCASettings
from ..geometry.kernels import Kernel

LOG = logging.getLogger("tangentbundle.distributed")
"""Reports, at the level INFO, which tasks were run and how long they took."""


def save_array(path: Path, array: np.ndarray) -> None:
    """Write a ``.npy`` file, of which others see all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as place:
        np.save(place, array)


def load_array(path: Path, mode: Literal["r", "c"] = "r") -> np.ndarray:
    """A ``.npy`` file, memory-mapped: read-only, or copied where it is written."""
    try:
        return np.load(path, mmap_mode=mode, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DamagedFileError(
            f"{path} is missing or damaged ({error}). Delete its folder and start anew."
        ) from error


@dataclass(frozen=True)
class Geometry:
    """Dimension, squared radius of the graph, settings of the PCA, kernel and precision."""

    dim: int
    eps: float
    settings: PCASettings
    kernel: Kernel
    dtype: torch.dtype

    @property
    def eps_pca(self) -> float:
        """Squared radius of the local PCA."""
        return self.settings.squared_radius(self.eps, self.dim)


@dataclass(frozen=True)
class PartitionedCloud:
    """Points along the curve, in files of a folder. Partition p has those from ``offsets[p]`` to
    ``offsets[p + 1]``."""

    folder: Path
    offsets: np.ndarray = field(repr=False)
    geometry: Geometry

    @classmethod
    def write(
        cls, folder: Path, cloud: PointCloud, partition: int, geometry: Geometry
    ) -> PartitionedCloud:
        """Write sorted points, and their user's numbers, for workers to read.

        Partitions have about that size, and none is empty.
        """
        n = len(cloud)
        num_parts = max(1, round(n / partition))
        # the same points may come in another order
        save_array(folder / "order.npy", cloud.curve_order.numpy())
        if not (folder / "points.npy").exists():
            save_array(folder / "points.npy", cloud.points.numpy())
        return cls(folder, n * np.arange(num_parts + 1) // num_parts, geometry)

    def __reduce__(self) -> tuple:
        """Workers map the files themselves."""
        return PartitionedCloud, (self.folder, self.offsets, self.geometry)

    @property
    def num_parts(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def cloud(self) -> PointCloud:
        """All points along the curve, mapped from their file."""
        points = np.asarray(load_array(self.folder / "points.npy", "c"))
        order = np.asarray(load_array(self.folder / "order.npy", "c"))
        return PointCloud(torch.from_numpy(points), torch.from_numpy(order))

    def rows(self, p: int) -> slice:
        """The points of a partition."""
        return slice(*self.offsets[p : p + 2].tolist())

    def place(self, name: str) -> Path:
        """Where something is that depends on the geometry; a folder may hold files of several."""
        digest = hashlib.sha256(repr(self.geometry).encode()).hexdigest()
        return self.folder / f"{name}-{digest[:12]}"

    def part(self, name: str, p: int) -> Path:
        """The file of a partition."""
        return self.place(name) / f"{p:06d}.npy"

    def joined(self, name: str) -> np.ndarray:
        """The rows of all partitions."""
        return np.concatenate([load_array(self.part(name, p)) for p in range(self.num_parts)])

    def gather(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Rows of sorted numbers, from the files of all partitions they are in."""
        ends = itertools.pairwise(np.searchsorted(numbers, self.offsets))
        rows_of_parts = []
        for p, (first, last) in enumerate(ends):
            if last > first:
                own = numbers[first:last] - self.offsets[p]
                rows_of_parts.append(load_array(self.part(name, p))[own])
        return np.concatenate(rows_of_parts)


def dask() -> Any:
    return extra("dask", "Filtering large clouds", "cluster")


def on_cluster() -> bool:
    """Whether tasks run on the workers of a cluster, which share no memory with this process."""
    return hasattr(dask().base.get_scheduler(), "__self__")  # a method of the client


def run_all(function: Callable[..., Any], arguments: Iterable[tuple]) -> tuple[Any, ...]:
    """The function of each tuple of arguments, in any order; results in order. A task that fails is
    tried again.

    >>> run_all(max, [(1, 2), (4, 3)])
    (2, 4)
    """
    started = time.perf_counter()
    # Dask would search plain arguments
    tasks = [dask().delayed(partial(function, *each))() for each in arguments]
    results = dask().compute(*tasks, retries=2)
    LOG.info("%s: %d tasks, %.1f s", function.__name__, len(tasks), time.perf_counter() - started)
    return results
