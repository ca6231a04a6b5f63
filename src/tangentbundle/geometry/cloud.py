"""A cloud of points: sorted along a curve, searched, and sampled."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ..arrays import Array, host, points_tensor
from ..errors import DuplicatePointsWarning, InvalidInputError, TooFewPointsError, warn
from ..extras import use_triton
from ..memory import EdgeMemory, device_memory
from .block_search import BlockSearch
from .graph import NeighborGraph
from .ordering import order_along_curve
from .tree_search import TreeSearch

SAMPLE_SIZE = 2000
"""Points looked at when a scale or a dimension is estimated."""

MIN_SAMPLED_NEIGHBORS = 32
"""Neighbours of the sampled points that are searched for at once, though fewer were asked for."""

LARGEST_COORDINATE = 1e150
"""Squares of larger numbers overflow."""

SMALLEST_EXTENT = 1e-140
"""Squares of distances in smaller clouds underflow."""


class PointCloud:
    """Points on one device, their nearest neighbours and balls.

    ``from_points`` sorts the points of a user along a space-filling curve, so that neighbours are
    near in memory; the constructor takes points in the order in which they are.

    Attributes: ``points (n, D)`` float64, which have gradients in a cloud ``moved`` to a tensor
    with gradients; ``curve_order (n,)``, the user's index of each point; ``search``, which knows
    the device.

    >>> cloud = PointCloud.from_points(np.array([[0.0, 0.0], [1.0, 1.0], [0.1, 0.0]]))
    >>> cloud.curve_order.tolist()
    [0, 2, 1]
    >>> cloud.nearest(1)[1].flatten().tolist()  # numbered along the curve
    [1, 0, 1]
    """

    def __init__(
        self,
        points: Tensor,
        curve_order: Tensor | None = None,
        search: TreeSearch | BlockSearch | None = None,
        search_dtype: torch.dtype = torch.float64,
    ) -> None:
        if curve_order is None:
            curve_order = torch.arange(len(points), device=points.device)
        self.points = points.double().contiguous()
        self.curve_order = curve_order
        self._search = search
        self._search_dtype = search_dtype
        self._sample: tuple[Tensor, Tensor] | None = None

    @classmethod
    def from_points(cls, points: Array, name: str = "points") -> Self:
        """Check the points ``(n, D)`` of a user, and sort them as ``from_tensor`` does."""
        values, _ = points_tensor(points, name)
        return cls.from_tensor(values, name)

    @classmethod
    def in_order(cls, points: Array, name: str = "points") -> Self:
        """The points of a user in the order in which they are, on the CPU."""
        values, _ = points_tensor(points, name)
        return cls(values.cpu())

    @classmethod
    def from_tensor(cls, values: Tensor, name: str = "points") -> Self:
        """Sort points ``(n, D)`` that are checked; clouds with nothing to estimate are refused.

        Points on a GPU stay there if Triton serves it.
        """
        if not use_triton(values.device):
            values = values.cpu().double()
        refuse_degenerate(values.double(), name)
        return cls.along_curve(values)

    @classmethod
    def along_curve(cls, values: Tensor) -> Self:
        """Sort any points ``(n, D)``, coincident ones too."""
        exact = values.double()
        curve_order = order_along_curve(exact)
        sorted_points = exact.index_select(0, curve_order)
        return cls(sorted_points, curve_order, search_dtype=values.dtype)

    def moved(self, points: Tensor) -> PointCloud:
        """The same cloud at other points ``(n, D)``, in the user's order; its neighbours are those
        of the points of before."""
        exact = points.to(self.device).double()
        return PointCloud(exact.index_select(0, self.curve_order), self.curve_order, self.search)

    def __len__(self) -> int:
        return len(self.points)

    def extent(self, masses: Tensor) -> float:
        """The root mean square distance of the points from their centre, by masses ``(n,)`` along
        the curve."""
        shares = masses / masses.sum()
        centred = self.points - shares @ self.points
        return float((shares @ centred.square().sum(dim=1)).sqrt())

    @property
    def ambient_dim(self) -> int:
        """The dimension D of the space that the points lie in."""
        return self.points.shape[1]

    @property
    def device(self) -> torch.device:
        return self.points.device

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles leave out what is computed when it is first needed."""
        return vars(self) | {"_search": None, "_search_dtype": torch.float64, "_sample": None}

    # Neighbours.

    @property
    def search(self) -> TreeSearch | BlockSearch:
        """The search of the device, built when it is first needed; on GPUs in the precision of the
        user's points."""
        if self._search is None:
            points = self.points.detach()
            if use_triton(points.device):
                self._search = BlockSearch.of(points, self._search_dtype)
            else:
                self._search = TreeSearch(points)
        return self._search

    def nearest(self, k: int, rows: Any = None) -> tuple[Tensor, Tensor]:
        """Distances and indices ``(q, k)`` of the k nearest *other* points of some rows (default:
        all)."""
        if k >= len(self):
            raise TooFewPointsError(
                f"{k} neighbours of each point were asked for, but there are only {len(self)} "
                "points. Give more points or ask for fewer neighbours."
            )
        if rows is None:
            rows = torch.arange(len(self), device=self.device)
        return self.search.nearest(k, torch.as_tensor(rows, device=self.device))

    def tree(self) -> cKDTree:
        """A k-d tree on the host, for questions that only it answers."""
        if isinstance(self.search, TreeSearch):
            return self.search.tree
        return TreeSearch(self.points.detach().cpu()).tree

    def within(
        self,
        radius: float,
        *,
        dim: int = 2,
        max_memory: float | None = None,
        rows: slice | None = None,
    ) -> NeighborGraph:
        """The graph that connects every two points at distance at most ``radius``.

        The graph of consecutive ``rows``, on a CPU, has their edges to all points. A radius that
        needs more than ``max_memory`` bytes (default: 80 % of what is free) for the bundle of
        dimension ``dim`` is refused before anything is allocated.

        >>> PointCloud(torch.tensor([[0.0], [1.0], [3.0]])).within(1.5).degrees.tolist()
        [1, 1, 0]
        """
        if not (np.isfinite(radius) and radius > 0):
            raise InvalidInputError(f"radius must be positive and finite, got {radius}.")
        if max_memory is None:
            max_memory = device_memory(self.device)

        return self.search.ball_graph(radius, EdgeMemory(dim, max_memory), rows=rows)

    # The sample.

    @cached_property
    def _order_from_centroid(self) -> Tensor:
        return self.search.order_from_centroid()

    def sample_rows(self, count: int = SAMPLE_SIZE) -> Tensor:
        """Up to ``count`` row numbers, sorted.

        Their points are evenly spaced in the order of distances to the centroid, so that the sample
        is the same for clouds in any order, turned, shifted or in other units, but for rounding.
        """
        n = len(self)
        if n <= count:
            return torch.arange(n, device=self.device)
        places = (np.arange(count) + 0.5) * n / count
        ranks = torch.from_numpy(places.astype(np.int64)).to(self.device)
        return self._order_from_centroid[ranks].sort()[0]

    def sampled_nearest(self, k: int) -> tuple[Tensor, Tensor]:
        """Distances and indices ``(m, k)`` of the k nearest other points of ``sample_rows()``."""
        if self._sample is None or self._sample[0].shape[1] < k:
            count = max(k, min(MIN_SAMPLED_NEIGHBORS, len(self) - 1))
            self._sample = self.nearest(count, self.sample_rows())
        distances, indices = self._sample
        return distances[:, :k], indices[:, :k]

    def at(self, rows: Any) -> np.ndarray:
        """Some points on the host, for what looks at a sample; the shape is that of ``rows``."""
        if not isinstance(rows, slice):
            rows = torch.as_tensor(rows, device=self.device)
        return host(self.points.detach()[rows])

    # The user's order.

    def in_user_order(self, values: Tensor) -> Tensor:
        """Values ``(n, ...)`` of the points, sorted as the user's points are."""
        return torch.empty_like(values).index_copy(0, self.curve_order.to(values.device), values)

    def first_number(self, rows: Any) -> tuple[int, int]:
        """Of some rows that with the smallest of the user's numbers, and this number, for
        messages."""
        return first_of(rows, self.curve_order)

    def warn_of_duplicates(self) -> None:
        """Warn of coincident points."""
        nearest, _ = self.sampled_nearest(1)
        coincident = int((nearest == 0).sum())
        if coincident:
            warn(
                f"{coincident} of {len(nearest)} points looked at have an exact duplicate. Their "
                "frames come from the other neighbours; remove duplicates with "
                "np.unique(points, axis=0).",
                DuplicatePointsWarning,
            )


