"""Tables from rows: means and spreads of every method, the paper's number beside, nothing left out."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Experiment, Row


@dataclass(frozen=True)
class Table:
    """A title, names of columns, and rows of texts."""

    title: str
    header: list[str]
    body: list[list[str]]
    notes: str = ""

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", "| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        lines += ["| " + " | ".join(row) + " |" for row in self.body]
        return "\n".join([*lines, "", self.notes]).rstrip() + "\n"

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text).writerows([self.header, *self.body])
        return text.getvalue()


def tabulate(experiment: Experiment, rows: Sequence[Row], protocol: str) -> Table:
    """One line for each cell and method: every score's mean and standard deviation over its runs.

    The paper's number stands in a column of its own. The best headline of a cell is bold.
    """
    keys = [tuple(row[k] for k in experiment.cell) for row in rows]
    cells = sorted(set(keys), key=lambda key: tuple((str(type(k)), k) for k in key))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    paper = {(*(r[k] for k in experiment.cell), r["method"]): r for r in experiment.published()}
    headline = next(c.score for c in experiment.columns if c.headline)
    header = [*experiment.cell, "method", "runs", *(c.title for c in experiment.columns), "paper"]
    body = []
    for cell in cells:
        mine = {m: [r for r, k in zip(rows, keys, strict=True) if k == cell and r["method"] == m] for m in methods}
        means = {m: float(np.mean([r[headline] for r in group])) for m, group in mine.items() if group}
        winner = (min if experiment.better == "lower" else max)(means, key=lambda m: means[m])
        for method, group in mine.items():
            if group:
                told = paper.get((*cell, method))
                texts = [_spread(group, c.score, bold=c.headline and method == winner) for c in experiment.columns]
                number = "" if told is None else _pair(told["mean"], told["std"])
                body.append([*map(str, cell), method, str(len(group)), *texts, number])
    return Table(f"{experiment.title} (protocol: {protocol})", header, body, experiment.notes(rows, protocol))


def _spread(group: Sequence[Row], score: str, bold: bool) -> str:
    values: list[Any] = [row[score] for row in group if row.get(score) is not None]
    if not values:
        return ""
    text = _pair(float(np.mean(values)), float(np.std(values)))
    return f"**{text}**" if bold else text


def _pair(mean: float, std: float) -> str:
    return f"{mean:.3g} ± {std:.2g}"
