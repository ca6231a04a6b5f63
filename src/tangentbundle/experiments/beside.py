"""Rows of a finished run of the paper's protocol, shown beside those of another on the same draws: trained once."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import InvalidInputError
from .base import Experiment, Row
from .runner import read_results

PLACE = ("data", "sampling", "mask")
"""Keys of a row that, with its cell, say which draw it belongs to."""


def beside(experiment: Experiment, rows: Sequence[Row], folder: Path, *, full: bool, seed: int) -> list[Row]:
    """The rows, and those of methods they lack, of the same draws, from ``results.jsonl`` (or ``.gz``) in a folder.

    The file must hold the paper's protocol of the same experiment, form and seed.
    """
    header = {"experiment": experiment.name, "protocol": "paper", "full": full, "seed": seed}
    here = {row["method"] for row in rows}
    draws = {_draw(experiment, row) for row in rows}
    found = [row for row in _results(folder, header) if row["method"] not in here and _draw(experiment, row) in draws]
    if not found:
        raise InvalidInputError(f"{folder} holds no other method on the draws of this table. Has its run finished?")
    return [*rows, *(experiment.completed(row) for row in found)]


def _draw(experiment: Experiment, row: Row) -> tuple:
    return tuple(row.get(key) for key in (*experiment.cell, *PLACE))


def _results(folder: Path, header: Row) -> list[Row]:
    plain, packed = folder / "results.jsonl", folder / "results.jsonl.gz"
    if plain.exists():
        return read_results(plain, header)
    if not packed.exists():
        raise InvalidInputError(f"there are no results (results.jsonl or results.jsonl.gz) in {folder}.")
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / plain.name
        copy.write_bytes(gzip.decompress(packed.read_bytes()))
        return read_results(copy, header)
