r"""Exact distances, logarithms and parallel transport on spheres, tori of revolution and rotations.

On a torus with radii R > r geodesics are found by shooting. With the angles u around the axis, v
around the tube and :math:`\alpha` between the geodesic and the parallels,

.. math:: u' = \frac{\cos\alpha}{R + r\cos v}, \qquad v' = \frac{\sin\alpha}{r}, \qquad
          \alpha' = -\frac{\sin v\, \cos\alpha}{R + r\cos v} .

A change of the first angle moves the end across by the Jacobi field j, :math:`j'' = -K j`, so that
Newton's method hits points exactly. A vector that is transported keeps its angle with a geodesic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

SHARE_OF_CUT = 0.8
"""Errors are of points within so much of the distance to the cut locus, in their direction."""

NUM_RAYS = 2880
"""Geodesics of a fan around the source."""

STEP = 0.02
"""Length of a step along a geodesic: Runge and Kutta's errors are below 1e-9."""

CELL = 0.04
"""Side of the cells in which geodesics of a fan are compared."""

CONVERGED = 1e-6
"""Gap between the end of a geodesic and its point below which it is exact."""

NEWTON_STEPS = 6
"""Corrections of the first direction and the length of geodesics."""


@dataclass(frozen=True)
class Truth:
    """What is exact: the vector of the source ``transported`` to all points ``(n, D)``,
    ``distances`` (n,), ``logarithms`` (n, D) at the source, and which points ``is_within`` (n,)
    the share of the distance to the cut locus."""

    transported: np.ndarray
    distances: np.ndarray
    logarithms: np.ndarray
    is_within: np.ndarray


def on_sphere(points: np.ndarray, source: int, vector: np.ndarray) -> Truth:
    """Along great circles of a unit sphere of any dimension."""
    base = points[source]
    distances = np.arccos(np.clip(points @ base, -1.0, 1.0))
    outward = points - (points @ base)[:, None] * base
    outward /= np.maximum(np.linalg.norm(outward, axis=1, keepdims=True), 1e-300)
    outward[source] = 0.0
    distances[source] = 0.0
    along = (outward @ vector)[:, None]
    turned = np.cos(distances)[:, None] * outward - np.sin(distances)[:, None] * base
    return Truth(
        transported=vector - along * outward + along * turned,
        distances=distances,
        logarithms=distances[:, None] * outward,
        is_within=(distances > 0) & (distances < SHARE_OF_CUT * np.pi),
    )


def on_rotations(points: np.ndarray, source: int, vector: np.ndarray) -> Truth:
    r"""In the group of rotations, as matrices ``(n, 9)`` with the distances of :math:`R^9`.

    From B the geodesic with the velocity :math:`B X` is :math:`B e^{s X}`, and transports
    :math:`B Y` to :math:`B e^{s X / 2}\, Y e^{s X / 2}`.
    """
    matrices = points.reshape(-1, 3, 3)
    base = matrices[source]
    turns = Rotation.from_matrix(base.T @ matrices)
    rotation_vectors = turns.as_rotvec()
    angles = np.linalg.norm(rotation_vectors, axis=1)
    halves = Rotation.from_rotvec(rotation_vectors / 2).as_matrix()
    transported = base @ halves @ (base.T @ vector.reshape(3, 3)) @ halves
    logarithms = base @ cross_matrices(rotation_vectors)
    angles[source] = 0.0
    return Truth(
        transported=transported.reshape(-1, 9),
        distances=np.sqrt(2.0) * angles,
        logarithms=logarithms.reshape(-1, 9),
        is_within=(angles > 0) & (angles < SHARE_OF_CUT * np.pi),
    )


def cross_matrices(vectors: np.ndarray) -> np.ndarray:
    """Antisymmetric matrices ``(n, 3, 3)`` of vectors ``(n, 3)``."""
    matrices = np.zeros((len(vectors), 3, 3))
    for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        matrices[:, b, a] = vectors[:, c]
        matrices[:, a, b] = -vectors[:, c]
    return matrices


