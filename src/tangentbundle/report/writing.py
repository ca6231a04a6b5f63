"""From a summary to a file."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from ..errors import OutputError
from ..extras import extra
from ..files import check_place, replacing, starts_with
from ..io import Summary
from . import page
from .sections import pictures

READ = ("read", "at")
"""Labels of rows that say what was read; the others say what was found."""


def check_report(path: Path) -> None:
    """Refuse, before any work, a report that cannot be written."""
    extra("plotly.graph_objects", "Reports", "plot")
    if path.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"a report is an .html file, not {path.name}. Choose such a name.")
    check_place(path, starts_with(b"<!doctype html"))


def write_report(summary: Summary, path: Path) -> None:
    """Write what a command read, found and made to one HTML file, atomically.

    Everything is inside: open it anywhere, send it to anyone. Nothing is loaded from elsewhere.
    """
    check_report(path)
    content = render(summary)
    with replacing(path, starts_with(b"<!doctype html")) as place:
        place.write_text(content, encoding="utf-8")


def render(summary: Summary) -> str:
    """The report as text."""
    read = [row for row in summary.rows if row[0] in READ]
    found = [row for row in summary.rows if row[0] not in READ]
    source = "" if summary.source is None else summary.source.name
    command = (
        "<div class=command><pre><code id=line>"
        + page.text(summary.line)
        + "</code></pre><button type=button data-copy=line>Copy</button></div>"
    )
    told = page.section("What was read", page.pairs(read), page.items(summary.notes))
    told += page.section("What was found", page.pairs(found))
    body = (
        page.section("Warnings", page.items(summary.warnings), kind="warning")
        + (f"<div class=pair>{told}</div>" if read else told)
        + pictures(summary)
        + (page.section("To repeat it", command) if summary.line else "")
    )
    title = f"tangentbundle {summary.command}" + (f": {source}" if source else "")
    parts = [f"tangentbundle {version('tangentbundle')}, Python {platform.python_version()}, {summary.seconds:.1f} s"]
    return page.page(title, TITLES.get(summary.command, ""), body, *parts)


TITLES = {
    "demo": "A noisy field on a torus denoised, and wind filled in from stations.",
    "inspect": "What this cloud is, and what its field looks like.",
    "denoise": "Noise of unknown level removed.",
    "interpolate": "The field at other places, from where it was observed.",
    "forecast": "The next fields of a series.",
    "filter": "A field passed through a function of the connection Laplacian.",
    "spectrum": "The lowest eigenvalues of minus the Laplacian.",
    "doctor": "What is installed, what is used, and whether it works.",
    "reproduce": "One of the paper's tables, made anew.",
}
