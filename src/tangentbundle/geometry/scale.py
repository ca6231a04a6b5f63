r"""The scale: how wide the balls are whose points count as neighbours.

A user gives a ``Radius`` or a ``NeighborCount``, or leaves the choice to ``Automatic``: accurate
spectrum first, connected graph second, never beyond the reach of the manifold.

On a round sphere two errors oppose each other (measured, figure in docs/theory/scale.md). The
kernel average differs from the Laplacian by a relative :math:`O(\epsilon)`, and the k random
neighbours in a ball make an uneven medium that conducts less than the even one by :math:`O(1/k)`.
With :math:`\epsilon \propto (k/n)^{2/d}` both are equal at :math:`k \propto n^{2/(d+2)}`: this is
``target_neighbors``. On other shapes the curvature and the distance to other sheets decide;
``reach.Reach`` estimates both from the points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..arrays import positive, positive_integer
from ..errors import InvalidInputError, IsolatedPointsError, Remedy, TooFewPointsError
from ..memory import EdgeMemory
from .cloud import PointCloud
from .graph import NeighborGraph
from .reach import Reach, least_neighbors
from .sampled_neighbors import SampledNeighbors
from .widening import widened_radius

MAX_NEIGHBORS = 160
"""Cap on the automatic number of neighbours: keeps the cost linear in n (error floor below 1 %)."""

LARGE_CLOUD = 400_000
"""Points above which the automatic number of neighbours is too large for a laptop."""

MAX_EDGES = 40_000_000
"""Edges that are affordable in a large cloud: 3.2 GB for a million points."""

MIN_NEIGHBORS = 24
"""Fewest neighbours in a large cloud, whatever they cost."""

TIE = 1 + 1e-6
"""Radii are so much larger than the distance of the last neighbour: ties are all in, whatever their
rounding."""


def target_neighbors(n: int, d: int) -> int:
    r"""Neighbours in a ball at the automatic scale: :math:`0.29 \cdot 2^d\, n^{2/(d+2)}`, clipped.

    >>> [target_neighbors(n, 2) for n in (100, 5000, 20000)]
    [12, 82, 160]
    """
    balanced = round(0.29 * 2**d * n ** (2 / (d + 2)))
    return min(max(balanced, least_neighbors(n, d)), MAX_NEIGHBORS, n - 1)


def affordable_neighbors(n: int) -> int | None:
    """Neighbours with which a large cloud fits a laptop, where the automatic number does not; None
    for others.

    >>> affordable_neighbors(100_000), affordable_neighbors(1_000_000)
    (None, 40)
    """
    if n <= LARGE_CLOUD:
        return None
    return max(MIN_NEIGHBORS, MAX_EDGES // n)


def automatic_neighbors(cloud: PointCloud, dim: int) -> int:
    """The automatic number of neighbours of the median point; warns if the points are too sparse
    for the shape.

    >>> import torch, tangentbundle as tb
    >>> sphere = tb.manifolds.Sphere(2).sample(5000, seed=0)
    >>> automatic_neighbors(PointCloud(torch.from_numpy(sphere)), 2)
    82
    """
    reach = Reach.of(cloud, dim, target_neighbors(len(cloud), dim))
    reach.warn(len(cloud))
    return reach.num_neighbors


def radius_for_neighbors(cloud: PointCloud, k: int) -> float:
    """The radius within which the median point has ``k`` neighbours.

    >>> import torch
    >>> radius_for_neighbors(PointCloud(torch.arange(100.0)[:, None]), 2)
    1.0
    """
    sample = SampledNeighbors.of(cloud, k)
    return float(np.median(sample.distances[:, -1]))


class Scale(ABC):
    """How the radius of the balls is chosen: a ``Radius``, a ``NeighborCount`` or ``Automatic``."""

    is_automatic = False

    @abstractmethod
    def radius(self, cloud: PointCloud, dim: int, *, max_memory: float | None = None) -> float:
        """The radius of the balls in a cloud of dimension ``dim``.

        A number of neighbours whose edges need more than ``max_memory`` bytes (default: 80 % of
        what is free) is refused.
        """

    @abstractmethod
    def squared_radius(
        self, cloud: PointCloud, dim: int, *, max_memory: float | None = None
    ) -> float:
        """The same, squared: eps."""

    @abstractmethod
    def ball_graph(
        self, cloud: PointCloud, dim: int, *, max_memory: float | None = None
    ) -> tuple[NeighborGraph, float]:
        """The graph that connects each point to those in its ball, and the squared radius eps.

        Points that are alone in their ball are refused.
        """


@dataclass(frozen=True)
class Radius(Scale):
    r"""Balls of the radius :math:`\sqrt{\epsilon}`, as in the paper.

    >>> import torch
    >>> line = PointCloud(torch.arange(10.0)[:, None])
    >>> Radius(eps=4.0).radius(line, dim=1)
    2.0
    >>> graph, eps = Radius(eps=4.0).ball_graph(line, dim=1)
    >>> graph.num_edges, eps
    (34, 4.0)
    """

    eps: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", positive(self.eps, "eps"))

    def radius(self, cloud: PointCloud, dim: int, *, max_memory: float | None = None) -> float:
        return float(np.sqrt(self.eps))

    def squared_radius(
        self, cloud: PointCloud, dim: int, *, max_memory: float | None = None
    ) -> float:
        return self.eps

    def ball_graph(
        self, cloud: PointCloud, dim: int, *, max_memory: float | None = None
    ) -> tuple[NeighborGraph, float]:
        radius = self.radius(cloud, dim, max_memory=max_memory)
        graph = cloud.within(radius, dim=dim, max_memory=max_memory)
        refuse_isolated(cloud, graph, radius)
        return graph, self.eps


@dataclass(frozen=True)
class NeighborCount(Scale):
    """Balls in which the median point has ``k`` neighbours.

    >>> import torch
    >>> line = PointCloud(torch.arange(100.0)[:, None])
    >>> round(NeighborCount(k=4).radius(line, dim=1), 4)
    2.0
    >>> graph, eps = NeighborCount(k=4).ball_graph(line, dim=1)
    >>> int(np.median(graph.degrees)), round(eps, 4)
    (4, 4.0)
    """

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", positive_integer(self.k, "neighbors"))

    def radius(self, cloud: PointCloud, dim: int, *, max_memory: float | None = None) -> float:
        edges = min(self.k, len(cloud)) * float(len(cloud))
        EdgeMemory(dim, max_memory).require(edges, "Ask for fewer neighbors.")
        radius = radius_for_neighbors(cloud, self.k)
        if radius == 0.0:
            raise TooFewPointsError(
                f"half of the points have {self.k} or more exact duplicates; remove them with "
                "np.unique(points, axis=0)."
            )
        return radius * TIE

    def squared_radius(
        self, cloud: PointCloud, dim: int, *, max_memory: float | None = None
    ) -> float:
        return self.radius(cloud, dim, max_memory=max_memory) ** 2

    def ball_graph(
        self, cloud: PointCloud, dim: int, *, max_memory: float | None = None
    ) -> tuple[NeighborGraph, float]:
        radius = self.radius(cloud, dim, max_memory=max_memory)
        graph = cloud.within(radius, dim=dim, max_memory=max_memory)
        refuse_isolated(cloud, graph, radius)
        return graph, radius**2

    def joined_ball_graph(
        self, cloud: PointCloud, dim: int, *, max_memory: float | None = None
    ) -> tuple[NeighborGraph, float]:
        """The same, with balls up to twice as wide where that connects pieces of the graph."""
        radius = self.radius(cloud, dim, max_memory=max_memory)
        graph = cloud.within(radius, dim=dim, max_memory=max_memory)
        if graph.num_components > 1:
            wider = widened_radius(cloud, graph, radius=radius, dim=dim, neighbors=self.k)
            if wider > radius:
                radius = wider * (1 + 1e-9)
                graph = cloud.within(radius, dim=dim, max_memory=max_memory)
        refuse_isolated(cloud, graph, radius)
        return graph, radius**2


@dataclass(frozen=True)
class Automatic(Scale):
    """Balls with the least expected error, within the reach of the manifold (``reach.Reach``).

    The graph is widened, up to twice the radius, where that connects pieces of it. Points that are
    too sparse for the shape bring an ``AccuracyWarning``.

    >>> import tangentbundle as tb
    >>> cloud = PointCloud.from_points(tb.manifolds.Sphere(2).sample(5000, seed=0))
    >>> graph, eps = Automatic().ball_graph(cloud, dim=2)
    >>> int(np.median(graph.degrees)), graph.num_components
    (82, 1)
    >>> bool(eps == Automatic().radius(cloud, dim=2) ** 2)
    True
    """

    is_automatic = True

    def neighbor_count(self, cloud: PointCloud, dim: int) -> NeighborCount:
        """The number of neighbours with the least expected error."""
        return NeighborCount(automatic_neighbors(cloud, dim))

    def radius(self, cloud: PointCloud, dim: int, *, max_memory: float | None = None) -> float:
        """The radius for the number of neighbours, before it is widened."""
        return self.neighbor_count(cloud, dim).radius(cloud, dim, max_memory=max_memory)

    def squared_radius(
        self, cloud: PointCloud, dim: int, *, max_memory: float | None = None
    ) -> float:
        return self.radius(cloud, dim, max_memory=max_memory) ** 2

    def ball_graph(
        self, cloud: PointCloud, dim: int, *, max_memory: float | None = None
    ) -> tuple[NeighborGraph, float]:
        count = self.neighbor_count(cloud, dim)
        return count.joined_ball_graph(cloud, dim, max_memory=max_memory)


def scale_from(eps: float | None, neighbors: int | None) -> Scale:
    """The scale that a user asked for: a squared radius, a number of neighbours, or neither.

    >>> scale_from(0.1, None), scale_from(None, 20), scale_from(None, None)
    (Radius(eps=0.1), NeighborCount(k=20), Automatic())
    """
    if eps is not None and neighbors is not None:
        raise InvalidInputError("give eps or neighbors, not both.")
    if eps is not None:
        return Radius(eps)
    if neighbors is not None:
        return NeighborCount(neighbors)
    return Automatic()


def refuse_isolated(cloud: PointCloud, graph: NeighborGraph, radius: float) -> None:
    """Refuse a graph with points that have no neighbour."""
    isolated = graph.isolated
    if len(isolated) == 0:
        return
    nearest, _ = cloud.nearest(1, isolated[:100])
    first = cloud.first_number(isolated)[1]
    raise IsolatedPointsError(
        f"{len(isolated)} of {len(cloud)} points (first: {first}, counted from 0) have no "
        f"neighbour within sqrt(eps) = {radius:.4g}; their nearest points are "
        f"{float(nearest.min()):.4g} to {float(nearest.max()):.4g} away.",
        Remedy(
            "Give a larger {eps}, or {neighbors}, or remove outliers. Mind the units of the "
            "coordinates.",
            eps=...,
            neighbors=...,
        ),
    ).at_point(first)
