"""The command that people try first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .job import Job, command


@command
def demo(
    job: Job, out: Annotated[Path, typer.Option(help="folder of the figure and the report")] = Path("out/demo")
) -> None:
    """Denoise a field on a torus and fill in a wind field, each beside simpler methods (half a minute).

    Examples:
        tangentbundle demo
    """
    out.mkdir(parents=True, exist_ok=True)
    job.report = job.report or out / "report.html"
    from tangentbundle.experiments import demo as examples

    with job.steps(3) as step:
        step("denoising a field on a torus")
        torus, wind = examples.denoise_torus(), examples.january()
        step("filling in the wind from stations")
        filled, stations = examples.fill_wind(wind)
        step("drawing")
        with job.summary.writing(out / "demo.png"):
            examples.figure(torus, filled, wind, stations, out / "demo.png")
    job.summary.table = examples.table(torus, filled)
    for title, method, error in job.summary.table.body:
        job.summary.tell(f"{title}:", f"{method:<26}{error}")
