"""Counting inputs: each ends in a checked result or a named error, in time, without touching
anything it should not."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tangentbundle.errors import TangentBundleError, TangentBundleWarning

SECONDS = 20.0
"""Processor time after which an input counts as a hang."""

MAX_WAIT = 600.0
"""The same by the clock, which catches deadlocks: a busy machine may take minutes for what one
input compiles."""

FORBIDDEN = (
    "pickle.find_class",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "socket.connect",
)
"""Events of Python's audit system that reading data must never raise."""


class HangError(BaseException):
    """An input took too long. (No Exception: nothing on the way may take it for a fault of the
    file.)"""


class ForbiddenError(BaseException):
    """Data made Python unpickle a name, start a program or open a connection."""


@dataclass
class Tally:
    """Inputs of one kind: how many gave a result, how many a named error, and what else
    happened."""

    name: str
    results: int = 0
    errors: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0

    @property
    def inputs(self) -> int:
        return self.results + self.errors.total() + len(self.failures)

    def try_out(self, call: Callable[[], Any], describe: Any = "") -> None:
        """Run one input; anything but a result or a named error is kept as a failure and raised."""
        start = time.process_time()
        try:
            with time_limit(SECONDS), warnings.catch_warnings():
                warnings.simplefilter("ignore", TangentBundleWarning)
                call()
            self.results += 1
        except TangentBundleError as error:
            self.errors[type(error).__name__] += 1
        except (Exception, HangError, ForbiddenError) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{where.filename}:{where.lineno}"
            self.failures.append(
                f"{type(error).__name__}: {error} at {place}; input {describe}"[:800]
            )
            raise
        finally:
            self.slowest = max(self.slowest, time.process_time() - start)

    def row(self) -> dict[str, Any]:
        return {
            "what": self.name,
            "inputs": self.inputs,
            "results": self.results,
            "named errors": self.errors.total(),
            "kinds": len(self.errors),
            "slowest_s": round(self.slowest, 3),
            "failures": int(bool(self.failures)),  # hypothesis repeats one to shrink it
        }


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``HangError`` in the block after so many seconds of processor time."""

    def stop(*_: Any) -> None:
        raise HangError(f"took longer than {seconds} s")

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, MAX_WAIT),
    )
    before = [signal.signal(number, stop) for number, _, _ in timers]
    for _, timer, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


_watching = False
_installed = False


@contextlib.contextmanager
def nothing_forbidden() -> Iterator[None]:
    """In this block Python itself reports whoever unpickles a name, starts a program or opens a
    connection."""
    global _watching, _installed

    def hook(event: str, arguments: tuple) -> None:
        if _watching and event in FORBIDDEN:
            raise ForbiddenError(f"{event}{arguments}")

    if not _installed:
        sys.addaudithook(hook)  # hooks cannot be taken away again
        _installed = True
    before, _watching = _watching, True
    try:
        yield
    finally:
        _watching = before
