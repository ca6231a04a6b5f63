"""Tasks on Dask: threads of this machine, or the workers of a cluster where a ``distributed.Client`` is connected.

A task reads files, writes one file and returns nothing large. A file is written beside its place and then put there,
so that a task whose worker died is simply done again, and one that was done already is skipped.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .files import extra

LOG = logging.getLogger("tangentbundle.distributed")
"""Says what was done and how long it took, at the level of information."""

RETRIES = 2
"""Further attempts at a task that failed: a lost connection, say. Tasks of lost workers are done again in any case."""


@dataclass(frozen=True)
class _Call:
    """A function with its arguments, which Dask need not look into."""

    function: Callable[..., Any]
    arguments: tuple

    def __call__(self, *after: Any) -> Any:
        return self.function(*self.arguments)


class Plan:
    """Tasks and what they wait for, known by their keys.

    >>> plan = Plan()
    >>> first = plan.add(max, 1, 2)
    >>> plan.run([first, plan.add(min, 3, 4, after=[first])])
    [2, 3]
    """

    def __init__(self) -> None:
        self.graph: dict[str, tuple] = {}

    def add(self, function: Callable[..., Any], *arguments: Any, after: Iterable[str] = ()) -> str:
        """The function of the arguments, once the tasks in ``after`` are done; returns its key."""
        key = f"{function.__name__.strip('_')}-{uuid.uuid4().hex}"
        self.graph[key] = (_Call(function, arguments), *after)
        return key

    def run(self, keys: Iterable[str]) -> list[Any]:
        """Do these tasks and all that they wait for; their results in order."""
        base, threaded, wanted = extra("dask.base"), extra("dask.threaded"), list(keys)
        get, started = base.get_scheduler() or threaded.get, time.perf_counter()
        results = list(get(self.graph, wanted, retries=RETRIES))
        names = dict.fromkeys(key.rsplit("-", 1)[0] for key in self.graph)
        LOG.info("%s: %d tasks, %.1f s", ", ".join(names), len(self.graph), time.perf_counter() - started)
        return results


def run_all(function: Callable[..., Any], arguments: Iterable[tuple]) -> list[Any]:
    """The function of each tuple of arguments, in any order; results in order."""
    plan = Plan()
    return plan.run([plan.add(function, *each) for each in arguments])
