"""Tasks on Dask: threads of this machine, or the workers of a cluster where a ``distributed.Client`` is connected.

A task reads files, writes one file and returns nothing large. Files are renamed into place once they are complete, so
that a task whose worker died can be repeated, and one that was done already is skipped.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from .. import extras

LOG = logging.getLogger("tangentbundle.distributed")
"""Reports, at the level INFO, which tasks were run and how long they took."""

extra = partial(extras.extra, purpose="Filtering large clouds", group="cluster")
"""Import a package of the extra ``cluster``."""


def _call(function: Callable[[], Any], *after: None) -> Any:
    return function()


class Plan:
    """A Dask graph of tasks. (``dask.delayed`` copies the graph of all that a task waits for, at every task.)

    >>> plan = Plan()
    >>> first = plan.add(max, 1, 2)
    >>> plan.run([first, plan.add(min, 3, 4, after=[first])])
    [2, 3]
    """

    def __init__(self) -> None:
        self.graph: dict[str, tuple] = {}

    def add(self, function: Callable[..., Any], *arguments: Any, after: Iterable[str] = ()) -> str:
        """Add ``function(*arguments)``, to be run when the tasks in ``after`` are done; returns its key."""
        key = f"{function.__name__.strip('_')}-{uuid.uuid4().hex}"
        self.graph[key] = (_call, partial(function, *arguments), *after)  # a partial: Dask would search the arguments
        return key

    def run(self, keys: Iterable[str], retries: int = 2) -> list[Any]:
        """Results of tasks and of all that they wait for, in order; a task that fails is tried again."""
        get, started = extra("dask.base").get_scheduler() or extra("dask.threaded").get, time.perf_counter()
        results = list(get(self.graph, list(keys), retries=retries))
        names = dict.fromkeys(key.rsplit("-", 1)[0] for key in self.graph)
        LOG.info("%s: %d tasks, %.1f s", ", ".join(names), len(self.graph), time.perf_counter() - started)
        return results


def run_all(function: Callable[..., Any], arguments: Iterable[tuple]) -> list[Any]:
    """The function of each tuple of arguments, in any order; results in order."""
    plan = Plan()
    return plan.run([plan.add(function, *each) for each in arguments])
