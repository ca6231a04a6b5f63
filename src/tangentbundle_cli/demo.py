"""The command that people try first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tangentbundle as tb

from .job import Job, command


@command
def demo(
    job: Job, out: Annotated[Path, typer.Option(help="folder of the figure and the report")] = Path("out/demo")
) -> None:
    """Denoise a field on a torus and fill in a wind field, compared with simpler methods (half a minute).

    Examples:
        tangentbundle demo
    """
    from tangentbundle.experiments import demo as examples

    out.mkdir(parents=True, exist_ok=True)
    job.report = job.report or out / "report.html"
    with job.steps(3) as step:
        step("denoising a field on a torus")
        torus = examples.denoise_torus()
        step("filling in the wind from stations")
        filled, wind, stations = examples.fill_wind()
        step("drawing")
        body = []
        for example in (torus, filled):
            errors = example.errors()
            for number, (method, error) in enumerate(errors.items()):
                job.summary.tell("" if number else example.title, f"{method:<26}{error:.0%} error")
                body.append([example.title, method, f"{error:.0%}"])
            job.summary.data[example.title] = errors
        job.summary.table = tb.io.Table("Error relative to the true field", ["example", "method", "error"], body)
        with job.summary.writing(out / "demo.png"):
            examples.figure(torus, filled, wind, stations, out / "demo.png")
