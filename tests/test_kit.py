"""What surrounds the code agrees with it: recipe, citation, paper, workflows and templates."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA_NAMES = {"torch": "pytorch"}
"""Packages that have another name on conda-forge than on PyPI."""


def read_yaml(path: str):
    return yaml.safe_load((ROOT / path).read_text())


def test_the_recipe_has_the_dependencies_of_the_package():
    recipe = read_yaml("conda/recipe.yaml")
    expected = set()
    for requirement in PROJECT["dependencies"]:
        name, version = re.fullmatch(r"([\w.-]+)(>=[\d.]+)", requirement).groups()
        expected.add(f"{CONDA_NAMES.get(name, name)} {version}")
    assert set(recipe["requirements"]["run"][1:]) == expected
    assert recipe["context"]["version"] == PROJECT["version"]
    assert recipe["about"]["license"] == PROJECT["license"]


def test_citation_and_archive_name_this_version():
    citation = read_yaml("CITATION.cff")
    archive = json.loads((ROOT / ".zenodo.json").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["title"] == archive["title"]
    assert citation["license"] == archive["license"] == PROJECT["license"]
    assert set(citation) >= {"cff-version", "message", "authors", "repository-code", "abstract"}


def test_the_paper_cites_what_its_bibliography_has():
    paper = (ROOT / "paper/paper.md").read_text()
    bibliography = (ROOT / "paper/paper.bib").read_text()
    entries = re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE)
    cited = set(re.findall(r"@(\w+\d{4}\w+)", paper))
    assert len(entries) == len(set(entries))
    assert cited == set(entries)
    for part in ("# Summary", "# Statement of need", "# State of the field", "# References"):
        assert part in paper
    assert 250 < len(paper.split("---", 2)[2].split()) < 1000


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name)
def test_workflows_and_templates_can_be_read(path):
    content = yaml.safe_load(path.read_text())
    if path.parent.name == "workflows":
        for job in content["jobs"].values():
            assert {"runs-on", "steps"} <= set(job)
            needs = job.get("needs", [])
            assert set([needs] if isinstance(needs, str) else needs) <= set(content["jobs"])


def test_badges_point_at_what_exists():
    badges = re.findall(r"\[!\[[^\]]*\]\(([^)]+)\)\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert badges
    for image, target in badges:
        workflow = re.search(r"/workflows/([\w.]+)", image + target)
        exists = (ROOT / ".github/workflows" / workflow[1] if workflow else ROOT / target).exists()
        assert exists, f"a badge points at {target}"
