"""The command-line tool, a separate package: ``tangentbundle`` loads on first use, so ``--help``
needs no torch."""

from typing import Annotated

import typer

import tangentbundle as tb

from .fields import inspect, spectrum
from .filtering import decompose, filter
from .job import Commands
from .predict import denoise, forecast, interpolate
from .standalone import demo, doctor

app = typer.Typer(
    name="tangentbundle", cls=Commands, no_args_is_help=True, pretty_exceptions_show_locals=False
)
for function in (
    demo,
    inspect,
    denoise,
    interpolate,
    forecast,
    filter,
    decompose,
    spectrum,
    doctor,
):
    app.command()(function)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tangentbundle {tb.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version)] = False,
) -> None:
    """Analyse, denoise, interpolate and forecast vector fields on curved spaces.

    Reads and writes CSV, Parquet, NPZ, PLY, OBJ, STL, VTK, NetCDF and Zarr. Columns are found by
    name, or named by options.
    """
