"""From rows to files: table on the screen, Markdown, CSV, figures."""

from __future__ import annotations

from pathlib import Path

from ..files import write_atomically
from .base import Experiment, Row
from .runner import single_thread
from .tables import Table, tabulate


def write_report(
    experiment: Experiment, rows: list[Row], protocol: str, folder: str | Path
) -> tuple[Table, list[Path]]:
    """Write ``table.md``, ``table.csv`` and the figures; returns the table and all files."""
    place = Path(folder)
    table = tabulate(experiment, rows, protocol)
    write_atomically(place / "table.md", table.markdown().encode())
    write_atomically(place / "table.csv", table.csv().encode())
    with single_thread():
        figures = experiment.figures(rows, place)
    return table, [place / "table.md", place / "table.csv", *figures]
