"""Many small clouds at once: one search, one local PCA and one matrix for all of them, split into
joined operators.

Every cloud is centred and divided by its own radius, and clouds are set apart along an axis of
their own; together they are then a cloud of many components with radius one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from .arrays import Array, ArrayKind, float_tensor, points_tensor, require_values
from .errors import (
    DisconnectedWarning,
    DuplicatePointsWarning,
    GlobalNeighborhoodWarning,
    InvalidInputError,
    IsolatedPointsError,
    ShapeError,
    TooFewPointsError,
    warn,
)
from .geometry.block_search import CHUNK, BlockSearch
from .geometry.cloud import PointCloud
from .geometry.dimension import DimensionRule, resolve_dimension
from .geometry.frames import EstimatedFrames, PCASettings, estimate_frames
from .geometry.graph import NeighborGraph
from .geometry.kernels import Kernel
from .geometry.locality import GLOBAL_SHARE, MIN_POINTS_OF_LOCALITY
from .geometry.scale import TIE, NeighborCount, Radius, Scale, target_neighbors
from .geometry.transport import Connection, connect
from .geometry.tree_search import MAX_SEARCHED_DIMENSIONS
from .operators import Generator, Joined, Laplacian, SampleEnergy
from .operators.assembly import Averages, average_blocks, coordinate_moments
from .operators.moments import sums_by
from .operators.storage import BlockMatrix


def laplacians_of_clouds(
    points: Array,
    batch: Array,
    *,
    dim: int | DimensionRule | None,
    scale: Scale,
    settings: PCASettings,
    kernel: Kernel,
    max_memory: float | None = None,
) -> Joined:
    """The joined Laplacians of ``TangentBundle.from_batch``."""
    numbered = NumberedPoints.of(points, batch)
    largest = int(numbered.sizes.argmax())
    points_of_largest = numbered.points[numbered.cloud == largest]
    dim, _ = resolve_dimension(PointCloud(points_of_largest.cpu()), dim, settings.eps_pca)
    clouds = Clouds.of(
        points,
        batch,
        dim=dim,
        scale=scale,
        settings=settings,
        kernel=kernel,
        max_memory=max_memory,
    )
    clouds.warn()
    return clouds.laplacian()


@dataclass(frozen=True, eq=False)
class NumberedPoints:
    """Points ``(n, D)`` of clouds that follow each other; ``cloud`` (n,) is the place of each
    point's cloud among them, ``sizes`` (clouds,) are their numbers of points."""

    points: Tensor
    cloud: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, points: Array, batch: Array) -> NumberedPoints:
        """Points, and the sorted numbers ``batch`` (n,) of their clouds; checked."""
        tensor, _ = points_tensor(points, "points")
        # refuses all that is no array of numbers
        require_values(float_tensor(batch, "batch")[0], "batch")
        numbers = torch.as_tensor(batch, device=tensor.device)
        if numbers.shape != tensor.shape[:1] or numbers.is_floating_point():
            raise ShapeError(
                f"points must be (n, D) and batch (n,) integers, got {tuple(tensor.shape)} and "
                f"{numbers.dtype} {tuple(numbers.shape)}."
            )
        if bool((numbers.diff() < 0).any()):
            raise InvalidInputError(
                "batch must be sorted: the points of a cloud follow each other. Sort points by "
                "batch."
            )
        _, cloud, sizes = torch.unique_consecutive(numbers, return_inverse=True, return_counts=True)
        if len(sizes) == 0 or int(sizes.min()) < 3:
            raise TooFewPointsError(
                f"every cloud needs at least 3 points, got clouds of {sizes.tolist()[:5]} points."
            )
        return cls(tensor, cloud, sizes)

    @property
    def starts(self) -> Tensor:
        """The first point of each cloud, ``(clouds,)``."""
        return self.sizes.cumsum(0) - self.sizes

    def centred(self) -> NumberedPoints:
        """Each cloud about its mean; on CPUs in float64, as ``from_points`` computes."""
        exact = self.points.double()
        means = sums_by(self.cloud, exact, len(self.sizes)) / self.sizes[:, None]
        points = exact - means[self.cloud]
        if points.device.type != "cpu":
            points = points.to(self.points.dtype)
        return NumberedPoints(points, self.cloud, self.sizes)

    def set_apart(self, radius: float) -> Tensor:
        """Points with a first coordinate by which clouds are further apart than ``radius`` and than
        any of them is wide."""
        width = 2.0 * float(self.points.double().square().sum(1).max().sqrt())
        # multiples of a whole number are exact in float32
        distance = np.ceil(1.0 + max(width, radius))
        place = distance * self.cloud[:, None].to(self.points)
        return torch.cat([place, self.points], 1)

    def together(self, radius: float) -> PointCloud:
        """One cloud of all points, in which those of different clouds are farther apart than
        ``radius``; numbered as they are."""
        coordinates = self.set_apart(radius)
        search = BlockSearch(coordinates, coordinates[:, :MAX_SEARCHED_DIMENSIONS])
        return PointCloud(self.points, search=search)


