"""`DistributedBundle`: the tangent bundle of a cloud whose operator need not fit in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import pad

from ..arrays import Array, ArrayKind, finite, float_tensor, positive_integer
from ..bundle_operators import BundleSignals
from ..errors import InvalidInputError, ShapeError
from ..files import only_writer, write_atomically
from ..filters import Chebyshev, Filter
from ..geometry.dimension import DimensionRule
from ..geometry.kernels import Kernel, check_kernel
from ..geometry.pipeline import Scale, sorted_cloud
from ..operators import Generator
from ..operators.calibration import calibrated_scale
from ..operators.expansion import Band, expand
from ..operators.moments import chebyshev_moments
from ..operators.product import recurrence
from .cloud import Geometry, PartitionedCloud, load_array, save_array
from .matrix import PartitionedMatrix, build_all, component_labels, resolve_geometry

MAX_PARTITION = 500_000
"""Points of a partition, which needs a few hundred MB."""


@dataclass(frozen=True)
class DistributedBundle(BundleSignals):
    r"""The tangent bundle of points, in partitions along a space-filling curve, computed on Dask.

    The same mathematics as ``TangentBundle.from_points`` and ``Chebyshev``. Points and signals are
    in memory; the operator, some ten times as large, stays on disk, in ``folder``, and a task holds
    the rows of one partition. Tasks run on threads of this machine, or on a cluster's workers where
    a ``distributed.Client`` is connected (the workers must see the folder). What is already in the
    folder is not built again.

    >>> import tempfile, tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> points = sphere.sample(3000, seed=0)
    >>> vectors = sphere.gradient_field(points, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     large = tb.distributed.DistributedBundle.from_points(
    ...         points, folder, neighbors=24, partition=1000
    ...     )
    ...     smooth = large.to_ambient(large.filter(tb.Heat(0.1), large.to_coordinates(vectors)))
    >>> bundle = tb.TangentBundle.from_points(points, neighbors=24)
    >>> once = bundle.to_ambient(tb.Heat(0.1)(bundle.laplacian(), bundle.to_coordinates(vectors)))
    >>> bool(np.abs(smooth - once).max() < 1e-5)
    True
    """

    cloud: PartitionedCloud
    curve_order: np.ndarray
    sorted_points: np.ndarray
    sorted_frames: np.ndarray
    kind: ArrayKind
    generator: Generator

    @classmethod
    def from_points(
        cls,
        points: Array,
        folder: str | os.PathLike,
        *,
        dim: int | DimensionRule | None = None,
        eps: float | None = None,
        neighbors: int | None = None,
        eps_pca: float | None = None,
        kernel: Kernel | None = None,
        partition: int = MAX_PARTITION,
    ) -> DistributedBundle:
        """Build the bundle of points ``(n, D)``.

        Args:
            folder: for frames and the operator; on a cluster all workers must see it.
            dim, eps, neighbors, eps_pca, kernel: as of ``TangentBundle.from_points``; the automatic
                scale has its number of neighbours, but is not widened to connect the graph.
            partition: points of a partition. The default needs a few hundred MB a task.
        """
        asked, (x, order, kind) = Scale(eps, neighbors, eps_pca), sorted_cloud(points)
        digest = hashlib.sha256(x.data).hexdigest()
        settings = (
            f"{len(x)} points ({digest[:16]}), {positive_integer(partition, 'partition')} "
            "in a partition"
        )
        geometry = resolve_geometry(
            x, dim, asked, check_kernel(kernel), kind.numpy_dtype, partition
        )
        with only_writer(folder) as place:
            place = place.absolute()
            _claim(place, settings)
            cloud = PartitionedCloud.write(place, x, order, partition, geometry)
            build_all(cloud)
            return cls(cloud, order, x, cloud.joined("frames"), kind, _generator(cloud))

    @property
    def num_parts(self) -> int:
        return self.cloud.num_parts

    @property
    def geometry(self) -> Geometry:
        return self.cloud.geometry

    @property
    def dim(self) -> int:
        return self.geometry.dim

    rank = dim

    @property
    def eps(self) -> float:
        return self.geometry.eps

    @cached_property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each point along the curve, ``(n,)``."""
        ends = (load_array(self.cloud.part("indptr", p)) for p in range(self.num_parts))
        return np.concatenate([np.diff(each) for each in ends])

    @property
    def edges(self) -> int:
        """Directed edges: each pair of neighbours counts twice."""
        return int(self.degrees.sum())

    def __repr__(self) -> str:
        return (
            f"DistributedBundle({self.num_points} points in {self.num_parts} partitions, "
            f"dim={self.dim}, eps={self.eps:.4g}, {self.edges / self.num_points:.1f} neighbours "
            f"per point, {self.geometry.kernel})"
        )

    def filter(self, filters: Filter | Sequence[Filter], signal: Array) -> np.ndarray:
        """Filter a signal ``(n, d, c)``; the results of a bank, which shares one recurrence, are
        ``(k, n, d, c)``."""
        bank = [filters] if isinstance(filters, Filter) else list(filters)
        if not bank or not all(isinstance(h, Filter) for h in bank):
            raise InvalidInputError(
                f"filters must be a Filter such as Heat(0.1), or a list of them, got {filters!r}."
            )
        given = finite(float_tensor(signal, "signal")[0].to(self.kind.dtype), "signal")
        if given.ndim != 3 or given.shape[:2] != (self.num_points, self.dim):
            expected = f"({self.num_points}, {self.dim}, channels)"
            raise ShapeError(f"signal must have shape {expected}, got {tuple(given.shape)}.")
        coefficients = expand(bank, Band(self.generator), Chebyshev.tol).detach().tolist()
        x = given[self.curve_order]
        sums = [column[0] * x for column in coefficients]
        matrix = PartitionedMatrix(self.cloud)
        with only_writer(self.cloud.folder):
            for m, term in recurrence(matrix, x, x, range(1, len(coefficients[0]))):
                for total, column in zip(sums, coefficients, strict=True):
                    total.add_(term, alpha=column[m])
        results = [self._unsorted(total.numpy()) for total in sums]
        return results[0] if isinstance(filters, Filter) else np.stack(results)


def _generator(cloud: PartitionedCloud) -> Generator:
    """That of ``TangentBundle.laplacian()``, computed once for a folder."""
    geometry = cloud.geometry

    def moments(terms: int) -> np.ndarray:
        place = cloud.place("calibration-by-component").with_suffix(".npy")
        if not place.exists():
            labels = component_labels(cloud)
            x = cloud.points - component_means(cloud.points, labels)
            signal = pad(torch.from_numpy(x), (0, -x.shape[1] % 4))[:, None, :]  # fours are fast
            mass = torch.from_numpy(cloud.joined("mass"))
            matrix = PartitionedMatrix(cloud, functions=True)
            by_coordinate = chebyshev_moments(matrix, mass / mass.sum(), signal, terms)
            save_array(place, by_coordinate.sum(axis=1))
        return load_array(place)

    constant = geometry.kernel.calibration(geometry.dim)
    return Generator(*calibrated_scale(True, constant, geometry.eps, geometry.dim, moments))


def component_means(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The mean of the component of each point, ``(n, D)``, from the numbers of the components
    ``(n,)``.

    >>> component_means(np.array([[0.0], [2.0], [7.0]]), np.array([0, 0, 1])).ravel().tolist()
    [1.0, 1.0, 7.0]
    """
    counts = np.bincount(labels)
    means = np.stack([np.bincount(labels, column) / counts for column in points.T], axis=1)
    return means[labels]


def _claim(folder: Path, settings: str) -> None:
    """Refuse a folder with other partitions."""
    note = folder / "partitions.txt"
    if note.exists() and note.read_text() != settings:
        raise InvalidInputError(
            f"{folder} holds other partitions ({note.read_text()}), wanted {settings}. Choose "
            "another folder, or delete it."
        )
    write_atomically(note, settings.encode())
