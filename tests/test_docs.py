"""Every Python block of the README and the documentation runs, and prints what the block after it says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```(?:\n```\n(.*?)```)?", re.DOTALL)
BLOCKS = [
    pytest.param(*match, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, match in enumerate(BLOCK.findall(page.read_text()))
]


def test_there_are_blocks():
    assert len(BLOCKS) >= 5


@pytest.mark.parametrize("code, output", BLOCKS)
def test_block(code, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "block", "exec"), {})
    if output:
        assert printed.getvalue() == output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name} links to {target}"
