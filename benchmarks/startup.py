"""Import time beyond torch's, and the first Laplacian of a process, with an empty and with a filled
compile cache."""

from __future__ import annotations

import tempfile
import time

import torch

from harness.records import Row
from harness.timing import in_new_process


def measure() -> Row:
    """In a fresh process: the import, then the first bundle, Laplacian and product, then the same
    again."""
    start = time.perf_counter()
    import tangentbundle as tb

    imported = time.perf_counter()
    times = []
    for _ in range(2):
        start_of_call = time.perf_counter()
        points = tb.manifolds.Sphere(2).sample(1000, seed=0)
        laplacian = tb.TangentBundle.from_points(points).laplacian()
        _ = laplacian @ laplacian.kind.wrap(torch.ones(1000, 2, 1))
        times.append(time.perf_counter() - start_of_call)
    return {"import_s": imported - start, "first_call_s": times[0], "second_call_s": times[1]}


def run() -> list[Row]:
    """The first process, which compiles, and the best of later ones."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [in_new_process(measure, NUMBA_CACHE_DIR=folder) for _ in range(4)]
    later = {key: min(row[key] for row in rows[1:]) for key in rows[0]}
    return [
        {"process": "first ever, nothing compiled", **rows[0]},
        {"process": "later ones, best of 3", **later},
    ]
