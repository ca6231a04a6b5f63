"""A Zarr store of 10 000 winds, smoothed to another by the command line on 2 workers; killed and
started again.

The fields are the analyses in the folder ``TANGENTBUNDLE_WIND``, one after the other again and
again, with a little noise so that they do not compress better than others. ``REGRID_TIMES`` changes
their number.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from harness.records import Row
from harness.timing import MissingBaseline, baseline
from tangentbundle.earth.sources import wind_folder
from tangentbundle.errors import InvalidInputError

CHUNK, WORKERS, SCALE = 250, 2, "1000 km"


def write_series(path: Path, times: int) -> float:
    """A store of so many fields; its size in GB."""
    xr = baseline("xarray")
    try:
        analyses = [wind_folder() / f"gfs_10m_2p5deg_6h_block{block}.nc" for block in "AB"]
    except InvalidInputError as error:
        raise MissingBaseline(str(error)) from error
    known = xr.concat([xr.open_dataset(a).load().astype(np.float32) for a in analyses], "time")
    rng, start = np.random.default_rng(0), np.datetime64("2000-01-01", "ns")
    for first in range(0, times, CHUNK):
        numbers = np.arange(first, min(first + CHUNK, times))
        block = known.isel(time=numbers % known.sizes["time"]).drop_encoding()
        block = block.map(
            lambda a: a + rng.normal(0, 0.1, a.shape).astype(np.float32), keep_attrs=True
        )
        block["time"] = start + numbers * np.timedelta64(6, "h")
        block = block.chunk(time=CHUNK)
        block.to_zarr(
            path,
            zarr_format=2,
            consolidated=True,
            **({"append_dim": "time"} if first else {"mode": "w"}),
        )
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e9


def start_tool(source: Path, target: Path) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "tangentbundle",
        "filter",
        str(source),
        "--scale",
        SCALE,
        "-o",
        str(target),
    ]
    return subprocess.Popen([*command, "--workers", str(WORKERS), "--quiet"])


def wait(process: subprocess.Popen) -> float:
    """The largest resident memory of a process until it ends, in GB."""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"the tool failed with status {status}")
    return usage.ru_maxrss * 1024 / 1e9


def finished(target: Path) -> int:
    return len(list(target.with_name(f".{target.name}.work").glob("complete/*")))


def run() -> list[Row]:
    times, rows = int(os.environ.get("REGRID_TIMES", 10_000)), []
    with TemporaryDirectory() as folder:
        target = Path(folder) / "resumed.zarr"
        for count in (times // 4, times):
            source, out = Path(folder) / f"wind{count}.zarr", Path(folder) / f"smooth{count}.zarr"
            size = write_series(source, count)
            started = time.perf_counter()
            memory = wait(start_tool(source, out))
            seconds = time.perf_counter() - started
            row = {"run": "whole", "times": count, "input GB": size, "seconds": seconds}
            rows.append(row | {"fields a second": count / seconds, "peak GB": memory})
        process = start_tool(source, target)
        while process.poll() is None and finished(target) < 10:
            time.sleep(0.2)
        process.kill()
        process.wait()
        done, started = finished(target), time.perf_counter()
        memory = wait(start_tool(source, target))
        seconds = time.perf_counter() - started
        same = baseline("xarray").open_zarr(target).equals(baseline("xarray").open_zarr(out))
        row = {
            "run": f"killed after {done} blocks, then resumed",
            "times": times,
            "input GB": size,
            "seconds": seconds,
        }
        rows.append(row | {"peak GB": memory, "same result": bool(same)})
    return rows
