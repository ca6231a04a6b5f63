"""Run the tutorials and keep them with what they print and draw:
``python scripts/run_tutorials.py [NAME ...]``.

A tutorial is written as ``docs/tutorials/NAME.py``, in the percent format of jupytext; this writes
``docs/tutorials/NAME.ipynb``. The tests run the sources again and compare.
"""

from __future__ import annotations

import base64
import io
import os
import sys
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from PIL import Image

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs/tutorials"
MAX_COLORS = 128
"""Colours of a picture: enough for figures, and a third of the size."""

NO_WIDGETS = "IProgress not found"
"""The beginning of a warning of tqdm in kernels without widgets, which is no news to readers."""

MAX_SECONDS = 900
"""Of one cell, on a busy machine."""


def sources() -> list[Path]:
    """The tutorials as they are written."""
    return sorted(TUTORIALS.glob("*.py"))


def read(source: Path) -> nbformat.NotebookNode:
    """A tutorial as a notebook without outputs, whose cells are named by their number."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def smaller(picture: str) -> str:
    """A PNG file in base64 with fewer colours."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    content = io.BytesIO()
    image.quantize(MAX_COLORS).save(content, format="png", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def execute(source: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs, run in a folder."""
    notebook = read(source)
    client = NotebookClient(
        notebook,
        timeout=MAX_SECONDS,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    client.execute(
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PYTHONWARNINGS": f"ignore:{NO_WIDGETS}",
        }
    )
    for output in outputs(notebook):
        data = output.get("data", {})
        if "image/png" in data:
            data["image/png"] = smaller(data["image/png"])
            data.pop("text/plain", None)
    return notebook


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """What all cells printed, returned and drew."""
    return [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.get("outputs", [])
    ]


def printed(notebook: nbformat.NotebookNode) -> str:
    """The text that a notebook prints and returns."""
    texts = []
    for output in outputs(notebook):
        if output.output_type == "stream":
            texts.append(output.text)
        elif "text/plain" in output.get("data", {}):
            texts.append(output.data["text/plain"] + "\n")
    return "".join(texts)


def main(names: list[str]) -> None:
    for source in sources():
        if names and source.stem not in names:
            continue
        start = time.perf_counter()
        notebook = execute(source, TUTORIALS)
        nbformat.write(notebook, source.with_suffix(".ipynb"))
        size = source.with_suffix(".ipynb").stat().st_size
        seconds = time.perf_counter() - start
        print(f"{source.stem}: {seconds:.0f} s, {size / 1e3:.0f} kB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
