"""Progress on standard error, and Ctrl-C that waits for the end of a step."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

LINE_SECONDS = 10.0
"""Time between lines of progress when standard error is not a terminal."""


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Ctrl-C waits for the end of the epoch; a second one does not."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number, frame):
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def progress(total: int, unit: str, wanted: bool = True) -> Iterator[Callable[[int, str], None]]:
    """Show progress on standard error after one second; call the result with a count and a text.

    It is a bar on a terminal, otherwise a line every ``LINE_SECONDS``.
    """
    if not wanted:
        yield lambda done, text: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    count = TextColumn(f"{unit} {{task.completed}}/{{task.total}}")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        count,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    number, ended, started = bar.add_task("", total=total), threading.Event(), time.monotonic()

    def watch() -> None:
        if bar.console.is_terminal and not ended.wait(1.0):
            bar.start()
        while not bar.console.is_terminal and not ended.wait(LINE_SECONDS):
            task = bar.tasks[0]
            place = f"{unit} {task.completed:g} of {total}, {time.monotonic() - started:.0f} s"
            print(f"... {task.description} ({place})", file=sys.stderr, flush=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda done, text: bar.update(number, completed=done, description=text)
    finally:
        ended.set()
        watcher.join()
        if bar.live.is_started:  # stopping prints a line
            bar.stop()
