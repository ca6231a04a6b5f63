"""The command-line tool, a separate package: ``tangentbundle`` loads on first use, so ``--help``
needs no torch."""

from typing import Annotated

import typer

import tangentbundle as tb
from tangentbundle.formats import format_names

from .decomposition import decompose
from .fields import inspect, spectrum
from .filtering import filter
from .forecasting import forecast
from .predict import denoise, interpolate
from .standalone import demo, doctor
from .tool import Commands, as_command

COMMANDS = (
    demo,
    inspect,
    denoise,
    interpolate,
    forecast,
    filter,
    decompose,
    spectrum,
    doctor,
)
"""Functions that are commands; ``--help`` lists them in this order."""

app = typer.Typer(
    name="tangentbundle", cls=Commands, no_args_is_help=True, pretty_exceptions_show_locals=False
)
for function in COMMANDS:
    app.command()(as_command(function))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tangentbundle {tb.__version__}")
        raise typer.Exit


QUESTIONS = (
    ("What is in my file?", "tangentbundle FILE"),
    ("Can I see it on a map?", "tangentbundle inspect FILE --report page.html"),
    ("Can the noise be removed?", "tangentbundle denoise FILE -o clean.csv"),
    ("What is between my stations?", "tangentbundle interpolate FILE --at places.csv -o out.csv"),
    ("What comes next?", "tangentbundle forecast SERIES --horizon 5 -o next.csv"),
    ("Can it be smoother?", 'tangentbundle filter GRID --scale "500 km" -o smooth.nc'),
    ("Where are sources and eddies?", "tangentbundle decompose GRID -o parts.nc"),
)
"""What people ask, and the commands that answer."""

LINES = "\n".join(f"{question:<30} {command}" for question, command in QUESTIONS)

HELP = f"""Analyse, denoise, interpolate and forecast vector fields: wind, currents, motion.

\b
{LINES}

Files are {format_names()}. Columns are found by name, or named by options.
"""


@app.callback(help=HELP)
def main(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version)] = False,
) -> None:
    """What stands before all commands."""
