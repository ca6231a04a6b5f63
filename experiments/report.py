"""The files of a table: a page, all scores, and a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.ledger import Row
from tangentbundle import plot
from tangentbundle.files import write_atomically
from tangentbundle.plot.style import LINES

from .base import Experiment
from .results import Cell, Line, Results

PANELS_IN_A_ROW = 4


def write_report(
    experiment: Experiment, rows: list[Row], protocol: str, folder: str | Path, full: bool = True
) -> tuple[Results, list[Path]]:
    """Write ``table.md``, ``table.csv`` and ``scores.png``; returns the results and all files."""
    place = Path(folder)
    results = Results(experiment, rows, protocol, full)
    figure = draw_scores(results, place / "scores.png")
    page = place / "table.md"
    write_atomically(page, _page(results, rows, figure).encode())
    scores = place / "table.csv"
    write_atomically(scores, results.full().csv().encode())
    return results, [page, scores, figure]


def _page(results: Results, rows: list[Row], figure: Path) -> str:
    """The page in Markdown: tables, the figure, and notes."""
    paragraphs = [table.markdown() for table in results.pivots()]
    paragraphs.append(f"![{results.headline.title}]({figure.name})\n")
    paragraphs.append(f"{results.notes}\n")
    if results.departures:
        paragraphs.append(f"Not the paper's experiment: {'; '.join(results.departures)}.\n")
    files = "All scores: `table.csv`; one line per run: `results.jsonl`.\n"
    paragraphs.append(f"{_parameter_counts(rows)} {files}".lstrip())
    return "\n".join(paragraphs)


def _parameter_counts(rows: list[Row]) -> str:
    """The networks with their numbers of parameters, as a sentence; empty without networks."""
    counts = {row["method"]: row["parameters"] for row in rows if row.get("parameters")}
    if not counts:
        return ""
    return "Parameters: " + ", ".join(f"{name} {count}" for name, count in counts.items()) + "."


def draw_scores(results: Results, path: Path) -> Path:
    """The headline score of every method against the last key of the cells, a panel for each of the
    others.

    The library's estimators, or the networks, have thick lines.
    """
    own = _own_methods(results)
    lines = sorted(results.lines, key=lambda line: line.method not in own)
    methods = list(dict.fromkeys(line.method for line in lines))
    panels = list(dict.fromkeys(cell[:-1] for cell in results.cells))
    figure, axes = plot.canvas(
        rows=math.ceil(len(panels) / PANELS_IN_A_ROW),
        columns=min(PANELS_IN_A_ROW, len(panels)),
        size=(4.2, 4.2),
        sharey=True,
    )
    positions = [cell[-1] for cell in results.cells]
    are_names = any(isinstance(position, str) for position in positions)
    for axis, panel in zip(axes.flat, panels, strict=False):
        axis.set_xscale(_scale(positions))  # before names replace the numbers of an axis
        for number, method in enumerate(methods):
            shown = [line for line in lines if line.cell[:-1] == panel and line.method == method]
            if not shown:
                continue
            x = [line.cell[-1] for line in shown]
            y = [line.score(results.headline)["mean"] for line in shown]
            look = _look(number, method in own)
            if are_names:  # between names there is nothing
                look["linestyle"] = "none"
            axis.plot(x, y, label=method, **look)
        axis.grid(alpha=0.25, which="both")
        axis.set(xlabel=results.about.cell[-1], title=_panel_title(results.about.cell, panel))
    values = [value for line in lines for value in line.values(results.headline)]
    axes[0, 0].set(ylabel=results.headline.title, yscale=_scale(values))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(PANELS_IN_A_ROW, len(panels) + 1),
        frameon=False,
        fontsize=8,
    )
    return plot.save(figure, path)


def _own_methods(results: Results) -> set[str]:
    """The library's estimators; without these, the networks."""
    estimators = {line.method for line in results.lines if line.method.startswith("Field")}
    if estimators:
        return estimators
    return {line.method for line in results.lines if _is_network(line)}


def _is_network(line: Line) -> bool:
    return bool(line.rows[0].get("parameters"))


def _look(number: int, own: bool) -> dict[str, Any]:
    """Colour, width and dashes of the method of that number, the same in all panels."""
    look = {"color": LINES[number % len(LINES)], "marker": "o", "markersize": 4}
    if own:
        return {**look, "linewidth": 2.2, "linestyle": "-"}
    dashes = ("--", "-.", ":")
    return {**look, "linewidth": 1.4, "linestyle": dashes[number % 3]}


def _panel_title(keys: Sequence[str], panel: Cell) -> str:
    """The values that all cells of a panel share."""
    words = []
    for key, value in zip(keys, panel, strict=False):
        if isinstance(value, str):
            words.append(value)
        else:
            words.append(f"{key} = {value}")
    return ", ".join(words)


def _scale(values: Sequence[float | str]) -> str:
    """Logarithmic for positive numbers of several magnitudes."""
    numbers = [value for value in values if not isinstance(value, str)]
    if numbers and max(numbers) > 25 * min(numbers) > 0:
        return "log"
    return "linear"
