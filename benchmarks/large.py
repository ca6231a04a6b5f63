"""A cloud that is worked on from disk: 10 000 000 points of S^2, 24 neighbours, 4 channels, from file to filtered file.

``python -m benchmarks.large 1000000`` measures another number of points, without keeping the result.
"""

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

import tangentbundle as tb
from tangentbundle.filters.expansion import expand

from .harness import Row, baseline, print_table

POINTS, NEIGHBORS, CHANNELS = 10_000_000, 24, 4
TIME = 1e-3
"""Of the heat flow: 200 products with the operator at this size."""

CHUNK = 500_000


class Peak(threading.Thread):
    """Watches the memory of this process: all of it, and without the pages of mapped files, which the system may drop
    at any time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.process, self.total, self.own, self.running = psutil.Process(), 0, 0, True

    def run(self) -> None:
        while self.running:
            memory = self.process.memory_info()
            self.total, self.own = max(self.total, memory.rss), max(self.own, memory.rss - memory.shared)
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
    print_table(rows[-1:])


def write_cloud(path: Path, n: int) -> None:
    """Points of the sphere in random order, and four eigenfields as channels."""
    zarr, sphere = baseline("zarr"), tb.manifolds.Sphere(2)
    group = zarr.open_group(path, mode="w")
    points = group.create_array("points", shape=(n, 3), chunks=(CHUNK, 3), dtype="float32")
    vectors = group.create_array("vectors", shape=(n, 3, CHANNELS), chunks=(CHUNK, 3, CHANNELS), dtype="float32")
    for number, start in enumerate(range(0, n, CHUNK)):
        here = sphere.sample(min(CHUNK, n - start), seed=number)
        points[start : start + CHUNK] = here
        fields = [sphere.gradient_field(here, degree) for degree in (1, 2, 3)]
        fields.append(np.cross(here, fields[2]))
        vectors[start : start + CHUNK] = np.stack(fields, axis=2)


def eigenvalues(before: Path, after: Path) -> list[float]:
    """How fast each channel decayed: its eigenvalue, 1, 5, 11 and 11 on the smooth sphere."""
    zarr = baseline("zarr")
    x, y = (zarr.open_group(path)["vectors"] for path in (before, after))
    products = np.zeros((2, CHANNELS))
    for start in range(0, x.shape[0], CHUNK):
        a, b = (part[start : start + CHUNK].astype(np.float64) for part in (x, y))
        products += [np.einsum("nic,nic->c", a, a), np.einsum("nic,nic->c", a, b)]
    return (-np.log(products[1] / products[0]) / TIME).tolist()


def borders(bundle: tb.distributed.DistributedBundle, p: int) -> int:
    """The number of partitions whose points a partition reads."""
    numbers = np.load(bundle.cloud.part(bundle.geometry.of("numbers"), p))
    return len(bundle.cloud.parts_of(numbers)) - 1


def measure(n: int, folder: str) -> list[Row]:
    rows: list[Row] = []
    home = Path(folder)
    with phase(rows, "write the file", n):
        write_cloud(home / "cloud.zarr", n)
    with phase(rows, "build", n):
        points, vectors = (tb.distributed.ZarrArray(home / "cloud.zarr", name) for name in ("points", "vectors"))
        bundle = tb.distributed.DistributedBundle.from_points(
            points, home / "work", vectors=vectors, dim=2, neighbors=NEIGHBORS, partition=CHUNK
        )
    print(bundle, flush=True)
    with phase(rows, f"Heat({TIME:g})", n):
        bundle.filter(tb.Heat(TIME), home / "smooth.zarr")
    found = eigenvalues(home / "cloud.zarr", home / "smooth.zarr")
    disk = sum(file.stat().st_size for file in (home / "work").rglob("*") if file.is_file())
    rows.append(
        {
            "points": n,
            "phase": "all after the file",
            "seconds": round(sum(row["seconds"] for row in rows[1:]), 1),
            "cpu_seconds": round(sum(row["cpu_seconds"] for row in rows[1:]), 1),
            "peak_gb": max(row["peak_gb"] for row in rows),
            "peak_own_gb": max(row["peak_own_gb"] for row in rows),
            "edges": bundle.edges,
            "partitions": bundle.num_parts,
            "borders": round(float(np.mean([borders(bundle, p) for p in range(bundle.num_parts)])), 1),
            "terms": expand([tb.Heat(TIME)], bundle.band, 1e-6).shape[1],
            "disk_gb": round(disk / 1e9, 2),
            "eigenvalues": [round(v, 3) for v in found],
            "load": round(os.getloadavg()[1], 1),
            "dask": metadata.version("dask"),
            "zarr": metadata.version("zarr"),
        }
    )
    return rows


def run(n: int = POINTS) -> list[Row]:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("tangentbundle.distributed").setLevel(logging.INFO)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        return measure(n, folder)


if __name__ == "__main__":
    print_table(run(int(sys.argv[1])))
