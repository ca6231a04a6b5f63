"""Text files as they come: compressed, in any encoding, with comments and titles above the table.

``TextTable`` says how a file is written; ``csv_files`` reads it with Arrow.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from ..errors import DamagedFileError, InvalidInputError
from ..layout import Head, Layout, Numerals, find_head, usual_width

SAMPLE_BYTES = 1 << 18
"""What is looked at to find how a file is written. A line may be longer."""

MAX_LINE = 1 << 24
"""Longest line, in characters: no table has a longer one."""

SAMPLE_LINES = 200
"""Lines that say how a file is written."""

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}
"""Signs between cells, and what they are called; earlier ones win where several fit."""

SEPARATOR_WORDS = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}

COMMENTS = ("#", "%", "//", "!")
"""Signs that lines begin with that are no rows."""

SEPARATOR_LINE = re.compile(r"\ufeff?\"?sep=(.)\"?\s*$", re.IGNORECASE)
"""The line with which Excel says how cells are separated."""

LINE_END = re.compile(r"\r\n|\r|\n")

MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""What files begin with that say their encoding."""

CANDIDATES = ("cp1252", "gb18030", "cp932", "big5", "euc_kr", "cp1250", "cp1251")
"""Encodings of text that is not Unicode: Western Europe, Chinese, Japanese, Korean, Central Europe,
Cyrillic."""

NOT_IN_CP1252 = (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")
"""Bytes that are no letters in Windows-1252."""

ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8",
    "utf-16": "UTF-16",
    "cp1252": "Windows-1252 (Latin-1)",
    "gb18030": "GB 18030",
    "cp932": "Shift JIS",
}
"""What encodings are called."""


@dataclass(frozen=True)
class TextTable:
    """How a text file is written.

    Args:
        head: the names of its columns; ``first_row`` counts lines of the file.
        encoding, separator, numerals: as in ``Layout``.
        comment: the sign of comment lines; empty if there are none.
        comments: how many lines of the beginning are comments.
        sample: the first rows of cells.
    """

    head: Head
    encoding: str
    separator: str
    numerals: Numerals
    comment: str
    comments: int
    sample: list[list[str]]

    @property
    def remarks(self) -> list[str]:
        """How the file differs from the usual: UTF-8, commas, decimal points."""
        remarks = []
        if self.encoding not in ("utf-8", "utf-8-sig"):
            remarks.append(f"encoding {ENCODINGS.get(self.encoding, self.encoding)}")
        if self.separator != ",":
            remarks.append(f"separated by {SEPARATORS.get(self.separator, repr(self.separator))}")
        if self.numerals.decimal == ",":
            remarks.append("decimal commas")
        if self.numerals.thousands:
            remarks.append(f"digits grouped by {name_of_sign(self.numerals.thousands)}")
        if self.comments:
            remarks.append(f"comment lines with {self.comment}")
        if self.head.skipped:
            remarks.append(f"{self.head.skipped} lines above the names skipped")
        if self.head.has_units:
            remarks.append("units in the row below the names")
        return remarks


def name_of_sign(sign: str) -> str:
    """What a sign between digits is called."""
    return {",": "commas", ".": "points"}.get(sign, "spaces" if sign.isspace() else sign)


def open_bytes(path: Path) -> IO[bytes]:
    """A file to read, decompressed if its suffix is .gz or .zip."""
    try:
        if path.suffix.lower() == ".gz":
            return cast(IO[bytes], gzip.open(path))
        if path.suffix.lower() == ".zip":
            return _open_member(path)
        return path.open("rb")
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise DamagedFileError(f"{path.name} is not a readable archive ({error}).") from error


def _open_member(path: Path) -> IO[bytes]:
    """The only file in an archive."""
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    names = [name for name in names if not name.startswith("__MACOSX")]
    if len(names) != 1:
        raise InvalidInputError(
            f"{path.name} holds {len(names)} files ({', '.join(names[:8])}), expected one table. "
            "Unpack it, and give one of them."
        )
    return archive.open(names[0])


def read_start(path: Path) -> bytes:
    """The first bytes of a file, up to the end of a line."""
    try:
        with open_bytes(path) as file:
            start = file.read(SAMPLE_BYTES)
            if len(start) == SAMPLE_BYTES:
                start += file.readline(MAX_LINE)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if path.suffix.lower() in (".gz", ".zip"):
            raise DamagedFileError(f"{path.name} is not a readable archive ({error}).") from error
        raise
    return start


def examine(path: Path, layout: Layout) -> TextTable:
    """How a text file is written; what the layout says is taken for granted."""
    start = read_start(path)
    encoding = layout.encoding or find_encoding(start)
    text = _decoded(start, encoding, path)
    if "\0" in text:
        raise DamagedFileError(
            f"{path.name} is not text, whatever its name says. Give it the suffix of its format."
        )
    return _examined(text, encoding, layout)


