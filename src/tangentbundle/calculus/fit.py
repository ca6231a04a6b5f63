r"""Polynomials fitted to the neighbours of each point, in tangent coordinates: moving least squares.

Near point i a function is :math:`f(x_j) - f(x_i) \approx g \cdot y_j + \tfrac12 y_j^T H y_j + \dots` with
:math:`y_j = O_i^T (x_j - x_i)`. The coefficients are linear in the values; this module computes their weights.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from scipy import sparse

from ..errors import AccuracyWarning, InvalidInputError, RankDeficientError
from ..geometry.graph import NeighborGraph
from ..geometry.search import nearest_distances, one_search
from ..parallel import run_ranges

if TYPE_CHECKING:
    from ..bundle import TangentBundle

LEAST_QUALITY = 0.25, 0.08, 0.03
"""Of a quadratic fit (``_quality``); the square of the first of a cubic one. Lopsided neighbourhoods are doubled up to
twice, and those whose points do not determine the fit are doubled on. Points inside reach the first, points at a
straight boundary the second, corners the third."""

SPARE = 1.5
"""How many times the wanted neighbours a row's nearest ones are first looked for among."""

COINCIDENT = 1e-6
"""Neighbours within this share of the bundle's radius are one point up to rounding, as those of a grid at a pole; and
neighbours at the rim with less weight than this do not count."""

MAX_DOUBLINGS = 8
"""How often a neighbourhood is doubled: rows of grids near the poles need it."""


@dataclass(frozen=True)
class LocalFit:
    """Weights ``(e, m)`` of the first m coefficients along the edges of a graph.

    The graph is directed, in curve order, and has an edge from each point to itself, so that the weights of a row sum
    to zero. The coefficients are those of :math:`y_a` (d of them), then of :math:`y_a y_b` with a <= b.
    """

    graph: NeighborGraph
    weights: np.ndarray

    def matrix(self, blocks: np.ndarray) -> sparse.csr_array:
        """The matrix ``(n q, n p)`` of blocks ``(e, q, p)``, one for each edge."""
        n, (q, p) = self.graph.num_points, blocks.shape[1:]
        stored = sparse.bsr_array((blocks, self.graph.indices, self.graph.indptr), shape=(n * q, n * p))
        return sparse.csr_array(stored.tocsr())

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        """The coefficients ``(n, k, m)`` of functions ``(n, k)``."""
        return np.stack([self.matrix(w[:, None, None]) @ values for w in self.weights.T], axis=2)


