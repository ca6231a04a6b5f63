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

from ..errors import InvalidInputError, LinearFitWarning, RankDeficientError
from ..geometry.graph import NeighborGraph
from ..geometry.search import nearest_distances, one_search
from ..jit import njit
from ..parallel import run_ranges

if TYPE_CHECKING:
    from ..bundle import TangentBundle

LEAST_QUALITY = 0.25, 0.08, 0.03
"""Of a quadratic fit (``_quality``); their squares of a cubic one. Lopsided neighbourhoods are doubled up to twice, and
those whose points do not determine the fit are doubled on. Points inside reach the first, points at a straight boundary
the second, corners the third."""

SPARE = 1.5
"""How many times the wanted neighbours a row's nearest ones are first looked for among."""

COINCIDENT = 1e-6
"""Neighbours within this share of the bundle's radius are one point up to rounding, as those of a grid at a pole; and
neighbours at the rim with less weight than this do not count."""

MAX_DOUBLINGS = 8
"""How often a neighbourhood is doubled: rows of grids near the poles need it."""


@dataclass(frozen=True)
class LocalFit:
    """Weights ``(e, m)`` of the first m coefficients, for the differences ``f_j - f_i`` along the edges of a graph.

    The graph is directed and in curve order. The coefficients are those of :math:`y_a` (d of them), then of
    :math:`y_a y_b` with a <= b.
    """

    graph: NeighborGraph
    weights: np.ndarray


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


@njit(cache=True, nogil=True)
def _invert(gram, inverse):  # pragma: no cover - compiled
    """The inverse by Cholesky, which overwrites the lower triangle; returns whether there is one."""
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
    for c in range(q):
        for a in range(q):
            total = 1.0 if a == c else 0.0
            for k in range(a):
                total -= gram[a, k] * inverse[k, c]
            inverse[a, c] = total / gram[a, a]
        for a in range(q - 1, -1, -1):
            total = inverse[a, c]
            for k in range(a + 1, q):
                total -= gram[k, a] * inverse[k, c]
            inverse[a, c] = total / gram[a, a]
    return True


@njit(cache=True, nogil=True)
def _quality(variances, inverse, factors):  # pragma: no cover - compiled
    """How well the neighbours determine the fit, from 0 to 1 (evenly spread); the same in all frames.

    The least, over the degrees, of harmonic to arithmetic mean of what the gram matrix is in each direction.
    """
    least, m = 1.0, 0
    while m < len(factors):
        degree, count, total, left = factors[m, 2], 0, 0.0, 0.0
        while m < len(factors) and factors[m, 2] == degree:
            total += variances[m] * factors[m, 3]
            left += inverse[m, m] / factors[m, 3]
            count += 1
            m += 1
        least = min(least, count**2 / (total * left))
    return least


@njit(cache=True, nogil=True)
def _fit_rows(start, stop, rows, points, frames, lists, radii, labels, factors, keep, out, quality):
    # pragma: no cover - compiled
    """Weights of the coefficients of some rows, lengths in units of the radius."""
    count, d, dims, q = lists.shape[1], frames.shape[2], points.shape[1], len(factors)
    features, w, variances = np.empty((count, q)), np.empty(count), np.empty(q)
    gram, inverse, y = np.empty((q, q)), np.empty((q, q)), np.empty(d)
    for r in range(start, stop):
        i = rows[r]
        gram[:] = 0.0
        for e in range(count):
            j = lists[r, e]
            square = 0.0
            y[:] = 0.0
            for a in range(dims):
                step = (points[j, a] - points[i, a]) / radii[r]
                square += step * step
                for b in range(d):
                    y[b] += frames[i, a, b] * step
            w[e] = max(0.0, 1.0 - square) ** 2 if labels[i] == labels[j] else 0.0
            for m in range(q):
                features[e, m] = y[factors[m, 1]] * (features[e, factors[m, 0]] if m >= d else 1.0)
                term = w[e] * features[e, m]
                for b in range(m + 1):
                    gram[m, b] += term * features[e, b]
        for m in range(q):
            variances[m] = gram[m, m]
        quality[r] = 0.0
        if variances[:d].sum() > COINCIDENT and _invert(gram, inverse):
            quality[r] = _quality(variances, inverse, factors)
        for e in range(count):
            for c in range(keep):
                total = 0.0
                if c < q and quality[r] > 0.0:
                    for m in range(q):
                        total += inverse[m, c] * features[e, m]
                    total *= w[e] / (radii[r] if c < d else radii[r] ** 2)
                out[r, e, c] = total


@njit(cache=True, nogil=True)
def _nearest_in_rows(start, stop, rows, graph, k, dim, distances, lists):  # pragma: no cover - compiled
    """The k nearest neighbours of each row that has as many, nearest first."""
    indptr, indices, lengths = graph
    near, who = np.empty(k), np.empty(k, np.int64)
    for r in range(start, stop):
        i, count = rows[r], 0
        a, b = indptr[i], indptr[i + 1]
        if b - a < k:
            continue
        longest = lengths[a:b].max()
        limit = longest * (SPARE * k / (b - a)) ** (1 / dim)  # an even density has a few more than k within
        inside = 0
        for e in range(a, b):
            inside += lengths[e] <= limit
        limit = limit if inside >= k else longest
        for e in range(a, b):
            length = lengths[e]
            if length > limit:
                continue
            place = min(count, k - 1)
            while place > 0 and near[place - 1] > length:
                near[place], who[place] = near[place - 1], who[place - 1]
                place -= 1
            near[place], who[place] = length, indices[e]
            count += 1
            if count >= k:
                limit = near[k - 1]
        distances[r], lists[r] = near, who


