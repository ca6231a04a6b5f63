"""What the processes do that ``stress.kills`` kills: the library's own work, in small.

Each marks ``begun`` when it has started: kills are spread over the time from then on, not over the
start of Python.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import pickle
import tempfile
from collections.abc import Iterator, MutableSequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import tangentbundle as tb
from experiments import command, torus
from tangentbundle.io import Field, write_field
from tangentbundle.io.spaces import Cloud
from tangentbundle.parallel import one_thread

EPOCHS = 40
TASKS = 12
SUFFIXES = (".csv", ".npz", ".parquet", ".ply", ".nc", ".safetensors")

Mark = MutableSequence[float]
"""Numbers in memory that two processes share; they outlive the one that is killed."""


def train(begun: Mark, folder: str, problem: bytes, epochs: int = EPOCHS) -> None:
    """A training that writes a checkpoint after every epoch."""
    net, data = tb.nn.TNN([1, 2, 1], seed=3).double(), pickle.loads(problem)
    begun[0] = 1.0
    with one_thread():
        tb.fit(
            net,
            data,
            epochs=epochs,
            checkpoint=tb.training.Checkpoint(folder, every=0.0),
            progress=False,
        )
        tb.save(net, Path(folder) / "final.safetensors")


def reproduce(begun: Mark, folder: str) -> None:
    """The command ``python -m experiments torus``, with small tasks, no figures, and not the
    slowest of the rules."""
    begun[0] = 1.0
    with small_torus():
        command.reproduce("torus", out=Path(folder), quiet=True)
    (Path(folder) / "finished").touch()


def write(begun: Mark, folder: str, reported: Mark, most: int | None = None) -> None:
    """Version after version of a file in each format; ``reported`` holds the last one written of
    each."""
    points = np.random.default_rng(0).standard_normal((200, 3))
    first = int(max(reported)) + 1
    begun[0] = 1.0
    for version in itertools.count(first) if most is None else range(first, first + most):
        for number, suffix in enumerate(SUFFIXES):
            path = Path(folder) / f"field{suffix}"
            if suffix == ".safetensors":
                net = tb.nn.TNN([1, 1], seed=0)
                torch.nn.init.constant_(next(net.parameters()), float(version))
                tb.save(net, path)
            else:
                field = Field(Cloud(points, ("x", "y", "z")), np.full((1, 200, 3), float(version)))
                with contextlib.redirect_stderr(io.StringIO()):  # meshio prints
                    write_field(field, path)
            reported[number] = version


@contextlib.contextmanager
def small_torus() -> Iterator[None]:
    """In this block the experiment ``torus`` has a dozen tasks of a tenth of a second."""
    common = {"field": "as printed", "n": 30, "noises": 1, "protocol": "paper", "epochs": 4}
    tasks = [{**common, "sampling": number} for number in range(TASKS)]
    smoothers = torus.smoothers

    def fast_smoothers() -> dict[str, Any]:
        return {name: method for name, method in smoothers().items() if "Tikhonov" not in name}

    with (
        mock.patch.object(torus.Torus, "tasks", lambda *_: tasks),
        mock.patch("experiments.report.draw_scores", lambda results, path: path),
        mock.patch.object(torus, "smoothers", fast_smoothers),
    ):
        yield


def problem() -> bytes:
    """A few pairs of signals on a torus, to be learned."""
    lap = tb.TangentBundle.from_points(
        torch.from_numpy(tb.manifolds.Torus().sample(60, seed=1)), dim=2
    ).laplacian()
    signals = torch.randn(4, 60, 2, 1, generator=torch.Generator().manual_seed(5), dtype=lap.dtype)
    return pickle.dumps([(x, lap, tb.Heat(0.3)(lap, x)) for x in signals])


def warm_up() -> None:
    """Do each kind of work once: what is imported, compiled and kept then serves all processes
    forked from this one."""
    with tempfile.TemporaryDirectory() as folder:
        train([0.0], f"{folder}/train", problem(), epochs=1)
        reproduce([0.0], f"{folder}/reproduce")
        write([0.0], folder, [-1.0] * len(SUFFIXES), most=1)
