"""Write the tables of finished rows into the pages that show them:
``python -m experiments.published.pages``."""

from __future__ import annotations

import re
from pathlib import Path

from tangentbundle.files import write_atomically

from . import BENCHMARKS, benchmark
from .base import FOLDER, stored_rows, table_of

PAGES = (FOLDER / "README.md", FOLDER.parents[1] / "docs" / "published.md")
"""Pages with a pair of marks for each benchmark, between which its table stands."""


def with_tables(text: str) -> str:
    """The text of a page with the tables of all benchmarks between their marks."""
    for name in BENCHMARKS:
        chosen = benchmark(name)
        rows = stored_rows(chosen)
        table = "Not run yet.\n"
        if rows:
            table = table_of(chosen, rows).markdown()
        start = f"<!-- table: {name} -->\n"
        end = "<!-- end -->"
        pattern = re.escape(start) + ".*?" + re.escape(end)
        before, after = re.split(pattern, text, flags=re.DOTALL)
        text = before + start + table + end + after
    return text


def write_pages(pages: tuple[Path, ...] = PAGES) -> None:
    """Write the tables into the pages."""
    for page in pages:
        write_atomically(page, with_tables(page.read_text("utf-8")).encode())


if __name__ == "__main__":
    write_pages()
