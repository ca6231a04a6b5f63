"""`DistributedBundle`: the tangent bundle of a cloud that need not fit in memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from ..arrays import positive_integer
from ..errors import InvalidInputError, ShapeError
from ..files import only_writer, write_atomically
from ..filters import Chebyshev, Filter
from ..filters.expansion import Band, expand, fixed_order
from ..geometry.dimension import DimensionRule
from ..geometry.kernels import Kernel
from ..geometry.pipeline import Scale
from ..operators import Generator
from ..operators.calibration import calibrated_scale
from .build import Geometry, build_all, resolve_geometry
from .cloud import Cloud
from .files import Source, load_array, save_array
from .recurrence import Recurrence, coordinate_signal, tangent_signal
from .results import check_output
from .tasks import run_all


@dataclass(frozen=True)
class DistributedBundle:
    r"""The tangent bundle of points in a file, in partitions along a space-filling curve, computed on Dask.

    The same mathematics as ``TangentBundle.from_points`` and ``Chebyshev``; all arrays stay on disk, in ``folder``, and
    a task holds one partition. Tasks run on threads of this machine, or on a cluster's workers where a
    ``distributed.Client`` is connected (the workers must see the same files). What is already in the folder is not
    built again.

    >>> import tempfile, zarr, tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> points = sphere.sample(3000, seed=0)
    >>> home = tempfile.TemporaryDirectory()
    >>> group = zarr.open_group(f"{home.name}/big.zarr", mode="w")
    >>> _ = group.create_array("points", data=points)
    >>> _ = group.create_array("vectors", data=sphere.gradient_field(points, 2))
    >>> bundle = tb.distributed.DistributedBundle.from_points(
    ...     tb.distributed.ZarrArray(f"{home.name}/big.zarr", "points"), f"{home.name}/work",
    ...     vectors=tb.distributed.ZarrArray(f"{home.name}/big.zarr", "vectors"), dim=2, neighbors=24, partition=1000)
    >>> bundle.filter(tb.Heat(0.1), f"{home.name}/smooth.zarr")
    >>> smooth = zarr.open_group(f"{home.name}/smooth.zarr")["vectors"][:]
    >>> lap = tb.TangentBundle.from_points(points, dim=2, neighbors=24)
    >>> once = lap.to_ambient(tb.Heat(0.1)(lap.laplacian(), lap.to_coordinates(group["vectors"][:])))
    >>> bool(np.abs(smooth - once).max() < 1e-5)
    True
    >>> home.cleanup()
    """

    folder: Path
    cloud: Cloud = field(repr=False)
    geometry: Geometry
    generator: Generator
    edges: int
    vectors: Source | None = field(repr=False)

    @classmethod
    def from_points(
        cls,
        points: Source,
        folder: str | os.PathLike,
        *,
        vectors: Source | None = None,
        dim: int | DimensionRule | None = None,
        eps: float | None = None,
        neighbors: int | None = None,
        eps_pca: float | None = None,
        kernel: Kernel | None = None,
        partition: int = 500_000,
    ) -> DistributedBundle:
        """Build the bundle of points ``(n, D)`` on disk.

        Args:
            points, vectors: files; vectors ``(n, D)`` or ``(n, D, c)`` may also be given to ``filter``.
            folder: for partitions, frames and the operator; on a cluster all workers must see it.
            dim, eps, neighbors, eps_pca, kernel: as of ``TangentBundle.from_points``; the automatic scale has its
                number of neighbours, but is not adapted to connectedness and steepness.
            partition: points of a partition, and rows read at a time. The default needs a few hundred MB a task.
        """
        asked = Scale(eps, neighbors, eps_pca)
        points.check("points", (2,))
        settings = f"{points!r} ({points.digest()}), {positive_integer(partition, 'partition')} points a partition"
        with only_writer(folder) as place:
            place = place.absolute()
            _claim(place, settings)
            cloud = Cloud.sort(place, points, partition)
            geometry = resolve_geometry(cloud, dim, asked, kernel, points.dtype)
            edges = build_all(cloud, geometry)
            return cls(place, cloud, geometry, _generator(cloud, geometry), edges, vectors)

    @property
    def num_points(self) -> int:
        return self.cloud.rows

    @property
    def num_parts(self) -> int:
        return self.cloud.num_parts

    @property
    def ambient_dim(self) -> int:
        return self.cloud.boxes.shape[2]

    @property
    def dim(self) -> int:
        return self.geometry.dim

    @property
    def eps(self) -> float:
        return self.geometry.eps

    @property
    def band(self) -> Band:
        r"""Where the eigenvalues of :math:`-\Delta` lie: an average P has its spectrum in [-1, 1]."""
        return Band(self.generator)

    def __repr__(self) -> str:
        return (
            f"DistributedBundle({self.num_points} points in {self.num_parts} partitions, dim={self.dim}, "
            f"eps={self.eps:.4g}, {self.edges / self.num_points:.1f} neighbours a point, {self.geometry.kernel})"
        )

    def filter(
        self,
        filters: Filter | Mapping[str, Filter],
        out: str | os.PathLike,
        *,
        vectors: Source | None = None,
        method: Chebyshev | None = None,
        overwrite: bool = False,
    ) -> None:
        """Filter vectors, by default those of the file of the points, into a ``.zarr`` group or a ``.parquet`` folder.

        A single filter's result is named ``vectors``; a bank is given as names and filters, and shares one recurrence.
        Results are ambient and in the order of the file: ``(n, D)`` or ``(n, D, c)``, as the vectors came.
        ``overwrite`` replaces an existing output.
        """
        bank = {"vectors": filters} if isinstance(filters, Filter) else dict(filters)
        if not bank or not all(isinstance(h, Filter) for h in bank.values()):
            raise InvalidInputError(f"filters must be one such as Heat(0.1), or names with filters, got {filters!r}.")
        method, chosen = Chebyshev() if method is None else method, list(bank.values())
        if method.order is None:
            coefficients = expand(chosen, self.band, method.tol)
        else:
            coefficients = fixed_order(chosen, self.band, method.order + 1)
        check_output(out, overwrite=overwrite)
        source = self._source(vectors)
        with only_writer(self.folder):
            signal = partial(tangent_signal, self.cloud, self.geometry, self._bring(source))
            files = {name: f"filtered-{k}" for k, name in enumerate(bank)}
            recurrence = Recurrence(self.cloud, self.geometry, signal)
            recurrence.filter(coefficients.detach().numpy(), [*files.values()], flat=len(source.shape) == 2)
            self.cloud.write(files, source.shape[1:], self.geometry.real, out, overwrite)
            for name in files.values():
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def energies(self, vectors: Source | None = None) -> tuple[float, float]:
        """Sums of squares of vectors, and of their tangent parts."""
        source = self._source(vectors)
        with only_writer(self.folder):
            name = self._bring(source)
            parts = run_all(_energies, [(self.cloud, self.geometry, name, p) for p in range(self.num_parts)])
        total, tangent = np.sum(parts, axis=0).tolist()
        return total, tangent

    def _source(self, vectors: Source | None) -> Source:
        source = self.vectors if vectors is None else vectors
        if source is None:
            raise InvalidInputError("there are no vectors: give vectors=..., a source such as NpyArray(path).")
        source.check("vectors", (2, 3))
        n, dims = self.num_points, self.ambient_dim
        if source.shape[:2] != (n, dims):
            raise ShapeError(f"vectors must have shape (n, D) = ({n}, {dims}) or (n, D, channels), got {source.shape}.")
        return source

    def _bring(self, source: Source) -> str:
        """Bring the rows of a file to the partitions; returns the name of their files."""
        name = f"vectors-{source.digest()}"
        self.cloud.bring(name, source)
        return name


def _energies(cloud: Cloud, geometry: Geometry, vectors: str, p: int) -> tuple[float, float]:
    """Sums of squares of the vectors of a partition, and of their coordinates."""
    ambient, tangent = load_array(cloud.part(vectors, p)), tangent_signal(cloud, geometry, vectors, p)
    return float(np.square(ambient, dtype=float).sum()), float(np.square(tangent, dtype=float).sum())


def _generator(cloud: Cloud, geometry: Geometry) -> Generator:
    """That of ``TangentBundle.laplacian()``, computed once for a folder."""

    def moments(terms: int) -> np.ndarray:
        place = cloud.folder / f"{geometry.of('calibration')}.npy"
        if not place.exists():
            sums = [load_array(cloud.part("points", p)).sum(axis=0) for p in range(cloud.num_parts)]
            signal = partial(coordinate_signal, cloud, np.sum(sums, axis=0) / cloud.rows)
            found = Recurrence(cloud, geometry, signal, "functions").moments(terms)
            save_array(place, found[:, :-1].sum(axis=1) / found[0, -1])
            for name in ("functions-cols", "functions-values"):
                shutil.rmtree(cloud.folder / geometry.of(name), ignore_errors=True)
        return load_array(place)

    constant = geometry.kernel.calibration(geometry.dim)
    return Generator(*calibrated_scale(True, constant, geometry.eps, geometry.dim, moments))


def _claim(folder: Path, settings: str) -> None:
    """Refuse a folder with other partitions."""
    note = folder / "partitions.txt"
    if note.exists() and note.read_text() != settings:
        raise InvalidInputError(
            f"{folder} holds other partitions ({note.read_text()}), wanted {settings}. Choose another folder, or "
            "delete it."
        )
    write_atomically(note, settings.encode())
