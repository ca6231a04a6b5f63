r"""A basis of each tangent space, by local principal component analysis.

For each point the displacements to its neighbours, weighted by :math:`K(|x_j - x_i|/r_i)`, form
:math:`B_i \in \mathbb{R}^{D \times k}`. The frame is its first d *left* singular vectors, the eigenvectors of
:math:`B_i B_i^T`. (The paper prints :math:`B_i^T B_i`, whose eigenvectors live in the space of neighbours.) Whichever
of the two Gram matrices is smaller is decomposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numba import njit

from ..errors import RankDeficientError
from ..parallel import run_ranges
from .graph import NeighborGraph, graph_of_lists, row_weights
from .kernels import Biweight, Kernel

TINY = 1e-300

FLAT = 1e-12
"""A variance of at most this share of the largest one counts as none."""

GRAM_SIZE = 12
"""Ambient dimensions above this use the neighbours' Gram matrix where it is smaller."""

MAX_VARIANCES = 16
"""Variances returned of each neighbourhood."""

BLOCK, EDGES = 2**22, 2**17
"""Numbers in the largest array at work in a thread, and edges at a time: their weights stay in cache."""


@dataclass(frozen=True)
class LocalPCA:
    """Principal axes of every neighbourhood.

    Attributes: ``axes`` (n, D, q) with orthonormal columns, ``variances`` (n, p) along the first p >= q axes,
    descending, ``total`` (n,) the full variance, ``counts`` (n,) neighbours with positive weight.
    """

    axes: np.ndarray
    variances: np.ndarray
    total: np.ndarray
    counts: np.ndarray

    def frames(self, d: int) -> Any:
        """The first ``d`` axes of each neighbourhood, ``(n, D, d)``; all must span d directions."""
        if d > self.axes.shape[2]:
            raise RankDeficientError(
                f"dimension {d} was asked for, but the points span at most {self.axes.shape[2]} "
                "directions. Give a smaller dimension."
            )
        self._refuse_weak(np.flatnonzero(self.variances[:, d - 1] <= FLAT * np.maximum(self.variances[:, 0], TINY)), d)
        return np.ascontiguousarray(self.axes[:, :, :d])

    def _refuse_weak(self, weak: np.ndarray, d: int) -> None:
        if len(weak):
            raise RankDeficientError(
                f"{len(weak)} neighbourhoods (first: point {weak[0]}, with "
                f"{self.counts[weak[0]]} neighbours) span fewer than {d} directions. Use a larger "
                "eps_pca, a smaller dimension, or remove duplicate points."
            )

    def sparse_rows(self, least: int) -> np.ndarray:
        """Points with fewer than ``least`` neighbours of positive weight."""
        return np.flatnonzero(self.counts < least)

    def replace(self, rows: np.ndarray, other: LocalPCA) -> None:
        """Take some neighbourhoods from another analysis."""
        for name in ("axes", "variances", "total", "counts"):
            getattr(self, name)[rows] = getattr(other, name)

    def residual(self, d: int) -> np.ndarray:
        """Share of each neighbourhood's variance outside its first ``d`` axes, ``(n,)``."""
        return np.clip(1.0 - self.variances[:, :d].sum(axis=1) / np.maximum(self.total, TINY), 0.0, 1.0)

    def median_residual(self, d: int) -> float:
        """The median of these shares."""
        return float(np.median(self.residual(d)))


@njit(cache=True, nogil=True)
def _covariances(start, stop, centers, points, indptr, indices, weights, center, counts, out):  # pragma: no cover
    """Weighted covariance of each neighbourhood about its weighted mean, or about the point, of some rows."""
    before = indptr[start]
    dims = points.shape[1]
    mean = np.empty(dims)
    step = np.empty(dims)
    for i in range(start, stop):
        mean[:] = 0.0
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            w, j = weights[e - before], indices[e]
            total += w
            counts[i] += w > 0.0
            for a in range(dims):
                mean[a] += w * (points[j, a] - centers[i, a])
        for a in range(dims):
            mean[a] = mean[a] / total if center and total > 0.0 else 0.0
        for e in range(indptr[i], indptr[i + 1]):
            w, j = weights[e - before], indices[e]
            if w > 0.0:
                w /= total
                for a in range(dims):
                    step[a] = points[j, a] - centers[i, a] - mean[a]
                for a in range(dims):
                    for b in range(a + 1):
                        out[i - start, a, b] += w * step[a] * step[b]


def _from_covariances(start, stop, centers, points, graph, weights, center, counts, axes):
    """Small ambient dimension: one D x D eigenproblem a point."""
    dims = points.shape[1]
    covariances = np.zeros((stop - start, dims, dims))
    _covariances(start, stop, centers, points, graph.indptr, graph.indices, weights, center, counts, covariances)
    if axes.shape[2] == 0:
        return np.linalg.eigvalsh(covariances, UPLO="L")[:, ::-1]
    values, vectors = np.linalg.eigh(covariances, UPLO="L")
    axes[start:stop] = vectors[:, :, ::-1][:, :, : axes.shape[2]]
    return values[:, ::-1]


