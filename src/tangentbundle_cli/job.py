"""Shared by all commands: reading and writing, progress, and printing of results and errors."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import re
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

import tangentbundle as tb

from .options import columns, display, geometry

INPUTS = ("file", "at", "history")
"""Options that name input files, which are checked before anything is loaded."""


class Commands(TyperGroup):
    """A command group that stores the command line in its context."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return super().make_context(
            info_name, args, parent, obj=shlex.join(["tangentbundle", *args]), **extra
        )


@dataclass
class Job:
    """One run of a command; ``columns`` holds the column options, ``appendix`` is printed after the
    summary."""

    summary: tb.io.Summary
    as_json: bool = False
    quiet: bool = False
    debug: bool = False
    report: Path | None = None
    dim: int | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    appendix: str = ""
    code: int = 0

    @property
    def silent(self) -> bool:
        """Whether progress and notes are suppressed."""
        return self.quiet or self.as_json

    def request(self, **changes: Any) -> tb.io.Request:
        """Return what to read, according to the options."""
        asked = {key: value for key, value in self.columns.items() if value}
        for key in {"points", "latlon", "vectors", "wind"} & {*asked}:
            asked[key] = tuple(filter(None, map(str.strip, asked[key].split(","))))
        chosen = [text.partition("=")[::2] for text in asked.get("select", ())]
        asked["select"] = dict(chosen)
        if "" in asked["select"].values() or len(asked["select"]) < len(chosen):
            raise tb.errors.InvalidInputError(
                "expected --select NAME=VALUE once for a NAME, such as level=500."
            )
        return tb.io.Request(**{**asked, **changes})

    def read(
        self, path: Path, output: Path | None = None, *, needs_vectors: bool = True
    ) -> tb.io.Field:
        """Read the field of a file and describe it in the summary; raise if the output cannot be
        written."""
        found = tb.io.read_field(path, self.request(needs_vectors=needs_vectors))
        self.check_report()
        tb.io.field.warn_if_suspicious(found)
        if (
            len(found.space.points) < tb.io.field.FEW_POINTS
        ):  # warned above: estimators need not repeat it
            warnings.simplefilter("ignore", tb.errors.DimensionWarning)
        self.summary.source, self.summary.before = path, found
        self.summary.notes += found.notes
        (n, dims), known = found.space.points.shape, found.space.dim
        if self.dim is not None and self.dim not in (
            range(1, dims + 1) if known is None else [known]
        ):
            expected = f"from 1 to {dims}, the dimension of the points" if known is None else known
            raise tb.errors.InvalidInputError(
                f"--dim {self.dim} does not fit {path.name}: expected {expected}."
            )
        self.summary.add(
            "read", f"{path.name}: {found}", points=n, ambient_dim=dims, times=len(found)
        )
        if output is not None:
            tb.io.check_output(found, output)
        return found

    def place_in_file(self, problem: Any) -> str:
        """Where in the file the point lies that an error or warning names; empty if it names
        none."""
        point = getattr(problem, "point", None)
        field = self.summary.before
        if point is None or field is None or not 0 <= point < len(field.space):
            return ""
        names = field.space.names
        numbers = zip(names, field.space.coordinates[point], strict=True)
        place = ", ".join(f"{name} {number:.6g}" for name, number in numbers)
        on_grid = isinstance(field.origin, tb.io.datasets.GridFile)
        row = "" if on_grid else f"row {field.row_in_file(point)}, "
        return f" Point {point} is {row}{place}."

    def show(self, table: tb.io.Table) -> None:
        """Print a table after the summary and add it to the report."""
        self.summary.table, self.appendix = table, f"\n\n{table.text()}"

    def check_report(self) -> None:
        """Raise if the report cannot be written; it loads plotting libraries, so input is checked
        before."""
        if self.report is not None:
            tb.report.check_report(self.report)

    def write(self, field: tb.io.Field, path: Path) -> None:
        """Write a result, atomically."""
        with self.summary.writing(path):
            tb.io.write_field(field, path)
        self.summary.after = field

    @contextlib.contextmanager
    def steps(self, total: int) -> Iterator[Callable[[str], None]]:
        """Show progress on standard error; call the result with a description at the start of each
        step."""
        numbers = itertools.count(1)
        with tb.console.progress(total, "step", not self.silent) as show:
            yield lambda text: show(next(numbers), text)


