r"""Polynomials fitted to the neighbours of each point, in tangent coordinates: moving least
squares.

Near point i a function is
:math:`f(x_j) - f(x_i) \approx g \cdot y_j + \tfrac12 y_j^T H y_j + \dots` with
:math:`y_j = O_i^T (x_j - x_i)`. The coefficients are linear in the values; this module computes
their weights.

The fits are computed on the CPU, whatever the device of the bundle, by kernels that read the memory
of the tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit
from scipy import sparse
from torch import Tensor
from torch.nn.functional import pad

from ..arrays import median
from ..errors import AccuracyWarning, InvalidInputError, RankDeficientError, warn
from ..geometry.graph import NeighborGraph
from ..parallel import run_ranges

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MIN_QUALITY_INSIDE = 0.25
"""Least quality of a quadratic fit (see ``_quality``) to as many neighbours as were wanted; its
square is that of a cubic fit. Points inside a manifold reach it."""

MIN_QUALITY_AT_EDGES = 0.08
"""The same after a lopsided neighbourhood was doubled: points at a straight boundary reach it."""

MIN_QUALITY_AT_CORNERS = 0.03
"""The same after a neighbourhood was doubled twice or more, which is done as long as its points do
not determine the fit: points at corners reach it."""

COINCIDENT = 1e-6
"""Neighbours within this share of the bundle's radius are one point up to rounding, as those of a
grid at a pole; and neighbours at the rim with less weight than this do not count."""

MAX_DOUBLINGS = 8
"""How often a neighbourhood is doubled: rows of grids near the poles need it."""

MAX_ROWS = 2**13
"""Points that are fitted at a time: all coefficients of all points would take much memory."""

RIM = 1.1
"""Radius, in distances of the farthest point, where all points are neighbours: that one keeps some
weight."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Fits of some points, all of one degree and with equally many neighbours.

    Attributes are tensors on the CPU: ``rows`` (m,), the points along the curve; ``lists`` (m, k)
    int32, their neighbours, themselves last; ``weights`` (m, k, keep) of the neighbours in each
    coefficient; and the ``degree`` of the polynomials.
    """

    rows: Tensor
    lists: Tensor
    weights: Tensor
    degree: int


@dataclass(frozen=True, eq=False)
class LocalFit:
    """Weights ``(e, m)`` of the first m coefficients along the edges of a graph.

    The graph is directed, in curve order, and has an edge from each point to itself, so that the
    weights of a row sum to zero. The coefficients are those of :math:`y_a` (d of them), then of
    :math:`y_a y_b` with a <= b. ``degrees`` (n,) are those of the polynomials of each point.
    """

    graph: NeighborGraph
    weights: Tensor
    degrees: Tensor

    def matrix(self, blocks: Tensor) -> sparse.csr_array:
        """The matrix ``(n q, n p)`` of blocks ``(e, q, p)``, one for each edge."""
        n = self.graph.num_points
        _, q, p = blocks.shape
        row_ends = self.graph.indptr
        if blocks.numel() < 2**31:
            row_ends = row_ends.int()
        arrays = (blocks.numpy(), self.graph.indices.numpy(), row_ends.numpy())
        return sparse.bsr_array(arrays, shape=(n * q, n * p)).tocsr()


# Monomials.


def monomials(d: int, degree: int) -> np.ndarray:
    """Every monomial of degree 1 to ``degree`` in d variables, ``(q, 4)``.

    A row holds another monomial (-1: none) and the variable that multiplies it, the degree, and how
    many orders the factors can be written in.

    >>> monomials(2, 2).tolist()
    [[-1, 0, 1, 1], [-1, 1, 1, 1], [0, 0, 2, 1], [0, 1, 2, 2], [1, 1, 2, 1]]
    """
    rows: list[tuple[int, int, int, int]] = []
    place_of: dict[tuple[int, ...], int] = {(): -1}
    for power in range(1, degree + 1):
        for variables in combinations_with_replacement(range(d), power):
            place_of[variables] = len(rows)
            repetitions = [factorial(variables.count(a)) for a in set(variables)]
            orders = factorial(power) // prod(repetitions)
            rows.append((place_of[variables[:-1]], variables[-1], power, orders))
    return np.array(rows, np.int64)


def default_neighbors(d: int, degree: int) -> int:
    """Four points for each coefficient: 20 for a quadratic fit on a surface."""
    return 4 * len(monomials(d, degree))


def default_degree(bundle: TangentBundle, neighbors: int | None = None) -> int:
    """Cubic fits where the bundle's neighbourhoods, or ``neighbors``, are enough for their
    coefficients, or quadratic.

    Their error for smooth fields is much smaller, and they stay within the radius that the bundle
    resolves.
    """
    available: float = neighbors or median(bundle.sorted_graph.degrees)
    if available >= default_neighbors(bundle.dim, 3):
        return 3
    return 2


# The kernel of the fits.


@njit(cache=True, nogil=True)
def _invert(gram, variances):  # pragma: no cover - compiled
    """Invert a positive definite matrix with this diagonal in place, by Gauss and Jordan; whether
    it is one."""
    q = len(gram)
    for a in range(q):
        pivot = gram[a, a]
        if not pivot > 1e-14 * variances[a]:
            return False
        gram[a, a] = 1.0
        for c in range(q):
            gram[a, c] /= pivot
        for b in range(q):
            if b != a:
                factor = gram[b, a]
                gram[b, a] = 0.0
                for c in range(q):
                    gram[b, c] -= factor * gram[a, c]
    return True


@njit(cache=True, nogil=True)
def _quality(factors, variances, inverse):  # pragma: no cover - compiled
    """How well the neighbours determine a fit, from 0 to 1 (evenly spread), the same in all frames.

    It is the least, over the degrees, of harmonic to arithmetic mean of what the gram matrix is in
    each direction: ``variances`` (q,) is its diagonal.
    """
    quality = 1.0
    for degree in range(1, factors[-1, 2] + 1):
        size = 0
        arithmetic = 0.0
        harmonic = 0.0
        for m in range(len(factors)):
            if factors[m, 2] == degree:
                size += 1
                arithmetic += variances[m] * factors[m, 3]
                harmonic += inverse[m, m] / factors[m, 3]
        quality = min(quality, size**2 / (arithmetic * harmonic))
    return quality


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _fit_rows(start, stop, rows, points, frames, lists, radii, labels, factors, out, quality):
    # pragma: no cover - compiled
    """Weights ``out`` (m, k, keep) of the coefficients of rows ``start`` to ``stop``, and the
    quality of their fits; lengths in units of the radius."""
    count = lists.shape[1]
    d = frames.shape[2]
    q = len(factors)
    features = np.empty((q, count))  # each monomial at each neighbour
    weights = np.empty(count)
    values = np.empty(count)
    gram = np.empty((q, q))
    variances = np.empty(q)
    for r in range(start, stop):
        i = rows[r]
        scale = 1.0 / radii[r]
        features[:d] = 0.0
        weights[:] = 0.0  # squared distances, at first
        for a in range(points.shape[1]):
            for e in range(count):
                values[e] = (points[lists[r, e], a] - points[i, a]) * scale
                weights[e] += values[e] * values[e]
            for b in range(d):
                for e in range(count):
                    features[b, e] += frames[i, a, b] * values[e]
        for e in range(count):
            if labels[i] == labels[lists[r, e]]:
                weights[e] = max(0.0, 1.0 - weights[e]) ** 2
            else:
                weights[e] = 0.0
        for m in range(q):
            if m >= d:
                features[m] = features[factors[m, 0]] * features[factors[m, 1]]
            for e in range(count):
                values[e] = weights[e] * features[m, e]
            for b in range(m + 1):
                total = 0.0
                for e in range(count):
                    total += values[e] * features[b, e]
                gram[m, b] = total
                gram[b, m] = total
            variances[m] = gram[m, m]
        quality[r] = 0.0
        out[r] = 0.0
        if not (variances[:d].sum() > COINCIDENT and _invert(gram, variances)):
            continue
        quality[r] = _quality(factors, variances, gram)
        for c in range(min(out.shape[2], q)):
            unit = scale
            if c >= d:
                unit = scale**2
            values[:] = 0.0
            for m in range(q):
                factor = gram[c, m] * unit
                for e in range(count):
                    values[e] += factor * features[m, e]
            for e in range(count - 1):
                out[r, e, c] = weights[e] * values[e]
            out[r, count - 1, c] = -out[r, : count - 1, c].sum()  # the point itself


@njit(cache=True, nogil=True)
def _sort_nearest(lengths, indices, count, k):  # pragma: no cover - compiled
    """Sort the first k of ``count`` pairs of lengths and indices, the shortest first, in place."""
    for e in range(1, count):
        length = lengths[e]
        index = indices[e]
        place = min(e, k)
        while place > 0 and lengths[place - 1] > length:
            lengths[place] = lengths[place - 1]
            indices[place] = indices[place - 1]
            place -= 1
        lengths[place] = length
        indices[place] = index


@njit(cache=True, nogil=True)
def _nearest_in_rows(
    start, stop, rows, indptr, graph_indices, graph_lengths, radius, dim, distances, lists
):
    # pragma: no cover - compiled
    """The k nearest neighbours of each row that has as many in a graph, nearest first, and the
    distance of the last."""
    k = lists.shape[1]
    max_degree = 0
    for r in range(start, stop):
        max_degree = max(max_degree, indptr[rows[r] + 1] - indptr[rows[r]])
    lengths = np.empty(max_degree + 1)
    indices = np.empty(max_degree + 1, np.int32)
    for r in range(start, stop):
        first = indptr[rows[r]]
        last = indptr[rows[r] + 1]
        degree = last - first
        count = 0
        limit = radius * (1.25 * k / max(1, degree)) ** (1 / dim)  # an even density has k within
        while count < k <= degree:
            count = 0
            for e in range(first, last):
                lengths[count] = graph_lengths[e]
                indices[count] = graph_indices[e]
                count += graph_lengths[e] < limit
            limit *= 1.2
        _sort_nearest(lengths, indices, count, k)
        if count:
            lists[r] = indices[:k]
            distances[r] = lengths[k - 1]


@njit(cache=True, nogil=True)
def _nearest_along_edges(
    start, stop, rows, indptr, graph_indices, points, distances, lists
):  # pragma: no cover - compiled
    """The k nearest points in space of each row, of those that are few edges away: so many rings
    that they hold k points, and one more. Where all that is connected has fewer, the distance is
    infinite."""
    n, ambient_dim = points.shape
    k = lists.shape[1]
    seen_from = np.full(n, -1, np.int32)
    found = np.empty(n, np.int32)
    indices = np.empty(n, np.int32)
    lengths = np.empty(n)
    for r in range(start, stop):
        i = rows[r]
        seen_from[i] = r
        found[0] = i
        ring_start = 0
        ring_end = 1
        rings_left = 1
        while ring_start < ring_end and rings_left >= 0:
            count = ring_end
            for e in range(ring_start, ring_end):
                for neighbor in graph_indices[indptr[found[e]] : indptr[found[e] + 1]]:
                    if seen_from[neighbor] != r:
                        seen_from[neighbor] = r
                        found[count] = neighbor
                        count += 1
            ring_start = ring_end
            ring_end = count
            rings_left -= count > k
        distances[r] = np.inf
        if ring_end <= k:
            continue
        for e in range(1, ring_end):
            squares = 0.0
            for a in range(ambient_dim):
                squares += (points[found[e], a] - points[i, a]) ** 2
            lengths[e - 1] = np.sqrt(squares)
            indices[e - 1] = found[e]
        _sort_nearest(lengths, indices, ring_end - 1, k)
        lists[r] = indices[:k]
        distances[r] = lengths[k - 1]


# The fits.


class _Surroundings:
    """The points of a bundle with their frames and graph on the CPU, and fits around some of
    them."""

    def __init__(self, bundle: TangentBundle) -> None:
        if bundle.tangent_frames is None:
            raise InvalidInputError(
                "the scalar bundle has no frames: take derivatives with the tangent bundle itself."
            )
        graph = bundle.sorted_graph
        self.cloud = bundle.cloud
        self.points = bundle.cloud.points.cpu()
        self.frames = bundle.tangent_frames.matrices.cpu().contiguous()
        self.labels = graph.components.cpu()
        self.indptr = graph.indptr.cpu()
        self.indices = graph.indices.cpu()
        self.distances = graph.distances.cpu()
        self.radius = bundle.eps**0.5
        self.dim = bundle.dim
        self.has_balls = bundle.weights.mesh is None

    def fit(self, rows: Tensor, neighbors: int, *, degree: int, keep: int) -> tuple[Piece, Tensor]:
        """Fits of a degree to the nearest ``neighbors`` of some rows, and their qualities
        ``(m,)``."""
        n = len(self.points)
        lists, distances = self._nearest(rows, min(neighbors + 1, n - 1))
        if lists.shape[1] == neighbors:
            distances *= RIM  # otherwise the last one lies at the rim, without weight
        radii = distances.clamp_min(torch.finfo(torch.float64).tiny)
        lists = torch.cat([lists[:, :neighbors], rows.int()[:, None]], dim=1)
        weights = torch.empty((*lists.shape, keep), dtype=torch.float64)
        quality = torch.empty(len(rows), dtype=torch.float64)
        run_ranges(
            _fit_rows,
            len(rows),
            rows.numpy(),
            self.points.numpy(),
            self.frames.numpy(),
            lists.numpy(),
            radii.numpy(),
            self.labels.numpy(),
            monomials(self.dim, degree),
            weights.numpy(),
            quality.numpy(),
            grain=512,
        )
        quality[radii < COINCIDENT * self.radius] = 0.0
        return Piece(rows=rows, lists=lists, weights=weights, degree=degree), quality

    def _nearest(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Indices ``(m, k)`` of the nearest points, and the distance of the last; from the graph
        where it has enough.

        On a mesh they are few edges away, so that the two sides of a thin wall are not mixed.
        """
        lists = torch.empty((len(rows), k), dtype=torch.int32)
        distances = torch.empty(len(rows), dtype=torch.float64)
        to_search = torch.arange(len(rows))
        if self.has_balls:
            run_ranges(
                _nearest_in_rows,
                len(rows),
                rows.numpy(),
                self.indptr.numpy(),
                self.indices.numpy(),
                self.distances.numpy(),
                self.radius,
                self.dim,
                distances.numpy(),
                lists.numpy(),
                grain=512,
            )
            degrees = self.indptr.diff()[rows]
            to_search = (degrees < k).nonzero().flatten()
        else:
            run_ranges(
                _nearest_along_edges,
                len(rows),
                rows.numpy(),
                self.indptr.numpy(),
                self.indices.numpy(),
                self.points.numpy(),
                distances.numpy(),
                lists.numpy(),
                grain=4096,
            )
            to_search = distances.isinf().nonzero().flatten()
        if len(to_search):
            far_distances, far_indices = self.cloud.nearest(k, rows[to_search])
            lists[to_search] = far_indices.cpu().int()
            distances[to_search] = far_distances[:, -1].cpu()
        return lists, distances


