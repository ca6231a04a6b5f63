"""Make the files of a benchmark: ``python -m experiments.published.make NAME FOLDER [SOURCE]``."""

from __future__ import annotations

import sys
from pathlib import Path

from . import benchmark


def make(name: str, folder: str, source: str | None = None) -> None:
    """Make the files of a benchmark in a folder."""
    origin = None if source is None else Path(source)
    benchmark(name).make_data(Path(folder), origin)


if __name__ == "__main__":
    make(*sys.argv[1:])
