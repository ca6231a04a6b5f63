"""Cost per edge and peak memory from ten thousand to a million points of S^2, each size in its own
process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

import tangentbundle as tb
from harness.records import Row
from harness.timing import in_new_process, seconds

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
NEIGHBORS, CHANNELS = 32, 16


def measure(n: int) -> Row:
    """One size: nanoseconds per directed edge of the build and the product, and the peak of the
    process."""
    points = torch.from_numpy(tb.manifolds.Sphere(2).sample(n, seed=0)).float()

    def build():
        return tb.TangentBundle.from_points(points, neighbors=NEIGHBORS).laplacian()

    repeats = max(3, min(20, 1_000_000 // n))
    build_time = seconds(build, repeats)
    laplacian = build()
    x = torch.randn(n, 2, CHANNELS, generator=torch.Generator().manual_seed(0))
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


def run() -> list[Row]:
    rows = [in_new_process("benchmarks.scaling", n) for n in SIZES]
    for row in rows:
        for what in ("build", "product"):
            row[f"{what}_growth"] = row[f"{what}_ns_per_edge"] / rows[0][f"{what}_ns_per_edge"]
    return rows


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