@dataclass(frozen=True, eq=False)
class Clouds:
    """The graph and tangent spaces of many clouds.

    Attributes: ``numbered``, the points, centred and divided by ``radii`` (clouds,), those of the
    neighbourhoods; ``graph`` and ``frames``, of all points.
    """

    numbered: NumberedPoints
    radii: Tensor
    graph: NeighborGraph
    frames: EstimatedFrames
    kernel: Kernel
    kind: ArrayKind = field(repr=False)

    @classmethod
    def of(
        cls,
        points: Array,
        batch: Array,
        *,
        dim: int,
        scale: Scale,
        settings: PCASettings,
        kernel: Kernel,
        max_memory: float | None = None,
        adapt: bool = False,
    ) -> Clouds:
        """Of points ``(n, D)`` of clouds that are numbered by ``batch`` (n,).

        With ``adapt``, a number of neighbours that a cloud does not have is all others, and its
        radius is at least the largest distance of a point to its nearest one.
        """
        kind = float_tensor(points, "points")[1]
        numbered = NumberedPoints.of(points, batch)
        smallest = int(numbered.sizes.min())
        if smallest < 2 * dim + 3:
            raise TooFewPointsError(
                f"clouds of dimension {dim} need at least {2 * dim + 3} points each, got one of "
                f"{smallest}."
            )
        numbered = numbered.centred()
        radii = _radii(numbered, dim, scale, adapt)
        _refuse_degenerate(radii)
        scaled = numbered.points / radii[numbered.cloud, None].to(numbered.points)
        numbered = NumberedPoints(scaled, numbered.cloud, numbered.sizes)
        unit_settings = _in_units_of_radii(settings, scale)
        cloud = numbered.together(float(np.sqrt(unit_settings.eps_pca or 1.0)))
        graph = cloud.within(1.0, max_memory=max_memory, dim=dim)
        _refuse_isolated(graph, numbered.cloud)
        frames = estimate_frames(
            cloud, graph, eps=1.0, dim=dim, settings=unit_settings, max_memory=max_memory
        )
        return cls(numbered, radii, graph, frames, kernel, kind)

    def warn(self) -> None:
        """Warn of several components, of neighbourhoods that are not local, of coincident points,
        and of noise."""
        sizes = self.numbered.sizes
        count = len(sizes)
        extra_components = self.graph.num_components - count
        if extra_components > 0:
            warn(
                f"{count} clouds have {extra_components} components too many; nothing flows "
                "between them.",
                DisconnectedWarning,
            )
        edges_of_clouds = self.graph.indptr[pad(sizes.cumsum(0), (1, 0))].diff()
        shares = edges_of_clouds / (sizes * (sizes - 1))
        not_local = ((shares > GLOBAL_SHARE) & (sizes > MIN_POINTS_OF_LOCALITY)).nonzero()
        if len(not_local):
            warn(
                f"neighbourhoods in {len(not_local)} of {count} clouds (first: "
                f"{int(not_local[0])}) hold most of the cloud, so the Laplacian is not local. Use "
                "a smaller eps or fewer neighbors.",
                GlobalNeighborhoodWarning,
            )
        coincident_pairs = int((self.graph.distances == 0).sum()) // 2
        if coincident_pairs:
            warn(
                f"{coincident_pairs} pairs of points coincide. Remove duplicates in each cloud "
                "with np.unique(points, axis=0).",
                DuplicatePointsWarning,
            )
        self.frames.warn_of_noise(self.graph)

    def laplacian(self, calibrate: bool = True) -> Joined:
        """The connection Laplacians, joined; ``calibrate=False`` gives the paper's."""
        connection = connect(self.frames.matrices, self.graph, self.kind.dtype)
        return self._joined(connection, self.frames.matrices.to(self.kind.dtype), calibrate)

    def scalar_laplacian(self, calibrate: bool = True) -> Joined:
        """The Laplacians of functions, joined."""
        identity = Connection.identity(self.graph, self.kind.dtype)
        return self._joined(identity, None, calibrate)

    def _joined(self, connection: Connection, frames: Tensor | None, calibrate: bool) -> Joined:
        cloud = self.numbered.cloud
        sizes = self.numbered.sizes.tolist()
        averages = Averages.of(self.graph, self.kernel(self.graph.distances))
        cols, values = average_blocks(self.graph, connection, averages.factors)
        totals = sums_by(cloud, averages.mass, len(sizes))
        masses = (averages.mass / totals[cloud]).to(values.dtype).split(sizes)
        frames_of_clouds = [None] * len(sizes)
        if frames is not None:
            frames_of_clouds = list(frames.split(sizes))
        scales = self.radii.square().cpu().numpy()
        terms = 1
        if calibrate:
            scales = scales * self._calibration(averages)
            terms = 2
        extents = self._extents(averages.mass / totals[cloud])
        laplacians = []
        for k, rows in enumerate(self._rows(cols, values)):
            laplacians.append(
                Laplacian(
                    average=rows,
                    mass=masses[k],
                    generator=Generator(float(scales[k]), terms),
                    kind=self.kind,
                    sorted_frames=frames_of_clouds[k],
                    extent=extents[k],
                )
            )
        return Joined(tuple(laplacians))

    def _extents(self, shares: Tensor) -> list[float]:
        """The root mean square distance of the points of each cloud from its centre; ``shares``
        (n,) of its mass."""
        count = len(self.numbered.sizes)
        points = self.numbered.points.double()
        weights = shares.double()[:, None]
        centres = sums_by(self.numbered.cloud, weights * points, count)
        squares = (points - centres[self.numbered.cloud]).square().sum(dim=1, keepdim=True)
        variances = sums_by(self.numbered.cloud, weights * squares, count)[:, 0]
        return (self.radii * variances.sqrt()).tolist()

    def _calibration(self, averages: Averages) -> np.ndarray:
        """The constant c of each cloud, ``(clouds,)``."""
        energy = SampleEnergy()
        dim = self.frames.dim
        constants = np.full(len(self.numbered.sizes), self.kernel.calibration(dim))
        moments = coordinate_moments(
            self.graph,
            averages,
            self.numbered.points.double(),
            energy.terms,
            cloud=self.numbered.cloud,
        )
        return constants * energy.factors(moments, dim, constants)

    def _rows(self, cols: Tensor, values: Tensor) -> Iterator[BlockMatrix]:
        """The rows of each cloud, numbered within it."""
        device = cols.device
        cloud = self.numbered.cloud
        sizes = self.numbered.sizes
        starts = pad(sizes.cumsum(0), (1, 0))
        places = torch.arange(len(cloud), device=device) - starts[cloud]
        # the row ends of all clouds, one more than points for each
        clouds_of_ends = torch.repeat_interleave(sizes + 1)
        points_before = torch.arange(len(clouds_of_ends), device=device) - clouds_of_ends
        indptr = self.graph.indptr
        row_ends = indptr[points_before] - indptr[starts[clouds_of_ends]]
        first_points = starts[cloud[self.graph.rows]].int()
        local_cols = torch.where(cols < 0, ~(~cols - first_points), cols - first_points)
        edges = indptr[starts].diff().tolist()
        indptrs = row_ends.split((sizes + 1).tolist())
        cols_of_clouds = local_cols.split(edges)
        values_of_clouds = values.split(edges)
        orders = places.int().split(sizes.tolist())
        for k in range(len(sizes)):
            yield BlockMatrix(indptrs[k], cols_of_clouds[k], values_of_clouds[k], orders[k])


