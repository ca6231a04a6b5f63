"""Shapes with tight curvature or close sheets, and the exact eigenvalues of their connection
Laplacian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh

PARTS = 40_001
"""Points at which profiles are tabulated."""


def arc_lengths(*coordinates: np.ndarray) -> np.ndarray:
    """Lengths of a curve up to each of its points."""
    steps = np.sqrt(sum(np.diff(x) ** 2 for x in coordinates))
    return np.concatenate([[0.0], np.cumsum(steps)])


@dataclass(frozen=True, eq=False)
class Revolution:
    """The surface that a profile ``t -> (rho, z)``, t in [0, 1], sweeps about the z axis.

    It is closed, or runs from pole to pole.
    """

    name: str
    rho: Callable[[np.ndarray], np.ndarray]
    z: Callable[[np.ndarray], np.ndarray]
    closed: bool
    dim: int = 2

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        t = np.linspace(0.0, 1.0, PARTS)
        rho, z = self.rho(t), self.z(t)
        return arc_lengths(rho, z), rho, z

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng(seed)
        s, rho, z = self.table
        area = np.concatenate([[0.0], np.cumsum((rho[1:] + rho[:-1]) * np.diff(s))])
        place = np.interp(rng.uniform(size=n), area / area[-1], s)
        angle = rng.uniform(0, 2 * np.pi, n)
        radius = np.interp(place, s, rho)
        return np.stack(
            [radius * np.cos(angle), radius * np.sin(angle), np.interp(place, s, z)], axis=1
        )

    def spectrum(self, k: int, parts: int = 800) -> np.ndarray:
        """Fields exp(i m phi) f(s) in the frame along and around the axis: |f'|^2 + ((m + rho') /
        rho)^2 |f|^2."""
        s, rho, _ = self.table
        nodes = np.linspace(0.0, s[-1], parts + 1)
        step = s[-1] / parts
        radius = np.interp(nodes[:-1] + step / 2, s, rho)
        slope = np.diff(np.interp(nodes, s, rho)) / step
        left = np.arange(parts)
        right = (left + 1) % parts if self.closed else left + 1
        ends = (
            np.concatenate([left, right, left, right]),
            np.concatenate([left, right, right, left]),
        )

        def matrix(own: np.ndarray, other: np.ndarray) -> sparse.csc_array:
            return sparse.csc_array(
                sparse.coo_array((np.concatenate([own, own, other, other]), ends))
            )

        found: list[float] = []
        for m in range(60):
            for order in {m, -m}:
                turn = (order + slope) ** 2 / radius * step / 4
                energy = matrix(radius / step + turn, turn - radius / step)
                mass = matrix(radius * step / 3, radius * step / 6)
                found += eigsh(
                    energy, min(k, 10), mass, sigma=-0.1, return_eigenvectors=False
                ).tolist()
            if (
                m > 2
                and len(found) > k
                and (1 - np.abs(slope).max() + m - 1) ** 2 / rho.max() ** 2 > sorted(found)[k]
            ):
                break
        return np.repeat(np.sort(found), 2)[:k]


def thin_torus(r: float) -> Revolution:
    def rho(t: np.ndarray) -> np.ndarray:
        return 1 + r * np.cos(2 * np.pi * t)

    return Revolution(f"torus {r}", rho, lambda t: r * np.sin(2 * np.pi * t), closed=True)


def dumbbell(neck: float) -> Revolution:
    def rho(t: np.ndarray) -> np.ndarray:
        return np.sin(np.pi * t) * (neck + (1 - neck) * np.cos(np.pi * t) ** 2)

    return Revolution(f"dumbbell {neck}", rho, lambda t: -2 * np.cos(np.pi * t), closed=False)


@dataclass(frozen=True)
class TwoSpheres:
    """Concentric unit and larger spheres at a distance."""

    gap: float
    dim: int = 2

    @property
    def name(self) -> str:
        return f"two spheres {self.gap}"

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((n, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        outer = (1 + self.gap) ** 2
        points[rng.uniform(size=n) < outer / (1 + outer)] *= 1 + self.gap
        return points

    def spectrum(self, k: int) -> np.ndarray:
        values = np.concatenate(
            [np.full(2 * (2 * degree + 1), degree * (degree + 1) - 1.0) for degree in range(1, 12)]
        )
        return np.sort(np.concatenate([values, values / (1 + self.gap) ** 2]))[:k]


@dataclass(frozen=True)
class Roll:
    """A strip of width 2 rolled up twice, its layers at a distance."""

    gap: float
    dim: int = 2

    @property
    def name(self) -> str:
        return f"roll {self.gap}"

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        turn = np.linspace(0.0, 4 * np.pi, PARTS)
        radius = 0.5 + self.gap * turn / (2 * np.pi)
        x, y = radius * np.cos(turn), radius * np.sin(turn)
        return arc_lengths(x, y), x, y

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng(seed)
        s, x, y = self.table
        place = rng.uniform(0, s[-1], n)
        return np.stack(
            [np.interp(place, s, x), np.interp(place, s, y), rng.uniform(0, 2, n)], axis=1
        )

    def spectrum(self, k: int) -> np.ndarray:
        waves = np.arange(40)
        values = (np.pi * waves[:, None] / self.table[0][-1]) ** 2 + (np.pi * waves / 2) ** 2
        return np.repeat(np.sort(values.ravel()), 2)[:k]


@dataclass(frozen=True)
class Helix:
    """Eight turns of radius one."""

    pitch: float
    dim: int = 1

    @property
    def name(self) -> str:
        return f"helix {self.pitch}"

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        turn = np.random.default_rng(seed).uniform(0, 16 * np.pi, n)
        return np.stack([np.cos(turn), np.sin(turn), self.pitch * turn / (2 * np.pi)], axis=1)

    def spectrum(self, k: int) -> np.ndarray:
        return (np.pi * np.arange(k) / (8 * np.hypot(2 * np.pi, self.pitch))) ** 2
