"""Benchmarks that others have published, with their numbers and ours:
``python -m experiments published meshpde``. See docs/published.md.

Each benchmark is a file with a subclass of ``base.Benchmark``: independent tasks that give rows.
The numbers of others are in ``published.toml``, with their sources; finished rows are in
``results``, and the tables of the pages come from these alone (``tables``).
"""

from __future__ import annotations

from pathlib import Path

from tangentbundle.errors import InvalidInputError

from .base import Benchmark
from .graphuniverse import GraphUniverseChallenge
from .hills import ObjectsOnHills
from .meshpde import MeshPDE
from .stations import WindStations

BENCHMARKS: dict[str, type[Benchmark]] = {
    "meshpde": MeshPDE,
    "graphuniverse": GraphUniverseChallenge,
    "hills": ObjectsOnHills,
    "stations": WindStations,
}
"""The benchmarks by name."""


def benchmark(name: str, data: Path | None = None, device: str = "cpu") -> Benchmark:
    """A benchmark by its name, on data in a folder."""
    if name not in BENCHMARKS:
        raise InvalidInputError(
            f"there is no published benchmark {name!r}; there are {', '.join(BENCHMARKS)}."
        )
    return BENCHMARKS[name](data, device)
