"""From rows to tables: all scores, methods against cells, and the paper's numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.ledger import Row
from harness.tables import Table

from .base import Column, Description, Experiment

Cell = tuple
"""The values of the keys that name a cell of a table."""

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

    cell: Cell
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
        spread = None
        if len(values) > 1:
            spread = float(np.std(values))
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
        about = experiment.about
        self.about = about
        self.protocol = protocol
        self.full_form = full
        self.conditions = experiment.conditions(rows, full, protocol)
        self.departures = experiment.departures(rows, full)
        self.notes = experiment.notes(rows, protocol)
        self.headline = next(column for column in about.columns if column.headline)
        scored_as_paper = (column for column in about.columns if column.paper)
        self.compared = next(scored_as_paper, self.headline)
        self.lines = lines_of(about, rows, experiment.published())
        self.cells = list(dict.fromkeys(line.cell for line in self.lines))
        self.best = {cell: self._best_of(cell) for cell in self.cells}

    def _best_of(self, cell: Cell) -> Line:
        """The line with the best headline score of a cell."""
        lines = [line for line in self.lines if line.cell == cell]

        def score(line: Line) -> float:
            return line.score(self.headline)["mean"]

        if self.about.better == "lower":
            return min(lines, key=score)
        return max(lines, key=score)

    def full(self) -> Table:
        """One line for each cell and method, with every score."""
        columns = self.about.columns
        titles = [column.title for column in columns]
        header = [*self.about.cell, "method", "runs", *titles, self._paper_name]
        body = []
        for line in self.lines:
            paper = ""
            if self.full_form:
                paper = _mean_and_spread(line.paper)
            row = [str(value) for value in line.cell]
            row += [line.method, str(len(line.rows))]
            row += [_mean_and_spread(line.score(column)) for column in columns]
            row.append(paper)
            body.append(row)
        return Table(self._title(self.cells), header, body, self.notes)

    def pivots(self) -> list[Table]:
        """Methods against cells, scored as in the paper (its numbers in rows of their own), then by
        the headline."""
        groups = [self.cells]
        if len(self.cells) > MAX_CELLS:
            firsts = dict.fromkeys(cell[0] for cell in self.cells)
            groups = [[cell for cell in self.cells if cell[0] == first] for first in firsts]
        columns = dict.fromkeys((self.compared, self.headline))
        tables = [self._pivot(cells, column) for cells in groups for column in columns]
        return [table for table in tables if table.body]

    def _pivot(self, cells: list[Cell], column: Column) -> Table:
        """The scores of one column: a row for each method, a column for each cell."""
        entries: dict[str, dict[Cell, str]] = {}
        for line in self.lines:
            text = _mean_and_spread(line.score(column))
            if not text:
                continue
            if line.paper and column == self.compared and self.full_form:
                name = f"*{self._paper_name}: {_method_itself(line.method)}*"
                entries.setdefault(name, {})[line.cell] = _mean_and_spread(line.paper)
            if column.headline or line.paper:
                if column.headline and self.best[line.cell] is line:
                    text = f"**{text}**"
                entries.setdefault(line.method, {})[line.cell] = text
        body = []
        for name, texts in entries.items():
            row = [texts.get(cell, "") for cell in cells]
            if any(row):
                body.append([name, *row])
        header = ["method"] + [self._label(cell, cells) for cell in cells]
        return Table(f"{self._title(cells)}: {column.title}", header, body)

    @property
    def _paper_name(self) -> str:
        """What the paper's numbers are called."""
        if self.departures:
            return "paper, not comparable"
        return "paper"

    def comparison(self) -> Table:
        """The networks and the best method of every cell, beside the paper's numbers where these
        can be compared."""
        comparable = not self.departures
        header = ["cell", "method", "ours"]
        if comparable:
            header += ["paper", "in sd"]
        body = []
        for line in self.lines:
            label = self._label(line.cell, self.cells)
            ours = line.score(self.compared)
            if line.paper and ours:
                row = [label, line.method, _mean_and_spread(ours)]
                if comparable:
                    distance = (ours["mean"] - line.paper["mean"]) / line.paper["std"]
                    row += [_mean_and_spread(line.paper), f"{distance:+.1f}"]
                body.append(row)
            is_listed = line.paper and not self._star
            if self.best[line.cell] is line and not is_listed:
                score = _mean_and_spread(line.score(self.headline)) + self._star
                row = [label, f"best: {line.method}", score]
                if comparable:
                    row += ["", ""]
                body.append(row)
        return Table(self._title(self.cells), header, body, self._explanation(comparable))

    @property
    def _star(self) -> str:
        """The mark of scores that are not scored as the paper's numbers."""
        if self.headline == self.compared:
            return ""
        return " *"

    def _explanation(self, comparable: bool) -> str:
        """What the columns of the comparison are, with which data and training, and why there is
        none."""
        scores = f"ours: {self.compared.title}."
        if self._star:
            scores += f" *: {self.headline.title}."
        lines = [scores]
        if self.conditions:
            lines.append(self.conditions)
        if comparable:
            lines.append("in sd: distance from the paper's value in its standard deviations.")
        else:
            lines.append(f"Not compared with the paper's numbers: {'; '.join(self.departures)}.")
        return "\n".join(part for line in lines for part in textwrap.wrap(line, MAX_COLUMNS))

    def _title(self, cells: list[Cell]) -> str:
        """The table, its protocol, and what all of several cells have in common."""
        words = [f"protocol: {self.protocol}"]
        if not self.full_form:
            words.append("quick form")
        if len(cells) > 1:
            for key, values in zip(self.about.cell, zip(*cells, strict=True), strict=True):
                if len(set(values)) == 1:
                    words.append(_value_with_name(key, values[0]))
        return f"{self.about.title} ({', '.join(words)})"

    def _label(self, cell: Cell, cells: list[Cell]) -> str:
        """The values that distinguish a cell from the others; all values of an only cell."""
        distinguishing = []
        for key, value, values in zip(self.about.cell, cell, zip(*cells, strict=True), strict=True):
            if len(cells) == 1 or len(set(values)) > 1:
                distinguishing.append((key, value))
        words = [_value_with_name(key, value) for key, value in distinguishing if value != NOTHING]
        if words:
            return ", ".join(words)
        return ", ".join(f"no {key}" for key, _ in distinguishing)


