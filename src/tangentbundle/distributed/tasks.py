"""Tasks on Dask: threads of this machine, or the workers of a cluster where a ``distributed.Client`` is connected.

A task reads files, writes one file and returns nothing large. Files are renamed into place once they are complete, so
that a task whose worker died can be repeated, and one that was done already is skipped.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ..datasets import extras

LOG = logging.getLogger("tangentbundle.distributed")
"""Reports, at the level INFO, which tasks were run and how long they took."""

extra = partial(extras.extra, purpose="Filtering large clouds", group="cluster")
"""Import a package of the extra ``cluster``."""


def _call(function: Callable[[], Any], after: list[None]) -> Any:
    return function()


def task(function: Callable[..., Any], *arguments: Any, after: Iterable[Any] = ()) -> Any:
    """``function(*arguments)`` as a Dask task that waits for the tasks in ``after``.

    (The arguments are hidden in a partial function: Dask would search each for further tasks.)
    """
    name = f"{function.__name__.strip('_')}-{uuid.uuid4().hex}"
    call = extra("dask").delayed(_call, pure=False)
    return call(partial(function, *arguments), list(after), dask_key_name=name)


def run(label: str, tasks: Sequence[Any], retries: int = 2) -> list[Any]:
    """Results of tasks and of all that they wait for, in order; a task that fails is tried again.

    >>> first = task(max, 1, 2)
    >>> run("example", [first, task(min, 3, 4, after=[first])])
    [2, 3]
    """
    started = time.perf_counter()
    results = list(extra("dask").compute(*tasks, retries=retries))
    LOG.info("%s: %d tasks, %.1f s", label, len(tasks), time.perf_counter() - started)
    return results


def run_all(function: Callable[..., Any], arguments: Iterable[tuple]) -> list[Any]:
    """The function of each tuple of arguments, in any order; results in order."""
    return run(function.__name__.strip("_"), [task(function, *each) for each in arguments])
