"""Times of functions that take turns, work in new processes, and libraries to compare with."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

MIN_CALLS = 4
"""Least calls of a function in a row."""

MAX_CALLS = 16
"""Most calls of a function in a row."""

TURN_SECONDS = 0.05
"""A turn of at least ``MIN_CALLS`` ends after so many seconds."""

REST_SECONDS = 0.25
"""Before a turn: OpenMP threads go on spinning for up to a fifth of a second after their work is
done."""


class MissingBaseline(ImportError):
    """A third-party library to compare with is not installed."""


def baseline(name: str) -> ModuleType:
    """Import an optional library to compare with."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingBaseline(
            f"{name} is not installed; it comes with pip install 'tangentbundle[bench]'"
        ) from error


def best_in_turns(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least seconds of each function; they take turns, so that a busy machine hinders all alike.

    A turn is a few calls in a row, since the first ones find caches full of another function's
    data, and begins when all threads of the one before have come to rest.
    """
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        function()  # compile and fill caches
    for _ in range(repeats):
        for name, function in functions.items():
            time.sleep(REST_SECONDS)
            best[name] = min(best[name], _best_of_a_turn(function))
    return best


def _best_of_a_turn(function: Callable[[], Any]) -> float:
    """Least seconds of a few calls in a row."""
    best = float("inf")
    turn = time.perf_counter()
    for call in range(1, MAX_CALLS + 1):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
        if call >= MIN_CALLS and time.perf_counter() > turn + TURN_SECONDS:
            break
    return best


def seconds(function: Callable[[], Any], repeats: int = 3) -> float:
    """Least seconds of one function, after a call that does not count."""
    return best_in_turns({"it": function}, repeats)["it"]


def in_new_process(
    function: Callable[..., Any],
    *arguments: Any,
    first_imports: Sequence[str] = (),
    **environment: str,
) -> Any:
    """Call a function of a module in a new process, and return what it returns, as JSON.

    ``first_imports`` are imported before the module of the function.
    """
    command = [sys.executable, "-m", "harness.call", function.__module__, function.__name__]
    command += [json.dumps(arguments), *first_imports]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{function.__name__} failed in a new process:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes compute while the block runs."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()
