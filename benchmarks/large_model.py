"""What clouds of other sizes would cost, from the constants that ``python -m benchmarks large`` measured.

``python -m benchmarks.large_model`` prints the table of docs/theory/large.md; with ``tasks`` it measures what a task
costs the scheduler.
"""

from __future__ import annotations

import sys
import time

from .harness import Row, baseline, load, print_table

D, CHANNELS, BYTES = 2, 4, 4
TASK_MS = 1.5
"""Processor time of client and scheduler for one task that waits for eight (an upper bound: see ``tasks``)."""


def constants() -> Row:
    """Per point of a partition, halo included."""
    rows = {row["phase"]: row for row in load("large")}
    last = rows["all after the file"]
    n, steps = last["points"], last["terms"] - 1
    heat = next(row for name, row in rows.items() if name.startswith("Heat"))
    return {
        "build_us": 1e6 * rows["build"]["cpu_seconds"] / n,
        "step_ns": 1e9 * heat["cpu_seconds"] / n / steps,
        "steps": steps,
        "measured_points": n,
        **{name: last[name] for name in ("rings", "halo", "borders", "disk_gb")},
    }


def model(n: float, cores: int, partition: float) -> Row:
    """A cloud of the same kind: 24 neighbours, d = 2, 4 channels in float32."""
    c, signal = constants(), D * CHANNELS * BYTES
    halo = c["halo"] * (partition / 500_000) ** -0.5  # the rim of a larger patch is a smaller share
    extra, parts = (1 + halo) / (1 + c["halo"]), n / partition
    step = 1e-9 * c["step_ns"] * extra * n / cores
    same_time = c["steps"] * (n / c["measured_points"]) ** 0.5  # the largest eigenvalue grows with n
    return {
        "points": f"{n:.0e}",
        "cores": cores,
        "partitions": round(parts),
        "build_s": round(1e-6 * c["build_us"] * n / cores),
        "step_s": round(step, 2),
        "halo_gb_a_step": round(2 * halo * signal * n / c["rings"] / 1e9, 2),
        "messages_a_step": round(parts * c["borders"] / c["rings"]),
        "files_gb_a_step": round(6 * signal * n / c["rings"] / 1e9, 2),
        "scheduler_s_a_step": round(1e-3 * TASK_MS * parts / c["rings"], 3),
        "disk_tb": round((c["disk_gb"] * 1e9 / c["measured_points"] + 6 * signal) * n / 1e12, 2),
        "same_radii_min": round(c["steps"] * step / 60, 1),
        "same_heat_min": round(same_time * step / 60, 1),
    }


def _nothing(number: int) -> int:
    return number


def task_cost(count: int = 2000) -> float:
    """Milliseconds of client and scheduler for a task, on a local cluster."""
    from tangentbundle.distributed.tasks import run_all

    distributed = baseline("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster),
    ):
        start = time.process_time()
        run_all(_nothing, [(number,) for number in range(count)])
        return 1e3 * (time.process_time() - start) / count


if __name__ == "__main__":
    if sys.argv[1:] == ["tasks"]:
        print(f"{task_cost():.2f} ms a task")
    else:
        print_table([constants()])
        print_table([model(n, cores, 5e5) for n, cores in ((1e7, 2), (1e8, 20), (1e9, 200), (1e9, 64))])
