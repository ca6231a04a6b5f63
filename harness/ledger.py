"""Results as JSON lines, one for each run, that survive an interruption at any moment.

The first line is a header with the settings of all runs. Every line ends with the checksum of the
text before it. A task gives several lines; it counts as finished when all of them are there.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tangentbundle.errors import DamagedFileError, InvalidInputError
from tangentbundle.files import write_atomically

Row = dict[str, Any]
"""One run of one method: where it belongs, its scores, and seconds. JSON types only."""

Task = dict[str, Any]
"""The settings of a task as JSON types; its rows follow from them and the seed alone."""

SEAL = ', "crc32": "'
"""What stands between the text of a line and its checksum."""


def key_of(task: Task) -> str:
    """The name of a task.

    >>> key_of({"n": 100, "sampling": 3})
    'n=100 sampling=3'
    """
    return " ".join(f"{key}={value}" for key, value in task.items())


class Ledger:
    """A file of results that grows by the rows of one task at a time.

    With ``resume`` the rows of finished tasks are kept; otherwise the file is written anew.
    """

    def __init__(self, path: Path, header: Row, resume: bool) -> None:
        self.path = path
        self.rows: list[Row] = []
        if resume and path.exists():
            self.rows = read_results(path, header)
        lines = [_sealed({"header": header})]
        lines += [_sealed(row) for row in self.rows]
        write_atomically(path, ("\n".join(lines) + "\n").encode())
        self.done = {row["task"] for row in self.rows}

    def append(self, task: Task, rows: Sequence[Row]) -> None:
        """Add the rows of a finished task."""
        key = key_of(task)
        marked = [{"task": key, "of": len(rows), **row} for row in rows]
        with self.path.open("a") as file:
            file.write("".join(_sealed(row) + "\n" for row in marked))
            file.flush()
            os.fsync(file.fileno())
        self.rows.extend(marked)
        self.done.add(key)


def read_results(path: Path, header: Row) -> list[Row]:
    """The rows of all finished tasks in a file (``.gz``: compressed) whose first line must be that
    header."""
    lines = _complete_lines(path)
    stored_header = None
    if lines:
        stored_header = _unsealed(lines[0]).get("header")
    if stored_header is None:
        raise DamagedFileError(
            f"{path} is no file of results. Choose another folder, or move it away."
        )
    if stored_header != header:
        raise InvalidInputError(
            f"{path} holds results of other settings ({stored_header}), wanted {header}. Choose "
            "another folder, or start anew with --no-resume."
        )
    rows = [_unsealed(line) for line in lines[1:]]
    for number, row in enumerate(rows, start=2):
        if not {"task", "of"} <= row.keys():
            raise DamagedFileError(
                f"line {number} of {path} is damaged: its checksum does not fit. Restore the file "
                "from a copy, or delete that line: its task then runs again."
            )
    counts = Counter(row["task"] for row in rows)
    return [row for row in rows if counts[row["task"]] == row["of"]]


def _complete_lines(path: Path) -> list[str]:
    """The lines of a file, without what follows the last line break: it was torn off."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    lines = content.decode(errors="replace").split("\n")
    return lines[:-1]


def _sealed(row: Row) -> str:
    """A row as JSON whose last entry is the checksum of the text before it."""
    text = json.dumps(row)[:-1]
    checksum = zlib.crc32(text.encode())
    return f'{text}{SEAL}{checksum:08x}"}}'


def _unsealed(line: str) -> Row:
    """The row of a line, empty if the line was changed."""
    text = line.rpartition(SEAL)[0]
    try:
        row = json.loads(text + "}")
    except ValueError:
        return {}
    if not isinstance(row, dict) or line != _sealed(row):
        return {}
    return row
