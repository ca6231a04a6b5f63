"""The command ``python -m experiments``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from tangentbundle.errors import TangentBundleError
from tangentbundle.files import write_atomically

from . import EXPERIMENTS, experiment
from .base import merge_with, run_experiment
from .published import BENCHMARKS, benchmark
from .published.base import run_benchmark, table_of
from .report import write_report

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _number_of_processes(value: int) -> int:
    if value > 0 or value == -1:
        return value
    raise typer.BadParameter(f"expected -1 or a positive number, got {value}.")


def _seed(value: int) -> int:
    if value >= 0:
        return value
    raise typer.BadParameter(f"expected a number that is not negative, got {value}.")


JOBS = typer.Option(callback=_number_of_processes, help="number of processes; -1 for all cores")
RESUME = typer.Option("--resume/--no-resume", help="keep finished runs of the folder")
QUIET = typer.Option(help="print errors and warnings alone")

HELP = """{title}: compute this table and compare it with the paper's numbers.

Writes one JSON line for each run, all scores as CSV, a Markdown page and a figure.

Example: python -m experiments {name} --full --jobs 2
"""


def add_table(name: str) -> None:
    """Make the command that computes a table."""

    @app.command(name, help=HELP.format(title=EXPERIMENTS[name].about.title, name=name))
    def compute(
        full: Annotated[
            bool, typer.Option("--full/--quick", help="all cells and runs, or a small subset")
        ] = False,
        protocol: Annotated[
            Literal["paper", "best"] | None,
            typer.Option(
                help="the paper's protocol, or this library's best methods; default paper, where "
                "there is one"
            ),
        ] = None,
        data: Annotated[
            str | None, typer.Option(help="wind: gfs, embedded, or ncep (the paper's, downloaded)")
        ] = None,
        seed: Annotated[int, typer.Option(callback=_seed, help="of all random numbers")] = 0,
        jobs: Annotated[int, JOBS] = 1,
        out: Annotated[
            Path | None, typer.Option(help="folder; default runs/<name>-<protocol>-<quick|full>")
        ] = None,
        networks: Annotated[
            Path | None,
            typer.Option(
                help="folder with results of the paper's protocol; adds their networks to the table"
            ),
        ] = None,
        resume: Annotated[bool, RESUME] = True,
        quiet: Annotated[bool, QUIET] = False,
    ) -> None:
        with errors_as_text():
            reproduce(
                name,
                full=full,
                protocol=protocol,
                data=data,
                seed=seed,
                jobs=jobs,
                out=out,
                networks=networks,
                resume=resume,
                quiet=quiet,
            )


for table in EXPERIMENTS:
    add_table(table)


@app.command("published")
def compare(
    name: Annotated[str, typer.Argument(help=", ".join(BENCHMARKS))],
    data: Annotated[
        Path | None, typer.Option(help="folder with the files of the benchmark")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="the table, or a short trial")
    ] = True,
    device: Annotated[str, typer.Option(help="of the networks, such as cuda")] = "cpu",
    jobs: Annotated[int, JOBS] = 1,
    out: Annotated[
        Path | None, typer.Option(help="folder; default runs/published-<name>-<quick|full>")
    ] = None,
    resume: Annotated[bool, RESUME] = True,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Compute the rows of a benchmark that others have published, and show them beside theirs.

    Writes one JSON line for each run, and the table in Markdown.

    Example: python -m experiments published meshpde --data meshpde --jobs 2
    """
    with errors_as_text():
        chosen = benchmark(name, data, device)
        folder = out
        if folder is None:
            folder = Path("runs") / f"published-{name}-{_form(full)}"
        rows = run_benchmark(chosen, folder, full=full, jobs=jobs, resume=resume, quiet=quiet)
        table = table_of(chosen, rows)
        write_atomically(folder / "table.md", table.markdown().encode())
        if not quiet:
            typer.echo(table.text() + "\n")
            typer.echo(f"wrote {folder / 'results.jsonl'}\nwrote {folder / 'table.md'}")


@contextmanager
def errors_as_text() -> Iterator[None]:
    """Print errors of the library as one sentence, and end with status 2."""
    try:
        yield
    except TangentBundleError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def reproduce(
    name: str,
    *,
    full: bool = False,
    protocol: str | None = None,
    data: str | None = None,
    seed: int = 0,
    jobs: int = 1,
    out: Path | None = None,
    networks: Path | None = None,
    resume: bool = True,
    quiet: bool = False,
) -> None:
    """Run an experiment, write its results to a folder, and print its comparison with the paper."""
    chosen = experiment(name, data)
    if protocol is None:
        protocol = chosen.protocols[0]
    folder = out
    if folder is None:
        folder = default_folder(name, protocol, full, data)
    rows = run_experiment(
        chosen,
        folder,
        full=full,
        protocol=protocol,
        seed=seed,
        jobs=jobs,
        resume=resume,
        quiet=quiet,
    )
    if networks is not None:
        rows = merge_with(chosen, rows, networks, full=full, seed=seed)
    results, files = write_report(chosen, rows, protocol, folder, full)
    if quiet:
        return
    typer.echo(results.comparison().text() + "\n")
    for file in (folder / "results.jsonl", *files):
        typer.echo(f"wrote {file}")


def default_folder(name: str, protocol: str, full: bool, data: str | None) -> Path:
    """The folder of a run in ``runs``, named after its settings."""
    words = [name, protocol, _form(full)]
    if data:
        words.append(data)
    return Path("runs") / "-".join(words)


def _form(full: bool) -> str:
    """The name of the quick or the full form."""
    if full:
        return "full"
    return "quick"
