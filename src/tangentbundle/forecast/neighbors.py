"""Neighbours of points, with the maps that carry their vectors over, there and at other places of the manifold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree


@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """For each point k + 1 places ``index (n, k + 1)``, its own first, and maps ``(n, k + 1, d, d)`` of vectors there
    to its own coordinates.
    """

    index: np.ndarray
    maps: np.ndarray

    def gather(self, values: np.ndarray) -> np.ndarray:
        """Fields ``(T, m, d)`` at the places, in coordinates of the points: ``(n, T, k + 1, d)``."""
        return np.einsum("nkab,tnkb->ntka", self.maps, values[:, self.index], optimize=True)


def nearest(points: np.ndarray, frames: np.ndarray, count: int) -> tuple[Neighborhoods, np.ndarray, float]:
    """The nearest points, weights ``(n, k)`` that fall with their distance, and the typical distance."""
    away, index = cKDTree(points).query(points, k=min(count, len(points) - 1) + 1)
    index[:, 0] = np.arange(len(points))
    spacing = float(np.median(away[:, 1:9])) or 1.0
    maps = np.einsum("nia,nkib->nkab", frames, frames[index], optimize=True)
    return Neighborhoods(index, maps), np.exp(-np.square(away[:, 1:] / spacing) / 2), spacing


def displaced(
    near: Neighborhoods, points: np.ndarray, frames: np.ndarray, shifts: np.ndarray
) -> Iterator[Neighborhoods]:
    """Neighbourhoods of the first n of m known points, moved along each of the ambient ``shifts (s, D)``."""
    n, tree = len(near.index), cKDTree(points)
    here = frames[:n]
    away = points[near.index] - points[:n, None]
    for shift in shifts:
        centre = tree.query(points[:n] + np.einsum("nia,nja,j->ni", here, here, shift))[1]
        there = frames[centre]
        u, cosines, vt = np.linalg.svd(there.transpose(0, 2, 1) @ here)
        a, b, c = here @ vt.transpose(0, 2, 1), there @ u, cosines[:, None]
        along_a, along_b = away @ a, away @ b
        # the smallest rotation from the tangent space here to that there turns the differences to the neighbours
        turned = away + ((1 + 2 * c) * along_a - along_b) / (1 + c) @ b.transpose(0, 2, 1)
        turned -= (along_a + along_b) / (1 + c) @ a.transpose(0, 2, 1)
        index = tree.query(points[centre][:, None] + turned)[1]
        index[:, 0] = centre
        carried = np.einsum("nic,nkib->nkcb", there, frames[index], optimize=True)
        yield Neighborhoods(index, np.einsum("nca,nkcb->nkab", u @ vt, carried, optimize=True))
