"""``python -m tangentbundle`` is the command ``tangentbundle``."""

from tangentbundle_cli import app

if __name__ == "__main__":  # processes that it starts import this file, too
    app(prog_name="tangentbundle")
