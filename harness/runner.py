"""Run tasks on several cores: resumable, and always with the same numbers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import joblib

from tangentbundle.console import progress
from tangentbundle.files import only_writer
from tangentbundle.parallel import one_thread

from .ledger import Ledger, Row, Task, key_of

Work = Callable[[Task], list[Row]]
"""From the settings of a task to its rows. It can be pickled."""


def run_tasks(
    work: Work,
    tasks: Sequence[Task],
    out: str | os.PathLike,
    header: Row,
    *,
    title: str = "",
    jobs: int = 1,
    resume: bool = True,
    quiet: bool = False,
) -> list[Row]:
    """The rows of all tasks, in their order, from ``out/results.jsonl`` where they are there
    already.

    Every task runs with one thread and its own random numbers, so that neither the number of
    processes ``jobs`` nor interruptions change a number. ``header`` has the settings that all
    tasks share; results of other settings are refused.
    """
    keys = [key_of(task) for task in tasks]
    with only_writer(out) as folder:
        ledger = Ledger(folder / "results.jsonl", header, resume)
        unfinished = [task for task in tasks if key_of(task) not in ledger.done]
        with progress(len(tasks), "task", not quiet) as show:
            show(len(tasks) - len(unfinished), title)
            calls = [joblib.delayed(run_task)(work, task) for task in unfinished]
            workers = joblib.Parallel(jobs, "loky", return_as="generator_unordered")
            for task, rows in workers(calls):
                ledger.append(task, rows)
                show(len(ledger.done), f"{title} {key_of(task)}")
    rows_of: dict[str, list[Row]] = {key: [] for key in keys}
    for row in ledger.rows:
        if row["task"] in rows_of:
            rows_of[row["task"]].append(row)
    return [row for key in keys for row in rows_of[key]]


def run_task(work: Work, task: Task) -> tuple[Task, list[Row]]:
    """A task and its rows, with the seconds it took.

    One thread works, so that sums are rounded alike everywhere.
    """
    start = time.perf_counter()
    with one_thread():
        rows = work(task)
    seconds = round(time.perf_counter() - start, 3)
    return task, [{**row, "task_seconds": seconds} for row in rows]
