"""Results of benchmarks as JSON files, with the machine, the versions and the date."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

Row = dict[str, Any]
"""One measurement."""

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
PACKAGES = ("numpy", "scipy", "torch", "numba")


def save(name: str, rows: list[Row]) -> None:
    """Write rows with the machine, versions and date to ``benchmarks/results/<name>.json``."""
    RESULTS.mkdir(exist_ok=True)
    content = {
        "name": name,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "rows": rows,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def load(name: str) -> list[Row]:
    """The rows of a saved result."""
    return json.loads((RESULTS / f"{name}.json").read_text())["rows"]


def machine() -> Row:
    """Processor, cores and memory; the GPU, where torch is used and sees one."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    row = {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.system(),
    }
    torch = sys.modules.get("torch")  # loading it first would change how its threads wait
    if torch is not None and torch.cuda.is_available():
        row["gpu"] = torch.cuda.get_device_name()
    return row


def versions() -> Row:
    """Of Python and of the packages that decide about speed."""
    numbers = {name: metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **numbers}


def _processor() -> str:
    """The name of the processor; Linux has the best one in a file."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
