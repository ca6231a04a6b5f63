"""Tasks on Dask: threads of this machine, or the workers of a cluster where a ``distributed.Client`` is connected.

A task that builds something reads files, writes files and returns nothing large. Files are renamed into place once they
are complete, so that a task whose worker died can be repeated, and one that was done already is skipped.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from .. import extras

LOG = logging.getLogger("tangentbundle.distributed")
"""Reports, at the level INFO, which tasks were run and how long they took."""

extra = partial(extras.extra, purpose="Filtering large clouds", group="cluster")
"""Import a package of the extra ``cluster``."""


def run_all(function: Callable[..., Any], arguments: Iterable[tuple]) -> list[Any]:
    """The function of each tuple of arguments, in any order; results in order. A task that fails is tried again.

    >>> run_all(max, [(1, 2), (4, 3)])
    [2, 4]
    """
    name = f"{function.__name__.strip('_')}-{uuid.uuid4().hex}"
    # a partial, as Dask would search the arguments
    graph = {(name, k): (partial(function, *each),) for k, each in enumerate(arguments)}
    return run_graph(graph, list(graph), function.__name__)


def run_graph(graph: Mapping[Any, tuple], wanted: list[Any], name: str) -> list[Any]:
    """The results of wanted tasks of a Dask graph."""
    get, started = extra("dask.base").get_scheduler() or extra("dask.threaded").get, time.perf_counter()
    results = list(get(graph, wanted, retries=2))
    LOG.info("%s: %d tasks, %.1f s", name, len(graph), time.perf_counter() - started)
    return results
