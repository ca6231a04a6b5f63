"""The gallery: a page for each file of ``examples/``, with what it printed and drew
(``scripts/run_examples.py``)."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Example:
    """A script that prints, draws ``out/<name>.png``, and says in its docstring what it shows."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def picture(self) -> Path:
        return ROOT / f"docs/gallery/{self.name}.png"

    @property
    def output(self) -> Path:
        return ROOT / f"docs/gallery/{self.name}.txt"

    @property
    def docstring(self) -> str:
        return ast.get_docstring(ast.parse(self.path.read_text())) or self.name

    @property
    def title(self) -> str:
        return self.docstring.splitlines()[0].split(":")[0].rstrip(".")

    def page(self) -> str:
        code = self.path.read_text()
        body = code.split('"""', 2)[2].strip()
        text = self.docstring.split("\n", 1)[1].strip() if "\n" in self.docstring else ""
        return (
            "# "
            f"{self.title}\n\n{self.docstring.splitlines()[0]}\n\n![{self.title}]({self.name}.png)\n\n{text}\n\n"
            "```console\n$ python "
            f"examples/{self.path.name}\n{self.output.read_text()}```\n\n```python\n{body}\n```\n"
        )


FIRST = ("heat_flow", "wind_map", "parallel_transport", "sphere_spectrum", "frequencies")
"""Shown before the others."""


def examples() -> list[Example]:
    found = {path.stem: Example(path) for path in sorted((ROOT / "examples").glob("*.py"))}
    return [found.pop(name) for name in FIRST] + list(found.values())


def index(found: list[Example]) -> str:
    cards = "\n".join(
        (
            f'<a href="{e.name}.html"><img src="{e.name}.png" '
            f'alt="{e.title}"><span>{e.title}</span></a>'
        )
        for e in found
    )
    text = (
        "Each example is a short script of the folder `examples`, run as it stands; `python "
        "scripts/run_examples.py` makes the pictures and what was printed anew."
    )
    return f'# Gallery\n\n{text}\n\n<div class="gallery">\n{cards}\n</div>\n'


def on_files(files: Files, config: MkDocsConfig) -> Files:
    found = examples()
    files.append(File.generated(config, "gallery/index.md", content=index(found)))
    for example in found:
        files.append(File.generated(config, f"gallery/{example.name}.md", content=example.page()))
    entry = ["gallery/index.md", *({e.title: f"gallery/{e.name}.md"} for e in found)]
    config.nav = [
        {"Gallery": entry} if item == {"Gallery": "gallery/"} else item for item in config.nav or []
    ]
    return files
