"""Every block of code of README and documentation runs, and prints what the page says (how exactly:
`pages`)."""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from pages import blocks, check, run_python, run_shell, run_tool

import tangentbundle as tb

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.ipynb"))
LONG_PAGES = ["docs/results/README.md"]
LONG = ("heat_flow", "transfer", "wind_map")
FIRST_STEPS = [ROOT / "docs/start.md", ROOT / "README.md"]
BIN = Path(sys.executable).parent
IN_A_CLONE = ("make ", "source ", "python -m experiments ")
"""Commands of a clone; `test_a_newcomer` runs those of the first pages."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("examples", "experiments/published/weights"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_blocks():
    assert sum(len(blocks(page.read_text())) for page in PAGES) > 40


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, id=name, marks=[pytest.mark.slow] * (name in LONG_PAGES))
        for p, name in zip(PAGES, NAMES, strict=True)
    ],
)
def test_page(page, folder):
    for block in blocks(page.read_text()):
        if block.kind == "python":
            printed = run_python(block.text)
            if block.output is not None:
                check(printed, block.output, block.text)
            continue
        for command, output in block.commands:
            words = shlex.split(command)
            if command.startswith(IN_A_CLONE):
                continue
            printed = (
                run_tool(words[1:])
                if words[0] == "tangentbundle"
                else run_shell([command], folder, BIN)[0]
            )
            check(printed, output, f"$ {command}")


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(e, id=e.stem, marks=[pytest.mark.slow] if e.stem in LONG else [])
        for e in EXAMPLES
    ],
)
def test_example(example, folder, capsys):
    """It prints what the gallery says and draws a picture, and the gallery has one."""
    runpy.run_path(str(example), run_name="__main__")
    check(
        capsys.readouterr().out,
        (ROOT / f"docs/gallery/{example.stem}.txt").read_text(),
        example.name,
    )
    assert Path(f"out/{example.stem}.png").stat().st_size > 5000
    assert (ROOT / f"docs/gallery/{example.stem}.png").stat().st_size > 5000


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_and_pictures_exist(page):
    made = {
        "gallery/index.md",
        "reference/index.md",
        *(f"gallery/{e.stem}.md" for e in EXAMPLES),
        *(f"tutorials/{t.stem}.md" for t in TUTORIALS),
    }
    for target in re.findall(r"\]\(([^)#]+)[)#]", page.read_text()):
        path = page.parent / target
        generated = os.path.relpath(path, ROOT / "docs") in made
        assert target.startswith("https://") or path.exists() or generated, (
            f"{page.name} links to {target}"
        )


def test_the_reference_has_every_public_name(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts/pages")
    reference = import_module("reference")
    modules = reference.public_modules()
    packages = {path.parent.name for path in (ROOT / "src/tangentbundle").glob("*/__init__.py")}
    offered = {name for name in packages if hasattr(getattr(tb, name), "__all__")}
    assert offered <= set(modules), (
        "a package with an __all__ is missing in scripts/pages/reference.py"
    )
    for module in modules.values():
        names = reference.public_names(module)
        assert names and all(getattr(getattr(module, name), "__doc__", None) for name in names)


def test_formulas_become_mathml(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts/pages")
    mathml, count = import_module("formulas").mathml, 0
    for page in PAGES:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        for block, inline in re.findall(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$]+?)\$", text, re.DOTALL):
            assert mathml(block or inline).startswith("<math")
            count += 1
    assert count > 100


@pytest.mark.slow
def test_the_site_builds_and_needs_no_network(tmp_path):
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text()
        assert not re.search(
            r'<(?:script|img|iframe)[^>]+src="?https?:|<link[^>]+stylesheet[^>]+https?:', text
        ), page.name
        assert "arithmatex" not in text and ":math:" not in text, (
            f"{page.name} has a formula that was not made"
        )
    sections = json.loads((tmp_path / "search/search_index.json").read_text())["docs"]
    places = {section["location"] for section in sections}
    assert "concepts.html#frame" in places
    assert not any(place.startswith("results/") and "/table" in place for place in places)
    masks = [s["location"] for s in sections if "land mask" in (s["title"] + s["text"]).lower()]
    assert "howto/smooth.html#coasts-and-land-masks" in masks
    assert all(section["text"] == "" for section in sections if "#tables" in section["location"])


@pytest.mark.slow
def test_a_newcomer(tmp_path):
    """A fresh clone, and every command of the first pages as printed, one after the other (takes
    minutes)."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tmp_path / "clone")], check=True)
    found = [
        block
        for page in FIRST_STEPS
        for block in blocks(page.read_text())
        if block.kind == "console"
    ]
    steps = dict(
        step for block in found for step in block.commands
    )  # what both pages ask for is done once
    printed = run_shell(list(steps), tmp_path / "clone")
    for (command, output), got in zip(steps.items(), printed, strict=True):
        check(got, output, f"$ {command}")


def test_every_warning_has_its_section_and_every_error_its_row(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts/pages")
    troubleshooting = import_module("troubleshooting")
    page = (ROOT / "docs/troubleshooting.md").read_text()
    names = [warning.__name__ for warning in troubleshooting.warning_classes()]
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == names
    completed = troubleshooting.complete(page)
    for thing in troubleshooting.classes_below(tb.errors.TangentBundleError):
        assert f"| `{thing.__name__}` | {troubleshooting.meaning(thing)} |" in completed
    assert set(troubleshooting.messages()) == set(names), "a warning is never given"


GUIDES = [*(ROOT / "docs/howto").glob("*.md"), *(ROOT / "docs").glob("*.md")]
WITHOUT_CONCEPTS = {
    "benchmarks",
    "published",
    "robustness",
    "compared",
    "concepts",
    "gpu",
    "threads",
    "cluster",
}
"""Pages of numbers, and of machines."""


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guides_lead_to_the_concepts_and_pictures_have_texts(page):
    text = page.read_text()
    if page.stem not in WITHOUT_CONCEPTS:
        assert "concepts.md" in text
    for description in re.findall(r"!\[([^\]]*)\]\(|<img alt=\"([^\"]*)\"", text):
        assert len(" ".join(description).split()) >= 3, f"{page.name}: {description}"
