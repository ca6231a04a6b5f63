"""An experiment: independent tasks that give rows; tables and figures come from rows alone."""

from __future__ import annotations

import json
import tomllib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

Row = dict[str, Any]
"""One run of one method: the cell of the table it belongs to, its scores, and seconds. JSON types
only."""

Task = dict[str, Any]
"""The settings of a task as JSON types; its rows follow from them and the seed alone."""


@dataclass(frozen=True)
class Column:
    """A score of a table; the ``headline`` ranks the methods, the ``paper`` column is scored as the
    paper's numbers."""

    score: str
    title: str
    headline: bool = False
    paper: bool = False


@dataclass(frozen=True)
class Description:
    """A table: keys of a row that name its cell, columns, and notes for the reader, common and of
    each protocol."""

    title: str
    cell: tuple[str, ...]
    columns: tuple[Column, ...]
    better: str = "lower"
    note: str = ""
    paper: str = ""
    best: str = ""

    @classmethod
    def named(cls, name: str) -> Description:
        """One of the paper's tables, from ``tables.toml``."""
        found = tomllib.loads(
            resources.files(__package__).joinpath("tables.toml").read_text("utf-8")
        )[name]
        columns = tuple(Column(**column) for column in found.pop("columns"))
        return cls(cell=tuple(found.pop("cell")), columns=columns, **found)


class Experiment(ABC):
    """One of the paper's tables; ``data`` is one of the data sets ``sources``, or None for what is
    available."""

    name: str
    about: Description
    sources: tuple[str, ...] = ()
    data: str | None = None

    @abstractmethod
    def tasks(self, full: bool, protocol: str) -> list[Task]:
        """All tasks of the quick or the full form, under the protocol ``paper`` or ``best``."""

    @abstractmethod
    def run(self, task: Task, seed: int) -> list[Row]:
        """The rows of one task: all methods on the same draws. Deterministic."""

    def published(self) -> list[Row]:
        """The paper's numbers for this table, one row for each cell and method."""
        table = json.loads(resources.files(__package__).joinpath("published.json").read_text())[
            self.name
        ]
        ((key, values),) = table["columns"].items()
        return [
            {**row, key: value, "mean": mean, "std": std}
            for row in table["rows"]
            for value, mean, std in zip(values, row["mean"], row["std"], strict=True)
        ]

    def notes(self, rows: Sequence[Row], protocol: str) -> str:
        """What a reader of the table must know."""
        return self.about.note + getattr(self.about, protocol)

    def conditions(self, rows: Sequence[Row], full: bool, protocol: str) -> str:
        """Which data, how many draws and how much training, in one line for the screen."""
        return ""

    def departures(self, rows: Sequence[Row], full: bool) -> list[str]:
        """In what these rows differ from the paper's experiment, in words; with none, its numbers
        can be compared."""
        return [] if full else ["the quick form has fewer draws and shorter training"]


def draw(seed: int, *place: Any) -> np.random.Generator:
    """A generator for one draw: the same for the same place in every process, independent between
    places."""
    return np.random.default_rng([seed, *(zlib.crc32(str(part).encode()) for part in place)])