def refuse_degenerate(points: Tensor, name: str = "points") -> None:
    """Refuse clouds ``(n, D)`` with nothing to estimate, and those whose squared distances
    overflow."""
    n = len(points)
    if n < 3:
        raise TooFewPointsError(
            f"a bundle needs at least 3 points in general position, got {n}. Give more points."
        )
    if float(points.abs().max()) > LARGEST_COORDINATE:
        raise InvalidInputError(
            f"{name} holds values above {LARGEST_COORDINATE:.0e}, whose squared distances "
            "overflow. Rescale the cloud."
        )
    extent = float((points.amax(0) - points.amin(0)).max())
    if extent == 0:
        raise TooFewPointsError(f"all {n} points coincide; there is no manifold to estimate.")
    if not SMALLEST_EXTENT < extent < LARGEST_COORDINATE:
        raise InvalidInputError(
            f"the cloud is {extent:.2g} wide: squared distances underflow or overflow. Rescale it."
        )


def first_of(rows: Any, numbers: Any = None) -> tuple[int, int]:
    """Of some rows that with the smallest of the user's numbers, and this number, for messages.

    ``numbers`` (n,) holds the user's number of each row; by default rows have those numbers.

    >>> first_of(np.array([0, 2]), np.array([7, 1, 5]))
    (2, 5)
    """
    rows = host(rows)
    numbers_of_rows = rows
    if numbers is not None:
        numbers_of_rows = host(numbers)[rows]
    place = int(numbers_of_rows.argmin())
    return int(rows[place]), int(numbers_of_rows[place])
