"""Run compiled kernels over ranges of rows on a few threads.

The kernels are plain ``numba.njit(nogil=True)`` functions ``kernel(start, stop, *arrays)`` that write disjoint rows.
They run on torch's own OpenMP threads: these go on spinning for a while after each of torch's operations, and other
threads would have to share their cores with them (a network's step takes a quarter longer). Where torch comes without
GNU OpenMP, and in a forked process, where its threads are gone, an ordinary pool takes their place. Numba's parallel
runtime would compile several times longer and is not safe when many user threads call at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_forked = False

REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@cache
def _torch_threads() -> Callable[..., None] | None:
    """``GOMP_parallel(region, data, threads, flags)`` of the OpenMP library that torch brings, if it is GNU's."""
    for library in Path(torch.__file__).parent.glob("lib/libgomp*"):
        with contextlib.suppress(OSError, AttributeError):
            start = ctypes.CDLL(str(library)).GOMP_parallel
            start.argtypes, start.restype = [REGION, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
            return start
    return None


def _executor(workers: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size != workers:
        _pool, _pool_size = ThreadPoolExecutor(workers, thread_name_prefix="tangentbundle"), workers
    return _pool


def _after_fork() -> None:
    global _pool, _forked
    _pool, _forked = None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _on_threads(workers: int, work: Callable[[], None]) -> None:
    """Run ``work`` on several threads, this one among them, and wait for all."""
    start = None if _forked else _torch_threads()
    if start is None:
        helpers = [_executor(workers).submit(work) for _ in range(workers - 1)]
        try:
            work()
        finally:
            for helper in helpers:
                helper.result()
        return
    errors = []

    def region(_: Any) -> None:
        try:
            work()
        except BaseException as error:  # C cannot pass it on
            errors.append(error)

    start(REGION(region), None, workers, 0)
    if errors:
        raise errors[0]


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

    _on_threads(workers, work)


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
