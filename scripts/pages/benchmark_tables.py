"""The tables of the page of benchmarks: every file of ``benchmarks/results``, in the order of the
page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PAGE = "benchmarks.md"
ASKED = re.compile(r"<!-- benchmark: (?P<name>\w+) -->")
"""Where a page shows the table of a result."""

MAX_ROWS = 24
"""Tables with more rows are folded."""


def number(value: Any) -> str:
    """A value of a cell: numbers with four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The lines of a table in Markdown, one column for each key."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = [[key.replace("_", " ") for key in keys], ["---"] * len(keys)]
    for row in rows:
        lines.append([number(row.get(key, "")) for key in keys])
    return [f"| {' | '.join(line)} |" for line in lines]


def section(path: Path) -> list[str]:
    """The lines of one result: its name, where it was measured, and its table."""
    result = json.loads(path.read_text())
    rows = result["rows"]
    machine = [
        f"{key.replace('_', ' ')} {number(value)}" for key, value in result["machine"].items()
    ]
    versions = [f"{key} {value}" for key, value in result["versions"].items()]
    conditions = [result.get("date"), ", ".join(machine), ", ".join(versions)]
    place = "; ".join(condition for condition in conditions if condition)
    lines = [f"### {result['name'].replace('_', ' ')}", "", f"<small>{place}</small>", ""]
    if len(rows) <= MAX_ROWS:
        return [*lines, *unsearched(table(rows))]
    folded = [f"    {line}" for line in table(rows)]
    return [*lines, *unsearched([f'??? note "{len(rows)} rows"', "", *folded])]


def unsearched(lines: list[str]) -> list[str]:
    """Lines that the search of the site leaves out: numbers are no words."""
    return ["<div data-search-exclude markdown>", "", *lines, "", "</div>", ""]


def in_order_of(markdown: str) -> list[Path]:
    """The files of results in the order in which the page names them, then the others."""
    named = re.findall(r"`python -m benchmarks (\w+)`", markdown)

    def place(path: Path) -> tuple[int, str]:
        if path.stem in named:
            return named.index(path.stem), path.stem
        return len(named), path.stem

    return sorted(RESULTS.glob("*.json"), key=place)


def insert_table(match: re.Match[str]) -> str:
    """The table of one result, where a page asks for it."""
    rows = json.loads((RESULTS / f"{match['name']}.json").read_text())["rows"]
    return "\n".join(table(rows))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the tables that pages ask for; append all to the page of benchmarks."""
    markdown = ASKED.sub(insert_table, markdown)
    if page.file.src_uri != PAGE:
        return markdown
    lines = [markdown, "", "## Tables", ""]
    for path in in_order_of(markdown):
        lines += section(path)
    return "\n".join(lines)
