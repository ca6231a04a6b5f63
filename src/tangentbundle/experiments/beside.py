"""Rows of finished networks of the paper's protocol, merged with those of another protocol on the same draws."""

from __future__ import annotations

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
    file = next((f for f in (folder / "results.jsonl", folder / "results.jsonl.gz") if f.exists()), None)
    if file is None:
        raise InvalidInputError(f"there are no results (results.jsonl or results.jsonl.gz) in {folder}.")
    here = {row["method"] for row in rows}
    draws = {_draw(experiment, row) for row in rows}
    found = [r for r in read_results(file, header) if r["method"] not in here and _draw(experiment, r) in draws]
    if not found:
        raise InvalidInputError(f"{folder} holds no other method on the draws of this table. Has its run finished?")
    return [*rows, *found]


def _draw(experiment: Experiment, row: Row) -> tuple:
    return tuple(row.get(key) for key in (*experiment.cell, *PLACE))
