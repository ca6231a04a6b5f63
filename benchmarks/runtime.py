"""Threads and buffers: a product, a heat filter and a training step, with one thread or all, and
plain buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch

import tangentbundle as tb
from harness.records import Row
from harness.timing import best_in_turns
from tangentbundle.operators import product
from tangentbundle.parallel import one_thread

POINTS, NEIGHBORS, CHANNELS = 200_000, 30, 16


def jobs() -> dict[str, Callable[[], Any]]:
    points = tb.manifolds.Sphere(2).sample(POINTS, seed=0).astype("float32")
    laplacian = tb.TangentBundle.from_points(points, dim=2, neighbors=NEIGHBORS).laplacian()
    x = torch.randn(POINTS, 2, CHANNELS, generator=torch.Generator().manual_seed(0))
    heat, net = (
        tb.Heat(10 * laplacian.scale),
        tb.nn.TNN([CHANNELS, CHANNELS], taps=2, step=laplacian.scale),
    )

    def train() -> None:
        net.zero_grad()
        net(x, laplacian).square().mean().backward()

    return {
        "product": lambda: laplacian @ x,
        "heat filter": lambda: heat(laplacian, x),
        "training step": train,
    }


def run() -> list[Row]:
    """A row for each task and option; ``ratio`` is its time over that of the library as it is."""
    rows = []
    for task, job in jobs().items():

        def on_one_thread(job: Callable[[], Any] = job) -> None:
            with one_thread():
                job()

        def in_plain_buffers(job: Callable[[], Any] = job) -> None:
            with patch.object(product, "empty_like", lambda x: torch.empty(x.shape, dtype=x.dtype)):
                job()

        options = {"as is": job, "one thread": on_one_thread, "plain buffers": in_plain_buffers}
        times = best_in_turns(options, 3)
        rows += [
            {"task": task, "option": name, "ms": 1e3 * best, "ratio": best / times["as is"]}
            for name, best in times.items()
        ]
    return rows
