"""Run the tasks of an experiment on several cores: resumable, and always with the same numbers."""

from __future__ import annotations

import gzip
import json
import os
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import joblib

from ..console import progress
from ..errors import DamagedFileError, InvalidInputError
from ..files import only_writer, write_atomically
from ..parallel import one_thread
from .base import Experiment, Row, Task


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
    """All rows of an experiment, from ``out/results.jsonl`` where they are there already.

    Every task runs with one thread and its own random numbers, so that neither jobs nor
    interruptions change a number.
    """
    if protocol not in ("paper", "best"):
        raise InvalidInputError(f"the protocols are 'paper' and 'best', got {protocol!r}.")
    tasks = {key_of(task): task for task in experiment.tasks(full, protocol)}
    header = {"experiment": experiment.name, "protocol": protocol, "full": full, "seed": seed}
    with only_writer(out) as folder:
        ledger = Ledger(folder / "results.jsonl", header, resume)
        todo = [task for key, task in tasks.items() if key not in ledger.done]
        with progress(len(tasks), "task", not quiet) as show:
            show(len(tasks) - len(todo), experiment.name)
            calls = [joblib.delayed(run_task)(experiment, task, seed) for task in todo]
            for task, rows in joblib.Parallel(jobs, "loky", return_as="generator_unordered")(calls):
                ledger.append(task, rows)
                show(len(ledger.done), f"{experiment.name} {key_of(task)}")
    return [row for key in tasks for row in ledger.rows if row["task"] == key]


def key_of(task: Task) -> str:
    """The name of a task."""
    return " ".join(f"{key}={value}" for key, value in task.items())


class Ledger:
    """A file with one JSON line a run, each with its checksum."""

    def __init__(self, path: Path, header: Row, resume: bool) -> None:
        self.path = path
        self.rows = read_results(path, header) if resume and path.exists() else []
        lines = [_sealed({"header": header})] + [_sealed(row) for row in self.rows]
        write_atomically(path, ("\n".join(lines) + "\n").encode())
        self.done = {row["task"] for row in self.rows}

    def append(self, task: Task, rows: Sequence[Row]) -> None:
        """Add the rows of a finished task."""
        key = key_of(task)
        marked = [{"task": key, "of": len(rows), **row} for row in rows]
        with self.path.open("a") as file:
            file.write("".join(_sealed(row) + "\n" for row in marked))
            file.flush()
            os.fsync(file.fileno())
        self.rows.extend(marked)
        self.done.add(key)


def read_results(path: Path, header: Row) -> list[Row]:
    """The rows of all finished tasks in a file (``.gz``: compressed) whose first line must be that
    header."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    *lines, _ = content.decode(errors="replace").split(
        "\n"
    )  # what follows the last line break was torn off
    found = _unsealed(lines[0]).get("header") if lines else None
    if found is None:
        raise DamagedFileError(
            f"{path} is no file of results. Choose another folder, or move it away."
        )
    if found != header:
        raise InvalidInputError(
            f"{path} holds results of other settings ({found}), wanted {header}. Choose another "
            "folder, or run without --resume to start anew."
        )
    rows = [_unsealed(line) for line in lines[1:]]
    if damaged := [
        number for number, row in enumerate(rows, start=2) if not {"task", "of"} <= row.keys()
    ]:
        raise DamagedFileError(
            f"line {damaged[0]} of {path} is damaged: its checksum does not fit. Restore the file "
            "from a copy, or delete that line: its task then runs again."
        )
    counts = Counter(row["task"] for row in rows)
    return [row for row in rows if counts[row["task"]] == row["of"]]


def merge_with(
    experiment: Experiment, rows: Sequence[Row], folder: Path, *, full: bool, seed: int
) -> list[Row]:
    """The rows, and those of methods they lack, of the same draws, from finished results of the
    paper's protocol.

    ``folder`` holds ``results.jsonl`` (or ``.gz``) of the same experiment, form and seed.
    """
    header = {"experiment": experiment.name, "protocol": "paper", "full": full, "seed": seed}
    files = [
        file for file in (folder / "results.jsonl", folder / "results.jsonl.gz") if file.exists()
    ]
    if not files:
        raise InvalidInputError(
            f"there are no results (results.jsonl or results.jsonl.gz) in {folder}."
        )
    keys = (*experiment.about.cell, "data", "sampling", "mask")
    methods, draws = {row["method"] for row in rows}, {tuple(map(row.get, keys)) for row in rows}
    others = [row for row in read_results(files[0], header) if row["method"] not in methods]
    found = [row for row in others if tuple(map(row.get, keys)) in draws]
    if not found:
        raise InvalidInputError(
            f"{folder} holds no other method on the draws of this table. Has its run finished?"
        )
    return [*rows, *found]


SEAL = ', "crc32": "'


def _sealed(row: Row) -> str:
    """A row as JSON whose last entry is the checksum of the text before it."""
    text = json.dumps(row)[:-1]
    return f'{text}{SEAL}{zlib.crc32(text.encode()):08x}"}}'


def _unsealed(line: str) -> Row:
    """The row of a line, empty if it was changed."""
    try:
        row = json.loads(line.rpartition(SEAL)[0] + "}")
    except ValueError:
        return {}
    return row if isinstance(row, dict) and line == _sealed(row) else {}


def run_task(experiment: Experiment, task: Task, seed: int) -> tuple[Task, list[Row]]:
    """A task and its rows, with the seconds it took; one thread, so that sums are rounded alike
    everywhere."""
    start = time.perf_counter()
    with one_thread():
        rows = experiment.run(task, seed)
    return task, [{**row, "task_seconds": round(time.perf_counter() - start, 3)} for row in rows]
