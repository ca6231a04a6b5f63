r"""Polynomials fitted to the neighbours of each point, in tangent coordinates: moving least
squares.

Near point i a function is
:math:`f(x_j) - f(x_i) \approx g \cdot y_j + \tfrac12 y_j^T H y_j + \dots` with
:math:`y_j = O_i^T (x_j - x_i)`. The coefficients are linear in the values; this module computes
their weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from ..errors import AccuracyWarning, InvalidInputError, RankDeficientError, warn
from ..geometry.graph import NeighborGraph
from ..parallel import run_ranges

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MIN_QUALITY = 0.25, 0.08, 0.03
"""Of a quadratic fit (see ``_fit_rows``); the square of the first of a cubic one. Lopsided
neighbourhoods are doubled up to twice, and those whose points do not determine the fit are doubled
on. Points inside reach the first, points at a straight boundary the second, corners the third."""

COINCIDENT = 1e-6
"""Neighbours within this share of the bundle's radius are one point up to rounding, as those of a
grid at a pole; and neighbours at the rim with less weight than this do not count."""

MAX_DOUBLINGS = 8
"""How often a neighbourhood is doubled: rows of grids near the poles need it."""

MAX_ROWS = 2**13
"""Points that are fitted at a time: all coefficients of all points would take much memory."""


class Piece(NamedTuple):
    """Some of the fits of ``local_fits``, all of one degree and with equally many neighbours."""

    rows: np.ndarray  # the points that are fitted (m,)
    lists: np.ndarray  # their neighbours (m, k), themselves last
    weights: np.ndarray  # of the neighbours in each coefficient (m, k, keep)
    degree: int  # of the polynomials


@dataclass(frozen=True)
class LocalFit:
    """Weights ``(e, m)`` of the first m coefficients along the edges of a graph.

    The graph is directed, in curve order, and has an edge from each point to itself, so that the
    weights of a row sum to zero. The coefficients are those of :math:`y_a` (d of them), then of
    :math:`y_a y_b` with a <= b. ``degrees`` (n,) are those of the polynomials of each point.
    """

    graph: NeighborGraph
    weights: np.ndarray
    degrees: np.ndarray

    def matrix(self, blocks: np.ndarray) -> sparse.csr_array:
        """The matrix ``(n q, n p)`` of blocks ``(e, q, p)``, one for each edge."""
        n, (q, p), indices = self.graph.num_points, blocks.shape[1:], self.graph.indices
        starts = self.graph.indptr.astype(np.int32 if blocks.size < 2**31 else np.int64)
        return sparse.bsr_array((blocks, indices, starts), shape=(n * q, n * p)).tocsr()


def monomials(d: int, degree: int) -> np.ndarray:
    """Every monomial of degree 1 to ``degree`` in d variables, ``(q, 4)``.

    A row holds another monomial (-1: none) and the variable that multiplies it, the degree, and how
    many orders the factors can be written in.

    >>> monomials(2, 2).tolist()
    [[-1, 0, 1, 1], [-1, 1, 1, 1], [0, 0, 2, 1], [0, 1, 2, 2], [1, 1, 2, 1]]
    """
    found = [f for p in range(1, degree + 1) for f in combinations_with_replacement(range(d), p)]
    orders = [factorial(len(f)) // prod(factorial(f.count(a)) for a in {*f}) for f in found]
    parents = [found.index(f[:-1]) if f[1:] else -1 for f in found]
    return np.array(
        [(p, f[-1], len(f), o) for p, f, o in zip(parents, found, orders, strict=True)], np.int64
    )


def default_neighbors(d: int, degree: int) -> int:
    """Four points for each coefficient: 20 for a quadratic fit on a surface."""
    return 4 * len(monomials(d, degree))


def default_degree(bundle: TangentBundle, neighbors: int | None = None) -> int:
    """Cubic fits where the bundle's neighbourhoods, or ``neighbors``, are enough for their
    coefficients, or quadratic.

    Their error for smooth fields is much smaller, and they stay within the radius that the bundle
    resolves.
    """
    enough = default_neighbors(bundle.dim, 3) <= (
        neighbors or np.median(bundle.sorted_graph.degrees)
    )
    return 3 if enough else 2


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
                factor, gram[b, a] = gram[b, a], 0.0
                for c in range(q):
                    gram[b, c] -= factor * gram[a, c]
    return True


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _fit_rows(start, stop, rows, points, frames, lists, radii, labels, factors, out, quality):
    # pragma: no cover - compiled
    """Weights of the coefficients of some rows, lengths in units of the radius.

    The quality says how well the neighbours determine the fit, from 0 to 1 (evenly spread), the
    same in all frames: the least, over the degrees, of harmonic to arithmetic mean of what the gram
    matrix is in each direction.
    """
    count, d, q = lists.shape[1], frames.shape[2], len(factors)
    features, w, values = np.empty((q, count)), np.empty(count), np.empty(count)
    gram, variances, means = np.empty((q, q)), np.empty(q), np.empty((factors[-1, 2], 2))
    for r in range(start, stop):
        i, scale = rows[r], 1.0 / radii[r]
        features[:d], w[:] = 0.0, 0.0
        for a in range(points.shape[1]):
            for e in range(count):
                values[e] = (points[lists[r, e], a] - points[i, a]) * scale
                w[e] += values[e] * values[e]
            for b in range(d):
                for e in range(count):
                    features[b, e] += frames[i, a, b] * values[e]
        for e in range(count):
            w[e] = max(0.0, 1.0 - w[e]) ** 2 if labels[i] == labels[lists[r, e]] else 0.0
        for m in range(q):
            if m >= d:
                features[m] = features[factors[m, 0]] * features[factors[m, 1]]
            for e in range(count):
                values[e] = w[e] * features[m, e]
            for b in range(m + 1):
                total = 0.0
                for e in range(count):
                    total += values[e] * features[b, e]
                gram[m, b] = gram[b, m] = total
            variances[m] = gram[m, m]
        quality[r], out[r], means[:] = 0.0, 0.0, 0.0
        if not (variances[:d].sum() > COINCIDENT and _invert(gram, variances)):
            continue
        for m in range(q):
            means[factors[m, 2] - 1, 0] += variances[m] * factors[m, 3]
            means[factors[m, 2] - 1, 1] += gram[m, m] / factors[m, 3]
        for p in range(len(means)):
            size = (factors[:, 2] == p + 1).sum()
            quality[r] = min(quality[r] if p else 1.0, size**2 / (means[p, 0] * means[p, 1]))
        for c in range(min(out.shape[2], q)):
            values[:] = 0.0
            for m in range(q):
                factor = gram[c, m] * (scale if c < d else scale**2)
                for e in range(count):
                    values[e] += factor * features[m, e]
            for e in range(count - 1):
                out[r, e, c] = w[e] * values[e]
            out[r, count - 1, c] = -out[r, : count - 1, c].sum()  # the point itself


@njit(cache=True, nogil=True)
def _nearest_in_rows(start, stop, rows, indptr, indices, lengths, radius, dim, distances, lists):
    # pragma: no cover - compiled
    """The k nearest neighbours of each row that has as many, nearest first, and the distance of the
    last."""
    k, most = lists.shape[1], 0
    for r in range(start, stop):
        most = max(most, indptr[rows[r] + 1] - indptr[rows[r]])
    near, who = np.empty(most + 1), np.empty(most + 1, np.int32)
    for r in range(start, stop):
        a, b = indptr[rows[r]], indptr[rows[r] + 1]
        count, limit = (
            0,
            radius * (1.25 * k / max(1, b - a)) ** (1 / dim),
        )  # an even density has more than k within
        while count < k <= b - a:
            count = 0
            for e in range(a, b):
                near[count], who[count] = lengths[e], indices[e]
                count += lengths[e] < limit
            limit *= 1.2
        for e in range(1, count):
            length, index, place = near[e], who[e], min(e, k)
            while place > 0 and near[place - 1] > length:
                near[place], who[place] = near[place - 1], who[place - 1]
                place -= 1
            near[place], who[place] = length, index
        if count:
            lists[r], distances[r] = who[:k], near[k - 1]


def _nearest(bundle: TangentBundle, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices ``(m, k)`` of the nearest points, and the distance of the last; from the graph where
    it has enough."""
    graph, few = bundle.sorted_graph, np.arange(len(rows))
    lists, distances = np.empty((len(rows), k), np.int32), np.empty(len(rows))
    if bundle.mesh is None:
        stored = (
            graph.indptr,
            graph.indices,
            graph.distances,
            float(np.sqrt(bundle.eps)),
            bundle.dim,
        )
        run_ranges(_nearest_in_rows, len(rows), rows, *stored, distances, lists, grain=512)
        few = np.flatnonzero(graph.degrees[rows] < k)
    if len(few):
        far, lists[few] = bundle.cloud.nearest(k, rows[few])
        distances[few] = far[:, -1]
    return lists, distances


