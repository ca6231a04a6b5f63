"""From rows to files: a page, a table of all scores, figures."""

from __future__ import annotations

from pathlib import Path

from ..files import write_atomically
from ..parallel import one_thread
from .base import Experiment, Row
from .figures import draw_figures
from .tables import Results


def write_report(
    experiment: Experiment, rows: list[Row], protocol: str, folder: str | Path
) -> tuple[Results, list[Path]]:
    """Write ``table.md``, ``table.csv`` and the figures; returns the results and all files."""
    place, results = Path(folder), Results(experiment, rows, protocol)
    with one_thread():
        figures = draw_figures(experiment.name, rows, place)
    sizes = {row["method"]: row["parameters"] for row in rows if row.get("parameters")}
    counts = "Parameters: " + ", ".join(f"{name} {count}" for name, count in sizes.items()) + "." if sizes else ""
    parts = [table.markdown() for table in results.pivots()]
    parts += [f"![{path.stem.replace('_', ' ')}]({path.name})\n" for path in figures]
    parts += [
        f"{results.notes}\n",
        f"{counts} All scores: `table.csv`; one line per run: `results.jsonl`.".lstrip() + "\n",
    ]
    write_atomically(place / "table.md", "\n".join(parts).encode())
    write_atomically(place / "table.csv", results.full().csv().encode())
    return results, [place / "table.md", place / "table.csv", *figures]
