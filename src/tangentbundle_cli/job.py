"""What all commands share: options, reading and writing, progress, and how results and errors are printed."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import os
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from tangentbundle.io import Field, Request, Summary

FILES = "CSV, Parquet, NPZ, PLY, OBJ, STL, VTK, NetCDF or Zarr"

Source = Annotated[Path, typer.Argument(help=f"{FILES}, by the suffix", show_default=False)]
Output = Annotated[Path, typer.Option("-o", "--output", help="file to write, in the format of its suffix")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace an existing Zarr store or Parquet folder")]
Dim = Annotated[int | None, typer.Option(min=1, help="intrinsic dimension; default estimated")]
Neighbors = Annotated[int | None, typer.Option(min=1, help="neighbours of the median point; default automatic")]
Eps = Annotated[float | None, typer.Option(help="squared radius of neighbourhoods, instead of --neighbors")]
Noise = Annotated[float | None, typer.Option(help="known standard deviation of the noise; default estimated")]
Std = Annotated[bool, typer.Option("--std", help="also write the standard deviation of each component")]
Seed = Annotated[int, typer.Option(help="seed of random choices")]

COST = {"inspect": (40.0, 3.1), "filter": (50.0, 3.6), "spectrum": (50.0, 3.6), "denoise": (164.0, 9.5)}
"""Processor seconds and GB of memory for a million points, as measured for docs/tool.md; others cost as ``denoise``."""
ANNOUNCED_SECONDS, MAX_SECONDS = 20.0, 3600.0
"""From the first the estimate is printed; files above the second are refused unless ``--max-points`` allows them."""


def _column(help: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Columns and rows", **options)


def _display(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="What is shown")


def columns(
    points: Annotated[str, _column("columns of points: X,Y,Z")] = "",
    latlon: Annotated[str, _column("columns in degrees: LAT,LON")] = "",
    vectors: Annotated[str, _column("columns of vectors: VX,VY,VZ or EAST,NORTH")] = "",
    time: Annotated[str, _column("column of times, in tables with rows for each time and place")] = "",
    drop_missing: Annotated[bool, _column("leave out rows with missing numbers", "--drop-missing")] = False,
    drop_duplicates: Annotated[bool, _column("keep the first of coincident points", "--drop-duplicates")] = False,
    max_points: Annotated[int | None, _column("refuse larger files; default by memory and an hour", min=1)] = None,
) -> None:
    """Options of commands that read files; columns that are not named are guessed, and the guess is printed."""


def display(
    as_json: Annotated[bool, _display("the result as JSON on stdout", "--json")] = False,
    quiet: Annotated[bool, _display("nothing but errors", "--quiet", "-q")] = False,
    debug: Annotated[bool, _display("show tracebacks", "--debug")] = False,
    report: Annotated[Path | None, _display("also write a report for the browser: one .html file")] = None,
) -> None:
    """Options of every command."""


class Commands(TyperGroup):
    """A group whose context remembers what was typed."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return super().make_context(info_name, args, parent, obj=shlex.join(["tangentbundle", *args]), **extra)


@dataclass
class Job:
    """One run of a command; ``appendix`` is printed after its summary."""

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
    appendix: str = ""
    code: int = 0

    @cached_property
    def summary(self) -> Summary:
        from tangentbundle.io import Summary

        return Summary(self.command, self.line)

    @property
    def silent(self) -> bool:
        """Whether nothing but the result is printed."""
        return self.quiet or self.as_json

    @property
    def cost(self) -> tuple[float, float]:
        """Seconds and GB for a million points."""
        return COST.get(self.command, COST["denoise"])

    def request(self, **changes: Any) -> Request:
        """What to read, according to the options."""
        from tangentbundle.io import Request
        from tangentbundle.memory import memory_limit

        words = {key: map(str.strip, getattr(self, key).split(",")) for key in ("points", "latlon", "vectors")}
        names = {key: tuple(filter(None, parts)) for key, parts in words.items()}
        rows = {"drop_missing": self.drop_missing, "drop_duplicates": self.drop_duplicates}
        seconds, gigabytes = self.cost
        limit = self.max_points or int(1e6 * min(MAX_SECONDS / seconds, memory_limit() / 1e9 / gigabytes))
        return Request(**{**names, **rows, "time": self.time, "max_points": limit, **changes})

    def read(
        self, path: Path, output: Path | None = None, *, overwrite: bool = False, needs_vectors: bool = True
    ) -> Field:
        """Read the field of a file and describe it in the summary; refuse an output that could not be written."""
        from tangentbundle.io import check_output, read_field

        if output is not None:
            check_output(None, output, overwrite=overwrite)
        field = read_field(path, self.request(needs_vectors=needs_vectors))
        summary, n = self.summary, len(field.space)
        seconds, gigabytes = (n / 1e6 * cost for cost in self.cost)
        if seconds > ANNOUNCED_SECONDS and not self.silent:
            size = f"{n} points need about {seconds / 60:.1f} minutes and {gigabytes:.2g} GB"
            typer.echo(f"{path.name}: {size}; Ctrl-C stops without leaving files", err=True)
        summary.source, summary.before = path, field
        summary.notes += field.notes
        dims = field.space.points.shape[1]
        summary.tell("read", f"{path.name}: {field}", points=n, ambient_dim=dims, times=len(field))
        if output is not None:
            check_output(field, output, overwrite=overwrite)
        return field

    def write(self, field: Field, path: Path, *, overwrite: bool) -> None:
        """Write a result, atomically."""
        from tangentbundle.io import write_field

        with self.summary.writing(path):
            write_field(field, path, overwrite=overwrite)
        self.summary.after = field

    @contextlib.contextmanager
    def steps(self, total: int) -> Iterator[Callable[[str], None]]:
        """A progress bar on the terminal; call the result with a description at the beginning of each step."""
        from rich.console import Console
        from rich.progress import Progress

        console, numbers = Console(stderr=True), itertools.count()
        hidden = self.silent or not console.is_terminal
        with Progress(console=console, transient=True, disable=hidden) as bar:
            task = bar.add_task("", total=total)
            yield lambda text: bar.update(task, completed=next(numbers), description=text)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function of a ``Job`` and its own options, by adding the shared options."""
    own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "job"]
    groups = (columns, display) if any(p.name == "file" for p in own) else (display,)
    common = [p for group in groups for p in inspect.signature(group, eval_str=True).parameters.values()]

    def run(context: typer.Context, **given: Any) -> None:
        shared = {p.name: given.pop(p.name) for p in common}
        job = Job(function.__name__, context.obj, **shared)
        _run(job, lambda: function(job, **given))

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *(p.replace(kind=p.KEYWORD_ONLY) for p in (*own, *common))]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _run(job: Job, work: Callable[[], None]) -> None:
    """Do the work; print results on stdout, warnings and errors on stderr, each in a sentence."""
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
        typer.echo(str(summary) + job.appendix)
        for text in summary.warnings:
            typer.echo(f"warning: {text}", err=True)
    if job.code:
        raise typer.Exit(job.code)


def _fail(job: Job, error: BaseException, text: str, code: int) -> None:
    if job.debug:
        raise error
    typer.echo(f"error: {' '.join(text.split())}", err=True)
    raise typer.Exit(code) from None
