"""Threads and buffers: a heat filter and a training step with and without each runtime option."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch

import tangentbundle as tb
from tangentbundle import memory, parallel
from tangentbundle.operators import product

from .harness import Row, best_in_turns

POINTS, NEIGHBORS, CHANNELS = 200_000, 30, 16


def plain_empty(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def large_pages(tensor: torch.Tensor) -> torch.Tensor:
    return memory.in_large_pages(plain_empty(tensor))


VARIANTS: dict[str, list[tuple[Any, str, Any]]] = {
    "as is": [],
    "thread pool instead of torch's threads": [(parallel, "_torch_threads", lambda: None)],
    "no recycled buffers": [(product, "empty_like", large_pages)],
    "no recycled buffers, no large pages": [(product, "empty_like", plain_empty)],
    "thread pool, plain buffers": [(parallel, "_torch_threads", lambda: None), (product, "empty_like", plain_empty)],
}


def jobs() -> dict[str, Callable[[], Any]]:
    points = tb.manifolds.Sphere(2).sample(POINTS, seed=0).astype("float32")
    laplacian = tb.TangentBundle.from_points(points, dim=2, neighbors=NEIGHBORS).laplacian()
    x = torch.randn(POINTS, 2, CHANNELS, generator=torch.Generator().manual_seed(0))
    net = tb.nn.TNN([CHANNELS, CHANNELS], taps=2, step=laplacian.scale)
    heat = tb.Heat(laplacian.scale * 10)

    def train() -> None:
        net.zero_grad()
        net(x, laplacian).square().mean().backward()

    return {"product": lambda: laplacian @ x, "heat filter": lambda: heat(laplacian, x), "training step": train}


def run() -> list[Row]:
    """A row for each task and option; ``ratio`` is its time over that of the library as it is."""
    rows = []
    for task, job in jobs().items():

        def with_patches(patches: list, job: Callable[[], Any] = job) -> None:
            with ExitStack() as stack:
                for target, name, value in patches:
                    stack.enter_context(patch.object(target, name, value))
                job()

        times = best_in_turns({name: lambda p=p: with_patches(p) for name, p in VARIANTS.items()}, 2)
        for name, best in times.items():
            rows.append({"task": task, "option": name, "ms": 1e3 * best, "ratio": best / times["as is"]})
    return rows