def monomials(d: int, degree: int) -> np.ndarray:
    """Every monomial of degree 1 to ``degree`` in d variables, ``(q, 4)``.

    A row holds another monomial (-1: none) and the variable that multiplies it, the degree, and how many orders the
    factors can be written in.

    >>> monomials(2, 2).tolist()
    [[-1, 0, 1, 1], [-1, 1, 1, 1], [0, 0, 2, 1], [0, 1, 2, 2], [1, 1, 2, 1]]
    """
    found = [f for p in range(1, degree + 1) for f in combinations_with_replacement(range(d), p)]
    orders = [factorial(len(f)) // prod(factorial(f.count(a)) for a in {*f}) for f in found]
    parents = [found.index(f[:-1]) if f[1:] else -1 for f in found]
    return np.array([(p, f[-1], len(f), o) for p, f, o in zip(parents, found, orders, strict=True)], np.int64)


def second_order(d: int) -> int:
    """Coefficients of first and second order in d variables."""
    return d + d * (d + 1) // 2


def default_neighbors(d: int, degree: int) -> int:
    """Three to four times as many points as coefficients: 20 for a quadratic fit on a surface.

    >>> [default_neighbors(d, 2) for d in (1, 2, 3)]
    [8, 20, 36]
    """
    return 4 * len(monomials(d, degree))


def default_degree(bundle: TangentBundle, neighbors: int | None = None) -> int:
    """Cubic fits where the bundle's neighbourhoods, or ``neighbors``, are enough for their coefficients, or quadratic.

    Their error for smooth fields is much smaller, and they stay within the radius that the bundle resolves.
    """
    enough = default_neighbors(bundle.dim, 3) <= (neighbors or np.median(bundle.sorted_graph.degrees))
    return 3 if enough else 2


@njit(cache=True, nogil=True)
def _invert_root(gram, root):  # pragma: no cover - compiled
    """The inverse of the Cholesky factor, lower triangular; overwrites the gram matrix. Whether there is one."""
    q = len(gram)
    for a in range(q):
        before = gram[a, a]
        for b in range(a):
            for k in range(b):
                gram[a, b] -= gram[a, k] * gram[b, k]
            gram[a, b] /= gram[b, b]
            gram[a, a] -= gram[a, b] ** 2
        if not gram[a, a] > 1e-14 * before:
            return False
        gram[a, a] = np.sqrt(gram[a, a])
        for c in range(a):
            total = 0.0
            for k in range(c, a):
                total += gram[a, k] * root[k, c]
            root[a, c] = -total / gram[a, a]
        root[a, a] = 1.0 / gram[a, a]
    return True


@njit(cache=True, nogil=True)
def _quality(variances, root, factors):  # pragma: no cover - compiled
    """How well the neighbours determine the fit, from 0 to 1 (evenly spread); the same in all frames.

    The least, over the degrees, of harmonic to arithmetic mean of what the gram matrix is in each direction.
    """
    least, m = 1.0, 0
    while m < len(factors):
        degree, count, total, left = factors[m, 2], 0, 0.0, 0.0
        while m < len(factors) and factors[m, 2] == degree:
            total += variances[m] * factors[m, 3]
            for k in range(m, len(factors)):
                left += root[k, m] ** 2 / factors[m, 3]  # the diagonal of the inverse
            count += 1
            m += 1
        least = min(least, count**2 / (total * left))
    return least


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _fit_rows(start, stop, rows, points, frames, lists, radii, labels, factors, keep, out, quality):
    # pragma: no cover - compiled
    """Weights of the coefficients of some rows, lengths in units of the radius."""
    count, d, q = lists.shape[1], frames.shape[2], len(factors)
    features, w, weighted = np.empty((q, count)), np.empty(count), np.empty(count)
    gram, root, variances = np.empty((q, q)), np.empty((q, q)), np.empty(q)
    for r in range(start, stop):
        i, scale = rows[r], 1.0 / radii[r]
        features[:d] = 0.0
        for e in range(count):
            j, square = lists[r, e], 0.0
            for a in range(points.shape[1]):
                step = (points[j, a] - points[i, a]) * scale
                square += step * step
                for b in range(d):
                    features[b, e] += frames[i, a, b] * step
            w[e] = max(0.0, 1.0 - square) ** 2 if labels[i] == labels[j] else 0.0
        for m in range(q):
            if m >= d:
                features[m] = features[factors[m, 0]] * features[factors[m, 1]]
            for e in range(count):
                weighted[e] = w[e] * features[m, e]
            for b in range(m + 1):
                total = 0.0
                for e in range(count):
                    total += weighted[e] * features[b, e]
                gram[m, b] = total
            variances[m] = gram[m, m]
        quality[r], out[r] = 0.0, 0.0
        if variances[:d].sum() > COINCIDENT and _invert_root(gram, root):
            quality[r] = _quality(variances, root, factors)
            for c in range(min(keep, q)):
                for m in range(q):
                    factor = 0.0
                    for k in range(max(m, c), q):
                        factor += root[k, m] * root[k, c]
                    factor *= scale if c < d else scale**2
                    for e in range(count):
                        out[r, e, c] += factor * w[e] * features[m, e]
                out[r, count - 1, c] = -out[r, : count - 1, c].sum()  # the point itself


@njit(cache=True, nogil=True)
def _nearest_in_rows(start, stop, rows, graph, k, radius, dim, distances, lists):  # pragma: no cover - compiled
    """The k nearest neighbours of each row that has as many, nearest first, and the distance of the last."""
    indptr, indices, lengths = graph
    near, who = np.empty(k), np.empty(k, np.int32)
    for r in range(start, stop):
        a, b = indptr[rows[r]], indptr[rows[r] + 1]
        limit, count = radius * (SPARE * k / max(1, b - a)) ** (1 / dim), 0  # an even density has a few more within
        while count < k <= b - a:
            count = 0
            for e in range(a, b):
                if lengths[e] <= limit:
                    place = min(count, k - 1)
                    while place > 0 and near[place - 1] > lengths[e]:
                        near[place], who[place] = near[place - 1], who[place - 1]
                        place -= 1
                    near[place], who[place] = lengths[e], indices[e]
                    count += 1
                    limit = near[k - 1] if count >= k else limit
            limit = np.inf
        if count >= k:
            distances[r], lists[r] = near[k - 1], who


def _nearest(bundle: TangentBundle, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices ``(m, k)`` of the nearest points, and the distance of the last; from the graph where it has enough."""
    graph = bundle.sorted_graph
    lists, distances = np.empty((len(rows), k), np.int32), np.empty(len(rows))
    few = np.arange(len(rows))
    if bundle.mesh is None:
        stored = graph.indptr, graph.indices, graph.distances
        radius = float(np.sqrt(bundle.eps))
        run_ranges(_nearest_in_rows, len(rows), rows, stored, k, radius, bundle.dim, distances, lists, grain=512)
        few = np.flatnonzero(graph.degrees[rows] < k)
    if len(few):
        far, lists[few] = nearest_distances(bundle.sorted_points, k, rows[few])
        distances[few] = far[:, -1]
    return lists, distances


def _fit(bundle: TangentBundle, rows: np.ndarray, k: int, labels: np.ndarray, factors: np.ndarray, keep: int):
    """Neighbours ``(m, k + 1)`` of some rows, themselves last, weights ``(m, k + 1, keep)``, qualities ``(m,)``."""
    points, frames = bundle.sorted_points, bundle.sorted_frames
    lists, radii = _nearest(bundle, rows, min(k + 1, len(points) - 1))
    radii = np.maximum(radii * (1.0 if lists.shape[1] > k else 1.1), np.finfo(float).tiny)  # no weight at the rim
    lists = np.concatenate([lists[:, :k], rows[:, None]], axis=1, dtype=np.int32, casting="same_kind")
    out, quality = np.empty((*lists.shape, keep)), np.empty(len(rows))
    arguments = rows, points, frames, lists, radii, labels, factors, keep, out, quality
    run_ranges(_fit_rows, len(rows), *arguments, grain=512)
    quality[radii < COINCIDENT * np.sqrt(bundle.eps)] = 0.0
    return lists, out, quality


def local_fit(
    bundle: TangentBundle, degree: int | None, neighbors: int | None = None, keep: int | None = None
) -> LocalFit:
    """Fit polynomials of a degree to the nearest neighbours of every point; ``keep`` coefficients, default d.

    Where the neighbours do not determine a fit of third or higher degree, it is quadratic, from neighbourhoods that are
    doubled until they determine it; where even all points of the component do not, it is linear, with a warning.
    """
    if bundle.sorted_frames is None:
        raise InvalidInputError("the scalar bundle has no frames: take derivatives with the tangent bundle itself.")
    n, d, labels = bundle.num_points, bundle.dim, bundle.sorted_graph.components()
    degree = degree or default_degree(bundle, neighbors)
    rows, pieces = np.arange(n), []
    with one_search(bundle.sorted_points):
        for power in range(degree, 0, -1):
            k, factors = min(neighbors or default_neighbors(d, power), n - 1), monomials(d, power)
            linear = len(rows) if power < min(degree, 2) else 0
            for doublings in range(1 if power > 2 else MAX_DOUBLINGS + 1):
                lists, weights, quality = _fit(bundle, rows, k, labels, factors, keep or d)
                limit = LEAST_QUALITY[-1 if k == n - 1 else min(doublings, 2)]
                good = quality >= limit ** max(1, power - 1)
                pieces.append((rows[good], lists[good], weights[good]))
                rows = rows[~good]
                if not len(rows):
                    if linear:
                        text = "have too few neighbours for the fit; it is linear there. Use more points."
                        warnings.warn(f"{linear} of {n} points {text}", AccuracyWarning, stacklevel=4)
                    return _joined(pieces, n)
                k = min(2 * k, n - 1)
    raise RankDeficientError(
        f"the neighbours of {len(rows)} of {n} points (first: point {rows[0]} along the curve) do not span {d} "
        "directions, so that a gradient is not defined. Use more points, or a smaller dimension."
    )


def _joined(pieces: list, n: int) -> LocalFit:
    """One CSR graph of rows, ascending in each piece, with different numbers of neighbours."""
    counts, piece = np.empty(n, np.int64), np.empty(n, np.int8)
    for number, (rows, lists, _) in enumerate(pieces):
        counts[rows], piece[rows] = lists.shape[1], number
    indptr, owner = np.concatenate([[0], np.cumsum(counts)]), np.repeat(piece, counts)
    indices, weights = np.empty(indptr[-1], np.int32), np.empty((indptr[-1], pieces[0][2].shape[2]))
    for number, (_, lists, values) in enumerate(pieces):
        here = owner == number
        indices[here], weights[here] = lists.ravel(), values.reshape(-1, values.shape[2])
    return LocalFit(NeighborGraph(indptr, indices, np.empty(0)), weights)
