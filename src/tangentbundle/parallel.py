"""Run compiled kernels over ranges of rows on a few threads, and limit the threads of libraries."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from threadpoolctl import threadpool_limits

MAX_ROWS = 2**13
"""Most rows of a range: what a range works on stays in cache."""


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="tangentbundle")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def run_ranges(kernel: Callable[..., Any], n: int, *args: Any, grain: int = 1024) -> None:
    """Call ``kernel(start, stop, *args)`` for consecutive ranges that cover ``range(n)``.

    Kernels are ``numba.njit(nogil=True)`` functions that write disjoint rows. ``grain`` is the least number of rows
    worth a thread. The number of threads is ``torch.get_num_threads()``, so that ``torch.set_num_threads`` governs all
    of the library.
    """
    workers = torch.get_num_threads()
    if n <= grain:
        kernel(0, n, *args)
        return
    pieces = max(min(4 * workers, -(-n // grain)) if workers > 1 else 1, -(-n // MAX_ROWS))
    waiting = iter([*pairwise(n * k // pieces for k in range(pieces + 1))])  # shared: a thread takes the next range

    def work() -> None:
        for start, stop in waiting:
            kernel(start, stop, *args)

    helpers = [_pool(workers).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            if not helper.cancel():  # one that has not started is not needed any more
                helper.result()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A single thread for torch, BLAS and OpenMP: for many small matrices, where threads cost more than they give."""
    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
