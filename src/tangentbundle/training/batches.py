"""The batches of a training: those of a list, in random order, or those that a loader gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import InvalidInputError
from .processes import Processes


@dataclass(frozen=True, eq=False)
class Step:
    """The batches of one step of the optimiser: those of this process, and the ``count`` of those
    of all processes."""

    batches: Iterable[Any]
    count: int


@dataclass(frozen=True, eq=False)
class Selection:
    """Some members of a sequence, read one by one."""

    data: Sequence[Any]
    numbers: Sequence[int]

    def __iter__(self) -> Iterator[Any]:
        for number in self.numbers:
            yield self.data[number]


class Batches(ABC):
    """The batches of a training, of which a step takes ``accumulate`` in every process."""

    @property
    @abstractmethod
    def is_one_step(self) -> bool:
        """Whether all batches are known to be one step."""

    @property
    @abstractmethod
    def example(self) -> Any:
        """A batch, or None where none can be had without reading."""

    @abstractmethod
    def steps(self, epoch: int) -> Iterator[Step]:
        """The steps of an epoch."""

    @abstractmethod
    def own(self) -> Iterable[Any]:
        """All batches that this process evaluates."""


class ListedBatches(Batches):
    """Batches with a length and an index, which processes share and epochs shuffle."""

    def __init__(
        self, data: Sequence[Any], *, accumulate: int, seed: int, processes: Processes
    ) -> None:
        self.data = data
        self.batches_of_step = accumulate * processes.count
        self.seed = seed
        self.processes = processes

    @property
    def is_one_step(self) -> bool:
        return len(self.data) <= self.batches_of_step

    @property
    def example(self) -> Any:
        return self.data[0]

    def steps(self, epoch: int) -> Iterator[Step]:
        source = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.data), generator=source).tolist()
        for start in range(0, len(order), self.batches_of_step):
            numbers = order[start : start + self.batches_of_step]
            yield Step(self._own_batches(numbers), len(numbers))

    def own(self) -> Iterable[Any]:
        return self._own_batches(range(len(self.data)))

    def _own_batches(self, numbers: Sequence[int]) -> Selection:
        """Of the batches with these numbers the share of this process."""
        return Selection(self.data, self.processes.share(numbers))


class LoadedBatches(Batches):
    """Batches of a loader, which shuffles them itself; every process has a loader of its own."""

    def __init__(
        self, loader: Iterable[Any], *, accumulate: int, name: str, processes: Processes
    ) -> None:
        self.loader = loader
        self.accumulate = accumulate
        self.name = name
        self.processes = processes

    @property
    def is_one_step(self) -> bool:
        return False

    @property
    def example(self) -> Any:
        return None

    def steps(self, epoch: int) -> Iterator[Step]:
        batches = []
        for batch in self.own():
            batches.append(batch)
            if len(batches) == self.accumulate:
                yield self._step(batches)
                batches = []
        if batches:
            yield self._step(batches)

    def own(self) -> Iterator[Any]:
        is_empty = True
        for batch in self.loader:
            is_empty = False
            yield batch
        if is_empty:
            raise InvalidInputError(f"the loader {self.name} gave no batch.")

    def _step(self, batches: Sequence[Any]) -> Step:
        return Step(batches, len(batches) * self.processes.count)


def as_batches(
    data: Any, name: str, *, accumulate: int, seed: int, processes: Processes
) -> Batches:
    """The batches of a list, a data set or a loader; refuses what gives its batches only once."""
    is_sized = hasattr(data, "__len__") and not isinstance(data, (str, bytes, Mapping, Set))
    if is_sized and hasattr(data, "__getitem__"):
        if len(data) == 0:
            raise InvalidInputError(
                f"{name} must not be empty: it is the list of batches. Leave validation out if "
                "there is none."
            )
        return ListedBatches(data, accumulate=accumulate, seed=seed, processes=processes)
    if is_sized and hasattr(data, "__iter__"):
        return LoadedBatches(data, accumulate=accumulate, name=name, processes=processes)
    raise InvalidInputError(
        f"{name} must be a list of batches, a data set with a length and an index, or a loader "
        f"such as torch.utils.data.DataLoader: they are read once an epoch. Got "
        f"{type(data).__name__}; if it gives batches one by one, use {name}=list(...)."
    )
