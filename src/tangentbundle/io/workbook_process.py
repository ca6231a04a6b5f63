"""The sheets of a workbook as JSON on standard output: ``python workbook_process.py FILE LIMIT``.

A process of its own, since a damaged workbook can make its reader ask for any amount of memory, at
most ``LIMIT`` bytes where the system has limits.
"""

from __future__ import annotations

import contextlib
import json
import sys
from datetime import date, datetime, time, timedelta
from typing import Any


def encoded(cell: Any) -> Any:
    """A cell that is no text and no number, for JSON."""
    if isinstance(cell, datetime):
        return {"datetime": cell.isoformat()}
    if isinstance(cell, date):
        return {"datetime": datetime.combine(cell, time()).isoformat()}
    if isinstance(cell, timedelta):
        return {"seconds": cell.total_seconds()}
    return str(cell)


def decoded(cell: dict[str, Any]) -> Any:
    """A cell from JSON; other objects as they are."""
    if cell.keys() == {"datetime"}:
        return datetime.fromisoformat(cell["datetime"])
    if cell.keys() == {"seconds"}:
        return timedelta(seconds=cell["seconds"])
    return cell


def main() -> None:
    """Print the names of the sheets that are not empty, and their rows."""
    from python_calamine import CalamineError, CalamineWorkbook

    with contextlib.suppress(ImportError, ValueError, OSError):  # no limits on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
    sheets = []
    try:
        workbook = CalamineWorkbook.from_path(sys.argv[1])
        for name in workbook.sheet_names:
            rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=True)
            if rows:
                sheets.append([name, rows])
    except (CalamineError, OSError, ValueError) as error:
        sys.exit(str(error))
    json.dump(sheets, sys.stdout, default=encoded)


if __name__ == "__main__":
    main()