@dataclass(frozen=True)
class _Attempt:
    """Fits of a degree to so many neighbours, which must have a quality."""

    degree: int
    neighbors: int
    min_quality: float


def _attempts(d: int, degree: int, neighbors: int | None, n: int) -> Iterator[_Attempt]:
    """The fits that are tried in turn, at points where those before were too poor."""
    for power in range(degree, 0, -1):
        first_count = neighbors or default_neighbors(d, power)
        max_doublings = MAX_DOUBLINGS
        if power > 2:
            max_doublings = 0
        for doublings in range(max_doublings + 1):
            count = min(first_count << doublings, n - 1)
            if count == n - 1 or doublings >= 2:
                min_quality = MIN_QUALITY_AT_CORNERS
            elif doublings == 1:
                min_quality = MIN_QUALITY_AT_EDGES
            else:
                min_quality = MIN_QUALITY_INSIDE
            yield _Attempt(power, count, min_quality ** max(1, power - 1))


def local_fits(
    bundle: TangentBundle, degree: int | None, neighbors: int | None = None, keep: int | None = None
) -> Iterator[Piece]:
    """Fit polynomials of a degree to the nearest neighbours of every point; ``keep`` coefficients,
    default d.

    Where the neighbours do not determine a fit of third or higher degree, it is quadratic, from
    neighbourhoods that are doubled until they determine it; where even all points of the component
    do not, it is linear, with a warning. Yields pieces in which each row occurs once.
    """
    surroundings = _Surroundings(bundle)
    n = bundle.num_points
    keep = keep or bundle.dim
    degree = degree or default_degree(bundle, neighbors)
    remaining = torch.arange(n)
    num_linear = 0
    for attempt in _attempts(bundle.dim, degree, neighbors, n):
        if attempt.degree < min(degree, 2) and num_linear == 0:
            num_linear = len(remaining)
        poor = []
        for rows in remaining.tensor_split(-(-len(remaining) // MAX_ROWS)):
            piece, quality = surroundings.fit(
                rows, attempt.neighbors, degree=attempt.degree, keep=keep
            )
            is_good = quality >= attempt.min_quality
            poor.append(rows[~is_good])
            yield _selected(piece, is_good)
        remaining = torch.cat(poor)
        if not len(remaining):
            break
    if len(remaining):
        _, first = bundle.cloud.first_number(remaining)
        raise RankDeficientError(
            f"the neighbours of {len(remaining)} of {n} points (first: {first}, "
            f"counted from 0) do not span {bundle.dim} directions, so that a gradient is not "
            "defined. Use more points, or a smaller dimension."
        ).at_point(first)
    if num_linear:
        warn(
            f"{num_linear} of {n} points have too few neighbours for the fit; it is linear there. "
            "Use more points.",
            AccuracyWarning,
        )


def _selected(piece: Piece, is_good: Tensor) -> Piece:
    """The fits of a piece that are good, ``(m,)`` booleans."""
    if bool(is_good.all()):
        return piece
    return Piece(
        rows=piece.rows[is_good],
        lists=piece.lists[is_good],
        weights=piece.weights[is_good],
        degree=piece.degree,
    )


@njit(cache=True, nogil=True)
def _place_rows(
    start, stop, rows, lists, values, indptr, indices, weights
):  # pragma: no cover - compiled
    """Write the lists and values of rows where ``indptr`` says."""
    for r in range(start, stop):
        first = indptr[rows[r]]
        last = indptr[rows[r] + 1]
        indices[first:last] = lists[r]
        weights[first:last] = values[r]


def join_fits(fits: Iterable[Piece], n: int) -> LocalFit:
    """One graph of the fits of all points, which have different numbers of neighbours."""
    pieces = list(fits)
    sizes = torch.zeros(n, dtype=torch.int64)
    degrees = torch.zeros(n, dtype=torch.int64)
    for piece in pieces:
        sizes[piece.rows] = piece.lists.shape[1]
        degrees[piece.rows] = piece.degree
    indptr = pad(sizes.cumsum(0), (1, 0))
    num_edges = int(indptr[-1])
    indices = torch.empty(num_edges, dtype=torch.int32)
    weights = torch.empty((num_edges, pieces[0].weights.shape[2]), dtype=torch.float64)
    for piece in pieces:
        run_ranges(
            _place_rows,
            len(piece.rows),
            piece.rows.numpy(),
            piece.lists.numpy(),
            piece.weights.numpy(),
            indptr.numpy(),
            indices.numpy(),
            weights.numpy(),
        )
    graph = NeighborGraph(indptr=indptr, indices=indices, distances=weights.new_empty(0))
    return LocalFit(graph=graph, weights=weights, degrees=degrees)
