r"""Triangles between the points of a cloud that forms a surface.

Around each point those of Delaunay in its tangent plane: a circle through the point and two
neighbours is empty if inversion :math:`y \mapsto y/|y|^2` makes them the ends of an edge of the
convex hull of all neighbours. Triangles with a large circle are left out, as between points on both
sides of a gap. Nearly all triangles are found around all three corners. Of the others, where four
points nearly lie on a circle, the smallest that fit between the rest are taken.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numba import njit
from scipy import sparse
from scipy.sparse import csgraph

from ..parallel import run_ranges
from .cloud import PointCloud

NEIGHBORS = 64
"""Nearest points from which the triangles around a point are found, and the distance of the last is
the largest radius of a circle. Circles of half that radius hold 16 points on average: larger ones
are empty only at boundaries, which they round off. Smaller holes are closed."""

MAX_HEIGHT = 0.5
"""Height of a neighbour above the tangent plane, in distances: what is higher belongs to another
sheet."""

MAX_CORNERS = 32
"""Most triangles around a point."""

MAX_HOLE = 12
"""Edges of a hole up to which it is closed: where stars disagree triangles may be missing."""


@njit(cache=True, nogil=True)
def _stars(start, stop, points, frames, lists, fans, sizes):  # pragma: no cover - compiled
    """The Delaunay triangles around each point, pairs of neighbours ``fans`` (n, corners, 2)."""
    count = lists.shape[1]
    x = np.empty(count)
    y = np.empty(count)
    index = np.empty(count, np.int64)
    hull = np.empty(2 * count + 2, np.int64)
    for i in range(start, stop):
        m = 0
        for e in range(count):
            j = lists[i, e]
            along = 0.0
            across = 0.0
            square = 0.0
            for a in range(points.shape[1]):
                step = points[j, a] - points[i, a]
                along += frames[i, a, 0] * step
                across += frames[i, a, 1] * step
                square += step * step
            flat = along * along + across * across
            if j == i or flat <= (1.0 - MAX_HEIGHT**2) * square or flat == 0.0:
                continue
            x[m] = along / flat
            y[m] = across / flat
            index[m] = j
            m += 1
        sizes[i] = 0
        if m < 2:
            continue
        order = np.argsort(x[:m])
        top = 0
        for sweep in range(2):  # the lower hull, then the upper one
            bottom = top
            for k in range(m):
                p = order[k] if sweep == 0 else order[m - 1 - k]
                while top >= bottom + 2:
                    q = hull[top - 1]
                    r = hull[top - 2]
                    turn = (x[q] - x[r]) * (y[p] - y[r]) - (y[q] - y[r]) * (x[p] - x[r])
                    if turn > 0.0:
                        break
                    top -= 1
                hull[top] = p
                top += 1
            top -= 1
        for k in range(top):
            p = hull[k]
            q = hull[k + 1] if k + 1 < top else hull[0]
            if x[p] * y[q] - y[p] * x[q] > 0.0 and sizes[i] < fans.shape[1]:
                fans[i, sizes[i], 0] = index[p]
                fans[i, sizes[i], 1] = index[q]
                sizes[i] += 1


def triangulate(cloud: PointCloud, frames: np.ndarray) -> np.ndarray:
    """Triangles ``(f, 3)`` between the points of a cloud, as numbers along the curve; no edge has
    more than two.

    ``frames`` (n, D, 2) are the tangent planes along the curve. Points at which the surface is not
    determined may have no triangles.
    """
    points = np.ascontiguousarray(cloud.points.cpu().numpy())
    n = len(points)
    distances, indices = cloud.nearest(min(NEIGHBORS, n - 1))
    lists = np.ascontiguousarray(indices.cpu().numpy().astype(np.int64))
    fans = np.empty((n, MAX_CORNERS, 2), np.int64)
    sizes = np.empty(n, np.int64)
    run_ranges(_stars, n, points, np.ascontiguousarray(frames), lists, fans, sizes, grain=512)
    is_used = np.arange(MAX_CORNERS) < sizes[:, None]
    centres = np.repeat(np.arange(n), sizes)
    triangles = np.sort(np.concatenate([centres[:, None], fans[is_used]], axis=1), axis=1)
    triangles, votes = np.unique(triangles, axis=0, return_counts=True)
    radii = _circumradii(points[triangles])
    limits = distances[:, -1].cpu().numpy()[triangles].mean(axis=1)
    is_small = radii <= limits
    triangles = triangles[is_small]
    votes = votes[is_small]
    certain = triangles[votes == 3]
    doubtful = triangles[votes < 3]
    doubtful = doubtful[np.argsort(radii[is_small][votes < 3], kind="stable")]
    fitting = _without_pinches(_with_fitting(points, certain, doubtful), n)
    return _without_small_holes(points, fitting)


def _circumradii(corners: np.ndarray) -> np.ndarray:
    """The radii of the circles through the corners ``(f, 3, D)`` of triangles."""
    a = np.linalg.norm(corners[:, 1] - corners[:, 2], axis=1)
    b = np.linalg.norm(corners[:, 2] - corners[:, 0], axis=1)
    c = np.linalg.norm(corners[:, 0] - corners[:, 1], axis=1)
    half = (a + b + c) / 2
    squares = half * (half - a) * (half - b) * (half - c)
    return a * b * c / (4 * np.sqrt(np.maximum(squares, 1e-300)))


def _with_fitting(points: np.ndarray, certain: np.ndarray, doubtful: np.ndarray) -> np.ndarray:
    """The certain triangles, and of the doubtful ones, in this order, those that lie beyond the
    edges of triangles that are there."""
    around: dict[tuple[int, int], list[int]] = defaultdict(list)
    for corners in certain.tolist():
        for edge, opposite in _sides(corners):
            around[edge].append(opposite)
    accepted = []
    for corners in doubtful.tolist():
        sides = _sides(corners)
        if all(_is_free(points, edge, opposite, around[edge]) for edge, opposite in sides):
            accepted.append(corners)
            for edge, opposite in sides:
                around[edge].append(opposite)
    if accepted:
        return np.concatenate([certain, np.array(accepted)])
    return certain


def _sides(corners: list[int]) -> list[tuple[tuple[int, int], int]]:
    """The three edges of a triangle with ascending corners, each with the opposite corner."""
    first, second, third = corners
    return [((first, second), third), ((first, third), second), ((second, third), first)]


def _is_free(points: np.ndarray, edge: tuple[int, int], opposite: int, others: list[int]) -> bool:
    """Whether an edge has at most one triangle, on the other side than a new corner."""
    if not others:
        return True
    if len(others) > 1 or opposite in others:
        return False
    start = points[edge[0]]
    along = points[edge[1]] - start
    heights = []
    for corner in (opposite, others[0]):
        step = points[corner] - start
        heights.append(step - (step @ along) / (along @ along) * along)
    return bool(heights[0] @ heights[1] < 0)


def _without_small_holes(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """The triangles, and others that close holes of few edges, the smallest corner after the
    other."""
    added = []
    for loop in _small_loops(triangles):
        while len(loop) > 3:
            corners = points[np.stack([np.roll(loop, 1), loop, np.roll(loop, -1)], axis=1)]
            k = int(_circumradii(corners).argmin())
            added.append(sorted([loop[k - 1], loop[k], loop[(k + 1) % len(loop)]]))
            del loop[k]
        added.append(sorted(loop))
    if added:
        return np.unique(np.concatenate([triangles, np.array(added)]), axis=0)
    return triangles


def _small_loops(triangles: np.ndarray) -> list[list[int]]:
    """The corners of each hole of few edges, one after the other; a single triangle is none."""
    ends = np.concatenate([triangles[:, [0, 1]], triangles[:, [0, 2]], triangles[:, [1, 2]]])
    edges, counts = np.unique(ends, axis=0, return_counts=True)
    beside: dict[int, list[int]] = defaultdict(list)
    for first, second in edges[counts == 1].tolist():
        beside[first].append(second)
        beside[second].append(first)
    known = set(map(tuple, triangles.tolist()))
    visited: set[int] = set()
    loops = []
    for start in beside:
        loop = [start]
        while loop[-1] not in visited and len(beside[loop[-1]]) == 2 and len(loop) <= MAX_HOLE:
            visited.add(loop[-1])
            following = [corner for corner in beside[loop[-1]] if corner not in loop[-2:]]
            if not following or following[0] == start:
                break
            loop.append(following[0])
        is_closed = len(loop) >= 3 and start in beside[loop[-1]] and len(loop) <= MAX_HOLE
        if is_closed and tuple(sorted(loop)) not in known:
            loops.append(loop)
    return loops


def _without_pinches(triangles: np.ndarray, n: int) -> np.ndarray:
    """The triangles without those that touch the others around a point in that point alone: only
    the largest group of neighbours around each point is kept."""
    while len(triangles):
        is_surplus = _is_in_smaller_fan(triangles, n)
        if not is_surplus.any():
            break
        triangles = triangles[~is_surplus]
    return triangles


def _is_in_smaller_fan(triangles: np.ndarray, n: int) -> np.ndarray:
    """Whether a triangle is not in the largest group of triangles around one of its corners
    ``(f,)``, in which neighbours have a common edge."""
    num_faces = len(triangles)
    corners = np.arange(3 * num_faces).reshape(-1, 3)
    ends = np.stack([triangles[:, [0, 0, 1]], triangles[:, [1, 2, 2]]], axis=2).reshape(-1, 2)
    at_first = corners[:, [0, 0, 1]].ravel()
    at_second = corners[:, [1, 2, 2]].ravel()
    keys = ends[:, 0] * n + ends[:, 1]
    order = np.argsort(keys, kind="stable")
    is_pair = keys[order][1:] == keys[order][:-1]
    left = order[:-1][is_pair]
    right = order[1:][is_pair]
    rows = np.concatenate([at_first[left], at_second[left]])
    columns = np.concatenate([at_first[right], at_second[right]])
    size = 3 * num_faces
    joined = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))
    _, fan = csgraph.connected_components(joined, directed=False)
    fan_sizes = np.bincount(fan)[fan]
    vertices = triangles.ravel()
    # the largest fan of each vertex, the first of equal ones
    by_size = np.lexsort((fan, -fan_sizes, vertices))
    _, first = np.unique(vertices[by_size], return_index=True)
    largest = np.empty(n, np.int64)
    largest[vertices[by_size][first]] = fan[by_size][first]
    return (fan != largest[vertices]).reshape(-1, 3).any(axis=1)
