"""`DistributedBundle`: the tangent bundle of a cloud that need not fit in memory."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..arrays import positive, whole
from ..errors import InvalidInputError, ShapeError
from ..files import only_writer, write_atomically
from ..filters import Chebyshev, Filter
from ..filters.expansion import expand, fixed_order
from ..filters.properties import Interval
from ..filters.shrinkage import best_response, moment_terms, rational_family, white_noise_variance
from ..geometry.dimension import DimensionRule
from ..geometry.kernels import Gaussian, Kernel
from ..geometry.pipeline import Scale
from .build import Geometry, build_frames, build_operator
from .cloud import Cloud
from .components import count_components
from .engine import run_all
from .exchange import Curve, Exchange
from .files import NpyArray, ParquetColumns, Source, ZarrArray
from .interpolation import Carrier
from .results import Sink, sink_for
from .rounds import Rounds
from .scale import halo_rings, resolve_scale

PARTITION = 500_000
"""Points of a partition, by default: a few hundred MB at work."""


@dataclass(frozen=True)
class Shrinkage:
    """The filter chosen, and the standard deviation of the noise in each coordinate."""

    response: Filter
    noise: float


@dataclass(frozen=True)
class DistributedBundle:
    r"""The tangent bundle of points in a file, in partitions along a space-filling curve, computed on Dask.

    The same mathematics as ``TangentBundle.from_points`` and ``Chebyshev``; all arrays stay on disk, in ``folder``, and
    a task holds one partition. Tasks run on threads of this machine, or on a cluster's workers where a
    ``distributed.Client`` is connected (the workers must see the same files). What is already in the folder is not
    computed again: a run that was stopped continues.

    >>> import tempfile, zarr, tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2)
    >>> points = sphere.sample(3000, seed=0)
    >>> home = tempfile.TemporaryDirectory()
    >>> group = zarr.open_group(f"{home.name}/big.zarr", mode="w")
    >>> _ = group.create_array("points", data=points)
    >>> _ = group.create_array("vectors", data=sphere.gradient_field(points, 2))
    >>> bundle = tb.distributed.DistributedBundle.from_zarr(
    ...     f"{home.name}/big.zarr", f"{home.name}/work", dim=2, neighbors=24, partition=1000)
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
    borders: tuple[tuple[int, ...], ...] = field(repr=False)
    halo: float
    neighbors: int
    edges: int
    components: int
    vectors: Source | None = field(repr=False)

    # Construction.

    @classmethod
    def from_zarr(
        cls,
        path: str | os.PathLike,
        folder: str | os.PathLike,
        *,
        points: str | Sequence[str] = "points",
        vectors: str | Sequence[str] | None = "vectors",
        **options,
    ) -> DistributedBundle:
        """Points ``(n, D)`` and vectors ``(n, D)`` or ``(n, D, c)`` of a Zarr group, by the names of their arrays.

        Several names are one-dimensional arrays, one a component. ``options`` are those of ``from_source``.
        """
        place = _absolute(path)
        source = ZarrArray(place, points if isinstance(points, str) else tuple(points))
        if vectors is None or (isinstance(vectors, str) and not ZarrArray(place, vectors).exists):
            return cls.from_source(source, folder, **options)
        fields = ZarrArray(place, vectors if isinstance(vectors, str) else tuple(vectors))
        return cls.from_source(source, folder, vectors=fields, **options)

    @classmethod
    def from_parquet(
        cls,
        path: str | os.PathLike,
        folder: str | os.PathLike,
        *,
        points: Sequence[str] = ("x", "y", "z"),
        vectors: Sequence[str] | None = ("vx", "vy", "vz"),
        channels: int | None = None,
        **options,
    ) -> DistributedBundle:
        """Columns of a Parquet file, or of a folder of them. With ``channels``, those of a component stand together."""
        place = _absolute(path)
        fields = None if vectors is None else ParquetColumns(place, tuple(vectors), channels)
        return cls.from_source(ParquetColumns(place, tuple(points)), folder, vectors=fields, **options)

    @classmethod
    def from_npy(
        cls,
        points: str | os.PathLike,
        folder: str | os.PathLike,
        *,
        vectors: str | os.PathLike | None = None,
        **options,
    ) -> DistributedBundle:
        """Two ``.npy`` files, which are mapped, not loaded."""
        fields = None if vectors is None else NpyArray(_absolute(vectors))
        return cls.from_source(NpyArray(_absolute(points)), folder, vectors=fields, **options)

    @classmethod
    def from_source(
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
        partition: int = PARTITION,
        rings: int | None = None,
    ) -> DistributedBundle:
        """Build the bundle of points on disk.

        Args:
            folder: where partitions, frames and the operator are kept; on a cluster, where all workers see it.
            dim, eps, neighbors, eps_pca, kernel: as of ``TangentBundle.from_points``; the automatic scale is its
                number of neighbours, without a look at connectedness and steepness.
            partition: points of a partition, and rows read at a time.
            rings: radii of the halo, the steps between exchanges. Default: as many as add a quarter to a partition.
        """
        asked = Scale(eps, neighbors, eps_pca)
        points.check("points", (2,))
        ranges = points.ranges(whole(partition, "partition"))
        with only_writer(folder) as place:
            place = place.absolute()
            _claim(place, f"{points!r} ({_mark(points)}), {partition} points a partition")
            curve = Curve.around(points, ranges)
            parts = max(1, round(points.shape[0] / partition))
            exchange = Exchange.of(place / "cloud", points, ranges, curve, parts)
            exchange.bring("points", points)
            cloud = Cloud.of(exchange)
            d, eps = resolve_scale(cloud, dim, asked)
            geometry = Geometry(
                dim=d,
                eps=eps,
                eps_pca=asked.eps_pca or eps * 0.5 ** (2 / d),
                rescue=asked.eps_pca is None,
                kernel=Gaussian() if kernel is None else kernel,
                real=np.float32 if points.dtype == np.float32 else np.float64,
                rings=0,
            )
            every = range(exchange.num_parts)
            edges, degrees, counts = zip(*run_all(build_frames, [(cloud, geometry, p) for p in every]), strict=True)
            automatic = halo_rings(d, exchange.rows / exchange.num_parts, sum(edges) / exchange.rows)
            geometry = replace(geometry, rings=automatic if rings is None else whole(rings, "rings"))
            degree = float(np.median(degrees))
            found = run_all(build_operator, [(cloud, geometry, p, degree) for p in every])
            components = count_components(cloud, geometry)
        return cls(
            folder=place,
            cloud=cloud,
            geometry=geometry,
            borders=_symmetric([near for near, _ in found]),
            halo=sum(points for _, points in found) / exchange.rows,
            neighbors=max(int(np.median(counts)), 2 * d + 2),
            edges=sum(edges),
            components=components,
            vectors=vectors,
        )

    # What it is.

    @property
    def num_points(self) -> int:
        return self.cloud.exchange.rows

    @property
    def num_parts(self) -> int:
        return self.cloud.exchange.num_parts

    @property
    def dim(self) -> int:
        return self.geometry.dim

    @property
    def eps(self) -> float:
        return self.geometry.eps

    @property
    def interval(self) -> Interval:
        r"""What encloses the eigenvalues of :math:`-\Delta`: an average P has its spectrum in [-1, 1]."""
        return 0.0, 2.0 / self.geometry.scale

    def __repr__(self) -> str:
        return (
            f"DistributedBundle({self.num_points} points in {self.num_parts} partitions, dim={self.dim}, "
            f"eps={self.eps:.4g}, {self.edges / self.num_points:.1f} neighbours a point, halos of "
            f"{self.geometry.rings} radii add {self.halo:.0%}, {self.geometry.kernel})"
        )

    # What it does.

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
            coefficients = expand(chosen, self.interval, method.tol)
        else:
            coefficients = fixed_order(chosen, self.interval, method.order + 1)
        source, sink = self._source(vectors), sink_for(out, overwrite=overwrite)
        with only_writer(self.folder):
            rounds = self._rounds(source, coefficients.detach().numpy())
            self._write(rounds, source, list(bank), sink)

    def denoise(
        self,
        out: str | os.PathLike,
        *,
        vectors: Source | None = None,
        noise_std: float | None = None,
        probes: int = 8,
        method: Chebyshev | None = None,
        overwrite: bool = False,
    ) -> Shrinkage:
        """Remove noise by the filter of least estimated risk; returns it, with the noise's standard deviation.

        As ``estimators.SpectralShrinkage``; all channels share the filter. ``noise_std`` is the known level, ``probes``
        the random signs for traces.
        """
        source = self._source(vectors)
        sink_for(out, overwrite=overwrite)  # refused before any work
        if noise_std is not None:
            noise_std = positive(noise_std, "noise_std")
        family = rational_family(self.interval[1])
        terms = moment_terms(family, self.interval)
        with only_writer(self.folder):
            rounds = self._rounds(source, np.empty((0, terms)), probes=whole(probes, "probes"), moments=True)
            plan, keys = rounds.plan()
            plan.run(keys)
            moments = rounds.collect_moments()
            shutil.rmtree(rounds.folder, ignore_errors=True)
        data, signs = moments[:, :-probes].mean(axis=1), moments[:, -probes:].mean(axis=1)
        if noise_std is None:
            noise_std = float(np.sqrt(white_noise_variance(self.interval, data, signs)))
        response, _ = best_response(family, self.interval, data, noise_std**2 * signs)
        self.filter(response, out, vectors=vectors, method=method, overwrite=overwrite)
        return Shrinkage(response, noise_std)

    def interpolate(
        self, points: Source, out: str | os.PathLike, *, vectors: Source | None = None, overwrite: bool = False
    ) -> None:
        """The field at the points ``(m, D)`` of another file, from the nearest ones of this cloud."""
        points.check("points", (2,))
        source, sink = self._source(vectors), sink_for(out, overwrite=overwrite)
        if points.shape[1] != self.cloud.boxes.shape[2]:
            raise ShapeError(
                f"new points must have D = {self.cloud.boxes.shape[2]} coordinates, got {points.shape[1]}."
            )
        exchange, ranges = self.cloud.exchange, points.ranges(self._rows_at_once)
        with only_writer(self.folder):
            name, home = self._bring(source), self.folder / f"places-{_mark(points)}"
            places = Exchange.of(home, points, ranges, exchange.curve, exchange.splits)
            places.bring("points", points)
            carrier = Carrier(self.cloud, places, name, self.neighbors, home / f"back-{name}", self.geometry)
            shape = (points.shape[0], *source.shape[1:])
            with sink.open(["vectors"], shape, np.dtype(self.geometry.real), ranges):
                carrier.write(sink)
            shutil.rmtree(home, ignore_errors=True)

    @property
    def _rows_at_once(self) -> int:
        return max(stop - start for start, stop in self.cloud.exchange.ranges)

    def _source(self, vectors: Source | None) -> Source:
        source = self.vectors if vectors is None else vectors
        if source is None:
            raise InvalidInputError("there are no vectors: give vectors=..., a source such as NpyArray(path).")
        source.check("vectors", (2, 3))
        n, dims = self.num_points, self.cloud.boxes.shape[2]
        if source.shape[:2] != (n, dims):
            raise ShapeError(f"vectors must have shape (n, D) = ({n}, {dims}) or (n, D, channels), got {source.shape}.")
        return source

    def _bring(self, source: Source) -> str:
        """The name under which a file's rows lie in the partitions."""
        name = f"vectors-{_mark(source)}"
        self.cloud.exchange.bring(name, source)
        return name

    def _rounds(self, source: Source, coefficients: np.ndarray, **options) -> Rounds:
        name = self._bring(source)
        mark = hashlib.sha256(f"{name} {options} {self.geometry}".encode() + coefficients.tobytes()).hexdigest()[:12]
        return Rounds(
            self.cloud, self.geometry, self.borders, self.folder / f"run-{mark}", name, coefficients, **options
        )

    def _write(self, rounds: Rounds, source: Source, names: list[str], sink: Sink) -> None:
        ranges = self.cloud.exchange.ranges
        with sink.open(names, source.shape, np.dtype(self.geometry.real), ranges):
            rounds.write(names, sink, flat=len(source.shape) == 2)
        shutil.rmtree(rounds.folder, ignore_errors=True)


def _absolute(path: str | os.PathLike) -> str:
    place = Path(path).expanduser().absolute()
    if not place.exists():
        raise InvalidInputError(f"there is no file {place}. Check the path.")
    return str(place)


def _mark(source: Source) -> str:
    """What tells a file from others, and from itself before it was changed."""
    place = Path(source.path)
    states = [file.stat() for file in ([place] if place.is_file() else place.rglob("*"))]
    newest, size = max(state.st_mtime_ns for state in states), sum(state.st_size for state in states)
    return hashlib.sha256(f"{source!r} {newest} {size}".encode()).hexdigest()[:12]


def _claim(folder: Path, settings: str) -> None:
    """Refuse a folder with other partitions."""
    note = folder / "partitions.txt"
    if note.exists() and note.read_text() != settings:
        raise InvalidInputError(
            f"{folder} holds other partitions ({note.read_text()}), wanted {settings}. Choose another folder, or "
            "delete it."
        )
    write_atomically(note, settings.encode())


def _symmetric(borders: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    both = [set(near) for near in borders]
    for p, near in enumerate(borders):
        for q in near:
            both[q].add(p)
    return tuple(tuple(sorted(near)) for near in both)