def _in_units_of_radii(settings: PCASettings, scale: Scale) -> PCASettings:
    """Settings for clouds that are divided by their radii."""
    if settings.eps_pca is None:
        return settings
    if not isinstance(scale, Radius):
        raise InvalidInputError(
            "eps_pca needs eps where many clouds are built at once: give eps, too."
        )
    return PCASettings(settings.eps_pca / scale.eps, settings.center)


def _refuse_degenerate(radii: Tensor) -> None:
    bad = (~((radii > 0) & radii.isfinite())).nonzero()
    if len(bad):
        raise TooFewPointsError(
            f"most points of cloud {int(bad[0])} have too many exact duplicates, or their squared "
            "distances overflow. Remove duplicates, or rescale the clouds."
        )


def _refuse_isolated(graph: NeighborGraph, cloud: Tensor) -> None:
    isolated = graph.isolated
    if len(isolated):
        clouds = torch.unique(cloud[isolated]).tolist()
        raise IsolatedPointsError(
            f"{len(isolated)} points (first: {int(isolated[0])}, counted from 0), in clouds "
            f"{clouds[:5]}, are isolated. Use a larger eps or more neighbors."
        )


def _radii(numbered: NumberedPoints, dim: int, scale: Scale, adapt: bool) -> Tensor:
    """Radii of the neighbourhoods of each cloud, ``(clouds,)``: as given, or by the neighbours of
    its median point."""
    sizes = numbered.sizes
    if isinstance(scale, Radius):
        return torch.full_like(sizes, float(np.sqrt(scale.eps)), dtype=torch.float64)
    counts = _neighbor_counts(sizes, dim, scale)
    if adapt:
        counts = torch.minimum(counts, sizes - 1)
    if bool((counts >= sizes).any()):
        first = int((counts >= sizes).nonzero()[0])
        raise TooFewPointsError(
            f"{int(counts[first])} neighbours per point need more than {int(sizes[first])} points."
        )
    if numbered.points.device.type == "cpu":
        nearest, reach = distances_by_tree(numbered, counts)
    else:
        nearest, reach = distances_by_pairs(numbered, counts)
    radii = _medians(numbered, reach)
    if adapt:
        radii = radii.scatter_reduce(0, numbered.cloud, nearest, "amax")
    return radii * TIE


