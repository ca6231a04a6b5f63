"""Fuzzing of every file reader: a sound field or a named error, nothing unpickled, started or
connected to."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .reader import mutate

INPUTS = {
    **{"CSV": 25_000, "NPZ": 20_000, "PLY": 10_000, "JSON lines": 20_000, "model": 6_000},
    **{"VTK": 2_000, "VTU": 2_000, "OBJ": 3_000, "STL": 3_000, "Parquet": 4_000, "NetCDF": 1_000},
}

MIN_SHARE_OF_PROCESSES = 0.05
"""Share of the inputs from which each reader is fuzzed in a process of its own."""


def in_own_process(name: str, inputs: int) -> dict[str, Any]:
    """The tally of a process that fuzzes one reader; if it dies, that is the failure."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "stress.reader", name, str(inputs), str(report)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        row = (
            json.loads(report.read_text())
            if report.exists()
            else {"what": name, "inputs": 0, "failures": 0}
        )
        failed = row.pop("failed", [])
        if failed or done.returncode:
            row["failures"] = max(1, row["failures"])
            print(
                f"{name}: process ended with {done.returncode}; "
                f"{failed[-1:] or done.stderr[-1500:]}",
                flush=True,
            )
        return row


def run(share: float = 1.0) -> list[dict[str, Any]]:
    """Small shares are mutations in this process: starting one for each reader would take most of
    the time."""
    if share < MIN_SHARE_OF_PROCESSES:
        return [
            mutate(name, max(20, round(count * share)), seed=1).row()
            for name, count in INPUTS.items()
        ]
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(in_own_process, name, max(20, round(count * share)))
            for name, count in INPUTS.items()
        ]
        return [job.result() for job in jobs]
