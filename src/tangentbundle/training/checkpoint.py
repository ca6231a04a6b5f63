"""Checkpoints: the state of a training as one safetensors file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ..errors import DamagedFileError, InvalidInputError
from ..files import read_tensors, write_tensors

KIND = "tangentbundle.training"


class Checkpoint:
    """A folder for the state of a training, written atomically every ``every`` seconds, at Ctrl-C and at the end."""

    def __init__(self, folder: str | os.PathLike, every: float = 20.0) -> None:
        self.folder, self.every, self.written = Path(folder), every, time.monotonic()
        self.path = self.folder / "checkpoint.safetensors"

    @property
    def due(self) -> bool:
        return time.monotonic() - self.written > self.every

    def save(self, training: Any) -> None:
        write_tensors(self.path, KIND, training.state(), training.identity)
        self.written = time.monotonic()

    def load(self, training: Any) -> None:
        """Continue from the file, which must be of the same network and optimiser."""
        state, identity = read_tensors(self.path, KIND)
        if identity != training.identity:
            raise InvalidInputError(
                f"{self.path} is the checkpoint of another network or optimiser. Choose another folder, or delete it."
            )
        try:
            training.restore(state)
        except Exception as error:  # anything can be raised by a forged file
            raise DamagedFileError(f"{self.path} is not a complete checkpoint ({error!r:.300}). Delete it.") from error
