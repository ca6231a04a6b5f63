"""SIGKILL at random moments of training, of an experiment and of file writing; and two writers on one folder."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tangentbundle as tb
from tangentbundle.errors import BusyFolderError
from tangentbundle.experiments.base import Column, Experiment
from tangentbundle.experiments.runner import run_experiment
from tangentbundle.files import read_tensors
from tangentbundle.io import Field, read_field, write_field
from tangentbundle.io.spaces import Cloud
from tangentbundle.parallel import one_thread
from tangentbundle.training import KIND

KILLS = {"training": 40, "experiment": 30, "writing": 30}
EPOCHS = 40
SUFFIXES = (".csv", ".npz", ".parquet", ".ply", ".zarr", ".safetensors")

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload([__name__])  # children start with the library imported


class Toy(Experiment):
    """Forty tasks of two rows, each a few milliseconds of arithmetic."""

    name, title, cell = "toy", "Toy", ("n", "method")
    columns = (Column("mse", "error"),)

    def tasks(self, full, protocol):
        return [{"n": n} for n in range(40)]

    def run(self, task, seed):
        matrix = np.random.default_rng([seed, task["n"]]).standard_normal((120, 120))
        values = np.linalg.svd(matrix, compute_uv=False)
        return [{"n": task["n"], "method": m, "mse": float(values[k])} for k, m in enumerate(("first", "second"))]


# What the killed processes do.


def train(folder: str, problem: bytes) -> None:
    with one_thread():
        net = tb.nn.TNN([1, 2, 1], seed=3).double()
        tb.fit(net, pickle.loads(problem), epochs=EPOCHS, checkpoint=folder, every=0.0, progress=False)
        tb.save(net, Path(folder) / "final.safetensors")


def experiment(folder: str, _: bytes) -> None:
    run_experiment(Toy(), folder, quiet=True)
    (Path(folder) / "finished").touch()


def write(folder: str, reported: Any) -> None:
    """Version after version of a file in each format; ``reported`` holds the last one written of each."""
    points = np.random.default_rng(0).standard_normal((200, 3))
    for version in itertools.count(int(max(reported)) + 1):
        for number, suffix in enumerate(SUFFIXES):
            path = Path(folder) / f"field{suffix}"
            if suffix == ".safetensors":
                net = tb.nn.TNN([1, 1], seed=0)
                torch.nn.init.constant_(next(net.parameters()), float(version))
                tb.save(net, path)
            else:
                write_field(Field(Cloud(points, ("x", "y", "z")), np.full((1, 200, 3), float(version))), path)
            reported[number] = version


# How they are killed, and what must hold after each time.


def kill_at_random(work: Callable, arguments: tuple, longest: float, rng: np.random.Generator) -> bool:
    """Start a process, and kill it after up to ``longest`` seconds; False if it had ended by itself."""
    process = context.Process(target=work, args=arguments)
    process.start()
    process.join(float(rng.uniform(0.0, longest)))
    alive = process.is_alive()
    process.kill()
    process.join()
    if not alive and process.exitcode:
        raise RuntimeError(f"{work.__name__} ended with {process.exitcode}")
    return alive


def undisturbed(work: Callable, arguments: tuple) -> float:
    """Seconds of a process that nobody kills."""
    process, start = context.Process(target=work, args=arguments), time.perf_counter()
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} ended with {process.exitcode}")
    return time.perf_counter() - start


def _problem() -> bytes:
    lap = tb.TangentBundle.from_points(torch.from_numpy(tb.manifolds.Torus().sample(60, seed=1)), dim=2).laplacian()
    signals = torch.randn(4, 60, 2, 1, generator=torch.Generator().manual_seed(5), dtype=lap.dtype)
    return pickle.dumps([(x, lap, tb.Heat(0.3)(lap, x)) for x in signals])


def _weights(folder: Path) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in tb.load(folder / "final.safetensors").parameters()])


def kill_training(kills: int, rng: np.random.Generator) -> dict[str, Any]:
    """Checkpoints stay readable and never go back; the end has the weights of an undisturbed run."""
    problem, done, resumed, failures = _problem(), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        longest = undisturbed(train, (f"{folder}/whole", problem))
        truth = _weights(Path(folder) / "whole")
        for attempt in itertools.count():
            place, epochs = Path(folder) / str(attempt), 0
            while not (place / "final.safetensors").exists():
                done += kill_at_random(train, (str(place), problem), longest, rng)
                if (place / "checkpoint.safetensors").exists():
                    now = len(read_tensors(place / "checkpoint.safetensors", KIND)[0]["history.training loss"])
                    failures += now < epochs
                    epochs = now
            resumed += 1
            failures += not torch.equal(_weights(place), truth)
            if done >= kills:
                return {"what": "training with checkpoints", "kills": done, "ends": resumed, "failures": failures}
    raise AssertionError


def _rows(rows: list[dict]) -> list[dict]:
    return [{key: value for key, value in row.items() if key != "task_seconds"} for row in rows]


def kill_experiment(kills: int, rng: np.random.Generator) -> dict[str, Any]:
    """Lines once seen whole stay; the end has the rows of an undisturbed run."""
    done, resumed, failures = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        longest = undisturbed(experiment, (f"{folder}/whole", b""))
        truth = _rows(run_experiment(Toy(), f"{folder}/whole", quiet=True))
        for attempt in itertools.count():
            place, seen = Path(folder) / str(attempt), []
            while not (place / "finished").exists():
                done += kill_at_random(experiment, (str(place), b""), longest, rng)
                if (place / "results.jsonl").exists():
                    *lines, _ = (place / "results.jsonl").read_text().split("\n")
                    failures += not set(seen) <= set(lines)
                    seen = lines[1 : 1 + 2 * ((len(lines) - 1) // 2)]  # a task's two lines are reported together
            resumed += 1
            failures += _rows(run_experiment(Toy(), place, quiet=True)) != truth
            if done >= kills:
                return {"what": "experiment with results", "kills": done, "ends": resumed, "failures": failures}
    raise AssertionError


def first_version(folder: str, reported: Any) -> float:
    """Seconds until a file in each format is there."""
    process, start = context.Process(target=write, args=(folder, reported)), time.perf_counter()
    process.start()
    while min(reported) < 0 and process.is_alive():
        time.sleep(0.01)
    process.kill()
    process.join()
    return time.perf_counter() - start


def kill_writing(kills: int, rng: np.random.Generator) -> dict[str, Any]:
    """Every file reported as written is there, whole, in that version or the next."""
    done = failures = checked = 0
    with tempfile.TemporaryDirectory() as folder:
        reported = context.Array("d", [-1.0] * len(SUFFIXES), lock=False)
        longest = first_version(folder, reported)
        while done < kills:
            done += kill_at_random(write, (folder, reported), longest, rng)
            for suffix, version in zip(SUFFIXES, reported, strict=True):
                path = Path(folder) / f"field{suffix}"
                if version < 0:
                    continue
                if suffix == ".safetensors":
                    found = float(next(tb.load(path).parameters()).detach().flatten()[0])
                else:
                    values = read_field(path).values
                    found = float(values.flat[0]) if np.ptp(values) == 0 else np.nan
                checked += 1
                failures += not version <= found <= max(reported) + 1
    row = {"what": f"writing {' '.join(SUFFIXES)}", "kills": done, "files checked": checked}
    return {**row, "versions": int(max(reported)) + 1, "failures": failures}


def second_writer(kills: int, rng: np.random.Generator) -> dict[str, Any]:
    """While one process trains in a folder, a second is refused by name; after it, it is not."""
    problem, failures = pickle.loads(_problem()), 0
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(target=train, args=(folder, pickle.dumps(problem)))
        process.start()
        while process.is_alive() and not (Path(folder) / "checkpoint.safetensors").exists():
            time.sleep(0.01)
        for work in (
            lambda: tb.fit(tb.nn.TNN([1, 2, 1]).double(), problem, checkpoint=folder, progress=False),
            lambda: run_experiment(Toy(), folder, quiet=True),
        ):
            try:
                work()
                failures += 1
            except BusyFolderError:
                pass
        busy = process.is_alive()
        process.kill()
        process.join()
        run_experiment(Toy(), folder, quiet=True)
    return {"what": "two writers on one folder", "inputs": 2, "failures": failures if busy else 1}


def run(share: float = 1.0) -> list[dict[str, Any]]:
    rng, rows = np.random.default_rng(0), []
    works = {"training": kill_training, "experiment": kill_experiment, "writing": kill_writing}
    for name, work in works.items():
        rows.append(work(max(1, round(KILLS[name] * share)), rng))
        print(rows[-1], flush=True)
    return [*rows, second_writer(1, rng)]
