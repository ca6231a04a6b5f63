"""Checkpoints: the state of a training as one safetensors file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ..errors import DamagedFileError, InvalidInputError
from ..files import read_tensors, write_tensors

if TYPE_CHECKING:
    from .trainer import Trainer

KIND = "tangentbundle.training"

MOMENTS = "moments."
"""Begins the names of what the optimiser remembers of each parameter."""

HISTORY = "history."
"""Begins the names of the losses of all epochs."""

RANDOM = "random"
"""The state of torch's random numbers."""


class Checkpoint:
    """A folder for the state of a training, written atomically every ``every`` seconds, at Ctrl-C
    and at the end."""

    def __init__(self, folder: str | os.PathLike, every: float = 20.0) -> None:
        self.folder = Path(folder)
        self.every = every
        self.written = time.monotonic()
        self.path = self.folder / "checkpoint.safetensors"

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self.written > self.every

    def save(self, trainer: Trainer) -> None:
        """Write the state of a training."""
        tensors = trainer.state.state_dict()
        tensors.update(_moments(trainer.optimizer))
        for name, losses in trainer.history.items():
            tensors[f"{HISTORY}{name}"] = torch.tensor(losses, dtype=torch.float64)
        tensors[RANDOM] = torch.get_rng_state()
        write_tensors(self.path, KIND, tensors, trainer.identity)
        self.written = time.monotonic()

    def load(self, trainer: Trainer) -> None:
        """Continue from the file, which must be of the same network and optimiser."""
        tensors, identity = read_tensors(self.path, KIND)
        if identity != trainer.identity:
            raise InvalidInputError(
                f"{self.path} is the checkpoint of another network or optimiser. Choose another "
                "folder, or delete it."
            )
        try:
            _restore(trainer, tensors)
        except Exception as error:  # anything can be raised by a forged file
            raise DamagedFileError(
                f"{self.path} is not a complete checkpoint ({error!r:.300}). Delete it."
            ) from error


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """What an optimiser remembers of each parameter, by its number and a key."""
    moments = {}
    for number, entries in optimizer.state_dict()["state"].items():
        for key, value in entries.items():
            moments[f"{MOMENTS}{number}.{key}"] = torch.as_tensor(value)
    return moments


def _restore(trainer: Trainer, tensors: dict[str, torch.Tensor]) -> None:
    """Give a training the state that a file holds."""
    moments: dict[int, dict[str, torch.Tensor]] = {}
    weights_and_losses: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if name.startswith(MOMENTS):
            number, key = name.removeprefix(MOMENTS).split(".", 1)
            moments.setdefault(int(number), {})[key] = tensor
        elif name.startswith(HISTORY):
            trainer.history[name.removeprefix(HISTORY)] = tensor.tolist()
        elif name != RANDOM:
            weights_and_losses[name] = tensor
    torch.set_rng_state(tensors[RANDOM])
    trainer.state.load_state_dict(weights_and_losses)
    optimizer_state = trainer.optimizer.state_dict()
    trainer.optimizer.load_state_dict({**optimizer_state, "state": moments})
