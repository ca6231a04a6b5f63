"""A published benchmark: tasks that give rows, and a table of these rows beside those of others."""

from __future__ import annotations

import os
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from harness.ledger import Row, Task, key_of, read_results
from harness.runner import run_tasks
from harness.tables import Table
from tangentbundle import save
from tangentbundle.errors import InvalidInputError
from tangentbundle.nn import Configured

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
"""Finished rows, one file a benchmark."""

KINDS = ("published", "trivial", "classical", "network", "ours")
"""Kinds of rows, in the order of a table: numbers of others as they published them, methods that
learn nothing, methods without a network, networks of others that were run here, and this
library's."""

SEEDS = (0, 1, 2)
"""Seeds of what is trained."""


@dataclass(frozen=True)
class Score:
    """A column of a table: a key of the rows, its title, and the digits that are shown."""

    key: str
    title: str
    digits: int = 3


class Benchmark(ABC):
    """A table to compute from the files of a folder, on a device.

    A row has ``method``, ``kind`` (one of ``KINDS``), the scores, and, of what is trained,
    ``seed``, ``parameters`` and ``seconds``.
    """

    name: str
    title: str
    scores: tuple[Score, ...]
    data_source: str
    """Where the files come from, or what makes them."""

    def __init__(self, data: Path | None = None, device: str = "cpu") -> None:
        self.data = data
        self.device = device
        self.weights: Path | None = None
        """Folder for trained networks; without one they are not kept."""

    @abstractmethod
    def tasks(self, full: bool) -> list[Task]:
        """All tasks of the quick or the full form."""

    @abstractmethod
    def run(self, task: Task) -> list[Row]:
        """The rows of one task."""

    @classmethod
    def make_data(cls, folder: Path, source: Path | None) -> None:
        """Make the files of the benchmark in a folder, from those of a source where it needs
        them."""
        raise InvalidInputError(f"the files of {cls.name} are not made here. {cls.data_source}")

    def file(self, name: str) -> Path:
        """A file of the data."""
        if self.data is None:
            raise InvalidInputError(
                f"{self.name} needs its files: give their folder with --data. {self.data_source}"
            )
        path = self.data / name
        if not path.exists():
            raise InvalidInputError(f"there is no {name} in {self.data}. {self.data_source}")
        return path

    def keep(self, net: Configured, task: Task) -> None:
        """Write a trained network to the folder of weights."""
        if self.weights is None:
            return
        self.weights.mkdir(parents=True, exist_ok=True)
        words = re.sub("[^a-z0-9.]+", "-", key_of(task).lower())
        save(net.cpu(), self.weights / f"{words}.safetensors")
        net.to(self.device)

    def header(self, full: bool) -> Row:
        """The settings in the first line of a file of results."""
        return {"benchmark": self.name, "full": full}

    def summaries(self, rows: list[Row]) -> list[Row]:
        """The rows that a table shows, one for each method and seed: these themselves, or means of
        several."""
        return rows

    def published(self) -> list[Row]:
        """The numbers of others: ``method``, ``source``, and mean and spread of each score."""
        entries = tomllib.loads((FOLDER / "published.toml").read_text("utf-8"))
        return entries[self.name]


def run_benchmark(
    benchmark: Benchmark,
    out: str | os.PathLike,
    *,
    full: bool = True,
    jobs: int = 1,
    resume: bool = True,
    quiet: bool = False,
) -> list[Row]:
    """All rows of a benchmark, from ``out/results.jsonl`` where they are there already.

    Trained networks are kept in ``out/weights``.
    """
    benchmark.weights = Path(out) / "weights"
    return run_tasks(
        partial(run_on_device, benchmark),
        benchmark.tasks(full),
        out,
        benchmark.header(full),
        title=benchmark.name,
        jobs=jobs,
        resume=resume,
        quiet=quiet,
    )


def run_on_device(benchmark: Benchmark, task: Task) -> list[Row]:
    """The rows of one task, with the device on which they were computed."""
    return [{**row, "device": benchmark.device} for row in benchmark.run(task)]


def stored_rows(benchmark: Benchmark) -> list[Row]:
    """The finished rows of a benchmark in the order of its tasks; none before the first run."""
    path = RESULTS / f"{benchmark.name}.jsonl"
    if not path.exists():
        return []
    rows = read_results(path, benchmark.header(full=True))
    order = [key_of(task) for task in benchmark.tasks(full=True)]
    return sorted(rows, key=lambda row: order.index(row["task"]))


def table_of(benchmark: Benchmark, rows: Sequence[Row]) -> Table:
    """The numbers of others and ours: one line for each method, no row is left out."""
    header = ["method", "kind", *(score.title for score in benchmark.scores)]
    header += ["parameters", "seconds", "runs", "source"]
    body = []
    for entry in benchmark.published():
        line = [entry["method"], "published"]
        line += [_published_score(entry, score) for score in benchmark.scores]
        line += [str(entry.get("parameters", "")), "", "", entry["source"]]
        body.append(line)
    rows = benchmark.summaries(list(rows))
    for kind in KINDS:
        for method in dict.fromkeys(row["method"] for row in rows if row["kind"] == kind):
            own = [row for row in rows if row["method"] == method]
            line = [method, kind]
            line += [_own_score(own, score) for score in benchmark.scores]
            line += [_same(own, "parameters"), _seconds(own), str(_count_runs(own)), "here"]
            body.append(line)
    return Table(benchmark.title, header, body)


def _published_score(entry: Row, score: Score) -> str:
    """A published mean, with its spread where there is one."""
    numbers = entry.get(score.key)
    if numbers is None:
        return ""
    if isinstance(numbers, list):
        mean, spread = numbers
        return f"{mean:g} ± {spread:g}"
    return f"{numbers:g}"


def _own_score(rows: Iterable[Row], score: Score) -> str:
    """The mean over the runs, with their standard deviation where there are several."""
    values = [row[score.key] for row in rows if row.get(score.key) is not None]
    if not values:
        return ""
    mean = f"{np.mean(values):.{score.digits}g}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {np.std(values):.1g}"


def _same(rows: Sequence[Row], key: str) -> str:
    """What all rows say; empty where they say nothing."""
    values = dict.fromkeys(row.get(key) for row in rows)
    return ", ".join(f"{value}" for value in values if value is not None)


def _seconds(rows: Iterable[Row]) -> str:
    """The mean time of training, and where; empty for what is not trained."""
    seconds = [row["seconds"] for row in rows if row.get("seconds") is not None]
    if not seconds:
        return ""
    devices = sorted({row["device"] for row in rows if "device" in row})
    return f"{np.mean(seconds):.0f} ({', '.join(devices)})"


def _count_runs(rows: Iterable[Row]) -> int:
    """The number of seeds; one for what is not random."""
    return len({row.get("seed") for row in rows})
