r"""Local principal component analysis: the axes along which each neighbourhood spreads.

For each point the displacements to its neighbours, weighted by :math:`K(|x_j - x_i|/r_i)`, form
:math:`B_i \in \mathbb{R}^{D \times k}`. The axes are its first *left* singular vectors, the
eigenvectors of :math:`B_i B_i^T`. (The paper prints :math:`B_i^T B_i`, whose eigenvectors live in
the space of neighbours.) Whichever of the two Gram matrices is smaller is decomposed.

An eigenvector is defined up to its sign, which ``with_stated_signs`` fixes: the entry of largest
magnitude is positive.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..errors import RankDeficientError
from ..parallel import run_ranges
from .block_search import CHUNK, CPU_CHUNK
from .cloud import first_of
from .graph import NeighborGraph
from .kernels import Biweight
from .small_matrices import JACOBI_SIZE, TINY, lapack, leading, orthonormal

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

REACH_OF_NEAREST = 1.2
"""Radius, in distances of the farthest neighbour, at which weights vanish where neighbours are
listed: the last one keeps some weight."""


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


@dataclass(frozen=True, eq=False)
class LocalPCA:
    """Principal axes of every neighbourhood.

    Attributes are tensors on the device of the points: ``axes`` (n, D, q) with orthonormal columns,
    signed by ``with_stated_signs``, ``variances`` (n, p) along the first p >= q axes, descending,
    ``total`` (n,) the full variance, ``squares`` (n,) the mean squared distance of the neighbours,
    ``counts`` (n,) neighbours with positive weight.
    """

    axes: Tensor
    variances: Tensor
    total: Tensor
    squares: Tensor
    counts: Tensor

    @classmethod
    def empty(cls, like: Tensor, *, num_points: int, num_axes: int, num_variances: int) -> LocalPCA:
        """Zeros, to be filled in, for points ``like`` (., D)."""
        dims = like.shape[1]
        return cls(
            axes=like.new_zeros((num_points, dims, num_axes)),
            variances=like.new_zeros((num_points, num_variances)),
            total=like.new_zeros(num_points),
            squares=like.new_zeros(num_points),
            counts=torch.zeros(num_points, dtype=torch.int64, device=like.device),
        )

    def frames(self, d: int, numbers: Any = None) -> Tensor:
        """The first ``d`` axes of each neighbourhood, ``(n, D, d)``; all must span d directions.

        ``numbers`` holds the user's numbers of the points, for messages.
        """
        if d > self.axes.shape[2]:
            raise RankDeficientError(
                f"dimension {d} was asked for, but the points span at most {self.axes.shape[2]} "
                "directions. Give a smaller dimension."
            )
        deficient = self.undetermined(d)
        if len(deficient):
            row, number = first_of(deficient, numbers)
            raise RankDeficientError(
                f"{len(deficient)} neighbourhoods (first: point {number}, with "
                f"{self.counts[row]} neighbours) span fewer than {d} directions. Use a larger "
                "eps_pca, a smaller dimension, or remove duplicate points."
            ).at_point(number)
        return self.axes[:, :, :d].contiguous()

    def undetermined(self, d: int) -> Tensor:
        """Rows of the neighbourhoods that span fewer than ``d`` directions.

        Their d-th variance is rounding: next to nothing in comparison with the squared distances of
        the neighbours.
        """
        if d > self.variances.shape[1]:
            return torch.arange(len(self.variances), device=self.variances.device)
        none = FLAT * self.squares.clamp_min(TINY)
        return (self.variances[:, d - 1] <= none).nonzero().flatten()

    def replace(self, rows: Tensor, other: LocalPCA) -> None:
        """Take some neighbourhoods from another analysis."""
        for field in fields(self):
            values = getattr(self, field.name)
            values[rows] = getattr(other, field.name).to(values)

    def residual(self, d: int) -> Tensor:
        """Share of each neighbourhood's variance outside its first ``d`` axes, ``(n,)``."""
        shares = self.variances[:, :d].sum(1) / self.total.clamp_min(TINY)
        return (1.0 - shares).clamp(0.0, 1.0)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _covariances(
    start, stop, centers, points, ends, indices, distances, reach, center, counts, squares, out
):  # pragma: no cover
    """Covariance of each neighbourhood, with biweights, about its weighted mean or about the
    point."""
    dims = points.shape[1]
    largest_degree = np.diff(ends[start : stop + 1]).max()
    inside = np.empty(largest_degree, indices.dtype)
    weights = np.empty(largest_degree)
    steps = np.empty((dims, largest_degree))
    mean = np.zeros(dims)
    for i in range(start, stop):
        count = 0
        narrowing = 1.0 / reach[i]
        for e in range(ends[i], ends[i + 1]):
            u = distances[e] * narrowing
            inside[count] = indices[e]
            weights[count] = (1.0 - u * u) ** 2
            count += u < 1.0
        counts[i] = count
        total = max(weights[:count].sum(), TINY)
        squares[i] = 0.0
        for a in range(dims):
            middle = centers[i, a]
            first = 0.0
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
    points: Tensor,
    graph: NeighborGraph,
    radius: Any,
    *,
    centers: Tensor | None = None,
    num_axes: int | None = None,
    center: bool = True,
) -> LocalPCA:
    """Principal axes of the neighbours of each point within ``radius`` (a number, or one a point).

    ``points`` (n, D) float64; row i of the graph holds the neighbours of ``centers[i]`` (default:
    the points themselves) and must reach at least as far as the radius. ``num_axes`` is the number
    of axes returned (default: all, at most 16); there are at least as many variances, and with
    ``num_axes=0`` all of them. ``center`` subtracts the weighted mean of each neighbourhood, which
    varies less under noise; without it displacements are from ``centers``, as in Algorithm 1 of the
    paper.

    >>> from tangentbundle.geometry.cloud import PointCloud
    >>> line = torch.linspace(0, 1, 20).double()[:, None] * torch.tensor([[3.0, 4.0]])
    >>> pca = local_pca(line, PointCloud(line).within(1.0), 1.0)
    >>> pca.frames(1)[0, :, 0].abs().numpy().round(6).tolist()
    [0.6, 0.8]
    """
    if centers is None:
        centers = points
    n, dims = centers.shape
    if num_axes is None:
        num_axes = min(dims, MAX_VARIANCES)
    num_variances = dims
    if dims > JACOBI_SIZE and num_axes > 0:
        num_variances = num_axes
    largest_degree = max(1, int(graph.degrees.max()))
    neighborhoods = _Neighborhoods(
        points=points,
        centers=centers,
        graph=graph,
        reach=torch.as_tensor(radius, dtype=points.dtype, device=points.device).expand(n),
        center=center,
        by_axes=dims <= max(GRAM_SIZE, largest_degree),
    )
    pca = LocalPCA.empty(points, num_points=n, num_axes=num_axes, num_variances=num_variances)
    rounding = float(MIN_RESOLUTION * torch.finfo(points.dtype).eps * points.abs().max()) ** 2
    chunk = neighborhoods.rows_at_once(largest_degree)
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        gram, steps = neighborhoods.gram_matrices(rows, pca)
        pca.total[rows] = gram.diagonal(dim1=1, dim2=2).sum(1)
        if num_axes == 0 and dims > JACOBI_SIZE:
            values = _descending_eigenvalues(gram)
        else:
            count = min(num_variances, gram.shape[1])
            values, vectors = leading(gram, count, exact=points.device.type == "cpu")
            vectors = vectors[:, :, :num_axes]
            if steps is not None:
                vectors = orthonormal(steps.mT @ vectors)
            pca.axes[rows, :, : vectors.shape[2]] = with_stated_signs(vectors)
        above_rounding = torch.where(values > rounding, values, 0.0)
        pca.variances[rows, : values.shape[1]] = above_rounding[:, :num_variances]
    return pca


