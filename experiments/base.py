"""An experiment: independent tasks that give rows; tables and figures come from rows alone."""

from __future__ import annotations

import json
import os
import tomllib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.ledger import Row, Task, read_results
from harness.runner import run_tasks
from tangentbundle.errors import InvalidInputError

FOLDER = Path(__file__).parent


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
        """The table of an experiment, from ``tables.toml``."""
        tables = tomllib.loads((FOLDER / "tables.toml").read_text("utf-8"))
        fields = tables[name]
        fields["cell"] = tuple(fields["cell"])
        fields["columns"] = tuple(Column(**column) for column in fields["columns"])
        return cls(**fields)


@dataclass(frozen=True)
class Form:
    """The full or the quick form of an experiment: numbers of points, and draws of each."""

    sizes: tuple[int, ...]
    draws: int


class Experiment(ABC):
    """A table to compute; ``data`` is one of the data sets ``sources``, or None for what is
    available.

    The protocol ``paper`` has the paper's networks and settings, ``best`` this library's
    estimators.
    """

    name: str
    about: Description
    sources: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("paper", "best")
    data: str | None = None

    @abstractmethod
    def tasks(self, full: bool, protocol: str) -> list[Task]:
        """All tasks of the quick or the full form, under a protocol."""

    @abstractmethod
    def run(self, task: Task, seed: int) -> list[Row]:
        """The rows of one task: all methods on the same draws. Deterministic."""

    def published(self) -> list[Row]:
        """The paper's numbers for this table, one row for each cell and method."""
        tables = json.loads((FOLDER / "published.json").read_text("utf-8"))
        table = tables[self.name]
        ((key, values),) = table["columns"].items()
        rows = []
        for row in table["rows"]:
            for value, mean, std in zip(values, row["mean"], row["std"], strict=True):
                rows.append({**row, key: value, "mean": mean, "std": std})
        return rows

    def notes(self, rows: Sequence[Row], protocol: str) -> str:
        """What a reader of the table must know."""
        of_protocol = {"paper": self.about.paper, "best": self.about.best}
        return self.about.note + of_protocol[protocol]

    def conditions(self, rows: Sequence[Row], full: bool, protocol: str) -> str:
        """Which data, how many draws and how much training, in one line for the screen."""
        return ""

    def departures(self, rows: Sequence[Row], full: bool) -> list[str]:
        """In what these rows differ from the paper's experiment, in words; with none, its numbers
        can be compared."""
        if full:
            return []
        return ["the quick form has fewer draws and shorter training"]


def run_experiment(
    experiment: Experiment,
    out: str | os.PathLike,
    *,
    full: bool = False,
    protocol: str = "paper",
    seed: int = 0,
    jobs: int = 1,
    resume: bool = True,
    quiet: bool = False,
) -> list[Row]:
    """All rows of an experiment, from ``out/results.jsonl`` where they are there already."""
    if protocol not in experiment.protocols:
        choice = " and ".join(repr(name) for name in experiment.protocols)
        raise InvalidInputError(
            f"the protocols of {experiment.name} are {choice}, got {protocol!r}."
        )
    return run_tasks(
        partial(experiment.run, seed=seed),
        experiment.tasks(full, protocol),
        out,
        header_of(experiment, full=full, protocol=protocol, seed=seed),
        title=experiment.name,
        jobs=jobs,
        resume=resume,
        quiet=quiet,
    )


def header_of(experiment: Experiment, *, full: bool, protocol: str, seed: int) -> Row:
    """The settings in the first line of a file of results."""
    return {"experiment": experiment.name, "protocol": protocol, "full": full, "seed": seed}


def merge_with(
    experiment: Experiment, rows: Sequence[Row], folder: Path, *, full: bool, seed: int
) -> list[Row]:
    """The rows, and those of methods they lack, of the same draws, from finished results of the
    paper's protocol.

    ``folder`` holds ``results.jsonl`` (or ``.gz``) of the same experiment, form and seed.
    """
    header = header_of(experiment, full=full, protocol="paper", seed=seed)
    candidates = [folder / "results.jsonl", folder / "results.jsonl.gz"]
    files = [file for file in candidates if file.exists()]
    if not files:
        raise InvalidInputError(
            f"there are no results (results.jsonl or results.jsonl.gz) in {folder}."
        )
    keys = (*experiment.about.cell, "data", "sampling", "mask")

    def draw_of(row: Row) -> tuple:
        return tuple(row.get(key) for key in keys)

    methods = {row["method"] for row in rows}
    draws = {draw_of(row) for row in rows}
    others = []
    for row in read_results(files[0], header):
        if row["method"] not in methods and draw_of(row) in draws:
            others.append(row)
    if not others:
        raise InvalidInputError(
            f"{folder} holds no other method on the draws of this table. Has its run finished?"
        )
    return [*rows, *others]


def draw(seed: int, *place: Any) -> np.random.Generator:
    """A generator for one draw: the same for the same place in every process, independent between
    places."""
    numbers = [zlib.crc32(str(part).encode()) for part in place]
    return np.random.default_rng([seed, *numbers])
