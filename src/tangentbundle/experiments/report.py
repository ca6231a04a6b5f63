"""From rows to tables and files: all scores, methods against cells, the paper's numbers, a
figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import plot
from ..files import write_atomically
from ..plot.style import LINES
from ..results import Table
from .base import Column, Experiment, Row

MAX_COLUMNS = 100
"""Width of a terminal."""

NOTHING = "-"
"""The value of a key that a method does not have, such as the activation of a baseline."""

MAX_CELLS = 12
"""Columns of a pivoted table; with more, every value of the first key of a cell has its own
table."""


@dataclass(frozen=True, eq=False)
class Line:
    """The runs of one method in one cell, and the paper's number for it."""

    cell: tuple
    method: str
    rows: list[Row]
    paper: Row | None

    def values(self, column: Column) -> list[float]:
        """The scores of the runs."""
        return [row[column.score] for row in self.rows if row.get(column.score) is not None]

    def score(self, column: Column) -> Row:
        """Mean and standard deviation, in the form of the paper's numbers; empty without values.

        A single run has no standard deviation.
        """
        values = self.values(column)
        if not values:
            return {}
        spread = float(np.std(values)) if len(values) > 1 else None
        return {"mean": float(np.mean(values)), "std": spread}


class Results:
    """The rows of an experiment as lines, cell after cell. No method is left out.

    The paper's numbers are compared with rows of the paper's own data and form alone.
    ``departures`` says in words where these rows differ; then the paper's numbers are shown on the
    page of a full table, marked, or not at all.
    """

    def __init__(
        self, experiment: Experiment, rows: Sequence[Row], protocol: str, full: bool = True
    ) -> None:
        self.about = about = experiment.about
        self.protocol = protocol
        self.full_form = full
        self.conditions = experiment.conditions(rows, full, protocol)
        self.departures = experiment.departures(rows, full)
        self.notes = experiment.notes(rows, protocol)
        self.headline = headline = next(column for column in about.columns if column.headline)
        self.compared = next((column for column in about.columns if column.paper), headline)
        paper = {(*(r[k] for k in about.cell), r["method"]): r for r in experiment.published()}
        groups: dict[tuple, dict[str, list[Row]]] = {}
        for row in rows:
            groups.setdefault(tuple(row[k] for k in about.cell), {}).setdefault(
                row["method"], []
            ).append(row)
        self.cells = sorted(groups)
        self.lines, self.best = [], {}
        for cell in (
            self.cells
        ):  # variants, "MNN, ...", are compared with the paper's number for the method itself
            lines = [
                Line(cell, m, group, paper.get((*cell, _base(m))))
                for m, group in groups[cell].items()
            ]
            sign = 1 if about.better == "lower" else -1
            self.best[cell] = min(lines, key=lambda line: sign * line.score(headline)["mean"])
            self.lines += lines

    def full(self) -> Table:
        """One line for each cell and method, with every score."""
        columns = self.about.columns
        header = [
            *self.about.cell,
            "method",
            "runs",
            *(column.title for column in columns),
            self._paper,
        ]
        body = []
        for line in self.lines:
            scores = [_pair(line.score(column)) for column in columns]
            paper = _pair(line.paper) if self.full_form else ""
            body.append([*map(str, line.cell), line.method, str(len(line.rows)), *scores, paper])
        return Table(self._title(self.cells), header, body, self.notes)

    def pivots(self) -> list[Table]:
        """Methods against cells, scored as in the paper (its numbers in rows of their own), then by
        the headline."""
        firsts = dict.fromkeys(cell[0] for cell in self.cells)
        parts = [[cell for cell in self.cells if cell[0] == first] for first in firsts]
        scores = dict.fromkeys((self.compared, self.headline))
        found = [
            self._pivot(p, s)
            for p in (parts if len(self.cells) > MAX_CELLS else [self.cells])
            for s in scores
        ]
        return [table for table in found if table.body]

    def _pivot(self, cells: list[tuple], column: Column) -> Table:
        entries: dict[str, dict[tuple, str]] = {}
        for line in self.lines:
            text = _pair(line.score(column))
            if text and line.paper and column == self.compared and self.full_form:
                entries.setdefault(f"*{self._paper}: {_base(line.method)}*", {})[line.cell] = _pair(
                    line.paper
                )
            if text and (column.headline or line.paper):
                bold = column.headline and self.best[line.cell] is line
                entries.setdefault(line.method, {})[line.cell] = f"**{text}**" if bold else text
        body = [[name, *(found.get(cell, "") for cell in cells)] for name, found in entries.items()]
        header = ["method", *(self._label(cell, cells) for cell in cells)]
        return Table(
            f"{self._title(cells)}: {column.title}", header, [row for row in body if any(row[1:])]
        )

    @property
    def _paper(self) -> str:
        """What the paper's numbers are called."""
        return "paper, not comparable" if self.departures else "paper"

    def comparison(self) -> Table:
        """The networks and the best method of every cell, beside the paper's numbers where these
        can be compared."""
        comparable = not self.departures
        body, star = [], "" if self.headline == self.compared else " *"
        for line in self.lines:
            label, ours = self._label(line.cell, self.cells), line.score(self.compared)
            if line.paper and ours:
                distance = (ours["mean"] - line.paper["mean"]) / line.paper["std"]
                paper = [_pair(line.paper), f"{distance:+.1f}"] if comparable else ["", ""]
                body.append([label, line.method, _pair(ours), *paper])
            if self.best[line.cell] is line and not (line.paper and not star):
                body.append(
                    [label, f"best: {line.method}", _pair(line.score(self.headline)) + star, "", ""]
                )
        header = ["cell", "method", "ours", "paper", "in sd"]
        if not comparable:
            header = header[:3]
            body = [row[:3] for row in body]
        return Table(self._title(self.cells), header, body, self._explanation(comparable, star))

    def _explanation(self, comparable: bool, star: str) -> str:
        """What the columns of the comparison are, with which data and training, and why there is
        none."""
        lines = [f"ours: {self.compared.title}." + (f" *: {self.headline.title}." if star else "")]
        if self.conditions:
            lines.append(self.conditions)
        if comparable:
            lines.append("in sd: distance from the paper's value in its standard deviations.")
        else:
            lines.append(f"Not compared with the paper's numbers: {'; '.join(self.departures)}.")
        return "\n".join(part for line in lines for part in textwrap.wrap(line, MAX_COLUMNS))

    def _title(self, cells: list[tuple]) -> str:
        """The table, its protocol, and what all of several cells have in common."""
        parts = [f"protocol: {self.protocol}"]
        if not self.full_form:
            parts.append("quick form")
        if len(cells) > 1:
            columns = zip(self.about.cell, zip(*cells, strict=True), strict=True)
            parts += [_named(key, values[0]) for key, values in columns if len(set(values)) == 1]
        return f"{self.about.title} ({', '.join(parts)})"

    def _label(self, cell: tuple, cells: list[tuple]) -> str:
        """The values that distinguish a cell from the others; all values of an only cell."""
        varied = [len(cells) == 1 or len(set(values)) > 1 for values in zip(*cells, strict=True)]
        named = [
            (key, value)
            for key, value, varies in zip(self.about.cell, cell, varied, strict=True)
            if varies
        ]
        parts = [_named(key, value) for key, value in named if value != NOTHING]
        return ", ".join(parts) or ", ".join(f"no {key}" for key, _ in named)