def lines_of(about: Description, rows: Sequence[Row], published: Sequence[Row]) -> list[Line]:
    """A line for each cell and method, in the order of the cells.

    Variants of a method, "MNN, ...", stand beside the paper's number for the method itself.
    """
    paper = {(*_cell_of(about, row), row["method"]): row for row in published}
    groups: dict[Cell, dict[str, list[Row]]] = {}
    for row in rows:
        methods = groups.setdefault(_cell_of(about, row), {})
        methods.setdefault(row["method"], []).append(row)
    lines = []
    for cell in sorted(groups):
        for method, group in groups[cell].items():
            number = paper.get((*cell, _method_itself(method)))
            lines.append(Line(cell, method, group, number))
    return lines


def _cell_of(about: Description, row: Row) -> Cell:
    """The cell that a row belongs to."""
    return tuple(row[key] for key in about.cell)


def _method_itself(method: str) -> str:
    """The name of a method without its variant."""
    return method.split(",")[0]


def _value_with_name(key: str, value: float | str) -> str:
    """A value of a cell: text as it is, numbers with their name."""
    if isinstance(value, str):
        return value
    return f"{key}={value}"


def _mean_and_spread(number: Row | None) -> str:
    """Mean and standard deviation, or the value of a single run."""
    if not number:
        return ""
    mean = f"{number['mean']:.3g}"
    if number["std"] is None:
        return mean
    return f"{mean} ± {number['std']:.2g}"
