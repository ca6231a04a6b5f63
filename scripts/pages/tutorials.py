"""The tutorials: a page for each notebook of ``docs/tutorials``, with its outputs
(``scripts/run_tutorials.py``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

TUTORIALS = Path(__file__).parents[2] / "docs/tutorials"
REPOSITORY = "tangentbundle/tangentbundle"
ORDER = ("wind", "scan", "neural", "compare", "sheaves", "paper")
"""From the first to read to the last."""

PICTURE = re.compile(r"!\[png\]\((?P<name>[^)]+)\)")
PRINTED = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.MULTILINE)
FENCE = re.compile(r"(```.*?```\n)", re.DOTALL)


@dataclass(frozen=True)
class Tutorial:
    """A notebook, whose first line is its title, and what a reader needs to run it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def notebook(self) -> nbformat.NotebookNode:
        return nbformat.read(self.path, as_version=4)

    @property
    def title(self) -> str:
        return self.notebook.cells[0].source.splitlines()[0].removeprefix("# ")

    @cached_property
    def picture_texts(self) -> list[str]:
        """What each picture shows, for those who do not see it."""
        return [
            cell.metadata["alt"]
            for cell in self.notebook.cells
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {})
        ]

    @cached_property
    def converted(self) -> tuple[str, dict[str, bytes]]:
        """Markdown, and its pictures by their file names."""
        exporter = MarkdownExporter()
        resources = {"unique_key": self.name, "output_files_dir": f"{self.name}_files"}
        text, resources = exporter.from_notebook_node(self.notebook, resources)
        return text, resources["outputs"]

    def page(self) -> str:
        text, _ = self.converted
        texts = iter(self.picture_texts)
        text = PICTURE.sub(lambda match: f"![{next(texts)}]({match['name']})", text)
        text = "".join(
            part if part.startswith("```") else PRINTED.sub(fenced, part)
            for part in FENCE.split(text)
        )
        title, body = text.split("\n", 1)
        return f"{title}\n\n{self.places()}\n{body}"

    def places(self) -> str:
        """Where the notebook can be run."""
        path = f"docs/tutorials/{self.path.name}"
        colab = f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/{path}"
        binder = f"https://mybinder.org/v2/gh/{REPOSITORY}/main?labpath={path}"
        links = f"[Colab]({colab}), [Binder]({binder}), or [the notebook]({self.path.name})"
        return f"<small>Run it: {links} on your computer.</small>\n"


def fenced(match: re.Match[str]) -> str:
    """What a cell printed, as a block without colours."""
    if not match[0].strip():
        return match[0]
    lines = [line.removeprefix("    ") for line in match[0].strip("\n").splitlines()]
    return "\n".join(["```text", *lines, "```", ""])


def tutorials() -> list[Tutorial]:
    """All notebooks in the order in which to read them."""
    return [Tutorial(TUTORIALS / f"{name}.ipynb") for name in ORDER]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the entry of the tutorials in the navigation by their pages."""
    entries: list = ["tutorials/index.md"]
    for tutorial in tutorials():
        path = f"tutorials/{tutorial.name}.md"
        files.append(File.generated(config, path, content=tutorial.page()))
        for name, content in tutorial.converted[1].items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
        entries.append({tutorial.title: path})
    config.nav = [
        {"Tutorials": entries} if item == {"Tutorials": "tutorials/"} else item
        for item in config.nav or []
    ]
    return files
