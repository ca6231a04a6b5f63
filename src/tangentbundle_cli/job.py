"""What all commands share: options, reading and writing, progress, and how results and errors are told."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tangentbundle.io import Field, Request, Summary

FILES = "CSV, Parquet, NPZ, PLY, OBJ, STL, VTK, NetCDF or Zarr"
COLUMNS, OUTPUT = "Columns and rows", "What is shown"

Source = Annotated[Path, typer.Argument(help=f"{FILES}, told by the suffix", show_default=False)]
Output = Annotated[Path, typer.Option("-o", "--output", help="file to write, in the format of its suffix")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace an existing Zarr store or Parquet folder")]
Dim = Annotated[int | None, typer.Option(min=1, help="intrinsic dimension; default estimated")]
Neighbors = Annotated[int | None, typer.Option(min=1, help="neighbours of the median point; default automatic")]
Eps = Annotated[float | None, typer.Option(help="squared radius of neighbourhoods, instead of --neighbors")]

COST = {"inspect": (40.0, 3.1), "filter": (50.0, 3.6), "spectrum": (50.0, 3.6), "denoise": (164.0, 9.5)}
"""Processor seconds and GB of memory for a million points, as measured for docs/tool.md; others cost as ``denoise``."""
ANNOUNCED_SECONDS, MAX_SECONDS = 20.0, 3600.0
"""From the first the estimate is printed; files above the second are refused unless ``--max-points`` allows them."""


def columns(
    points: Annotated[str, typer.Option(help="columns of points: X,Y,Z", rich_help_panel=COLUMNS)] = "",
    latlon: Annotated[str, typer.Option(help="columns in degrees: LAT,LON", rich_help_panel=COLUMNS)] = "",
    vectors: Annotated[
        str, typer.Option(help="columns of vectors: VX,VY,VZ or EAST,NORTH", rich_help_panel=COLUMNS)
    ] = "",
    time: Annotated[
        str, typer.Option(help="column of times, in tables with rows for each time and place", rich_help_panel=COLUMNS)
    ] = "",
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="leave out rows with missing numbers", rich_help_panel=COLUMNS)
    ] = False,
    drop_duplicates: Annotated[
        bool, typer.Option("--drop-duplicates", help="keep the first of coincident points", rich_help_panel=COLUMNS)
    ] = False,
    max_points: Annotated[
        int | None,
        typer.Option(min=1, help="refuse larger files; default as memory and an hour allow", rich_help_panel=COLUMNS),
    ] = None,
) -> None:
    """Options of commands that read files; columns that are not named are guessed, and the guess is told."""


def display(
    as_json: Annotated[
        bool, typer.Option("--json", help="the result as JSON on stdout", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="nothing but errors", rich_help_panel=OUTPUT)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="show tracebacks", rich_help_panel=OUTPUT)] = False,
    report: Annotated[
        Path | None, typer.Option(help="also write a report for the browser: one .html file", rich_help_panel=OUTPUT)
    ] = None,
) -> None:
    """Options of every command."""


@dataclass
class Job:
    """One run of a command."""

    command: str
    line: str
    as_json: bool
    quiet: bool
    debug: bool
    report: Path | None = None
    points: str = ""
    latlon: str = ""
    vectors: str = ""
    time: str = ""
    drop_missing: bool = False
    drop_duplicates: bool = False
    max_points: int | None = None
    code: int = 0

    @cached_property
    def summary(self) -> Summary:
        from tangentbundle.io import Summary

        return Summary(self.command, self.line)

    def request(self, **changes: Any) -> Request:
        """What to read, as asked by the options."""
        from tangentbundle.io import Request
        from tangentbundle.memory import memory_limit

        names = {key: _split(getattr(self, key)) for key in ("points", "latlon", "vectors")}
        rows = {"drop_missing": self.drop_missing, "drop_duplicates": self.drop_duplicates}
        seconds, gigabytes = COST.get(self.command, COST["denoise"])
        limit = self.max_points or int(1e6 * min(MAX_SECONDS / seconds, memory_limit() / 1e9 / gigabytes))
        return Request(**{**names, **rows, "time": self.time, "max_points": limit, **changes})

    def read(self, path: Path, *, needs_vectors: bool = True) -> Field:
        """The field of a file, told in the summary."""
        from tangentbundle.io import read_field

        field = read_field(path, self.request(needs_vectors=needs_vectors))
        summary, millions = self.summary, len(field.space) / 1e6
        seconds, gigabytes = (millions * cost for cost in COST.get(self.command, COST["denoise"]))
        if seconds > ANNOUNCED_SECONDS and not (self.quiet or self.as_json):
            size = f"{len(field.space)} points need about {seconds / 60:.1f} minutes and {gigabytes:.2g} GB"
            typer.echo(f"{path.name}: {size}; Ctrl-C stops without leaving files", err=True)
        summary.source, summary.before = path, field
        summary.notes += field.notes
        summary.tell(
            "read",
            f"{path.name}: {field}",
            points=len(field.space),
            ambient_dim=field.space.points.shape[1],
            times=len(field),
        )
        return field

    def write(self, field: Field, path: Path, *, overwrite: bool) -> None:
        """Write a result, atomically."""
        from tangentbundle.io import write_field

        with self.summary.writing(path):
            write_field(field, path, overwrite=overwrite)
        self.summary.after = field

    @contextlib.contextmanager
    def steps(self, total: int, unit: str = "step") -> Iterator[Callable[[str], None]]:
        """A bar on the terminal once a second has gone by; call the result at the beginning of each step."""
        from tangentbundle.console import progress

        state, over = [-1, ""], threading.Event()
        with progress(total, unit, wanted=not (self.quiet or self.as_json)) as update:

            def watch() -> None:
                while not over.wait(0.3):
                    update(max(state[0], 0), state[1])  # type: ignore[arg-type, call-overload]

            def step(text: str) -> None:
                state[:] = [state[0] + 1, text]  # type: ignore[operator]

            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            try:
                yield step
            finally:
                over.set()
                watcher.join()


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function of a ``Job`` and options of its own: it gets the shared ones, too."""
    own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "job"]
    groups = (columns, display) if any(p.name == "file" for p in own) else (display,)
    common = [p for group in groups for p in inspect.signature(group, eval_str=True).parameters.values()]

    def run(context: typer.Context, **given: Any) -> None:
        shared = {p.name: given.pop(p.name) for p in common}
        job = Job(function.__name__, command_line(context), **shared)
        _run(job, lambda: function(job, **given))

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *(p.replace(kind=p.KEYWORD_ONLY) for p in (*own, *common))]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def command_line(context: typer.Context) -> str:
    """What was typed, as a shell would read it again."""
    words = ["tangentbundle", str(context.info_name)]
    for option in context.command.params:
        name, value = str(option.name), context.params.get(str(option.name))
        if getattr(context.get_parameter_source(name), "name", "") != "COMMANDLINE":
            continue
        flag = option.opts[0] if value is not False else option.secondary_opts[0]
        word = str(getattr(value, "value", value))
        words += [word] if option.param_type_name == "argument" else [flag] if isinstance(value, bool) else [flag, word]
    return shlex.join(words)


