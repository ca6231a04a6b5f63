"""Every tutorial runs, prints what its notebook shows, and can be read in a quarter of an hour."""

import re
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from pages import check

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "docs/tutorials").glob("*.py"))
MAX_WORDS = 1200
"""Of text, besides code."""

MAX_BYTES = 400_000
"""Of a notebook with its pictures."""


@pytest.fixture
def runner(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return import_module("run_tutorials")


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts/pages")
    return import_module("tutorials")


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_it_runs_and_prints_what_the_notebook_shows(source, runner, tmp_path):
    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    notebook = runner.execute(source, tmp_path)
    check(runner.printed(notebook), runner.printed(stored), source.name)
    streams = [output for output in runner.outputs(notebook) if output.output_type == "stream"]
    assert all(stream.name == "stdout" for stream in streams), "a cell warns"
    pictures = ["image/png" in output.get("data", {}) for output in runner.outputs(notebook)]
    assert sum(pictures) >= 3


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_notebook_is_that_of_the_source(source, runner):
    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    cells = runner.read(source).cells
    assert [cell.source for cell in stored.cells] == [cell.source for cell in cells]
    assert source.with_suffix(".ipynb").stat().st_size < MAX_BYTES


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_it_asks_surprises_and_is_short(source, runner):
    text = "\n".join(
        cell.source for cell in runner.read(source).cells if cell.cell_type == "markdown"
    )
    assert text.splitlines()[0].startswith("# ") and text.splitlines()[0].count("?") == 1
    for part in ("**The question.**", "surprise", "## Exercise", "## What you have seen"):
        assert part in text
    assert len(text.split()) < MAX_WORDS


def test_the_site_has_every_tutorial_with_texts_for_its_pictures(pages):
    assert sorted(pages.ORDER) == [source.stem for source in SOURCES]
    for tutorial in pages.tutorials():
        page = tutorial.page()
        texts = re.findall(r"!\[([^\]]*)\]\(", page)
        assert len(texts) == len(tutorial.picture_texts) >= 3
        assert all(len(text) > 20 for text in texts)
        index = (ROOT / "docs/tutorials/index.md").read_text()
        assert f"[{tutorial.title}]({tutorial.name}.md)" in index


def test_links_of_tutorials_exist(pages):
    for tutorial in pages.tutorials():
        for target in re.findall(r"\]\(([^)#]+\.md)[)#]", tutorial.page()):
            path = ROOT / "docs/tutorials" / target
            known = path.exists() or path.with_suffix(".py").exists()
            assert known, f"{tutorial.name} links to {target}"