def _decoded(start: bytes, encoding: str, path: Path) -> str:
    """The text of the first bytes; the last character may be cut."""
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        return decoder.decode(start)
    except LookupError as error:
        raise InvalidInputError(
            argument="encoding", expected="a name such as utf-8 or cp1252", received=repr(encoding)
        ) from error
    except UnicodeDecodeError as error:
        raise DamagedFileError(
            f"{path.name} is not text in the encoding {encoding} ({error})."
        ) from error


def find_encoding(start: bytes) -> str:
    """The encoding of text: by its first bytes, UTF-8 if it can be, otherwise the likeliest of
    those in use."""
    for mark, encoding in MARKS.items():
        if start.startswith(mark):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return _likeliest_encoding(start)
    return "utf-8"


def _likeliest_encoding(start: bytes) -> str:
    """The encoding in which text that is not Unicode reads best."""
    from charset_normalizer import from_bytes

    lines = [line for line in start.splitlines() if not line.isascii()]
    matches = from_bytes(b"\n".join(lines[:SAMPLE_LINES]), cp_isolation=[*CANDIDATES])
    best = matches.best()
    western = "cp1252"
    if any(sign in start for sign in NOT_IN_CP1252):
        western = "latin-1"
    if best is None:
        return western
    if start.decode(best.encoding, "replace") == start.decode(western, "replace"):
        return western
    return best.encoding


def _examined(text: str, encoding: str, layout: Layout) -> TextTable:
    """How text is written."""
    lines = LINE_END.split(text.removeprefix("\ufeff"), SAMPLE_LINES)
    lines = lines[:SAMPLE_LINES]
    separator = SEPARATOR_WORDS.get(layout.separator, layout.separator)
    if lines and SEPARATOR_LINE.match(lines[0]):
        separator = separator or SEPARATOR_LINE.match(lines[0])[1]  # type: ignore[index]
        lines[0] = ""
    comment = layout.comment or _comment_sign(lines)
    rows_of_text = [_without_comment(line, comment) for line in lines]
    separator = separator or _find_separator([line for line in rows_of_text if line.strip()])
    rows = [split_line(line, separator) for line in rows_of_text]
    cells = [cell for row in rows for cell in row]
    numerals = Numerals.of(cells, layout)
    head = find_head(rows, numerals)
    commented = _commented_names(lines, rows, separator, comment, numerals)
    if commented is not None and head is None:
        head = commented
    if head is None:
        head = _first_line_as_names(rows)
    comments = sum(1 for line in lines if comment and line.lstrip().startswith(comment))
    rows = [row for row in rows[head.first_row :] if any(cell.strip() for cell in row)]
    return TextTable(head, encoding, separator, numerals, comment, comments, rows)


def _first_line_as_names(rows: Sequence[list[str]]) -> Head:
    """The first row that is not blank."""
    for number, row in enumerate(rows):
        if any(cell.strip() for cell in row):
            return Head([cell.strip() for cell in row], number + 1)
    return Head([], len(rows))


def _commented_names(
    lines: Sequence[str],
    rows: Sequence[list[str]],
    separator: str,
    comment: str,
    numerals: Numerals,
) -> Head | None:
    """The names of a table in the last comment line above it; None if there are none."""
    width = usual_width(rows)
    number = next((k for k, row in enumerate(rows) if any(cell.strip() for cell in row)), 0)
    if not comment or number == 0 or not lines[number - 1].lstrip().startswith(comment):
        return None
    line = lines[number - 1].lstrip().removeprefix(comment)
    names = [cell.strip() for cell in split_line(line.strip(), separator)]
    are_words = all(numerals.as_float(name) is None for name in names)
    if len(names) != width or not are_words:
        return None
    if not names[0]:
        names[0] = comment
    return Head(names, number)


def _comment_sign(lines: Sequence[str]) -> str:
    """The sign of comment lines; empty if there are none."""
    for sign in COMMENTS:
        if any(line.lstrip().startswith(sign) for line in lines):
            return sign
    return ""


def _without_comment(line: str, comment: str) -> str:
    """A line, or nothing if it is a comment."""
    if comment and line.lstrip().startswith(comment):
        return ""
    return line


def split_line(line: str, separator: str) -> list[str]:
    """The cells of a line."""
    if separator == " ":
        return line.split()
    if not line.strip():
        return []
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return line.split(separator)


def _find_separator(lines: Sequence[str]) -> str:
    """The sign that cuts most lines into equally many cells, at least two."""
    fits = {}
    for sign in SEPARATORS:
        widths = Counter(len(split_line(line, sign)) for line in lines)
        del widths[1]
        del widths[0]
        fits[sign] = max(widths.values(), default=0)
    most = max(fits.values(), default=0)
    if most == 0:
        return ","
    for sign, count in fits.items():
        if sign != " " and count >= 0.9 * most:
            return sign
    return " "
