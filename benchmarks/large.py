"""Time and memory of many points: in memory up to a million, beyond that on disk."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import numpy as np
import psutil
import torch

import tangentbundle as tb
from harness.records import Row
from harness.tables import print_rows
from harness.timing import in_new_process, seconds
from tangentbundle.operators.expansion import Band, expand

# In memory.

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
SCALING_NEIGHBORS = 32
SCALING_CHANNELS = 16


def cost_of_size(n: int) -> Row:
    """One size: nanoseconds per directed edge of the build and the product, and the peak of the
    process."""
    points = torch.from_numpy(tb.manifolds.Sphere(2).sample(n, seed=0)).float()

    def build():
        return tb.TangentBundle.from_points(points, neighbors=SCALING_NEIGHBORS).laplacian()

    repeats = max(3, min(20, 1_000_000 // n))
    build_time = seconds(build, repeats)
    laplacian = build()
    x = torch.randn(n, 2, SCALING_CHANNELS, generator=torch.Generator().manual_seed(0))
    product_time = seconds(lambda: laplacian @ x, 5 * repeats)
    edges = laplacian.num_edges
    return {
        "n": n,
        "edges": edges,
        "build_s": build_time,
        "build_ns_per_edge": 1e9 * build_time / edges,
        "product_ms": 1e3 * product_time,
        "product_ns_per_edge": 1e9 * product_time / edges,
        "peak_gb": peak_bytes() / 1e9,
    }


def peak_bytes() -> float:
    """Most memory this process ever held. On Linux ``ru_maxrss`` would count the parent's too."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024.0 * int(line.split()[1])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1.0 if sys.platform == "darwin" else 1024.0
    )


def scaling() -> list[Row]:
    """Cost per edge and peak memory from ten thousand to a million points of S^2, each size in its
    own process."""
    rows = [in_new_process(cost_of_size, n) for n in SIZES]
    for row in rows:
        for what in ("build", "product"):
            row[f"{what}_growth"] = row[f"{what}_ns_per_edge"] / rows[0][f"{what}_ns_per_edge"]
    return rows


# On disk.

POINTS = 10_000_000
NEIGHBORS = 24
CHANNELS = 4
TIME = 1e-3
"""Of the heat flow: 200 products with the operator at this size."""

CHUNK = 500_000


class Peak(threading.Thread):
    """Watches the memory of this process: all of it, and without the pages of mapped files, which
    the system may drop at any time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.process = psutil.Process()
        self.total = 0
        self.own = 0
        self.running = True

    def run(self) -> None:
        while self.running:
            memory = self.process.memory_info()
            self.total = max(self.total, memory.rss)
            self.own = max(self.own, memory.rss - memory.shared)
            time.sleep(0.1)


@contextmanager
def phase(rows: list[Row], name: str, n: int) -> Iterator[None]:
    """Measure what is done inside, and keep it as a row."""
    watch, start = Peak(), time.perf_counter()
    cpu = sum(watch.process.cpu_times()[:2])
    watch.start()
    yield
    watch.running = False
    seconds, cpu = time.perf_counter() - start, sum(watch.process.cpu_times()[:2]) - cpu
    watch.join()
    rows.append(
        {
            "points": n,
            "phase": name,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu, 1),
            "peak_gb": round(watch.total / 1e9, 2),
            "peak_own_gb": round(watch.own / 1e9, 2),
        }
    )
    print_rows(rows[-1:])


def sample(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of the sphere in random order, and four eigenfields as channels."""
    sphere = tb.manifolds.Sphere(2)
    points, vectors = np.empty((n, 3), np.float32), np.empty((n, 3, CHANNELS), np.float32)
    for number, start in enumerate(range(0, n, CHUNK)):
        here = sphere.sample(min(CHUNK, n - start), seed=number)
        points[start : start + CHUNK] = here
        fields = [sphere.gradient_field(here, degree) for degree in (1, 2, 3)]
        vectors[start : start + CHUNK] = np.stack([*fields, np.cross(here, fields[2])], axis=2)
    return points, vectors


def eigenvalues(before: np.ndarray, after: np.ndarray) -> list[float]:
    """How fast each channel decayed: its eigenvalue, 1, 5, 11 and 11 on the smooth sphere."""
    products = [np.einsum("nic,nic->c", before, other, dtype=float) for other in (before, after)]
    return (-np.log(products[1] / products[0]) / TIME).tolist()


def measure(n: int, folder: str) -> list[Row]:
    rows: list[Row] = []
    with phase(rows, "sample", n):
        points, vectors = sample(n)
    with phase(rows, "build", n):
        bundle = tb.distributed.DistributedBundle.from_points(
            points, folder, dim=2, neighbors=NEIGHBORS, partition=CHUNK
        )
    print(bundle, flush=True)
    with phase(rows, f"Heat({TIME:g})", n):
        smooth = bundle.to_ambient(bundle.filter(tb.Heat(TIME), bundle.to_coordinates(vectors)))
    found = eigenvalues(vectors, smooth)
    disk = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    rows.append(
        {
            "points": n,
            "phase": "all after the sample",
            "seconds": round(sum(row["seconds"] for row in rows[1:]), 1),
            "cpu_seconds": round(sum(row["cpu_seconds"] for row in rows[1:]), 1),
            "peak_gb": max(row["peak_gb"] for row in rows),
            "peak_own_gb": max(row["peak_own_gb"] for row in rows),
            "edges": bundle.edges,
            "partitions": bundle.num_parts,
            "terms": expand([tb.Heat(TIME)], Band(bundle.generator), 1e-6).shape[1],
            "disk_gb": round(disk / 1e9, 2),
            "eigenvalues": [round(v, 3) for v in found],
            "load": round(os.getloadavg()[1], 1),
            "dask": metadata.version("dask"),
        }
    )
    return rows


def large(n: int = POINTS) -> list[Row]:
    """A cloud whose operator is on disk: 10 000 000 points of S^2, 24 neighbours, 4 channels, from
    points to fields."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("tangentbundle.distributed").setLevel(logging.INFO)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        return measure(n, folder)
