"""Many small clouds at once: one search, one local PCA and one matrix for all of them, split into
joined operators.

Every cloud is centred and divided by its own radius, and clouds are set apart along an axis of
their own; together they are then a cloud of many components with radius one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from .arrays import Array, ArrayKind, float_tensor, host, points_tensor, require_values
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
from .geometry.frames import LocalPCA
from .geometry.graph import NeighborGraph, radius_graph
from .geometry.kernels import Kernel
from .geometry.pipeline import GLOBAL_SHARE, Scale, estimate_frames, warn_of_noise
from .geometry.scale import target_neighbors
from .geometry.search import WIDE, nearest_distances
from .geometry.tensor_cloud import CHUNK, TensorCloud
from .geometry.transport import Connection, connect
from .operators import Generator, Joined, Laplacian, SampleEnergy
from .operators.assembly import Averages, average_blocks, coordinate_moments
from .operators.moments import sums_by
from .operators.storage import BlockMatrix


@dataclass(frozen=True, eq=False)
class Clouds:
    """The graph and tangent spaces of many clouds.

    Attributes: ``points (n, D)``, centred and divided by ``radii`` (clouds,), those of the
    neighbourhoods; ``cloud`` (n,), the place of each point's cloud among them; ``sizes`` (clouds,);
    ``graph``, ``pca`` and ``frames (n, D, d)``.
    """

    points: Tensor
    cloud: Tensor
    sizes: Tensor
    radii: Tensor
    graph: NeighborGraph
    pca: LocalPCA
    frames: Tensor
    kernel: Kernel
    kind: ArrayKind = field(repr=False)

    @classmethod
    def of(
        cls,
        points: Array,
        batch: Array,
        dim: int,
        scale: Scale,
        kernel: Kernel,
        adapt: bool = False,
    ) -> Clouds:
        """Of points ``(n, D)`` of clouds that are numbered by ``batch`` (n,).

        With ``adapt``, ``scale.neighbors`` that a cloud does not have are all others, and its
        radius is at least the largest distance of a point to its nearest one.
        """
        x, cloud, sizes = clouds_of(points, batch)
        if int(sizes.min()) < 2 * dim + 3:
            few = f"clouds of dimension {dim} need at least {2 * dim + 3} points each"
            raise TooFewPointsError(f"{few}, got one of {int(sizes.min())}.")
        if scale.eps_pca is not None and scale.eps is None:
            raise InvalidInputError(
                "eps_pca needs eps where many clouds are built at once: give eps, too."
            )
        exact, kind = x.double(), float_tensor(points, "points")[1]
        centred = exact - (sums_by(cloud, exact, len(sizes)) / sizes[:, None])[cloud]
        x = (
            centred if x.device.type == "cpu" else centred.to(x.dtype)
        )  # on CPUs as from_points, in float64
        radii = _radii(x, cloud, sizes, dim, scale, adapt)
        if len(bad := (~((radii > 0) & radii.isfinite())).nonzero()):
            raise TooFewPointsError(
                f"most points of cloud {int(bad[0])} have too many exact duplicates, or their "
                "squared distances overflow. Remove duplicates, or rescale the clouds."
            )
        scaled = x / radii[cloud, None].to(x.dtype)
        eps_pca = scale.eps_pca / scale.eps if scale.eps_pca and scale.eps else None
        apart = _set_apart(scaled, cloud, float(np.sqrt(eps_pca or 1.0)))
        together = TensorCloud(
            scaled, torch.arange(len(x), device=x.device), 1.0, apart, apart[:, :WIDE]
        )
        graph = radius_graph(together, 1.0, max_memory=scale.max_memory, dim=dim)
        if len(graph.isolated):
            alone = torch.unique(cloud[torch.as_tensor(graph.isolated, device=x.device)]).tolist()
            found = (
                f"{len(graph.isolated)} points (first: {graph.isolated[0]}, counted from 0), "
                f"in clouds {alone[:5]}"
            )
            raise IsolatedPointsError(f"{found}, are isolated. Use a larger eps or more neighbors.")
        unit = Scale(1.0, None, eps_pca, scale.max_memory, scale.pca_center)
        pca, _ = estimate_frames(together, graph, 1.0, dim, unit)
        frames = torch.as_tensor(pca.frames(dim))
        return cls(scaled, cloud, sizes, radii, graph, pca, frames, kernel, kind)

    def warn(self) -> None:
        """Warn of several components, of neighbourhoods that are not local, of coincident points,
        and of noise."""
        sizes, (indptr, _, distances) = self.sizes, self.graph.tensors
        count, several = len(sizes), self.graph.num_components - len(sizes)
        if several > 0:
            message = (
                f"{count} clouds have {several} components too many; nothing flows between them."
            )
            warn(message, DisconnectedWarning)
        shares = indptr[pad(sizes.cumsum(0), (1, 0))].diff() / (sizes * (sizes - 1))
        if len(wide := ((shares > GLOBAL_SHARE) & (sizes > 20)).nonzero()):
            found = (
                f"neighbourhoods in {len(wide)} of {count} clouds (first: {int(wide[0])}) "
                "hold most of the cloud"
            )
            message = (
                f"{found}, so the Laplacian is not local. Use a smaller eps or fewer neighbors."
            )
            warn(message, GlobalNeighborhoodWarning)
        if same := int((distances == 0).sum()) // 2:
            message = (
                f"{same} pairs of points coincide. Remove duplicates in each cloud with "
                "np.unique(points, axis=0)."
            )
            warn(message, DuplicatePointsWarning)
        warn_of_noise(self.pca, self.frames, self.graph)

    def laplacian(self, calibrate: bool = True) -> Joined:
        """The connection Laplacians, joined; ``calibrate=False`` gives the paper's."""
        connection = connect(self.frames, self.graph, self.kind.numpy_dtype)
        return self._joined(connection, self.frames.to(self.kind.dtype), calibrate)

    def scalar_laplacian(self, calibrate: bool = True) -> Joined:
        """The Laplacians of functions, joined."""
        return self._joined(Connection.identity(self.graph, self.kind.dtype), None, calibrate)

    def _joined(self, connection: Connection, frames: Tensor | None, calibrate: bool) -> Joined:
        graph, cloud, dim, count = self.graph, self.cloud, self.frames.shape[2], len(self.sizes)
        averages = Averages.of(graph, self.kernel(graph.tensors[2]))
        factors, terms = np.ones(count), 1
        if calibrate:
            calibration, constant, terms = SampleEnergy(), self.kernel.calibration(dim), 2
            moments = coordinate_moments(
                graph, averages, self.points.double(), calibration.terms, cloud
            )
            factors = constant * calibration.factors(moments, dim, np.full(count, constant))
        scales = (factors * self.radii.square().cpu().numpy()).tolist()
        cols, values = average_blocks(graph, connection, averages.factors)
        share = (averages.mass / sums_by(cloud, averages.mass, count)[cloud]).to(values.dtype)
        sizes = self.sizes.tolist()
        bases: Any = [None] * count if frames is None else frames.split(sizes)
        rows = zip(*self._rows(cols, values), strict=True)
        laplacians = [
            Laplacian(
                average=BlockMatrix(*average),
                mass=mass,
                generator=Generator(scale, terms),
                kind=self.kind,
                sorted_frames=base,
            )
            for average, mass, scale, base in zip(
                rows, share.split(sizes), scales, bases, strict=True
            )
        ]
        return Joined(tuple(laplacians))

    def _rows(self, cols: Tensor, values: Tensor) -> tuple[Any, ...]:
        """Sequences of ``indptr``, ``cols``, ``values`` and ``order`` of each cloud, numbered
        within it."""
        starts, indptr = pad(self.sizes.cumsum(0), (1, 0)), self.graph.tensors[0]
        within = torch.arange(len(self.cloud), device=cols.device) - starts[self.cloud]
        number = torch.repeat_interleave(self.sizes + 1)
        local = (
            indptr[torch.arange(len(number), device=cols.device) - number] - indptr[starts[number]]
        )
        before = starts[self.cloud[self.graph.edge_rows]].int()
        cols = torch.where(cols < 0, ~(~cols - before), cols - before)
        sizes, edges = self.sizes.tolist(), indptr[starts].diff().tolist()
        parts = local.split((self.sizes + 1).tolist()), cols.split(edges), values.split(edges)
        return *parts, within.int().split(sizes)


