"""The pictures of a report, from what a command left in its summary."""

from __future__ import annotations

from ..io import Summary
from . import page


def pictures(summary: Summary) -> str:
    """All that can be drawn."""
    return _table(summary)


def _table(summary: Summary) -> str:
    if summary.table is None:
        return ""
    drawn = [page.picture(file) for file in summary.files if file.suffix == ".png" and file.exists()]
    notes = "".join(page.note(part) for part in summary.table.notes.split("\n\n"))
    return page.section("The table", page.grid(summary.table.header, summary.table.body), notes) + page.section(
        "Figures", *drawn
    )