def _fit(
    bundle: TangentBundle,
    rows: np.ndarray,
    k: int,
    labels: np.ndarray,
    factors: np.ndarray,
    keep: int,
):
    """Neighbours ``(m, k + 1)`` of some rows, themselves last, weights ``(m, k + 1, keep)``,
    qualities ``(m,)``."""
    points, frames = bundle.sorted_points, bundle.sorted_frames
    lists, radii = _nearest(bundle, rows, min(k + 1, len(points) - 1))
    radii = np.maximum(
        radii * (1.0 if lists.shape[1] > k else 1.1), np.finfo(float).tiny
    )  # no weight at the rim
    lists = np.concatenate(
        [lists[:, :k], rows[:, None]], axis=1, dtype=np.int32, casting="same_kind"
    )
    out, quality = np.empty((*lists.shape, keep)), np.empty(len(rows))
    run_ranges(
        _fit_rows,
        len(rows),
        rows,
        points,
        frames,
        lists,
        radii,
        labels,
        factors,
        out,
        quality,
        grain=512,
    )
    quality[radii < COINCIDENT * np.sqrt(bundle.eps)] = 0.0
    return lists, out, quality


def _attempts(
    d: int, degree: int, neighbors: int | None, n: int
) -> Iterator[tuple[int, int, float]]:
    """Degree, neighbours and least quality of the fits that are tried in turn."""
    for power in range(degree, 0, -1):
        k = neighbors or default_neighbors(d, power)
        for doublings in range(1 if power > 2 else MAX_DOUBLINGS + 1):
            most = min(k << doublings, n - 1)
            yield (
                power,
                most,
                MIN_QUALITY[-1 if most == n - 1 else min(doublings, 2)] ** max(1, power - 1),
            )


