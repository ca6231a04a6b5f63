"""What an experiment is: independent tasks that give rows, and tables and figures made from rows alone."""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
"""One run of one method: where it belongs, its scores, and seconds. JSON types only."""

Task = dict[str, Any]
"""What one task needs to know, as JSON types; its rows follow from it and the seed alone."""


@dataclass(frozen=True)
class Column:
    """A score of a table; the ``headline`` ranks the methods, the ``paper`` column is scored as the paper's numbers."""

    score: str
    title: str
    headline: bool = False
    paper: bool = False


class Experiment(ABC):
    """One of the paper's tables."""

    name: str
    title: str
    cell: tuple[str, ...]
    """Keys of a row that say which cell of the table it belongs to."""

    columns: tuple[Column, ...]
    better: str = "lower"
    sources: tuple[str, ...] = ()
    data: str | None = None
    """Names of data sets, and the chosen one; without a choice the experiment takes what is at hand."""

    @abstractmethod
    def tasks(self, full: bool, protocol: str) -> list[Task]:
        """All tasks of the quick or the full form, under the protocol ``paper`` or ``best``."""

    @abstractmethod
    def run(self, task: Task, seed: int) -> list[Row]:
        """The rows of one task: all methods on the same draws. Deterministic, whatever runs beside it."""

    def figures(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        """Draw the figures that go with the table."""
        return []

    def published(self) -> list[Row]:
        """The paper's numbers for this table."""
        return published(self.name)

    def notes(self, rows: Sequence[Row], protocol: str) -> str:
        """What a reader of the table must know."""
        return ""


def published(name: str) -> list[Row]:
    """The paper's numbers for a table, one row for each cell and method, from a file of their own."""
    table = json.loads(resources.files(__package__).joinpath("published.json").read_text())[name]
    ((key, values),) = table["columns"].items()
    return [
        {**row, key: value, "mean": mean, "std": std}
        for row in table["rows"]
        for value, mean, std in zip(values, row["mean"], row["std"], strict=True)
    ]


def draw(seed: int, *place: Any) -> np.random.Generator:
    """A generator for one draw: the same for the same place in every process, independent between places.

    >>> int(draw(0, "noise", 0.1, 3).integers(1000)) == int(draw(0, "noise", 0.1, 3).integers(1000))
    True
    """
    return np.random.default_rng([seed, *(zlib.crc32(str(part).encode()) for part in place)])
