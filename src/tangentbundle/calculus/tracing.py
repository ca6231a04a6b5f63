"""Curves that follow the directions of a flow, step by step."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Flow(ABC):
    """Directions at places near sampled points."""

    @abstractmethod
    def directions(self, places: np.ndarray, headings: np.ndarray) -> np.ndarray:
        """The unit vectors of the flow ``(m, D)`` at places ``(m, D)``; of several directions those
        nearest to the ``headings`` (m, D)."""

    @abstractmethod
    def landed(self, places: np.ndarray) -> np.ndarray:
        """Places ``(m, D)`` moved to the surface."""


def trace(
    flow: Flow, places: np.ndarray, headings: np.ndarray, *, steps: int, length: float
) -> list[np.ndarray]:
    """The places ``(m, D)`` at the beginning and after each step of this length, by the midpoint
    rule; against the flow if the length is negative."""
    visited = [places]
    for _ in range(steps):
        headings = flow.directions(places, headings)
        headings = flow.directions(places + length / 2 * headings, headings)
        places = flow.landed(places + length * headings)
        visited.append(places)
    return visited
