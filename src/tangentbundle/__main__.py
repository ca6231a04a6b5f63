"""``python -m tangentbundle`` is the command ``tangentbundle``."""

from tangentbundle_cli import app

app(prog_name="tangentbundle")
