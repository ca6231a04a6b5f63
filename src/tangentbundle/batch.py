"""Many small clouds at once: one search, one local PCA and one matrix for all of them, split into joined operators.

Every cloud is centred and divided by its own radius, and clouds are set apart along an axis of their own; together they
are then a cloud of many components with radius one.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad

from .arrays import Array, float_tensor, points_tensor
from .errors import DisconnectedWarning, InvalidInputError, IsolatedPointsError, ShapeError, TooFewPointsError
from .geometry.graph import edge_weights, radius_graph
from .geometry.kernels import Kernel
from .geometry.pipeline import Scale, estimate_frames
from .geometry.scale import target_neighbors
from .geometry.search import WIDE
from .geometry.tensor_cloud import CHUNK, TensorCloud
from .geometry.transport import connect
from .operators import ConnectionLaplacian, Joined, SampleEnergy
from .operators.assembly import Averages, average_blocks, coordinate_moments
from .operators.moments import sums_by

Tensor = torch.Tensor

DISTANCE = 4.0
"""Between clouds along the axis that sets them apart, in radii of their neighbourhoods."""


def joined_laplacian(points: Array, batch: Array, dim: int, scale: Scale, kernel: Kernel) -> Joined:
    """The Laplacians of the clouds of points ``(n, D)``, numbered by ``batch`` (n,), joined."""
    x, cloud, sizes = clouds_of(points, batch)
    kind, starts = float_tensor(points, "points")[1], pad(sizes.cumsum(0), (1, 0))
    if scale.eps_pca is not None and scale.eps is None:
        raise InvalidInputError("eps_pca needs eps where clouds are built at once on a GPU: give eps, too.")
    centred = (x.double() - (sums_by(cloud, x.double(), len(sizes)) / sizes[:, None])[cloud]).to(x.dtype)
    if scale.eps is not None:
        radii = torch.full_like(sizes, float(np.sqrt(scale.eps)), dtype=torch.float64)
    else:
        wanted = [scale.neighbors or target_neighbors(n, dim) for n in sizes.tolist()]
        radii = _radii(centred, cloud, sizes, torch.tensor(wanted, device=x.device)) * (1 + 1e-6)
    if not bool(((radii > 0) & radii.isfinite()).all()):
        raise TooFewPointsError("the points of a cloud coincide, or their squared distances overflow.")
    apart = torch.cat([DISTANCE * cloud[:, None], centred / radii[cloud, None].to(x.dtype)], 1)
    together = TensorCloud(apart[:, 1:], torch.arange(len(x), device=x.device), 1.0, apart, apart[:, :WIDE])
    graph: Any = radius_graph(together, 1.0, max_memory=scale.max_memory, dim=dim)
    if len(graph.isolated):
        alone = torch.unique(cloud[torch.as_tensor(graph.isolated, device=x.device)]).tolist()
        raise IsolatedPointsError(
            f"{len(graph.isolated)} points, in clouds {alone[:5]}, are isolated. Use a larger eps or more neighbors."
        )
    if graph.num_components > len(sizes):
        several = graph.num_components - len(sizes)
        message = f"the graphs of {len(sizes)} clouds have {several} components too many; nothing flows between them."
        warnings.warn(message, DisconnectedWarning, stacklevel=3)
    eps_pca = scale.eps_pca / scale.eps if scale.eps_pca and scale.eps else None
    pca, _ = estimate_frames(together, graph, 1.0, dim, Scale(1.0, None, eps_pca, scale.max_memory, scale.pca_center))
    frames = torch.as_tensor(pca.frames(dim))
    averages = Averages.of(graph, edge_weights(graph, kernel, 1.0))
    cols, values = average_blocks(graph, connect(frames, graph, kind.numpy_dtype), averages.factors)
    calibration, constant = SampleEnergy(), kernel.calibration(dim)
    moments = coordinate_moments(graph, averages, together.points.double(), calibration.terms, cloud)
    factors = calibration.factors(moments, dim, np.full(len(sizes), constant))
    scales = constant * factors * radii.square().cpu().numpy()
    share = (averages.mass / sums_by(cloud, averages.mass, len(sizes))[cloud]).to(values.dtype)
    within = (together.order - starts[cloud]).int()
    parts = _split(graph, starts, cloud, cols, values, within, share, frames)
    sized = ((*part[:5], size, dim, kind, part[5], 2) for part, size in zip(parts, scales.tolist(), strict=True))
    return Joined(tuple(ConnectionLaplacian(*fields) for fields in sized))


def clouds_of(points: Array, batch: Array) -> tuple[Tensor, Tensor, Tensor]:
    """Points, the number of each point's cloud, and the sizes of the clouds; checked."""
    x, _ = points_tensor(points, "points")
    float_tensor(batch, "batch")  # refuses all that is no array of numbers
    numbers = torch.as_tensor(batch, device=x.device)
    if numbers.shape != x.shape[:1] or numbers.is_floating_point():
        got = f"{tuple(x.shape)} and {numbers.dtype} {tuple(numbers.shape)}"
        raise ShapeError(f"points must be (n, D) and batch (n,) integers, got {got}.")
    cloud, sizes = torch.unique_consecutive(numbers, return_inverse=True, return_counts=True)[1:]
    if bool((numbers.diff() < 0).any()):
        raise InvalidInputError("batch must be sorted: the points of a cloud follow each other. Sort points by batch.")
    if not len(sizes) or int(sizes.min()) < 3:
        raise TooFewPointsError(f"every cloud needs at least 3 points, got clouds of {sizes.tolist()[:5]} points.")
    return x, cloud, sizes


