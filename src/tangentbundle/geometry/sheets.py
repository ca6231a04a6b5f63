"""Any triangles, cut into oriented surfaces: along edges with more than two triangles, where
triangles cannot be oriented alike, and at vertices where several parts meet.

Vectors are transported across an edge between its two triangles. With three there are several ways
on, and around a Möbius band a vector comes back mirrored. A mesh that is cut along such edges has
one way, at the price of a boundary there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .halfedges import agreeing_turns, match_sides, turned_over


@dataclass(frozen=True, eq=False)
class Sheets:
    """Triangles ``faces`` (f, 3) that form oriented surfaces with boundaries, and the vertex
    ``origin`` (m,) of the mesh that each of their vertices comes from."""

    faces: np.ndarray
    origin: np.ndarray

    @classmethod
    def of(cls, faces: np.ndarray) -> Sheets:
        """Cut triangles ``(f, 3)`` without repeated corners, in the same order; vertices in no
        triangle are left out.

        Of the vertices into which a vertex is cut, the first has its number, or the number that
        remains where vertices were left out.
        """
        used, corners = np.unique(faces, return_inverse=True)
        sheets = cls(corners.reshape(-1, 3), used)
        while True:
            twin, crowded = match_sides(sheets.faces, len(sheets.origin))
            is_turned, torn = agreeing_turns(sheets.faces, twin)
            split = sheets._split(np.where(torn, -1, twin))
            is_whole = len(split.origin) == len(sheets.origin)
            unsolved = crowded | torn
            if is_whole and not unsolved.any():
                return cls(turned_over(sheets.faces, is_turned), sheets.origin)
            if is_whole:
                split = sheets._detached(unsolved)
            sheets = split

    def _split(self, twin: np.ndarray) -> Sheets:
        """The same triangles, with a vertex for each fan of triangles that twins connect."""
        tails = self.faces.ravel()
        corners = np.arange(len(tails)).reshape(-1, 3)
        following = np.roll(corners, -1, axis=1).ravel()
        linked = np.flatnonzero(twin > np.arange(len(tails)))
        mates = twin[linked]
        is_alike = tails[linked] == tails[mates]
        mates_at_tail = np.where(is_alike, mates, following[mates])
        mates_at_head = np.where(is_alike, following[mates], mates)
        starts = np.concatenate([linked, following[linked]])
        ends = np.concatenate([mates_at_tail, mates_at_head])
        links = coo_array((np.ones(len(starts)), (starts, ends)), shape=(len(tails), len(tails)))
        fans = connected_components(links, directed=False)[1]
        return self._with_fans(fans)

    def _detached(self, is_unsolved: np.ndarray) -> Sheets:
        """The same triangles, with vertices of their own for all but the first of those at each
        edge that splitting vertices does not cut.

        Such an edge may be the only one that its ends have in common with others.
        """
        tails = self.faces.ravel()
        heads = np.roll(self.faces, -1, axis=1).ravel()
        n = len(self.origin)
        keys = np.minimum(tails, heads) * n + np.maximum(tails, heads)
        sides = np.flatnonzero(np.isin(keys, keys[is_unsolved]))
        first = np.unique(keys[sides], return_index=True)[1]
        others = np.delete(sides, first) // 3
        fans = self.faces.copy()
        num_new = 3 * len(np.unique(others))
        fans[np.unique(others)] = n + np.arange(num_new).reshape(-1, 3)
        return self._with_fans(fans.ravel())

    def _with_fans(self, fans: np.ndarray) -> Sheets:
        """The same triangles with the vertices that labels ``(3 f,)`` of their corners tell apart.

        The first of the new vertices at each old one has its number.
        """
        tails = self.faces.ravel()
        first, labels = np.unique(fans, return_index=True, return_inverse=True)[1:]
        origin = tails[first]
        order = np.lexsort([first, origin])
        is_first = np.ones(len(order), bool)
        is_first[1:] = origin[order[1:]] != origin[order[:-1]]
        numbers = np.empty(len(order), np.int64)
        numbers[order[is_first]] = origin[order[is_first]]
        numbers[order[~is_first]] = len(self.origin) + np.arange(int((~is_first).sum()))
        old = np.empty(len(order), np.int64)
        old[numbers] = origin
        return Sheets(numbers[labels].reshape(-1, 3), self.origin[old])