def _nearest(bundle: TangentBundle, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices ``(m, k)`` of the nearest points, from the graph of balls where it has enough."""
    graph = bundle.sorted_graph
    if bundle.mesh is not None:
        return nearest_distances(bundle.sorted_points, k, rows)
    distances, lists = np.empty((len(rows), k)), np.empty((len(rows), k), np.int64)
    stored = graph.indptr, graph.indices, graph.distances
    run_ranges(_nearest_in_rows, len(rows), rows, stored, k, bundle.dim, distances, lists, grain=512)
    few = np.flatnonzero(graph.degrees[rows] < k)
    if len(few):
        distances[few], lists[few] = nearest_distances(bundle.sorted_points, k, rows[few])
    return distances, lists


def _fit(bundle: TangentBundle, rows: np.ndarray, k: int, labels: np.ndarray, factors: np.ndarray, keep: int):
    """Neighbours ``(m, k)`` of some rows, weights ``(m, k, keep)`` and the qualities ``(m,)``."""
    points, frames = bundle.sorted_points, bundle.sorted_frames
    distances, lists = _nearest(bundle, rows, min(k + 1, len(points) - 1))
    radii = distances[:, -1] * (1.0 if lists.shape[1] > k else 1.1)  # the rim has no weight: ties do not matter
    radii = np.maximum(radii, np.finfo(float).tiny)
    lists = np.ascontiguousarray(lists[:, :k].astype(np.int32))
    out, quality = np.empty((len(rows), lists.shape[1], keep)), np.empty(len(rows))
    arguments = rows, points, frames, lists, radii, labels, factors, keep, out, quality
    run_ranges(_fit_rows, len(rows), *arguments, grain=512)
    quality[radii < COINCIDENT * np.sqrt(bundle.eps)] = 0.0
    return lists, out, quality


def local_fit(
    bundle: TangentBundle, degree: int = 2, neighbors: int | None = None, keep: int | None = None
) -> LocalFit:
    """Fit polynomials of a degree to the nearest neighbours of every point; ``keep`` coefficients, default d.

    Neighbourhoods whose points do not determine the fit are doubled until they do; where even all points of the
    component do not, the fit is linear, with a warning.
    """
    if bundle.sorted_frames is None:
        raise InvalidInputError("the scalar bundle has no frames: take derivatives with the tangent bundle itself.")
    n, d = bundle.num_points, bundle.dim
    factors, labels = monomials(d, degree), bundle.sorted_graph.components()
    keep = d if keep is None else keep
    rows, k = np.arange(n), min(neighbors or default_neighbors(d, degree), n - 1)
    pieces = []
    with one_search(bundle.sorted_points):
        for doublings in range(MAX_DOUBLINGS + 1):
            lists, weights, quality = _fit(bundle, rows, k, labels, factors, keep)
            limit = LEAST_QUALITY[-1 if k == n - 1 else min(doublings, 2)]
            good = quality >= limit ** max(1, degree - 1)
            pieces.append((rows, lists, weights) if good.all() else (rows[good], lists[good], weights[good]))
            rows = rows[~good]
            if not len(rows) or k == n - 1:
                break
            k = min(2 * k, n - 1)
        if len(rows):
            lists, weights, quality = _fit(bundle, rows, k, labels, factors[:d], keep)
            _warn_of_linear(rows[quality < LEAST_QUALITY[-1]], rows, n, d)
            pieces.append((rows, lists, weights))
    return _joined(pieces, n)


def _warn_of_linear(lost: np.ndarray, rows: np.ndarray, n: int, d: int) -> None:
    if len(lost):
        raise RankDeficientError(
            f"the neighbours of {len(lost)} of {n} points (first: point {lost[0]} along the curve) do not span {d} "
            "directions, so that a gradient is not defined. Use more points, or a smaller dimension."
        )
    warnings.warn(
        f"{len(rows)} of {n} points have too few neighbours for the fit; it is linear there, and second derivatives "
        "are zero. Use more points.",
        LinearFitWarning,
        stacklevel=5,
    )


def _joined(pieces: list, n: int) -> LocalFit:
    """One CSR graph of rows with different numbers of neighbours."""
    counts = np.zeros(n + 1, np.int64)
    for rows, lists, _ in pieces:
        counts[rows + 1] = lists.shape[1]
    indptr, keep = np.cumsum(counts), pieces[0][2].shape[2]
    if len(pieces) == 1:
        return LocalFit(NeighborGraph(indptr, pieces[0][1].ravel(), np.empty(0)), pieces[0][2].reshape(-1, keep))
    indices, weights = np.empty(indptr[-1], np.int32), np.empty((indptr[-1], keep))
    for rows, lists, values in pieces:
        places = indptr[rows][:, None] + np.arange(lists.shape[1])
        indices[places], weights[places] = lists, values
    return LocalFit(NeighborGraph(indptr, indices, np.empty(0)), weights)
