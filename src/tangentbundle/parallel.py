"""Run compiled kernels over ranges of rows on a few threads.

The kernels are plain ``numba.njit(nogil=True)`` functions ``kernel(start, stop, *arrays)`` that
write disjoint rows. Threads come from an ordinary pool, not from numba's parallel runtime: it
compiles several times faster, is safe when many user threads call at once, and survives ``fork``.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import torch

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _executor(workers: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size != workers:
        _pool, _pool_size = ThreadPoolExecutor(workers, thread_name_prefix="tangentbundle"), workers
    return _pool


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


MOST = 2**13
"""Most rows of a range: what a range works on stays in cache."""


def run_ranges(kernel: Callable[..., Any], n: int, *args: Any, grain: int = 1024) -> None:
    """Call ``kernel(start, stop, *args)`` for consecutive ranges that cover ``range(n)``.

    ``grain`` is the least number of rows worth a thread. The number of threads is
    ``torch.get_num_threads()``, so that ``torch.set_num_threads`` governs all of the library.
    """
    workers = torch.get_num_threads()
    if workers == 1 or n <= grain:
        kernel(0, n, *args)
        return
    pieces = max(min(4 * workers, -(-n // grain)), -(-n // MOST))
    waiting = deque(pairwise(n * k // pieces for k in range(pieces + 1)))

    def work() -> None:
        while True:
            try:
                start, stop = waiting.popleft()
            except IndexError:
                return
            kernel(start, stop, *args)

    helpers = [_executor(workers).submit(work) for _ in range(workers - 1)]
    try:
        work()  # this thread is one of the workers: waking another one costs time
    finally:
        for helper in helpers:
            helper.result()


@contextlib.contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """A single thread for torch: for many small matrices, where threads cost more than they give.

    On a busy machine they cost very much more: each small product waits for a thread that waits for a core.
    """
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