def clouds_of(points: Array, batch: Array) -> tuple[Tensor, Tensor, Tensor]:
    """Points, the number of each point's cloud, and the sizes of the clouds; checked."""
    x, _ = points_tensor(points, "points")
    # refuses all that is no array of numbers
    require_values(float_tensor(batch, "batch")[0], "batch")
    numbers = torch.as_tensor(batch, device=x.device)
    if numbers.shape != x.shape[:1] or numbers.is_floating_point():
        got = f"{tuple(x.shape)} and {numbers.dtype} {tuple(numbers.shape)}"
        raise ShapeError(f"points must be (n, D) and batch (n,) integers, got {got}.")
    cloud, sizes = torch.unique_consecutive(numbers, return_inverse=True, return_counts=True)[1:]
    if bool((numbers.diff() < 0).any()):
        raise InvalidInputError(
            "batch must be sorted: the points of a cloud follow each other. Sort points by batch."
        )
    if not len(sizes) or int(sizes.min()) < 3:
        raise TooFewPointsError(
            f"every cloud needs at least 3 points, got clouds of {sizes.tolist()[:5]} points."
        )
    return x, cloud, sizes


def _set_apart(x: Tensor, cloud: Tensor, radius: float) -> Tensor:
    """Points with a first coordinate by which clouds are further apart than ``radius`` and than any
    of them is wide."""
    width = 2.0 * float(x.double().square().sum(1).max().sqrt())
    distance = np.ceil(1.0 + max(width, radius))  # multiples of a whole number are exact in float32
    return torch.cat([distance * cloud[:, None].to(x), x], 1)