def _radii(x: Tensor, cloud: Tensor, sizes: Tensor, wanted: Tensor) -> Tensor:
    """For each cloud the radius within which its median point has the wanted number of neighbours, ``(clouds,)``."""
    if bool((wanted >= sizes).any()):
        first = int((wanted >= sizes).nonzero()[0])
        raise TooFewPointsError(f"{int(wanted[first])} neighbours a point need more than {int(sizes[first])} points.")
    count, size, starts = len(sizes), int(sizes.max()), sizes.cumsum(0) - sizes
    inside = torch.arange(size, device=x.device)
    radii = torch.empty(count, dtype=torch.float64, device=x.device)
    for some in torch.arange(count, device=x.device).split(max(1, 4 * CHUNK // size**2)):
        valid = inside < sizes[some, None]
        padded = x[(starts[some, None] + inside).clamp_max(len(x) - 1)]
        squares = torch.zeros((len(some), size, size), dtype=x.dtype, device=x.device)
        for axis in padded.unbind(2):
            squares += (axis[:, :, None] - axis[:, None]).square()
        squares.masked_fill_(~valid[:, None] | (inside[:, None] == inside), torch.inf)
        squares = torch.topk(squares, int(wanted.max()), largest=False)[0]
        reach = squares.gather(2, (wanted[some] - 1)[:, None, None].expand(-1, size, 1))[:, :, 0].sqrt()
        ranked, middle = reach.masked_fill(~valid, torch.inf).sort(1)[0], sizes[some, None]
        radii[some] = (ranked.gather(1, (middle - 1) // 2) + ranked.gather(1, middle // 2))[:, 0].double() / 2
    return radii


def _split(graph: Any, starts: Tensor, cloud: Tensor, cols: Tensor, values: Tensor, *by_point: Tensor) -> Any:
    """For each cloud: ``indptr``, ``cols``, ``values``, ``order``, mass and frames, numbered within it."""
    indptr, sizes = graph.tensors[0], starts.diff()
    number = torch.repeat_interleave(torch.arange(len(sizes), device=cols.device), sizes + 1)
    local = indptr[torch.arange(len(number), device=cols.device) - number] - indptr[starts[number]]
    before = starts[cloud[graph.edge_rows]].int()
    cols = torch.where(cols < 0, ~(~cols - before), cols - before)
    points, edges = sizes.tolist(), indptr[starts].diff().tolist()
    sized = (tensor.split(points) for tensor in by_point)
    return zip(local.split((sizes + 1).tolist()), cols.split(edges), values.split(edges), *sized, strict=True)