@dataclass(frozen=True)
class Torus:
    """A torus of revolution: ``R`` to the middle of the tube, ``r`` of the tube."""

    R: float
    r: float

    def truth(self, points: np.ndarray, source: int, vector: np.ndarray) -> Truth:
        """By shooting from the source."""
        start = self._parameters(points[source][None])[0]
        fan = self._fan(start)
        angles, lengths = fan.nearest(points)
        angles, lengths = self._aim(points, start, angles, lengths)
        lengths[source] = 0.0
        ends = self._shoot(start, angles, lengths)
        is_exact = np.linalg.norm(points - self._embed(ends[:, :2]), axis=1) < CONVERGED
        first_axis, second_axis = self._axes(start[None])
        beta = np.arctan2(vector @ second_axis[0], vector @ first_axis[0])
        size = np.linalg.norm(vector)
        at_ends = self._directions(ends[:, :2], beta + ends[:, 2] - angles)
        at_source = self._directions(np.tile(start, (len(points), 1)), angles)
        beyond = self._shoot(start, angles, lengths / SHARE_OF_CUT)
        is_shortest = fan.is_shortest(self._embed(beyond[:, :2]), lengths / SHARE_OF_CUT)
        return Truth(
            transported=size * at_ends,
            distances=lengths,
            logarithms=lengths[:, None] * at_source,
            is_within=is_shortest & is_exact & (lengths > 0),
        )

    def _embed(self, parameters: np.ndarray) -> np.ndarray:
        """Points ``(n, 3)`` of angles ``(n, 2)``."""
        u, v = parameters.T
        radius = self.R + self.r * np.cos(v)
        return np.stack([radius * np.cos(u), radius * np.sin(u), self.r * np.sin(v)], axis=1)

    def _parameters(self, points: np.ndarray) -> np.ndarray:
        """Angles ``(n, 2)`` of points ``(n, 3)``."""
        x, y, z = points.T
        return np.stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y) - self.R)], axis=1)

    def _axes(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Unit tangents ``(n, 3)`` along parallels and around the tube."""
        u, v = parameters.T
        around = np.stack([-np.sin(u), np.cos(u), np.zeros_like(u)], axis=1)
        tube = np.stack([-np.sin(v) * np.cos(u), -np.sin(v) * np.sin(u), np.cos(v)], axis=1)
        return around, tube

    def _directions(self, parameters: np.ndarray, angles: np.ndarray) -> np.ndarray:
        """Unit tangents ``(n, 3)`` at angles to the parallels."""
        around, tube = self._axes(parameters)
        return np.cos(angles)[:, None] * around + np.sin(angles)[:, None] * tube

    def _rates(self, state: np.ndarray) -> np.ndarray:
        """The derivatives of ``(n, 5)``: u, v, alpha, and the Jacobi field with its derivative."""
        _, v, alpha, field, slope = state.T
        radius = self.R + self.r * np.cos(v)
        curvature = np.cos(v) / (self.r * radius)
        rates = [
            np.cos(alpha) / radius,
            np.sin(alpha) / self.r,
            -np.sin(v) * np.cos(alpha) / radius,
            slope,
            -curvature * field,
        ]
        return np.stack(rates, axis=1)

    def _shoot(self, start: np.ndarray, angles: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The states ``(n, 5)`` at the ends of geodesics."""
        state = np.zeros((len(angles), 5))
        state[:, :2] = start
        state[:, 2] = angles
        state[:, 4] = 1.0
        num_steps = max(1, int(np.ceil(np.max(lengths) / STEP)))
        step = (lengths / num_steps)[:, None]
        for _ in range(num_steps):
            state = self._step(state, step)
        return state

    def _step(self, state: np.ndarray, step: np.ndarray | float) -> np.ndarray:
        """One step of Runge and Kutta."""
        first = self._rates(state)
        second = self._rates(state + step / 2 * first)
        third = self._rates(state + step / 2 * second)
        fourth = self._rates(state + step * third)
        return state + step / 6 * (first + 2 * second + 2 * third + fourth)

    def _fan(self, start: np.ndarray) -> _Fan:
        """Geodesics in all directions, as long as the longest shortest way can be."""
        angles = 2 * np.pi * np.arange(NUM_RAYS) / NUM_RAYS
        longest = np.pi * np.hypot(self.R, self.r) + np.pi * self.r
        num_steps = int(longest / STEP)
        state = np.zeros((NUM_RAYS, 5))
        state[:, :2] = start
        state[:, 2] = angles
        state[:, 4] = 1.0
        samples = []
        for _ in range(num_steps):
            state = self._step(state, STEP)
            samples.append(self._embed(state[:, :2]))
        return _Fan(
            samples=np.concatenate(samples),
            angles=np.tile(angles, num_steps),
            lengths=STEP * np.arange(1, num_steps + 1).repeat(NUM_RAYS),
        )

    def _aim(
        self, points: np.ndarray, start: np.ndarray, angles: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The directions and lengths ``(n,)`` of geodesics that end at the points, from close
        ones."""
        for _ in range(NEWTON_STEPS):
            ends = self._shoot(start, angles, lengths)
            gaps = points - self._embed(ends[:, :2])
            along = (gaps * self._directions(ends[:, :2], ends[:, 2])).sum(axis=1)
            across = (gaps * self._directions(ends[:, :2], ends[:, 2] + np.pi / 2)).sum(axis=1)
            field = ends[:, 3]
            turns = np.divide(across, field, where=np.abs(field) > 1e-3, out=np.zeros_like(across))
            angles = angles + np.clip(turns, -0.05, 0.05)
            lengths = np.maximum(lengths + np.clip(along, -0.05, 0.05), 0.0)
        return angles, lengths


class _Fan:
    """Points along many geodesics ``(m, 3)``, with their first ``angles`` and ``lengths`` (m,): of
    the points in each cell of a grid, the one that is reached first."""

    def __init__(self, samples: np.ndarray, angles: np.ndarray, lengths: np.ndarray) -> None:
        self.angles = angles
        self.lengths = np.append(lengths, np.inf)
        keys = _cell_keys(_cells(samples))
        order = np.lexsort([lengths, keys])
        self.keys, starts = np.unique(keys[order], return_index=True)
        self.first_samples = order[starts]

    def nearest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The angle and the length of the geodesic that first comes close to each point."""
        samples = self._first_arrivals(points)
        return self.angles[samples], self.lengths[samples]

    def is_shortest(self, points: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Whether no geodesic arrives at the points earlier than in these lengths, but for the
        size of cells."""
        return self.lengths[self._first_arrivals(points)] > lengths - 3 * CELL

    def _first_arrivals(self, points: np.ndarray) -> np.ndarray:
        """Samples in the cell of each point and in those around it, whose lengths are least."""
        best = np.full(len(points), len(self.angles))
        cells = _cells(points)
        for shift in np.ndindex(3, 3, 3):
            keys = _cell_keys(cells + np.array(shift) - 1)
            places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            has_samples = self.keys[places] == keys
            candidates = np.where(has_samples, self.first_samples[places], len(self.angles))
            best = np.where(self.lengths[candidates] < self.lengths[best], candidates, best)
        return best


def _cells(points: np.ndarray) -> np.ndarray:
    """The cells of a grid that points ``(m, 3)`` lie in, as integers."""
    return np.floor(points / CELL).astype(np.int64)


def _cell_keys(cells: np.ndarray) -> np.ndarray:
    """One number for each cell."""
    shifted = cells + 2**19
    return (shifted[:, 0] << 40) + (shifted[:, 1] << 20) + shifted[:, 2]
