"""``tangentbundle reproduce``: the paper's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .job import Job, command

Name = Literal["torus", "reconstruction", "forecast", "classification"]


@command
def reproduce(
    job: Job,
    name: Annotated[Name, typer.Argument(help="which of the paper's tables")],
    full: Annotated[bool, typer.Option("--full/--quick", help="all cells and runs, or a few")] = False,
    protocol: Annotated[
        Literal["paper", "best"], typer.Option(help="the paper's text, or what this library does best")
    ] = "paper",
    data: Annotated[str | None, typer.Option(help="wind: gfs, embedded, or ncep (the paper's, downloaded)")] = None,
    seed: Annotated[int, typer.Option(help="of every draw")] = 0,
    jobs: Annotated[int, typer.Option(help="processes; -1 for all cores")] = 1,
    out: Annotated[Path | None, typer.Option(help="folder; default runs/<name>-<protocol>-<quick|full>")] = None,
    networks: Annotated[
        Path | None, typer.Option(help="folder of finished results of the paper's protocol, to show their networks")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume/--no-resume", help="keep finished runs of the folder")] = True,
) -> None:
    """Compute one of the paper's tables and compare it with the paper's numbers.

    Files: one JSON line for each run, all scores as CSV, a Markdown page, a figure.

    Example: tangentbundle reproduce torus --full --jobs 2
    """
    from tangentbundle.experiments import experiment
    from tangentbundle.experiments.report import write_report
    from tangentbundle.experiments.runner import merge_with, run_experiment

    words = [name, protocol, "full" if full else "quick", *filter(None, [data])]
    folder, chosen = out or Path("runs") / "-".join(words), experiment(name, data)
    how: dict[str, Any] = {"jobs": jobs, "resume": resume, "quiet": job.silent}
    rows = run_experiment(chosen, folder, full=full, protocol=protocol, seed=seed, **how)
    if networks is not None:
        rows = merge_with(chosen, rows, networks, full=full, seed=seed)
    results, files = write_report(chosen, rows, protocol, folder)
    if not job.silent:
        typer.echo(results.comparison().text() + "\n")
    job.summary.table = results.full()
    job.summary.tell("table", job.summary.table.title, experiment=name, protocol=protocol, runs=len(rows))
    job.summary.files = [folder / "results.jsonl", *files]
    job.summary.rows += [("wrote", str(file)) for file in job.summary.files]
