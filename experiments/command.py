"""The command ``python -m experiments``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tangentbundle.errors import TangentBundleError

from . import experiment
from .base import merge_with, run_experiment
from .report import write_report

Name = Literal["torus", "reconstruction", "forecast", "classification", "general"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _number_of_processes(value: int) -> int:
    if value > 0 or value == -1:
        return value
    raise typer.BadParameter(f"expected -1 or a positive number, got {value}.")


def _seed(value: int) -> int:
    if value >= 0:
        return value
    raise typer.BadParameter(f"expected a number that is not negative, got {value}.")


@app.command()
def main(
    name: Annotated[Name, typer.Argument(help="table of the paper, or general: other data")],
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
    jobs: Annotated[
        int,
        typer.Option(callback=_number_of_processes, help="number of processes; -1 for all cores"),
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="folder; default runs/<name>-<protocol>-<quick|full>")
    ] = None,
    networks: Annotated[
        Path | None,
        typer.Option(
            help="folder with results of the paper's protocol; adds their networks to the table"
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="keep finished runs of the folder")
    ] = True,
    quiet: Annotated[bool, typer.Option(help="print errors and warnings alone")] = False,
) -> None:
    """Compute one of the paper's tables and compare it with the published numbers.

    Writes one JSON line for each run, all scores as CSV, a Markdown page and a figure.

    Example: python -m experiments torus --full --jobs 2
    """
    try:
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
    form = "quick"
    if full:
        form = "full"
    words = [name, protocol, form]
    if data:
        words.append(data)
    return Path("runs") / "-".join(words)
