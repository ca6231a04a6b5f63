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

from ..arrays import Array, ArrayKind, finite, float_tensor, points_tensor, positive_integer
from ..errors import InvalidInputError, ShapeError
from ..files import only_writer, write_atomically
from ..filters import Chebyshev, Filter
from ..geometry.cloud import PointCloud
from ..geometry.dimension import DimensionRule
from ..geometry.frames import PCASettings, TangentFrames
from ..geometry.kernels import Kernel, check_kernel
from ..geometry.scale import scale_from
from ..operators import Generator
from ..operators.calibration import calibrated_scale
from ..operators.expansion import Band, expand
from ..operators.moments import chebyshev_moments
from ..operators.product import recurrence
from ..signals import BundleSignals
from .cloud import Geometry, PartitionedCloud, load_array, save_array
from .matrix import (
    FILES_OF_FUNCTIONS,
    PartitionedMatrix,
    build_all,
    component_labels,
    resolve_geometry,
)

MAX_PARTITION = 500_000
"""Points of a partition, which needs a few hundred MB."""


@dataclass(frozen=True, kw_only=True)
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

    cloud: PointCloud
    partitions: PartitionedCloud
    tangent_frames: TangentFrames
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
        scale = scale_from(eps, neighbors)
        settings = PCASettings(eps_pca)
        partition = positive_integer(partition, "partition")
        values, kind = points_tensor(points, "points")
        cloud = PointCloud.from_tensor(values.cpu())
        geometry = resolve_geometry(
            cloud,
            dim=dim,
            scale=scale,
            settings=settings,
            kernel=check_kernel(kernel),
            dtype=kind.dtype,
            partition=partition,
        )
        digest = hashlib.sha256(cloud.points.numpy().data).hexdigest()
        with only_writer(folder) as place:
            place = place.absolute()
            _claim(place, f"{len(cloud)} points ({digest[:16]}), {partition} in a partition")
            partitions = PartitionedCloud.write(place, cloud, partition, geometry)
            build_all(partitions)
            return cls(
                cloud=cloud,
                partitions=partitions,
                tangent_frames=TangentFrames(torch.from_numpy(partitions.joined("frames"))),
                kind=kind,
                generator=_generator(partitions),
            )

    @property
    def num_parts(self) -> int:
        return self.partitions.num_parts

    @property
    def geometry(self) -> Geometry:
        return self.partitions.geometry

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
        files = [self.partitions.part("indptr", p) for p in range(self.num_parts)]
        return np.concatenate([np.diff(load_array(file)) for file in files])

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
        if isinstance(filters, Filter):
            return self.filter([filters], signal)[0]
        bank = list(filters)
        if not bank or not all(isinstance(h, Filter) for h in bank):
            raise InvalidInputError(
                f"filters must be a Filter such as Heat(0.1), or a list of them, got {filters!r}."
            )
        values = finite(float_tensor(signal, "signal")[0].to(self.kind.dtype), "signal")
        if values.ndim != 3 or values.shape[:2] != (self.num_points, self.dim):
            expected = f"({self.num_points}, {self.dim}, channels)"
            raise ShapeError(f"signal must have shape {expected}, got {tuple(values.shape)}.")
        coefficients = expand(bank, Band(self.generator), Chebyshev.tol).detach().tolist()
        x = values[self.cloud.curve_order]
        sums = [column[0] * x for column in coefficients]
        matrix = PartitionedMatrix(self.partitions)
        with only_writer(self.partitions.folder):
            for m, term in recurrence(matrix, x, x, range(1, len(coefficients[0]))):
                for total, column in zip(sums, coefficients, strict=True):
                    total.add_(term, alpha=column[m])
        results = [self.cloud.in_user_order(total).numpy() for total in sums]
        return np.stack(results)


def _generator(partitions: PartitionedCloud) -> Generator:
    """That of ``TangentBundle.laplacian()``, computed once for a folder."""
    geometry = partitions.geometry

    def moments(terms: int) -> np.ndarray:
        place = partitions.place("calibration-by-component").with_suffix(".npy")
        if not place.exists():
            points = partitions.cloud.points.numpy()
            x = points - component_means(points, component_labels(partitions))
            signal = pad(torch.from_numpy(x), (0, -x.shape[1] % 4))[:, None, :]  # fours are fast
            mass = torch.from_numpy(partitions.joined("mass"))
            matrix = PartitionedMatrix(partitions, FILES_OF_FUNCTIONS)
            by_coordinate = chebyshev_moments(matrix, mass / mass.sum(), signal, terms)
            save_array(place, by_coordinate.sum(axis=1))
        return load_array(place)

    constant = geometry.kernel.calibration(geometry.dim)
    scale, terms = calibrated_scale(True, constant, geometry.eps, geometry.dim, moments)
    return Generator(scale, terms)


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
