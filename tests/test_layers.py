"""The order of the packages is the flow of data: a module imports only from its own package and
from earlier ones."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tangentbundle

SOURCE = Path(tangentbundle.__file__).parents[1]

ORDER = [
    "errors",
    "arguments",
    "transforms",
    "arrays",
    "files",
    "console",
    "parallel",
    "memory",
    "extras",
    "download",
    "timeline",
    "units",
    "winds",
    "layout",
    "formats",
    "geometry",
    "meshes",
    "manifolds",
    "operators",
    "sheaf",
    "calculus",
    "diagnostics",
    "geodesics",
    "batch",
    "signals",
    "edge_weights",
    "bundle",
    "upright",
    "spaces",
    "filters",
    "directions",
    "nn",
    "architecture",
    "saving",
    "training",
    "estimators",
    "forecast",
    "earth",
    "datasets",
    "io",
    "plot",
    "interop",
    "distributed",
    "results",
    "report",
    "testing",
    "__init__",
    "cli",
    "__main__",
]
"""Every module and package of ``tangentbundle``; ``cli`` is the package ``tangentbundle_cli``."""


def module_name(path: Path, root: Path = SOURCE) -> str:
    """The dotted name of a module; a package is its ``__init__``."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def top_level(module: str) -> str:
    """The entry of ``ORDER`` that a module belongs to."""
    package, _, rest = module.partition(".")
    return "cli" if package == "tangentbundle_cli" else rest.split(".")[0] or "__init__"


def imports(source: str, module: str, is_package: bool, known: set[str]) -> set[str]:
    """Modules that a module imports, also inside functions; imports for type checkers alone do not
    count."""
    found, pending = set(), [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            levels = node.level - is_package if node.level else 0
            base = module.split(".")[: len(module.split(".")) - levels] if node.level else []
            source_module = ".".join([*base, *([node.module] if node.module else [])])
            members = {f"{source_module}.{alias.name}" for alias in node.names}
            found |= (members & known) | ({source_module} if members - known else set())
    return (found & known) - {module}


def packages_used(source: str) -> set[str]:
    """The names of the packages that a source imports absolutely, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def library() -> dict[str, set[str]]:
    """Each module of the library and the tool, with the modules that it imports."""
    paths = [
        p
        for package in ("tangentbundle", "tangentbundle_cli")
        for p in sorted((SOURCE / package).rglob("*.py"))
    ]
    known = {module_name(path) for path in paths}
    return {
        module_name(path): imports(
            path.read_text(), module_name(path), path.name == "__init__.py", known
        )
        for path in paths
    }


LIBRARY = library()


def later(module: str, used: set[str], order: list[str] = ORDER) -> set[str]:
    """Those of the used modules that come after a module."""
    place = order.index(top_level(module))
    return {name for name in used if order.index(top_level(name)) > place}


def test_the_order_names_every_module():
    found = {top_level(module) for module in LIBRARY}
    assert found - {*ORDER} == set() and {*ORDER} == found and len(ORDER) == len({*ORDER})


@pytest.mark.parametrize("module", LIBRARY)
def test_imports_only_what_comes_before(module):
    assert later(module, LIBRARY[module]) == set()


def test_no_cycles():
    """Not between modules of one package either, nor by imports inside functions."""
    TopologicalSorter(LIBRARY).prepare()


def test_the_library_knows_nothing_beside_it():
    """Experiments, benchmarks and stress tests use the library; it does not use them."""
    beside = {"experiments", "benchmarks", "harness", "stress"}
    assert packages_used("import stress.kills\nfrom experiments.base import draw") & beside
    for package in ("tangentbundle", "tangentbundle_cli"):
        for path in (SOURCE / package).rglob("*.py"):
            assert packages_used(path.read_text()) & beside == set(), path


def test_the_reader_of_imports_reads():
    known = {
        "tangentbundle",
        *(f"tangentbundle.{name}" for name in "abcdefg"),
        "tangentbundle.a.x",
        "tangentbundle.a.y",
    }
    source = """
from __future__ import annotations
import numpy, tangentbundle.b
from typing import TYPE_CHECKING
from . import y
from ..c import ShapeError
from .. import d, scale
from tangentbundle.e import local_pca
if TYPE_CHECKING:
    from ..f import TangentBundle
def late():
    from ..g import Filter
"""
    used = {"tangentbundle", *(f"tangentbundle.{name}" for name in "bcdeg"), "tangentbundle.a.y"}
    assert imports(source, "tangentbundle.a.x", False, known) == used
    assert imports("from .x import z\nfrom ..b import z", "tangentbundle.a", True, known) == {
        "tangentbundle.a.x",
        "tangentbundle.b",
    }


def test_the_rules_can_fail():
    assert (
        later(
            "tangentbundle.geometry.graph",
            {"tangentbundle.errors", "tangentbundle.geometry.tree_search"},
        )
        == set()
    )
    assert later("tangentbundle.geometry.graph", {"tangentbundle.bundle"}) == {
        "tangentbundle.bundle"
    }
    assert later("tangentbundle.estimators.base", {"tangentbundle.earth"}) == {
        "tangentbundle.earth"
    }
    assert "tangentbundle.operators.storage" in LIBRARY["tangentbundle.operators.product"]
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
