"""Local PCA and transport in the memory of a device, by torch alone.

Batched eigensolvers and singular values of CUDA libraries are slow for millions of small matrices, or refuse them:
here Jacobi rotations, subspace iteration and Newton-Schulz iteration work on all matrices at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad

from ..arrays import host, on_host
from .frames import FLAT, TINY, LocalPCA, local_pca, pca_of_some
from .graph import nearest_in_graph
from .kernels import Biweight
from .search import nearest_distances
from .tensor_cloud import CHUNK, TensorCloud
from .tensor_graph import TensorGraph
from .transport import Connection, connect, refuse_weak, trivial_connection

Tensor = torch.Tensor

JACOBI_SIZE = 4
"""Matrices up to this size are decomposed completely."""

SWEEPS = 5
"""Rounds of Jacobi rotations, after which matrices of this size are diagonal to the last digits."""

SPARE = 2
"""Columns of a subspace beside those asked for."""

MAX_ROUNDS = 12
"""Checks of a subspace, each after four products, before LAPACK takes over what has not converged."""


@on_host("axes", "variances", "total", "counts")
class TensorPCA(LocalPCA):
    """Local PCA with tensors in its fields; their NumPy forms are copies."""

    def frames(self, d: int) -> Tensor:
        axes, variances = vars(self)["axes"], vars(self)["variances"]
        weak = variances[:, d - 1] <= FLAT * variances[:, 0].clamp_min(TINY)
        self._refuse_weak(host(weak.nonzero().flatten()), d)
        return axes[:, :, :d].contiguous()

    def sparse_rows(self, least: int) -> np.ndarray:
        return host((vars(self)["counts"] < least).nonzero().flatten())

    def replace(self, rows: np.ndarray, other: LocalPCA) -> None:
        for name in ("axes", "variances", "total", "counts"):
            field, new = vars(self)[name], torch.as_tensor(vars(other)[name])
            new = new[:, : field.shape[1]] if name == "variances" else new
            field[torch.as_tensor(rows, device=field.device)] = new.to(field)

    def median_residual(self, d: int) -> float:
        fields = vars(self)
        return float((1 - fields["variances"][:, :d].sum(1) / fields["total"].clamp_min(TINY)).clamp(0, 1).median())


def jacobi(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and eigenvectors of symmetric matrices ``(n, m, m)``, m small."""
    size = matrices.shape[1]
    a = {(p, q): matrices[:, p, q] for p in range(size) for q in range(p, size)}
    at = lambda p, q: a[min(p, q), max(p, q)]  # noqa: E731
    vectors = list(torch.eye(size).to(matrices).expand(matrices.shape).unbind(2))
    for _ in range(SWEEPS):
        for p in range(size):
            for q in range(p + 1, size):
                off, gap = a[p, q], a[q, q] - a[p, p]
                sign = torch.where(gap < 0, -1.0, 1.0)
                tan = 2 * sign * off / (gap.abs() + torch.hypot(gap, 2 * off)).clamp_min(TINY)  # makes (p, q) zero
                cos = (1 + tan * tan).rsqrt()
                sin = tan * cos
                a[p, p], a[q, q], a[p, q] = a[p, p] - tan * off, a[q, q] + tan * off, torch.zeros_like(off)
                for r in range(size):
                    if r not in (p, q):
                        rp, rq = at(r, p), at(r, q)
                        a[min(r, p), max(r, p)], a[min(r, q), max(r, q)] = cos * rp - sin * rq, sin * rp + cos * rq
                c, s = cos[:, None], sin[:, None]
                vectors[p], vectors[q] = c * vectors[p] - s * vectors[q], s * vectors[p] + c * vectors[q]
    values, sort = torch.stack([a[p, p] for p in range(size)], 1).sort(1, descending=True)
    return values, torch.stack(vectors, 2).gather(2, sort[:, None].expand(matrices.shape))


def _orthonormal(vectors: Tensor) -> Tensor:
    """Gram-Schmidt, twice, on the columns of ``(n, m, p)``."""
    columns: list[Tensor] = []
    for column in vectors.unbind(2):
        for _ in range(2):
            for other in columns:
                column = column - (other * column).sum(1, keepdim=True) * other
        columns.append(column / torch.linalg.vector_norm(column, dim=1, keepdim=True).clamp_min(TINY))
    return torch.stack(columns, 2)


