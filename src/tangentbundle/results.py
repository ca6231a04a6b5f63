"""The result of a command: what was done, numbers, tables, notes, and the fields before and after.

Commands produce it; the terminal, JSON and reports show it.
"""

from __future__ import annotations

import contextlib
import json
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import Message, Note, Spelling

if TYPE_CHECKING:  # a result is light: the tool makes one before anything is loaded
    import numpy as np

    from .io import Field

LINE_WIDTH = 100
"""Columns of text on a terminal."""

LABEL_WIDTH = 26
"""Columns of the labels on a terminal."""


@dataclass(frozen=True)
class Table:
    """A table of text: title, column names, rows and notes."""

    title: str
    header: list[str]
    body: list[list[str]]
    notes: str = ""

    def text(self) -> str:
        """Aligned columns, for a terminal."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.body, strict=True)]
        lines = [self.header, ["-" * width for width in widths], *self.body]
        aligned = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([self.title, "", *aligned, "", self.notes]).rstrip()


@dataclass(frozen=True)
class Chart:
    """A chart for the report; ``draw(axes)`` plots it on matplotlib axes and returns them."""

    title: str
    note: str
    draw: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Eigenfields:
    """Eigenvalues ``(k,)`` of minus the Laplacian, and the first few ambient eigenfields
    ``(m, n, D)``."""

    values: np.ndarray
    fields: np.ndarray


@dataclass
class Result:
    """What a command did.

    Attributes:
        command: its name.
        purpose: what the result is, in a sentence.
        summary: what was done, how good it is and what to be careful about, in plain sentences.
        steps: pairs (purpose, command) of what can be done next.
        inputs, rows: pairs (label, text) of what was read, and of what was found.
        data: the same as values, for JSON.
        notes: what was guessed, converted, left out, or chosen.
        warnings: warnings that were given on the way.
        files: the files written.
        before: the field read.
        after: the field computed, at the same times; its ``parts`` are shown as such.
        future: the fields computed for the next times.
        eigenfields: eigenvalues and their fields.
        table: a table of results; ``details`` is one for the report alone.
        charts: charts for the report.
        report: where the command itself wants a report, if nobody asks for one.
        passed: whether what was tested holds.
        line: the command line, if the tool ran it.
        seconds: how long it took.
        spelling: how messages print the arguments that they mention.

    >>> result = Result("filter", "The field after a filter.")
    >>> result.add("filter", "Heat(t=0.1)", time=0.1)
    >>> print(result.text(), result.data)
    filter                    Heat(t=0.1) {'time': 0.1}
    """

    command: str
    purpose: str = ""
    summary: list[str] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    source: Path | None = None
    inputs: list[tuple[str, str]] = field(default_factory=list)
    rows: list[tuple[str, str]] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    warnings: list[Message] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    before: Field | None = None
    after: Field | None = None
    future: Field | None = None
    eigenfields: Eigenfields | None = None
    table: Table | None = None
    details: Table | None = None
    charts: list[Chart] = field(default_factory=list)
    report: Path | None = None
    passed: bool = True
    line: str = ""
    seconds: float = 0.0
    spelling: Spelling = str

    def read(self, label: str, text: str, **data: Any) -> None:
        """Add a row about the input, and its values for JSON."""
        self.inputs.append((label, text))
        self.data |= data

    def add(self, label: str, text: str, **data: Any) -> None:
        """Add a row about what was found, and its values for JSON."""
        self.rows.append((label, text))
        self.data |= data

    def say(self, sentence: str) -> None:
        """Add a plain sentence to the summary, unless it is empty."""
        if sentence:
            self.summary.append(sentence)

    def note(self, text: str) -> None:
        """Add a note."""
        self.notes.append(Note(text))

    @contextlib.contextmanager
    def writing(self, file: Path) -> Iterator[None]:
        """Add the file that is written in this block, and whether it replaced an existing one."""
        existed = file.exists()
        overwritten = self.data.setdefault("overwritten", [])
        yield
        self.files.append(file)
        if existed:
            overwritten.append(str(file))
            self.rows.append(("wrote", f"{file} (overwritten)"))
        else:
            self.rows.append(("wrote", str(file)))

    def note_texts(self) -> list[str]:
        """The notes in words."""
        return [note.text(self.spelling) for note in self.notes]

    def warning_texts(self) -> list[str]:
        """The warnings in words, each once."""
        texts = [warning.text(self.spelling) for warning in self.warnings]
        return list(dict.fromkeys(texts))

    def text(self) -> str:
        """All of it for a terminal, but the warnings."""
        lines = []
        if self.summary:
            lines += [textwrap.fill(" ".join(self.summary), LINE_WIDTH), ""]
        lines += [f"{label:<{LABEL_WIDTH}}{text}" for label, text in self.inputs + self.rows]
        lines += [f"note: {note}" for note in self.note_texts()]
        if self.table is not None:
            lines += ["", self.table.text()]
        if self.steps:
            lines += ["", "What you can do next:"]
            lines += [f"  {purpose:<{LABEL_WIDTH - 2}}{command}" for purpose, command in self.steps]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and text; numbers that are not finite become None."""
        content = {
            "command": self.command,
            "source": self.source,
            "summary": " ".join(self.summary),
            **self.data,
            "notes": self.note_texts(),
            "warnings": self.warning_texts(),
            "files": self.files,
            "seconds": round(self.seconds, 3),
        }
        text = json.dumps(content, default=_plain)
        return json.loads(text, parse_constant=lambda name: None)


def _plain(value: Any) -> Any:
    """Arrays and NumPy's numbers as lists and numbers, all else as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
