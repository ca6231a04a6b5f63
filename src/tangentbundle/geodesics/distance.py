r"""Distances along shortest geodesics, and the directions in which they grow.

Of the heat u of the sources only the direction is taken: :math:`-\log u` grows away from the
sources, along the unit vectors :math:`g = \nabla(-\log u) / |\nabla \log u|` (Crane, Weischedel and
Wardetzky, 2013, "Geodesics in heat"). Along these the distance is summed up, from warm points to
cold ones (``front``). No distance is less than that in a straight line, or more than that along
edges.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

from ..arrays import host
from .diffusion import Diffusion
from .front import Front
from .gradient import gradient_matrix

BOUNDARY_WIDTH = 2.0
r"""Lengths :math:`\sqrt t` from a boundary in which it bends heat: heat that came from there has
fallen off by :math:`e^{-4}`."""


class Distance:
    """Distances from sources.

    Args:
        diffusion: the heat of the sources.
    """

    def __init__(self, diffusion: Diffusion) -> None:
        self.diffusion = diffusion
        self.bundle = diffusion.bundle

    def lengths(self, rows: np.ndarray, front: Front) -> np.ndarray:
        """Distances ``(n,)`` to the sources; infinite where the front does not arrive."""
        points = host(self.bundle.cloud.points)
        straight, _ = cKDTree(points[rows]).query(points)
        along_edges = self.diffusion.stencils.shortest_ways(rows)
        return np.maximum(np.minimum(front.distances, along_edges), straight)

    def directions(self, front: Front) -> np.ndarray:
        """Unit vectors ``(n, d)`` along which distances grow. Fits at a boundary are one-sided:
        there they are those of the front."""
        distances = np.where(front.is_known, front.distances, 0.0)
        directions = self._unit_gradient(distances, front.is_known)
        directions[self._is_near_boundary] = front.directions[self._is_near_boundary]
        return directions

    def front(self, rows: np.ndarray, heat: np.ndarray) -> Front:
        """The front from sources, at the points where their ``heat`` (n,) arrives."""
        is_reached = heat > 0
        logarithms = np.zeros(len(heat))
        logarithms[is_reached] = -np.log(heat[is_reached])
        directions = self._unit_gradient(logarithms, is_reached)
        around_sources = self._front_around(rows, directions)
        return around_sources.advance(self.diffusion.equation, heat, self._is_near_boundary)

    def _front_around(self, rows: np.ndarray, directions: np.ndarray) -> Front:
        """The front next to the sources, where distances are the lengths of steps from them;
        ``directions`` (n, d) elsewhere."""
        distances = np.full(self.bundle.num_points, np.inf)
        for row in rows:
            neighbors, steps, maps = self.diffusion.neighbors_of(int(row))
            lengths = np.linalg.norm(steps, axis=1)
            is_nearer = (lengths < distances[neighbors]) & (lengths > 0)
            distances[neighbors] = np.minimum(distances[neighbors], lengths)
            outward = steps[is_nearer] / lengths[is_nearer, None]
            directions[neighbors[is_nearer]] = np.einsum("kij,kj->ki", maps[is_nearer], outward)
        distances[rows] = 0.0
        directions[rows] = 0.0
        return Front(distances, directions, np.isfinite(distances))

    def _unit_gradient(self, values: np.ndarray, is_known: np.ndarray) -> np.ndarray:
        """Directions ``(n, d)`` in which ``values`` (n,) grow; zero where they are not known, or
        do not grow."""
        gradient = (self._gradient @ values).reshape(len(values), -1)
        lengths = np.linalg.norm(gradient, axis=1, keepdims=True)
        usable = is_known[:, None] & (lengths > 0)
        return np.divide(gradient, lengths, where=usable, out=np.zeros_like(gradient))

    @cached_property
    def _gradient(self) -> sparse.bsr_array:
        """The gradient of functions as a matrix ``(n d, n)`` along the curve."""
        return gradient_matrix(self.diffusion.stencils)

    @cached_property
    def _is_near_boundary(self) -> np.ndarray:
        """Whether heat is bent by a boundary at points ``(n,)``."""
        boundary = np.flatnonzero(self.diffusion.stencils.drift.numpy())
        if len(boundary) == 0:
            return np.zeros(self.bundle.num_points, bool)
        width = BOUNDARY_WIDTH * self.diffusion.time**0.5
        return np.isfinite(self.diffusion.stencils.shortest_ways(boundary, width))
