"""A CSV of a million rows through the command line, each command in its own process: seconds and
peak memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import tangentbundle as tb
from harness.records import Row

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


def run() -> list[Row]:
    rows = []
    with TemporaryDirectory() as folder:
        for command, name in JOBS:
            source = Path(folder) / f"{name}.csv"
            if not source.exists():
                write_cloud(CLOUDS[name], source)
            row = measure(command, source, Path(folder) / "out.csv")
            rows.append({"cloud": name, "command": command, **row, **ASKED.get(command, {})})
    return rows
