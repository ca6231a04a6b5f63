"""The command line, in a package of its own: ``tangentbundle`` then loads a module when it is first asked for.

``--help`` so loads neither torch nor NumPy.
"""

from typing import Annotated

import typer

import tangentbundle as tb

from .fields import inspect, spectrum
from .filtering import decompose, filter
from .job import Commands
from .predict import denoise, forecast, interpolate
from .standalone import demo, doctor, reproduce

app = typer.Typer(name="tangentbundle", cls=Commands, no_args_is_help=True, pretty_exceptions_show_locals=False)
for function in (demo, inspect, denoise, interpolate, forecast, filter, decompose, spectrum, doctor, reproduce):
    app.command()(function)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tangentbundle {tb.__version__}")
        raise typer.Exit


@app.callback()
def main(version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version)] = False) -> None:
    """Learning with vector fields on curved spaces.

    Files are CSV, Parquet, NPZ, PLY, OBJ, STL, VTK, NetCDF or Zarr; columns are found by name, or named by options.
    """
