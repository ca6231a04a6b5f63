"""Progress on standard error, and Ctrl-C that waits for the end of a step."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator

BAR_SECONDS = 0.25
"""Time after which there is a bar on a terminal."""

LINE_SECONDS = 10.0
"""Time between lines of progress when standard error is not a terminal."""


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Ctrl-C waits for the end of the epoch; a second one does not."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    interrupted = threading.Event()

    def note(number: int, frame: types.FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    handler_before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted.is_set
    finally:
        signal.signal(signal.SIGINT, handler_before)


@contextlib.contextmanager
def progress(total: int, unit: str, wanted: bool = True) -> Iterator[Callable[[int, str], None]]:
    """Show progress on standard error soon; call the result with a count and a text.

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

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{unit} {{task.completed}}/{{task.total}}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task_number = bar.add_task("", total=total)
    ended = threading.Event()
    started = time.monotonic()

    def print_line() -> None:
        task = bar.tasks[0]
        place = f"{unit} {task.completed:g} of {total}, {time.monotonic() - started:.0f} s"
        print(f"... {task.description} ({place})", file=sys.stderr, flush=True)

    def watch() -> None:
        if bar.console.is_terminal:
            if not ended.wait(BAR_SECONDS):
                bar.start()
            return
        while not ended.wait(LINE_SECONDS):
            print_line()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda done, text: bar.update(task_number, completed=done, description=text)
    finally:
        ended.set()
        watcher.join()
        if bar.live.is_started:  # stopping prints a line
            bar.stop()