def _neighbor_counts(sizes: Tensor, dim: int, scale: Scale) -> Tensor:
    """Neighbours of the median point of each cloud, ``(clouds,)``."""
    if isinstance(scale, NeighborCount):
        return torch.full_like(sizes, scale.k)
    automatic = [target_neighbors(size, dim) for size in sizes.tolist()]
    return torch.tensor(automatic, device=sizes.device)


def _medians(numbered: NumberedPoints, values: Tensor) -> Tensor:
    """The median of the values ``(n,)`` of each cloud, ``(clouds,)``."""
    by_value = torch.argsort(values)
    by_cloud = torch.argsort(numbered.cloud[by_value], stable=True)
    ranked = values[by_value[by_cloud]]
    lower = ranked[numbered.starts + (numbered.sizes - 1) // 2]
    upper = ranked[numbered.starts + numbered.sizes // 2]
    return (lower + upper) / 2


def distances_by_tree(numbered: NumberedPoints, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Distances of each point to the nearest and to the ``counts``-th nearest of its cloud,
    ``(n,)`` each."""
    points = numbered.points
    cloud = numbered.cloud
    radii = points.new_zeros(len(counts)).scatter_reduce(0, cloud, points.norm(dim=1), "amax")
    unit = radii.clamp_min(torch.finfo(points.dtype).tiny)[cloud]
    scaled = NumberedPoints(points / unit[:, None], cloud, numbered.sizes)
    distances, _ = PointCloud(scaled.set_apart(1.0)).nearest(int(counts.max()))
    last = (counts[cloud] - 1)[:, None]
    return distances[:, 0] * unit, distances.gather(1, last)[:, 0] * unit


def distances_by_pairs(numbered: NumberedPoints, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The same from all pairs of points of a cloud, in parallel: for GPUs."""
    points = numbered.points
    sizes = numbered.sizes
    largest = int(sizes.max())
    inside = torch.arange(largest, device=points.device)
    nearest = []
    reach = []
    clouds_at_once = max(1, 4 * CHUNK // largest**2)
    for clouds in torch.arange(len(sizes), device=points.device).split(clouds_at_once):
        exists = inside < sizes[clouds, None]
        rows = (numbered.starts[clouds, None] + inside).clamp_max(len(points) - 1)
        squares = points.new_zeros((len(clouds), largest, largest))
        for axis in points[rows].unbind(2):
            squares += (axis[:, :, None] - axis[:, None]).square()
        squares.masked_fill_(~exists[:, None] | (inside[:, None] == inside), torch.inf)
        ranked = torch.topk(squares, int(counts.max()), largest=False)[0].sqrt().double()
        last = (counts[clouds] - 1)[:, None, None].expand(-1, largest, 1)
        nearest.append(ranked[:, :, 0][exists])
        reach.append(ranked.gather(2, last)[:, :, 0][exists])
    return torch.cat(nearest), torch.cat(reach)