def leading(matrices: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` largest eigenvalues and their vectors of positive semidefinite matrices ``(n, m, m)``."""
    n, size, _ = matrices.shape
    width = min(size, count + SPARE)
    if size <= JACOBI_SIZE:
        values, vectors = jacobi(matrices)
        return values[:, :count], vectors[:, :, :count]
    values = torch.empty((n, count), dtype=matrices.dtype, device=matrices.device)
    vectors = values.new_empty((n, size, count))
    todo = torch.arange(n, device=values.device)
    start = torch.from_numpy(np.random.default_rng(0).standard_normal((size, width))).to(matrices)
    basis, rest = start.expand(n, size, width), matrices
    for _ in range(MAX_ROUNDS):
        for _ in range(4):
            basis = _orthonormal(rest @ basis)
        images = rest @ basis
        found, turn = jacobi(basis.mT @ images)
        new = basis @ turn[:, :, :count]
        error = torch.linalg.vector_norm(images @ turn[:, :, :count] - new * found[:, None, :count], dim=(1, 2))
        done = error <= 1e-9 * found[:, 0].clamp_min(TINY)
        values[todo[done]], vectors[todo[done]] = found[done, :count], new[done]
        todo, rest, basis = todo[~done], rest[~done], basis[~done]
        if not len(todo):
            return values, vectors
    found, new = (torch.from_numpy(a.copy()).to(rest) for a in np.linalg.eigh(host(rest)))
    values[todo], vectors[todo] = found.flip(1)[:, :count], new.flip(2)[:, :, :count]
    return values, vectors


@local_pca.register
def _local_pca(
    points: TensorCloud,
    graph: TensorGraph,
    radius: float | Tensor,
    *,
    rows: Tensor | None = None,
    axes: int,
    center: bool = True,
) -> TensorPCA:
    """As the function for arrays, at the points of the cloud or some rows of them, one for each row of the graph."""
    n, dims = graph.num_points, points.shape[1]
    real: dict[str, Any] = {"dtype": torch.float64, "device": points.points.device}
    width = dims if dims <= JACOBI_SIZE else axes
    found, variances, total = (torch.zeros((n, *shape), **real) for shape in ((dims, axes), (width,), ()))
    counts = torch.zeros(n, dtype=torch.int64, device=real["device"])
    centers = points.points if rows is None else points.points[rows]
    reach = torch.as_tensor(radius, **real).expand(n)
    for some, steps in _neighborhoods(points, graph, centers.double(), reach, center, counts):
        total[some] = steps.square().sum((1, 2))
        small = dims <= max(steps.shape[1], JACOBI_SIZE)
        gram = steps.mT @ steps if small else steps @ steps.mT
        values, vectors = leading(gram, min(width, gram.shape[1]))
        vectors = vectors[:, :, :axes] if small else _orthonormal(steps.mT @ vectors)
        found[some, :, : vectors.shape[2]], variances[some, : values.shape[1]] = vectors, values
    return TensorPCA(found, variances.clamp_min(0), total, counts)  # type: ignore[arg-type]


def _neighborhoods(
    points: TensorCloud, graph: TensorGraph, centers: Tensor, reach: Tensor, center: bool, counts: Tensor
) -> Iterator[tuple[slice, Tensor]]:
    """Ranges of rows with their weighted displacements ``(rows, k, D)``, padded by zeros; counts those with weight."""
    distances, indices = graph.tensors[2], graph.tensors[1]
    columns = list(points.points.double().T.contiguous())
    rows = max(1, 4 * CHUNK // (max(1, int(graph.tensors[0].diff().max())) * len(columns)))
    for start in range(0, len(centers), rows):
        some = slice(start, min(start + rows, len(centers)))
        edges, valid = graph.padded(some)
        weights = Biweight()(distances[edges].double() / reach[some, None]) * valid
        counts[some] = (weights > 0).sum(1)
        weights = weights / weights.sum(1, keepdim=True).clamp_min(TINY)
        near = indices[edges]
        steps = torch.stack([column[near] for column in columns], 2) - centers[some, None]
        if center:
            steps -= weights[:, None] @ steps
        yield some, steps.mul_(weights.sqrt()[:, :, None])


@pca_of_some.register
def _pca_of_some(
    points: TensorCloud, rows: Any, distances: Any, indices: Any, axes: int, center: bool = True
) -> LocalPCA:
    if axes == 0:  # all variances, of a sample
        return pca_of_some.dispatch(np.ndarray)(points, rows, distances, indices, axes, center)
    to = points.order.device
    rows, distances, indices = (torch.as_tensor(a, device=to) for a in (rows, distances, indices))
    m, k = indices.shape
    lists = TensorGraph(torch.arange(m + 1, device=to) * k, indices.flatten(), distances.flatten())
    return _local_pca(points, lists, 1.2 * distances[:, -1].clamp_min(TINY), rows=rows, axes=axes, center=center)


@nearest_in_graph.register
def _nearest_in_graph(points: TensorCloud, graph: TensorGraph, k: int, rows: np.ndarray) -> tuple[Tensor, Tensor]:
    """Distances and indices ``(m, k)``: of points with k neighbours in the graph from there, of others by a search."""
    to = points.order.device
    some = torch.as_tensor(rows, device=to)
    edges, valid = graph.padded(some)
    lengths = pad(
        graph.tensors[2][edges].masked_fill(~valid, torch.inf), (0, max(0, k - edges.shape[1])), value=torch.inf
    )
    distances, which = torch.topk(lengths, k, largest=False)
    indices = graph.tensors[1][edges.gather(1, which.clamp_max(edges.shape[1] - 1))].long()
    few = distances[:, -1].isinf().nonzero().flatten()
    found = (torch.from_numpy(a).to(to) for a in nearest_distances(points, k, host(some[few])))
    distances[few], indices[few] = (a.to(b) for a, b in zip(found, (distances, indices), strict=True))
    return distances, indices


@on_host("values", "det")
class TensorConnection(Connection):
    """A connection of tensors; its NumPy arrays are copies."""

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """``values`` and ``det`` on the device."""
        return vars(self)["values"], vars(self)["det"]


@trivial_connection.register
def _trivial_connection(graph: TensorGraph, dtype: type = np.float64) -> TensorConnection:
    on: dict[str, Any] = {"device": graph.tensors[0].device}
    values = torch.empty((graph.num_edges, 0), dtype=_real(dtype), **on)
    return TensorConnection(values, torch.ones(graph.num_edges, dtype=torch.int8, **on), 1)  # type: ignore[arg-type]


def _real(dtype: type) -> torch.dtype:
    return torch.float32 if dtype == np.float32 else torch.float64


@connect.register
def _connect(frames: Tensor, graph: TensorGraph, dtype: type = np.float64) -> TensorConnection:
    """As the function for arrays."""
    _, dims, d = frames.shape
    columns = [list(axis.T.contiguous()) for axis in frames.unbind(1)]  # single numbers are gathered fastest
    edges, indices, rows = graph.num_edges, graph.tensors[1], graph.edge_rows
    shape = {1: (edges, 0), 2: (edges, 2)}.get(d, (edges, d, d))
    values = torch.empty(shape, dtype=_real(dtype), device=frames.device)
    det, weak = torch.empty(edges, dtype=torch.int8, device=frames.device), []
    for start in range(0, edges, chunk := max(1, CHUNK // (dims * d * d))):
        some = slice(start, start + chunk)
        i, j = rows[some], indices[some].long()
        low, high = torch.minimum(i, j), torch.maximum(i, j)
        maps = torch.zeros((d, d, len(i)), dtype=frames.dtype, device=frames.device)
        for axis in columns:
            left, right = ([column[ends] for column in axis] for ends in (low, high))
            for a in range(d):
                for b in range(d):
                    maps[a, b].addcmul_(left[a], right[b])
        if d == 1:
            flip, faint = maps[0, 0] < 0, maps[0, 0].abs() < 1e-9
        elif d == 2:
            (p, q), (r, s) = maps
            flip = p * s - q * r < 0
            cos, sin = torch.where(flip, p - s, p + s), torch.where(flip, r + q, r - q)
            norm = torch.hypot(cos, sin)
            faint, sin = norm <= 1e-9, torch.where(flip | (i < j), sin, -sin)  # the inverse turns back
            values[some] = torch.stack([torch.where(faint, 1.0, cos / norm), torch.where(faint, 0.0, sin / norm)], 1)
        else:
            maps, faint = closest_orthogonal(maps.permute(2, 0, 1).contiguous())
            flip = torch.linalg.det(maps) < 0
            values[some] = torch.where((i < j)[:, None, None], maps, maps.mT)
        det[some] = torch.where(flip, -1, 1)
        weak.append(i[faint])
    refuse_weak(np.bincount(host(torch.cat(weak))))
    return TensorConnection(values, det, d)  # type: ignore[arg-type]


def closest_orthogonal(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Closest orthogonal matrices to ``(e, d, d)`` with singular values up to one, and which are not defined.

    Newton-Schulz iteration; the few that are nearly singular are left to LAPACK.
    """
    near, eye = maps, torch.eye(maps.shape[1]).to(maps)
    for _ in range(20):
        near = near @ (1.5 * eye - 0.5 * (near.mT @ near))
    bad = ((near.mT @ near - eye).abs().amax((1, 2)) > 1e-6).nonzero().flatten()
    left, sizes, right = np.linalg.svd(host(maps[bad]))
    near[bad] = torch.from_numpy(left @ right).to(near)
    faint = torch.zeros(len(maps), dtype=torch.bool, device=maps.device)
    faint[bad] = torch.from_numpy(sizes[:, -1] < 1e-9).to(faint.device)
    return near, faint
