"""The page of benchmarks: every file of ``benchmarks/results`` as a table."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
LONG = 24
"""Tables with more rows are folded."""


def number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(rows: list[dict[str, Any]]) -> list[str]:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    head = [[key.replace("_", " ") for key in keys], ["---"] * len(keys)]
    cells = [[number(row.get(key, "")) for key in keys] for row in rows]
    return [f"| {' | '.join(line)} |" for line in [*head, *cells]]


def title(name: str) -> str:
    """The first line of the benchmark's module; a module may have several results,
    ``<module>_<part>``."""
    for module in (name, name.split("_")[0]):
        source = ROOT / "benchmarks" / f"{module}.py"
        if source.exists():
            return (ast.get_docstring(ast.parse(source.read_text())) or name).splitlines()[0]
    return name


def section(path: Path) -> list[str]:
    result = json.loads(path.read_text())
    name, rows = result["name"], result["rows"]
    machine = ", ".join(
        f"{key.replace('_', ' ')} {number(value)}" for key, value in result["machine"].items()
    )
    versions = ", ".join(f"{key} {value}" for key, value in result["versions"].items())
    where = "; ".join(filter(None, [result.get("date"), machine, versions]))
    lines = [f"## {name.replace('_', ' ')}", "", title(name), "", f"<small>{where}</small>", ""]
    if len(rows) <= LONG:
        return [*lines, *table(rows), ""]
    return [
        *lines,
        f'??? note "{len(rows)} rows"',
        "",
        *(f"    {line}" for line in table(rows)),
        "",
    ]


def content() -> str:
    lines = [
        "# Benchmarks",
        "",
        "Made from the files in `benchmarks/results`, which `make bench` (or `python -m "
        "benchmarks NAME`) writes. Times are the least of several, with the methods taking turns; "
        "`faster` is a ratio of such times, and `asked` the ratio that was aimed at. Some rows "
        "lose: they stay. Libraries to compare with come with `pip install -e '.[bench]'`.",
        "",
    ]
    for path in sorted((ROOT / "benchmarks/results").glob("*.json")):
        lines += section(path)
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "benchmarks.md", content=content()))
    return files