def _run(job: Job, work: Callable[[], None]) -> None:
    """Do the work; tell results on stdout, warnings and errors on stderr, each in a sentence."""
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing half-written stays
    started = time.perf_counter()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin while they wait stall busy machines
    from tangentbundle.errors import TangentBundleError, TangentBundleWarning

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", TangentBundleWarning)
            if job.report is not None:
                from tangentbundle.report import check_report

                check_report(job.report)
            work()
        summary = job.summary
        summary.warnings += dict.fromkeys(str(w.message) for w in caught)
        summary.seconds = time.perf_counter() - started
        if job.report is not None:
            from tangentbundle.report import write_report

            with summary.writing(job.report):
                write_report(summary, job.report)
    except TangentBundleError as error:
        _fail(job, error, str(error), 2)
    except MemoryError as error:
        _fail(job, error, "out of memory. Use fewer points or neighbours.", 2)
    except (typer.Exit, KeyboardInterrupt):
        raise
    except Exception as error:
        _fail(job, error, f"unexpected {type(error).__name__}: {error}. Run again with --debug and report it.", 1)
    if job.as_json:
        typer.echo(json.dumps(summary.to_json(), indent=2, allow_nan=False))
    elif not job.quiet:
        typer.echo(str(summary))
        for text in summary.warnings:
            typer.echo(f"warning: {text}", err=True)
    if job.code:
        raise typer.Exit(job.code)


def _fail(job: Job, error: BaseException, text: str, code: int) -> None:
    if job.debug:
        raise error
    typer.echo(f"error: {' '.join(text.split())}", err=True)
    raise typer.Exit(code) from None
