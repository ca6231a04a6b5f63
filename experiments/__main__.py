"""``python -m experiments NAME``."""

from .command import app

app(prog_name="python -m experiments")
