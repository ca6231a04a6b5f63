"""Tasks on Dask: threads of this machine, or the workers of a cluster where a ``distributed.Client`` is connected.

A task that builds something reads files and writes files, which are renamed into place once they are complete: a task
whose worker died can be repeated, and one that was done already is skipped.
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


def on_cluster() -> bool:
    """Whether tasks run on the workers of a cluster, which share no memory with this process."""
    return hasattr(extra("dask.base").get_scheduler(), "__self__")  # a method of the client


def run_all(function: Callable[..., Any], arguments: Iterable[tuple]) -> list[Any]:
    """The function of each tuple of arguments, in any order; results in order. A task that fails is tried again.

    >>> run_all(max, [(1, 2), (4, 3)])
    [2, 4]
    """
    name, started = f"{function.__name__.strip('_')}-{uuid.uuid4().hex}", time.perf_counter()
    # a partial, as Dask would search the arguments
    graph = {(name, k): (partial(function, *each),) for k, each in enumerate(arguments)}
    get = extra("dask.base").get_scheduler() or extra("dask.threaded").get
    results = list(get(graph, list(graph), retries=2))
    LOG.info("%s: %d tasks, %.1f s", function.__name__, len(graph), time.perf_counter() - started)
    return results