def _descending_eigenvalues(matrices: Tensor) -> Tensor:
    """All eigenvalues of symmetric matrices ``(n, m, m)``, by LAPACK."""
    return lapack(lambda arrays: (np.linalg.eigvalsh(arrays)[:, ::-1],), matrices)[0]


@dataclass(frozen=True, eq=False)
class _Neighborhoods:
    """Neighbourhoods whose Gram matrices are wanted.

    ``by_axes`` says which: of the axes, ``B B^T`` (D, D), or of the neighbours, ``B^T B`` (k, k).
    """

    points: Tensor
    centers: Tensor
    graph: NeighborGraph
    reach: Tensor
    center: bool
    by_axes: bool

    @property
    def _on_cpu(self) -> bool:
        return self.points.device.type == "cpu"

    @property
    def _is_compiled(self) -> bool:
        return self._on_cpu and self.by_axes

    def rows_at_once(self, largest_degree: int) -> int:
        """Neighbourhoods whose numbers fit in memory at once."""
        dims = self.points.shape[1]
        numbers = CPU_CHUNK if self._on_cpu else CHUNK
        width = dims if self._is_compiled else largest_degree
        return max(1, 4 * numbers // (dims * width))

    def gram_matrices(self, rows: slice, pca: LocalPCA) -> tuple[Tensor, Tensor | None]:
        """Gram matrices of some rows, and the steps ``(rows, k, D)`` if they are those of the
        neighbours.

        Writes ``counts`` and ``squares`` of these rows.
        """
        if self._is_compiled:
            return self._compiled_covariances(rows, pca), None
        steps = self._weighted_steps(rows, pca)
        if self.by_axes:
            return steps.mT @ steps, None
        return steps @ steps.mT, steps

    def _compiled_covariances(self, rows: slice, pca: LocalPCA) -> Tensor:
        """Covariances ``(rows, D, D)`` by the kernel for CPUs."""
        dims = self.points.shape[1]
        covariances = self.points.new_empty((rows.stop - rows.start, dims, dims))
        run_ranges(
            _covariances,
            len(covariances),
            self.centers[rows].numpy(),
            self.points.numpy(),
            self.graph.indptr[rows.start : rows.stop + 1].numpy(),
            self.graph.indices.numpy(),
            self.graph.distances.numpy(),
            self.reach[rows].contiguous().numpy(),
            self.center,
            pca.counts[rows].numpy(),
            pca.squares[rows].numpy(),
            covariances.numpy(),
            grain=512,
        )
        return covariances

    def _weighted_steps(self, rows: slice, pca: LocalPCA) -> Tensor:
        """Weighted displacements ``(rows, k, D)`` of the neighbours of some rows, padded by
        zeros."""
        graph = self.graph
        starts = graph.indptr[:-1][rows, None]
        lengths = graph.degrees[rows, None]
        slots = torch.arange(max(1, int(lengths.max())), device=starts.device)
        edges = (starts + slots).clamp_max(max(graph.num_edges - 1, 0))
        shares = graph.distances[edges].double() / self.reach[rows][:, None]
        weights = Biweight()(shares) * (slots < lengths)
        pca.counts[rows] = (weights > 0).sum(1)
        weights = weights / weights.sum(1, keepdim=True).clamp_min(TINY)
        neighbors = graph.indices[edges]
        places = [axis[neighbors] for axis in self._axes_of_points]
        steps = torch.stack(places, 2) - self.centers[rows][:, None]
        pca.squares[rows] = (weights * steps.square().sum(2)).sum(1)
        if self.center:
            steps -= weights[:, None] @ steps
        return steps.mul_(weights.sqrt()[:, :, None])

    @cached_property
    def _axes_of_points(self) -> list[Tensor]:
        """Each coordinate of all points: single numbers are gathered fastest."""
        return list(self.points.T.contiguous())


def pca_of_nearest(
    points: Tensor,
    distances: Tensor,
    indices: Tensor,
    centers: Tensor,
    *,
    num_axes: int,
    center: bool = True,
) -> LocalPCA:
    """Local PCA at ``centers`` (m, D) of k neighbours of each, nearest first: ``distances``,
    ``indices`` (m, k)."""
    reach = REACH_OF_NEAREST * distances[:, -1].clamp_min(TINY)
    graph = graph_of_lists(distances, indices)
    return local_pca(points, graph, reach, centers=centers, num_axes=num_axes, center=center)


def graph_of_lists(distances: Tensor, indices: Tensor) -> NeighborGraph:
    """The directed graph of as many neighbours of each row, ``(m, k)``."""
    rows, count = indices.shape
    return NeighborGraph(
        indptr=torch.arange(rows + 1, device=indices.device) * count,
        indices=indices.flatten().int(),
        distances=distances.flatten(),
    )
