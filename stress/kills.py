"""SIGKILL at random moments of training, of an experiment and of file writing; and two writers on
one folder."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typer.testing import CliRunner

import tangentbundle as tb
from experiments.command import app
from tangentbundle.errors import BusyFolderError, TangentBundleError
from tangentbundle.files import read_tensors
from tangentbundle.io import read_field
from tangentbundle.training.checkpoint import KIND

from .victims import EPOCHS, SUFFIXES, TASKS, problem, reproduce, small_torus, train, write

KILLS = {"training": 40, "reproduce": 30, "writing": 30}
STEPS = 3
"""A kill comes at a random moment of the next third of the work, so that they lie evenly over all
of it."""

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["stress.warm"])  # nobody else in this process may use it before


@dataclass
class Killer:
    """Starts processes and kills them, and counts: only those at work when they were killed."""

    rng: np.random.Generator
    kills: int = 0
    torn: int = 0
    failures: int = 0
    quarters: list[int] = field(default_factory=lambda: [0] * 4)
    starts: list[float] = field(default_factory=list)

    def start(self, work: Callable, *arguments: Any) -> multiprocessing.process.BaseProcess:
        """A process that has begun to work."""
        begun, asked = context.Array("d", [0.0], lock=False), time.perf_counter()
        process = context.Process(target=work, args=(begun, *arguments))
        process.start()
        while not begun[0] and process.is_alive():
            time.sleep(0.001)
        self.starts.append(time.perf_counter() - asked)
        return process

    def undisturbed(self, work: Callable, *arguments: Any) -> float:
        """Seconds of a process that nobody kills."""
        process, begun = self.start(work, *arguments), time.perf_counter()
        process.join()
        assert process.exitcode == 0, f"{work.__name__} ended with {process.exitcode}"
        return time.perf_counter() - begun

    def kill(self, folder: Path, longest: float, work: Callable, *arguments: Any) -> bool:
        """Kill it at a random moment of the next part of its work; False if it had ended by
        itself."""
        before = _leftovers(folder)
        process = self.start(work, *arguments)
        process.join(float(self.rng.uniform(0.0, longest / STEPS)))
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            assert process.exitcode == 0, f"{work.__name__} ended with {process.exitcode}"
            return False
        self.kills += 1
        self.torn += bool(_leftovers(folder) - before)
        return True

    def must(self, holds: bool) -> None:
        self.failures += not holds

    def row(self, what: str, **more: Any) -> dict[str, Any]:
        start = round(1e3 * float(np.median(self.starts)), 1)
        row = {"what": what, "kills": self.kills, "amid a file": self.torn, **more}
        return {**row, "start_ms": start, "failures": self.failures}


def _leftovers(folder: Path) -> set[str]:
    """Hidden folders of files that were being written."""
    return {path.name for path in folder.glob(".*.*") if path.is_dir()}


# What must hold after each kill, and at the end.


def _weights(folder: Path) -> torch.Tensor:
    return torch.cat(
        [p.detach().flatten() for p in tb.load(folder / "final.safetensors").parameters()]
    )


def kill_training(kills: int, rng: np.random.Generator) -> dict[str, Any]:
    """Checkpoints stay readable and never go back; the end has the weights of an undisturbed
    run."""
    data, killer, ends = problem(), Killer(rng), 0
    with tempfile.TemporaryDirectory() as folder:
        longest = killer.undisturbed(train, f"{folder}/whole", data)
        truth = _weights(Path(folder) / "whole")
        while killer.kills < kills:
            place, epochs = Path(folder) / str(ends), 0
            while not (place / "final.safetensors").exists():
                killed, now = killer.kill(place, longest, train, str(place), data), 0
                if (place / "checkpoint.safetensors").exists():
                    now = len(
                        read_tensors(place / "checkpoint.safetensors", KIND)[0][
                            "history.training loss"
                        ]
                    )
                killer.must(now >= epochs)
                killer.quarters[min(4 * now // EPOCHS, 3)] += killed
                epochs = now
            ends += 1
            killer.must(torch.equal(_weights(place), truth))
    return killer.row("training with checkpoints", ends=ends, quarters=killer.quarters)


def _tables(folder: Path) -> tuple[list[str], bytes, bytes]:
    """What the experiment left: its rows without their times, and the tables."""
    rows = [
        line.split(', "task_seconds"')[0]
        for line in (folder / "results.jsonl").read_text().splitlines()
    ]
    return rows, (folder / "table.csv").read_bytes(), (folder / "table.md").read_bytes()


def kill_reproduce(kills: int, rng: np.random.Generator) -> dict[str, Any]:
    """Lines of tasks once seen whole stay; the end has the rows and tables of an undisturbed
    run."""
    killer, ends = Killer(rng), 0
    with tempfile.TemporaryDirectory() as folder:
        longest = killer.undisturbed(reproduce, f"{folder}/whole")
        truth = _tables(Path(folder) / "whole")
        each = (len(truth[0]) - 1) // TASKS
        while killer.kills < kills:
            place, seen = Path(folder) / str(ends), []
            while not (place / "finished").exists():
                killed, lines = killer.kill(place, longest, reproduce, str(place)), []
                if (place / "results.jsonl").exists():
                    lines = (place / "results.jsonl").read_text().split("\n")[:-1]
                killer.must(lines[: len(seen)] == seen)
                done = max(len(lines) - 1, 0) // each
                killer.quarters[min(4 * done // TASKS, 3)] += killed
                seen = lines[: 1 + each * done]  # a task's lines are reported together
            ends += 1
            killer.must(_tables(place) == truth)
    return killer.row("python -m experiments torus", ends=ends, quarters=killer.quarters)


def _version(path: Path) -> float:
    """The version that a file holds, nan if it is damaged; of a store killed between two renames,
    that set aside."""
    for aside in path.parent.glob(f".{path.name}.*.before"):
        if not path.exists():
            aside.rename(path)
    try:
        if path.suffix == ".safetensors":
            return float(next(tb.load(path).parameters()).detach().flatten()[0])
        values = read_field(path).values
        return float(values.flat[0]) if np.ptp(values) == 0 else np.nan
    except TangentBundleError:
        return np.nan


def kill_writing(kills: int, rng: np.random.Generator) -> dict[str, Any]:
    """Every file reported as written is there, whole, in that version or the next."""
    killer, checked = Killer(rng), 0
    with tempfile.TemporaryDirectory() as folder:
        reported = context.Array("d", [-1.0] * len(SUFFIXES), lock=False)
        longest = killer.undisturbed(write, folder, reported, 3)
        while killer.kills < kills:
            killer.kill(Path(folder), longest, write, folder, reported)
            for suffix, version in zip(SUFFIXES, reported, strict=True):
                killer.must(
                    version <= _version(Path(folder) / f"field{suffix}") <= max(reported) + 1
                )
                checked += 1
    versions = int(max(reported)) + 1
    return killer.row(
        f"writing {' '.join(SUFFIXES)}", versions=versions, **{"files checked": checked}
    )


def second_writer() -> dict[str, Any]:
    """While one process writes in a folder, a second is refused by name; after it, it is not."""
    data, killer, tried = problem(), Killer(np.random.default_rng(0)), 0

    def fit(folder: str) -> bool:
        try:
            tb.fit(
                tb.nn.TNN([1, 2, 1], seed=3).double(),
                pickle.loads(data),
                epochs=1,
                checkpoint=folder,
            )
        except BusyFolderError:
            return False
        return True

    def command(folder: str) -> bool:
        with small_torus():
            done = CliRunner().invoke(app, ["torus", "--out", folder, "--quiet"])
        killer.must(
            done.exit_code == 0
            or (done.exit_code == 2 and "another process is writing" in done.output)
        )
        return done.exit_code == 0

    for first, sign in (((train, data), "checkpoint.safetensors"), ((reproduce,), "results.jsonl")):
        with tempfile.TemporaryDirectory() as folder:
            process = killer.start(first[0], folder, *first[1:])
            while process.is_alive() and not (Path(folder) / sign).exists():
                time.sleep(0.001)
            os.kill(
                process.pid or 0, signal.SIGSTOP
            )  # it holds the folder, and does not end before the others came
            for second in (fit, command):
                killer.must(not second(folder))
                tried += 1
            process.kill()
            process.join()
            killer.must(process.exitcode == -signal.SIGKILL and fit(folder) and command(folder))
    return {"what": "two writers on one folder", "inputs": tried, "failures": killer.failures}


def run(share: float = 1.0) -> list[dict[str, Any]]:
    rng, rows = np.random.default_rng(0), []
    works = {"training": kill_training, "reproduce": kill_reproduce, "writing": kill_writing}
    for name, work in works.items():
        rows.append(work(max(1, round(KILLS[name] * share)), rng))
        print(rows[-1], flush=True)
    return [*rows, second_writer()]
