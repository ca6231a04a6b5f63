"""What a person at a terminal sees and does: progress bars, and Ctrl-C that leaves nothing half done."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator


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
    """A bar on the terminal (standard error) for what takes longer than a second; give it the count and a text."""
    if not wanted:
        yield lambda done, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{unit} {{task.completed}}/{{task.total}}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=total)
    started, last, shown = time.monotonic(), 0.0, False

    def update(done: int, text: str) -> None:
        nonlocal shown, last
        now = time.monotonic()
        if not shown and now - started > 1.0 and bar.console.is_terminal:
            bar.start()
            shown = True
        if shown and (now - last > 0.2 or done == total):
            bar.update(task, completed=done, description=text)
            last = now

    try:
        yield update
    finally:
        if shown:  # stopping prints a line
            bar.stop()
