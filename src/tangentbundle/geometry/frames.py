r"""A basis of each tangent space, by local principal component analysis.

For each point the displacements to its neighbours, weighted by :math:`K(|x_j - x_i|/r_i)`, form
:math:`B_i \in \mathbb{R}^{D \times k}`. The frame is its first d *left* singular vectors, the
eigenvectors of :math:`B_i B_i^T`. (The paper prints :math:`B_i^T B_i`, whose eigenvectors live in
the space of neighbours.) Whichever of the two Gram matrices is smaller is decomposed.

An eigenvector is defined up to its sign, which ``with_stated_signs`` fixes: the entry of largest
magnitude is positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..arrays import host, on_host
from ..errors import RankDeficientError
from ..parallel import run_ranges
from .graph import NeighborGraph, graph_of_lists
from .kernels import Biweight
from .ordering import first_of
from .small_matrices import JACOBI_SIZE, TINY, lapack, leading, orthonormal
from .tensor_cloud import CHUNK, CPU_CHUNK, TensorCloud, tensor_of

FLAT = 1e-12
"""A variance of at most this share of the mean squared distance of the neighbours counts as
none."""

MIN_RESOLUTION = 10.0
"""Extents of a neighbourhood below so many units in the last place of the largest coordinate count
as none: to a tenth of a radian, rounding decides their direction."""

GRAM_SIZE = 12
"""Ambient dimensions above this use the neighbours' Gram matrix where it is smaller."""

MAX_VARIANCES = 16
"""Variances returned of each neighbourhood."""

SIGN_TOLERANCE = 1e-3
"""Entries of an axis whose magnitudes differ by at most this share count as equally large: more
than the rounding of eigenvectors in float32, so that on symmetric clouds, such as grids, rounding
does not decide a sign."""


def with_stated_signs(axes: Tensor) -> Tensor:
    r"""The axes, columns of ``(..., D, q)``, with the signs of the convention.

    In each column a, the first entry with :math:`|a_k| \ge (1 - 10^{-3}) \max_m |a_m|` is positive.
    The sign of an axis thus depends on the axis alone: not on the order of the points, the
    algorithm, the device or the precision.

    >>> with_stated_signs(torch.tensor([[0.25, -0.5], [-1.0, 0.5], [0.0, 0.25]])).tolist()
    [[-0.25, 0.5], [1.0, -0.5], [-0.0, -0.25]]
    """
    magnitudes = axes.abs()
    largest = magnitudes.amax(dim=-2, keepdim=True)
    among_largest = magnitudes >= (1.0 - SIGN_TOLERANCE) * largest
    first = among_largest.to(torch.uint8).argmax(dim=-2, keepdim=True)
    deciding_entry = axes.gather(-2, first)
    return torch.where(deciding_entry < 0, -axes, axes)


