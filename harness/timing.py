"""What all benchmarks share: timing in turns, the machine and versions, tables, and result
files."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "scipy", "torch", "numba")

Row = dict[str, Any]


class MissingBaseline(ImportError):
    """A third-party library to compare with is not installed."""


def baseline(name: str) -> ModuleType:
    """Import an optional library to compare with."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingBaseline(
            f"{name} is not installed; it comes with pip install 'tangentbundle[bench]'"
        ) from error


CALLS, LEAST, TURN = 16, 4, 0.05
"""Calls of a function in a row: at most, at least, and the seconds after which there are no more of
them."""

REST = 0.25
"""Seconds before a turn: OpenMP threads go on spinning for up to a fifth of a second after their
work is done."""


def best_in_turns(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least seconds of each function; they take turns, so that a busy machine hinders all alike.

    A turn is a few calls in a row, since the first ones find caches full of another function's
    data, and begins when all threads of the one before have come to rest.
    """
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        function()  # compile and fill caches
    for _ in range(repeats):
        for name, function in functions.items():
            time.sleep(REST)
            turn = time.perf_counter()
            for call in range(CALLS):
                start = time.perf_counter()
                function()
                best[name] = min(best[name], time.perf_counter() - start)
                if call + 1 >= LEAST and time.perf_counter() > turn + TURN:
                    break
    return best


def seconds(function: Callable[[], Any], repeats: int = 3) -> float:
    """Least seconds of one function, after a call that does not count."""
    return best_in_turns({"it": function}, repeats)["it"]


def in_new_process(module: str, *arguments: Any, **environment: str) -> Any:
    """Run ``python -m module arguments`` and return the JSON that its last line of output is."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"python -m {module} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes compute while the block runs."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


def machine() -> Row:
    """Processor, cores and memory."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": memory,
        "system": platform.system(),
    }


def versions() -> Row:
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
    }


def save(name: str, rows: list[Row]) -> None:
    """Write rows with the machine, versions and date to ``results/<name>.json``."""
    RESULTS.mkdir(exist_ok=True)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    content = {
        "name": name,
        "date": today,
        "machine": machine(),
        "versions": versions(),
        "rows": rows,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def load(name: str) -> list[Row]:
    """The rows of a saved result."""
    return json.loads((RESULTS / f"{name}.json").read_text())["rows"]


def print_table(rows: list[Row]) -> None:
    """Print rows as an aligned table, one column for each key."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    cells = [keys, *[[_text(row.get(key, "")) for key in keys] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print(
            "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        )


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
