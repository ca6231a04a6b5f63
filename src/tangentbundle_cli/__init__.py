"""The command line, in a package of its own so that ``tangentbundle --help`` loads neither torch nor the library."""

import typer

from .reproduce import reproduce

app = typer.Typer(name="tangentbundle", no_args_is_help=True, pretty_exceptions_show_locals=False)
app.command()(reproduce)


@app.callback()
def main() -> None:
    """Learning with vector fields on curved spaces."""
