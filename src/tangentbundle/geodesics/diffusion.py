r"""Heat of a short time from points of a bundle.

A source is as warm as its neighbours after a quarter of the time, or less:
:math:`e^{-4 |y|^2 / t}` at the step y from it. In a cloud it may itself be in no other point's
stencil. Arrays are along the curve.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from ..arrays import host
from ..geometry.stencils import Stencils, tangent_steps
from .conditioned import ConditionedFields, SweptFunctions
from .heat import (
    DirectFieldsOnCurves,
    DirectFieldsOnSurfaces,
    DirectFunctions,
    FieldStep,
    FunctionStep,
    HeatEquation,
)

if TYPE_CHECKING:
    from ..bundle import TangentBundle

MAX_DECAY = 300.0
r"""Most lengths :math:`\sqrt t` from one end of a component to the other: heat falls off by a
factor of e in each, and numbers below :math:`e^{-700}` do not exist."""


class Diffusion:
    """Heat from sources, of functions and of tangent vectors.

    Args:
        bundle: a tangent bundle.
        frames: its tangent bases ``(n, D, d)``.
        stencils: of the same points.
        time: the short time t, a squared length.
    """

    def __init__(
        self, bundle: TangentBundle, frames: Tensor, stencils: Stencils, time: float
    ) -> None:
        self.bundle = bundle
        self.frames = frames
        self.stencils = stencils
        self.time = time

    def neighbors_of(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Neighbours of a source in the bundle's graph, the steps to them, and their transports
        from the source: ``(k,), (k, d), (k, d, d)``."""
        graph = self.bundle.sorted_graph
        edges = slice(int(graph.indptr[row]), int(graph.indptr[row + 1]))
        neighbors = host(graph.indices[edges]).astype(np.int64)
        points = self.bundle.cloud.points
        displacements = (points[neighbors] - points[row])[None]
        frame = self.frames[row][None]
        steps = host(tangent_steps(displacements, frame.double()))[0]
        maps = host(self.bundle.connection.blocks(edges)).swapaxes(1, 2)
        return neighbors, steps, maps

    def of_amounts(self, rows: np.ndarray, amounts: np.ndarray) -> np.ndarray:
        """The heat ``(n, c)`` of amounts ``(s, c)`` at the sources, which are not negative."""
        initial = np.zeros((self.bundle.num_points, amounts.shape[1]))
        for row, amount in zip(rows, amounts, strict=True):
            neighbors, weights, _ = self._start(int(row))
            initial[neighbors] += weights[:, None] * amount
        return self._functions.solve(initial)

    def of_sources(self, rows: np.ndarray) -> np.ndarray:
        """The heat ``(n,)`` of sources that are equally warm."""
        return self.of_amounts(rows, np.ones((len(rows), 1)))[:, 0]

    def of_vectors(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The heat ``(n, d, c)`` of vectors ``(s, d, c)`` at the sources."""
        initial = np.zeros((self.bundle.num_points, *vectors.shape[1:]))
        for row, vector in zip(rows, vectors, strict=True):
            neighbors, weights, maps = self._start(int(row))
            initial[neighbors] += weights[:, None, None] * (maps @ vector)
        return self._fields.solve(initial)

    def _start(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points around a source, how warm they are, and transports to them."""
        neighbors, steps, maps = self.neighbors_of(row)
        squares = (steps**2).sum(axis=1)
        points = np.append(neighbors, row)
        densities = np.append(np.exp(-4.0 * squares / self.time), 1.0)
        densities /= (densities * self._volumes[points]).sum()  # all sources are equally warm
        identity = np.eye(self.bundle.dim)[None]
        return points, densities, np.concatenate([maps, identity])

    @cached_property
    def _volumes(self) -> np.ndarray:
        """The volume around each point, in mean volumes, ``(n,)``: heat leaves it at the rate of
        one over the squared distance to its neighbours."""
        volumes = self.equation.decay ** (-self.bundle.dim / 2)
        return volumes / volumes.mean()

    @cached_property
    def equation(self) -> HeatEquation:
        """The coefficients of the step."""
        return HeatEquation(self.stencils, self.time)

    @cached_property
    def _functions(self) -> FunctionStep:
        if self.equation.is_direct:
            return DirectFunctions(self.equation)
        return SweptFunctions(self.equation)

    @cached_property
    def _fields(self) -> FieldStep:
        equation = self.equation
        if equation.is_direct and equation.rank == 1:
            return DirectFieldsOnCurves(equation)
        if equation.is_direct and equation.rank == 2 and equation.orientation is not None:
            return DirectFieldsOnSurfaces(equation, equation.orientation)
        return ConditionedFields(equation, self._functions)


def default_time(stencils: Stencils, spacings: float) -> float:
    """The square of so many mean steps; longer where a component is so long that heat could
    not be represented at its other end."""
    spacing = float(stencils.lengths.mean())
    _, first_points = np.unique(stencils.components, return_index=True)
    diameter = 2.0 * float(stencils.shortest_ways(first_points).max())
    return max(spacings * spacing, diameter / MAX_DECAY) ** 2