def changed_at(path: Path) -> int:
    """Return when the files of a path or pattern were last changed."""
    return max(file.stat().st_mtime_ns for file in path.parent.glob(path.name))


def write_in_blocks(
    job: Job,
    file: Path,
    output: Path,
    function: Callable[[Any, tuple[str, ...]], Any],
    options: dict[str, Any],
    workers: int,
    refused: Mapping[str, Any],
    fields_at_once: int | None = None,
) -> None:
    """Write the lazy result of ``function(dataset, component names)`` for NetCDF or Zarr files of
    any length.

    A run with the same ``options`` resumes an interrupted one. Raises if any of the options
    ``refused`` is set.
    """
    if any(
        tb.io.format_of(path).read is not tb.io.datasets.read_dataset for path in (file, output)
    ):
        raise tb.errors.InvalidInputError(
            "--workers and --scale need NetCDF or Zarr as input and output. Remove them, or "
            "convert the file."
        )
    given = {**job.columns, "report": job.report, **refused, "vectors": None}
    if option := next((name.replace("_", "-") for name in given if given[name]), ""):
        raise tb.errors.InvalidInputError(
            f"--{option} cannot be combined with --scale or --workers, which read the file in "
            "blocks. Remove one."
        )
    names = [name for name in map(str.strip, options.get("variables", "").split(",")) if name]
    tb.io.datasets.check_header(file, job.request(), names)
    from tangentbundle.earth.gridfields import GridFields
    from tangentbundle.earth.series import in_blocks, write_blocks
    from tangentbundle.earth.sources import open_dataset

    with open_dataset(file, chunks={}) as ds:
        tb.io.datasets.check_names(
            [*map(str, ds.variables)], [*map(str, ds.dims)], job.request(), names
        )
        fields = GridFields.of(ds[names] if names else ds, job.request().vectors)
        blocks, along = in_blocks(fields, fields_at_once)
        times, dims = blocks.sizes.get(along, 1), blocks[fields.names[0]].sizes
        count = prod(size for name, size in dims.items() if name not in fields.grid.dims)
        text = (
            f"{file.name}: {', '.join(fields.names)} on {fields.grid}, {count} "
            f"field{'s' * (count != 1)}"
        )
        job.summary.source = file
        job.summary.add("read", text, points=len(fields.grid), times=times)
        plan = {
            "names": [*fields.names],
            "times": times,
            "grid": fields.grid.token,
            "changed": changed_at(file),
        }
        with (
            job.summary.writing(output),
            tb.console.progress(times, "field", not job.silent) as show,
        ):
            result = function(blocks, fields.names)
            if fields.wind:
                result = tb.earth.xarrays.without_components(result, ds, fields.wind)
            write_blocks(
                result,
                along,
                output,
                options | plan,
                workers,
                lambda done: show(done, job.summary.command),
            )


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function of a ``Job`` and its own options into a command by adding the shared
    options."""

    def parameters(source: Callable) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(source, eval_str=True).parameters)

    own, shown = parameters(function), parameters(display)
    read = parameters(columns) if "file" in own else {}
    built = parameters(geometry) if own.pop("geometry", None) else {}
    del own["job"]
    options = own | built | read | shown

    def run(context: typer.Context, **given: Any) -> None:
        given = {
            name: value.expanduser() if isinstance(value, Path) else value
            for name, value in given.items()
        }
        job_options, asked, bundle = (
            {name: given.pop(name) for name in group} for group in (shown, read, built)
        )
        if built:
            given["geometry"] = {name: value for name, value in bundle.items() if value is not None}
        dim = bundle.get("dim") or given.get("dim")
        inputs = [given[name] for name in INPUTS if given.get(name)]
        job = Job(
            tb.io.Summary(function.__name__, context.obj), columns=asked, dim=dim, **job_options
        )
        _run(job, inputs, given.get("output"), {*options}, lambda job: function(job, **given))

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    signature = [context, *(p.replace(kind=p.KEYWORD_ONLY) for p in options.values())]
    run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return run


def as_options(text: str, options: set[str]) -> str:
    """Rewrite a message of the library for the tool: arguments become options.

    >>> as_options(
    ...     'use drop_missing=True, or vectors=("EAST", "NORTH"); mind dim=2.',
    ...     {"drop_missing", "vectors"},
    ... )
    'use --drop-missing, or --vectors EAST,NORTH; mind dim=2.'
    >>> (
    ...     as_options("error: no such file: seed=1/a.csv", {"seed"}),
    ...     as_options("seed must be positive", {"seed"}),
    ... )
    ('error: no such file: seed=1/a.csv', '--seed must be positive')
    """

    def option(match: re.Match) -> str:
        name, value = match[1], match[2] or ""
        if name not in options:
            return match[0]
        plain = re.sub("[(){}\"']", "", value).replace(", ", ",").replace(": ", "=").rstrip(",")
        return f"--{name.replace('_', '-')} {'' if value == 'True' else plain}".rstrip()

    text = re.sub(r"\bnoise_std\b=?", "noise=", text).replace(
        "return_std=", "std="
    )  # names in the estimators
    text = re.sub(rf"^((?:error: )?(?:{'|'.join(options)}))(?= must )", r"\1=", text)
    value = r"\(.*?\)|\{.*?\}|\"[^\"]*\"|'[^']*'|\.\.\.|\w+(?:\.\w+)*"
    return re.sub(rf"(?<![\w/])(?!\S*/)([a-z]+(?:_[a-z]+)*)=({value})?", option, text)


def _check_files(inputs: list[Path], output: Path | None, report: Path | None) -> None:
    """Raise, before anything is loaded, if an input is missing or an output cannot be written."""
    if output is not None:
        tb.io.check_output(None, output)
    if report is not None:
        tb.files.check_html(report)
    for path in inputs:
        tb.io.check_input(path)
        if output is not None and path.exists() and output.exists() and path.samefile(output):
            raise tb.errors.InvalidInputError(
                f"{output} is also the input and would be overwritten. Choose another name."
            )


def _run(
    job: Job,
    inputs: list[Path],
    output: Path | None,
    options: set[str],
    work: Callable[[Job], None],
) -> None:
    """Run a command; print results on stdout, warnings and errors on stderr, each on one line."""
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(
            signal.SIGTERM, lambda *_: sys.exit(143)
        )  # so that temporary files are removed
    started = time.perf_counter()
    caught: list[warnings.WarningMessage] = []
    try:
        _check_files(inputs, output, job.report)
        with warnings.catch_warnings(record=True) as recorded:
            caught = recorded
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", tb.errors.TangentBundleWarning)
            if not inputs:
                job.check_report()
            work(job)
        summary = job.summary
        summary.warnings += dict.fromkeys(
            as_options(str(w.message) + job.place_in_file(w.message), options) for w in caught
        )
        summary.notes = [as_options(note, options) for note in summary.notes]
        summary.seconds = time.perf_counter() - started
        if job.report is not None:
            with summary.writing(job.report):
                tb.report.write_report(summary, job.report)
    except typer.Exit:
        raise
    except Exception as error:
        if job.debug:
            raise
        code, lines = (
            1,
            [
                (
                    f"error: unexpected {type(error).__name__}: {error}. Run again with --debug "
                    "and report it."
                )
            ],
        )
        if isinstance(error, MemoryError):
            code, lines = 2, ["error: out of memory. Use fewer points or neighbours."]
        if isinstance(error, tb.errors.TangentBundleError):
            code = 2
            lines = [f"error: {error}{job.place_in_file(error)}"]
            lines += [f"warning: {w.message}{job.place_in_file(w.message)}" for w in caught]
        for line in lines:
            typer.echo(" ".join(as_options(line, options).split()), err=True)
        raise typer.Exit(code) from None
    if job.as_json:
        typer.echo(json.dumps(summary.to_json(), indent=2, allow_nan=False))
    elif not job.quiet:
        typer.echo(str(summary) + job.appendix)
        for text in summary.warnings:
            typer.echo(f"warning: {text}", err=True)
    if job.code:
        raise typer.Exit(job.code)