def _base(method: str) -> str:
    return method.split(",")[0]


def _named(key: str, value: float | str) -> str:
    """A value of a cell: text as it is, numbers with their name."""
    return value if isinstance(value, str) else f"{key}={value}"


def _pair(number: Row | None) -> str:
    """Mean and standard deviation, or the value of a single run."""
    if not number:
        return ""
    mean = f"{number['mean']:.3g}"
    return mean if number["std"] is None else f"{mean} ± {number['std']:.2g}"


def draw_scores(results: Results, path: Path) -> Path:
    """The headline score of every method against the last key of the cells, a panel for each of the
    others.

    The library's estimators, or the networks, have thick lines.
    """
    own = {line.method for line in results.lines if line.method.startswith("Field")}
    own = own or {line.method for line in results.lines if line.rows[0].get("parameters")}
    lines = sorted(results.lines, key=lambda line: line.method not in own)
    panels = list(dict.fromkeys(cell[:-1] for cell in results.cells))
    numbers = {
        method: number for number, method in enumerate(dict.fromkeys(line.method for line in lines))
    }
    figure, axes = plot.canvas(-(-len(panels) // 4), min(4, len(panels)), (4.2, 4.2), sharey=True)
    for axis, panel in zip(axes.flat, panels, strict=False):
        axis.set_xscale(
            _scale([cell[-1] for cell in results.cells])
        )  # before names replace the numbers of an axis
        for method, number in numbers.items():
            shown = [line for line in lines if (line.cell[:-1], line.method) == (panel, method)]
            means = [(line.cell[-1], line.score(results.headline)["mean"]) for line in shown]
            width, dashes = (2.2, "-") if method in own else (1.4, ("--", "-.", ":")[number % 3])
            look = {
                "color": LINES[number % len(LINES)],
                "lw": width,
                "ls": dashes,
                "marker": "o",
                "ms": 4,
            }
            axis.plot(*zip(*means, strict=True), label=method, **look)
        axis.grid(alpha=0.25, which="both")
        named = zip(results.about.cell, panel, strict=False)
        title = ", ".join(
            value if isinstance(value, str) else f"{key} = {value}" for key, value in named
        )
        axis.set(xlabel=results.about.cell[-1], title=title)
    values = [value for line in lines for value in line.values(results.headline)]
    axes[0, 0].set(ylabel=results.headline.title, yscale=_scale(values))
    place = {
        "loc": "outside lower center",
        "ncols": min(4, len(panels) + 1),
        "frameon": False,
        "fontsize": 8,
    }
    figure.legend(*axes[0, 0].get_legend_handles_labels(), **place)
    return plot.save(figure, path)


def _scale(values: Sequence[float | str]) -> str:
    """Logarithmic for positive numbers of several magnitudes."""
    numbers = [value for value in values if not isinstance(value, str)]
    return "log" if numbers and max(numbers) > 25 * min(numbers) > 0 else "linear"


def write_report(
    experiment: Experiment, rows: list[Row], protocol: str, folder: str | Path, full: bool = True
) -> tuple[Results, list[Path]]:
    """Write ``table.md``, ``table.csv`` and ``scores.png``; returns the results and all files."""
    place, results = Path(folder), Results(experiment, rows, protocol, full)
    figure = draw_scores(results, place / "scores.png")
    sizes = {row["method"]: row["parameters"] for row in rows if row.get("parameters")}
    counts = (
        "Parameters: " + ", ".join(f"{name} {count}" for name, count in sizes.items()) + "."
        if sizes
        else ""
    )
    parts = [
        *(table.markdown() for table in results.pivots()),
        f"![{results.headline.title}]({figure.name})\n",
        f"{results.notes}\n",
        *(
            [f"Not the paper's experiment: {'; '.join(results.departures)}.\n"]
            if results.departures
            else []
        ),
        f"{counts} All scores: `table.csv`; one line per run: `results.jsonl`.".lstrip() + "\n",
    ]
    write_atomically(place / "table.md", "\n".join(parts).encode())
    write_atomically(place / "table.csv", results.full().csv().encode())
    return results, [place / "table.md", place / "table.csv", figure]
