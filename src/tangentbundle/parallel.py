"""How many threads work, and how they wait: one policy for torch, BLAS and the library's own
kernels.

* Threads that wait sleep. OpenMP's threads spin by default, which costs several times the processor
  time of the work itself where other processes need the processors. ``import tangentbundle`` asks
  for passive waiting, by the environment variable that torch reads when it is loaded.
* Threads work where the work is worth them. ``threads_by_size`` limits torch and BLAS to one thread
  while an entry point of the library handles small arrays; ``threads_for`` does so for a known
  amount of work. What the user set holds for large work, and again after the call.
* Kernels share their rows among a pool of threads, which sleep while they wait, as many as the user
  gave to torch.

Limits of OpenMP and MKL belong to the calling thread. The BLAS of NumPy and SciPy has one limit for
all threads, which holds until the last call that needs it has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, wraps
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

MAX_ROWS = 2**13
"""Most rows of a range: what a range works on stays in cache."""

MIN_NUMBERS = 2**20
"""Numbers in the largest array from which several threads of torch and BLAS are worth it: one
thread needs about a millisecond for an operation on so many, and waking others takes up to a tenth
of that."""

SPINNING_FACTOR = 16
"""Several threads must have so many times as much work where they spin while they wait, for
milliseconds each time."""

WAITING_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Environment variables that say how OpenMP's threads wait; it reads them once, when torch is
loaded."""

Function = TypeVar("Function", bound=Callable[..., Any])


# How threads wait.


def sleep_while_waiting() -> None:
    """Let OpenMP's threads sleep, unless the user set how they wait or torch is loaded."""
    if "torch" not in sys.modules and not _user_set_waiting():
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def _user_set_waiting() -> bool:
    """Whether an environment variable says how OpenMP's threads wait."""
    return any(name in os.environ for name in WAITING_SETTINGS)


_spinning = "torch" in sys.modules and not _user_set_waiting()
"""Whether torch was loaded, with threads that spin, before the library."""


# How many threads work.


class _ThreadState(threading.local):
    """Of each thread: the numbers of threads to go back to, and whether only one may work whatever
    the work is."""

    user_counts: list[_ThreadCount] | None = None
    user_threads: int = 1
    single: bool = False


_state = _ThreadState()


class _Mkl:
    """The limit that MKL has for the calling thread, zero if there is none; torch for x86 contains
    MKL."""

    def __init__(self, set_limit: Callable[[int], int]) -> None:
        self.set_num_threads = set_limit

    @property
    def num_threads(self) -> int:
        limit = self.set_num_threads(1)  # returns the limit before
        self.set_num_threads(limit)
        return limit


class _ThreadCount(NamedTuple):
    """The number of threads that a library had before it was limited to one."""

    library: Any
    num_threads: int


def _limit_each(libraries: list[Any]) -> list[_ThreadCount]:
    """One thread for each library; returns the numbers before."""
    counts = [_ThreadCount(library, library.num_threads) for library in libraries]
    for library in libraries:
        library.set_num_threads(1)
    return counts


def _restore(counts: list[_ThreadCount]) -> None:
    for before in counts:
        if before.library.num_threads == 1:  # else the user has set another number meanwhile
            before.library.set_num_threads(before.num_threads)


class _BlasLimit:
    """One thread for the BLAS of NumPy and SciPy while anybody needs that; what was set before
    comes back."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.counts: list[_ThreadCount] = []

    def enter(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.counts = _limit_each(_libraries().process_wide)

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                _restore(self.counts)


_blas = _BlasLimit()


@dataclass(frozen=True)
class _Libraries:
    """Libraries with threads, each with ``num_threads`` and ``set_num_threads``."""

    process_wide: list[Any]
    """Those whose limit is one for the process."""

    thread_local: list[Any]
    """Those with a limit for each thread."""


def _libraries() -> _Libraries:
    """The libraries of this process.

    They are searched for once, which takes milliseconds, and again when scikit-learn has brought
    its own.
    """
    return _find_libraries("sklearn" in sys.modules)


@cache
def _find_libraries(with_sklearn: bool) -> _Libraries:
    import scipy.linalg  # noqa: F401 - loads SciPy's BLAS
    import torch
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    process_wide = controller.select(user_api="blas").lib_controllers
    thread_local = list(controller.select(user_api="openmp").lib_controllers)
    for path in (Path(torch.__file__).parent / "lib").glob("*torch_cpu.*"):
        with contextlib.suppress(OSError, AttributeError):  # torch may come without MKL
            thread_local.append(_Mkl(ctypes.CDLL(str(path)).MKL_Set_Num_Threads_Local))
    return _Libraries(process_wide, thread_local)


def _limit() -> None:
    """One thread for torch and BLAS in this thread's calls."""
    import torch

    _state.user_threads = torch.get_num_threads()
    _state.user_counts = _limit_each(_libraries().thread_local)
    _blas.enter()


