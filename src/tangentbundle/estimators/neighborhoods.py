"""Which observations a local prediction uses: the nearest one by one, those further away as means
of small cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """Groups of at most ``near / 2`` neighbouring points, each predicted from the same
    observations."""

    near: int  # at least so many observations are used one by one
    far: int  # at most so many cells of further observations are used as means
    groups: list[np.ndarray] = field(repr=False)  # indices of the points of each
    group_of: np.ndarray = field(repr=False)  # (n,)
    cells: list[np.ndarray] = field(repr=False)  # indices of the points of each
    centers: np.ndarray = field(repr=False)  # mean position of each cell (c, D)

    @classmethod
    def of(cls, points: np.ndarray, near: int, far: int) -> Neighborhoods:
        """All points in one group if they are few enough to be used one by one."""
        n = len(points)
        everything = np.arange(n)
        if n <= near + far:
            return cls(
                near=near,
                far=far,
                groups=[everything],
                group_of=np.zeros(n, int),
                cells=[everything],
                centers=points.mean(axis=0)[None],
            )
        groups = halved(points, everything, near // 2)
        group_of = np.empty(n, int)
        for number, members in enumerate(groups):
            group_of[members] = number
        size = min(32, -(-n // far))  # in large clouds cells do not reach to the other end
        cells = [cell for members in groups for cell in halved(points, members, size)]
        centers = np.stack([points[cell].mean(axis=0) for cell in cells])
        return cls(near, far, groups, group_of, cells, centers)

    @property
    def exact(self) -> bool:
        """Whether every prediction uses every observation."""
        return len(self.groups) == 1

    def around(self, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the observations used one by one, and of the cells used as means."""
        if self.exact:
            return self.groups[0], np.empty(0, int)
        own = self.groups[group]
        middle = self.centers[np.unique(self.cell_of[own])].mean(axis=0)
        order = np.argsort(np.square(self.centers - middle).sum(axis=1), kind="stable")
        inside = np.isin(order, self.cell_of[own])
        order = np.concatenate([order[inside], order[~inside]])
        counts = np.cumsum([len(self.cells[cell]) for cell in order[: self.near]])
        nearest = int(np.searchsorted(counts, self.near)) + 1
        members = np.concatenate([self.cells[cell] for cell in order[:nearest]])
        return members, order[nearest : nearest + self.far]

    @cached_property
    def table(self) -> CellTable:
        """All cells as arrays."""
        sizes = np.array([len(cell) for cell in self.cells])
        is_member = np.arange(sizes.max()) < sizes[:, None]
        first = np.array([cell[0] for cell in self.cells])
        members = np.repeat(first[:, None], sizes.max(), axis=1)
        members[is_member] = np.concatenate(self.cells)
        return CellTable(members, is_member / sizes[:, None])

    @cached_property
    def cell_of(self) -> np.ndarray:
        """The cell of each point ``(n,)``."""
        numbers = np.repeat(np.arange(len(self.cells)), [len(cell) for cell in self.cells])
        cell_of = np.empty(len(numbers), int)
        cell_of[np.concatenate(self.cells)] = numbers
        return cell_of


class CellTable(NamedTuple):
    """Members of c cells ``(c, b)``, and their weights in the cell's mean: zero where a row is
    padded."""

    members: np.ndarray
    weights: np.ndarray


def halved(points: np.ndarray, index: np.ndarray, size: int) -> list[np.ndarray]:
    """Parts of at most ``size`` points, by halving along the coordinate of the greatest
    variance."""
    pending = [index]
    finished = []
    while pending:
        part = pending.pop()
        if len(part) <= size:
            finished.append(part)
            continue
        values = points[part]
        order = np.argsort(values[:, values.var(axis=0).argmax()], kind="stable")
        middle = -(-len(part) // 2)
        pending.append(part[order[middle:]])
        pending.append(part[order[:middle]])
    return finished