@on_host("axes", "variances", "total", "squares", "counts")
@dataclass(frozen=True)
class LocalPCA:
    """Principal axes of every neighbourhood.

    Attributes: ``axes`` (n, D, q) with orthonormal columns, signed by ``with_stated_signs``,
    ``variances`` (n, p) along the first p >= q axes, descending, ``total`` (n,) the full variance,
    ``squares`` (n,) the mean squared distance of the neighbours, ``counts`` (n,) neighbours with
    positive weight. They are tensors where the points are; the attributes are NumPy arrays.
    """

    axes: np.ndarray
    variances: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    counts: np.ndarray

    def frames(self, d: int, order: Any = None) -> Any:
        """The first ``d`` axes of each neighbourhood, ``(n, D, d)``, where they are; all must span
        d directions.

        ``order`` holds the user's numbers of the points, for messages.
        """
        axes = vars(self)["axes"]
        if d > axes.shape[2]:
            raise RankDeficientError(
                f"dimension {d} was asked for, but the points span at most {axes.shape[2]} "
                "directions. Give a smaller dimension."
            )
        weak = self.undetermined(d)
        if len(weak):
            row, number = first_of(weak, order)
            raise RankDeficientError(
                f"{len(weak)} neighbourhoods (first: point {number}, with "
                f"{self.counts[row]} neighbours) span fewer than {d} directions. Use a larger "
                "eps_pca, a smaller dimension, or remove duplicate points."
            ).at_point(number)
        frames = axes[:, :, :d].contiguous()
        return frames.numpy() if frames.device.type == "cpu" else frames

    def undetermined(self, d: int) -> np.ndarray:
        """Rows of the neighbourhoods that span fewer than ``d`` directions.

        Their d-th variance is rounding: next to nothing in comparison with the squared distances of
        the neighbours.
        """
        variances, squares = vars(self)["variances"], vars(self)["squares"]
        if d > variances.shape[1]:
            return np.arange(len(variances))
        return host((variances[:, d - 1] <= FLAT * squares.clamp_min(TINY)).nonzero().flatten())

    def replace(self, rows: np.ndarray, other: LocalPCA) -> None:
        """Take some neighbourhoods from another analysis."""
        for name in ("axes", "variances", "total", "squares", "counts"):
            field = vars(self)[name]
            field[torch.as_tensor(rows, device=field.device)] = vars(other)[name].to(field)
            vars(self).pop(f"{name} on the host", None)

    def residual(self, d: int) -> np.ndarray:
        """Share of each neighbourhood's variance outside its first ``d`` axes, ``(n,)``."""
        variances, total = vars(self)["variances"], vars(self)["total"]
        return host((1.0 - variances[:, :d].sum(1) / total.clamp_min(TINY)).clamp(0.0, 1.0))


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _covariances(
    start, stop, centers, points, ends, indices, distances, reach, center, counts, squares, out
):  # pragma: no cover
    """Covariance of each neighbourhood, with biweights, about its weighted mean or about the
    point."""
    dims, most = points.shape[1], np.diff(ends[start : stop + 1]).max()
    inside, weights = np.empty(most, indices.dtype), np.empty(most)
    steps, mean = np.empty((dims, most)), np.zeros(dims)
    for i in range(start, stop):
        count, narrowing = 0, 1.0 / reach[i]
        for e in range(ends[i], ends[i + 1]):
            u = distances[e] * narrowing
            inside[count], weights[count] = indices[e], (1.0 - u * u) ** 2
            count += u < 1.0
        counts[i], total = count, max(weights[:count].sum(), TINY)
        squares[i] = 0.0
        for a in range(dims):
            middle, first = centers[i, a], 0.0
            for k in range(count):
                steps[a, k] = points[inside[k], a] - middle
                first += weights[k] * steps[a, k]
            if center:
                mean[a] = first / total
            for b in range(a + 1):
                second = 0.0
                for k in range(count):
                    second += weights[k] * steps[a, k] * steps[b, k]
                out[i, a, b] = out[i, b, a] = second / total - mean[a] * mean[b]
            squares[i] += second / total  # the last one, of axis a with itself


