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
    """Denoise a field on a torus and fill in a wind field, compared with simpler methods (half a minute).

    Examples:
        tangentbundle demo
    """
    from tangentbundle.experiments import demo as examples

    out.mkdir(parents=True, exist_ok=True)
    job.report = job.report or out / "report.html"
    with job.steps(3) as step:
        step("denoising a field on a torus")
        torus, wind = examples.denoise_torus(), examples.january()
        step("filling in the wind from stations")
        filled, stations = examples.fill_wind(wind)
        step("drawing")
        job.summary.table = table = examples.table(torus, filled)
        for title, method, error in table.body:
            label = "" if title in job.summary.data else title
            job.summary.tell(label, f"{method:<26}{error} error")
            job.summary.data.setdefault(title, {})[method] = error
        with job.summary.writing(out / "demo.png"):
            examples.figure(torus, filled, wind, stations, out / "demo.png")
