"""Results of a command, for the screen, as JSON and for reports."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .field import Field


@dataclass(frozen=True)
class Table:
    """A table of text: title, column names, rows and notes."""

    title: str
    header: list[str]
    body: list[list[str]]
    notes: str = ""

    def markdown(self) -> str:
        lines = [
            f"## {self.title}",
            "",
            "| " + " | ".join(self.header) + " |",
            "|" + "---|" * len(self.header),
        ]
        lines += ["| " + " | ".join(row) + " |" for row in self.body]
        return "\n".join([*lines, "", self.notes]).rstrip() + "\n"

    def text(self) -> str:
        """Aligned columns, for a terminal."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.body, strict=True)]
        lines = [self.header, ["-" * width for width in widths], *self.body]
        aligned = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([self.title, "", *aligned, "", self.notes]).rstrip()

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text).writerows([self.header, *self.body])
        return text.getvalue()


def short_name(model: str, width: int = 60) -> str:
    """Shorten the name of a model for a table: the covariance of a Gaussian process, others without
    arguments.

    >>> (
    ...     short_name("GaussianProcess(Ambient(inf))"),
    ...     short_name("SpectralFilter(neighbors=None, probes=8)"),
    ... )
    ('Ambient(inf)', 'SpectralFilter')
    """
    from ..estimators import helmholtz_covariance  # scikit-learn takes a while

    name = re.sub(r"GaussianProcess\((.*)\)", r"\1", model).replace(
        str(helmholtz_covariance()), "helmholtz"
    )
    name = re.sub(r"^(SpectralFilter|NeighborMean|Identity)\(.*\)", r"\1", name)
    return name if len(name) <= width else name[: width - 3] + "..."


@dataclass
class Summary:
    """The result of a command. ``rows`` are (label, text) for the screen, ``data`` the values for
    JSON.

    ``line`` is the command line, ``before`` and ``after`` are the fields read and computed.
    ``modes (k, n, D)`` are the first few ambient eigenfields of ``eigenvalues``. ``table`` is a
    table of results, and ``files`` lists the files written.
    """

    command: str
    line: str = ""
    source: Path | None = None
    rows: list[tuple[str, str]] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    before: Field | None = None
    after: Field | None = None
    eigenvalues: np.ndarray | None = None
    eigenvalue_errors: np.ndarray | None = None
    modes: np.ndarray | None = None
    table: Table | None = None
    seconds: float = 0.0

    def add(self, label: str, text: str, **data: Any) -> None:
        """Add a row of text, and its values for JSON."""
        self.rows.append((label, text))
        self.data |= data

    @contextlib.contextmanager
    def writing(self, file: Path) -> Iterator[None]:
        """Add the file that is written in this block, and note whether it replaced an existing
        one."""
        existed = file.exists()
        yield
        self.files.append(file)
        self.rows.append(("wrote", f"{file} (overwritten)" if existed else str(file)))
        self.data.setdefault("overwritten", []).extend([str(file)] * existed)

    def __str__(self) -> str:
        lines = [f"{label:<26}{text}" for label, text in self.rows]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and text; numbers that are not finite become None."""
        content = {"command": self.command, "source": self.source} | self.data
        content |= {name: getattr(self, name) for name in ("notes", "warnings", "files")}
        content["seconds"] = round(self.seconds, 3)
        text = json.dumps(
            content,
            default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value),
        )
        return json.loads(text, parse_constant=lambda name: None)
