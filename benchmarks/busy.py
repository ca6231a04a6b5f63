"""Processor time of ten typical jobs beside two busy processes, with one thread and with the
default threads.

``one thread`` sets the usual environment variables to one, ``default`` sets nothing, and
``torch first`` imports torch before the library, when OpenMP has read its settings already. Ratios
are processor seconds over those of one thread; each is the least of several processes of all jobs,
which take turns, and of these the median of several calls.
``compare`` has wall times and processor times without busy processes, and those of the library in
another folder, such as ``src`` of an older commit.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.records import Row
from harness.timing import busy, in_new_process

BUSY = 2
"""Processes that keep the machine busy."""

PROCESSES, REPEATS = 2, 3
"""Processes of each setting, and calls of each job in a process, after one that does not count."""

MAX_RATIO = 1.5
"""Processor time over that of one thread that is asked for."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def jobs(folder: Path) -> dict[str, Callable[[], Any]]:
    """Ten typical jobs; what they share is made before."""
    import numpy as np
    import torch
    import xarray

    import tangentbundle as tb

    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((50, 4)))[0]
    wide = tb.manifolds.FlatTorus().sample(5000, seed=0) @ turn.T
    wide_bundle = tb.TangentBundle.from_points(wide, dim=2)
    torus = tb.manifolds.Torus()
    points = torus.sample(5000, seed=0)
    bundle = tb.TangentBundle.from_points(points, dim=2)
    laplacian = bundle.laplacian()
    signal = rng.standard_normal((5000, 2, 8))
    few = torus.sample(500, seed=1)
    noisy = torus.tangent_field(few) + 0.2 * rng.standard_normal(few.shape)
    field = bundle.to_coordinates(torus.tangent_field(points))

    weights = tb.TangentBundle.from_points(torch.from_numpy(points).float(), dim=2).laplacian()
    inputs = torch.randn(5000, 2, 8, generator=torch.Generator().manual_seed(0))
    network = tb.nn.TNN([8, 16, 8], step=weights.scale)
    optimizer = torch.optim.Adam(network.parameters())

    lat = np.arange(89.0, -90.0, -2.0)
    lon = np.arange(0.0, 360.0, 2.0)
    winds = {
        name: (("lat", "lon"), rng.standard_normal((len(lat), len(lon))), {"units": "m s-1"})
        for name in "uv"
    }
    grid = xarray.Dataset(winds, {"lat": lat, "lon": lon})

    table = folder / "field.csv"
    np.savetxt(table, np.hstack([few, noisy]), delimiter=",", header="x,y,z,vx,vy,vz", comments="")
    command = [
        sys.executable,
        "-m",
        "tangentbundle",
        "filter",
        table,
        "--heat",
        "0.1",
        "-o",
        folder / "out.csv",
        "--quiet",
    ]

    def train() -> None:
        for _ in range(5):
            optimizer.zero_grad()
            network(inputs, weights).square().mean().backward()
            optimizer.step()

    return {
        "bundle": lambda: tb.TangentBundle.from_points(wide, dim=2),
        "laplacian": lambda: wide_bundle.laplacian(),
        "spectrum": lambda: laplacian.spectrum(20),
        "heat": lambda: tb.Heat(0.1)(laplacian, signal, tb.Chebyshev(1e-6)),
        "training step": train,
        "denoise": lambda: tb.FieldDenoiser(random_state=0).fit(few, noisy).predict(few),
        "calculus": lambda: (bundle.divergence() @ field, bundle.curl() @ field),
        "Betti number": lambda: tb.calculus.betti_number(bundle),
        "smoothing of a grid": lambda: tb.earth.smooth(grid, "1000 km").load(),
        "command-line tool": lambda: subprocess.run([str(word) for word in command], check=True),
    }


def processor_seconds() -> float:
    """Of all threads of this process and of the commands that it ran."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def measure(repeats: int) -> Row:
    """Median processor seconds and least wall seconds of each job."""
    results: Row = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, job in jobs(Path(folder)).items():
            job()
            processor, wall = [], []
            for _ in range(repeats):
                before = processor_seconds()
                start = time.perf_counter()
                job()
                wall.append(time.perf_counter() - start)
                time.sleep(0.05)  # threads that go on spinning after the work count, too
                processor.append(processor_seconds() - before)
            results[name] = {"cpu_s": statistics.median(processor), "wall_s": min(wall)}
    return results


def in_turns(
    settings: dict[str, dict[str, str]], processes: int, repeats: int
) -> dict[str, dict[str, Row]]:
    """For each setting, a set of environment variables, the least seconds of each job over several
    processes."""
    least: dict[str, dict[str, Row]] = {name: {} for name in settings}
    for turn in range(processes):
        for name, environment in settings.items():
            first_imports = ["tangentbundle"]
            if name == "torch first":
                first_imports = ["torch"]
            measured = in_new_process(measure, repeats, first_imports=first_imports, **environment)
            for job, row in measured.items():
                best = least[name].setdefault(job, row)
                least[name][job] = {key: min(best[key], row[key]) for key in row}
            print(f"turn {turn + 1} of {processes}: {name}", flush=True)
    return least


def run(processes: int = PROCESSES, repeats: int = REPEATS) -> list[Row]:
    """Processor seconds beside busy processes."""
    with busy(BUSY):
        least = in_turns(
            {"one thread": ONE_THREAD, "default": {}, "torch first": {}}, processes, repeats
        )
    rows = []
    for job, single in least["one thread"].items():
        row = {"job": job, "one thread_s": single["cpu_s"]}
        for name in ("default", "torch first"):
            row[f"{name}_s"] = least[name][job]["cpu_s"]
            row[f"{name} ratio"] = least[name][job]["cpu_s"] / single["cpu_s"]
        rows.append({**row, "asked": MAX_RATIO})
    return rows


def compare(before: Path, processes: int = PROCESSES, repeats: int = REPEATS) -> list[Row]:
    """Wall and processor seconds of the library in another folder and of this one, without busy
    processes."""
    least = in_turns({"before": {"PYTHONPATH": str(before)}, "now": {}}, processes, repeats)
    rows = []
    for job, old in least["before"].items():
        new = least["now"][job]
        ratios = {
            "wall ratio": new["wall_s"] / old["wall_s"],
            "cpu ratio": new["cpu_s"] / old["cpu_s"],
        }
        rows.append(
            {"job": job, "wall before_s": old["wall_s"], "wall now_s": new["wall_s"], **ratios}
        )
    return rows