def local_fits(
    bundle: TangentBundle, degree: int | None, neighbors: int | None = None, keep: int | None = None
) -> Iterator[Piece]:
    """Fit polynomials of a degree to the nearest neighbours of every point; ``keep`` coefficients,
    default d.

    Where the neighbours do not determine a fit of third or higher degree, it is quadratic, from
    neighbourhoods that are doubled until they determine it; where even all points of the component
    do not, it is linear, with a warning. Yields pieces in which each row occurs once.
    """
    if bundle.sorted_frames is None:
        raise InvalidInputError(
            "the scalar bundle has no frames: take derivatives with the tangent bundle itself."
        )
    n, d, labels = bundle.num_points, bundle.dim, bundle.sorted_graph.components()
    degree = degree or default_degree(bundle, neighbors)
    left, linear = np.arange(n), 0
    if True:
        for power, k, least in _attempts(d, degree, neighbors, n):
            linear = linear or (len(left) if power < min(degree, 2) else 0)
            poor = []
            for rows in np.array_split(left, -(-len(left) // MAX_ROWS)):
                lists, weights, quality = _fit(
                    bundle, rows, k, labels, monomials(d, power), keep or d
                )
                good = quality >= least
                poor.append(rows[~good])
                if not good.all():
                    rows, lists, weights = (array[good] for array in (rows, lists, weights))
                yield Piece(rows, lists, weights, power)
            left = np.concatenate(poor)
            if not len(left):
                break
    if len(left):
        first = bundle.cloud.first_number(left)[1]
        raise RankDeficientError(
            f"the neighbours of {len(left)} of {n} points (first: {first}, "
            f"counted from 0) do not span {d} directions, so that a gradient is not defined. Use "
            "more points, or a smaller dimension."
        ).at_point(first)
    if linear:
        text = "have too few neighbours for the fit; it is linear there. Use more points."
        warn(f"{linear} of {n} points {text}", AccuracyWarning)


@njit(cache=True, nogil=True)
def _place_rows(
    start, stop, rows, lists, values, indptr, indices, weights
):  # pragma: no cover - compiled
    for r in range(start, stop):
        a, b = indptr[rows[r]], indptr[rows[r] + 1]
        indices[a:b], weights[a:b] = lists[r], values[r]


def join_fits(pieces: Iterable[Piece], n: int) -> LocalFit:
    """One graph of the fits of all points, which have different numbers of neighbours."""
    pieces = list(pieces)
    sizes, degrees = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for piece in pieces:
        sizes[piece.rows] = piece.lists.shape[1]
        degrees[piece.rows] = piece.degree
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    indices, weights = (
        np.empty(indptr[-1], np.int32),
        np.empty((indptr[-1], pieces[0].weights.shape[2])),
    )
    for piece in pieces:
        run_ranges(_place_rows, len(piece.rows), *piece[:3], indptr, indices, weights)
    return LocalFit(NeighborGraph(indptr, indices, np.empty(0)), weights, degrees)