def _radii(x: Tensor, cloud: Tensor, sizes: Tensor, dim: int, scale: Scale, adapt: bool) -> Tensor:
    """Radii of the neighbourhoods of each cloud, ``(clouds,)``: given, or by the neighbours of its
    median point."""
    if scale.eps is not None:
        return torch.full_like(sizes, float(np.sqrt(scale.eps)), dtype=torch.float64)
    wanted = torch.tensor(
        [scale.neighbors or target_neighbors(n, dim) for n in sizes.tolist()], device=x.device
    )
    wanted = torch.minimum(wanted, sizes - 1) if adapt else wanted
    if bool((wanted >= sizes).any()):
        first = int((wanted >= sizes).nonzero()[0])
        raise TooFewPointsError(
            f"{int(wanted[first])} neighbours per point need more than {int(sizes[first])} points."
        )
    nearest, reach = (_reach_by_tree if x.device.type == "cpu" else _reach_by_pairs)(
        x, cloud, sizes, wanted
    )
    by_reach = torch.argsort(reach)
    ranked, starts = (
        reach[by_reach[torch.argsort(cloud[by_reach], stable=True)]],
        sizes.cumsum(0) - sizes,
    )
    radii = (ranked[starts + (sizes - 1) // 2] + ranked[starts + sizes // 2]) / 2
    if adapt:
        radii = radii.scatter_reduce(0, cloud, nearest, "amax")
    return radii * (1 + 1e-6)


def _reach_by_tree(
    x: Tensor, cloud: Tensor, sizes: Tensor, wanted: Tensor
) -> tuple[Tensor, Tensor]:
    """Distances of each point to the nearest and to the ``wanted``-th nearest of its cloud,
    ``(n,)`` each."""
    widest = x.new_zeros(len(sizes)).scatter_reduce(0, cloud, x.norm(dim=1), "amax")
    widths = widest.clamp_min(torch.finfo(x.dtype).tiny)
    apart = _set_apart(x / widths[cloud, None], cloud, 1.0)
    distances = torch.from_numpy(nearest_distances(host(apart), int(wanted.max()))[0])
    columns = torch.stack([torch.zeros_like(cloud), wanted[cloud] - 1], 1)
    nearest, reach = (distances.gather(1, columns) * widths[cloud, None]).unbind(1)
    return nearest, reach


def _reach_by_pairs(
    x: Tensor, cloud: Tensor, sizes: Tensor, wanted: Tensor
) -> tuple[Tensor, Tensor]:
    """The same from all pairs of points of a cloud, in parallel: for GPUs."""
    count, size, starts = len(sizes), int(sizes.max()), sizes.cumsum(0) - sizes
    inside = torch.arange(size, device=x.device)
    found = []
    for some in torch.arange(count, device=x.device).split(max(1, 4 * CHUNK // size**2)):
        valid = inside < sizes[some, None]
        padded = x[(starts[some, None] + inside).clamp_max(len(x) - 1)]
        squares = torch.zeros((len(some), size, size), dtype=x.dtype, device=x.device)
        for axis in padded.unbind(2):
            squares += (axis[:, :, None] - axis[:, None]).square()
        squares.masked_fill_(~valid[:, None] | (inside[:, None] == inside), torch.inf)
        squares = torch.topk(squares, int(wanted.max()), largest=False)[0]
        reach = squares.gather(2, (wanted[some] - 1)[:, None, None].expand(-1, size, 1))
        found.append(torch.cat([squares[:, :, :1], reach], 2)[valid].sqrt().double())
    nearest, reach = torch.cat(found).unbind(1)
    return nearest, reach