def _lift() -> None:
    """The user's numbers of threads again."""
    _restore(_state.user_counts or [])
    _state.user_counts = None
    _blas.leave()


@contextlib.contextmanager
def _one_thread_if(limited: bool) -> Iterator[None]:
    """One thread for torch and BLAS or those of the user, whatever holds outside."""
    is_limited = _state.user_counts is not None
    if limited == is_limited:
        yield
    elif limited:
        _limit()
        try:
            yield
        finally:
            _lift()
    else:
        _lift()
        try:
            yield
        finally:
            _limit()


@contextlib.contextmanager
def threads_for(numbers: float) -> Iterator[None]:
    """Threads for work on arrays of so many numbers: those of the user, or one if the work is too
    small for several.

    Inside other such contexts the innermost one decides.
    """
    if _is_compiling():
        yield
        return
    min_numbers = MIN_NUMBERS
    if _spinning:
        min_numbers *= SPINNING_FACTOR
    with _one_thread_if(_state.single or numbers < min_numbers):
        yield


def threads_by_size(function: Function) -> Function:
    """Decorate an entry point of the library: its largest argument decides how many threads work
    (``threads_for``).

    >>> import numpy as np, torch
    >>> @threads_by_size
    ... def threads(values):
    ...     return torch.get_num_threads()
    >>> threads(np.ones(10)), threads(np.ones(2**24)) == torch.get_num_threads()
    (1, True)
    """

    @wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        if _is_compiling():
            return function(*args, **kwargs)
        sizes = [numbers_in(value) for value in (*args, *kwargs.values())]
        with threads_for(max(sizes, default=0)):
            return function(*args, **kwargs)

    return limited  # type: ignore[return-value]


def numbers_in(value: Any) -> float:
    """Numbers in an array, a table or data set; in a bundle or operator as many as it has edges.

    >>> numbers_in([[0.5, 1.0], [2.0, 3.0]]), numbers_in("text"), numbers_in(None)
    (4, 0, 0)
    """
    if isinstance(value, (list, tuple)):
        if len(value) == 0:
            return 0
        return numbers_in(value[0]) * len(value)
    if isinstance(value, (int, float)):
        return 1
    if _is_tensor(value):
        return value.numel()
    graph = getattr(value, "sorted_graph", value)
    for name in ("num_edges", "num_points", "size", "nbytes"):
        count = getattr(graph, name, None)
        if not isinstance(count, (int, float)):
            continue
        if name == "nbytes":
            return count / 8
        return count
    return 0


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _is_compiling() -> bool:
    import torch

    return torch.compiler.is_compiling()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A single thread for torch, BLAS and the library's kernels: for many small matrices, whatever
    their number."""
    before = _state.single
    _state.single = True
    try:
        with _one_thread_if(True):
            yield
    finally:
        _state.single = before


def num_threads() -> int:
    """Threads for kernels and searches: ``torch.get_num_threads()`` as the user set it, one inside
    ``one_thread``."""
    import torch

    if _state.single:
        return 1
    if _state.user_counts is None:
        return torch.get_num_threads()
    return _state.user_threads


# Kernels on ranges of rows.


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="tangentbundle")


def _after_fork() -> None:
    """Threads do not survive a fork, and a lock may have been held by one of them."""
    _pool.cache_clear()
    _blas.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run_ranges(kernel: Callable[..., Any], n: int, *args: Any, grain: int = 1024) -> None:
    """Call ``kernel(start, stop, *args)`` for consecutive ranges that cover ``range(n)``.

    Kernels are ``numba.njit(nogil=True)`` functions that write disjoint rows. ``grain`` is the
    least number of rows worth a thread.
    """
    if n <= grain:
        kernel(0, n, *args)
        return
    workers = num_threads()
    ranges = iter(_ranges(n, workers, grain))  # shared: a thread takes the next range

    def work() -> None:
        for start, stop in ranges:
            kernel(start, stop, *args)

    helpers = [_pool(workers).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            if not helper.cancel():  # one that has not started is not needed any more
                helper.result()


RANGES_PER_THREAD = 4
"""Ranges for each thread: who has a slow one takes fewer of them."""


def _ranges(n: int, workers: int, grain: int) -> list[tuple[int, int]]:
    """Consecutive ranges of nearly equal length that cover ``range(n)``: several for each worker,
    of at least ``grain`` rows, and of at most ``MAX_ROWS``."""
    count = ceil(n / MAX_ROWS)
    if workers > 1:
        count = max(count, min(RANGES_PER_THREAD * workers, ceil(n / grain)))
    ends = [n * k // count for k in range(count + 1)]
    return list(pairwise(ends))