def _from_grams(start, stop, centers, points, graph, weights, center, counts, axes):
    """Large ambient dimension: one k x k eigenproblem a point, k the neighbours in use."""
    ends = graph.indptr[start : stop + 1]
    slots = np.arange(np.diff(ends).max(initial=1))
    edges = np.minimum(ends[:-1, None] + slots, ends[-1] - 1)
    w = np.where(slots < np.diff(ends)[:, None], np.append(weights, 0.0)[edges - ends[0]], 0.0)
    counts[start:stop] = (w > 0).sum(axis=1)
    w /= np.maximum(w.sum(axis=1, keepdims=True), TINY)
    best = np.argsort(-w, axis=1, kind="stable")[:, : max(1, counts[start:stop].max())]
    w = np.take_along_axis(w, best, axis=1)
    steps = points[graph.indices[np.take_along_axis(edges, best, axis=1)]]
    steps -= centers[start:stop, None, :]
    if center:
        steps -= w[:, None, :] @ steps
    steps *= np.sqrt(w)[:, :, None]
    gram = steps @ steps.transpose(0, 2, 1)
    if axes.shape[2] == 0:
        return np.linalg.eigvalsh(gram)[:, ::-1]
    values, vectors = np.linalg.eigh(gram)
    count = min(axes.shape[2], values.shape[1])
    left = steps.transpose(0, 2, 1) @ vectors[:, :, ::-1][:, :, :count]
    axes[start:stop, :, :count] = np.linalg.qr(left)[0]
    return values[:, ::-1]


@singledispatch
def local_pca(
    points: Any,
    graph: NeighborGraph,
    radius: float | np.ndarray,
    *,
    centers: np.ndarray | None = None,
    kernel: Kernel | None = None,
    axes: int | None = None,
    spectrum: int = MAX_VARIANCES,
    center: bool = True,
) -> LocalPCA:
    """Principal axes of the neighbours of each point within ``radius`` (a number, or one a point).

    ``points`` (n, D) float64; row i of the graph holds the neighbours of ``centers[i]`` (default:
    the points themselves) and must reach at least as far as the radius. ``axes`` is the number of axes returned
    (default: all, at most 16), ``spectrum`` that of variances, if more. ``center`` subtracts the weighted mean of each
    neighbourhood, which varies less under noise; without it displacements are from ``centers``, as in Algorithm 1 of
    the paper.

    >>> line = np.linspace(0, 1, 20)[:, None] * np.array([[3.0, 4.0]])
    >>> from tangentbundle.geometry.graph import radius_graph
    >>> pca = local_pca(line, radius_graph(line, 1.0), 1.0)
    >>> np.abs(pca.frames(1)[0, :, 0]).round(6).tolist()
    [0.6, 0.8]
    """
    kernel = Biweight() if kernel is None else kernel
    centers = points if centers is None else centers
    n, dims = centers.shape
    keep = min(dims, MAX_VARIANCES) if axes is None else axes
    found, variances = np.zeros((n, dims, keep)), np.zeros((n, min(dims, max(spectrum, keep))))
    total, counts = np.zeros(n), np.zeros(n, np.int64)
    most = int(graph.degrees.max(initial=1))
    small = dims <= max(GRAM_SIZE, most)
    method = _from_covariances if small else _from_grams
    block = max(1, min(EDGES // most, BLOCK // (dims * (dims if small else most))))

    def decompose(start, stop):
        for a in range(start, stop, block):
            b = min(a + block, stop)
            weights = row_weights(graph, kernel, radius, a, b)
            values = np.maximum(method(a, b, centers, points, graph, weights, center, counts, found), 0.0)
            total[a:b] = values.sum(axis=1)
            values = values[:, : variances.shape[1]]
            variances[a:b, : values.shape[1]] = values

    run_ranges(decompose, n, grain=512)
    return LocalPCA(found, variances, total, counts)


def pca_of_nearest(
    points: np.ndarray, distances: np.ndarray, indices: np.ndarray, centers: np.ndarray, axes: int, center: bool = True
) -> LocalPCA:
    """Local PCA at ``centers`` (m, D) of k neighbours of each, nearest first: ``distances``, ``indices`` (m, k)."""
    reach = np.maximum(1.2 * distances[:, -1], np.finfo(float).tiny)
    return local_pca(points, graph_of_lists(distances, indices), reach, centers=centers, axes=axes, center=center)


@singledispatch
def pca_of_some(
    points: Any, rows: np.ndarray, distances: Any, indices: Any, axes: int, center: bool = True
) -> LocalPCA:
    """The same at some of the points; only the points it needs are read, so that they may lie on a device."""
    lists = np.arange(indices.size).reshape(indices.shape)
    return pca_of_nearest(points[indices.ravel()], distances, lists, points[rows], axes, center)