def local_pca(
    points: Any,
    graph: NeighborGraph,
    radius: Any,
    *,
    centers: Any = None,
    axes: int | None = None,
    center: bool = True,
) -> LocalPCA:
    """Principal axes of the neighbours of each point within ``radius`` (a number, or one a point).

    ``points`` (n, D) float64, or a ``TensorCloud``; row i of the graph holds the neighbours of
    ``centers[i]`` (default: the points themselves) and must reach at least as far as the radius.
    ``axes`` is the number of axes returned (default: all, at most 16); there are at least as many
    variances, and with ``axes=0`` all of them. ``center`` subtracts the weighted mean of each
    neighbourhood, which varies less under noise; without it displacements are from ``centers``, as
    in Algorithm 1 of the paper.

    >>> line = np.linspace(0, 1, 20)[:, None] * np.array([[3.0, 4.0]])
    >>> from tangentbundle.geometry.graph import radius_graph
    >>> pca = local_pca(line, radius_graph(line, 1.0), 1.0)
    >>> np.abs(pca.frames(1)[0, :, 0]).round(6).tolist()
    [0.6, 0.8]
    """
    x = tensor_of(points)
    centers, (indptr, indices, distances) = (
        x if centers is None else torch.as_tensor(centers).to(x),
        graph.tensors,
    )
    (n, dims), on_cpu, degrees = centers.shape, x.device.type == "cpu", indptr.diff()
    keep = min(dims, MAX_VARIANCES) if axes is None else axes
    width = dims if dims <= JACOBI_SIZE else keep or dims
    found, variances, total = (x.new_zeros((n, *shape)) for shape in ((dims, keep), (width,), ()))
    squares = torch.zeros_like(total)
    counts, most = torch.zeros_like(degrees), max(1, int(degrees.max()))
    reach = torch.as_tensor(radius, dtype=x.dtype, device=x.device).expand(n)
    rounding = float(MIN_RESOLUTION * torch.finfo(x.dtype).eps * x.abs().max()) ** 2
    small = dims <= max(GRAM_SIZE, most)
    compiled = on_cpu and small
    columns = [] if compiled else list(x.T.contiguous())  # single numbers are gathered fastest
    rows = max(1, 4 * (CPU_CHUNK if on_cpu else CHUNK) // (dims * (dims if compiled else most)))
    for start in range(0, n, rows):
        some = slice(start, min(start + rows, n))
        if compiled:
            gram = x.new_empty((some.stop - start, dims, dims))
            tensors = (
                centers[some],
                x,
                indptr[start : some.stop + 1],
                indices,
                distances,
                reach[some].contiguous(),
            )
            arrays = (
                *(t.numpy() for t in tensors),
                center,
                counts[some].numpy(),
                squares[some].numpy(),
                gram.numpy(),
            )
            run_ranges(_covariances, len(gram), *arrays, grain=512)
        else:
            steps = _steps(
                columns, graph, some, centers[some], reach[some], center, counts, squares
            )
            gram = steps.mT @ steps if small else steps @ steps.mT
        total[some] = gram.diagonal(dim1=1, dim2=2).sum(1)
        if keep == 0 and dims > JACOBI_SIZE:
            values = lapack(lambda matrices: (np.linalg.eigvalsh(matrices)[:, ::-1],), gram)[0]
        else:
            values, vectors = leading(gram, min(width, gram.shape[1]), exact=on_cpu)
            vectors = (
                vectors[:, :, :keep] if small else orthonormal(steps.mT @ vectors[:, :, :keep])
            )
            found[some, :, : vectors.shape[2]] = with_stated_signs(vectors)
        variances[some, : values.shape[1]] = torch.where(values > rounding, values, 0.0)[:, :width]
    return LocalPCA(found, variances, total, squares, counts)  # type: ignore[arg-type]


def _steps(
    columns: list[Tensor],
    graph: NeighborGraph,
    rows: slice,
    centers: Tensor,
    reach: Tensor,
    center: bool,
    counts: Tensor,
    squares: Tensor,
) -> Tensor:
    """Weighted displacements ``(rows, k, D)`` of the neighbours of some rows, padded by zeros.

    Writes the ``counts`` and mean ``squares`` of these rows.
    """
    indptr, indices, distances = graph.tensors
    start, length = indptr[:-1][rows, None], indptr.diff()[rows, None]
    slots = torch.arange(max(1, int(length.max())), device=start.device)
    edges = (start + slots).clamp_max(max(graph.num_edges - 1, 0))
    weights = Biweight()(distances[edges].double() / reach[:, None]) * (slots < length)
    counts[rows] = (weights > 0).sum(1)
    weights = weights / weights.sum(1, keepdim=True).clamp_min(TINY)
    near = indices[edges]
    steps = torch.stack([column[near] for column in columns], 2) - centers[:, None]
    squares[rows] = (weights * steps.square().sum(2)).sum(1)
    if center:
        steps -= weights[:, None] @ steps
    return steps.mul_(weights.sqrt()[:, :, None])


def pca_of_nearest(
    points: Any, distances: Any, indices: Any, centers: Any, axes: int, center: bool = True
) -> LocalPCA:
    """Local PCA at ``centers`` (m, D) of k neighbours of each, nearest first: ``distances``,
    ``indices`` (m, k)."""
    to = points.curve_order.device if isinstance(points, TensorCloud) else None
    distances, indices = (torch.as_tensor(a, device=to) for a in (distances, indices))
    reach, graph = 1.2 * distances[:, -1].clamp_min(TINY), graph_of_lists(distances, indices)
    return local_pca(points, graph, reach, centers=centers, axes=axes, center=center)
