"""The command line on large files, each command in its own process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import tangentbundle as tb
from harness.records import Row
from harness.timing import MissingBaseline, baseline
from tangentbundle.earth.sources import wind_folder
from tangentbundle.errors import InvalidInputError

# A large table.

POINTS = 1_000_000
CLOUDS = {"sphere": tb.manifolds.Sphere(2), "torus": tb.manifolds.Torus(1.0, 0.4)}
COMMANDS = {"filter": ("--heat", "0.1"), "denoise": ()}
JOBS = (("filter", "sphere"), ("filter", "torus"), ("denoise", "sphere"))
"""Those of less memory first: the system tells the peak of all children so far."""

ASKED = {"filter": {"asked_s": 120, "asked_gb": 6}}


def write_cloud(manifold: tb.manifolds.Manifold, path: Path) -> None:
    """Points and noisy tangent vectors, in six columns."""
    rng = np.random.default_rng(0)
    points = manifold.sample(POINTS, seed=3)
    waves = np.stack([np.sin(3 * points[:, 0]), np.cos(2 * points[:, 1])], axis=1)
    vectors = np.einsum(
        "nij,nj->ni", manifold.frames(points), waves + 0.2 * rng.standard_normal(waves.shape)
    )
    np.savetxt(
        path, np.hstack([points, vectors]), "%.9g", ",", header="x,y,z,vx,vy,vz", comments=""
    )


def measure(command: str, source: Path, target: Path) -> Row:
    arguments = [
        sys.executable,
        "-m",
        "tangentbundle",
        command,
        source,
        *COMMANDS[command],
        "-o",
        target,
        "--quiet",
    ]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([str(part) for part in arguments], check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "wall_s": wall,
        "processor_s": processor,
        "peak_gb_so_far": after.ru_maxrss * 1024 / 1e9,
    }


def tool() -> list[Row]:
    """A CSV of a million rows through the command line: seconds and peak memory."""
    rows = []
    with TemporaryDirectory() as folder:
        for command, name in JOBS:
            source = Path(folder) / f"{name}.csv"
            if not source.exists():
                write_cloud(CLOUDS[name], source)
            row = measure(command, source, Path(folder) / "out.csv")
            rows.append({"cloud": name, "command": command, **row, **ASKED.get(command, {})})
    return rows


# A long series.

CHUNK = 250
WORKERS = 2
SCALE = "1000 km"


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
    """The command line at work."""
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


def finished_blocks(target: Path) -> int:
    """The number of blocks that an unfinished run has written."""
    return len(list(target.with_name(f".{target.name}.work").glob("complete/*")))


def series(times: int = 10_000) -> list[Row]:
    """A Zarr store of 10 000 winds, smoothed to another by the command line on 2 workers; killed
    and started again.

    The fields are the analyses in the folder ``TANGENTBUNDLE_WIND``, one after the other again and
    again, with a little noise so that they do not compress better than others.
    """
    rows = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        for count in (times // 4, times):
            rows.append(smooth_whole(folder, count))
        rows.append(smooth_in_two_runs(folder, times, rows[-1]["input GB"]))
    return rows


def smooth_whole(folder: Path, times: int) -> Row:
    """Write a series, and smooth it in one run."""
    source = folder / f"wind{times}.zarr"
    size = write_series(source, times)
    start = time.perf_counter()
    memory = wait(start_tool(source, folder / f"smooth{times}.zarr"))
    seconds = time.perf_counter() - start
    return {
        "run": "whole",
        "times": times,
        "input GB": size,
        "seconds": seconds,
        "fields a second": times / seconds,
        "peak GB": memory,
    }


def smooth_in_two_runs(folder: Path, times: int, size: float) -> Row:
    """Kill the tool after ten blocks, start it again, and compare with the result of one run."""
    source = folder / f"wind{times}.zarr"
    target = folder / "resumed.zarr"
    process = start_tool(source, target)
    while process.poll() is None and finished_blocks(target) < 10:
        time.sleep(0.2)
    process.kill()
    process.wait()
    done = finished_blocks(target)
    start = time.perf_counter()
    memory = wait(start_tool(source, target))
    seconds = time.perf_counter() - start
    xr = baseline("xarray")
    same = xr.open_zarr(target).equals(xr.open_zarr(folder / f"smooth{times}.zarr"))
    return {
        "run": f"killed after {done} blocks, then resumed",
        "times": times,
        "input GB": size,
        "seconds": seconds,
        "peak GB": memory,
        "same result": bool(same),
    }
