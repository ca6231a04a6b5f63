"""Checkpoints: the state of a training as one safetensors file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch

from ..errors import DamagedFileError, InvalidInputError
from ..files import read_tensors, write_tensors

KIND = "tangentbundle.training"


class Checkpoint:
    """A folder for the state of a training, written atomically every ``every`` seconds, at Ctrl-C
    and at the end."""

    def __init__(self, folder: str | os.PathLike, every: float = 20.0) -> None:
        self.folder, self.every, self.written = Path(folder), every, time.monotonic()
        self.path = self.folder / "checkpoint.safetensors"

    @property
    def due(self) -> bool:
        return time.monotonic() - self.written > self.every

    def save(self, training: Any) -> None:
        moments = training.optimizer.state_dict()["state"].items()
        state = {
            **training.state_dict(),
            **{
                f"moments.{i}.{key}": torch.as_tensor(v)
                for i, entry in moments
                for key, v in entry.items()
            },
            **{
                f"history.{name}": torch.tensor(v, dtype=torch.float64)
                for name, v in training.history.items()
            },
            "random": torch.get_rng_state(),
        }
        write_tensors(self.path, KIND, state, training.identity)
        self.written = time.monotonic()

    def load(self, training: Any) -> None:
        """Continue from the file, which must be of the same network and optimiser."""
        state, identity = read_tensors(self.path, KIND)
        if identity != training.identity:
            raise InvalidInputError(
                f"{self.path} is the checkpoint of another network or optimiser. Choose another "
                "folder, or delete it."
            )
        try:
            moments: dict[int, dict[str, torch.Tensor]] = {}
            for name in [name for name in state if name.startswith("moments.")]:
                _, index, key = name.split(".", 2)
                moments.setdefault(int(index), {})[key] = state.pop(name)
            for name in [name for name in state if name.startswith("history.")]:
                training.history[name.removeprefix("history.")] = state.pop(name).tolist()
            torch.set_rng_state(state.pop("random"))
            training.load_state_dict(state)
            training.optimizer.load_state_dict(
                {**training.optimizer.state_dict(), "state": moments}
            )
        except Exception as error:  # anything can be raised by a forged file
            raise DamagedFileError(
                f"{self.path} is not a complete checkpoint ({error!r:.300}). Delete it."
            ) from error
